//! Measures the steps of the comparison on one rank, over one engine.

use core::ops::Range;
use core::time::Duration;
use std::thread;

use probeline::table::{Bucket, Config, Stats};
use probeline::transport::{Exchange, Owner, Slot};
use probeline_limits::remote::{Meter, Operation, Plan};

use super::CompareArgs;
use super::args::{BATCH, IN_FLIGHT};
use super::barrier::Barrier;
use super::measured::{Capabilities, Sample};
use super::step::{DEPTH, OwnerDoes, Place, Step, What};
use crate::failure::{Failure, Result};
use crate::keys::nth;
use crate::latency::{Recorder, WARM_UP_SHARE, clock_cost_ns, warm_up};
use crate::one_sided::{Access, Chain};
use crate::scenario::throughput::Workload;
use crate::scenario::{full, gather, peer};
use crate::table::{CachedTable, attach, find_or_put_all, outcomes};
use crate::timed::Timed;

/// Hits in a row after which the table expects no insert: eight times the operations that its
/// estimate of the share of inserts follows (64).
const SETTLE: usize = 512;
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

    pub(super) fn capabilities(&self) -> Capabilities {
        Capabilities::of(&self.args.job, &self.engine)
    }

    /// Takes part in a step. All ranks call it with the same arguments; rank 0 returns the sample.
    pub(super) fn measure(
        &mut self,
        step: Step,
        round: u64,
        exchange: &mut dyn Exchange,
    ) -> Result<Option<Sample>> {
        let (owner, seed) = (step.owner, self.args.job.seed ^ round);
        match step.what {
            What::Latency(operation, place) => self.latency(operation, place, seed, owner),
            What::Rate(operation, place) => self.rate(operation, place, seed, owner),
            What::Found => self.one_at_a_time(owner, false, seed, exchange),
            What::Inserted => self.one_at_a_time(owner, true, seed, exchange),
            What::Workload { workload, batched } => {
                self.workload(workload, batched, exchange).map(Some)
            }
        }
    }

    fn is_measuring(&self) -> bool {
        self.engine.geometry().me == Owner(0)
    }

    fn words(&self, place: Place) -> Range<u64> {
        match place {
            Place::Hot => 0..1,
            Place::Random => 0..self.config.words(),
        }
    }

    /// Returns the longest time of a measurement: a quarter of the owner's sleep, so that
    /// operations that complete in time have not waited for it.
    fn limit(&self, owner: OwnerDoes) -> Duration {
        match owner {
            OwnerDoes::Sleep => (self.args.sleep() / 4).min(self.args.time()),
            OwnerDoes::Poll | OwnerDoes::Work => self.args.time(),
        }
    }

    /// Creates the recorder of operations one at a time. One that waits for a sleeping owner
    /// exceeds the limit.
    fn recorder(&self, owner: OwnerDoes) -> Result<Recorder> {
        Ok(Recorder::new(self.clock_ns)?.single(owner == OwnerDoes::Sleep))
    }

    /// Measures operations on words that are 0 and stay 0: a CAS replaces 0 with 0, and a FAA adds
    /// 0.
    fn latency(
        &mut self,
        operation: Operation,
        place: Place,
        seed: u64,
        owner: OwnerDoes,
    ) -> Result<Option<Sample>> {
        let access = match operation {
            Operation::Read { words } => Access::Read { words },
            Operation::Swap => Access::Swap(0),
            Operation::Add => Access::Add(0),
        };
        let peer = peer(self.engine.geometry().owners);
        let mut chain = Chain::new(access, peer, self.words(place), Slot(0), seed);
        let mut recorder = self.recorder(owner)?;
        let limit_ns = nanoseconds(self.limit(owner));
        let (measures, count) = (self.is_measuring(), usize::try_from(self.args.operations())?);
        if measures {
            chain.until_ns = self.barrier.until_ns(&self.engine);
            let next = |engine: &mut T, _| chain.next(engine);
            warm_up(0..count / WARM_UP_SHARE, limit_ns, &mut self.engine, next, T::now_ns)?;
        }
        self.barrier.enter(&mut self.engine, Duration::ZERO)?;
        if measures {
            chain.until_ns = self.barrier.until_ns(&self.engine);
            let next = |engine: &mut T, _| chain.next(engine);
            recorder.run(0..count, limit_ns, &mut self.engine, next, T::now_ns)?;
        }
        self.finish(owner)?;
        Ok(measures.then(|| self.sample(&recorder, owner)))
    }

    /// Measures the rate with [`DEPTH`] in flight, or the engine's depth if that is less.
    fn rate(
        &mut self,
        operation: Operation,
        place: Place,
        seed: u64,
        owner: OwnerDoes,
    ) -> Result<Option<Sample>> {
        let (limit, count) = (self.limit(owner), self.args.operations());
        let (owners, words) = ([peer(self.engine.geometry().owners)], self.words(place));
        let rate = |engine: &mut T, time, operations| -> Result<Sample> {
            let plan = Plan { owners: &owners, words: words.clone(), time, operations };
            let mut meter = Meter::new(engine, T::now_ns, plan, seed)?;
            let rate = meter.rate(operation, meter.deepest().min(DEPTH))?;
            Ok(Sample::of_rate(rate.operations, rate.per_second))
        };
        if self.is_measuring() {
            let warm_up = limit / u32::try_from(WARM_UP_SHARE)?;
            rate(&mut self.engine, warm_up, count / WARM_UP_SHARE as u64)?;
        }
        self.barrier.enter(&mut self.engine, Duration::ZERO)?;
        let mut sample = None;
        if self.is_measuring() {
            let start_ns = self.engine.now_ns();
            let rate = rate(&mut self.engine, limit, count)?;
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
        seed: u64,
        exchange: &mut dyn Exchange,
    ) -> Result<Option<Sample>> {
        let (count, limit_ns) =
            (usize::try_from(self.args.operations())?, nanoseconds(self.limit(owner)));
        let (measures, sleep, mut recorder) =
            (self.is_measuring(), self.args.sleep(), self.recorder(owner)?);
        let (worked, stats) = self.on_table(exchange, |table, barrier| {
            let keys = homed_at_peer(table, seed, count / WARM_UP_SHARE + count)?;
            let (first, measured) = keys.split_at(count / WARM_UP_SHARE);
            if measures {
                let mut outcomes = outcomes(BATCH);
                let before = if new { first } else { &keys };
                find_or_put_all(table, before, &mut outcomes)?;
                // After inserts only, the table must first learn to expect hits.
                for _ in 0..if new { 0 } else { SETTLE.div_ceil(keys.len().max(1)) } {
                    find_or_put_all(table, &keys, &mut outcomes)?;
                }
            }
            barrier.enter(table.transport_mut()?, Duration::ZERO)?;
            table.reset_stats();
            if measures {
                let find_or_put = |table: &mut CachedTable<&mut T>, &key: &u64| {
                    Ok(table.find_or_put(key).map(drop)?)
                };
                let now = |table: &CachedTable<&mut T>| table.transport().now_ns();
                recorder.run(measured.iter(), limit_ns, table, find_or_put, now)?;
            } else if owner == OwnerDoes::Sleep {
                thread::sleep(sleep);
            }
            barrier.enter(table.transport_mut()?, PAUSE)
        })?;
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

    /// Executes `work` on a table over the engine, which is cleared also after a failure, because
    /// all ranks take part. Returns the result of `work` and the table's statistics.
    fn on_table<R>(
        &mut self,
        exchange: &mut dyn Exchange,
        work: impl FnOnce(&mut CachedTable<&mut T>, &mut Barrier) -> Result<R>,
    ) -> Result<(Result<R>, Stats)> {
        let mut table = attach(&mut self.engine, self.config, IN_FLIGHT, 0)?;
        let worked = work(&mut table, &mut self.barrier);
        let stats = *table.stats();
        table.clear(exchange)?;
        table.into_transport();
        Ok((worked, stats))
    }

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
        let mut outcomes = outcomes(if batched { BATCH } else { 1 });
        let (worked, stats) = self.on_table(exchange, |table, barrier| {
            for &key in keys.iter().take(keys.len() / 100) {
                table.find(key)?;
            }
            table.reset_stats();
            barrier.enter(table.transport_mut()?, Duration::ZERO)?;
            let start_ns = table.transport().now_ns();
            find_or_put_all(table, &keys, &mut outcomes)?;
            let end_ns = table.transport().now_ns();
            barrier.enter(table.transport_mut()?, PAUSE)?;
            Ok(end_ns - start_ns)
        })?;
        let took_ns = *worked.as_ref().unwrap_or(&0);
        let ranks = gather(exchange, [took_ns, stats.inserted.operations, stats.full.operations])?;
        worked?;
        // All ranks start together. Clocks of different machines cannot be compared.
        let longest_ns = ranks.iter().map(|&[took_ns, ..]| took_ns).max().unwrap_or(0);
        let inserted = ranks.iter().map(|&[_, inserted, _]| inserted).sum();
        if ranks.iter().any(|&[.., full]| full > 0) {
            return Err(full(&self.config, owners, inserted));
        }
        Ok(Sample {
            inserted_share: Some(ratio(inserted, all)),
            ..Sample::of_rate(all, 1e9 * ratio(all, longest_ns))
        })
    }
}

fn homed_at_peer<T: Timed>(table: &CachedTable<T>, seed: u64, count: usize) -> Result<Vec<u64>> {
    let layout = table.layout();
    let peer = peer(layout.owners());
    let mut keys = Vec::new();
    let mut n = 0;
    while keys.len() < count {
        let next = nth(seed, n);
        if layout.home(Bucket::new(next)?).owner == peer.0 {
            keys.push(next);
        }
        n += 1;
    }
    Ok(keys)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
