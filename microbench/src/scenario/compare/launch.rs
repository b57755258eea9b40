//! The command that starts a column's ranks.

use core::str::FromStr;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::column::{ColumnName, Launcher};
use crate::options::Options;

/// Options of this command that the ranks of its columns do not get, or get with other values.
const OWN_OPTIONS: [&str; 14] = [
    "columns",
    "worker",
    "rounds",
    "json",
    "csv",
    "markdown",
    "ranks",
    "table-size",
    "seed",
    "ops",
    "seconds-per-measurement",
    "sleep",
    "step-timeout",
    "collective-timeout",
];

/// A build of this command for one MPI library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Worker {
    mpi: Mpi,
    path: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mpi {
    Open,
    Mpich,
}

impl FromStr for Worker {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mpi, path) = text.split_once('=').unwrap_or((text, ""));
        let mpi = match mpi {
            "openmpi" => Mpi::Open,
            "mpich" => Mpi::Mpich,
            _ => return Err("write openmpi=PATH or mpich=PATH".to_owned()),
        };
        if path.is_empty() {
            return Err("the path of a build with --features mpi is missing".to_owned());
        }
        Ok(Self { mpi, path: path.into() })
    }
}

impl Mpi {
    fn name(self) -> &'static str {
        match self {
            Self::Open => "openmpi",
            Self::Mpich => "mpich",
        }
    }

    /// Returns the names that distributions and source builds give the launcher.
    fn launchers(self) -> [&'static str; 2] {
        match self {
            Self::Open => ["mpirun.openmpi", "mpirun"],
            Self::Mpich => ["mpiexec.mpich", "mpiexec.hydra"],
        }
    }

    fn launcher(self) -> Result<PathBuf, String> {
        let paths = env::var_os("PATH").unwrap_or_default();
        let found = self.launchers().into_iter().find_map(|name| {
            env::split_paths(&paths).map(|folder| folder.join(name)).find(|path| path.is_file())
        });
        found.ok_or_else(|| {
            let [first, second] = self.launchers();
            format!("neither {first} nor {second} is in PATH: install the library's programs")
        })
    }

    /// Returns the build from `--worker` for it, or the build in the folder next to that of this
    /// program.
    fn worker(self, given: &[Worker]) -> Result<PathBuf, String> {
        if let Some(worker) = given.iter().find(|worker| worker.mpi == self) {
            let there = worker.path.is_file();
            let missing = || format!("--worker: there is no file {}", worker.path.display());
            return there.then(|| worker.path.clone()).ok_or_else(missing);
        }
        let name = self.name();
        let beside = env::current_exe().ok().and_then(|exe| beside(&exe, name));
        beside.filter(|path| path.is_file()).ok_or_else(|| {
            format!(
                "there is no build for it: `just compare` makes one, or cargo build --release \
                 --config ucx-shim/{name}.toml --features mpi --target-dir target/{name}; --worker \
                 {name}=PATH says where another one is"
            )
        })
    }
}

/// Returns the path of the build for an MPI library if this program is `exe`.
fn beside(exe: &Path, mpi: &str) -> Option<PathBuf> {
    let folder = exe.parent()?.parent()?;
    Some(folder.join(mpi).join("release").join(exe.file_name()?))
}

/// Returns the command that starts rank 0 of a column, or a launcher that starts all ranks. The
/// error states what is missing. `given` are the options of this process, `more` those for all
/// columns.
pub(super) fn command(
    column: ColumnName,
    ranks: u32,
    workers: &[Worker],
    given: &Options,
    more: &[String],
) -> Result<Command, String> {
    let mut command = match column.launcher() {
        Launcher::Own => {
            let exe = env::current_exe().map_err(|error| format!("this program: {error}"))?;
            Command::new(exe)
        }
        Launcher::OpenMpi(parameters) => {
            let mut command = Command::new(Mpi::Open.launcher()?);
            // In all columns, ranks pin themselves and do not yield while they poll.
            command.args(["--oversubscribe", "--bind-to", "none", "-n", &ranks.to_string()]);
            command.args(["--mca", "mpi_yield_when_idle", "0"]);
            for (name, value) in parameters {
                command.args(["--mca", name, value]);
            }
            command.arg(Mpi::Open.worker(workers)?);
            command
        }
        Launcher::Mpich => {
            let mut command = Command::new(Mpi::Mpich.launcher()?);
            command.args(["-n", &ranks.to_string()]).arg(Mpi::Mpich.worker(workers)?);
            command
        }
    };
    command.args(["compare", "--serve"]).args(column.options()).args(more);
    command.args(forwarded(given, column));
    Ok(command)
}

/// Returns the arguments to pass on to the ranks of a column: neither this command's own options
/// nor those of other transports.
fn forwarded(given: &Options, column: ColumnName) -> Vec<OsString> {
    let of_column = |name: &str| {
        let transports = of_transport(name);
        transports.is_none_or(|its| its.contains(&column.transport()))
            && !column.options().contains(&&*format!("--{name}"))
    };
    given.clone().only(|name| of_column(name) && !OWN_OPTIONS.contains(&name)).to_argv()
}

/// Returns the transports that have an option, or `None` if all have it.
fn of_transport(option: &str) -> Option<&'static [&'static str]> {
    match option {
        "device" | "ib-port" | "gid-index" | "pkey-index" | "service-level" | "traffic-class"
        | "timeout" | "retries" => Some(&["verbs"]),
        "sim-model" | "sim-roundtrip-ns" | "sim-profile" | "sim-ranks-per-machine" => {
            Some(&["sim"])
        }
        // MPI connects its ranks itself, and the simulator has all of them in one process.
        "exchange" | "secret-file" | "meet-timeout" => Some(&["shm", "verbs", "ucx"]),
        "pin" | "huge-pages" => Some(&["shm", "verbs", "ucx", "mpi"]),
        _ if option.starts_with("ucx-") => Some(&["ucx"]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::tests::parsed;

    fn kept(line: &str, column: ColumnName) -> String {
        let words: Vec<&str> = ["compare"].into_iter().chain(line.split_whitespace()).collect();
        let kept = forwarded(&parsed(&words).unwrap(), column);
        kept.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ranks_get_the_options_of_their_transport() {
        let line = "--columns shm,verbs --device=rxe0 --quick --pin none -C 8 --ranks 2 --json a \
                    --sim-roundtrip-ns 5 --direct off --ucx-device rxe0:1 --meet-timeout 9";
        let all = "--chunk-buckets 8 --quick --direct off";
        for (column, expected) in [
            (ColumnName::Shm, format!("{all} --meet-timeout 9 --pin none")),
            (ColumnName::ShmPosted, "--chunk-buckets 8 --quick --meet-timeout 9 --pin none".into()),
            (ColumnName::Verbs, format!("{all} --meet-timeout 9 --pin none --device rxe0")),
            (ColumnName::Sim, format!("{all} --sim-roundtrip-ns 5")),
            (ColumnName::UcxRc, format!("{all} --meet-timeout 9 --pin none --ucx-device rxe0:1")),
            (ColumnName::OscSm, format!("{all} --pin none")),
        ] {
            assert_eq!(kept(line, column), expected);
        }
    }

    #[test]
    fn workers_are_named_by_their_library() {
        let worker = Worker { mpi: Mpi::Open, path: "a=b".into() };
        assert_eq!("openmpi=a=b".parse(), Ok(worker));
        for text in ["", "openmpi", "mpich=", "other=a"] {
            assert!(text.parse::<Worker>().is_err(), "{text}");
        }
        let expected = Path::new("target/mpich/release/probeline").to_owned();
        assert_eq!(beside(Path::new("target/release/probeline"), "mpich"), Some(expected));
    }
}
