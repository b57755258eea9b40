//! The command that runs a benchmark over a column.

use core::str::FromStr;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::CompareArgs;
use super::benchmark::Benchmark;
use super::column::ColumnName;
use crate::cli::heading;
use crate::options::Options;

/// A build of this command for one MPI library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Worker {
    mpi: &'static Mpi,
    path: PathBuf,
}

/// An MPI library.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mpi {
    name: &'static str,
    /// The names of its launcher in distributions and in source builds.
    launchers: [&'static str; 2],
    options: &'static [&'static str],
}

pub(super) static OPEN_MPI: Mpi = Mpi {
    name: "openmpi",
    launchers: ["mpirun.openmpi", "mpirun"],
    // In all columns, ranks pin themselves and do not yield while they poll.
    options: &["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "0"],
};
pub(super) static MPICH: Mpi =
    Mpi { name: "mpich", launchers: ["mpiexec.mpich", "mpiexec.hydra"], options: &[] };

impl FromStr for Worker {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mpi, path) = text.split_once('=').unwrap_or((text, ""));
        let mpi = [&OPEN_MPI, &MPICH].into_iter().find(|known| known.name == mpi);
        let mpi = mpi.ok_or("write openmpi=PATH or mpich=PATH")?;
        if path.is_empty() {
            return Err("the path of a build with --features mpi is missing".to_owned());
        }
        Ok(Self { mpi, path: path.into() })
    }
}

impl Mpi {
    fn launcher(&self) -> Result<PathBuf, String> {
        let paths = env::var_os("PATH").unwrap_or_default();
        let [first, second] = self.launchers;
        let folders = || env::split_paths(&paths);
        let mut files = folders().map(|folder| folder.join(first));
        let file = files
            .find(|path| path.is_file())
            .or_else(|| folders().map(|folder| folder.join(second)).find(|path| path.is_file()));
        file.ok_or_else(|| {
            format!("neither {first} nor {second} is in PATH: install the library's programs")
        })
    }

    /// Returns the build from `--worker` for it, or the build in the folder next to that of this
    /// program.
    fn worker(&self, given: &[Worker]) -> Result<PathBuf, String> {
        let given = given.iter().find(|worker| *worker.mpi == *self);
        let given = given.map(|worker| worker.path.clone());
        let path = given.or_else(|| beside(&env::current_exe().ok()?, self.name));
        path.filter(|path| path.is_file()).ok_or_else(|| {
            let name = self.name;
            format!(
                "there is no build for it: `just compare` makes one, or cargo build --release \
                 --config ucx-shim/{name}.toml --features mpi --target-dir target/{name}; --worker \
                 {name}=PATH says where another one is"
            )
        })
    }
}

fn beside(exe: &Path, mpi: &str) -> Option<PathBuf> {
    let folder = exe.parent()?.parent()?;
    Some(folder.join(mpi).join("release").join(exe.file_name()?))
}

pub(super) fn command(
    column: ColumnName,
    benchmark: &Benchmark,
    args: &CompareArgs,
) -> Result<Command, String> {
    let mut command = match column.mpi() {
        None => Command::new(env::current_exe().map_err(|error| format!("this program: {error}"))?),
        Some((mpi, parameters)) => {
            let mut command = Command::new(mpi.launcher()?);
            command.args(mpi.options).args(["-n", &args.job.ranks.to_string()]);
            for (name, value) in parameters {
                command.args(["--mca", name, value]);
            }
            command.arg(mpi.worker(&args.worker)?);
            command
        }
    };
    let mut options = column_options(&args.job.options, column);
    for (name, value) in benchmark.options(args) {
        options.set(name, value);
    }
    command.arg(benchmark.command).args(options.to_argv());
    Ok(command)
}

/// Returns the options of a column: those that the user gave for tables and for its transport, and
/// its own ones.
fn column_options(given: &Options, column: ColumnName) -> Options {
    let of_transports = heading::OF_TRANSPORTS.iter();
    let its = of_transports.filter(|(_, of)| of.contains(&column.transport()));
    let its: Vec<&str> = its.map(|(heading, _)| *heading).chain([heading::LATENCY]).collect();
    let mut options = given.clone().under(&its);
    for (name, value) in column.options() {
        options.set(name, *value);
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::tests::parsed;

    fn kept(line: &str, column: ColumnName) -> String {
        let words: Vec<&str> = ["compare"].into_iter().chain(line.split_whitespace()).collect();
        let kept = column_options(&parsed(&words).unwrap(), column).to_argv();
        kept.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn passes_only_transport_options() {
        let line = "--columns shm,verbs --device=rxe0 --step-timeout 5 --pin none -C 8 --json a \
                    --sim-roundtrip-ns 5 --direct on --ucx-device rxe0:1 --rendezvous-timeout 9";
        let all = "--direct";
        for (column, expected) in [
            (
                ColumnName::Shm,
                format!("{all} on --rendezvous-timeout 9 --pin none --transport shm"),
            ),
            (
                ColumnName::ShmPosted,
                format!("{all} off --rendezvous-timeout 9 --pin none --transport shm"),
            ),
            (
                ColumnName::Verbs,
                format!(
                    "{all} on --rendezvous-timeout 9 --pin none --device rxe0 --transport verbs"
                ),
            ),
            (ColumnName::Sim, format!("{all} on --sim-roundtrip-ns 5 --transport sim")),
            (
                ColumnName::UcxRc,
                format!(
                    "{all} on --rendezvous-timeout 9 --pin none --ucx-device rxe0:1 --transport ucx \
                     --ucx-tls rc,self"
                ),
            ),
            (ColumnName::OscSm, format!("{all} on --pin none --transport mpi")),
        ] {
            assert_eq!(kept(line, column), expected);
        }
    }

    #[test]
    fn names_workers_by_library() {
        let worker = Worker { mpi: &OPEN_MPI, path: "a=b".into() };
        assert_eq!("openmpi=a=b".parse(), Ok(worker));
        for text in ["", "openmpi", "mpich=", "other=a"] {
            assert!(text.parse::<Worker>().is_err(), "{text}");
        }
        let expected = Path::new("target/mpich/release/probeline").to_owned();
        assert_eq!(beside(Path::new("target/release/probeline"), "mpich"), Some(expected));
    }
}
