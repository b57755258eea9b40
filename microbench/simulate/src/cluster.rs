//! The tables of all ranks on one simulated cluster.

use core::sync::atomic::Ordering::Relaxed;
use std::collections::VecDeque;

use probeline_profile::Shape;
use probeline_sim::{Cluster, Engine, Model, Rng};
use probeline_table::{Bucket, CacheEntry, Config, Finished, Layout, Operation, Table};
use probeline_transport::{Owner, Transport};

use crate::keys::filled;
use crate::{Error, Way};

/// The table of a rank.
pub(crate) type Rank = Table<Engine, Vec<Operation>, Vec<CacheEntry>>;

/// The cluster and the table on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) model: Model,
    pub(crate) shape: Shape,
    pub(crate) way: Way,
    pub(crate) buckets_per_owner: u64,
    pub(crate) chunk_buckets: u32,
    /// The probe limit in buckets: C times M.
    pub(crate) reach: u32,
    pub(crate) seed: u64,
    /// Ranks start at random times within this many nanoseconds.
    pub(crate) spread_ns: u64,
}

impl Plan {
    fn owners(&self) -> u32 {
        self.shape.machines.saturating_mul(self.shape.ranks_per_machine)
    }

    fn table(&self) -> Config {
        self.way.config(self.buckets_per_owner, self.chunk_buckets, self.reach, &self.model)
    }

    fn cluster(&self) -> probeline_sim::Config {
        probeline_sim::Config {
            owners: self.owners(),
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
    pub(crate) fn bytes(&self) -> u64 {
        let rank = size_of::<Rank>()
            + self.way.operations() as usize * size_of::<Operation>()
            + self.way.in_flight() as usize * size_of::<Finished>()
            + self.way.cache_entries() * size_of::<CacheEntry>();
        let ranks = u64::from(self.owners()).saturating_mul(rank as u64);
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
    pub(crate) fn open(plan: &Plan) -> Result<Self, Error> {
        let (way, config, owners) = (plan.way, plan.table(), plan.owners());
        let cluster = Cluster::new(plan.cluster())?;
        let mut offsets = Rng::new(plan.seed, 0);
        let mut ranks = VecDeque::with_capacity(owners as usize);
        for owner in (0..owners).map(Owner) {
            let mut engine = cluster.engine(owner)?;
            engine.spend(offsets.up_to(plan.spread_ns));
            let operations = vec![Operation::EMPTY; way.operations() as usize];
            let table = Table::new(engine, config, operations)?;
            ranks.push_back(table.with_cache(vec![CacheEntry::EMPTY; way.cache_entries()]));
        }
        let ranks: Vec<Rank> = ranks.into();
        let layout = *ranks.first().ok_or(Error::Full { buckets: 0, held: 0 })?.layout();
        Ok(Self { cluster, ranks, layout, seed: plan.seed, filled: 0 })
    }

    /// Returns the number of keys that fill the table.
    pub(crate) fn filled(&self) -> u64 {
        self.filled
    }

    /// Puts a key in the first empty bucket of its probe order, in no virtual time.
    pub(crate) fn put(&mut self, datum: u64) -> Result<(), Error> {
        let bucket = Bucket::new(datum).map_err(probeline_table::SubmitError::Data)?;
        let mut at = self.layout.home(bucket);
        for _ in 0..self.layout.buckets() {
            let word = self.layout.word(at);
            let owner = self.ranks.get(word.owner.0 as usize);
            let window = owner.map_or(&[][..], |rank| rank.transport().window());
            let place = usize::try_from(word.index).ok().and_then(|index| window.get(index));
            if let Some(place) = place
                && place.load(Relaxed) == 0
            {
                place.store(bucket.word(), Relaxed);
                return Ok(());
            }
            at = self.layout.advance(at, 1);
        }
        Err(Error::Full { buckets: self.layout.buckets(), held: self.filled })
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
