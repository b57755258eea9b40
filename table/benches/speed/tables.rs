//! The tables that are measured: of keys of 63 bits, and of wide keys.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::fence;

use probeline_exchange::Thread;
use probeline_pin::{HugePages, MemoryPolicy, NodeId};
use probeline_pipeline::{Open, OperationOf};
use probeline_shm::{Builder, Engine};
use probeline_table::{Bucket, Config, Keys, Narrow, Probing, Set, Wide, WideConfig};
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
}

pub(crate) const VARIANTS: [Variant; 3] = [
    Variant { name: "linear", probing: Probing::Linear },
    Variant { name: "lines", probing: Probing::Lines },
    Variant { name: "double-hash", probing: Probing::DoubleHash },
];

/// The table of keys `K`.
pub(crate) type Table<K> =
    Set<Engine, Vec<OperationOf<<K as TableKey>::Kind>>, <K as TableKey>::Kind>;

impl Variant {
    /// Returns the parameters of the searches, the others as in `defaults`.
    fn config(self, defaults: Config) -> Config {
        let probing = self.probing;
        // One line a step by double hashing.
        let chunk_buckets = if probing == Probing::DoubleHash { 8 } else { defaults.chunk_buckets };
        let most = u32::try_from(defaults.buckets_per_owner).unwrap_or(u32::MAX);
        let chunk_buckets = chunk_buckets.min(most);
        let max_chunks = MAX_PROBED / chunk_buckets;
        Config { probing, chunk_buckets, max_chunks, ..defaults }
    }

    /// Opens one rank of a table, with memory on the NUMA node.
    pub(crate) fn open<K: TableKey>(
        self,
        buckets_per_owner: u64,
        node: Option<NodeId>,
        exchange: &mut Thread,
    ) -> Result<Table<K>> {
        let (config, sizes) = K::config(self, buckets_per_owner);
        let memory = MemoryPolicy { node, huge: HugePages::Try };
        let engine = Builder::new(sizes).memory(memory).open(exchange)?;
        let operations = vec![OperationOf::<K::Kind>::EMPTY; OPERATIONS as usize];
        Ok(Set::open(engine, config, operations, exchange)?)
    }
}

/// Keys that a table of ours has.
pub(crate) trait TableKey: Key {
    type Kind: Keys<Key = Self> + Open;
    /// Words of memory for each bucket, with its entry.
    const WORDS_PER_BUCKET: u64;

    fn config(
        variant: Variant,
        buckets_per_owner: u64,
    ) -> (<Self::Kind as probeline_pipeline::Kind>::Config, Sizes);

    /// Removes the keys inserted since the table held the first `count`, and perhaps others of
    /// them; returns how many of the first remain. All ranks call it, with none at work.
    fn truncate(table: &mut Table<Self>, count: u64, exchange: &mut impl Exchange) -> Result<u64>;
}

impl TableKey for u64 {
    type Kind = Narrow;
    const WORDS_PER_BUCKET: u64 = 1;

    fn config(variant: Variant, buckets_per_owner: u64) -> (Config, Sizes) {
        let config = variant.config(Config::new(buckets_per_owner));
        (config, config.sizes(OPERATIONS))
    }

    /// Empties the buckets of this rank's part whose keys are not among the first `count`.
    ///
    /// Keys that were inserted last are in buckets that were empty before, so this restores the
    /// earlier table.
    fn truncate(table: &mut Table<u64>, count: u64, _: &mut impl Exchange) -> Result<u64> {
        let layout = *table.layout();
        let first = usize::try_from(layout.first_word()).unwrap_or(usize::MAX);
        let part = usize::try_from(layout.buckets_per_owner()).unwrap_or(usize::MAX);
        for word in table.transport().window().iter().skip(first).take(part) {
            let bucket = Bucket::from_word(word.load(Relaxed));
            if bucket.is_some_and(|bucket| number(bucket.key()) >= count) {
                word.store(0, Relaxed);
            }
        }
        fence(SeqCst);
        Ok(count)
    }
}

/// A table with an entry for each bucket.
impl<const W: usize> TableKey for [u64; W] {
    type Kind = Wide<W>;
    const WORDS_PER_BUCKET: u64 = 1 + <[u64; W]>::WORDS as u64;

    fn config(variant: Variant, buckets_per_owner: u64) -> (WideConfig<W>, Sizes) {
        let defaults = WideConfig::new(buckets_per_owner);
        let config = WideConfig { buckets: variant.config(defaults.buckets), ..defaults };
        (config, config.sizes(OPERATIONS))
    }

    /// Removes all keys: to fill the table again takes less time than `retain`, which reads the
    /// entry of every key.
    fn truncate(table: &mut Table<Self>, _: u64, exchange: &mut impl Exchange) -> Result<u64> {
        table.clear(exchange)?;
        Ok(0)
    }
}
