//! A rank of a table over shared memory, and what is measured of it.

use core::time::Duration;

use probeline_exchange::Thread;
use probeline_pin::NodeId;
use probeline_table::{Ended, Intent, Outcome};
use probeline_transport::{Exchange, Owner, RemoteWord, Segment, Transport};

use super::Result;
use super::keys::BLOCK;
use super::limits::measure;
use super::tables::{Table, TableKey, Variant};

/// Work on keys, or with the memory of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Work {
    /// A find of a key that the set holds.
    Find,
    /// A find-or-put of a key that the set holds.
    Hit,
    /// A find-or-put of a new key.
    Insert,
    /// Finds in batches.
    FindBatch,
    /// Inserts in batches.
    InsertBatch,
    /// Accesses of the table's windows without a table: the limits of the machine's memory.
    DependentReads,
    PrefetchedReads,
    ReadsThenSwaps,
}

impl Work {
    /// The work of a rank.
    pub(crate) const OF_RANKS: [Self; 5] =
        [Self::Insert, Self::Find, Self::InsertBatch, Self::Hit, Self::FindBatch];
    /// The limits of memory, as [`Rank::limits`] returns them.
    pub(crate) const LIMITS: [Self; 3] =
        [Self::DependentReads, Self::PrefetchedReads, Self::ReadsThenSwaps];

    /// Returns whether it wants new keys.
    pub(crate) fn is_insert(self) -> bool {
        matches!(self, Self::Insert | Self::InsertBatch)
    }
}

/// One rank, in its thread.
pub(crate) struct Rank<K: TableKey> {
    pub(crate) table: Table<K>,
    outcomes: Vec<Outcome>,
    found: Vec<bool>,
}

impl<K: TableKey> Rank<K> {
    /// Opens a table of `buckets`, all ranks together, with memory on the NUMA node.
    pub(crate) fn open(
        variant: Variant,
        buckets: u64,
        node: Option<NodeId>,
        exchange: &mut Thread,
    ) -> Result<Self> {
        let buckets_per_owner = buckets / u64::from(exchange.owners());
        let table = variant.open::<K>(buckets_per_owner, node, exchange)?;
        Ok(Self { table, outcomes: vec![Outcome::Full; BLOCK], found: vec![false; BLOCK] })
    }

    /// Measures the limits of the memory of all owners, each for `time`: rates of [`Work::LIMITS`].
    pub(crate) fn limits(&self, time: Duration) -> Result<[f64; Work::LIMITS.len()]> {
        let engine = self.table.transport();
        let geometry = engine.geometry();
        // The first 32 GiB of larger windows.
        let words = u32::try_from(geometry.window_words).unwrap_or(u32::MAX);
        let window = |owner| {
            let start = RemoteWord { owner: Owner(owner), index: 0 };
            engine.direct(Segment { start, words }).ok_or("the CPU cannot load a window")
        };
        let windows: Vec<_> = (0..geometry.owners).map(window).collect::<Result<_, _>>()?;
        Ok(measure(&windows, time))
    }

    /// Does `work` with all keys; returns how many had the expected outcome.
    pub(crate) fn work(&mut self, work: Work, keys: &[K]) -> usize {
        let Self { table, outcomes, found } = self;
        let results = outcomes.get_mut(..keys.len()).zip(found.get_mut(..keys.len()));
        let Some((outcomes, found)) = results else { return 0 };
        match work {
            Work::Find => {
                let mut is_found = |key| table.call(key, Intent::Find) == Ok(Ended::Found);
                keys.iter().filter(|key| is_found(*key)).count()
            }
            Work::Hit | Work::Insert => {
                let expected = if work == Work::Hit { Ended::Found } else { Ended::Inserted };
                let mut put = |key| table.call(key, Intent::FindOrPut) == Ok(expected);
                keys.iter().filter(|key| put(*key)).count()
            }
            Work::FindBatch if table.find_batch(keys, found).is_ok() => {
                found.iter().filter(|found| **found).count()
            }
            Work::FindBatch => 0,
            _ if table.find_or_put_batch(keys, outcomes).is_ok() => {
                outcomes.iter().filter(|outcome| **outcome == Outcome::Inserted).count()
            }
            _ => 0,
        }
    }
}
