//! The programs that guests run, built by cargo on the host.

use core::time::Duration;
use std::env;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::tool::Tool;

const LIMIT: Duration = Duration::from_secs(1200);

/// What cargo has to build before a case can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// `cargo build --release` with these arguments: see [`program`] and [`example`].
    Release(&'static [&'static str]),
    /// The test programs of a package: see [`test_programs`].
    Tests(&'static str),
}

impl Build {
    pub(crate) fn make(self) -> Result<(), Error> {
        match self {
            Self::Release(arguments) => {
                let cargo = cargo("build")?.arg("--release").args(arguments);
                cargo.shown().run(LIMIT).map(|_| ())
            }
            Self::Tests(package) => test_programs(package).map(|_| ()),
        }
    }
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
    let cargo = cargo("test")?.args(["--no-run", "--message-format=json"]);
    let messages = cargo.args(["--package", package]).shown().run(LIMIT)?;
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

fn cargo(command: &str) -> Result<Tool, Error> {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let cargo = Tool::new(program).args([command, "--quiet", "--target-dir"]);
    Ok(cargo.arg(target_dir()?).dir(&workspace()))
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}
