//! The programs that guests run, built by cargo on the host.

use core::time::Duration;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::tool::Tool;

const LIMIT: Duration = Duration::from_secs(1200);

/// Has cargo link with Open MPI; in the folder of the workspace.
const OPEN_MPI: &str = "ucx-shim/openmpi.toml";

/// What cargo has to build before a case can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// `cargo build --release` with these arguments: see [`program`] and [`example`].
    Release(&'static [&'static str]),
    /// The test programs of a package: see [`test_programs`].
    Tests(&'static str),
    /// The tests of MPI as a transport, over Open MPI.
    OpenMpiTests,
    /// `probeline` with Open MPI as a transport, not optimised: as its own tests of MPI are built.
    OpenMpiProbeline,
    /// The same with optimisation, for benchmarks.
    OpenMpiProbelineRelease,
}

impl Build {
    pub(crate) fn make(self) -> Result<(), Error> {
        match self {
            Self::Release(arguments) => {
                let cargo = cargo("build")?.arg("--release").args(arguments);
                cargo.shown().run(LIMIT).map(|_| ())
            }
            Self::Tests(package) => test_programs(package).map(|_| ()),
            Self::OpenMpiTests => open_mpi_tests().map(|_| ()),
            Self::OpenMpiProbeline => {
                // What `ucx-shim/check-mpi` builds, to the word, so that it is built once.
                let tests = ["--no-run", "--bin", "probeline", "--test", "refusals"];
                open_mpi_cargo("test")?.arg("--workspace").args(tests).run(LIMIT).map(|_| ())
            }
            Self::OpenMpiProbelineRelease => {
                let probeline = ["--release", "--package", "probeline-cli"];
                open_mpi_cargo("build")?.args(probeline).run(LIMIT).map(|_| ())
            }
        }
    }
}

/// Cargo for `probeline` with Open MPI: with a folder for the program, whose name is taken; what it
/// is made of is shared.
fn open_mpi_cargo(command: &str) -> Result<Tool, Error> {
    let shared = format!("CARGO_BUILD_BUILD_DIR={}", target_dir()?.display());
    let with = Tool::new("env").arg(shared).arg(cargo_program());
    let cargo = cargo_into(&open_mpi_dir()?, with, command);
    Ok(cargo.args(["--config", OPEN_MPI, "--features", "probeline-cli/mpi"]).shown())
}

/// A program of the workspace, built with [`Build::Release`], as the shell of a guest calls it.
///
/// # Errors
/// The folder of builds is not known.
pub fn program(name: &str) -> Result<String, Error> {
    Ok(quoted(&target_dir()?.join("release").join(name)))
}

/// An example of a package, built with [`Build::Release`], as the shell of a guest calls it.
///
/// # Errors
/// The folder of builds is not known.
pub fn example(name: &str) -> Result<String, Error> {
    Ok(quoted(&target_dir()?.join("release/examples").join(name)))
}

/// The test programs of a package, as the shell of a guest calls them; built unless they are.
///
/// # Errors
/// What cargo said.
pub fn test_programs(package: &str) -> Result<Vec<String>, Error> {
    let cargo = cargo("test")?.args(["--package", package]);
    built(cargo)
}

/// The program that tests MPI as a transport, built for Open MPI, as the shell of a guest calls it.
///
/// # Errors
/// What cargo said.
pub(crate) fn open_mpi_tests() -> Result<String, Error> {
    let cargo = cargo("test")?.args(["--config", OPEN_MPI, "--features", "mpi"]);
    let cargo = cargo.args(["--package", "probeline-ucx-shim"]);
    let programs = built(cargo.args(["--test", "mpi"]))?;
    Ok(programs.into_iter().next().unwrap_or_default())
}

/// The program of [`Build::OpenMpiProbeline`], or of [`Build::OpenMpiProbelineRelease`], as the
/// shell of a guest calls it.
///
/// # Errors
/// The folder of builds is not known.
pub(crate) fn open_mpi_probeline(build: Build) -> Result<String, Error> {
    let folder = if build == Build::OpenMpiProbelineRelease { "release" } else { "debug" };
    Ok(quoted(&open_mpi_dir()?.join(folder).join("probeline")))
}

/// The test programs that `cargo test` builds.
fn built(cargo: Tool) -> Result<Vec<String>, Error> {
    let messages = cargo.args(["--no-run", "--message-format=json"]).shown().run(LIMIT)?;
    let field = "\"executable\":\"";
    let paths =
        messages.lines().filter(|line| line.contains("\"test\":true}")).filter_map(|line| {
            let (_, rest) = line.split_once(field)?;
            rest.split_once('"').map(|(path, _)| quoted(Path::new(path)))
        });
    Ok(paths.collect())
}

/// Where cargo builds: as the environment says, or beside the workspace.
pub(crate) fn target_dir() -> Result<PathBuf, Error> {
    let set = env::var_os("CARGO_TARGET_DIR").filter(|dir| !dir.is_empty());
    let dir = set.map_or_else(|| workspace().join("target"), PathBuf::from);
    std::path::absolute(&dir).map_err(Error::io(format!("finding {}", dir.display())))
}

fn workspace() -> PathBuf {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_dir.parent().unwrap_or(crate_dir).to_owned()
}

/// Where programs are that are linked with Open MPI, beside those of the same names that are not.
fn open_mpi_dir() -> Result<PathBuf, Error> {
    Ok(target_dir()?.join("openmpi"))
}

fn cargo(command: &str) -> Result<Tool, Error> {
    Ok(cargo_into(&target_dir()?, Tool::new(cargo_program()), command))
}

fn cargo_into(dir: &Path, cargo: Tool, command: &str) -> Tool {
    cargo.args([command, "--quiet", "--target-dir"]).arg(dir).dir(&workspace())
}

fn cargo_program() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}
