//! Three optimizations of the table in virtual time, on the latency model of the paper's cluster,
//! each beside the paper's own algorithm.
//!
//! Two owners on as many nodes (`oortwijn2015`), of which one works; half of all operations go to its
//! own part. All times repeat. `probeline simulate` and `bench-latency --transport sim --sim-model
//! oortwijn2015` measure other load factors, chunks and workloads.

use core::num::NonZero;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use probeline_sim::{Cluster, Engine, Model};
use probeline_table::{
    Bucket, CacheEntry, ChunkChoice, Config, MAX_KEY, OneRoundtrip, Operation, Outcome, ReadAhead,
    ReadCost, Table,
};
use probeline_transport::{
    Owner, PostError, RemoteWord, Request, Token, Transport, forward_transport,
};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand_distr::{Distribution, Zipf};

use super::{Result, Row, Target};

/// Of all keys.
const SEED: u64 = 1;
const OWNERS: u64 = 2;
/// The largest C.
const MAX_CHUNK: u32 = 128;
/// Buckets that an operation searches, whatever C is: a multiple of all C. No operation returns
/// `Full` at a load factor of 0.92.
const MAX_PROBED: u32 = 6_144;
/// Storage of a blocking caller: one operation, and a few whose READs ahead are still in flight.
const OPERATIONS: u32 = 4;
/// Load factors are in hundredths. Inserts to a load factor are measured from this much below it, as
/// in the paper (section 4.1).
const STEP: u64 = 2;

/// Inserts that claim the home bucket along with the first READ, by those of the paper's algorithm at
/// [`CLAIM_LOAD`] with C = 8.
const CLAIM_TARGET: f64 = 0.80;
const CLAIM_LOAD: u64 = 50;

/// Finds with a cache of 1/16 of the keys by those without, at load factor 0.5.
const CACHE_TARGET: f64 = 0.5;
const KEYS_PER_ENTRY: u64 = 16;
const CACHE_LOAD: u64 = 50;
/// The skew of YCSB.
const ZIPF_EXPONENT: f64 = 0.99;
/// Tables with other keys, because it matters which owner has the few most wanted ones.
const TABLES: u64 = 5;

/// Inserts with the adaptive C by those with the best fixed C, at the worst load factor.
const ADAPTIVE_TARGET: f64 = 1.02;
const CHUNKS: [u32; 8] = [8, 16, 24, 32, 48, 64, 96, MAX_CHUNK];
const ADAPTIVE_LOADS: (u64, u64) = (10, 92);

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    /// A power of two.
    pub(crate) buckets_per_owner: u64,
    /// From one load factor of the adaptive C to the next.
    pub(crate) step: usize,
}

/// Measures everything; the same on each run.
pub(crate) fn run(scale: Scale) -> Result<Vec<Row>> {
    Ok([claims(scale)?, vec![cache(scale)?], adaptive(scale)?].concat())
}

/// A ratio of mean times in nanoseconds.
fn row(name: &str, case: String, times_ns: (f64, f64), target: Option<f64>) -> Row {
    let (measured, baseline) = times_ns;
    let target = target.map(Target::AtMost);
    Row { name: name.to_owned(), case, unit: "ns", measured, baseline, target }
}

/// The paper's algorithm with this C.
fn paper(scale: Scale, chunk_buckets: u32) -> Config {
    let max_chunks = MAX_PROBED / chunk_buckets;
    Config { chunk_buckets, max_chunks, ..Config::paper(scale.buckets_per_owner) }
}

/// Inserts with the home bucket claimed along with the first READ. In the model READs posted at once
/// are 1311 ns apart and a claim waits for nothing; the paper's latencies do not show whether claims
/// take the turns of READs too, so the ratios are given for both.
fn claims(scale: Scale) -> Result<Vec<Row>> {
    const CLAIMS: [OneRoundtrip; 3] = [OneRoundtrip::Off, OneRoundtrip::On, OneRoundtrip::Auto];
    let all = [false, true].map(|shares_turns| CLAIMS.map(|claim| (shares_turns, claim)));
    let means = each(all.as_flattened(), |&(shares_turns, one_roundtrip)| {
        let config = Config { one_roundtrip, ..paper(scale, 8) };
        let mut job = Job::open(config, 0, SEED, shares_turns)?;
        job.fill(CLAIM_LOAD - 2 * STEP)?;
        // Lets the automatic choice see the table.
        job.insert(CLAIM_LOAD - STEP)?;
        job.insert(CLAIM_LOAD)
    })?;
    let mut rows = Vec::new();
    let (means, _) = means.as_chunks::<3>();
    for (&[off, on, auto], turns) in means.iter().zip(["", ", taking a READ's turn"]) {
        let target = turns.is_empty().then_some(CLAIM_TARGET);
        let name = format!("insert in one roundtrip{turns} / the paper's");
        rows.extend(
            [(on, "on"), (auto, "auto")].map(|(mean, how)| {
                row(&name, format!("load 0.5, C = 8, {how}"), (mean, off), target)
            }),
        );
    }
    Ok(rows)
}

/// Finds of Zipf-distributed keys with a cache of buckets. A hit takes no virtual time.
fn cache(scale: Scale) -> Result<Row> {
    let keys = scale.buckets_per_owner * OWNERS * CACHE_LOAD / 100;
    let entries = [0, usize::try_from(keys / KEYS_PER_ENTRY)?];
    let seeds: Vec<u64> = (0..TABLES).map(|nth| SEED | nth << 20).collect();
    let means = each(&seeds, |&seed| {
        let wanted = zipf(keys, seed)?;
        let mut means = [0.0; 2];
        for (mean, &entries) in means.iter_mut().zip(&entries) {
            let mut job = Job::open(Config::paper(scale.buckets_per_owner), entries, seed, false)?;
            job.fill(CACHE_LOAD)?;
            let wanted: Vec<u64> = wanted.iter().map(|&n| job.key(n)).collect();
            // The first half warms the cache up.
            let (first, measured) = wanted.split_at(wanted.len() / 2);
            job.find(first)?;
            *mean = job.find(measured)?;
        }
        Ok(means)
    })?;
    let mean = |at: usize| means.iter().map(|means| means[at]).sum::<f64>() / TABLES as f64;
    let name = format!("find with a cache of 1/{KEYS_PER_ENTRY} of the keys / without");
    let case = format!("load 0.5, Zipf {ZIPF_EXPONENT}");
    Ok(row(&name, case, (mean(1), mean(0)), Some(CACHE_TARGET)))
}

/// Twice as many keys, by number, as there are, a power of two.
fn zipf(keys: u64, seed: u64) -> Result<Vec<u64>> {
    /// Odd, so that it permutes a power of two of keys: the most wanted ones are not those inserted
    /// first, into empty home buckets.
    const SHUFFLE: u64 = 0x9e37_79b9_7f4a_7c15;
    let zipf = Zipf::new(keys as f64, ZIPF_EXPONENT)?;
    let mut rng = SmallRng::seed_from_u64(seed);
    let draws = (0..2 * keys).map(|_| {
        // A sample is a whole number from 1 to `keys`.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let rank = zipf.sample(&mut rng) as u64 - 1;
        rank.wrapping_mul(SHUFFLE) & (keys - 1)
    });
    Ok(draws.collect())
}

/// Inserts with an adaptive C beside each fixed C while a table fills.
fn adaptive(scale: Scale) -> Result<Vec<Row>> {
    let read = Model::oortwijn2015().remote.read;
    let cost = ReadCost { base_ps: read.base_ns * 1_000, bucket_ps: read.word_ps };
    let chunk_choice = ChunkChoice::Adaptive(cost);
    let (from, to) = ADAPTIVE_LOADS;
    let loads: Vec<u64> = (from..to).step_by(scale.step).chain([to]).collect();
    let chosen = Config { chunk_choice, ..paper(scale, MAX_CHUNK) };
    let mut rows = Vec::new();
    for (read_ahead, how) in [(ReadAhead::Always, "always"), (ReadAhead::Likely, "likely")] {
        let configs = CHUNKS.map(|chunk| paper(scale, chunk)).into_iter().chain([chosen]);
        let configs: Vec<_> = configs.map(|config| Config { read_ahead, ..config }).collect();
        let means = each(&configs, |&config| inserts(config, &loads))?;
        let Some((adaptive, fixed)) = means.split_last() else { continue };
        let by_best = adaptive.iter().enumerate().map(|(at, &adaptive)| {
            (adaptive, fixed.iter().map(|means| means[at]).fold(f64::INFINITY, f64::min))
        });
        let worst = by_best.max_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
        let case = format!("worst load, read ahead {how}");
        let name = "insert with adaptive C / with the best fixed C";
        rows.extend(worst.map(|times| row(name, case, times, Some(ADAPTIVE_TARGET))));
    }
    Ok(rows)
}

/// The mean time of inserts up to each load factor. All keys are inserted by the table, unless its
/// operations learn nothing from earlier ones.
fn inserts(config: Config, loads: &[u64]) -> Result<Vec<f64>> {
    let mut job = Job::open(config, 0, SEED, false)?;
    let learns =
        config.read_ahead != ReadAhead::Always || config.chunk_choice != ChunkChoice::Fixed;
    let mean = |&percent: &u64| {
        match learns {
            true => drop(job.insert(percent - STEP)?),
            false => job.fill(percent - STEP)?,
        }
        job.insert(percent)
    };
    loads.iter().map(mean).collect()
}

/// Runs each of `all` on a cluster of its own, as many at a time as there are CPUs.
fn each<I: Sync, O: Send>(all: &[I], run: impl Fn(&I) -> Result<O> + Sync) -> Result<Vec<O>> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    probeline_simulate::each_at_once(all, threads, run)
}

/// A table of which one owner works, and how many keys it holds.
struct Job {
    table: Table<Nic, Vec<Operation>, Vec<CacheEntry>>,
    peer: Engine,
    held: u64,
    seed: u64,
}

impl Job {
    fn open(config: Config, cache: usize, seed: u64, shares_turns: bool) -> Result<Self> {
        let (engine, peer) = engines(&config, seed, shares_turns)?;
        let table = Table::new(engine, config, vec![Operation::EMPTY; OPERATIONS as usize])?;
        let table = table.with_cache(vec![CacheEntry::EMPTY; cache]);
        Ok(Self { table, peer, held: 0, seed })
    }

    /// The `n`th key; the table permutes keys by itself.
    fn key(&self, n: u64) -> u64 {
        (self.seed << 40).wrapping_add(n) & MAX_KEY
    }

    /// The keys up to a load factor that the table does not hold yet.
    fn missing(&mut self, percent: u64) -> core::ops::Range<u64> {
        let count = self.table.layout().buckets() * percent / 100;
        let missing = self.held..count.max(self.held);
        self.held = missing.end;
        missing
    }

    /// Fills up to a load factor without taking time: stores each key in the first empty bucket of
    /// its probe order.
    fn fill(&mut self, percent: u64) -> Result<()> {
        let layout = *self.table.layout();
        for n in self.missing(percent) {
            let bucket = Bucket::new(self.key(n))?;
            let mut at = layout.home(bucket);
            while self.word(layout.word(at))?.load(Relaxed) != 0 {
                at = layout.advance(at, 1);
            }
            self.word(layout.word(at))?.store(bucket.word(), Relaxed);
        }
        Ok(())
    }

    fn word(&self, at: RemoteWord) -> Result<&AtomicU64> {
        let is_own = at.owner == Owner(0);
        let window = if is_own { self.table.transport().window() } else { self.peer.window() };
        Ok(window.get(usize::try_from(at.index)?).ok_or("a bucket is beyond the window")?)
    }

    /// Inserts new keys up to a load factor, one after the other; returns their mean time in
    /// nanoseconds.
    fn insert(&mut self, percent: u64) -> Result<f64> {
        let missing = self.missing(percent);
        let (count, start_ns) = (missing.end - missing.start, self.now_ns());
        for n in missing {
            let outcome = self.table.find_or_put(self.key(n))?;
            if outcome != Outcome::Inserted {
                return Err(format!("a new key was {outcome:?}, not inserted").into());
            }
        }
        Ok((self.now_ns() - start_ns) as f64 / count.max(1) as f64)
    }

    /// Finds keys that the table holds, one after the other; returns their mean time in nanoseconds.
    fn find(&mut self, keys: &[u64]) -> Result<f64> {
        let start_ns = self.now_ns();
        for &key in keys {
            if !self.table.find(key)? {
                return Err("a key in the table was not found".into());
            }
        }
        Ok((self.now_ns() - start_ns) as f64 / keys.len().max(1) as f64)
    }

    fn now_ns(&self) -> u64 {
        self.table.transport().now_ns()
    }
}

/// The engine that works, and that of the other owner, which has to stay alive.
fn engines(config: &Config, seed: u64, shares_turns: bool) -> Result<(Nic, Engine)> {
    let (sizes, model) = (config.sizes(OPERATIONS), Model::oortwijn2015());
    let cluster = Cluster::new(probeline_sim::Config {
        owners: 2,
        window_words: sizes.window_words,
        slots: sizes.slots,
        slot_words: sizes.slot_words,
        depth: sizes.depth,
        seed,
        model,
        ..probeline_sim::Config::default()
    })?;
    let turn_ns =
        if shares_turns { 1_000_000_000_u64.div_ceil(model.initiator.copies_per_s) } else { 0 };
    Ok((Nic { engine: cluster.engine(Owner(0))?, turn_ns, free_ns: 0 }, cluster.engine(Owner(1))?))
}

/// A simulated engine in which claims may take the turns of READs at the NIC. In the model the two
/// have turns of their own.
struct Nic {
    engine: Engine,
    /// The time from one turn to the next; 0 leaves turns to the model.
    turn_ns: u64,
    /// The start of the next free turn.
    free_ns: u64,
}

impl Nic {
    fn now_ns(&self) -> u64 {
        self.engine.now_ns()
    }

    /// Waits for the turn of an operation on `owner`'s window; the CPU accesses the own one.
    ///
    /// The CPU posts as late as the NIC would send. That is equivalent, because the caller would
    /// otherwise only wait for the first completion, which takes longer than all these turns.
    fn wait_for_turn(&mut self, owner: Owner) {
        if self.turn_ns == 0 || owner == self.engine.geometry().me {
            return;
        }
        let now_ns = self.engine.now_ns();
        let turn_ns = now_ns.max(self.free_ns);
        self.engine.spend(turn_ns - now_ns);
        self.free_ns = turn_ns + self.turn_ns;
    }
}

impl Transport for Nic {
    forward_transport!(engine: caps, geometry, in_flight, kick, poll, landed, staged, window, direct);

    fn post(&mut self, token: Token, request: Request) -> Result<(), PostError> {
        self.wait_for_turn(request.owner());
        self.engine.post(token, request)
    }
}

// Cargo sets `test` for a benchmark without a harness too, and there the tests are left out.
#[cfg(test)]
#[allow(dead_code, unused_imports)]
mod tests {
    use probeline_transport::{Completion, Local, Segment, Slot};

    use super::*;

    /// When a claim and a READ complete that are posted to `owner` one after the other.
    fn completed_ns(shares_turns: bool, owner: Owner) -> Vec<u64> {
        let (mut nic, _peer) = engines(&Config::paper(8), 1, shares_turns).unwrap();
        let at = RemoteWord { owner, index: 0 };
        nic.compare_and_swap(Token(0), at, 0, 1).unwrap();
        let into = Local { slot: Slot(0), start: 0, words: 8 };
        nic.read(Token(1), Segment { start: at, words: 8 }, into).unwrap();
        let mut ends = vec![0; 2];
        while nic.in_flight() > 0 {
            let mut end = [Completion::default()];
            if nic.poll(&mut end).unwrap() == 1 {
                ends[usize::try_from(end[0].token.0).unwrap()] = nic.now_ns();
            }
        }
        ends
    }

    #[test]
    fn a_read_waits_for_the_claim_before_it_only_where_they_share_turns() {
        assert_eq!(completed_ns(false, Owner(1)), [3_745, 3_405]);
        assert_eq!(completed_ns(true, Owner(1)), [3_745, 1_311 + 3_405]);
        let own = completed_ns(false, Owner(0));
        assert_eq!(completed_ns(true, Owner(0)), own);
    }
}
