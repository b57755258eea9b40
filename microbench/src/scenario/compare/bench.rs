//! One rank's part in every step, over one engine.

use core::ops::Range;
use core::time::Duration;
use std::thread;

use probeline_limits::remote::Operation;
use probeline_table::{Bucket, Config};
use probeline_transport::{Exchange, Owner, Slot};

use super::CompareArgs;
use super::meeting::Meeting;
use super::plan::{DEPTH, OwnerDoes, Place, Step};
use super::primitive::Primitive;
use super::sample::Sample;
use crate::failure::{Failure, Result};
use crate::keys::nth;
use crate::latency::{Recorder, clock_cost_ns};
use crate::means::{MeansTable, find_or_put_all};
use crate::scenario::latency::peer;
use crate::scenario::throughput::Workload;
use crate::scenario::{full, gather};
use crate::timed::Timed;

/// Hits in a row after which nothing is taken for an insert: eight times what a share of inserts
/// follows (`table`'s policy weighs 64).
const SETTLE: usize = 512;
/// Operations before a measurement that do not count: a tenth of it.
const WARM_UP_SHARE: u64 = 10;
/// The table's header, which has to stay what it is.
const HEADER_WORDS: u64 = 8;
/// Operations that may have ended before an owner that slept held up one.
const FEW: u64 = 16;
/// How often those who wait for the end of a measurement look for it.
const LAZILY: Duration = Duration::from_micros(100);

/// Between two steps windows are 0 and nothing is in flight.
pub(super) struct Bench<'a, T> {
    args: &'a CompareArgs,
    engine: T,
    config: Config,
    meeting: Meeting,
    clock_ns: u64,
}

impl<'a, T: Timed> Bench<'a, T> {
    pub(super) fn new(args: &'a CompareArgs, engine: T) -> Self {
        let config = args.config();
        let slot = Slot(engine.geometry().slots - Meeting::SLOTS);
        let meeting = Meeting::new(config.words(), slot, args.step_timeout());
        let clock_ns = clock_cost_ns(|| engine.now_ns());
        Self { args, engine, config, meeting, clock_ns }
    }

    pub(super) fn engine(&self) -> &T {
        &self.engine
    }

    /// All ranks call it with the same; what rank 0 has measured.
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

    fn measures(&self) -> bool {
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

    /// How long a measurement may take: a quarter of what a sleeping owner sleeps, so that what ends
    /// by then has not waited for it.
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
        if self.measures() {
            chain.end_by(self.meeting.until_ns(&self.engine));
            let start_ns = self.engine.now_ns();
            for _ in 0..count / WARM_UP_SHARE {
                chain.next(&mut self.engine)?;
                if self.engine.now_ns() - start_ns > limit_ns / WARM_UP_SHARE {
                    break;
                }
            }
        }
        self.meeting.meet(&mut self.engine, Duration::ZERO)?;
        if self.measures() {
            chain.end_by(self.meeting.until_ns(&self.engine));
            let engine = &mut self.engine;
            let next = |engine: &mut T, _| chain.next(engine);
            // Counted in u32, so that it fits everywhere.
            let items = 0..usize::try_from(count).unwrap_or(usize::MAX);
            match owner {
                OwnerDoes::Poll => recorder.run(items, limit_ns, engine, next, T::now_ns)?,
                OwnerDoes::Sleep => {
                    recorder.run_singly(items, limit_ns, engine, next, T::now_ns)?
                }
            }
        }
        self.part(owner)?;
        Ok(self.measures().then(|| self.sample(&recorder, owner)))
    }

    fn rate(&mut self, primitive: &Primitive, owner: OwnerDoes) -> Result<Option<Sample>> {
        let (limit, count) = (self.limit(owner), self.args.operations());
        let mut sample = None;
        if self.measures() {
            let share = u32::try_from(WARM_UP_SHARE).unwrap_or(1);
            primitive.rate(&mut self.engine, limit / share, count / WARM_UP_SHARE)?;
        }
        self.meeting.meet(&mut self.engine, Duration::ZERO)?;
        if self.measures() {
            let start_ns = self.engine.now_ns();
            let rate = primitive.rate(&mut self.engine, limit, count)?;
            let took_ns = self.engine.now_ns() - start_ns;
            let few = rate.operations < FEW * u64::from(DEPTH);
            let waited_for_owner = few && self.held_up(took_ns, owner);
            let some_waited_for_owner = waited_for_owner;
            sample = Some(Sample { waited_for_owner, some_waited_for_owner, ..rate });
        }
        self.part(owner)?;
        Ok(sample)
    }

    /// The other ranks' part while rank 0 measures, and the end of it for all.
    fn part(&mut self, owner: OwnerDoes) -> Result<()> {
        if !self.measures() && owner == OwnerDoes::Sleep {
            thread::sleep(self.args.sleep());
        }
        self.meeting.meet(&mut self.engine, LAZILY)
    }

    /// Whether an owner's sleep explains a time: it begins a little before the measurement.
    fn held_up(&self, took_ns: u64, owner: OwnerDoes) -> bool {
        owner == OwnerDoes::Sleep && took_ns >= nanoseconds(self.args.sleep() / 4)
    }

    fn sample(&self, recorder: &Recorder, owner: OwnerDoes) -> Sample {
        let latency = recorder.latency();
        let waited_for_owner = latency.operations < FEW && self.held_up(latency.max_ns, owner);
        let some_waited_for_owner = waited_for_owner || self.held_up(latency.p99_ns, owner);
        Sample { waited_for_owner, some_waited_for_owner, ..Sample::of_latency(&latency) }
    }

    /// find-or-put by rank 0 of data whose search starts at the next owner, new or there before.
    fn one_at_a_time(
        &mut self,
        owner: OwnerDoes,
        new: bool,
        round: u64,
        exchange: &mut dyn Exchange,
    ) -> Result<Option<Sample>> {
        let (count, limit_ns) = (self.args.operations(), nanoseconds(self.limit(owner)));
        let warm_up = usize::try_from(count / WARM_UP_SHARE).unwrap_or(0);
        let (measures, sleep) = (self.measures(), self.args.sleep());
        let mut recorder = Recorder::new(self.clock_ns)?;
        let mut table = self.args.table(&mut self.engine, self.config)?;
        let data = far(&table, self.args.job.seed ^ round, warm_up as u64 + count)?;
        let (first, measured) = data.split_at(warm_up);
        let meeting = &mut self.meeting;
        let mut work = || -> Result<()> {
            if measures {
                let before = if new { first } else { &data };
                find_or_put_all(&mut table, before, &mut self.args.ends(true))?;
                // So that what is found is not taken for an insert, as all was so far.
                for _ in 0..if new { 0 } else { SETTLE.div_ceil(data.len().max(1)) } {
                    find_or_put_all(&mut table, &data, &mut self.args.ends(true))?;
                }
            }
            meeting.meet(table.transport_mut()?, Duration::ZERO)?;
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
            meeting.meet(table.transport_mut()?, LAZILY)
        };
        let worked = work();
        let stats = *table.stats();
        // Whether it worked or not, so that no rank waits in vain.
        table.clear(exchange)?;
        table.into_transport();
        worked?;
        let (total, expected) = (stats.total(), if new { stats.inserted } else { stats.found });
        if measures && expected.operations != total.operations {
            return Err(Failure::new(format!(
                "of {} find-or-puts only {} ended as they had to: the transport loses words, or \
                 the table is too small",
                total.operations, expected.operations
            )));
        }
        Ok(measures.then(|| self.sample(&recorder, owner)))
    }

    /// One run of all ranks.
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
        let mut ends = self.args.ends(batched);
        let mut table = self.args.table(&mut self.engine, self.config)?;
        let meeting = &mut self.meeting;
        let mut work = || -> Result<[u64; 2]> {
            for &key in keys.iter().take(keys.len() / 100) {
                table.find(key)?;
            }
            table.reset_stats();
            meeting.meet(table.transport_mut()?, Duration::ZERO)?;
            let start_ns = table.transport().now_ns();
            find_or_put_all(&mut table, &keys, &mut ends)?;
            let end_ns = table.transport().now_ns();
            meeting.meet(table.transport_mut()?, LAZILY)?;
            Ok([start_ns, end_ns])
        };
        let worked = work();
        let stats = *table.stats();
        // Whether it worked or not, so that no rank waits in vain.
        table.clear(exchange)?;
        table.into_transport();
        let [start_ns, end_ns] = *worked.as_ref().unwrap_or(&[0; 2]);
        let mine = [start_ns, end_ns, stats.inserted.operations, stats.full.operations];
        let ranks = gather(exchange, mine)?;
        worked?;
        let sum = |i: usize| ranks.iter().map(|rank| rank[i]).sum::<u64>();
        if sum(3) > 0 {
            return Err(full(&self.config, owners, sum(2)));
        }
        Ok(Sample {
            inserted_share: Some(ratio(sum(2), all)),
            ..Sample::of_rate(all, 1e9 * ratio(all, longest_ns(&ranks)))
        })
    }
}

/// The longest time of a rank: all begin together, and machines have clocks of their own.
fn longest_ns(ranks: &[[u64; 4]]) -> u64 {
    ranks.iter().map(|[start, end, ..]| end - start).max().unwrap_or(0).max(1)
}

/// So many data whose search starts at the next owner.
fn far<T: Timed>(table: &MeansTable<T>, seed: u64, count: u64) -> Result<Vec<u64>> {
    let layout = table.layout();
    let there = peer(layout.owners());
    let mut data = Vec::new();
    let mut n = 0;
    while (data.len() as u64) < count {
        let next = nth(seed, n);
        if layout.home(Bucket::new(next)?).owner == there.0 {
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
