//! A rank of a table over shared memory, and what is measured of it.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::fence;
use core::time::Duration;

use probeline_exchange::Thread;
use probeline_limits::memory::measure;
use probeline_pin::{HugePages, MemoryPolicy, NodeId, Pages};
use probeline_table::{Bucket, Config, Operation, Outcome, Probing, Table};
use probeline_transport::{Exchange, Owner, RemoteWord, Segment, Transport};

use super::Result;
use super::keys::{BLOCK, number};

/// Buckets that an operation searches before it returns `Full`. At a load factor of 0.92 the
/// longest run of occupied buckets in a linear probe is some thousands long.
const MAX_PROBED: u32 = 1 << 15;
/// Operations in flight: hardly any, because the CPU loads all words itself.
const OPERATIONS: u32 = 2;

/// A table that is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    probing: Probing,
    huge: HugePages,
}

pub(crate) const VARIANTS: [Variant; 4] = [
    Variant { name: "linear", probing: Probing::Linear, huge: HugePages::Try },
    Variant { name: "lines", probing: Probing::Lines, huge: HugePages::Try },
    Variant { name: "jump", probing: Probing::Jump, huge: HugePages::Try },
    Variant { name: "lines-4k", probing: Probing::Lines, huge: HugePages::Never },
];

/// What is done with keys, or with the memory of the table.
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
    KeyedReads,
    ReadsThenSwaps,
    KeyedReadsThenSwaps,
}

impl Work {
    /// The work of a rank.
    pub(crate) const OF_RANKS: [Self; 5] =
        [Self::Insert, Self::Find, Self::InsertBatch, Self::Hit, Self::FindBatch];
    /// The limits of memory, as [`Rank::limits`] returns them.
    pub(crate) const LIMITS: [Self; 5] = [
        Self::DependentReads,
        Self::PrefetchedReads,
        Self::KeyedReads,
        Self::ReadsThenSwaps,
        Self::KeyedReadsThenSwaps,
    ];

    /// Returns whether it wants new keys.
    pub(crate) fn is_insert(self) -> bool {
        matches!(self, Self::Insert | Self::InsertBatch)
    }
}

/// One rank, in its thread.
pub(crate) struct Rank {
    table: Table<probeline_shm::Engine, Vec<Operation>>,
    outcomes: Vec<Outcome>,
}

impl Rank {
    /// Opens a table of `buckets`, all ranks together, with memory on the NUMA node.
    pub(crate) fn open(
        variant: Variant,
        buckets: u64,
        node: Option<NodeId>,
        exchange: &mut Thread,
    ) -> Result<Self> {
        let Variant { probing, huge, .. } = variant;
        let buckets_per_owner = buckets / u64::from(exchange.owners());
        let defaults = Config::new(buckets_per_owner);
        // One line a step if the probe order jumps.
        let chunk_buckets = if probing == Probing::Jump { 8 } else { defaults.chunk_buckets };
        let chunk_buckets = u32::try_from(buckets_per_owner).unwrap_or(u32::MAX).min(chunk_buckets);
        let max_chunks = MAX_PROBED / chunk_buckets;
        let config = Config { probing, chunk_buckets, max_chunks, ..defaults };
        let engine = probeline_shm::Builder::new(config.sizes(OPERATIONS))
            .memory(MemoryPolicy { node, huge })
            .open(exchange)?;
        let operations = vec![Operation::EMPTY; OPERATIONS as usize];
        let table = Table::open(engine, config, operations, exchange)?;
        Ok(Self { table, outcomes: vec![Outcome::Absent; BLOCK] })
    }

    /// Returns the pages of this rank's window.
    pub(crate) fn pages(&self) -> Pages {
        self.table.transport().pages()
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
        let of = measure(&windows, time)?;
        let rates = [
            of.dependent_reads,
            of.prefetched_reads,
            of.keyed_reads,
            of.reads_then_swaps,
            of.keyed_reads_then_swaps,
        ];
        Ok(rates.map(|rate| rate.per_second))
    }

    /// Empties the buckets of this rank's part whose keys are not among the first `count`.
    ///
    /// Keys that were inserted last are in buckets that were empty before, so this restores the
    /// earlier table. No rank may use the table meanwhile.
    pub(crate) fn truncate(&mut self, count: u64) {
        let layout = *self.table.layout();
        let first = usize::try_from(layout.first_word()).unwrap_or(usize::MAX);
        let part = usize::try_from(layout.buckets_per_owner()).unwrap_or(usize::MAX);
        for word in self.table.transport().window().iter().skip(first).take(part) {
            let bucket = Bucket::from_word(word.load(Relaxed));
            if bucket.is_some_and(|bucket| number(bucket.key()) >= count) {
                word.store(0, Relaxed);
            }
        }
        fence(SeqCst);
    }

    /// Does `work` with all keys; returns how many had the expected outcome.
    pub(crate) fn work(&mut self, work: Work, keys: &[u64]) -> usize {
        let Self { table, outcomes, .. } = self;
        let Some(outcomes) = outcomes.get_mut(..keys.len()) else { return 0 };
        let (done, expected) = match work {
            Work::Find => return keys.iter().filter(|key| table.find(**key) == Ok(true)).count(),
            Work::Hit | Work::Insert => {
                let expected = if work == Work::Hit { Outcome::Found } else { Outcome::Inserted };
                return keys.iter().filter(|key| table.find_or_put(**key) == Ok(expected)).count();
            }
            Work::FindBatch => (table.find_batch(keys, outcomes), Outcome::Found),
            _ => (table.find_or_put_batch(keys, outcomes), Outcome::Inserted),
        };
        let is_expected = |outcome: &&Outcome| **outcome == expected;
        if done.is_ok() { outcomes.iter().filter(is_expected).count() } else { 0 }
    }
}
