//! A table on two nodes of the paper's cluster, of which one works.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;

use probeline_limits::remote;
use probeline_sim::{Cluster, Engine, Model, Rng};
use probeline_table::{Bucket, CacheEntry, Config, MAX_DATA, Operation, Outcome, ReadCost, Table};
use probeline_transport::{Owner, RemoteWord, Transport};
use serde::Serialize;

use super::Result;
use super::limit::Limit;
use super::nic::{Nic, Turns};
use super::plan::Scale;

/// Owners, one on each node.
pub(crate) const OWNERS: u64 = 2;
/// The largest C.
pub(crate) const MOST_CHUNK: u32 = 128;
/// Buckets that an operation looks at, whatever C is: a multiple of all C, and so many that at a
/// load factor of 0.92 none is full.
const REACH: u32 = 6_144;
/// Operations that a blocking caller needs: one, and a few whose READs ahead may still land.
pub(crate) const BLOCKING: u32 = 4;
/// One-sided operations of each: the READs of two chunks, each split in two, and a claim.
const DEPTH: u32 = 5;
/// READs of each size and owner whose cost is measured, and the words that they are of.
const COST_READS: u64 = 64;
const COST_WORDS: u64 = 1 << 12;

/// The paper's algorithm with this C.
pub(crate) fn paper(buckets_per_owner: u64, chunk_buckets: u32) -> Config {
    let max_chunks = REACH / chunk_buckets;
    Config { chunk_buckets, max_chunks, ..Config::paper(buckets_per_owner) }
}

/// What operations have taken on average.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Mean {
    pub(crate) operations: u64,
    /// Of virtual time.
    pub(crate) ns: f64,
    /// That by what the limit takes.
    pub(crate) times_limit: f64,
    /// Chunk READs waited for.
    pub(crate) effective_roundtrips: f64,
    /// Chunk READs posted.
    pub(crate) outgoing_roundtrips: f64,
    /// Buckets of a chunk; 0 where none was READ.
    pub(crate) chunk_buckets: f64,
    /// The share of operations that the cache answered, 0 to 1.
    pub(crate) cache_hit_rate: f64,
    /// The share of operations that claimed their home bucket along with their first READ.
    pub(crate) first_claims: f64,
}

impl Mean {
    /// Of means over as many operations each.
    pub(crate) fn of_all(means: &[Self]) -> Self {
        let mean =
            |of: fn(&Self) -> f64| means.iter().map(of).sum::<f64>() / means.len().max(1) as f64;
        Self {
            operations: means.iter().map(|mean| mean.operations).sum(),
            ns: mean(|mean| mean.ns),
            times_limit: mean(|mean| mean.times_limit),
            effective_roundtrips: mean(|mean| mean.effective_roundtrips),
            outgoing_roundtrips: mean(|mean| mean.outgoing_roundtrips),
            chunk_buckets: mean(|mean| mean.chunk_buckets),
            cache_hit_rate: mean(|mean| mean.cache_hit_rate),
            first_claims: mean(|mean| mean.first_claims),
        }
    }
}

/// The table, data numbered from 0 that it holds, and the other owner.
pub(crate) struct Job {
    pub(crate) table: Table<Nic, Vec<Operation>, Vec<CacheEntry>>,
    peer: Engine,
    held: u64,
    seed: u64,
    random: Rng,
    limit: Limit,
}

impl Job {
    /// An empty table for `in_flight` operations, with as many entries of a cache.
    pub(crate) fn open(
        config: Config,
        in_flight: u32,
        cache_entries: usize,
        turns: Turns,
        scale: &Scale,
    ) -> Result<Self> {
        let (seed, limits) = (scale.seed, scale.limits);
        let limit = if in_flight == BLOCKING { limits.blocking } else { limits.batched };
        let (engine, peer) = engines(config.words(), in_flight, turns, seed)?;
        let operations = vec![Operation::EMPTY; in_flight as usize];
        let table = Table::new(engine, config, operations)?;
        let table = table.with_cache(vec![CacheEntry::EMPTY; cache_entries]);
        Ok(Self { table, peer, held: 0, seed, random: Rng::new(seed, 1), limit })
    }

    /// The paper's way to call: one operation at a time, no cache, the model as it is.
    pub(crate) fn blocking(config: Config, scale: &Scale) -> Result<Self> {
        Self::open(config, BLOCKING, 0, Turns::Reads, scale)
    }

    /// How many data are held at a load factor.
    fn count(&self, percent: u64) -> u64 {
        self.table.layout().buckets() * percent / 100
    }

    /// Buckets of both parts.
    pub(crate) fn buckets(&self) -> u64 {
        self.table.layout().buckets()
    }

    /// The `n`th datum; the table spreads them by a bijection of its own.
    pub(crate) fn datum(&self, n: u64) -> u64 {
        (self.seed << 40).wrapping_add(n) & MAX_DATA
    }

    /// Any of the data held.
    pub(crate) fn any_held(&mut self) -> u64 {
        let n = self.random.below(self.held);
        self.datum(n)
    }

    /// The next datum, which the caller puts in the table.
    pub(crate) fn next(&mut self) -> u64 {
        self.held += 1;
        self.datum(self.held - 1)
    }

    /// True for so many in a hundred.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.random.below(100) < percent
    }

    /// Fills up to a load factor without taking time, each datum in the first bucket of its probe
    /// order that is empty.
    pub(crate) fn fill(&mut self, percent: u64) -> Result<()> {
        let layout = *self.table.layout();
        while self.held < self.count(percent) {
            let datum = self.next();
            let bucket = Bucket::new(datum)?;
            let mut at = layout.home(bucket);
            while self.load(layout.word(at))? != 0 {
                at = layout.advance(at, 1);
            }
            self.store(layout.word(at), bucket.word())?;
        }
        Ok(())
    }

    fn load(&self, at: RemoteWord) -> Result<u64> {
        let word = self.window(at.owner).get(usize::try_from(at.index)?);
        Ok(word.ok_or("a bucket beyond the window")?.load(Relaxed))
    }

    fn store(&self, at: RemoteWord, value: u64) -> Result<()> {
        let word = self.window(at.owner).get(usize::try_from(at.index)?);
        word.ok_or("a bucket beyond the window")?.store(value, Relaxed);
        Ok(())
    }

    fn window(&self, owner: Owner) -> &[AtomicU64] {
        if owner == Owner(0) { self.table.engine().window() } else { self.peer.window() }
    }

    /// The mean of inserts of new data up to a load factor, one after the other.
    pub(crate) fn insert(&mut self, percent: u64) -> Result<Mean> {
        let operations = self.count(percent).saturating_sub(self.held);
        self.measure(operations, |job, _| {
            let datum = job.next();
            job.expect(datum, Outcome::Inserted)
        })
    }

    /// The mean of find-or-puts of any data held, one after the other.
    pub(crate) fn hit(&mut self, operations: u64) -> Result<Mean> {
        self.measure(operations, |job, _| {
            let datum = job.any_held();
            job.expect(datum, Outcome::Found)
        })
    }

    /// The mean of find-or-puts, so many in a hundred of new data, the others of any data held.
    pub(crate) fn mixed(&mut self, operations: u64, inserts_percent: u64) -> Result<Mean> {
        self.measure(operations, |job, _| {
            if job.chance(inserts_percent) {
                let datum = job.next();
                return job.expect(datum, Outcome::Inserted);
            }
            let datum = job.any_held();
            job.expect(datum, Outcome::Found)
        })
    }

    /// The mean of finds of these data, which are held, one after the other.
    pub(crate) fn find(&mut self, data: &[u64]) -> Result<Mean> {
        self.measure(data.len() as u64, |job, n| {
            let found = data.get(n).map(|&datum| job.table.find(datum));
            if found == Some(Ok(true)) { Ok(()) } else { Err("data held was not found".into()) }
        })
    }

    /// The mean of find-or-puts of new data up to a load factor, in batches of `batch`.
    pub(crate) fn insert_batches(&mut self, percent: u64, batch: usize) -> Result<Mean> {
        let operations = self.count(percent).saturating_sub(self.held);
        let data: Vec<u64> = (0..operations).map(|_| self.next()).collect();
        self.batches(&data, batch, Outcome::Inserted)
    }

    /// The mean of find-or-puts of any data held, in batches of `batch`.
    pub(crate) fn hit_batches(&mut self, operations: u64, batch: usize) -> Result<Mean> {
        let data: Vec<u64> = (0..operations).map(|_| self.any_held()).collect();
        self.batches(&data, batch, Outcome::Found)
    }

    fn batches(&mut self, data: &[u64], batch: usize, expected: Outcome) -> Result<Mean> {
        let mut outcomes = vec![Ok(Outcome::Absent); batch];
        let (start_ns, words) = self.begin();
        for data in data.chunks(batch) {
            let ends = outcomes.get_mut(..data.len()).ok_or("a batch longer than asked for")?;
            self.table.find_or_put_batch(data, ends)?;
            if ends.iter().any(|end| *end != Ok(expected)) {
                return Err(format!("not everything in a batch was {expected:?}").into());
            }
        }
        Ok(self.mean(start_ns, words))
    }

    fn expect(&mut self, datum: u64, expected: Outcome) -> Result<()> {
        let outcome = self.table.find_or_put(datum)?;
        if outcome == expected {
            return Ok(());
        }
        Err(format!("datum {datum:#x} was {outcome:?} and not {expected:?}").into())
    }

    fn measure(
        &mut self,
        operations: u64,
        mut operate: impl FnMut(&mut Self, usize) -> Result<()>,
    ) -> Result<Mean> {
        let (start_ns, words) = self.begin();
        for n in 0..usize::try_from(operations)? {
            operate(self, n)?;
        }
        Ok(self.mean(start_ns, words))
    }

    fn begin(&mut self) -> (u64, u64) {
        self.table.reset_stats();
        (self.table.engine().now_ns(), self.table.engine().words())
    }

    /// Of what was done since: nothing takes virtual time but the operations.
    fn mean(&self, start_ns: u64, words: u64) -> Mean {
        let engine = self.table.engine();
        let total = self.table.stats().total();
        let each = |sum: u64| sum as f64 / total.operations.max(1) as f64;
        let ns = each(engine.now_ns() - start_ns);
        let limit_ns = self.limit.ns(each(self.table.stats().inserted.operations));
        Mean {
            operations: total.operations,
            ns,
            times_limit: ns / limit_ns,
            effective_roundtrips: each(total.effective_roundtrips),
            outgoing_roundtrips: each(total.outgoing_roundtrips),
            chunk_buckets: (engine.words() - words) as f64
                / total.outgoing_roundtrips.max(1) as f64,
            cache_hit_rate: self.table.stats().cache_hit_rate(),
            first_claims: each(total.first_claims),
        }
    }
}

/// The engine that works, and the other one, which only must not be lost.
pub(crate) fn engines(
    words: u64,
    in_flight: u32,
    turns: Turns,
    seed: u64,
) -> Result<(Nic, Engine)> {
    let model = Model::oortwijn2015();
    let cluster = Cluster::new(probeline_sim::Config {
        owners: 2,
        window_words: words,
        slots: Config::slots(in_flight),
        slot_words: MOST_CHUNK,
        depth: in_flight * DEPTH,
        seed,
        model,
        ..probeline_sim::Config::default()
    })?;
    let nic = Nic::new(cluster.engine(Owner(0))?, turns, model.initiator.copies_per_s);
    Ok((nic, cluster.engine(Owner(1))?))
}

/// What READs cost by size, each owner's part being as likely, as measured.
pub(crate) fn read_cost(seed: u64) -> Result<ReadCost> {
    let (mut engine, _peer) = engines(COST_WORDS, BLOCKING, Turns::Reads, seed)?;
    let mut measured = Vec::new();
    // One after the other: by chance one would come more often, which costs more than size.
    for owner in [Owner(0), Owner(1)] {
        let plan = remote::Plan {
            owners: &[owner],
            words: 0..COST_WORDS,
            time: Duration::MAX,
            operations: COST_READS,
        };
        let mut meter = remote::Meter::new(&mut engine, Nic::now_ns, plan, seed)?;
        for words in remote::WORDS.into_iter().filter(|words| (8..=MOST_CHUNK).contains(words)) {
            let rate = meter.rate(remote::Operation::Read { words }, 1)?;
            // Positive, and far below 2^64.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            measured.push((words, (1e9 / rate.per_second) as u64));
        }
    }
    Ok(ReadCost::from_measurements(&measured).ok_or("READs of one size only were measured")?)
}
