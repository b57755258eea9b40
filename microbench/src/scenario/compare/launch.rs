//! The benchmarks that each column runs, and the command that runs one over a column.

use core::str::FromStr;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::CompareArgs;
use super::column::ColumnName;
use crate::cli::heading;
use crate::options::Options;

/// The unit of times; the other one is of rates.
pub(super) const NS: &str = "ns";
/// The share of the table that holds keys when find-or-puts are timed one by one.
const LOAD_FACTOR: &str = "0.1";
const WORKLOADS: &str = "mixed,read-intensive,write-intensive";
/// Options whose values, given or by default, are those of each benchmark too.
const SHARED: [&str; 6] = ["ranks", "table-size", "chunk-buckets", "max-chunks", "ops", "seed"];

/// A command of this program, and the fields of its rows that are compared.
pub(super) struct Benchmark {
    command: &'static str,
    /// Distinguishes the rows of two runs of the same command.
    how: &'static str,
    /// The field that names a row.
    key: &'static str,
    /// Returns the value of a row that is compared.
    value: fn(&Value) -> &Value,
    pub(super) unit: &'static str,
    /// A further option whose value is shared.
    shared: &'static [&'static str],
    /// Options of this run.
    options: &'static [(&'static str, &'static str)],
}

pub(super) const BENCHMARKS: [Benchmark; 3] = [
    Benchmark {
        command: "bench-latency",
        how: "",
        key: "operation",
        value: latency,
        unit: NS,
        shared: &["seconds-per-measurement"],
        options: &[("load-factor", LOAD_FACTOR), ("rounds", "1")],
    },
    Benchmark {
        how: ", one at a time",
        options: &[("workload", WORKLOADS), ("rounds", "1"), ("batch", "1")],
        ..BATCHES
    },
    BATCHES,
];

const BATCHES: Benchmark = Benchmark {
    command: "bench-throughput",
    how: ", in batches",
    key: "workload",
    value: |row| &row["median_ops_per_s"],
    unit: "ops/s",
    shared: &[],
    options: &[("workload", WORKLOADS), ("rounds", "1")],
};

/// Returns the p50, or the mean of find-or-puts: part of these are on the rank's own words, and with
/// two ranks the p50 is between both parts.
fn latency(row: &Value) -> &Value {
    if row["load_factor"].is_null() { &row["p50_ns"] } else { &row["mean_ns"] }
}

impl Benchmark {
    pub(super) fn name(&self) -> String {
        format!("{}{}", self.command, self.how)
    }

    /// Returns the name and the figure of a row of this benchmark. Floors are the same operations as
    /// READ and CAS, and are left out.
    pub(super) fn figure(&self, row: &Value) -> Option<(String, f64)> {
        let name = row[self.key].as_str().filter(|name| !name.starts_with("floor"))?;
        Some((format!("{name}{}", self.how), (self.value)(row).as_f64()?))
    }
}

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
        let find = |name: &str| {
            env::split_paths(&paths).map(|folder| folder.join(name)).find(|path| path.is_file())
        };
        let [first, second] = self.launchers;
        find(first).or_else(|| find(second)).ok_or_else(|| {
            format!("neither {first} nor {second} is in PATH: install the library's programs")
        })
    }

    /// Returns the build from `--worker` for it, or the build in the folder next to that of this
    /// program.
    fn worker(&self, given: &[Worker]) -> Result<PathBuf, String> {
        let given = given.iter().find(|worker| *worker.mpi == *self);
        let given = given.map(|worker| worker.path.clone());
        let path = given.or_else(|| worker_path(&env::current_exe().ok()?, self.name));
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

fn worker_path(exe: &Path, mpi: &str) -> Option<PathBuf> {
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
    let shared = [&SHARED, benchmark.shared].concat();
    let mut options = column_options(Options::given(), column, &shared);
    for (name, value) in benchmark.options {
        options.set(name, *value);
    }
    command.arg(benchmark.command).args(options.to_argv());
    Ok(command)
}

/// Returns the options of a column: the shared ones, those that the user gave for tables and for its
/// transport, and its own ones.
fn column_options(given: &Options, column: ColumnName, shared: &[&str]) -> Options {
    let of_transports = heading::OF_TRANSPORTS.iter();
    let its = of_transports.filter(|(_, of)| of.contains(&column.transport()));
    let its: Vec<&str> = its.map(|(heading, _)| *heading).chain([heading::LATENCY]).collect();
    let mut options = given.clone().selected(shared, &its);
    for (name, value) in column.options() {
        options.set(name, *value);
    }
    options
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::options::tests::parsed;

    fn kept(line: &str, column: ColumnName) -> String {
        let words: Vec<&str> = ["compare"].into_iter().chain(line.split_whitespace()).collect();
        let kept = column_options(&parsed(&words).unwrap(), column, &[]).to_argv();
        kept.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn passes_only_transport_options() {
        let line = "--transports shm,verbs --device=rxe0 --step-timeout 5 --pin none -C 8 --json a \
                    --sim-roundtrip-ns 5 --direct on --ucx-device rxe0:1 --rendezvous-timeout 9";
        let all = "--rendezvous-timeout 9 --pin none";
        let ucx = "--ucx-device rxe0:1 --transport ucx --ucx-tls rc,self";
        for (column, expected) in [
            (ColumnName::Shm, format!("on {all} --transport shm")),
            (ColumnName::ShmPosted, format!("off {all} --transport shm")),
            (ColumnName::Verbs, format!("on {all} --device rxe0 --transport verbs")),
            (ColumnName::Sim, "on --sim-roundtrip-ns 5 --transport sim".to_owned()),
            (ColumnName::UcxRc, format!("on {all} {ucx}")),
            (ColumnName::OscSm, "on --pin none --transport mpi".to_owned()),
        ] {
            assert_eq!(kept(line, column), format!("--direct {expected}"));
        }
        assert_eq!(kept("--paper", ColumnName::Sim), "--paper --transport sim");
    }

    #[test]
    fn names_workers_by_library() {
        let worker = Worker { mpi: &OPEN_MPI, path: "a=b".into() };
        assert_eq!("openmpi=a=b".parse(), Ok(worker));
        for text in ["", "openmpi", "mpich=", "other=a"] {
            assert!(text.parse::<Worker>().is_err(), "{text}");
        }
        let expected = Path::new("target/mpich/release/probeline").to_owned();
        assert_eq!(worker_path(Path::new("target/release/probeline"), "mpich"), Some(expected));
    }

    #[test]
    fn names_figures_by_row() {
        let [latency, blocking, _] = &BENCHMARKS;
        let row = |name: &str, load_factor: Option<f64>| json!({ "operation": name, "load_factor": load_factor, "p50_ns": 120, "mean_ns": 140.5 });
        assert_eq!(latency.figure(&row("READ 8 B", None)), Some(("READ 8 B".to_owned(), 120.0)));
        assert_eq!(latency.figure(&row("found", Some(0.1))), Some(("found".to_owned(), 140.5)));
        assert_eq!(latency.figure(&row("floor READ 64 B", None)), None);
        let row = json!({ "workload": "mixed", "median_ops_per_s": 5e6 });
        assert_eq!(blocking.figure(&row), Some(("mixed, one at a time".to_owned(), 5e6)));
    }

    #[test]
    fn shares_values_with_benchmarks() {
        let given = parsed(&["compare", "--ops", "70", "--rounds", "3"]).unwrap();
        let argv = column_options(&given, ColumnName::Shm, &SHARED).to_argv();
        let words = argv.join(std::ffi::OsStr::new(" ")).into_string().unwrap();
        for option in ["--ops 70", "--table-size 32MiB", "--chunk-buckets 32", "--seed 1"] {
            assert!(words.contains(option), "{words}");
        }
        assert!(!words.contains("--rounds"), "{words}");
    }
}
