//! `bench-latency`: measures READ, WRITE, CAS and FAA without a table, then find-or-put by load
//! factor and C, each with its floor (the same accesses without a table).

mod filling;
mod recorder;
mod rounds;
pub(super) mod row;

use core::time::Duration;

use clap::Args;
use probeline::table::Config;
use probeline::transport::{Exchange, Owner, RemoteWord, Segment, Sizes, Slot, SlotRange};
use probeline_programs::Timed;

pub(super) use self::filling::fill;
use self::recorder::{Recorder, WARM_UP_SHARE, clock_cost_ns};
use self::rounds::Rounds;
use self::row::LatencyRow;
use super::limits::operation_name;
use super::{OPERATIONS, peer, report_job};
use crate::cli::{ChunkListArgs, JobArgs, max_chunks, rounds, seconds, with_default};
use crate::engines::Measurement;
use crate::failure::{Failure, Result};
use crate::job::Needs;
use crate::meter::{Meter, Operation, Plan, WORDS, read};
use crate::progress::Progress;
use crate::run_report::fields;
use crate::size::Size;
use crate::table::{TableArgs, engine_sizes};

/// Inserts advance in steps of this share of the table. The last step before a load factor is
/// measured, as in the paper (section 4.1).
const STEP: f64 = 0.02;
/// Maximum measured operations in a step, so that a large table takes no longer than a small one.
const MEASURED: u64 = 200_000;
/// Minimum inserts of a round: one for the mean and one timed individually.
const MIN_ROUND_INSERTS: u64 = 2;
/// Inserts in flight while the table is filled with the keys for which the time limit was too
/// short.
pub(super) const FILLING: u32 = 32;
const BATCH: usize = 1024;
/// Maximum one-sided operations in flight while filling: a READ of each insert, and a claim or a
/// read-ahead.
pub(super) const FILLING_DEPTH: u32 = 2 * FILLING;

#[derive(Args, Clone, Debug)]
#[command(mut_arg("table_size_asked", |option| with_default(option, "32MiB, over verbs 1MiB")))]
pub(crate) struct LatencyArgs {
    #[command(flatten)]
    chunks: ChunkListArgs,

    /// M, maximum chunks that an operation probes before it answers full; the default lets C = 8
    /// reach a load factor of 0.9
    #[arg(short = 'M', long, default_value_t = 1024, value_name = "M", value_parser = max_chunks())]
    max_chunks: u32,

    /// Load factors to measure at, rising, from 0.02 to 0.95
    #[arg(long = "load-factor", default_value = "0.1,0.3,0.5,0.7,0.8,0.9")]
    #[arg(value_delimiter = ',', value_name = "F,...")]
    load_factors: Vec<f64>,

    /// Operations in each measurement of READ, WRITE, CAS and FAA
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(2..))]
    ops: u32,

    /// Seconds for each measurement, all its rounds together, 0.001 to 3600; it ends after them
    /// with the operations done until then
    #[arg(long, default_value_t = 0.25, value_name = "SECONDS", value_parser = seconds())]
    seconds_per_measurement: f64,

    /// Rounds of find-or-put and its floors in turn; the median multiple is reported
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = rounds())]
    rounds: u32,

    #[command(flatten)]
    table: TableArgs,

    // Last, because its headings in the help apply to all options after them.
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

pub(crate) fn run(mut args: LatencyArgs) -> Result<()> {
    args.job.resolve(Size::mib(32), Size::mib(1), &args.chunks.chunk_buckets)?;
    args.check()?;
    let reported = report_job("bench-latency", &args.job, args.needs(), |engine, exchange| {
        engine.current.measure(&args, exchange)
    })?;
    let Some((mut report, files, (rows, clock_ns))) = reported else { return Ok(()) };
    report.parameters(fields!(args; max_chunks, ops, seconds_per_measurement, rounds));
    report.parameters(args.table.parameters(&args.config(8)));
    report.summary = args.summary(&rows);
    report.note(args.notes(clock_ns, &rows));
    report.publish(files, &rows)
}

impl LatencyArgs {
    fn check(&self) -> Result<()> {
        self.table.check(&self.chunks.chunk_buckets)?;
        let rising = self.load_factors.windows(2).all(|pair| pair[0] < pair[1]);
        let within = self.load_factors.iter().all(|alpha| (STEP..=0.95).contains(alpha));
        if !rising || !within {
            return Err(Failure::usage(format!(
                "load factors {:?} are invalid: give values from {STEP} to 0.95, in ascending order",
                self.load_factors
            )));
        }
        let buckets = self.job.buckets_per_owner() * u64::from(self.job.ranks);
        let min_inserts = MIN_ROUND_INSERTS * u64::from(self.rounds);
        if self.steps(buckets).any(|(_, _, measured)| measured < min_inserts) {
            return Err(Failure::usage(format!(
                "{buckets} buckets are too few for --rounds {}: between a load factor and the one \
                 before, at most {STEP} apart, {min_inserts} inserts are to be measured. Start again \
                 with a larger --table-size, or with fewer rounds",
                self.rounds
            )));
        }
        Ok(())
    }

    fn config(&self, chunk_buckets: u32) -> Config {
        self.table.config(&self.job, chunk_buckets, self.max_chunks)
    }

    /// Returns each load factor, the number of keys at it, and how many of the last inserts are
    /// measured.
    #[allow(clippy::cast_possible_truncation)]
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

    fn notes(&self, clock_ns: u64, rows: &[LatencyRow]) -> Vec<String> {
        let floor = if self.table.adaptive_chunks { "8 buckets" } else { "C buckets" };
        let mut notes = vec![
            format!("p50, p99: operations timed one by one, minus {clock_ns} ns for the clock"),
            "mean: whole batches; the CPU may start an operation before the previous one has ended"
                .to_owned(),
            format!(
                "floor: one READ of {floor} (found), READ + CAS (inserted), to the same owners"
            ),
            format!(
                "x floor: time / floor, median of {} rounds in which both alternate",
                self.rounds
            ),
            format!(
                "where: READ, WRITE, CAS, FAA on random words of {}; find-or-put on all owners",
                peer(self.job.ranks)
            ),
        ];
        if self.table.adaptive_chunks {
            notes.push(
                "C: the maximum; each operation chooses its own (--adaptive-chunks)".to_owned(),
            );
        }
        if self.config(8).direct {
            let direct =
                "direct: the CPU loads and claims words itself; --direct off uses READ and CAS";
            notes.push(direct.to_owned());
        }
        notes.extend(self.cut_short(rows));
        notes
    }

    /// Returns the limit of a measurement in nanoseconds, all its rounds together.
    #[allow(clippy::cast_possible_truncation)]
    fn measurement_ns(&self) -> u64 {
        (self.seconds_per_measurement * 1e9) as u64
    }

    fn cut_short(&self, rows: &[LatencyRow]) -> Option<String> {
        let cut: Vec<_> = rows.iter().filter(|row| row.cut).collect();
        let min_inserts = cut.iter().min_by_key(|row| row.operations)?;
        Some(format!(
            "cut: {} of {} rows stopped after {} s (--seconds-per-measurement), one after {} ops",
            cut.len(),
            rows.len(),
            self.seconds_per_measurement,
            min_inserts.operations
        ))
    }

    fn needs(&self) -> Needs {
        let longest = self.chunks.chunk_buckets.iter().chain(&WORDS).max();
        let slot_words = longest.copied().unwrap_or(8);
        let sizes = engine_sizes(&self.config(8), OPERATIONS, slot_words);
        // The time of READ, WRITE, CAS and FAA, one after the other. It exceeds that of the
        // find-or-puts at one load factor and their floors.
        let rows = RAW_ROWS as f64 * (1.0 + 1.0 / WARM_UP_SHARE as f64);
        Needs {
            max_alone: Duration::from_secs_f64(self.seconds_per_measurement * rows),
            ..Sizes { slots: free_slot().0 + 1, depth: FILLING_DEPTH, ..sizes }.into()
        }
    }
}

impl Measurement for LatencyArgs {
    /// The rows, and the cost of reading the clock in nanoseconds.
    type Output = (Vec<LatencyRow>, u64);

    fn run<T: Timed>(&self, engine: &mut T, exchange: &mut dyn Exchange) -> Result<Self::Output> {
        let measures = exchange.me() == Owner(0);
        let clock_ns = clock_cost_ns(|| engine.now_ns());
        let mut rows = Vec::new();
        let steps = RAW_ROWS + self.chunks.chunk_buckets.len() * self.load_factors.len();
        let mut progress = Progress::new(steps as u64, measures);
        if measures {
            rows.extend(raw_rows(self, clock_ns, engine, &mut progress)?);
        }
        exchange.barrier()?;
        for (turn, &chunk_buckets) in self.chunks.chunk_buckets.iter().enumerate() {
            let config = self.config(chunk_buckets);
            let mut table = self.table.open(&mut *engine, config, OPERATIONS, exchange)?;
            table.clear(exchange)?;
            let config = *table.config();
            table.into_transport();
            let done = RAW_ROWS + turn * self.load_factors.len();
            let rounds = Rounds::new(self, config, clock_ns)?;
            rows.extend(rounds.rows(engine, done as u64, &mut progress, exchange)?);
        }
        Ok((rows, clock_ns))
    }
}

fn free_slot() -> Slot {
    Slot(Config::slots(FILLING))
}

/// Maximum rows: READs and WRITEs, a CAS and two FAAs.
const RAW_ROWS: usize = 2 * WORDS.len() + 3;

/// Measures READ, WRITE, CAS and FAA on words of the next owner before a table uses them.
fn raw_rows<T: Timed>(
    args: &LatencyArgs,
    clock_ns: u64,
    engine: &mut T,
    progress: &mut Progress,
) -> Result<Vec<LatencyRow>> {
    let (geometry, max) = (*engine.geometry(), engine.caps().words_per_op);
    progress.during(0, "reading every window once", || {
        (0..geometry.owners).try_for_each(|owner| touch(engine, Owner(owner)))
    })?;
    let max = u64::from(max).min(geometry.window_words);
    let lengths = || WORDS.into_iter().filter(|&words| u64::from(words) <= max);
    // Segments start at any word, as chunks of the table do.
    let reads = lengths().map(|words| Operation::Read { words });
    let writes = lengths().map(|words| Operation::Write { words });
    let random = reads.chain(writes).chain([Operation::Swap, Operation::Add]);
    let all = random.map(|operation| (operation, false)).chain([(Operation::Add, true)]);

    let (operations, owner) = (args.ops as usize, peer(geometry.owners));
    let longest = Duration::from_nanos(args.measurement_ns());
    let mut rows = Vec::new();
    for (operation, one_word) in all {
        let name = operation_name(operation, one_word);
        progress.expecting(rows.len() as u64, &name, longest);
        if let Operation::Write { words } = operation {
            engine.staged(SlotRange { slot: Slot(0), start: 0, words })?.fill(1);
        }
        // Other words for each kind, because those of the previous kind may be in a cache.
        let seed = args.job.seed ^ (rows.len() as u64) << 32;
        let words = 0..if one_word { 1 } else { geometry.window_words };
        let plan = Plan { owner, words, time: Duration::ZERO, operations: 0 };
        let mut meter = Meter::new(&mut *engine, plan, seed)?;
        let items = 0..operations + operations / WARM_UP_SHARE;
        let once = |meter: &mut Meter<'_, T>, _| meter.once(operation);
        let (limit_ns, now) = (args.measurement_ns(), Meter::now_ns);
        let recorder = Recorder::run_warm(clock_ns, items, limit_ns, &mut meter, once, now)?;
        rows.push(recorder.row(&name));
    }
    Ok(rows)
}

/// Reads an owner's whole window once, so that no measurement includes page faults.
fn touch<T: Timed>(engine: &mut T, owner: Owner) -> Result<()> {
    let geometry = *engine.geometry();
    let mut index = 0;
    while index < geometry.window_words {
        let left = u32::try_from(geometry.window_words - index).unwrap_or(u32::MAX);
        let words = geometry.slot_words.min(left);
        read(engine, Segment { start: RemoteWord { owner, index }, words }, free_slot())?;
        index += u64::from(words);
    }
    Ok(())
}
