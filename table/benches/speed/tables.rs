//! The tables that are measured: of keys of 63 bits, and of wide keys.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::fence;

use probeline_exchange::Thread;
use probeline_pin::{HugePages, MemoryPolicy, NodeId};
use probeline_shm::{Builder, Engine};
use probeline_table::{
    Bucket, Config, Operation, Outcome, Probing, Table, WideConfig, WideOperation, WideTable,
};
use probeline_transport::{Exchange, Sizes, Transport};

use super::Result;
use super::keys::{Key, number};

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

impl Variant {
    /// Returns the parameters of the searches, the others as in `defaults`.
    fn config(self, defaults: Config) -> Config {
        let Self { probing, .. } = self;
        // One line a step if the probe order jumps.
        let chunk_buckets = if probing == Probing::Jump { 8 } else { defaults.chunk_buckets };
        let most = u32::try_from(defaults.buckets_per_owner).unwrap_or(u32::MAX);
        let chunk_buckets = chunk_buckets.min(most);
        let max_chunks = MAX_PROBED / chunk_buckets;
        Config { probing, chunk_buckets, max_chunks, ..defaults }
    }

    fn engine(self, sizes: Sizes, node: Option<NodeId>, exchange: &mut Thread) -> Result<Engine> {
        let memory = MemoryPolicy { node, huge: self.huge };
        Ok(Builder::new(sizes).memory(memory).open(exchange)?)
    }
}

/// One rank of a table of keys `K`.
pub(crate) trait Measured<K>: Sized {
    /// Words of memory for each bucket, with its entry.
    const WORDS_PER_BUCKET: u64;

    fn open(
        variant: Variant,
        buckets_per_owner: u64,
        node: Option<NodeId>,
        exchange: &mut Thread,
    ) -> Result<Self>;

    fn engine(&self) -> &Engine;

    /// See [`Rank::truncate`](super::rank::Rank::truncate).
    fn truncate(&mut self, count: u64, exchange: &mut impl Exchange) -> Result<u64>;

    /// Returns whether the table surely has the key.
    fn find(&mut self, key: &K) -> bool;

    /// Returns nothing if the operation failed.
    fn find_or_put(&mut self, key: &K) -> Option<Outcome>;

    /// Returns whether no operation failed.
    fn find_batch(&mut self, keys: &[K], found: &mut [bool]) -> bool;

    /// Returns whether no operation failed.
    fn find_or_put_batch(&mut self, keys: &[K], outcomes: &mut [Outcome]) -> bool;
}

/// Keys that a table of ours has.
pub(crate) trait TableKey: Key {
    /// The table of these keys.
    type Table: Measured<Self>;
}

impl TableKey for u64 {
    type Table = Narrow;
}

impl<const W: usize> TableKey for [u64; W] {
    type Table = Wide<W>;
}

/// A table of keys of 63 bits.
type Narrow = Table<Engine, Vec<Operation>>;

impl Measured<u64> for Narrow {
    const WORDS_PER_BUCKET: u64 = 1;

    fn open(
        variant: Variant,
        buckets_per_owner: u64,
        node: Option<NodeId>,
        exchange: &mut Thread,
    ) -> Result<Self> {
        let config = variant.config(Config::new(buckets_per_owner));
        let engine = variant.engine(config.sizes(OPERATIONS), node, exchange)?;
        let operations = vec![Operation::EMPTY; OPERATIONS as usize];
        Ok(Table::open(engine, config, operations, exchange)?)
    }

    fn engine(&self) -> &Engine {
        self.transport()
    }

    /// Empties the buckets of this rank's part whose keys are not among the first `count`.
    ///
    /// Keys that were inserted last are in buckets that were empty before, so this restores the
    /// earlier table.
    fn truncate(&mut self, count: u64, _: &mut impl Exchange) -> Result<u64> {
        let layout = *self.layout();
        let first = usize::try_from(layout.first_word()).unwrap_or(usize::MAX);
        let part = usize::try_from(layout.buckets_per_owner()).unwrap_or(usize::MAX);
        for word in self.transport().window().iter().skip(first).take(part) {
            let bucket = Bucket::from_word(word.load(Relaxed));
            if bucket.is_some_and(|bucket| number(bucket.key()) >= count) {
                word.store(0, Relaxed);
            }
        }
        fence(SeqCst);
        Ok(count)
    }

    #[inline]
    fn find(&mut self, key: &u64) -> bool {
        Table::find(self, *key) == Ok(true)
    }

    #[inline]
    fn find_or_put(&mut self, key: &u64) -> Option<Outcome> {
        Table::find_or_put(self, *key).ok()
    }

    fn find_batch(&mut self, keys: &[u64], found: &mut [bool]) -> bool {
        Table::find_batch(self, keys, found).is_ok()
    }

    fn find_or_put_batch(&mut self, keys: &[u64], outcomes: &mut [Outcome]) -> bool {
        Table::find_or_put_batch(self, keys, outcomes).is_ok()
    }
}

/// A table of keys of `W` words, with an entry for each bucket.
type Wide<const W: usize> = WideTable<Engine, Vec<WideOperation<W>>, W>;

impl<const W: usize> Measured<[u64; W]> for Wide<W> {
    const WORDS_PER_BUCKET: u64 = 1 + <[u64; W]>::WORDS as u64;

    fn open(
        variant: Variant,
        buckets_per_owner: u64,
        node: Option<NodeId>,
        exchange: &mut Thread,
    ) -> Result<Self> {
        let defaults = WideConfig::new(buckets_per_owner);
        let config = WideConfig { buckets: variant.config(defaults.buckets), ..defaults };
        let engine = variant.engine(config.sizes(OPERATIONS), node, exchange)?;
        let operations = vec![WideOperation::EMPTY; OPERATIONS as usize];
        Ok(WideTable::open(engine, config, operations, exchange)?)
    }

    fn engine(&self) -> &Engine {
        self.transport()
    }

    /// Removes all keys: to fill the table again takes less time than `retain`, which reads the
    /// entry of every key.
    fn truncate(&mut self, _: u64, exchange: &mut impl Exchange) -> Result<u64> {
        self.clear(exchange)?;
        Ok(0)
    }

    #[inline]
    fn find(&mut self, key: &[u64; W]) -> bool {
        WideTable::find(self, key) == Ok(true)
    }

    #[inline]
    fn find_or_put(&mut self, key: &[u64; W]) -> Option<Outcome> {
        WideTable::find_or_put(self, key).ok()
    }

    fn find_batch(&mut self, keys: &[[u64; W]], found: &mut [bool]) -> bool {
        WideTable::find_batch(self, keys, found).is_ok()
    }

    fn find_or_put_batch(&mut self, keys: &[[u64; W]], outcomes: &mut [Outcome]) -> bool {
        WideTable::find_or_put_batch(self, keys, outcomes).is_ok()
    }
}
