//! Simulates the latency of inserts by C and load factor: Table 1, left, and Fig. 2 of the paper.

use probeline_profile::{Profile, ProfileError, Shape};
use probeline_table::{Bucket, Outcome};

use crate::Error;
use crate::cluster::Keys;
use crate::cluster::{Rank, Ranks, Setup};

/// The experiment: one rank inserts, while the others wait for it at a barrier.
#[derive(Clone, Debug)]
pub struct LatencyPlan {
    /// The cluster and the table; the paper has two machines of one rank.
    pub setup: Setup,
    /// Load factors in percent, in ascending order. Each mean is over the inserts from 2 percentage
    /// points below the load factor.
    pub load_percents: Vec<u32>,
    /// The rank performs and measures one in this number of inserts; the others only fill the
    /// table.
    pub one_in: u32,
}

impl LatencyPlan {
    /// Returns the paper's experiment, which has two machines of one rank.
    ///
    /// # Errors
    /// The profile lacks a quantity.
    pub fn paper(
        profile: &Profile,
        shape: Shape,
        chunk_buckets: u32,
    ) -> Result<Self, ProfileError> {
        Ok(Self {
            setup: Setup::paper(profile, shape, chunk_buckets, 1 << 21)?,
            load_percents: (1..=46).map(|step| 2 * step).collect(),
            one_in: 2,
        })
    }
}

/// The mean over the inserts up to a load factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyRow {
    /// C.
    pub chunk_buckets: u32,
    /// The load factor in percent.
    pub load_percent: u32,
    /// The number of measured inserts.
    pub operations: u64,
    /// The number of these that found no room.
    pub full: u64,
    /// The mean latency in nanoseconds of virtual time.
    pub mean_ns: f64,
    /// The mean number of chunk READs posted.
    pub outgoing_roundtrips: f64,
    /// The mean number of chunk READs waited for.
    pub effective_roundtrips: f64,
}

/// The load factor's step between measurements, in percentage points (paper, section 4.1).
const STEP: u32 = 2;
/// The maximum owners to which inserts go in turn.
const MAX_PARTS: u32 = 8;

/// Runs the experiment. Returns a row for each load factor.
///
/// # Errors
/// [`Error`], for example if a key finds no room in the whole table.
pub fn latency(plan: &LatencyPlan) -> Result<Vec<LatencyRow>, Error> {
    let mut experiment = Experiment::open(plan)?;
    plan.load_percents.iter().map(|&load_percent| experiment.measure(load_percent)).collect()
}

struct Experiment<'p> {
    plan: &'p LatencyPlan,
    ranks: Ranks,
    keys: Keys,
    /// The number of occupied buckets.
    held: u64,
    /// The owner of the next measured insert. Taking owners in turn needs fewer inserts than random
    /// owners for the same precision.
    turn: u32,
}

impl<'p> Experiment<'p> {
    fn open(plan: &'p LatencyPlan) -> Result<Self, Error> {
        let ranks = Ranks::open(&plan.setup, 0)?;
        Ok(Self { plan, ranks, keys: Keys::new(plan.setup.seed, 0, 0), held: 0, turn: 0 })
    }

    fn count(&self, load_percent: u32) -> u64 {
        self.ranks.layout.buckets() * u64::from(load_percent) / 100
    }

    fn measure(&mut self, load_percent: u32) -> Result<LatencyRow, Error> {
        self.fill(self.count(load_percent.saturating_sub(STEP)))?;
        let until = self.count(load_percent);
        self.rank()?.reset_stats();
        let mut ns = 0;
        while self.held < until {
            self.fill((self.held + u64::from(self.plan.one_in) - 1).min(until))?;
            let key = self.next_key();
            let rank = self.rank()?;
            let start_ns = rank.transport().now_ns();
            let outcome = rank.find_or_put(key)?;
            ns += rank.transport().now_ns() - start_ns;
            match outcome {
                Outcome::Inserted => self.held += 1,
                Outcome::Full => self.check_full()?,
                _ => return Err(Error::Outcome { key, outcome }),
            }
        }
        let stats = *self.rank()?.stats();
        let total = stats.total();
        let each = |sum: u64| sum as f64 / total.operations.max(1) as f64;
        Ok(LatencyRow {
            chunk_buckets: self.plan.setup.table.chunk_buckets,
            load_percent,
            operations: total.operations,
            full: stats.full.operations,
            mean_ns: each(ns),
            outgoing_roundtrips: each(total.outgoing_roundtrips),
            effective_roundtrips: each(total.effective_roundtrips),
        })
    }

    /// Fails if more operations found no room than there are buckets.
    fn check_full(&mut self) -> Result<(), Error> {
        let (buckets, held) = (self.ranks.layout.buckets(), self.held);
        if self.rank()?.stats().full.operations > buckets {
            return Err(Error::Full { buckets, held });
        }
        Ok(())
    }

    fn fill(&mut self, until: u64) -> Result<(), Error> {
        while self.held < until {
            let key = self.keys.new_one();
            self.ranks.put(key)?;
            self.held += 1;
        }
        Ok(())
    }

    /// Returns a new key whose home is in the window of the owner whose turn it is. With many
    /// owners, returns any new key, because the share of the rank's own window is small.
    fn next_key(&mut self) -> u64 {
        let owners = self.ranks.layout.owners().max(1);
        if owners > MAX_PARTS {
            return self.keys.new_one();
        }
        self.turn = (self.turn + 1) % owners;
        loop {
            let key = self.keys.new_one();
            let home = Bucket::new(key).map(|bucket| self.ranks.layout.home(bucket).owner);
            if home.is_ok_and(|owner| owner == self.turn) {
                return key;
            }
        }
    }

    fn rank(&mut self) -> Result<&mut Rank, Error> {
        self.ranks.ranks.first_mut().ok_or(Error::Full { buckets: 0, held: 0 })
    }
}
