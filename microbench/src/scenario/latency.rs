//! `bench-latency`: READ, CAS and FAA by themselves, then find-or-put by load factor and C.

use core::hint::black_box;

use clap::Args;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;
use table::{Config, Outcome, Stats};
use transport::{Completion, Exchange, Local, Owner, RemoteWord, Segment, Slot, Token};

use super::{BlockingTable, OPERATIONS, open, shape, too_few_chunks};
use crate::cli::{ChunkListArgs, JobArgs, TransportName, max_chunks};
use crate::failure::{Failure, Result};
use crate::job::{self, Scenario, Shape};
use crate::keys::nth;
use crate::latency::{Latency, Recorder, clock_cost_ns};
use crate::progress::Progress;
use crate::report::{Files, Report, Row};
use crate::size::Size;
use crate::timed::Timed;

/// Words of the READs that are measured: one, and the paper's chunks.
const READ_WORDS: [u32; 6] = [1, 8, 16, 32, 64, 128];
/// Inserts go on in steps of this share of the table; measured is the last before a load factor,
/// as in the paper (section 4.1).
const STEP: f64 = 0.02;
/// Measured operations in a step at most, so that a large table takes no longer.
const MEASURED: u64 = 200_000;
/// Operations before a measurement that do not count: a tenth of it.
const WARM_UP_SHARE: u64 = 10;
/// The paper's own result files, C = 8 and load factor 0.5, both processes on one machine.
const PAPER_LOCAL_NS: u32 = 287;

#[derive(Args, Clone, Debug)]
pub(crate) struct LatencyArgs {
    #[command(flatten)]
    chunks: ChunkListArgs,

    /// M, chunks at most before an operation answers full; the default lets C = 8 reach a load
    /// factor of 0.9
    #[arg(short = 'M', long, default_value_t = 1024, value_name = "M", value_parser = max_chunks())]
    max_chunks: u32,

    /// Load factors to measure at, rising, above 0.02 and up to 0.95
    #[arg(long, default_value = "0.1,0.3,0.5,0.7,0.8,0.9", value_delimiter = ',')]
    #[arg(value_name = "ALPHA,...")]
    load_factors: Vec<f64>,

    /// Operations in each measurement of READ, CAS and FAA
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(2..))]
    ops: u64,

    // Last: its headings in the help hold for whatever comes after them.
    #[command(flatten)]
    job: JobArgs,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct LatencyRow {
    operation: String,
    chunk_buckets: Option<u32>,
    load_factor: Option<f64>,
    effective_roundtrips: Option<f64>,
    outgoing_roundtrips: Option<f64>,
    // Not flattened from a Latency, because csv takes no flattened structs.
    operations: u64,
    min_ns: u64,
    mean_ns: f64,
    p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    p99_9_ns: u64,
    max_ns: u64,
}

pub(crate) fn run(mut args: LatencyArgs) -> Result<()> {
    args.job.settle(Size::mib(32), &args.chunks.chunk_buckets)?;
    args.check()?;
    let files = Files::open(&args.job.output)?;
    // Before the run, which would show in the load.
    let mut report = Report::new("bench-latency");
    let Some(ended) = job::run(&args.job, &args)? else { return Ok(()) };
    let (rows, clock_ns) = ended.output;
    report.transport = ended.transport;
    report.job(&args.job);
    report.parameter("max_chunks", args.max_chunks);
    report.parameter("ops", args.ops);
    report.rows = rows;
    report.notes = args.notes(clock_ns, &report.rows);
    report.publish(files)
}

impl LatencyArgs {
    fn check(&self) -> Result<()> {
        let rising = self.load_factors.windows(2).all(|pair| pair[0] < pair[1]);
        let within = self.load_factors.iter().all(|alpha| (STEP..=0.95).contains(alpha));
        if !rising || !within {
            return Err(Failure::new(format!(
                "load factors {:?} do not rise from {STEP} or more to 0.95 at most",
                self.load_factors
            )));
        }
        Ok(())
    }

    fn config(&self, chunk_buckets: u32) -> Config {
        self.job.config(chunk_buckets, self.max_chunks)
    }

    fn notes(&self, clock_ns: u64, rows: &[LatencyRow]) -> Vec<String> {
        let mut notes = vec![
            format!(
                "All times are nanoseconds, seen by rank 0 for one operation at a time, from the \
                 call to its result. READ, CAS and FAA go to random words of the {} of {}, each \
                 where the result of the one before says.",
                Size(self.config(8).words() * 8 / 1024 * 1024),
                peer(self.job.ranks)
            ),
            "find-or-put goes to all owners alike: inserted is new data, measured while the table \
             fills from 0.02 below the load factor up to it; found is data that is there."
                .to_owned(),
            format!(
                "mean: whole batches of operations between two readings of the clock, in which the CPU \
                 may begin a find-or-put before the last has ended. Percentiles: \
                 operations timed one by one in other batches; the clock's own {clock_ns} ns were \
                 taken off. max is the largest of all these, not a percentile."
            ),
            format!(
                "Warm-up, not counted: before READ, CAS and FAA the whole part once, and one \
                 operation for {WARM_UP_SHARE} measured; before found likewise; before inserted, the filling up to there."
            ),
            "eff, out: chunk READs waited for and posted, per operation.".to_owned(),
        ];
        let paper = rows.iter().find(|row| {
            row.operation == "inserted"
                && row.chunk_buckets == Some(8)
                && row.load_factor == Some(0.5)
        });
        let like_the_paper = self.job.transport == TransportName::Shm && self.job.ranks == 2;
        if let Some(row) = paper.filter(|_| like_the_paper) {
            notes.push(format!(
                "Mean find-or-put (inserted) at load factor 0.5, C = 8: {:.1} ns here in {}; the \
                 paper's own files say {PAPER_LOCAL_NS} ns in 2GiB, both processes on one machine \
                 (DAS-5, 2015).",
                row.mean_ns, self.job.table_size
            ));
        }
        notes
    }
}

impl Row for LatencyRow {
    const HEAD: &'static [&'static str] = &[
        "operation",
        "C",
        "load",
        "ops",
        "min",
        "mean",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max ns",
        "eff",
        "out",
    ];

    fn cells(&self) -> Vec<String> {
        let number = |value: Option<f64>| value.map_or_else(String::new, |v| format!("{v:.2}"));
        vec![
            self.operation.clone(),
            self.chunk_buckets.map_or_else(String::new, |c| c.to_string()),
            number(self.load_factor),
            self.operations.to_string(),
            self.min_ns.to_string(),
            format!("{:.1}", self.mean_ns),
            self.p50_ns.to_string(),
            self.p90_ns.to_string(),
            self.p99_ns.to_string(),
            self.p99_9_ns.to_string(),
            self.max_ns.to_string(),
            number(self.effective_roundtrips),
            number(self.outgoing_roundtrips),
        ]
    }
}

impl Scenario for LatencyArgs {
    type Output = (Vec<LatencyRow>, u64);

    fn shape(&self) -> Shape {
        let longest = self.chunks.chunk_buckets.iter().chain(&READ_WORDS).max();
        let slot_words = longest.copied().unwrap_or(8).next_multiple_of(8);
        shape(&self.config(8), slot_words, 0, 1)
    }

    fn parameters(&self) -> String {
        self.job.parameters("bench-latency", &self.chunks, self.max_chunks)
    }

    fn run<T: Timed>(&self, mut engine: T, exchange: &mut dyn Exchange) -> Result<Self::Output> {
        let measures = exchange.me() == Owner(0);
        let clock_ns = clock_cost_ns(|| engine.now_ns());
        let mut rows = Vec::new();
        let steps = self.chunks.chunk_buckets.len() * self.load_factors.len();
        let mut progress = Progress::new(steps as u64, measures);
        if measures {
            rows.extend(self.raw(&mut engine, clock_ns)?);
        }
        exchange.barrier()?;
        for &chunk_buckets in &self.chunks.chunk_buckets {
            let mut table = open(&mut engine, self.config(chunk_buckets), exchange)?;
            table.clear(exchange)?;
            if measures {
                rows.extend(self.fill(&mut table, clock_ns, &mut progress)?);
            }
            exchange.barrier()?;
        }
        Ok((rows, clock_ns))
    }
}

impl LatencyArgs {
    /// READ, CAS and FAA on random words of the next owner, which are no table yet.
    fn raw<T: Timed>(&self, engine: &mut T, clock_ns: u64) -> Result<Vec<LatencyRow>> {
        let mut rows = Vec::new();
        let peer = peer(engine.geometry().owners);
        let words = engine.geometry().window_words;
        let mut rng = SmallRng::seed_from_u64(self.job.seed);
        warm_up(engine, peer)?;
        // Each operation goes where the last one's result says (nowhere else, but the CPU cannot
        // know), so that one waits for the other.
        let mut last = 0;
        for read in READ_WORDS.into_iter().filter(|&read| u64::from(read) <= words) {
            let into = Local { slot: Slot(Config::slots(OPERATIONS)), start: 0, words: read };
            // As chunks of the table lie: on any word.
            let most = words - u64::from(read);
            let latency = self.measure(engine, clock_ns, |engine| {
                let index = after(last, rng.random_range(0..=most));
                let start = RemoteWord { owner: peer, index };
                engine.read(Token(0), Segment { start, words: read }, into)?;
                finish(engine)?;
                last = engine.landed(into)?.first().copied().unwrap_or(0);
                Ok(())
            })?;
            rows.push(LatencyRow::new(&format!("READ {} B", read * 8), &latency));
        }
        let at = |index| RemoteWord { owner: peer, index };
        let latency = self.measure(engine, clock_ns, |engine| {
            let index = after(last, rng.random_range(0..words));
            engine.compare_and_swap(Token(0), at(index), 0, 1)?;
            last = finish(engine)?;
            Ok(())
        })?;
        rows.push(LatencyRow::new("CAS random word", &latency));
        let latency = self.measure(engine, clock_ns, |engine| {
            let index = after(last, rng.random_range(0..words));
            engine.fetch_add(Token(0), at(index), 1)?;
            last = finish(engine)?;
            Ok(())
        })?;
        rows.push(LatencyRow::new("FAA random word", &latency));
        let latency = self.measure(engine, clock_ns, |engine| {
            engine.fetch_add(Token(0), at(after(last, 0)), 1)?;
            last = finish(engine)?;
            Ok(())
        })?;
        rows.push(LatencyRow::new("FAA one word", &latency));
        Ok(rows)
    }

    fn measure<T: Timed>(
        &self,
        engine: &mut T,
        clock_ns: u64,
        mut operation: impl FnMut(&mut T) -> Result<()>,
    ) -> Result<Latency> {
        for _ in 0..self.ops / WARM_UP_SHARE {
            operation(engine)?;
        }
        let mut recorder = Recorder::new(clock_ns)?;
        recorder.run(self.ops, engine, operation, |engine| engine.now_ns())?;
        Ok(recorder.latency())
    }

    /// Fills the table from one load factor to the next and measures at each.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn fill<T: Timed>(
        &self,
        table: &mut BlockingTable<T>,
        clock_ns: u64,
        progress: &mut Progress,
    ) -> Result<Vec<LatencyRow>> {
        let buckets = table.layout().buckets();
        let mut rows = Vec::new();
        let seed = self.job.seed;
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut held = 0;
        for &alpha in &self.load_factors {
            let chunk = table.config().chunk_buckets;
            let turn = self.chunks.chunk_buckets.iter().position(|&c| c == chunk).unwrap_or(0);
            let done = turn * self.load_factors.len() + rows.len() / 2;
            progress.set(done as u64, &format!("C = {chunk}, load factor {alpha}"));

            let target = (buckets as f64 * alpha) as u64;
            let measured = ((buckets as f64 * STEP) as u64).min(MEASURED).min(target - held);
            while held < target - measured {
                insert(table, seed, &mut held)?;
            }
            let mut recorder = Recorder::new(clock_ns)?;
            table.reset_stats();
            let mut state = (&mut *table, &mut held);
            recorder.run(
                measured,
                &mut state,
                |(table, held)| insert(table, seed, held),
                |(table, _)| table.engine().now_ns(),
            )?;
            rows.push(table_row("inserted", table, alpha, &recorder.latency()));

            let mut find = |table: &mut &mut BlockingTable<T>| {
                let data = nth(seed, rng.random_range(0..held));
                match table.find_or_put(data)? {
                    Outcome::Found => Ok(()),
                    other => Err(Failure::new(format!("data {data} was lost: {other:?}"))),
                }
            };
            let mut table = &mut *table;
            for _ in 0..measured / WARM_UP_SHARE {
                find(&mut table)?;
            }
            let mut recorder = Recorder::new(clock_ns)?;
            table.reset_stats();
            recorder.run(measured, &mut table, find, |table| table.engine().now_ns())?;
            rows.push(table_row("found", table, alpha, &recorder.latency()));
        }
        Ok(rows)
    }
}

fn insert<T: Timed>(table: &mut BlockingTable<T>, seed: u64, held: &mut u64) -> Result<()> {
    match table.find_or_put(nth(seed, *held))? {
        Outcome::Inserted => {
            *held += 1;
            Ok(())
        }
        Outcome::Full => Err(too_few_chunks(table.config(), table.layout().owners(), *held)),
        other => Err(Failure::new(format!("new data {held} was {other:?}"))),
    }
}

/// Polls until the one operation in flight has ended, which the transport bounds.
fn finish<T: Timed>(engine: &mut T) -> Result<u64> {
    let mut end = [Completion::default()];
    while engine.poll(&mut end)? == 0 {}
    Ok(end[0].result?)
}

/// `index`, once `value` is known: the compiler and the CPU have to wait for it.
fn after(value: u64, index: u64) -> u64 {
    index + (black_box(0) & value)
}

/// Whose words READ, CAS and FAA go to.
fn peer(owners: u32) -> Owner {
    Owner(1 % owners)
}

/// Reads the peer's whole window once, so that no measurement pays for a page's first use.
fn warm_up<T: Timed>(engine: &mut T, peer: Owner) -> Result<()> {
    let geometry = *engine.geometry();
    let mut index = 0;
    while index < geometry.window_words {
        let left = u32::try_from(geometry.window_words - index).unwrap_or(u32::MAX);
        let words = geometry.slot_words.min(left);
        let into = Local { slot: Slot(Config::slots(OPERATIONS)), start: 0, words };
        let start = RemoteWord { owner: peer, index };
        engine.read(Token(0), Segment { start, words }, into)?;
        finish(engine)?;
        index += u64::from(words);
    }
    Ok(())
}

impl LatencyRow {
    /// Of an operation without a table.
    fn new(operation: &str, latency: &Latency) -> Self {
        Self {
            operation: operation.to_owned(),
            chunk_buckets: None,
            load_factor: None,
            effective_roundtrips: None,
            outgoing_roundtrips: None,
            operations: latency.operations,
            min_ns: latency.min_ns,
            mean_ns: latency.mean_ns,
            p50_ns: latency.p50_ns,
            p90_ns: latency.p90_ns,
            p99_ns: latency.p99_ns,
            p99_9_ns: latency.p99_9_ns,
            max_ns: latency.max_ns,
        }
    }
}

#[allow(clippy::cast_precision_loss)]
fn table_row<T: Timed>(
    operation: &str,
    table: &BlockingTable<T>,
    alpha: f64,
    latency: &Latency,
) -> LatencyRow {
    let total = Stats::total(table.stats());
    let mean = |sum: u64| Some(sum as f64 / total.operations.max(1) as f64);
    LatencyRow {
        chunk_buckets: Some(table.config().chunk_buckets),
        load_factor: Some(alpha),
        effective_roundtrips: mean(total.effective_roundtrips),
        outgoing_roundtrips: mean(total.outgoing_roundtrips),
        ..LatencyRow::new(operation, latency)
    }
}
