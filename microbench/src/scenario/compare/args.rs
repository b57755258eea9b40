//! The options of `compare`, and the sizes and times that follow from them.

use core::time::Duration;

use clap::{Args, ValueEnum};
use probeline::table::Config;
use probeline::transport::Sizes;

use super::barrier::Barrier;
use super::column::ColumnName;
use super::launch::Worker;
use super::measured::Column;
use crate::cli::{ChunkArgs, JobArgs, seconds};
use crate::failure::{Failure, Result};
use crate::job;
use crate::size::Size;
use crate::table::{AlgorithmArgs, engine_sizes};

/// Default of `--table-size`; the second one if all columns are in one job.
pub(super) const TABLE_SIZE: Size = Size::mib(64);
pub(super) const TABLE_SIZE_ONE_JOB: Size = Size::mib(1);
const TABLE_SIZE_HELP: &str = "Memory for the table's buckets, all ranks together \
                               [default: 64MiB, or 1MiB if all columns are in one job]";
/// Default of `--rendezvous-timeout`: the longest time for the ranks of a column to open their engines.
const MEET_S: u64 = 60;
const MAX_READ_WORDS: u32 = 512;
pub(super) const BATCH: usize = 64;
/// Operations of a batch in flight, unless the CPU executes them itself.
pub(super) const IN_FLIGHT: u32 = 32;

#[derive(Args, Clone, Debug)]
// The columns determine these options. Users cannot set them, but the ranks of a column get them.
#[command(mut_arg("transport_asked", |option| option.hide(true)))]
#[command(mut_arg("ucx_tls", |option| option.hide(true)))]
#[command(mut_arg("table_size_asked", |option| option.help(TABLE_SIZE_HELP)))]
pub(crate) struct CompareArgs {
    /// Transports to compare [default: all of this machine, without sim]. Required with a launcher,
    /// --rendezvous and --two-nodes, where all columns are in one job
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME,...")]
    pub(super) columns: Vec<ColumnName>,

    /// Builds of this command with --features mpi: openmpi=PATH or mpich=PATH [default: the folders
    /// openmpi and mpich beside that of this build]
    #[arg(long, value_name = "MPI=PATH")]
    pub(super) worker: Vec<Worker>,

    #[command(flatten)]
    pub(super) chunks: ChunkArgs,

    /// Rounds; the columns alternate at each measurement, and medians are reported
    #[arg(long, default_value_t = 5, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=999))]
    rounds: u32,

    /// Operations of each rank in each measurement [default: 50000, or 300 in one job]
    #[arg(long = "ops", value_name = "N", value_parser = clap::value_parser!(u32).range(20..))]
    ops_asked: Option<u32>,

    /// Longest time of each measurement of single operations and of rates, in seconds, 0.001 to
    /// 3600 [default: 0.05, or 0.5 in one job]. Workloads are measured to their end
    #[arg(long = "seconds-per-measurement", value_name = "SECONDS", value_parser = seconds())]
    seconds_asked: Option<f64>,

    /// Time that a sleeping owner sleeps, in seconds, 0.001 to 3600 [default: 0.05, or 0.5 in one
    /// job]
    #[arg(long = "sleep", value_name = "SECONDS", value_parser = seconds())]
    sleep_asked: Option<f64>,

    /// Longest time of one measurement of a column, in seconds; then it counts as hanging
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    step_timeout: u64,

    /// Two rounds of few operations: a check that it works, without useful figures
    #[arg(long, conflicts_with_all = ["rounds", "ops_asked", "seconds_asked", "sleep_asked"])]
    quick: bool,

    /// Be a rank of one column, which reads requests on standard input
    #[arg(long, hide = true)]
    pub(super) serve: bool,

    /// Whether all columns are in one job, whose ranks may be on several machines.
    #[arg(skip)]
    pub(super) one_job: bool,

    #[command(flatten)]
    algorithm: AlgorithmArgs,

    // Last, because its headings in the help apply to all options after them.
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

impl CompareArgs {
    pub(super) fn config(&self) -> Config {
        self.algorithm.config(&self.job, self.chunks.chunk_buckets, self.chunks.max_chunks)
    }

    pub(super) fn sizes(&self) -> Sizes {
        let words = self.chunks.chunk_buckets.max(MAX_READ_WORDS).max(self.job.ranks);
        let more_words = Barrier::words(self.job.ranks);
        engine_sizes(&self.config(), IN_FLIGHT, words, more_words, Barrier::SLOTS)
    }

    pub(super) fn check(&self) -> Result<()> {
        let again = |at: usize| self.columns[..at].contains(&self.columns[at]);
        match (0..self.columns.len()).find(|&at| again(at)) {
            Some(at) => Err(Failure::usage(format!(
                "--columns has {} twice: leave out one",
                self.columns[at].name()
            ))),
            None => Ok(()),
        }
    }

    /// A single rank has no peer.
    pub(super) fn check_ranks(&self) -> Result<()> {
        match self.job.ranks {
            0 | 1 => Err(Failure::usage(
                "operations on another rank's words need two ranks at least: --ranks 2",
            )),
            _ => Ok(()),
        }
    }

    /// Returns whether a launcher or a user has started this process as a rank of a job.
    pub(super) fn is_one_job(&self) -> Result<bool> {
        let (nodes, meeting) = (&self.job.nodes, &self.job.meeting);
        let one_job =
            nodes.two_nodes.is_some() || meeting.rendezvous.is_some() || job::is_launched()?;
        if one_job && self.columns.is_empty() {
            return Err(Failure::usage(
                "ranks of one job open an engine of each column: choose them with --columns, such as \
                 --columns verbs,ucx-rc",
            ));
        }
        if one_job {
            self.check_one_job()?;
        }
        Ok(one_job)
    }

    fn check_one_job(&self) -> Result<()> {
        let mut columns = self.columns.iter();
        if let Some(column) = columns.clone().find(|column| !column.shares_a_job()) {
            return Err(Failure::usage(format!(
                "{} cannot share a job with other columns: leave it out, or run without a launcher, \
                 --rendezvous and --two-nodes",
                column.name()
            )));
        }
        let two_nodes = self.job.nodes.two_nodes.is_some();
        match columns.find(|column| two_nodes && !column.reaches_other_machines()) {
            Some(column) => Err(Failure::usage(format!(
                "{} does not reach another machine: leave it out, or run without --two-nodes",
                column.name()
            ))),
            None => Ok(()),
        }
    }

    pub(super) fn transports(&self) -> Vec<&'static str> {
        self.columns().iter().map(|column| column.name.transport()).collect()
    }

    /// Returns the columns of the report, before any measurement.
    pub(super) fn columns(&self) -> Vec<Column> {
        if !self.columns.is_empty() {
            return self.columns.iter().map(|&name| Column::new(name, true)).collect();
        }
        let all = ColumnName::value_variants().iter().filter(|name| name.is_real());
        all.map(|&name| Column::new(name, false)).collect()
    }

    /// Returns the options that the ranks of all columns get, because their own defaults may
    /// differ.
    pub(super) fn of_ranks(&self) -> Vec<(&'static str, String)> {
        // A rank waits in the exchange while all other columns measure.
        let asleep = self.step_timeout * (2 + u64::try_from(self.columns().len()).unwrap_or(1));
        let mut options = vec![
            ("ranks", self.job.ranks.to_string()),
            ("table-size", self.job.table_size.to_string()),
            ("seed", self.job.seed.to_string()),
            ("step-timeout", self.step_timeout.to_string()),
            ("collective-timeout", asleep.min(86_400).to_string()),
        ];
        if !self.quick {
            options.extend([
                ("ops", self.operations().to_string()),
                ("seconds-per-measurement", self.time().as_secs_f64().to_string()),
                ("sleep", self.sleep().as_secs_f64().to_string()),
            ]);
        }
        options
    }

    pub(super) fn rounds(&self) -> u32 {
        if self.quick { 2 } else { self.rounds }
    }

    /// Returns the default that applies: with `--quick`, in one job, or otherwise.
    fn default<D>(&self, [quick, one_job, other]: [D; 3]) -> D {
        match (self.quick, self.one_job) {
            (true, _) => quick,
            (false, true) => one_job,
            (false, false) => other,
        }
    }

    pub(super) fn operations(&self) -> u64 {
        self.ops_asked.map_or_else(|| self.default([200, 300, 50_000]), u64::from)
    }

    pub(super) fn time(&self) -> Duration {
        let default = self.default([0.002, 0.5, 0.05]);
        Duration::from_secs_f64(self.seconds_asked.unwrap_or(default))
    }

    pub(super) fn sleep(&self) -> Duration {
        let default = self.default([0.01, 0.5, 0.05]);
        Duration::from_secs_f64(self.sleep_asked.unwrap_or(default))
    }

    pub(super) fn rendezvous_timeout(&self) -> Duration {
        Duration::from_secs(self.job.meeting.rendezvous_timeout.unwrap_or(MEET_S))
    }

    pub(super) fn step_timeout(&self) -> Duration {
        Duration::from_secs(self.step_timeout)
    }
}
