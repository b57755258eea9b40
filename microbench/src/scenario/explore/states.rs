//! States of one word or of several: the table that holds those visited, and their expander.

use clap::builder::TypedValueParser;
use probeline::table::{
    Config, EntryStats, GrowError, OneRoundtrip, Outcome, PairCacheLine, Stats, TreeConfig,
    TreeOperation, TreeStats, TreeTable, WideConfig, WideOperation, WideTable,
};
use probeline::transport::{Exchange, Sizes};
use probeline_petri::{Expanded, Expander, Net, Overflow, Packing, Successors, WideExpander};
use serde::{Deserialize, Serialize};

use super::ExploreArgs;
use crate::cli::{JobArgs, one_of};
use crate::failure::{Failure, Result};
use crate::table::{CachedTable, PipelineArgs};
use crate::timed::{AnyTimed, Timed};

/// The words that a state may have. A state with fewer is filled up with zeros: every width takes
/// seconds to compile.
const WIDTHS: [u32; 6] = [1, 2, 3, 4, 8, 16];

/// Lines of 5 inner nodes in a rank's cache of them: 256 KiB, which stay in the CPU's cache.
const NODE_LINES: usize = 1 << 12;

/// How the table holds states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatesChoice {
    Auto,
    Flat,
    Tree,
}

pub(super) fn choices() -> impl TypedValueParser<Value = StatesChoice> {
    one_of(&[
        (
            "auto",
            "In the bucket, 8 bytes, if 63 bits are enough; flat otherwise",
            StatesChoice::Auto,
        ),
        (
            "flat",
            "In an array of 16 to 128 bytes a state, beside 8 bytes for the bucket",
            StatesChoice::Flat,
        ),
        (
            "tree",
            "As a tree of pairs that states share, 8 to 10 bytes for most wide states; slower",
            StatesChoice::Tree,
        ),
    ])
}

impl StatesChoice {
    /// Returns the words that a state may have.
    pub(super) fn widths(self) -> &'static [u32] {
        match self {
            Self::Auto => &WIDTHS,
            Self::Flat | Self::Tree => WIDTHS.get(1..).unwrap_or_default(),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Flat => "flat",
            Self::Tree => "tree",
        }
    }
}

/// Refuses options that the user gave and that tables of states of several words do not have.
pub(super) fn check_options(job: &JobArgs) -> Result<()> {
    match ["one-roundtrip", "cache"].into_iter().find(|option| job.options.is_given(option)) {
        Some(option) => Err(Failure::usage(format!(
            "--{option} is for states of at most 63 bits: leave it out"
        ))),
        None => Ok(()),
    }
}

/// Returns the configuration of a table of states of `W` words, whose buckets are otherwise those of
/// `narrow`: of the bytes of --table-size, with an entry for three buckets in four.
pub(super) fn wide_config<const W: usize>(narrow: Config) -> WideConfig<W> {
    let words = narrow.buckets_per_owner;
    // For four buckets: their words, and three entries.
    let buckets = (words * 4 / (4 + 3 * W as u64)).next_multiple_of(8);
    let entries = words.saturating_sub(buckets) / W as u64;
    let buckets = Config { buckets_per_owner: buckets, one_roundtrip: OneRoundtrip::Off, ..narrow };
    WideConfig { buckets, entries_per_owner: entries.max(1) }
}

/// Returns the configuration of the buckets of a table of states of this number of words.
pub(super) fn buckets(choice: StatesChoice, words: usize, narrow: Config) -> Config {
    match words {
        1 => narrow,
        _ if choice == StatesChoice::Tree => tree_config(narrow, 1).buckets,
        2 => wide_config::<2>(narrow).buckets,
        3 => wide_config::<3>(narrow).buckets,
        4 => wide_config::<4>(narrow).buckets,
        8 => wide_config::<8>(narrow).buckets,
        _ => wide_config::<16>(narrow).buckets,
    }
}

/// Returns the configuration of a table of states as trees, of the bytes of --table-size.
fn tree_config(narrow: Config, key_bits: u32) -> TreeConfig {
    TreeConfig { buckets: Config { one_roundtrip: OneRoundtrip::Off, ..narrow }, key_bits }
}

/// Returns the bits of a state's key in a tree. A packing that overflows may need all bits.
fn key_bits<const W: usize>(packing: &Packing) -> u32 {
    let all = u32::try_from(W).unwrap_or(u32::MAX).saturating_mul(u64::BITS);
    if packing.may_overflow() { all } else { packing.width().min(all) }
}

/// Returns the options of a table of states of several words, which has no cache.
pub(super) fn wide_args(args: &PipelineArgs) -> PipelineArgs {
    let mut args = args.clone();
    args.table.cache = 0;
    args
}

/// Returns a note on the options without effect on a table of states of several words: those of a
/// tuning, and those given for states that had one word when the search started.
pub(super) fn without_effect(args: &PipelineArgs, narrow: &Config) -> Option<String> {
    let cache = (args.table.cache > 0).then_some("--cache");
    let claims = (narrow.one_roundtrip == OneRoundtrip::On).then_some("--one-roundtrip");
    let ignored: Vec<&str> = cache.into_iter().chain(claims).collect();
    (!ignored.is_empty()).then(|| {
        format!("{}: without effect on states that have several words.", ignored.join(", "))
    })
}

/// Returns the sizes of engines of a table of states of this number of words.
pub(super) fn wide_sizes(
    choice: StatesChoice,
    words: u32,
    narrow: Config,
    operations: u32,
) -> Sizes {
    match words {
        _ if choice == StatesChoice::Tree => tree_config(narrow, 1).sizes(operations),
        2 => wide_config::<2>(narrow).sizes(operations),
        3 => wide_config::<3>(narrow).sizes(operations),
        4 => wide_config::<4>(narrow).sizes(operations),
        8 => wide_config::<8>(narrow).sizes(operations),
        _ => wide_config::<16>(narrow).sizes(operations),
    }
}

/// Opens a table of states of `W` words together with the other ranks.
pub(super) fn open_wide<'e, const W: usize>(
    mut engine: &'e mut dyn AnyTimed,
    narrow: Config,
    packing: &Packing,
    args: &ExploreArgs,
    exchange: &mut dyn Exchange,
) -> Result<WideStates<'e, W>> {
    let ExploreArgs { pipeline, states, .. } = args;
    let in_flight = pipeline.in_flight as usize;
    if *states == StatesChoice::Tree {
        let mut config = tree_config(narrow, key_bits::<W>(packing));
        config.buckets = pipeline.table.adapted(&mut engine, config.buckets, exchange)?;
        let storage = vec![TreeOperation::EMPTY; in_flight];
        let table = TreeTable::open(engine, config, storage, exchange)?;
        return Ok(WideStates::Tree(table.with_cache(vec![PairCacheLine::EMPTY; NODE_LINES])));
    }
    let mut config = wide_config::<W>(narrow);
    config.buckets = pipeline.table.adapted(&mut engine, config.buckets, exchange)?;
    let storage = vec![WideOperation::EMPTY; in_flight];
    Ok(WideStates::Flat(WideTable::open(engine, config, storage, exchange)?))
}

/// The set of visited states, of `W` words each.
pub(super) trait Visited<const W: usize> {
    type Engine: Timed;
    type Expander: Expand<W>;

    fn find_or_put(&mut self, state: &[u64; W]) -> Result<Outcome>;

    fn find_or_put_batch(&mut self, states: &[[u64; W]], outcomes: &mut [Outcome]) -> Result<()>;

    fn engine(&self) -> &Self::Engine;

    fn engine_mut(&mut self) -> Result<&mut Self::Engine>;

    fn stats(&self) -> TableStats;

    fn buckets(&self) -> u64;

    /// Returns the number of occupied buckets beyond which the table should grow, the same on all
    /// ranks.
    fn grow_at(&self) -> u64;

    fn len(&mut self, exchange: &mut dyn Exchange) -> Result<u64>;

    /// Returns the number of occupied buckets, with `states` in the table.
    fn occupied(&mut self, states: u64, _: &mut dyn Exchange) -> Result<u64> {
        Ok(states)
    }

    /// Returns the bytes of a state's entry, beside its bucket.
    fn entry_bytes(&self) -> u64;
}

/// The counters of a table: of its buckets, and of the entries or the nodes of wide states.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct TableStats {
    pub(super) buckets: Stats,
    pub(super) entries: EntryStats,
    pub(super) nodes: TreeStats,
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

impl<T: Timed> Visited<1> for CachedTable<T> {
    type Engine = T;
    type Expander = Expander;

    fn find_or_put(&mut self, state: &[u64; 1]) -> Result<Outcome> {
        Ok(Self::find_or_put(self, state[0])?)
    }

    fn find_or_put_batch(&mut self, states: &[[u64; 1]], outcomes: &mut [Outcome]) -> Result<()> {
        Ok(Self::find_or_put_batch(self, states.as_flattened(), outcomes)?)
    }

    fn engine(&self) -> &T {
        self.transport()
    }

    fn engine_mut(&mut self) -> Result<&mut T> {
        Ok(self.transport_mut()?)
    }

    fn stats(&self) -> TableStats {
        TableStats { buckets: *(**self).stats(), ..TableStats::default() }
    }

    fn buckets(&self) -> u64 {
        self.layout().buckets()
    }

    fn entry_bytes(&self) -> u64 {
        0
    }

    fn grow_at(&self) -> u64 {
        crowded(self.layout().buckets())
    }

    fn len(&mut self, exchange: &mut dyn Exchange) -> Result<u64> {
        Ok((**self).len(exchange)?)
    }
}

/// Returns four fifths of the buckets: at a higher load factor probes are long.
fn crowded(buckets: u64) -> u64 {
    buckets / 5 * 4
}

/// A table of states of several words. The engine is a trait object, and both kinds of tables have
/// one type, so that the search is compiled once for each width.
// There is one, on the stack.
#[allow(clippy::large_enum_variant)]
pub(super) enum WideStates<'e, const W: usize> {
    Flat(WideTable<&'e mut dyn AnyTimed, Vec<WideOperation<W>>, W>),
    Tree(TreeTable<&'e mut dyn AnyTimed, Vec<TreeOperation<W>>, W, Vec<PairCacheLine>>),
}

impl<const W: usize> WideStates<'_, W> {
    /// Moves all states into `target`, a larger table of the same kind, while `go_on` returns true.
    pub(super) fn grow_into_while(
        &mut self,
        target: &mut WideStates<'_, W>,
        exchange: &mut dyn Exchange,
        go_on: impl FnMut() -> bool,
    ) -> core::result::Result<u64, GrowError> {
        match (self, target) {
            (Self::Flat(table), WideStates::Flat(target)) => {
                table.grow_into_while(target, exchange, go_on)
            }
            (Self::Tree(table), WideStates::Tree(target)) => {
                table.grow_into_while(target, exchange, go_on)
            }
            _ => {
                debug_assert!(false, "one choice of --states opens tables of one kind");
                Err(GrowError::Full { left: 0 })
            }
        }
    }
}

impl<'e, const W: usize> Visited<W> for WideStates<'e, W> {
    type Engine = &'e mut dyn AnyTimed;
    type Expander = WideExpander;

    fn find_or_put(&mut self, state: &[u64; W]) -> Result<Outcome> {
        Ok(match self {
            Self::Flat(table) => table.find_or_put(state)?,
            Self::Tree(table) => table.find_or_put(state)?,
        })
    }

    fn find_or_put_batch(&mut self, states: &[[u64; W]], outcomes: &mut [Outcome]) -> Result<()> {
        match self {
            Self::Flat(table) => table.find_or_put_batch(states, outcomes)?,
            Self::Tree(table) => table.find_or_put_batch(states, outcomes)?,
        }
        Ok(())
    }

    fn engine(&self) -> &Self::Engine {
        match self {
            Self::Flat(table) => table.transport(),
            Self::Tree(table) => table.transport(),
        }
    }

    fn engine_mut(&mut self) -> Result<&mut Self::Engine> {
        Ok(match self {
            Self::Flat(table) => table.transport_mut()?,
            Self::Tree(table) => table.transport_mut()?,
        })
    }

    fn stats(&self) -> TableStats {
        let none = TableStats::default();
        match self {
            Self::Flat(table) => {
                TableStats { buckets: *table.stats(), entries: *table.entry_stats(), ..none }
            }
            Self::Tree(table) => {
                TableStats { buckets: *table.stats(), nodes: *table.tree_stats(), ..none }
            }
        }
    }

    fn buckets(&self) -> u64 {
        match self {
            Self::Flat(table) => table.layout().buckets(),
            Self::Tree(table) => table.layout().buckets(),
        }
    }

    fn grow_at(&self) -> u64 {
        match self {
            Self::Flat(table) => {
                // The last entries are scattered among clients.
                let owners = u64::from(table.layout().owners());
                let entries = table.config().entries_per_owner * owners;
                crowded(table.layout().buckets()).min(entries / 20 * 19)
            }
            Self::Tree(table) => crowded(table.layout().buckets()),
        }
    }

    fn len(&mut self, exchange: &mut dyn Exchange) -> Result<u64> {
        Ok(match self {
            Self::Flat(table) => table.len(exchange)?,
            Self::Tree(table) => table.len(exchange)?,
        })
    }

    fn occupied(&mut self, states: u64, exchange: &mut dyn Exchange) -> Result<u64> {
        match self {
            Self::Flat(_) => Ok(states),
            Self::Tree(table) => Ok(table.occupied(exchange)?),
        }
    }

    fn entry_bytes(&self) -> u64 {
        match self {
            Self::Flat(_) => 8 * W as u64,
            Self::Tree(_) => 0,
        }
    }
}

/// The successors of states of `W` words. A node is a state with the label of its origin.
pub(super) trait Expand<const W: usize> {
    fn new(net: &Net, packing: &Packing, written: Successors) -> Self;

    fn max_successors(&self) -> usize;

    fn state(&self, node: [u64; W]) -> [u64; W];

    fn expand(
        &self,
        node: &[u64; W],
        buffer: &mut [[u64; W]],
    ) -> core::result::Result<Expanded, Overflow>;
}

impl Expand<1> for Expander {
    fn new(net: &Net, packing: &Packing, written: Successors) -> Self {
        Self::new(net, packing, written)
    }

    fn max_successors(&self) -> usize {
        Self::max_successors(self)
    }

    #[inline]
    fn state(&self, [node]: [u64; 1]) -> [u64; 1] {
        [Self::state(self, node)]
    }

    #[inline]
    fn expand(
        &self,
        &[node]: &[u64; 1],
        buffer: &mut [[u64; 1]],
    ) -> core::result::Result<Expanded, Overflow> {
        Self::expand(self, node, buffer.as_flattened_mut())
    }
}

impl<const W: usize> Expand<W> for WideExpander {
    fn new(net: &Net, packing: &Packing, written: Successors) -> Self {
        Self::new(net, packing, written)
    }

    fn max_successors(&self) -> usize {
        Self::max_successors(self)
    }

    #[inline]
    fn state(&self, mut node: [u64; W]) -> [u64; W] {
        self.clear_origin(&mut node);
        node
    }

    #[inline]
    fn expand(
        &self,
        node: &[u64; W],
        buffer: &mut [[u64; W]],
    ) -> core::result::Result<Expanded, Overflow> {
        Self::expand(self, node, buffer.as_flattened_mut())
    }
}
