//! The tables of all ranks on one simulated cluster, and the keys of a run. Keys are numbered, so
//! that the contents of the table need not be stored twice.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use std::collections::VecDeque;

use probeline_profile::{Profile, ProfileError, Shape};
use probeline_sim::{Cluster, Engine, Model, Rng};
use probeline_table::{
    Bucket, CacheEntry, Config, Finished, Layout, MAX_KEY, Operation, Position, Table,
};
use probeline_transport::{Owner, Transport};

use crate::Error;

/// The table of a rank.
pub(crate) type Rank = Table<Engine, Vec<Operation>, Vec<CacheEntry>>;

/// Storage for blocking calls: one operation, and some whose read-aheads may still complete.
const BLOCKING: u32 = 4;
/// Storage per operation in flight: as many again may have read-aheads that still complete.
const OPERATIONS_PER_IN_FLIGHT: u32 = 2;
/// Maximum one-sided operations of each: the READs of two chunks, each split in two, and a claim.
const DEPTH: u32 = 5;
/// Maximum depth of an engine; operations that find it full are posted later.
const MAX_DEPTH: u32 = 1 << 16;

/// The cluster and the table on it.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The times of operations.
    pub model: Model,
    /// The machines and their ranks.
    pub shape: Shape,
    /// The configuration of the table.
    pub table: Config,
    /// Operations in flight of a rank; 1 selects blocking calls.
    pub in_flight: u32,
    /// Entries of a rank's cache; 0 for no cache.
    pub cache_entries: u32,
    /// The seed of the keys and of the simulator.
    pub seed: u64,
}

impl Setup {
    /// Returns the paper's cluster of this shape, with its algorithm (Fig. 1): one operation at a
    /// time. The program of the paper's authors has M = 64.
    pub(crate) fn paper(
        profile: &Profile,
        shape: Shape,
        chunk_buckets: u32,
        buckets_per_owner: u64,
    ) -> Result<Self, ProfileError> {
        let model = profile.paper_model(shape)?;
        let table = Config { chunk_buckets, max_chunks: 64, ..Config::paper(buckets_per_owner) };
        Ok(Self { model, shape, table, in_flight: 1, cache_entries: 0, seed: 1 })
    }

    /// Returns the number of ranks.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.shape.machines.saturating_mul(self.shape.ranks_per_machine)
    }

    /// Returns the number of operations for which there is storage.
    fn operations(&self) -> u32 {
        (self.in_flight * OPERATIONS_PER_IN_FLIGHT).max(BLOCKING)
    }

    fn cluster(&self) -> probeline_sim::Config {
        probeline_sim::Config {
            owners: self.ranks(),
            window_words: self.table.words(),
            slots: Config::slots(self.operations()),
            slot_words: self.table.chunk_buckets,
            depth: (self.operations() * DEPTH).min(MAX_DEPTH),
            seed: self.seed,
            model: self.model,
            ..probeline_sim::Config::default()
        }
    }

    /// Returns the bytes of the cluster and all ranks, within a tenth.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let rank = size_of::<Rank>()
            + self.operations() as usize * size_of::<Operation>()
            + self.in_flight as usize * size_of::<Finished>()
            + self.cache_entries as usize * size_of::<CacheEntry>();
        let ranks = u64::from(self.ranks()).saturating_mul(rank as u64);
        self.cluster().bytes().saturating_add(ranks)
    }
}

/// All ranks, and the keys that fill their table.
pub(crate) struct Ranks {
    pub(crate) ranks: Vec<Rank>,
    pub(crate) layout: Layout,
    seed: u64,
    filled: u64,
}

impl Ranks {
    /// Creates the cluster. Ranks start at random times within `spread_ns` nanoseconds.
    pub(crate) fn open(setup: &Setup, spread_ns: u64) -> Result<Self, Error> {
        let owners = setup.ranks();
        let cluster = Cluster::new(setup.cluster())?;
        let mut offsets = Rng::new(setup.seed, 0);
        let mut ranks = VecDeque::with_capacity(owners as usize);
        for owner in (0..owners).map(Owner) {
            let mut engine = cluster.engine(owner)?;
            engine.spend(offsets.up_to(spread_ns));
            let operations = vec![Operation::EMPTY; setup.operations() as usize];
            let table = Table::new(engine, setup.table, operations)?;
            ranks
                .push_back(table.with_cache(vec![CacheEntry::EMPTY; setup.cache_entries as usize]));
        }
        let ranks: Vec<Rank> = ranks.into();
        let layout = *ranks.first().ok_or(Error::Full { buckets: 0, held: 0 })?.layout();
        Ok(Self { ranks, layout, seed: setup.seed, filled: 0 })
    }

    /// Returns the number of keys that fill the table.
    pub(crate) fn filled(&self) -> u64 {
        self.filled
    }

    /// Puts a key in the first empty bucket of its probe order, in no virtual time.
    pub(crate) fn put(&mut self, key: u64) -> Result<(), Error> {
        let bucket = Bucket::new(key)?;
        let mut places = self.layout.probe_order(bucket).filter_map(|at| self.place(at));
        if let Some(empty) = places.find(|place| place.load(Relaxed) == 0) {
            empty.store(bucket.word(), Relaxed);
            return Ok(());
        }
        Err(Error::Full { buckets: self.layout.buckets(), held: self.filled })
    }

    /// Returns the owner of a key's home, and the number of buckets before the key in its probe
    /// order. An absent key counts as if it were in the first empty bucket.
    pub(crate) fn position(&self, key: u64) -> Option<(Owner, u64)> {
        let bucket = Bucket::new(key).ok()?;
        let is_end = |word: u64| word == 0 || word == bucket.word();
        let places = self.layout.probe_order(bucket).filter_map(|at| self.place(at));
        let passed = places.take_while(|place| !is_end(place.load(Relaxed))).count();
        Some((Owner(self.layout.home(bucket).owner), passed as u64))
    }

    /// Returns the word of a bucket.
    fn place(&self, at: Position) -> Option<&AtomicU64> {
        let word = self.layout.word(at);
        let owner = self.ranks.get(word.owner.0 as usize)?;
        owner.transport().window().get(usize::try_from(word.index).ok()?)
    }

    /// Fills the table until it has `count` keys, in no virtual time.
    pub(crate) fn fill(&mut self, count: u64) -> Result<(), Error> {
        while self.filled < count {
            self.put(filled(self.seed, self.filled))?;
            self.filled += 1;
        }
        Ok(())
    }
}

/// Bits of the number of a key: first the keys that fill the table, then a range for each rank.
const SEED_BITS: u32 = 40;
const FILLED_BITS: u32 = 34;
/// 2^12 ranks, the maximum of the simulator.
const RANK_BITS: u32 = 26;

/// Returns the `n`th key that fills the table.
pub(crate) fn filled(seed: u64, n: u64) -> u64 {
    (seed << SEED_BITS).wrapping_add(n) & MAX_KEY
}

/// The keys of one rank: new ones, and those that fill the table.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    seed: u64,
    held: u64,
    next: u64,
    random: Rng,
}

impl Keys {
    /// Creates the keys of a rank for a table that is filled with `held` keys.
    pub(crate) fn new(seed: u64, rank: u32, held: u64) -> Self {
        let next = (1 << FILLED_BITS) + (u64::from(rank) << RANK_BITS);
        Self { seed, held, next, random: Rng::new(seed, 1 + u64::from(rank)) }
    }

    /// Returns a new key with a probability of `new_percent` percent, otherwise one that fills the
    /// table.
    pub(crate) fn draw(&mut self, new_percent: u32) -> u64 {
        if self.held == 0 || self.random.below(100) < u64::from(new_percent) {
            return self.new_one();
        }
        filled(self.seed, self.random.below(self.held))
    }

    /// Returns whether a drawn key is new.
    pub(crate) fn is_new(&self, key: u64) -> bool {
        key.wrapping_sub(filled(self.seed, 0)) & MAX_KEY >= 1 << FILLED_BITS
    }

    pub(crate) fn new_one(&mut self) -> u64 {
        self.next += 1;
        filled(self.seed, self.next)
    }
}
