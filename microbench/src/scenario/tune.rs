//! The command `tune`: measures what the model of `probeline_tune` needs, and verifies the model's
//! recommendation of C, M and depth for a transport and a workload.

mod bench;
mod row;
mod runs;
mod transport;

use core::ops::RangeInclusive;
use core::time::Duration;
use std::collections::BTreeMap;

use std::path::PathBuf;

use clap::{Args, ValueEnum, value_parser};
use probeline::table::Config;
use probeline::transport::{Exchange, Owner, Sizes};
use probeline::tuning::{Expected, Tuning};
use probeline_tune::{Candidate, Goal, Lengths, Model, Rates, Space, Timing, Workload};
use serde_json::Value;

use self::bench::Bench;
use self::row::TuneRow;
use self::transport::Network;
use super::latency::{FILLING, FILLING_DEPTH};
use super::{OPERATIONS, report_job};
use crate::cli::{JobArgs, TransportName, name, on_off, seconds, within};
use crate::failure::{Failure, Result};
use crate::job::Scenario;
use crate::output_file::OutputFile;
use crate::progress::waiting;
use crate::size::Size;
use crate::table::{MOST_IN_FLIGHT, open};
use crate::timed::Timed;

/// Candidates for C: 64 B to 4 KiB.
const CHUNK_BUCKETS: [u32; 7] = [8, 16, 32, 64, 128, 256, 512];
/// Maximum entries of a cache. In the simulator, which takes long to fill a cache, and for small
/// tables there are fewer: one entry per this number of keys.
const CACHE_ENTRIES: u32 = 1 << 14;
const CACHE_ENTRIES_SIMULATED: u32 = 1 << 8;
const KEYS_PER_ENTRY: f64 = 16.0;
/// Operations in flight of a batch that the CPU executes itself, independent of `--in-flight`.
const BATCHED_BY_CPU: u32 = 32;
/// The paper's operations are blocking calls.
const PAPER_DEPTH: u32 = 1;
/// Rounds of a sweep over all candidates, and the number of candidates in the last rounds.
const SWEEP_ROUNDS: u32 = 3;
const FINALISTS: usize = 8;
/// Accepted range of measured / predicted throughput.
const AS_EXPECTED: RangeInclusive<f64> = 0.8..=1.25;

#[derive(Args, Clone, Debug)]
pub(crate) struct TuneArgs {
    /// Buckets of the table that are occupied, 0.02 to 0.95
    #[arg(long, default_value_t = 0.5, value_name = "ALPHA", value_parser = within("a number", 0.02..=0.95))]
    load_factor: f64,

    /// Operations that insert, 0 to 1; the others find keys of the table, each with the same
    /// probability
    #[arg(long, default_value_t = 0.5, value_name = "SHARE", value_parser = within("a number", 0.0..=1.0))]
    insert_share: f64,

    /// What to optimize
    #[arg(long, value_enum, default_value_t = GoalName::Throughput, value_name = "GOAL")]
    goal: GoalName,

    /// Maximum mean latency in microseconds if the goal is throughput
    #[arg(long, value_name = "US", value_parser = within("a number", 0.001..=1e9))]
    max_latency_us: Option<f64>,

    /// Let the CPU load and claim the words that it can address itself [default: on over shm, else
    /// off]
    #[arg(long = "direct", value_name = "SWITCH", value_parser = on_off())]
    direct_asked: Option<bool>,

    /// Maximum operations in flight of each rank
    #[arg(long, default_value_t = 64, value_name = "N")]
    #[arg(value_parser = value_parser!(u32).range(2..=MOST_IN_FLIGHT))]
    in_flight: u32,

    /// Operations of each rank in each run of the table [default: 2000, in the simulator 500; fewer
    /// if their inserts would exceed 2 % of the table]
    #[arg(long = "ops", value_name = "N", value_parser = value_parser!(u32).range(10..))]
    ops_asked: Option<u32>,

    /// Rounds in which candidates alternate; lower quartiles are reported
    #[arg(long, default_value_t = 15, value_name = "N", value_parser = value_parser!(u32).range(1..=999))]
    rounds: u32,

    /// Time for each measurement of the transport: seconds, 0.001 to 3600
    #[arg(long, default_value_t = 0.005, value_name = "SECONDS", value_parser = seconds())]
    seconds_per_measurement: f64,

    /// Measure all candidates, and compare the recommendation with the best
    #[arg(long)]
    sweep: bool,

    /// Write the recommendation, for --tuning
    #[arg(long, default_value = "tuning.toml", value_name = "FILE")]
    out: PathBuf,

    /// Measure the transport as a network, and write a profile of it for simulate, with the name of
    /// the file
    #[arg(long, value_name = "FILE")]
    profile_out: Option<PathBuf>,

    // Last, because its headings in the help apply to all options after them.
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GoalName {
    /// The mean time of an operation
    Latency,
    /// Operations a second
    Throughput,
}

/// The result, which only rank 0 has.
pub(crate) struct Tuned {
    model: Model,
    calibration: Vec<Timing>,
    recommended: Candidate,
    contenders: Vec<Timing>,
    verified: Verified,
    network: Option<Network>,
}

pub(crate) struct Verified {
    rows: Vec<TuneRow>,
    candidates: Vec<Value>,
    sweep: Option<Sweep>,
}

pub(crate) struct Sweep {
    candidates: usize,
    again: usize,
    /// The share by which the recommendation takes longer than the best candidate.
    longer: f64,
    /// Among candidates without a short run: the number within the accepted range of measured /
    /// predicted throughput, and the total.
    as_expected: (usize, usize),
}

pub(crate) fn run(mut args: TuneArgs) -> Result<()> {
    args.job.settle(Size::mib(128), Size::mib(1), &[])?;
    args.check()?;
    let open = |path| OutputFile::of(path, args.job.reports());
    let mut out = open(&args.out)?;
    let mut profile_out = args.profile_out.as_deref().map(open).transpose()?;
    let Some((mut report, files, tuned)) = report_job("tune", &args.job, &args)? else {
        return Ok(());
    };
    out.write(&args.tuning(&tuned).to_toml())?;
    if let (Some(path), Some(file), Some(network)) =
        (&args.profile_out, &mut profile_out, &tuned.network)
    {
        file.write(&network.profile(&args.job, path)?.to_toml())?;
    }
    report.parameter("load_factor", args.load_factor);
    report.parameter("insert_share", args.insert_share);
    report.parameter("goal", name(args.goal));
    report.parameter("max_latency_us", args.max_latency_us);
    report.parameter("direct", args.direct());
    report.parameter("in_flight", args.in_flight);
    report.parameter("ops_per_rank", args.operations());
    report.parameter("rounds", args.rounds);
    report.parameter("seconds_per_measurement", args.seconds_per_measurement);
    report.parameter("sweep", args.sweep);
    report.summary = args.summary(&tuned);
    report.notes = args.notes(&tuned);
    report.rows = tuned.verified.rows;
    report.rates = row::rates(&tuned.model.rates);
    report.candidates = tuned.verified.candidates;
    report.publish(files)
}

impl TuneArgs {
    fn check(&self) -> Result<()> {
        if self.goal == GoalName::Latency && self.max_latency_us.is_some() {
            return Err(Failure::usage(
                "--max-latency-us is for --goal throughput: leave out one of the two options",
            ));
        }
        if self.direct() && self.job.transport != TransportName::Shm {
            return Err(Failure::usage(format!(
                "--direct on is for shm, where the CPU accesses all buckets; over {} the model \
                 has READs and claims only: leave it out",
                self.job.transport.name()
            )));
        }
        let served = !matches!(
            self.job.transport,
            TransportName::Shm | TransportName::Verbs | TransportName::Sim
        );
        if served && self.profile_out.is_some() {
            return Err(Failure::usage(format!(
                "--profile-out has one rank measure while the others do nothing, and over {} \
                 operations may wait for their owners' CPUs: leave it out, or take --transport verbs",
                self.job.transport.name()
            )));
        }
        let buckets = self.buckets();
        if self.job.buckets_per_owner() < LEAST_BUCKETS {
            return Err(Failure::usage(format!(
                "{buckets} buckets are too few to be tuned for: take a --table-size of {} or more",
                Size(LEAST_BUCKETS * 8 * u64::from(self.job.ranks))
            )));
        }
        self.check_profile()
    }

    fn check_profile(&self) -> Result<()> {
        let (sim, ranks) = (&self.job.sim, self.job.ranks);
        if self.job.transport != TransportName::Sim {
            return Ok(());
        }
        sim.model(ranks).map(drop).map_err(|missing| match sim.model(1) {
            Ok(_) => missing.or(&format!(
                "or take one machine, --sim-ranks-per-machine {ranks}, which it knows"
            )),
            Err(_) => missing,
        })
    }

    fn direct(&self) -> bool {
        self.direct_asked.unwrap_or(self.job.transport == TransportName::Shm)
    }

    fn time(&self) -> Duration {
        Duration::from_secs_f64(self.seconds_per_measurement)
    }

    fn buckets(&self) -> u64 {
        self.job.buckets_per_owner() * u64::from(self.job.ranks)
    }

    /// Returns the operations of each rank in each run: as requested, or as many as the table has
    /// room for.
    fn operations(&self) -> u32 {
        let most = bench::most_operations(self.buckets(), self.job.ranks, self.insert_share);
        self.wanted_operations().min(most)
    }

    fn wanted_operations(&self) -> u32 {
        let simulated = self.job.transport == TransportName::Sim;
        self.ops_asked.unwrap_or(if simulated { 500 } else { 2_000 })
    }

    fn goal(&self) -> Goal {
        match self.goal {
            GoalName::Latency => Goal::Latency,
            GoalName::Throughput => Goal::Throughput {
                most_latency_ns: self.max_latency_us.map_or(f64::INFINITY, |us| us * 1e3),
            },
        }
    }

    fn space(&self, direct: bool) -> Space {
        let powers = (0..u32::BITS).map(|power| 1 << power);
        let below = powers.take_while(|&depth| depth < self.in_flight);
        Space {
            chunk_buckets: CHUNK_BUCKETS.to_vec(),
            probe_limit: probeline_tune::probe_limit(self.buckets(), self.load_factor),
            depths: match direct {
                true if self.batches_by_cpu() => vec![1, BATCHED_BY_CPU],
                true => vec![1],
                false => below.chain([self.in_flight]).collect(),
            },
            cache_entries: self.cache_entries(),
            direct,
        }
    }

    /// Returns the entries of the cache, a power of two.
    #[allow(clippy::cast_possible_truncation)]
    fn cache_entries(&self) -> u32 {
        let simulated = self.job.transport == TransportName::Sim;
        let most = if simulated { CACHE_ENTRIES_SIMULATED } else { CACHE_ENTRIES };
        let keys = self.buckets() as f64 * self.load_factor;
        let entries = ((keys / KEYS_PER_ENTRY) as u32).clamp(1, most);
        1 << entries.ilog2()
    }

    /// Returns whether candidates may include batches that the CPU executes itself: the goal is not
    /// latency, and `--in-flight` permits the depth of a batch.
    fn batches_by_cpu(&self) -> bool {
        self.goal == GoalName::Throughput && self.in_flight >= BATCHED_BY_CPU
    }

    fn config(&self) -> Config {
        let least = CHUNK_BUCKETS[0];
        let max_chunks = self.space(false).max_chunks(least);
        self.job.config(least, max_chunks)
    }

    fn tuning(&self, tuned: &Tuned) -> Tuning {
        let best = &tuned.recommended;
        let time_ns = tuned.model.time_ns(best);
        Tuning {
            origin: format!(
                "probeline tune over {}, {} ranks, a table of {}, goal {}",
                self.job.transport.name(),
                self.job.ranks,
                self.job.table_size,
                name(self.goal)
            ),
            chunk_buckets: best.chunk_buckets,
            max_chunks: best.max_chunks,
            read_ahead: best.read_ahead,
            one_roundtrip: best.one_roundtrip,
            direct: best.direct,
            in_flight: best.depth,
            cache_entries: best.cache_entries as usize,
            expected: Some(Expected {
                load_factor: self.load_factor,
                insert_share: self.insert_share,
                latency_ns: tuned.model.latency_ns(best),
                ops_per_s: 1e9 * f64::from(self.job.ranks) / time_ns.max(1e-3),
            }),
        }
    }
}

/// The minimum buckets of an owner. 2 % of them have room for 327 inserts, the minimum to which a
/// run is reduced.
const LEAST_BUCKETS: u64 = 1 << 14;

impl Scenario for TuneArgs {
    type Output = Tuned;

    fn sizes(&self) -> Sizes {
        Sizes {
            window_words: self.config().words(),
            slots: Config::slots(self.in_flight.max(FILLING)),
            slot_words: CHUNK_BUCKETS[CHUNK_BUCKETS.len() - 1],
            depth: (4 * self.in_flight).max(FILLING_DEPTH),
        }
    }

    /// Rank 0 measures READs and claims for a profile alone, one kind after the other.
    fn longest_alone(&self) -> Duration {
        self.profile_out.as_ref().map_or(Duration::ZERO, |_| self.time())
    }

    fn run<T: Timed>(&self, engine: &mut T, exchange: &mut dyn Exchange) -> Result<Tuned> {
        let time = self.time();
        // An operation posts two requests at once: a READ, and a read-ahead or a claim.
        let deepest = 2 * self.in_flight;
        let rates = transport::rates(engine, &self.job, deepest, time, exchange)?;
        let network = match self.profile_out {
            Some(_) => {
                let depths = self.space(false).depths;
                Some(transport::network(engine, &self.job, &depths, time, exchange)?)
            }
            None => None,
        };
        let config = self.config();
        let mut table = open(&mut *engine, config, OPERATIONS, 0, exchange)?;
        table.clear(exchange)?;
        table.into_transport();
        let work = (self.operations(), self.insert_share);
        let leads = exchange.me() == Owner(0);
        let mut bench = waiting("filling the table", leads, || {
            Bench::new(engine, config, self.job.seed, self.load_factor, work, exchange)
        })?;
        let mut model = self.model(rates, &bench);
        let calibration = self.calibrate(&mut model, &mut bench, exchange)?;
        let all = self.space(self.direct()).candidates();
        let (recommended, contenders) = self.choose(&model, &all, &mut bench, exchange)?;
        let verified =
            self.verify(&model, &calibration, recommended, &all, &mut bench, exchange)?;
        Ok(Tuned { model, calibration, recommended, contenders, verified, network })
    }
}

impl TuneArgs {
    fn model<T: Timed>(&self, rates: Rates, bench: &Bench<'_, T>) -> Model {
        Model {
            rates,
            lengths: Lengths::at(self.load_factor),
            workload: Workload {
                load_factor: self.load_factor,
                insert_share: bench.insert_share(),
                held: bench.held(),
            },
            by_reads: BTreeMap::new(),
            direct: BTreeMap::new(),
        }
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

    /// A batch that the CPU executes has a fixed number in flight, whatever depth it is given.
    #[test]
    fn depths_without_effect_are_no_candidates() {
        let depths = |direct, given: [&str; 4]| {
            let given = ["tune"].into_iter().chain(given);
            Command::try_parse_from(given).unwrap().tune.space(direct).depths
        };
        for (goal, in_flight, by_cpu) in
            [("latency", "2", &[1][..]), ("throughput", "2", &[1]), ("throughput", "48", &[1, 32])]
        {
            let given = ["--goal", goal, "--in-flight", in_flight];
            assert_eq!(depths(true, given), by_cpu, "{given:?}");
            assert_eq!(depths(false, given).last().map(u32::to_string).as_deref(), Some(in_flight));
        }
    }

    #[test]
    fn caches_are_smaller_than_the_table() {
        let entries = |given: &[&str]| {
            let given = ["tune"].into_iter().chain(given.iter().copied());
            let mut tune = Command::try_parse_from(given).unwrap().tune;
            tune.job.settle(Size::mib(128), Size::mib(1), &[]).unwrap();
            tune.cache_entries()
        };
        let sim = ["--transport", "sim", "--table-size"];
        assert_eq!(entries(&["--table-size", "128MiB"]), 1 << 14);
        assert_eq!(entries(&["--table-size", "256KiB"]), 1 << 10);
        assert_eq!(entries(&["--table-size", "256KiB", "--load-factor", "0.02"]), 1 << 5);
        assert_eq!(entries(&[&sim[..], &["128MiB"]].concat()), 1 << 8);
    }

    #[test]
    fn ranks_wait_for_the_one_that_measures_a_profile() {
        let longest = |more: &[&str]| {
            let given = ["tune", "--seconds-per-measurement", "3600"];
            Command::try_parse_from(given.iter().chain(more)).unwrap().tune.longest_alone()
        };
        assert_eq!(longest(&["--profile-out", "nic.toml"]), Duration::from_secs(3600));
        assert_eq!(longest(&[]), Duration::ZERO);
    }
}
