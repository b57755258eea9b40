//! States of one word or of several: the table that holds those visited, and their expander.

use clap::builder::TypedValueParser;
use probeline::table::{
    Config, EntryStats, OneRoundtrip, Outcome, Stats, WideConfig, WideOperation, WideTable,
};
use probeline::transport::{Exchange, Sizes};
use probeline_petri::{Expanded, Expander, Net, Overflow, Packing, Successors, WideExpander};

use crate::cli::{JobArgs, one_of};
use crate::failure::{Failure, Result};
use crate::table::{CachedTable, PipelineArgs};
use crate::timed::{AnyTimed, Timed};

/// The words that a state may have. A state with fewer is filled up with zeros: every width takes
/// seconds to compile.
const WIDTHS: [u32; 6] = [1, 2, 3, 4, 8, 16];

/// How the table holds states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatesChoice {
    Auto,
    Flat,
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
    ])
}

impl StatesChoice {
    /// Returns the words that a state may have.
    pub(super) fn widths(self) -> &'static [u32] {
        match self {
            Self::Auto => &WIDTHS,
            Self::Flat => WIDTHS.get(1..).unwrap_or_default(),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Flat => "flat",
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
pub(super) fn buckets(words: usize, narrow: Config) -> Config {
    match words {
        1 => narrow,
        2 => wide_config::<2>(narrow).buckets,
        3 => wide_config::<3>(narrow).buckets,
        4 => wide_config::<4>(narrow).buckets,
        8 => wide_config::<8>(narrow).buckets,
        _ => wide_config::<16>(narrow).buckets,
    }
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
pub(super) fn wide_sizes(words: u32, narrow: Config, operations: u32) -> Sizes {
    match words {
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
    mut config: WideConfig<W>,
    args: &PipelineArgs,
    exchange: &mut dyn Exchange,
) -> Result<WideStates<'e, W>> {
    config.buckets = args.table.adapted(&mut engine, config.buckets, exchange)?;
    let storage = vec![WideOperation::EMPTY; args.in_flight as usize];
    Ok(WideTable::open(engine, config, storage, exchange)?)
}

/// The set of visited states, of `W` words each.
pub(super) trait Visited<const W: usize> {
    type Engine: Timed;
    type Expander: Expand<W>;

    fn find_or_put(&mut self, state: &[u64; W]) -> Result<Outcome>;

    fn find_or_put_batch(&mut self, states: &[[u64; W]], outcomes: &mut [Outcome]) -> Result<()>;

    fn engine(&self) -> &Self::Engine;

    fn engine_mut(&mut self) -> Result<&mut Self::Engine>;

    fn stats(&self) -> (Stats, EntryStats);

    fn reset_stats(&mut self);

    fn buckets(&self) -> u64;

    fn len(&mut self, exchange: &mut dyn Exchange) -> Result<u64>;

    fn clear(&mut self, exchange: &mut dyn Exchange) -> Result<()>;
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

    fn stats(&self) -> (Stats, EntryStats) {
        (*Self::stats(self), EntryStats::default())
    }

    fn reset_stats(&mut self) {
        Self::reset_stats(self);
    }

    fn buckets(&self) -> u64 {
        self.layout().buckets()
    }

    fn len(&mut self, exchange: &mut dyn Exchange) -> Result<u64> {
        Ok(Self::len(self, exchange)?)
    }

    fn clear(&mut self, exchange: &mut dyn Exchange) -> Result<()> {
        Ok(Self::clear(self, exchange)?)
    }
}

/// A table of states of several words. The engine is a trait object, so that the search is compiled
/// once for each width.
pub(super) type WideStates<'e, const W: usize> =
    WideTable<&'e mut dyn AnyTimed, Vec<WideOperation<W>>, W>;

impl<'e, const W: usize> Visited<W> for WideStates<'e, W> {
    type Engine = &'e mut dyn AnyTimed;
    type Expander = WideExpander;

    fn find_or_put(&mut self, state: &[u64; W]) -> Result<Outcome> {
        Ok(Self::find_or_put(self, state)?)
    }

    fn find_or_put_batch(&mut self, states: &[[u64; W]], outcomes: &mut [Outcome]) -> Result<()> {
        Ok(Self::find_or_put_batch(self, states, outcomes)?)
    }

    fn engine(&self) -> &Self::Engine {
        self.transport()
    }

    fn engine_mut(&mut self) -> Result<&mut Self::Engine> {
        Ok(self.transport_mut()?)
    }

    fn stats(&self) -> (Stats, EntryStats) {
        (*Self::stats(self), *self.entry_stats())
    }

    fn reset_stats(&mut self) {
        Self::reset_stats(self);
    }

    fn buckets(&self) -> u64 {
        self.layout().buckets()
    }

    fn len(&mut self, exchange: &mut dyn Exchange) -> Result<u64> {
        Ok(Self::len(self, exchange)?)
    }

    fn clear(&mut self, exchange: &mut dyn Exchange) -> Result<()> {
        Ok(Self::clear(self, exchange)?)
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
