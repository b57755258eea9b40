//! `compare`: one-sided operations and the table over every transport that is here, side by side in
//! one run. Each column is a job of its own, whose ranks sleep while the others have their turns.

mod aims;
mod bench;
mod column;
mod crew;
mod director;
mod group;
mod launch;
mod meeting;
mod order;
mod plan;
mod primitive;
mod row;
mod sample;
mod standing;
mod summary;
mod together;
mod watchdog;

use core::time::Duration;

use clap::{Args, ValueEnum};
use probeline_table::{Config, Operation, Table};

use self::column::ColumnName;
use self::launch::Worker;
use self::meeting::Meeting;
use self::row::rows;
use self::standing::Standing;
use super::latency::{peer, seconds};
use crate::checkup::{Checkup, Device};
use crate::cli::{ChunkArgs, JobArgs, TransportName};
use crate::failure::{Failure, Result};
use crate::job::{self, Shape};
use crate::means::{self, AlgorithmArgs, End, MeansTable};
use crate::report::{Files, Report};
use crate::size::Size;
use crate::timed::Timed;
use probeline_results::Note;

/// All ranks together, if nothing else was asked; the second where they are of several machines.
const TABLE_SIZE: Size = Size::mib(64);
const TABLE_SIZE_APART: Size = Size::mib(1);
const TABLE_SIZE_HELP: &str = "Memory for the table's buckets, all ranks together: 64MiB without \
                               it, or 1MiB where all columns are in one job";
/// Seconds for the ranks of a column to meet and open their engines, if nothing else was asked.
const MEET_S: u64 = 60;
/// The longest READ that is measured.
const MOST_WORDS: u32 = 512;
/// Operations in one call where they are pipelined, and of them in flight where they are done by
/// READs and claims.
const BATCH: usize = 64;
const IN_FLIGHT: u32 = 32;

#[derive(Args, Clone, Debug)]
// Its columns say what it runs over; these are refused, but their ranks are given them.
#[command(mut_arg("transport_asked", |option| option.hide(true)))]
#[command(mut_arg("ucx_tls", |option| option.hide(true)))]
#[command(mut_arg("table_size_asked", |option| option.help(TABLE_SIZE_HELP)))]
pub(crate) struct CompareArgs {
    /// What stands side by side: all but sim that this machine has without it. Ranks that a
    /// launcher has started, that meet at --rendezvous or are --two-nodes have an engine of each in
    /// one job, and need it
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME,...")]
    columns: Vec<ColumnName>,

    /// Builds of this command with --features mpi, openmpi=PATH or mpich=PATH: openmpi and mpich
    /// beside this one's folder without it
    #[arg(long, value_name = "MPI=PATH")]
    worker: Vec<Worker>,

    #[command(flatten)]
    chunks: ChunkArgs,

    /// Rounds in which the columns take turns at each measurement; medians are reported
    #[arg(long, default_value_t = 5, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=999))]
    rounds: u32,

    /// Operations of each rank in each measurement: 50000 without it, or 300 between machines
    #[arg(long = "ops", value_name = "N", value_parser = clap::value_parser!(u32).range(20..))]
    ops_asked: Option<u32>,

    /// Time for each measurement of operations one at a time, and of their rates: seconds, 0.001
    /// to 3600; 0.05 without it, or 0.5 between machines. A workload is measured to its end
    #[arg(long = "seconds-per-measurement", value_name = "SECONDS", value_parser = seconds)]
    seconds_asked: Option<f64>,

    /// How long an owner sleeps where it takes no part: seconds, 0.001 to 3600; 0.05 without it, or
    /// 0.5 between machines
    #[arg(long = "sleep", value_name = "SECONDS", value_parser = seconds)]
    sleep_asked: Option<f64>,

    /// Seconds that a column may take for one measurement before it counts as hanging
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    step_timeout: u64,

    /// Two rounds of few operations: shows that it works, and measures nothing well
    #[arg(long, conflicts_with_all = ["rounds", "ops_asked", "seconds_asked", "sleep_asked"])]
    quick: bool,

    /// Be a rank of one column: take orders on standard input and answer on standard output
    #[arg(long, hide = true)]
    serve: bool,

    /// All columns are in one job, whose ranks may be of several machines.
    #[arg(skip)]
    apart: bool,

    #[command(flatten)]
    algorithm: AlgorithmArgs,

    // Last: its headings in the help hold for whatever comes after them.
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

pub(crate) fn run(mut args: CompareArgs) -> Result<()> {
    if args.serve {
        args.job.settle(TABLE_SIZE, TABLE_SIZE, &[args.chunks.chunk_buckets])?;
        return crew::serve(&args);
    }
    args.check()?;
    args.apart = args.is_apart()?;
    let (apart, table_size) = (args.apart, if args.apart { TABLE_SIZE_APART } else { TABLE_SIZE });
    let transports = args.transports();
    args.job.settle_columns(&transports, apart, table_size, &[args.chunks.chunk_buckets])?;
    args.check_ranks()?;
    let files = Files::of_job(&args.job)?;
    // Before the run, which would show in the load.
    let mut report = Report::new("compare");
    let columns = match apart {
        true => together::compare_together(&args)?,
        false => {
            let columns = director::compare_groups(&args);
            let found = device(&columns).map(|device| device.look(probeline_doctor::ANSWER));
            let doctor = Checkup::here(found.unwrap_or_default());
            Some((columns, doctor))
        }
    };
    let Some((columns, doctor)) = columns else { return Ok(()) };
    report.transport = columns.iter().map(Standing::line).collect();
    report.transport.extend(columns.iter().filter_map(Standing::includes));
    report.columns = columns.iter().map(Standing::value).collect();
    report.doctor.extend(doctor);
    report.rows = rows(&columns);
    report.tuned(args.job.tuned.as_ref());
    report.parameter("ranks", args.job.ranks);
    report.parameter("table_bytes", args.job.table_size.0);
    report.parameter("buckets_per_rank", args.job.buckets_per_owner());
    report.parameter("seed", args.job.seed);
    report.parameter("chunk_buckets", args.chunks.chunk_buckets);
    report.parameter("max_chunks", args.chunks.max_chunks);
    report.parameter("rounds", args.rounds());
    report.parameter("ops", args.operations());
    report.parameter("seconds_per_measurement", args.time().as_secs_f64());
    report.parameter("sleep", args.sleep().as_secs_f64());
    for (name, value) in means::of_algorithm(&args.config()) {
        report.parameter(name, value);
    }
    report.summary = summary::lines(&columns, args.job.ranks);
    report.notes = args.notes(&columns);
    report.publish(files)?;
    let failed = columns.iter().filter(|column| column.asked && column.has_failed());
    let failed: Vec<String> = failed.map(Standing::line).collect();
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(failed.join("; "))),
    }
}

/// The device that a column was measured over here, if one was.
fn device(columns: &[Standing]) -> Option<Device> {
    let over_verbs = columns.iter().find(|column| column.is_over_verbs())?;
    Device::in_lines(&over_verbs.about)
}

impl CompareArgs {
    fn config(&self) -> Config {
        let sizes = self.job.config(self.chunks.chunk_buckets, self.chunks.max_chunks);
        self.algorithm.config(sizes, self.job.transport == TransportName::Sim)
    }

    fn shape(&self) -> Shape {
        let words = self.chunks.chunk_buckets.max(MOST_WORDS).max(self.job.ranks);
        Shape {
            window_words: self.config().words() + Meeting::words(self.job.ranks),
            slots: Config::slots(IN_FLIGHT) + Meeting::SLOTS,
            slot_words: words.next_multiple_of(8),
            // A READ and one ahead of each, each split in two.
            depth: 4 * IN_FLIGHT,
        }
    }

    /// A table over `engine`, whose windows are 0.
    fn table<T: Timed>(&self, engine: T, config: Config) -> Result<MeansTable<T>> {
        let storage = vec![Operation::EMPTY; IN_FLIGHT as usize];
        Ok(Table::new(engine, config, storage)?.with_cache(Vec::new()))
    }

    /// Places for what a batch gives; none for blocking calls.
    fn ends(&self, batched: bool) -> Vec<End> {
        vec![Ok(probeline_table::Outcome::Absent); if batched { BATCH } else { 0 }]
    }

    fn check(&self) -> Result<()> {
        let again = |at: usize| self.columns[..at].contains(&self.columns[at]);
        match (0..self.columns.len()).find(|&at| again(at)) {
            Some(at) => Err(Failure::usage(format!(
                "--columns has {} twice: leave out one",
                self.columns[at].name()
            ))),
            None => Ok(()),
        }
    }

    /// A rank alone has nobody to go to, over whatever it is.
    fn check_ranks(&self) -> Result<()> {
        match self.job.ranks {
            0 | 1 => Err(Failure::usage(
                "what is compared are operations on another rank's words: take two at least, \
                 --ranks 2",
            )),
            _ => Ok(()),
        }
    }

    /// Whether this process is one rank of a job that somebody else has started.
    fn is_apart(&self) -> Result<bool> {
        let (nodes, meeting) = (&self.job.nodes, &self.job.meeting);
        let apart =
            nodes.two_nodes.is_some() || meeting.rendezvous.is_some() || job::is_launched()?;
        if apart && self.columns.is_empty() {
            return Err(Failure::usage(
                "ranks of one job have an engine of each column: say which with --columns, such as \
                 --columns verbs,ucx-rc",
            ));
        }
        if apart {
            self.check_apart()?;
        }
        Ok(apart)
    }

    /// What cannot be had so, before anybody is waited for.
    fn check_apart(&self) -> Result<()> {
        let mut columns = self.columns.iter();
        if let Some(column) = columns.clone().find(|column| !column.shares_a_job()) {
            return Err(Failure::usage(format!(
                "{} cannot be had in one job with others: leave it out, or run without a launcher, \
                 --rendezvous and --two-nodes",
                column.name()
            )));
        }
        let two_nodes = self.job.nodes.two_nodes.is_some();
        match columns.find(|column| two_nodes && !column.leads_to_other_machines()) {
            Some(column) => Err(Failure::usage(format!(
                "{} does not lead to another machine: leave it out, or run without --two-nodes",
                column.name()
            ))),
            None => Ok(()),
        }
    }

    /// What the columns run over.
    fn transports(&self) -> Vec<TransportName> {
        let standings = self.standings();
        let names = standings.iter().map(|standing| standing.name.transport());
        names.filter_map(|name| TransportName::from_str(name, false).ok()).collect()
    }

    /// The columns of the report, before anything is measured.
    fn standings(&self) -> Vec<Standing> {
        if !self.columns.is_empty() {
            return self.columns.iter().map(|&name| Standing::new(name, true)).collect();
        }
        let all = ColumnName::value_variants().iter().filter(|name| name.is_real());
        all.map(|&name| Standing::new(name, false)).collect()
    }

    /// What all columns' ranks are given alike, whatever their own defaults are.
    fn more(&self) -> Vec<String> {
        // Until all others have had their turn.
        let asleep = self.step_timeout * (2 + u64::try_from(self.standings().len()).unwrap_or(1));
        let options = [
            ("--ranks", self.job.ranks.to_string()),
            ("--table-size", self.job.table_size.to_string()),
            ("--seed", self.job.seed.to_string()),
            ("--step-timeout", self.step_timeout.to_string()),
            ("--collective-timeout", asleep.min(86_400).to_string()),
        ];
        let options = options.into_iter();
        let mut more: Vec<String> =
            options.flat_map(|(name, value)| [name.to_owned(), value]).collect();
        if !self.quick {
            let measured = [
                ("--ops", self.operations().to_string()),
                ("--seconds-per-measurement", self.time().as_secs_f64().to_string()),
                ("--sleep", self.sleep().as_secs_f64().to_string()),
            ];
            more.extend(measured.into_iter().flat_map(|(name, value)| [name.to_owned(), value]));
        }
        more
    }

    /// The notes on the columns; empty if nothing was measured.
    fn notes(&self, columns: &[Standing]) -> Vec<Note> {
        if !columns.iter().any(Standing::has_measured) {
            return Vec::new();
        }
        vec![
            format!(
                "x: time / time of the fastest column; median of {} rounds in which columns take turns",
                self.rounds()
            ).into(),
            format!(
                "READ, CAS, FAA: rank 0 on words of {}; p50 with 1 in flight, rates with {} in flight",
                peer(self.job.ranks),
                plan::DEPTH
            ).into(),
            Note::on(&["owner"], format!(
                "polls its engine, sleeps for {} s outside of any library, or works like rank 0",
                self.sleep().as_secs_f64()
            )),
            "waits, some wait: most, or some, operations took at least a quarter of that sleep".into(),
            "found, inserted: find-or-put by rank 0, one at a time, of keys that start at that owner".into(),
            format!(
                "mixed, read-, write-intensive: {} find-or-puts of each rank, pipelined in batches of {BATCH}",
                self.operations()
            ).into(),
        ]
    }

    fn rounds(&self) -> u32 {
        if self.quick { 2 } else { self.rounds }
    }

    fn operations(&self) -> u64 {
        let usual = match (self.quick, self.apart) {
            (true, _) => 200,
            (false, true) => 300,
            (false, false) => 50_000,
        };
        self.ops_asked.map_or(usual, u64::from)
    }

    fn time(&self) -> Duration {
        let usual = match (self.quick, self.apart) {
            (true, _) => 0.002,
            (false, true) => 0.5,
            (false, false) => 0.05,
        };
        Duration::from_secs_f64(self.seconds_asked.unwrap_or(usual))
    }

    fn sleep(&self) -> Duration {
        let usual = match (self.quick, self.apart) {
            (true, _) => 0.01,
            (false, true) => 0.5,
            (false, false) => 0.05,
        };
        Duration::from_secs_f64(self.sleep_asked.unwrap_or(usual))
    }

    /// For a column's ranks to meet and open their engines.
    fn meet_timeout(&self) -> Duration {
        Duration::from_secs(self.job.meeting.meet_timeout.unwrap_or(MEET_S))
    }

    fn step_timeout(&self) -> Duration {
        Duration::from_secs(self.step_timeout)
    }
}
