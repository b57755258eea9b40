//! The tables of visited states, of any kind and over any engine.

use probeline::pipeline::{OperationOf, Structure};
use probeline::table::{
    CacheEntry, CollectiveError, Config, EntryStats, Keys, Narrow, OneRoundtrip, Operation,
    PairCacheLine, Set, Stats, Tree, TreeConfig, TreeOperation, TreeStats, TreeTable, Wide,
    WideConfig, WideOperation, WideTable,
};
use probeline::transport::{Exchange, Sizes};
use serde::{Deserialize, Serialize};

use super::{Exploration, Host};
use crate::{Error, Timed};

/// Lines of 5 inner nodes in a rank's cache of them: 256 KiB, which stay in the CPU's cache.
const NODE_LINES: usize = 1 << 12;

/// The result of a move: the number of states.
pub type Moved = Result<u64, CollectiveError>;

/// The counters of a table: of its buckets, and of the entries or the nodes of wide states.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct TableStats {
    /// Counters of its buckets.
    pub buckets: Stats,
    /// Counters of the entries of wide states.
    pub entries: EntryStats,
    /// Counters of the nodes of wide states.
    pub nodes: TreeStats,
}

impl TableStats {
    pub(super) fn plus(&self, other: &Self) -> Self {
        Self {
            buckets: [self.buckets, other.buckets].into_iter().sum(),
            entries: self.entries.plus(&other.entries),
            nodes: self.nodes.plus(&other.nodes),
        }
    }
}

/// A table of states of kind `K`.
pub(super) type Opened<'e, K> = Set<&'e mut dyn Timed, Vec<OperationOf<K>>, K>;

/// A kind of tables of states of `W` words.
pub(super) trait StateKind<const W: usize>: Keys + 'static {
    /// Bytes of a state beside its bucket.
    const ENTRY_BYTES: u64 = 0;

    /// Returns the configuration of the buckets, and the sizes of engines. `narrow` is the
    /// configuration of a table of as many bytes whose states have one word.
    fn sizes(narrow: Config, in_flight: u32) -> (Config, Sizes);

    /// Opens a table of this size, together with the other ranks, on an engine whose windows are 0 or
    /// contain it.
    fn open<'e>(
        engine: &'e mut dyn Timed,
        exploration: &Exploration,
        bytes: u64,
        host: &mut dyn Host,
        exchange: &mut dyn Exchange,
    ) -> Result<Opened<'e, Self>, Error>;

    fn keys(states: &[[u64; W]]) -> &[Self::Key];

    fn key(state: &[u64; W]) -> Self::Arg<'_>;

    /// Returns the counters of a table.
    fn table_stats(table: &Opened<'_, Self>) -> TableStats {
        TableStats { buckets: *Structure::stats(table), ..TableStats::default() }
    }

    /// Returns the number of occupied buckets beyond which the table should grow, the same on all
    /// ranks.
    fn grow_at(table: &Opened<'_, Self>) -> u64 {
        // At a higher load factor probes are long.
        table.layout().buckets() / 5 * 4
    }

    /// Returns the number of occupied buckets, with `states` in the table.
    fn occupied(_: &mut Opened<'_, Self>, states: u64, _: &mut dyn Exchange) -> Result<u64, Error> {
        Ok(states)
    }
}

/// States of at most 63 bits, which are the buckets.
pub(super) type InBuckets = Narrow<Vec<CacheEntry>>;

impl StateKind<1> for InBuckets {
    fn sizes(narrow: Config, in_flight: u32) -> (Config, Sizes) {
        (narrow, narrow.sizes(in_flight))
    }

    fn open<'e>(
        engine: &'e mut dyn Timed,
        exploration: &Exploration,
        bytes: u64,
        host: &mut dyn Host,
        exchange: &mut dyn Exchange,
    ) -> Result<Opened<'e, Self>, Error> {
        let config = host.configure(engine, exploration.config_of(bytes), exchange)?;
        let storage = vec![Operation::EMPTY; exploration.in_flight as usize];
        let cache = vec![CacheEntry::EMPTY; exploration.cache_entries as usize];
        Ok(Set::open(engine, config, storage, exchange)?.with_cache(cache))
    }

    fn keys(states: &[[u64; 1]]) -> &[u64] {
        states.as_flattened()
    }

    fn key(&[state]: &[u64; 1]) -> u64 {
        state
    }
}

/// States of several words, in entries to which buckets refer.
pub(super) type InEntries<const W: usize> = Wide<W>;

/// Returns the configuration of a table of the bytes of --table-size, with an entry for three buckets
/// in four.
fn wide_config<const W: usize>(narrow: Config) -> WideConfig<W> {
    let words = narrow.buckets_per_owner;
    // For four buckets: their words, and three entries.
    let buckets = (words * 4 / (4 + 3 * W as u64)).next_multiple_of(8);
    let entries = words.saturating_sub(buckets) / W as u64;
    let buckets = Config { buckets_per_owner: buckets, one_roundtrip: OneRoundtrip::Off, ..narrow };
    WideConfig { buckets, entries_per_owner: entries.max(1) }
}

impl<const W: usize> StateKind<W> for InEntries<W> {
    const ENTRY_BYTES: u64 = 8 * W as u64;

    fn sizes(narrow: Config, in_flight: u32) -> (Config, Sizes) {
        let config = wide_config::<W>(narrow);
        (config.buckets, config.sizes(in_flight))
    }

    fn open<'e>(
        engine: &'e mut dyn Timed,
        exploration: &Exploration,
        bytes: u64,
        host: &mut dyn Host,
        exchange: &mut dyn Exchange,
    ) -> Result<Opened<'e, Self>, Error> {
        let mut config = wide_config::<W>(exploration.config_of(bytes));
        config.buckets = host.configure(engine, config.buckets, exchange)?;
        let storage = vec![WideOperation::EMPTY; exploration.in_flight as usize];
        Ok(WideTable::open(engine, config, storage, exchange)?)
    }

    fn keys(states: &[[u64; W]]) -> &[[u64; W]] {
        states
    }

    fn key(state: &[u64; W]) -> &[u64; W] {
        state
    }

    fn table_stats(table: &Opened<'_, Self>) -> TableStats {
        let (buckets, entries) = (*Structure::stats(table), *table.entry_stats());
        TableStats { buckets, entries, ..TableStats::default() }
    }

    fn grow_at(table: &Opened<'_, Self>) -> u64 {
        let owners = u64::from(table.layout().owners());
        let entries = table.config().entries_per_owner * owners;
        // The last entries are scattered among clients.
        (table.layout().buckets() / 5 * 4).min(entries / 20 * 19)
    }
}

/// States of several words, as trees of pairs.
pub(super) type InTrees<const W: usize> = Tree<W, Vec<PairCacheLine>>;

fn tree_config(narrow: Config, key_bits: u32) -> TreeConfig {
    TreeConfig { buckets: Config { one_roundtrip: OneRoundtrip::Off, ..narrow }, key_bits }
}

impl<const W: usize> StateKind<W> for InTrees<W> {
    fn sizes(narrow: Config, in_flight: u32) -> (Config, Sizes) {
        let config = tree_config(narrow, 1);
        (config.buckets, config.sizes(in_flight))
    }

    fn open<'e>(
        engine: &'e mut dyn Timed,
        exploration: &Exploration,
        bytes: u64,
        host: &mut dyn Host,
        exchange: &mut dyn Exchange,
    ) -> Result<Opened<'e, Self>, Error> {
        let packing = &exploration.packing;
        let all_bits = u32::try_from(W).unwrap_or(u32::MAX).saturating_mul(u64::BITS);
        // A packing that overflows may need all bits.
        let key_bits =
            if packing.may_overflow() { all_bits } else { packing.width().min(all_bits) };
        let mut config = tree_config(exploration.config_of(bytes), key_bits);
        config.buckets = host.configure(engine, config.buckets, exchange)?;
        let storage = vec![TreeOperation::EMPTY; exploration.in_flight as usize];
        let table = TreeTable::open(engine, config, storage, exchange)?;
        Ok(table.with_cache(vec![PairCacheLine::EMPTY; NODE_LINES]))
    }

    fn keys(states: &[[u64; W]]) -> &[[u64; W]] {
        states
    }

    fn key(state: &[u64; W]) -> &[u64; W] {
        state
    }

    fn table_stats(table: &Opened<'_, Self>) -> TableStats {
        let (buckets, nodes) = (*Structure::stats(table), *table.tree_stats());
        TableStats { buckets, nodes, ..TableStats::default() }
    }

    fn occupied(
        table: &mut Opened<'_, Self>,
        _: u64,
        exchange: &mut dyn Exchange,
    ) -> Result<u64, Error> {
        Ok(table.occupied(exchange)?)
    }
}

/// Moves the content of an engine to a larger one.
pub type MoveContent<'f> =
    dyn FnMut(&mut dyn Timed, &mut dyn Timed, &mut dyn Exchange) -> Result<Moved, Error> + 'f;

/// The engine of an exploration, and larger ones that take its place.
pub trait Engine {
    /// Returns the engine that has the table.
    fn current(&mut self) -> &mut dyn Timed;

    /// Opens an engine of these sizes, moves the content there, and closes the current one. If that
    /// fails, the current engine stays. All ranks call it.
    ///
    /// # Errors
    /// [`Error::Engine`], or the errors of `move_content`.
    fn grow(
        &mut self,
        sizes: Sizes,
        exchange: &mut dyn Exchange,
        move_content: &mut MoveContent<'_>,
    ) -> Result<Moved, Error>;
}
