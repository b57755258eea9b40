//! Measures the steps of the comparison on one rank, over one engine.

use core::ops::Range;
use core::time::Duration;
use std::thread;

use probeline::table::{Bucket, Config};
use probeline::transport::{Exchange, Local, Owner, RemoteWord, Segment, Slot, Token};
use probeline_limits::remote::{Meter, Operation, Plan};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::CompareArgs;
use super::barrier::{Barrier, wait};
use super::measured::Sample;
use super::step::{DEPTH, OwnerDoes, Place, Step};
use crate::failure::{Failure, Result};
use crate::keys::nth;
use crate::latency::{Recorder, clock_cost_ns};
use crate::means::{MeansTable, find_or_put_all};
use crate::scenario::latency::{after, peer};
use crate::scenario::throughput::Workload;
use crate::scenario::{full, gather};
use crate::timed::Timed;

/// Hits in a row after which the table expects no insert: eight times the operations that its
/// estimate of the share of inserts follows (64).
const SETTLE: usize = 512;
/// The warm-up is a tenth of a measurement.
const WARM_UP_SHARE: u64 = 10;
/// The table's header, which must not change.
const HEADER_WORDS: u64 = 8;
/// Fewer completed operations show that one waited for the sleeping owner.
const FEW: u64 = 16;
/// Pause of the barrier at the end of a measurement, for the ranks that do not measure.
const PAUSE: Duration = Duration::from_micros(100);

/// The state of one rank. Between two steps the windows are 0 and no operation is in flight.
pub(super) struct Bench<'a, T> {
    args: &'a CompareArgs,
    engine: T,
    config: Config,
    barrier: Barrier,
    clock_ns: u64,
}

impl<'a, T: Timed> Bench<'a, T> {
    pub(super) fn new(args: &'a CompareArgs, engine: T) -> Self {
        let config = args.config();
        let slot = Slot(engine.geometry().slots - Barrier::SLOTS);
        let barrier = Barrier::new(config.words(), slot, args.step_timeout());
        let clock_ns = clock_cost_ns(|| engine.now_ns());
        Self { args, engine, config, barrier, clock_ns }
    }

    pub(super) fn engine(&self) -> &T {
        &self.engine
    }

    /// Takes part in a step. All ranks call it with the same arguments; rank 0 returns the sample.
    pub(super) fn measure(
        &mut self,
        step: Step,
        round: u64,
        exchange: &mut dyn Exchange,
    ) -> Result<Option<Sample>> {
        match step {
            Step::Latency { operation, place, owner } => {
                self.latency(&self.primitive(operation, place, round), owner)
            }
            Step::Rate { operation, place, owner } => {
                self.rate(&self.primitive(operation, place, round), owner)
            }
            Step::Found { owner } => self.one_at_a_time(owner, false, round, exchange),
            Step::Inserted { owner } => self.one_at_a_time(owner, true, round, exchange),
            Step::Workload { workload, batched } => {
                self.workload(workload, batched, exchange).map(Some)
            }
        }
    }

    fn is_measuring(&self) -> bool {
        self.engine.geometry().me == Owner(0)
    }

    fn primitive(&self, operation: Operation, place: Place, round: u64) -> Primitive {
        let words: Range<u64> = match place {
            Place::Hot => HEADER_WORDS..HEADER_WORDS + 1,
            Place::Random => HEADER_WORDS..self.config.words(),
        };
        let owner = peer(self.engine.geometry().owners);
        Primitive { operation, owner, words, seed: self.args.job.seed ^ round }
    }

    /// Returns the longest time of a measurement: a quarter of the owner's sleep, so that
    /// operations that complete in time have not waited for it.
    fn limit(&self, owner: OwnerDoes) -> Duration {
        match owner {
            OwnerDoes::Poll => self.args.time(),
            OwnerDoes::Sleep => (self.args.sleep() / 4).min(self.args.time()),
        }
    }

    fn latency(&mut self, primitive: &Primitive, owner: OwnerDoes) -> Result<Option<Sample>> {
        let mut chain = primitive.chain();
        let mut recorder = Recorder::new(self.clock_ns)?;
        let limit_ns = nanoseconds(self.limit(owner));
        let count = self.args.operations();
        if self.is_measuring() {
            chain.end_by(self.barrier.until_ns(&self.engine));
            let start_ns = self.engine.now_ns();
            for _ in 0..count / WARM_UP_SHARE {
                chain.next(&mut self.engine)?;
                if self.engine.now_ns() - start_ns > limit_ns / WARM_UP_SHARE {
                    break;
                }
            }
        }
        self.barrier.enter(&mut self.engine, Duration::ZERO)?;
        if self.is_measuring() {
            chain.end_by(self.barrier.until_ns(&self.engine));
            let engine = &mut self.engine;
            let next = |engine: &mut T, _| chain.next(engine);
            // The command line limits the count to a u32.
            let items = 0..usize::try_from(count).unwrap_or(usize::MAX);
            match owner {
                OwnerDoes::Poll => recorder.run(items, limit_ns, engine, next, T::now_ns)?,
                OwnerDoes::Sleep => {
                    recorder.run_singly(items, limit_ns, engine, next, T::now_ns)?
                }
            }
        }
        self.finish(owner)?;
        Ok(self.is_measuring().then(|| self.sample(&recorder, owner)))
    }

    fn rate(&mut self, primitive: &Primitive, owner: OwnerDoes) -> Result<Option<Sample>> {
        let (limit, count) = (self.limit(owner), self.args.operations());
        let mut sample = None;
        if self.is_measuring() {
            let share = u32::try_from(WARM_UP_SHARE).unwrap_or(1);
            primitive.rate(&mut self.engine, limit / share, count / WARM_UP_SHARE)?;
        }
        self.barrier.enter(&mut self.engine, Duration::ZERO)?;
        if self.is_measuring() {
            let start_ns = self.engine.now_ns();
            let rate = primitive.rate(&mut self.engine, limit, count)?;
            let took_ns = self.engine.now_ns() - start_ns;
            let few = rate.operations < FEW * u64::from(DEPTH);
            let waited_for_owner = few && self.waited(took_ns, owner);
            let some_waited_for_owner = waited_for_owner;
            sample = Some(Sample { waited_for_owner, some_waited_for_owner, ..rate });
        }
        self.finish(owner)?;
        Ok(sample)
    }

    /// Does what the other ranks do while rank 0 measures, and enters the barrier after it.
    fn finish(&mut self, owner: OwnerDoes) -> Result<()> {
        if !self.is_measuring() && owner == OwnerDoes::Sleep {
            thread::sleep(self.args.sleep());
        }
        self.barrier.enter(&mut self.engine, PAUSE)
    }

    /// Returns whether an operation of this time waited for the owner, whose sleep starts shortly
    /// before the measurement.
    fn waited(&self, took_ns: u64, owner: OwnerDoes) -> bool {
        owner == OwnerDoes::Sleep && took_ns >= nanoseconds(self.args.sleep() / 4)
    }

    fn sample(&self, recorder: &Recorder, owner: OwnerDoes) -> Sample {
        let latency = recorder.latency();
        let waited_for_owner = latency.operations < FEW && self.waited(latency.max_ns, owner);
        let some_waited_for_owner = waited_for_owner || self.waited(latency.p99_ns, owner);
        Sample { waited_for_owner, some_waited_for_owner, ..Sample::of_latency(&latency) }
    }

    /// Measures find-or-puts by rank 0 of keys whose home is the next owner and that are new or
    /// already in the table.
    fn one_at_a_time(
        &mut self,
        owner: OwnerDoes,
        new: bool,
        round: u64,
        exchange: &mut dyn Exchange,
    ) -> Result<Option<Sample>> {
        let (count, limit_ns) = (self.args.operations(), nanoseconds(self.limit(owner)));
        let warm_up = usize::try_from(count / WARM_UP_SHARE).unwrap_or(0);
        let (measures, sleep) = (self.is_measuring(), self.args.sleep());
        let mut recorder = Recorder::new(self.clock_ns)?;
        let mut table = self.args.table(&mut self.engine, self.config)?;
        let data = homed_at_peer(&table, self.args.job.seed ^ round, warm_up as u64 + count)?;
        let (first, measured) = data.split_at(warm_up);
        let barrier = &mut self.barrier;
        let mut work = || -> Result<()> {
            if measures {
                let before = if new { first } else { &data };
                find_or_put_all(&mut table, before, &mut self.args.outcomes(true))?;
                // After inserts only, the table must first learn to expect hits.
                for _ in 0..if new { 0 } else { SETTLE.div_ceil(data.len().max(1)) } {
                    find_or_put_all(&mut table, &data, &mut self.args.outcomes(true))?;
                }
            }
            barrier.enter(table.transport_mut()?, Duration::ZERO)?;
            table.reset_stats();
            let find_or_put = |table: &mut MeansTable<&mut T>, &data: &u64| {
                table.find_or_put(data)?;
                Ok(())
            };
            let now = |table: &MeansTable<&mut T>| table.transport().now_ns();
            let (table, items) = (&mut table, measured.iter());
            match owner {
                OwnerDoes::Poll if measures => {
                    recorder.run(items, limit_ns, table, find_or_put, now)?;
                }
                OwnerDoes::Sleep if measures => {
                    recorder.run_singly(items, limit_ns, table, find_or_put, now)?;
                }
                OwnerDoes::Sleep => thread::sleep(sleep),
                OwnerDoes::Poll => {}
            }
            barrier.enter(table.transport_mut()?, PAUSE)
        };
        let worked = work();
        let stats = *table.stats();
        // Also after a failure, because all ranks take part.
        table.clear(exchange)?;
        table.into_transport();
        worked?;
        let (total, expected) = (stats.total(), if new { stats.inserted } else { stats.found });
        if measures && expected.operations != total.operations {
            return Err(Failure::new(format!(
                "only {} of {} find-or-puts had the expected outcome: the transport loses words, or \
                 the table is too small",
                expected.operations, total.operations
            )));
        }
        Ok(measures.then(|| self.sample(&recorder, owner)))
    }

    /// Measures a workload by all ranks.
    fn workload(
        &mut self,
        workload: Workload,
        batched: bool,
        exchange: &mut dyn Exchange,
    ) -> Result<Sample> {
        let (me, owners) = (exchange.me(), exchange.owners());
        let all = self.args.operations() * u64::from(owners);
        let count = usize::try_from(self.args.operations())?;
        let keys = workload.keys(all, None).draw(count, self.args.job.seed, me.0)?;
        let mut outcomes = self.args.outcomes(batched);
        let mut table = self.args.table(&mut self.engine, self.config)?;
        let barrier = &mut self.barrier;
        let mut work = || -> Result<[u64; 2]> {
            for &key in keys.iter().take(keys.len() / 100) {
                table.find(key)?;
            }
            table.reset_stats();
            barrier.enter(table.transport_mut()?, Duration::ZERO)?;
            let start_ns = table.transport().now_ns();
            find_or_put_all(&mut table, &keys, &mut outcomes)?;
            let end_ns = table.transport().now_ns();
            barrier.enter(table.transport_mut()?, PAUSE)?;
            Ok([start_ns, end_ns])
        };
        let worked = work();
        let stats = *table.stats();
        // Also after a failure, because all ranks take part.
        table.clear(exchange)?;
        table.into_transport();
        let [start_ns, end_ns] = *worked.as_ref().unwrap_or(&[0; 2]);
        let mine = [start_ns, end_ns, stats.inserted.operations, stats.full.operations];
        let ranks = gather(exchange, mine)?;
        worked?;
        // All ranks start together. Clocks of different machines cannot be compared.
        let longest_ns = ranks.iter().map(|[start_ns, end_ns, ..]| end_ns - start_ns).max();
        let inserted = ranks.iter().map(|&[.., inserted, _]| inserted).sum();
        if ranks.iter().any(|&[.., full]| full > 0) {
            return Err(full(&self.config, owners, inserted));
        }
        Ok(Sample {
            inserted_share: Some(ratio(inserted, all)),
            ..Sample::of_rate(all, 1e9 * ratio(all, longest_ns.unwrap_or(0)))
        })
    }
}

/// One kind of operation on words that are 0 and stay 0: a CAS replaces 0 by 0, and a FAA adds 0.
struct Primitive {
    operation: Operation,
    owner: Owner,
    words: Range<u64>,
    seed: u64,
}

/// Operations one at a time. The address of each depends on the result of the previous one, as far
/// as the CPU knows, so that they do not overlap.
struct Chain {
    operation: Operation,
    owner: Owner,
    first: u64,
    last: u64,
    rng: SmallRng,
    result: u64,
    until_ns: u64,
}

impl Primitive {
    fn length(&self) -> u32 {
        match self.operation {
            Operation::Read { words } => words,
            Operation::Swap | Operation::Add => 1,
        }
    }

    /// Returns an endless chain of this operation.
    fn chain(&self) -> Chain {
        Chain {
            operation: self.operation,
            owner: self.owner,
            first: self.words.start,
            last: self.words.end - u64::from(self.length()),
            rng: SmallRng::seed_from_u64(self.seed),
            result: 0,
            until_ns: u64::MAX,
        }
    }

    /// Measures the rate with [`DEPTH`] in flight, or the engine's depth if that is less.
    fn rate<T: Timed>(&self, engine: &mut T, time: Duration, operations: u64) -> Result<Sample> {
        let plan = Plan { owners: &[self.owner], words: self.words.clone(), time, operations };
        let mut meter = Meter::new(engine, T::now_ns, plan, self.seed)?;
        let depth = meter.deepest().min(DEPTH);
        let rate = meter.rate(self.operation, depth)?;
        Ok(Sample::of_rate(rate.operations, rate.per_second))
    }
}

impl Chain {
    /// Sets the deadline of the next operations.
    fn end_by(&mut self, until_ns: u64) {
        self.until_ns = until_ns;
    }

    /// Executes the next operation.
    fn next<T: Timed>(&mut self, engine: &mut T) -> Result<()> {
        let index = after(self.result, self.rng.random_range(self.first..=self.last));
        let start = RemoteWord { owner: self.owner, index };
        let Operation::Read { words } = self.operation else {
            match self.operation {
                Operation::Add => engine.fetch_add(Token(0), start, 0)?,
                _ => engine.compare_and_swap(Token(0), start, 0, 0)?,
            }
            self.result = wait(engine, self.until_ns)?;
            return Ok(());
        };
        let into = Local { slot: Slot(0), start: 0, words };
        engine.read(Token(0), Segment { start, words }, into)?;
        wait(engine, self.until_ns)?;
        self.result = engine.landed(into)?.first().copied().unwrap_or(0);
        Ok(())
    }
}

/// Returns `count` keys whose home is the next owner.
fn homed_at_peer<T: Timed>(table: &MeansTable<T>, seed: u64, count: u64) -> Result<Vec<u64>> {
    let layout = table.layout();
    let peer = peer(layout.owners());
    let mut data = Vec::new();
    let mut n = 0;
    while (data.len() as u64) < count {
        let next = nth(seed, n);
        if layout.home(Bucket::new(next)?).owner == peer.0 {
            data.push(next);
        }
        n += 1;
    }
    Ok(data)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[allow(clippy::cast_precision_loss)]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
