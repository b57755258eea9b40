//! The tables of all ranks on one simulated cluster.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use std::collections::VecDeque;

use probeline_profile::{MissingQuantity, Profile, Shape};
use probeline_sim::{Cluster, Engine, Model, Rng};
use probeline_table::{Bucket, CacheEntry, Config, Finished, Layout, Operation, Position, Table};
use probeline_transport::{Owner, Transport};

use crate::keys::filled;
use crate::{Error, Way};

/// The table of a rank.
pub(crate) type Rank = Table<Engine, Vec<Operation>, Vec<CacheEntry>>;

/// The cluster and the table on it.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The times of operations.
    pub model: Model,
    /// The machines and their ranks.
    pub shape: Shape,
    /// The algorithm of operations.
    pub way: Way,
    /// C.
    pub chunk_buckets: u32,
    /// M, the maximum chunks that an operation probes. The program of the paper's authors has 64.
    pub max_chunks: u32,
    /// Buckets of each owner, a multiple of 8.
    pub buckets_per_owner: u64,
    /// The seed of the keys and of the simulator.
    pub seed: u64,
    /// Whether all ranks work at once, and not one of them.
    pub all_at_once: bool,
}

impl Setup {
    /// Returns the paper's cluster of this shape.
    pub(crate) fn paper(
        profile: &Profile,
        shape: Shape,
        chunk_buckets: u32,
        buckets_per_owner: u64,
    ) -> Result<Self, MissingQuantity> {
        let (model, way) = (profile.paper_model(shape)?, Way::Paper);
        let (max_chunks, seed, all_at_once) = (64, 1, false);
        Ok(Self {
            model,
            shape,
            way,
            chunk_buckets,
            max_chunks,
            buckets_per_owner,
            seed,
            all_at_once,
        })
    }

    /// Returns the number of ranks.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.shape.machines.saturating_mul(self.shape.ranks_per_machine)
    }

    fn table(&self) -> Config {
        let Self { chunk_buckets, max_chunks, buckets_per_owner, .. } = *self;
        let paper = Config { chunk_buckets, max_chunks, ..Config::paper(buckets_per_owner) };
        self.way.config(paper, &self.model, self.all_at_once.then(|| self.ranks()))
    }

    fn cluster(&self) -> probeline_sim::Config {
        probeline_sim::Config {
            owners: self.ranks(),
            window_words: self.table().words(),
            slots: Config::slots(self.way.operations()),
            slot_words: self.chunk_buckets,
            depth: self.way.depth(),
            seed: self.seed,
            model: self.model,
            ..probeline_sim::Config::default()
        }
    }

    /// Returns the bytes of the cluster and all ranks, within a tenth.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let rank = size_of::<Rank>()
            + self.way.operations() as usize * size_of::<Operation>()
            + self.way.in_flight() as usize * size_of::<Finished>()
            + self.way.cache_entries() * size_of::<CacheEntry>();
        let ranks = u64::from(self.ranks()).saturating_mul(rank as u64);
        self.cluster().bytes().saturating_add(ranks)
    }
}

/// All ranks, and the keys that fill their table.
pub(crate) struct Ranks {
    pub(crate) cluster: Cluster,
    pub(crate) ranks: Vec<Rank>,
    pub(crate) layout: Layout,
    seed: u64,
    filled: u64,
}

impl Ranks {
    /// Creates the cluster. Ranks start at random times within `spread_ns` nanoseconds.
    pub(crate) fn open(setup: &Setup, spread_ns: u64) -> Result<Self, Error> {
        let (way, config, owners) = (setup.way, setup.table(), setup.ranks());
        let cluster = Cluster::new(setup.cluster())?;
        let mut offsets = Rng::new(setup.seed, 0);
        let mut ranks = VecDeque::with_capacity(owners as usize);
        for owner in (0..owners).map(Owner) {
            let mut engine = cluster.engine(owner)?;
            engine.spend(offsets.up_to(spread_ns));
            let operations = vec![Operation::EMPTY; way.operations() as usize];
            let table = Table::new(engine, config, operations)?;
            ranks.push_back(table.with_cache(vec![CacheEntry::EMPTY; way.cache_entries()]));
        }
        let ranks: Vec<Rank> = ranks.into();
        let layout = *ranks.first().ok_or(Error::Full { buckets: 0, held: 0 })?.layout();
        Ok(Self { cluster, ranks, layout, seed: setup.seed, filled: 0 })
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
