//! `tune`: measures a table with every candidate for C, M, depth, read-ahead, one-roundtrip inserts and
//! cache in short runs, halves the candidates after each, and recommends the best for `--tuning`.

mod bench;
mod candidate;
pub(super) mod row;
mod search;

use std::path::PathBuf;

use clap::{Args, ValueEnum, value_parser};
use probeline::table::{Config, ReadAhead};
use probeline::transport::{Exchange, Owner, Sizes};
use probeline::tuning::{Expected, Tuning};
use probeline_programs::Timed;

use self::bench::{Bench, STEP};
use self::candidate::{CHUNK_BUCKETS, plain, probe_limit};
use self::row::TuneRow;
use self::search::Found;
use super::latency::{FILLING, FILLING_DEPTH};
use super::{OPERATIONS, report_job};
use crate::cli::{JobArgs, TransportName, name, on_off, rounds, with_default, within};
use crate::engines::Measurement;
use crate::failure::{Failure, Result};
use crate::meter::depths;
use crate::output_file::OutputFile;
use crate::progress::waiting;
use crate::run_report::fields;
use crate::size::Size;
use crate::table::{in_flight, open};

/// Maximum entries of a cache. In the simulator, which takes long to fill a cache, and for small
/// tables there are fewer: one entry per this number of keys.
const CACHE_ENTRIES: u32 = 1 << 14;
const CACHE_ENTRIES_SIMULATED: u32 = 1 << 8;
const KEYS_PER_ENTRY: f64 = 16.0;
/// Operations in flight of a batch that the CPU executes itself, independent of `--in-flight`.
const BATCHED_BY_CPU: u32 = 32;
/// The minimum buckets of an owner. 2 % of them have room for 327 inserts, the minimum to which a
/// run is reduced.
const MIN_BUCKETS: u64 = 1 << 14;

#[derive(Args, Clone, Debug)]
#[command(mut_arg("table_size_asked", |option| with_default(option, "128MiB, over verbs 1MiB")))]
pub(crate) struct TuneArgs {
    /// Buckets of the table that are occupied, 0.02 to 0.95
    #[arg(long, default_value_t = 0.5, value_name = "F", value_parser = within("a number", 0.02..=0.95))]
    load_factor: f64,

    /// Operations that insert, 0 to 1; the others find keys of the table, each with the same
    /// probability
    #[arg(long, default_value_t = 0.5, value_name = "SHARE", value_parser = within("a number", 0.0..=1.0))]
    insert_share: f64,

    /// Quantity to optimize
    #[arg(long, value_enum, default_value_t = Goal::Throughput, value_name = "GOAL")]
    goal: Goal,

    /// Let the CPU load and claim the words that it can address itself [default: on over shm, else
    /// off]
    #[arg(long = "direct", value_name = "SWITCH", value_parser = on_off())]
    direct_asked: Option<bool>,

    /// Maximum operations in flight of each rank
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = in_flight(2))]
    in_flight: u32,

    /// Operations of each rank in each run of the last candidates; earlier runs have fewer
    /// [default: 2000, in the simulator 500; fewer if their inserts would exceed 2 % of the table]
    #[arg(long = "ops", value_name = "N", value_parser = value_parser!(u32).range(10..))]
    ops_asked: Option<u32>,

    /// Rounds in which the last candidates alternate; lower quartiles are reported
    #[arg(long, default_value_t = 15, value_name = "N", value_parser = rounds())]
    rounds: u32,

    /// Write the recommendation for --tuning to FILE, or to standard output if it is `-`
    #[arg(long, default_value = "tuning.toml", value_name = "FILE")]
    out: PathBuf,

    // Last, because its headings in the help apply to all options after them.
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Goal {
    /// The mean time of an operation
    Latency,
    /// Operations a second
    Throughput,
}

pub(crate) fn run(mut args: TuneArgs) -> Result<()> {
    args.job.resolve(Size::mib(128), Size::mib(1), &[])?;
    args.check()?;
    let mut out = OutputFile::of(&args.out, args.job.reports())?;
    let reported = report_job("tune", &args.job, args.sizes(), |engine, exchange| {
        engine.current.measure(&args, exchange)
    })?;
    let Some((mut report, files, found)) = reported else { return Ok(()) };
    let rows = args.rows(&found);
    let best = found.finalists.first().ok_or_else(|| Failure::new("there is no candidate"))?;
    out.write(&args.tuning(&best.candidate, &rows[0]).to_toml())?;
    report.parameters(fields!(args; load_factor, insert_share, in_flight, rounds));
    report.parameter("goal", name(args.goal));
    report.parameter("direct", args.direct());
    report.parameter("ops_per_rank", args.operations());
    report.summary = args.summary(&found, &rows);
    report.note(args.notes());
    report.publish(files, &rows)
}

impl TuneArgs {
    fn check(&self) -> Result<()> {
        if self.direct() && self.job.transport != TransportName::Shm {
            return Err(Failure::usage(format!(
                "--direct on is for shm, where the CPU accesses all buckets; over {} there are READs \
                 and claims only: leave it out",
                self.job.transport.name()
            )));
        }
        if self.job.buckets_per_owner() < MIN_BUCKETS {
            return Err(Failure::usage(format!(
                "{} buckets are too few to be tuned for: take a --table-size of {} or more",
                self.buckets(),
                Size(MIN_BUCKETS * 8 * u64::from(self.job.ranks))
            )));
        }
        Ok(())
    }

    fn direct(&self) -> bool {
        self.direct_asked.unwrap_or(self.job.transport == TransportName::Shm)
    }

    fn buckets(&self) -> u64 {
        self.job.buckets_per_owner() * u64::from(self.job.ranks)
    }

    /// Returns the operations of each rank in a run: as requested, or as many as the table has room
    /// for.
    #[allow(clippy::cast_possible_truncation)]
    fn operations(&self) -> u32 {
        if self.insert_share <= 0.0 {
            return self.wanted_operations();
        }
        // The conversion saturates.
        let max = (self.inserts_of_step() as f64 / self.insert_share) as u32;
        self.wanted_operations().min(max)
    }

    /// Returns the maximum inserts of each rank in a run.
    #[allow(clippy::cast_possible_truncation)]
    fn inserts_of_step(&self) -> u64 {
        (self.buckets() as f64 * STEP) as u64 / u64::from(self.job.ranks)
    }

    fn wanted_operations(&self) -> u32 {
        let simulated = self.job.transport == TransportName::Sim;
        self.ops_asked.unwrap_or(if simulated { 500 } else { 2_000 })
    }

    /// Returns the probe limit in buckets, which C times M must be at least.
    fn probe_limit(&self) -> u64 {
        probe_limit(self.buckets(), self.load_factor)
    }

    fn depths(&self) -> Vec<u32> {
        let batches = self.goal == Goal::Throughput && self.in_flight >= BATCHED_BY_CPU;
        match self.direct() {
            true if batches => vec![1, BATCHED_BY_CPU],
            true => vec![1],
            false => depths(self.in_flight).collect(),
        }
    }

    /// Returns the entries of the cache, a power of two.
    #[allow(clippy::cast_possible_truncation)]
    fn cache_entries(&self) -> usize {
        let simulated = self.job.transport == TransportName::Sim;
        let max = if simulated { CACHE_ENTRIES_SIMULATED } else { CACHE_ENTRIES };
        let keys = self.buckets() as f64 * self.load_factor;
        let entries = ((keys / KEYS_PER_ENTRY) as u32).clamp(1, max);
        1 << entries.ilog2()
    }

    /// Returns the paper's algorithm, which has blocking calls.
    fn paper(&self) -> Tuning {
        Tuning { read_ahead: ReadAhead::Always, ..plain(self.probe_limit(), 32, 1) }
    }

    fn config(&self) -> Config {
        let least = plain(self.probe_limit(), CHUNK_BUCKETS[0], 1);
        self.job.config(least.chunk_buckets, least.max_chunks)
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            window_words: self.config().words(),
            slots: Config::slots(self.in_flight.max(FILLING)),
            slot_words: CHUNK_BUCKETS[CHUNK_BUCKETS.len() - 1],
            depth: (4 * self.in_flight).max(FILLING_DEPTH),
        }
    }

    fn tuning(&self, best: &Tuning, row: &TuneRow) -> Tuning {
        Tuning {
            origin: format!(
                "probeline tune over {}, {} ranks, a table of {}, goal {}",
                self.job.transport.name(),
                self.job.ranks,
                self.job.table_size,
                name(self.goal)
            ),
            expected: Some(Expected {
                load_factor: self.load_factor,
                insert_share: self.insert_share,
                latency_ns: row.latency_ns,
                ops_per_s: row.ops_per_s,
            }),
            ..best.clone()
        }
    }
}

impl Measurement for TuneArgs {
    type Output = Found;

    fn run<T: Timed>(&self, engine: &mut T, exchange: &mut dyn Exchange) -> Result<Found> {
        let mut table = open(&mut *engine, self.config(), OPERATIONS, 0, exchange)?;
        table.clear(exchange)?;
        table.into_transport();
        let leads = exchange.me() == Owner(0);
        let mut bench =
            waiting("filling the table", leads, || Bench::new(self, &mut *engine, exchange))?;
        self.search(&mut bench, exchange)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        tune: TuneArgs,
    }

    fn tune(given: &[&str]) -> TuneArgs {
        let given = ["tune"].iter().chain(given);
        let mut tune = Command::try_parse_from(given).unwrap().tune;
        tune.job.resolve(Size::mib(128), Size::mib(1), &[]).unwrap();
        tune
    }

    /// A batch that the CPU executes has a fixed number in flight, whatever depth it is given.
    #[test]
    fn omits_depths_without_effect() {
        for (goal, in_flight, by_cpu) in
            [("latency", "2", &[1][..]), ("throughput", "2", &[1]), ("throughput", "48", &[1, 32])]
        {
            let given = ["--goal", goal, "--in-flight", in_flight, "--direct"];
            let depths = |direct: &str| tune(&[&given[..], &[direct]].concat()).depths();
            assert_eq!(depths("on"), by_cpu, "{given:?}");
            assert_eq!(depths("off").last().map(u32::to_string).as_deref(), Some(in_flight));
        }
    }

    #[test]
    fn cache_stays_below_table_size() {
        let entries = |given: &[&str]| tune(given).cache_entries();
        let sim = ["--transport", "sim", "--table-size"];
        assert_eq!(entries(&["--table-size", "128MiB"]), 1 << 14);
        assert_eq!(entries(&["--table-size", "256KiB"]), 1 << 10);
        assert_eq!(entries(&["--table-size", "256KiB", "--load-factor", "0.02"]), 1 << 5);
        assert_eq!(entries(&[&sim[..], &["128MiB"]].concat()), 1 << 8);
    }
}
