//! `compare`: runs `bench-latency` and `bench-throughput` over every transport of the machine, by
//! turns over rounds, and joins their rows. A column is a transport with its settings.

mod column;
mod launch;
pub(super) mod row;
mod turn;

use core::time::Duration;
use std::process::ExitCode;

use clap::{Arg, Args, ValueEnum};
use probeline::transport::Alone;

use self::column::{Column, ColumnName};
use self::launch::{BENCHMARKS, Worker};
use self::row::CompareRow;
use crate::cli::{ChunkArgs, JobArgs, rounds, seconds};
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::job;
use crate::machine;
use crate::options::Options;
use crate::progress::Progress;
use crate::run_report::{Files, RunReport, fields};
use crate::table::AlgorithmArgs;

/// Options of jobs whose ranks others start. The command starts the ranks of all columns itself.
const RENDEZVOUS: [&str; 7] =
    ["two-nodes", "port", "exchange", "rendezvous", "rank", "secret-file", "allow-remote"];

/// Options that the columns determine.
const OF_COLUMNS: [&str; 2] = ["transport", "ucx-tls"];

#[derive(Args, Clone, Debug)]
#[command(mut_args(hide_refused))]
// Larger than the caches of a core, and small enough that filling a tenth of it, which some turns do,
// takes seconds over the slowest transport.
#[command(mut_arg("table_size_asked", |option| option.default_value("32MiB")))]
pub(crate) struct CompareArgs {
    /// Transports to compare [default: all of this machine, without sim]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME,...")]
    transports: Vec<ColumnName>,

    /// Builds of this command with --features mpi: openmpi=PATH or mpich=PATH [default: the folders
    /// openmpi and mpich beside that of this build]
    #[arg(long, value_name = "MPI=PATH")]
    worker: Vec<Worker>,

    #[command(flatten)]
    chunks: ChunkArgs,

    /// Rounds; the columns take turns at each benchmark, and medians are reported
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = rounds())]
    rounds: u32,

    /// Operations of each rank in each measurement
    #[arg(long, default_value_t = 50_000, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(20..))]
    ops: u32,

    /// Longest time of each measurement of latency, in seconds, 0.001 to 3600. Throughput is
    /// measured to its end
    #[arg(long, default_value_t = 0.05, value_name = "SECONDS", value_parser = seconds())]
    seconds_per_measurement: f64,

    /// Longest time of one run of a benchmark over one column, in seconds; then its processes are
    /// killed and the column has failed
    #[arg(long, default_value_t = 120, value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    step_timeout: u64,

    #[command(flatten)]
    algorithm: AlgorithmArgs,

    // Last, because its headings in the help apply to all options after them.
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

fn hide_refused(option: Arg) -> Arg {
    let mut refused = RENDEZVOUS.iter().chain(&OF_COLUMNS);
    let is_refused = option.get_long().is_some_and(|name| refused.any(|other| *other == name));
    option.hide(is_refused)
}

pub(crate) fn run(mut args: CompareArgs) -> Result<ExitCode> {
    args.resolve()?;
    let files = Files::open(&args.job.output, args.job.reports())?;
    // Created before the run, so that the reported load of the machine excludes it.
    let mut report = RunReport::new("compare");
    let mut columns = args.columns();
    let rows = row::compared(take_turns(&args, &mut columns)?);
    report.transport = columns.iter().map(Column::line).collect();
    report.columns = columns.iter().map(Column::value).collect();
    let verbs = columns.iter().find(|column| column.name == ColumnName::Verbs);
    let device = verbs.map(|column| machine::examine_device_in(&column.transport));
    report.doctor.extend(device.into_iter().flatten());
    report.sizes(&args.job);
    report.parameters(fields!(args.chunks; chunk_buckets, max_chunks));
    report.parameters(fields!(args; rounds, ops, seconds_per_measurement));
    report.summary = row::summary(&columns, &rows, args.job.ranks);
    if !rows.is_empty() {
        report.note(notes(&args));
    }
    let requested = columns.iter().filter(|column| column.requested);
    let failed: Vec<_> = requested.filter_map(Column::failure).collect();
    report.publish(files, &rows)?;
    match Interrupt::received() {
        Some(signal) => Ok(signal.exit_code()),
        None if failed.is_empty() => Ok(ExitCode::SUCCESS),
        None => Err(Failure::new(failed.join("; "))),
    }
}

impl CompareArgs {
    /// Checks the options and resolves their defaults.
    fn resolve(&mut self) -> Result<()> {
        let again = |at: &usize| self.transports[..*at].contains(&self.transports[*at]);
        if let Some(at) = (0..self.transports.len()).find(again) {
            let name = self.transports[at].name();
            return Err(Failure::usage(format!("--transports has {name} twice: leave out one")));
        }
        let given = RENDEZVOUS.into_iter().find(|name| Options::given().is_given(name));
        if given.is_some() || job::is_launched()? {
            let what = given.map_or("a launcher".to_owned(), |name| format!("--{name}"));
            return Err(Failure::usage(format!(
                "compare starts the ranks of all columns on this machine itself: start it without \
                 {what}. On two machines run bench-latency over each transport in turn"
            )));
        }
        let columns = self.columns();
        let transports: Vec<_> = columns.iter().map(|column| column.name.transport()).collect();
        self.job.resolve_columns(&transports, self.chunks.chunk_buckets)?;
        if self.job.ranks < 2 {
            return Err(Failure::usage(
                "operations on another rank's words need two ranks at least: --ranks 2",
            ));
        }
        Ok(())
    }

    /// Returns the columns, before any measurement.
    fn columns(&self) -> Vec<Column> {
        // The simulator is the last one.
        let [real @ .., ColumnName::Sim] = ColumnName::value_variants() else { return Vec::new() };
        let requested = !self.transports.is_empty();
        let names = if requested { &self.transports } else { real };
        names.iter().map(|&name| Column::new(name, requested)).collect()
    }
}

/// Runs every benchmark over every column in each round, the columns in turn, each round with
/// another first column. Stops at a signal.
fn take_turns(args: &CompareArgs, columns: &mut [Column]) -> Result<Vec<CompareRow>> {
    let mut rows = Vec::new();
    let folder =
        tempfile::Builder::new().prefix("probeline-compare-").tempdir().map_err(|error| {
            Failure::new(format!("no folder for temporary files: {error}: set TMPDIR"))
        })?;
    Interrupt::watch(&mut Alone)?;
    let steps = u64::from(args.rounds) * BENCHMARKS.len() as u64;
    let mut progress = Progress::new(steps * columns.len() as u64, true);
    let limit = Duration::from_secs(args.step_timeout);
    for round in 0..args.rounds as usize {
        let first = round % columns.len();
        for benchmark in &BENCHMARKS {
            for at in (first..columns.len()).chain(0..first) {
                let column = &mut columns[at];
                progress.advance(&format!("{} over {}", benchmark.name(), column.name.name()));
                if column.error.is_some() {
                    continue;
                }
                let result = launch::command(column.name, benchmark, args)
                    .and_then(|command| turn::run(command, folder.path(), limit));
                if Interrupt::received().is_some() {
                    return Ok(rows);
                }
                let taken = result.and_then(|report| column.take(benchmark, &report, &mut rows));
                column.error = taken
                    .err()
                    .map(|error| format!("in round {}, {}: {error}", round + 1, benchmark.name()));
            }
        }
    }
    Interrupt::stop_watching(&mut Alone)?;
    Ok(rows)
}

fn notes(args: &CompareArgs) -> Vec<String> {
    let rounds = args.rounds;
    let mut notes = vec![
        format!("x: time / time of the fastest column, median (min to max) of {rounds} rounds"),
        "READ, WRITE, CAS, FAA: p50 of bench-latency; found, inserted: mean of find-or-puts on all \
         ranks"
            .to_owned(),
        format!("mixed, read-, write-intensive: bench-throughput, {} ops of each rank", args.ops),
    ];
    if Interrupt::received().is_some() {
        notes.push("interrupted: rows have the rounds until then".to_owned());
    }
    notes
}
