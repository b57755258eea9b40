//! The tables of visited states, of any kind and over any engine: states in buckets, in entries and in
//! trees, of each number of words.

use probeline::pipeline::{OperationOf, Structure};
use probeline::table::{
    CacheEntry, CollectiveError, Config, EntryStats, Keys, Narrow, OneRoundtrip, Operation,
    Outcome, PairCacheLine, Set, Stats, Tree, TreeConfig, TreeOperation, TreeStats, TreeTable,
    Wide, WideConfig, WideOperation, WideTable,
};
use probeline::transport::{Exchange, Sizes};
use serde::{Deserialize, Serialize};

use super::expansion::{Expand, Expansion};
use super::{Exploration, Host};
use crate::petri::Packing;
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

/// The facts about a table that a search asks for at the end of a round.
pub(super) struct Facts {
    pub(super) stats: TableStats,
    pub(super) buckets: u64,
    /// The number of occupied buckets, or of states with entries, beyond which the table should grow,
    /// the same on all ranks.
    pub(super) grow_at: u64,
}

/// An engine on which to open a table, together with the other ranks. Its windows are 0 or contain the
/// table.
pub(super) struct Opening<'e> {
    pub(super) engine: &'e mut dyn Timed,
    /// The configuration of a table of the same size whose states have one word.
    pub(super) narrow: Config,
    pub(super) exploration: &'e Exploration,
}

/// A table of states of any kind. A state is its words.
pub(super) trait StateTable {
    /// Puts states, one after the other in `states`, in the table: by one batch call, or by a call
    /// for each.
    fn put(&mut self, states: &[u64], in_batch: bool, into: &mut [Outcome]) -> Result<(), Error>;

    fn engine(&mut self) -> Result<&mut dyn Timed, Error>;

    fn now_ns(&self) -> u64;

    fn facts(&self) -> Facts;

    /// Returns the numbers of states and of occupied buckets, counted in all windows.
    fn count(&mut self, exchange: &mut dyn Exchange) -> Result<[u64; 2], Error>;

    /// Moves all states to a larger table, as long as the host does not stop.
    fn move_to(
        &mut self,
        larger: Opening<'_>,
        host: &dyn Host,
        exchange: &mut dyn Exchange,
    ) -> Result<Moved, Error>;
}

/// A table of states of kind `K`.
type Opened<'e, K> = Set<&'e mut dyn Timed, Vec<OperationOf<K>>, K>;

type OpenResult<'e, K> = Result<Opened<'e, K>, CollectiveError>;

/// A kind of tables of states.
trait StateKind: Keys + 'static {
    /// Bytes of a state beside its bucket.
    const ENTRY_BYTES: u64 = 0;
    /// Whether states have nodes in other buckets.
    const HAS_NODES: bool = false;

    /// Returns the configuration of the buckets, and the sizes of engines. `narrow` is the
    /// configuration of a table of as many bytes whose states have one word.
    fn sizes(narrow: Config, in_flight: u32) -> (Config, Sizes);

    fn open<'e>(at: Opening<'e>, exchange: &mut dyn Exchange) -> OpenResult<'e, Self>;

    fn keys(states: &[u64]) -> &[Self::Key];

    /// Adds the facts that are not about buckets.
    fn complete(_: &Opened<'_, Self>, _: &mut Facts) {}
}

impl<K: StateKind> StateTable for Opened<'_, K> {
    fn put(&mut self, states: &[u64], in_batch: bool, into: &mut [Outcome]) -> Result<(), Error> {
        let each = if in_batch { into.len().max(1) } else { 1 };
        for (keys, outcomes) in K::keys(states).chunks(each).zip(into.chunks_mut(each)) {
            self.find_or_put_batch(keys, outcomes)?;
        }
        Ok(())
    }

    fn engine(&mut self) -> Result<&mut dyn Timed, Error> {
        Ok(&mut **self.transport_mut()?)
    }

    fn now_ns(&self) -> u64 {
        self.transport().now_ns()
    }

    fn facts(&self) -> Facts {
        let stats = TableStats { buckets: *Structure::stats(self), ..TableStats::default() };
        let buckets = self.layout().buckets();
        // At a higher load factor probes are long.
        let mut facts = Facts { stats, buckets, grow_at: buckets / 5 * 4 };
        K::complete(self, &mut facts);
        facts
    }

    fn count(&mut self, exchange: &mut dyn Exchange) -> Result<[u64; 2], Error> {
        let states = self.len(exchange)?;
        let occupied = if K::HAS_NODES { self.occupied(exchange)? } else { states };
        Ok([states, occupied])
    }

    fn move_to(
        &mut self,
        larger: Opening<'_>,
        host: &dyn Host,
        exchange: &mut dyn Exchange,
    ) -> Result<Moved, Error> {
        let mut larger = K::open(larger, exchange)?;
        Ok(self.grow_into_while(&mut larger, exchange, || host.stop() == 0))
    }
}

/// States of at most 63 bits, which are the buckets.
impl StateKind for Narrow<Vec<CacheEntry>> {
    fn sizes(narrow: Config, in_flight: u32) -> (Config, Sizes) {
        (narrow, narrow.sizes(in_flight))
    }

    fn open<'e>(at: Opening<'e>, exchange: &mut dyn Exchange) -> OpenResult<'e, Self> {
        let storage = vec![Operation::EMPTY; at.exploration.in_flight as usize];
        let cache = vec![CacheEntry::EMPTY; at.exploration.cache_entries as usize];
        Ok(Set::open(at.engine, at.narrow, storage, exchange)?.with_cache(cache))
    }

    fn keys(states: &[u64]) -> &[u64] {
        states
    }
}

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

/// States of several words, in entries to which buckets refer.
impl<const W: usize> StateKind for Wide<W> {
    const ENTRY_BYTES: u64 = 8 * W as u64;

    fn sizes(narrow: Config, in_flight: u32) -> (Config, Sizes) {
        let config = wide_config::<W>(narrow);
        (config.buckets, config.sizes(in_flight))
    }

    fn open<'e>(at: Opening<'e>, exchange: &mut dyn Exchange) -> OpenResult<'e, Self> {
        let storage = vec![WideOperation::EMPTY; at.exploration.in_flight as usize];
        WideTable::open(at.engine, wide_config(at.narrow), storage, exchange)
    }

    fn keys(states: &[u64]) -> &[[u64; W]] {
        states.as_chunks().0
    }

    fn complete(table: &Opened<'_, Self>, facts: &mut Facts) {
        facts.stats.entries = *table.entry_stats();
        let owners = u64::from(table.layout().owners());
        // The last entries are scattered among clients.
        facts.grow_at = facts.grow_at.min(table.config().entries_per_owner * owners / 20 * 19);
    }
}

fn tree_config(narrow: Config, key_bits: u32) -> TreeConfig {
    TreeConfig { buckets: Config { one_roundtrip: OneRoundtrip::Off, ..narrow }, key_bits }
}

/// States of several words, as trees of pairs.
type Trees<const W: usize> = Tree<W, Vec<PairCacheLine>>;

impl<const W: usize> StateKind for Trees<W> {
    const HAS_NODES: bool = true;

    fn sizes(narrow: Config, in_flight: u32) -> (Config, Sizes) {
        let config = tree_config(narrow, 1);
        (config.buckets, config.sizes(in_flight))
    }

    fn open<'e>(at: Opening<'e>, exchange: &mut dyn Exchange) -> OpenResult<'e, Self> {
        let packing = &at.exploration.packing;
        let all_bits = u32::try_from(W).unwrap_or(u32::MAX).saturating_mul(u64::BITS);
        // A packing that overflows may need all bits.
        let key_bits =
            if packing.may_overflow() { all_bits } else { packing.width().min(all_bits) };
        let storage = vec![TreeOperation::EMPTY; at.exploration.in_flight as usize];
        let config = tree_config(at.narrow, key_bits);
        let table = TreeTable::open(at.engine, config, storage, exchange)?;
        Ok(table.with_cache(vec![PairCacheLine::EMPTY; NODE_LINES]))
    }

    fn keys(states: &[u64]) -> &[[u64; W]] {
        states.as_chunks().0
    }

    fn complete(table: &Opened<'_, Self>, facts: &mut Facts) {
        facts.stats.nodes = *table.tree_stats();
    }
}

/// Opens a table of one kind.
type OpenTable =
    for<'e> fn(Opening<'e>, &mut dyn Exchange) -> Result<Box<dyn StateTable + 'e>, CollectiveError>;

/// Functions compiled for states of one number of words in tables of one kind.
pub(super) struct States {
    pub(super) words: usize,
    /// Returns [`StateKind::ENTRY_BYTES`].
    pub(super) entry_bytes: u64,
    /// Returns [`StateKind::sizes`].
    pub(super) sizes: fn(Config, u32) -> (Config, Sizes),
    pub(super) open: OpenTable,
    pub(super) expansion: fn(&Exploration, &Packing) -> Box<dyn Expand>,
}

impl States {
    const fn of<K: StateKind, const W: usize>() -> Self {
        Self {
            words: W,
            entry_bytes: K::ENTRY_BYTES,
            sizes: K::sizes,
            open: |at, exchange| Ok(Box::new(K::open(at, exchange)?)),
            expansion: |exploration, packing| Box::new(Expansion::<W>::new(exploration, packing)),
        }
    }
}

/// A state with fewer words is filled up with zeros: every width takes seconds to compile.
static FLAT: [States; 6] = [
    States::of::<Narrow<Vec<CacheEntry>>, 1>(),
    States::of::<Wide<2>, 2>(),
    States::of::<Wide<3>, 3>(),
    States::of::<Wide<4>, 4>(),
    States::of::<Wide<8>, 8>(),
    States::of::<Wide<16>, 16>(),
];
static TREES: [States; 5] = [
    States::of::<Trees<2>, 2>(),
    States::of::<Trees<3>, 3>(),
    States::of::<Trees<4>, 4>(),
    States::of::<Trees<8>, 8>(),
    States::of::<Trees<16>, 16>(),
];

/// The layout of states in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatesChoice {
    /// States in the bucket if 63 bits are enough; flat otherwise.
    Auto,
    /// States in an array of entries of two words or more.
    Flat,
    /// States as trees of pairs, which states share.
    Tree,
}

impl StatesChoice {
    /// Returns the states of each number of words that they may have, in ascending order.
    pub(super) fn all(self) -> &'static [States] {
        match self {
            Self::Auto => &FLAT,
            Self::Flat => FLAT.get(1..).unwrap_or_default(),
            Self::Tree => &TREES,
        }
    }

    /// Returns the words that a state may have, in ascending order.
    #[must_use]
    pub fn widths(self) -> Vec<u32> {
        self.all().iter().filter_map(|states| u32::try_from(states.words).ok()).collect()
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
