//! `bench-latency`: measures READ, WRITE, CAS and FAA without a table, then find-or-put by load
//! factor and C, each with its floor (the same accesses without a table).

mod filling;
mod raw;
mod rounds;
mod row;
mod summary;

use core::time::Duration;

use clap::Args;
use probeline::table::Config;
use probeline::transport::{Exchange, Owner, Slot};
use probeline_limits::remote::WORDS;
use probeline_results::{Note, Row};

pub(super) use self::filling::fill;
use self::raw::Raw;
pub(super) use self::raw::{after, peer};
use self::rounds::Rounds;
use self::row::LatencyRow;
use self::summary::Paper;
use super::{OPERATIONS, shape};
use crate::agreement::Input;
use crate::cli::{ChunkListArgs, JobArgs, TransportName, max_chunks};
use crate::failure::{Failure, Result};
use crate::job::{self, Scenario, Shape};
use crate::latency::{Recorder, clock_cost_ns};
use crate::means::TableArgs;
use crate::progress::Progress;
use crate::report::{Files, Report};
use crate::size::Size;
use crate::timed::Timed;

/// Inserts advance in steps of this share of the table. The last step before a load factor is
/// measured, as in the paper (section 4.1).
const STEP: f64 = 0.02;
/// Maximum measured operations in a step, so that a large table takes no longer than a small one.
const MEASURED: u64 = 200_000;
/// Warm-up operations before a measurement, as a divisor: a tenth of it.
const WARM_UP_SHARE: usize = 10;
/// Minimum inserts of a round: one for the mean and one timed individually.
const FEWEST: u64 = 2;
/// Inserts in flight while the table is filled with the keys for which the time limit was too
/// short.
pub(super) const FILLING: u32 = 32;
/// Inserts in one call of the batch interface.
const BATCH: usize = 1024;
/// Maximum one-sided operations in flight while filling: a READ of each insert, and a claim or a
/// read-ahead.
pub(super) const FILLING_DEPTH: u32 = 2 * FILLING;

#[derive(Args, Clone, Debug)]
pub(crate) struct LatencyArgs {
    #[command(flatten)]
    chunks: ChunkListArgs,

    /// M, maximum chunks that an operation probes before it answers full; the default lets C = 8
    /// reach a load factor of 0.9
    #[arg(short = 'M', long, default_value_t = 1024, value_name = "M", value_parser = max_chunks())]
    max_chunks: u32,

    /// Load factors to measure at, rising, from 0.02 to 0.95
    #[arg(long, default_value = "0.1,0.3,0.5,0.7,0.8,0.9", value_delimiter = ',')]
    #[arg(value_name = "ALPHA,...")]
    load_factors: Vec<f64>,

    /// Operations in each measurement of READ, WRITE, CAS and FAA
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(2..))]
    ops: u32,

    /// Seconds for each measurement, all its rounds together, 0.001 to 3600; it ends after them
    /// with the operations done until then
    #[arg(long, default_value_t = 0.25, value_name = "SECONDS", value_parser = seconds)]
    seconds_per_measurement: f64,

    /// Rounds of find-or-put and its floors in turn; the median multiple is reported
    #[arg(long, default_value_t = 5, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=999))]
    rounds: u32,

    #[command(flatten)]
    table: TableArgs,

    // Last, because its headings in the help apply to all options after them.
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

pub(super) fn seconds(text: &str) -> core::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("seconds from 0.001 to 3600".to_owned()),
    }
}

pub(crate) fn run(mut args: LatencyArgs) -> Result<()> {
    args.job.settle(Size::mib(32), Size::mib(1), &args.chunks.chunk_buckets)?;
    args.check()?;
    let files = Files::of_job(&args.job)?;
    // Created before the run, which would show in the reported load of the machine.
    let mut report = Report::new("bench-latency");
    let Some(ended) = job::run(&args.job, &args)? else { return Ok(()) };
    let (rows, clock_ns) = ended.output;
    report.transport = ended.transport;
    report.doctor.extend(ended.doctor);
    report.job(&args.job);
    report.parameter("max_chunks", args.max_chunks);
    report.parameter("ops", args.ops);
    report.parameter("seconds_per_measurement", args.seconds_per_measurement);
    report.parameter("rounds", args.rounds);
    for (name, value) in args.table.parameters(&args.config(8)) {
        report.parameter(name, value);
    }
    report.rows = rows;
    let paper = args.paper(report.doctor.machines());
    report.summary = args.summary(&report.rows, paper);
    report.notes = args.notes(clock_ns, &report.rows, paper);
    report.publish(files)
}

impl LatencyArgs {
    fn check(&self) -> Result<()> {
        self.table.check(&self.chunks.chunk_buckets)?;
        let rising = self.load_factors.windows(2).all(|pair| pair[0] < pair[1]);
        let within = self.load_factors.iter().all(|alpha| (STEP..=0.95).contains(alpha));
        if !rising || !within {
            return Err(Failure::usage(format!(
                "load factors {:?} do not rise from {STEP} or more to 0.95 at most",
                self.load_factors
            )));
        }
        let buckets = self.job.buckets_per_owner() * u64::from(self.job.ranks);
        let fewest = FEWEST * u64::from(self.rounds);
        if self.steps(buckets).any(|(_, _, measured)| measured < fewest) {
            return Err(Failure::usage(format!(
                "{buckets} buckets are too few for --rounds {}: between a load factor and the one \
                 before, at most {STEP} apart, {fewest} inserts are to be measured. Start again \
                 with a larger --table-size, or with fewer rounds",
                self.rounds
            )));
        }
        Ok(())
    }

    fn config(&self, chunk_buckets: u32) -> Config {
        let simulated = self.job.transport == TransportName::Sim;
        self.table.config(self.job.config(chunk_buckets, self.max_chunks), simulated)
    }

    /// Returns each load factor, the number of keys at it, and how many of the last inserts are
    /// measured.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn steps(&self, buckets: u64) -> impl Iterator<Item = (f64, u64, u64)> {
        let step = ((buckets as f64 * STEP) as u64).min(MEASURED);
        let mut held = 0;
        self.load_factors.iter().map(move |&alpha| {
            let target = (buckets as f64 * alpha) as u64;
            let measured = step.min(target - held);
            held = target;
            (alpha, target, measured)
        })
    }

    /// Returns the notes on the columns.
    fn notes(&self, clock_ns: u64, rows: &[LatencyRow], paper: Option<Paper>) -> Vec<Note> {
        let mut notes = vec![
            format!("p50, p99: operations timed one by one, minus {clock_ns} ns for the clock")
                .into(),
            Note::on(&["p90", "p99.9", "min", "max ns"], "of the same operations"),
            "mean: whole batches; the CPU may start an operation before the previous one has ended"
                .into(),
            format!(
                "floor: one READ of {} (found), READ + CAS (inserted), to the same owners",
                if self.table.adaptive_chunks { "8 buckets" } else { "C buckets" }
            )
            .into(),
            format!(
                "x floor: time / floor, median of {} rounds in which both are measured in turns",
                self.rounds
            )
            .into(),
            format!(
                "where: READ, WRITE, CAS, FAA on random words of {}; find-or-put on all owners",
                peer(self.job.ranks)
            )
            .into(),
            Note::on(&["eff", "out"], "chunk READs that an operation waits for and posts"),
        ];
        notes.extend(LatencyRow::notes());
        if self.table.adaptive_chunks {
            notes.push(Note::on(
                &["C"],
                "the maximum; each operation chooses its own (--adaptive-chunks)",
            ));
        }
        if self.config(8).direct {
            notes.push(
                "direct: the CPU loads and claims words itself; --direct off uses READ and CAS"
                    .into(),
            );
        }
        notes.extend(paper.map(|paper| paper.note().into()));
        notes.extend(self.cut_short(rows).map(Note::from));
        notes
    }

    fn cut_short(&self, rows: &[LatencyRow]) -> Option<String> {
        let cut: Vec<_> = rows.iter().filter(|row| row.cut).collect();
        let fewest = cut.iter().min_by_key(|row| row.operations)?;
        Some(format!(
            "cut: {} of {} rows stopped after {} s (--seconds-per-measurement), one after {} ops",
            cut.len(),
            rows.len(),
            self.seconds_per_measurement,
            fewest.operations
        ))
    }
}

/// The time and operation limits of measurements.
#[derive(Clone, Copy, Debug)]
struct Limits {
    clock_ns: u64,
    measurement_ns: u64,
    round_ns: u64,
}

/// When a measurement stops.
#[derive(Clone, Copy, Debug)]
struct Bound {
    /// Warm-up operations, which take at most a tenth of the time.
    warm_up: usize,
    limit_ns: u64,
}

impl LatencyArgs {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn limits(&self, clock_ns: u64) -> Limits {
        let measurement_ns = (self.seconds_per_measurement * 1e9) as u64;
        Limits { clock_ns, measurement_ns, round_ns: measurement_ns / u64::from(self.rounds) }
    }
}

impl Scenario for LatencyArgs {
    type Output = (Vec<LatencyRow>, u64);

    fn shape(&self) -> Shape {
        let longest = self.chunks.chunk_buckets.iter().chain(&WORDS).max();
        let slot_words = longest.copied().unwrap_or(8).next_multiple_of(8);
        let slots = free_slot().0 + 1;
        Shape { slots, depth: FILLING_DEPTH, ..shape(&self.config(8), slot_words, 0, 0) }
    }

    fn inputs(&self) -> Vec<Input> {
        Vec::new()
    }

    /// Returns the time of READ, WRITE, CAS and FAA, one after the other. It exceeds that of the
    /// find-or-puts at one load factor and their floors.
    #[allow(clippy::cast_precision_loss)]
    fn longest_alone(&self) -> Duration {
        let warm_up = 1.0 / WARM_UP_SHARE as f64;
        Duration::from_secs_f64(self.seconds_per_measurement * raw::ROWS as f64 * (1.0 + warm_up))
    }

    fn run<T: Timed>(&self, engine: &mut T, exchange: &mut dyn Exchange) -> Result<Self::Output> {
        let measures = exchange.me() == Owner(0);
        let limits = self.limits(clock_cost_ns(|| engine.now_ns()));
        let mut rows = Vec::new();
        let steps = raw::ROWS + self.chunks.chunk_buckets.len() * self.load_factors.len();
        let mut progress = Progress::new(steps as u64, measures);
        if measures {
            let (operations, seed) = (self.ops as usize, self.job.seed);
            let (engine, progress) = (&mut *engine, &mut progress);
            let raw = Raw { engine, limits, operations, seed, progress, rows: Vec::new() };
            rows.extend(raw.rows()?);
        }
        exchange.barrier()?;
        for &chunk_buckets in &self.chunks.chunk_buckets {
            let config = self.config(chunk_buckets);
            let mut table = self.table.open(&mut *engine, config, OPERATIONS, exchange)?;
            table.clear(exchange)?;
            let config = *table.config();
            table.into_transport();
            let rounds = Rounds::new(&self.table, config, limits, self.rounds, self.job.seed)?;
            rows.extend(self.fill(engine, rounds, exchange, &mut progress)?);
        }
        Ok((rows, limits.clock_ns))
    }
}

impl LatencyArgs {
    /// Fills the table from one load factor to the next. Rank 0 measures at each.
    fn fill<T: Timed>(
        &self,
        engine: &mut T,
        mut rounds: Rounds<'_>,
        exchange: &mut dyn Exchange,
        progress: &mut Progress,
    ) -> Result<Vec<LatencyRow>> {
        let config = self.config(rounds.chunk_buckets());
        let buckets = config.buckets_per_owner * u64::from(exchange.owners());
        let c = config.chunk_buckets;
        let turn = self.chunks.chunk_buckets.iter().position(|&other| other == c).unwrap_or(0);
        let mut rows = Vec::new();
        for (step, (alpha, target, measured)) in self.steps(buckets).enumerate() {
            let done = (raw::ROWS + turn * self.load_factors.len() + step) as u64;
            let doing = format!("find-or-put, C {c}, load factor {alpha}");
            progress.during(done, &format!("filling the table for {doing}"), || {
                rounds.prepare(engine, target - measured, exchange)
            })?;
            if exchange.me() == Owner(0) {
                progress.expecting(done, &doing, rounds.longest());
                rows.extend(rounds.at(engine, alpha, target, measured)?);
            } else {
                rounds.skip(target);
            }
        }
        exchange.barrier()?;
        rows.splice(0..0, rounds.floors());
        Ok(rows)
    }
}

/// Returns the slot after those of the table.
fn free_slot() -> Slot {
    Slot(Config::slots(FILLING))
}

/// Applies one operation to each item and measures all but the first few, which are warm-up.
fn measure<I, X>(
    recorder: &mut Recorder,
    mut items: impl ExactSizeIterator<Item = I>,
    bound: Bound,
    context: &mut X,
    mut operation: impl FnMut(&mut X, I) -> Result<()>,
    now: impl Fn(&X) -> u64,
) -> Result<()> {
    // Items that a shortened warm-up leaves over are not measured either.
    let measured = items.len().saturating_sub(bound.warm_up);
    let start = now(context);
    for item in items.by_ref().take(bound.warm_up) {
        operation(context, item)?;
        if now(context) - start >= bound.limit_ns / WARM_UP_SHARE as u64 {
            break;
        }
    }
    recorder.run(items.take(measured), bound.limit_ns, context, operation, now)
}

/// Returns the median, or `None` for no values.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let upper = values.get(values.len() / 2)?;
    let lower = values.get((values.len() - 1) / 2)?;
    Some(f64::midpoint(*lower, *upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_value() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 9.0, 2.0]), Some(3.0));
    }
}
