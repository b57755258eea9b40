//! The programs that guests run, built by cargo on the host.

use core::time::Duration;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::case::Mode;
use crate::tool::Tool;

const BUILD_TIMEOUT: Duration = Duration::from_secs(1200);

/// Options of cargo that link with Open MPI. The whole workspace, so that cargo enables the same features as
/// for all tests.
const WITH_OPEN_MPI: &str =
    "--config ucx-shim/openmpi.toml --workspace --features probeline-cli/mpi,probeline-capi/mpi";

/// A build by cargo that a case needs before it can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    /// `probeline` as the tests run it: see [`program`].
    Probeline,
    /// The example [`TRIAL`], optimized: see [`program`].
    Trial,
    /// The example of the C interface: see [`C_EXAMPLE`].
    CExample,
    /// The test programs of a package: see [`test_programs`].
    Tests(&'static str),
    /// The tests of MPI as a transport, linked with Open MPI: see [`open_mpi_tests`].
    OpenMpiTests,
    /// `probeline` linked with Open MPI, optimized for a benchmark: see [`open_mpi_probeline`].
    OpenMpiProbeline,
}

/// The example of this package that runs the library: see [`program`].
pub(crate) const TRIAL: &str = "examples/trial";

/// Options of cargo for what `cargo test --workspace` builds too. The example enables the features that
/// tests need, which would otherwise be another build.
const AS_TESTED: &str = "--profile test --workspace --example trial";

/// Options of cargo for optimized programs. Selects the same packages as `ci/posted-cost`, so that cargo
/// enables the same features and shares their dependencies.
const OPTIMIZED: &str = "--release --package probeline-testbed --package probeline-capi";

impl Build {
    pub(crate) fn run(self, mode: Mode) -> Result<()> {
        let cargo = match self {
            Self::Probeline => {
                cargo("build")?.args(AS_TESTED.split(' ')).args(["--bin", "probeline"])
            }
            Self::Trial => cargo("build")?.args(OPTIMIZED.split(' ')).args(["--example", "trial"]),
            Self::CExample => return build_c_example(),
            Self::Tests(package) => return test_programs(package).map(drop),
            Self::OpenMpiTests => return open_mpi_tests().map(drop),
            // The same arguments as in `ucx-shim/check-mpi`, so that both share one build.
            Self::OpenMpiProbeline if mode == Mode::Test => open_mpi_cargo("test")?.args([
                "--no-run",
                "--bin",
                "probeline",
                "--test",
                "command",
            ]),
            Self::OpenMpiProbeline => {
                open_mpi_cargo("build")?.args(["--release", "--bin", "probeline"])
            }
        };
        cargo.with_messages().run(BUILD_TIMEOUT).map(drop)
    }
}

/// Returns the path of a program built with [`Build::Probeline`], [`Build::Trial`] or
/// [`Build::CExample`], quoted for a shell.
pub(crate) fn program(name: &str) -> Result<String> {
    let profile = if name == "probeline" { "debug" } else { "release" };
    Ok(quote(&target_dir()?.join(profile).join(name)))
}

/// The name of the program of [`Build::CExample`] beside those of cargo: see [`program`].
pub(crate) const C_EXAMPLE: &str = "probeline-c-example";
/// Libraries that the static library needs, as capi/install says.
const C_LIBRARIES: [&str; 6] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];

fn build_c_example() -> Result<()> {
    let cargo = cargo("build")?.args(OPTIMIZED.split(' ')).args(["--lib", "--example", "trial"]);
    cargo.with_messages().run(BUILD_TIMEOUT)?;
    let built = target_dir()?.join("release");
    let compiler = Tool::new("cc").args(["-std=c99", "-O1", "-I", "capi/include", "-o"]);
    let compiler = compiler.arg(built.join(C_EXAMPLE)).arg("capi/examples/probeline.c");
    let compiler = compiler.arg(built.join("libprobeline_capi.a")).args(C_LIBRARIES);
    compiler.dir(&workspace()).run(BUILD_TIMEOUT).map(drop)
}

/// Builds the test programs of a package; their paths, quoted for a shell.
pub(crate) fn test_programs(package: &str) -> Result<Vec<String>> {
    build_tests(cargo("test")?.args(["--package", package]))
}

/// Builds the program that tests MPI as a transport over Open MPI; its path, quoted for a shell.
pub(crate) fn open_mpi_tests() -> Result<String> {
    // The same arguments as in `ucx-shim/check-mpi`.
    let cargo = cargo("test")?.args(WITH_OPEN_MPI.split(' ')).args(["--test", "mpi"]);
    build_tests(cargo)?.into_iter().next().context("cargo built no test program of MPI")
}

/// Returns the path of the program of [`Build::OpenMpiProbeline`], quoted for a shell.
pub(crate) fn open_mpi_probeline(mode: Mode) -> Result<String> {
    let profile = if mode == Mode::Bench { "release" } else { "debug" };
    Ok(quote(&open_mpi_dir()?.join(profile).join("probeline")))
}

fn build_tests(cargo: Tool) -> Result<Vec<String>> {
    let cargo = cargo.args(["--no-run", "--message-format=json"]).with_messages();
    let messages = cargo.run(BUILD_TIMEOUT)?;
    let tests = messages.lines().filter(|line| line.contains("\"test\":true}"));
    let paths = tests.filter_map(|line| {
        let (_, rest) = line.split_once("\"executable\":\"")?;
        rest.split_once('"').map(|(path, _)| quote(Path::new(path)))
    });
    Ok(paths.collect())
}

/// Returns the folder that cargo builds in: `CARGO_TARGET_DIR`, or `target` of the workspace.
pub(crate) fn target_dir() -> Result<PathBuf> {
    let set = env::var_os("CARGO_TARGET_DIR").filter(|dir| !dir.is_empty());
    let dir = set.map_or_else(|| workspace().join("target"), PathBuf::from);
    std::path::absolute(&dir).with_context(|| format!("finding {}", dir.display()))
}

fn workspace() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_owned()
}

/// Returns the folder of programs that are linked with Open MPI, beside those of the same names that
/// are not.
fn open_mpi_dir() -> Result<PathBuf> {
    Ok(target_dir()?.join("openmpi"))
}

fn cargo(command: &str) -> Result<Tool> {
    Ok(cargo_into(&target_dir()?, Tool::new(cargo_program()), command))
}

/// Returns Cargo for `probeline` linked with Open MPI. Programs go to [`open_mpi_dir`], their
/// intermediate files to the shared build folder.
fn open_mpi_cargo(command: &str) -> Result<Tool> {
    let shared = format!("CARGO_BUILD_BUILD_DIR={}", target_dir()?.display());
    let with_env = Tool::new("env").arg(shared).arg(cargo_program());
    let cargo = cargo_into(&open_mpi_dir()?, with_env, command);
    Ok(cargo.args(WITH_OPEN_MPI.split(' ')))
}

fn cargo_into(dir: &Path, cargo: Tool, command: &str) -> Tool {
    cargo.args([command, "--quiet", "--target-dir"]).arg(dir).dir(&workspace())
}

fn cargo_program() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn quote(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}
