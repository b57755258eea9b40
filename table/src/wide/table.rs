//! The table of keys of any fixed number of words.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};

use arrayvec::ArrayVec;
use probeline_pipeline::{CollectiveError, Kind, Open, OperationOf, Parameter, Started, words};
use probeline_transport::{Exchange, Segment, Transport};

use super::block::{Candidates, WideKeys};
use super::compaction::Compaction;
use super::config::WideConfig;
use super::context::{EntryStats, WideContext};
use super::direct::{self, Mapped};
use super::key::{Entries, Tagged, hash};
use super::machine::WideFindOrPut;
use crate::block::{Block, Undecided};
use crate::bucket::OCCUPIED;
use crate::collective::{Occupants, Phase, Retain};
use crate::layout::Layout;
use crate::outcome::Intent;
use crate::policy::Policy;
use crate::results::BatchResult;
use crate::set::{Keys, READ_AT_ONCE, Set, buckets, occupied, parameters, phase};
use crate::stats::Stats;
use crate::{ConfigError, OperationError};
use probeline_transport::line::{Narrow, with_widest};

/// Keys of `W` words, in entries to which buckets refer.
pub struct Wide<const W: usize>;

/// Storage for one operation in flight on keys of `W` words, such as `[WideOperation::EMPTY; 8]`.
pub type WideOperation<const W: usize> = probeline_pipeline::Operation<WideFindOrPut<W>>;

/// A set of keys of `W` words in the windows of all owners, over an engine `T`, with storage `S`
/// for operations in flight. [`Set`] has the methods.
///
/// The width is a constant of the type: a caller that knows it only at run time chooses among a few
/// widths and fills a shorter key with zeros. Every owner opens the table with the same sizes,
/// probe limit and probe order.
///
/// ```
/// use probeline_shm::Builder;
/// use probeline_table::{Outcome, WideConfig, WideOperation, WideTable};
/// use probeline_transport::Alone;
///
/// let config = WideConfig::<4>::for_keys(1_000, 1);
/// let engine = Builder::new(config.sizes(8)).open(&mut Alone)?;
/// let mut table = WideTable::new(engine, config, [WideOperation::EMPTY; 8])?;
/// let state = [1, 2, 3, 4];
/// assert_eq!(table.find_or_put(&state)?, Outcome::Inserted);
/// assert_eq!(table.find_or_put(&state)?, Outcome::Found);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub type WideTable<T, S, const W: usize> = Set<T, S, Wide<W>>;

impl<const W: usize> Kind for Wide<W> {
    type Config = WideConfig<W>;
    type Context = WideContext;
    type Key = [u64; W];
    type Action = Intent;
    type Machine = WideFindOrPut<W>;
    type Stats = Stats;

    const NAME: &'static str = "WideTable";

    fn parameters(
        config: &WideConfig<W>,
        _: &WideContext,
    ) -> impl Iterator<Item = Parameter> + Clone {
        let entries = ("entries per owner", config.entries_per_owner);
        parameters(&config.buckets).into_iter().chain([entries, ("words of a key", W as u64)])
    }

    #[inline(always)]
    fn machine(
        key: &[u64; W],
        intent: Intent,
        context: &WideContext,
    ) -> Result<WideFindOrPut<W>, OperationError> {
        Ok(WideFindOrPut::new(key, intent, context))
    }

    #[inline(always)]
    fn start(
        key: &[u64; W],
        intent: Intent,
        transport: &impl Transport,
        context: &mut WideContext,
    ) -> Result<Started<WideFindOrPut<W>>, OperationError> {
        if !context.is_direct {
            return Self::machine(key, intent, context).map(Started::Pending);
        }
        let engine = direct::EngineAccess::new(transport, context);
        let tagged = context.entries.tagged(hash(key));
        let ended = direct::run::<Narrow, W>(&engine, context, key, tagged, intent);
        ended.map(Started::Done).ok_or(OperationError::Window)
    }

    fn can_be_direct(
        config: &WideConfig<W>,
        context: &WideContext,
        transport: &impl Transport,
    ) -> bool {
        config.buckets.direct && direct::is_possible::<W>(transport, context)
    }

    fn on_opened(
        context: &mut WideContext,
        is_direct: bool,
        _: &mut probeline_pipeline::Collective<'_, impl Exchange + ?Sized>,
    ) -> Result<(), CollectiveError> {
        context.is_direct = is_direct;
        Ok(())
    }

    fn stats(context: &WideContext) -> &Stats {
        &context.table.stats
    }

    fn reset_stats(context: &mut WideContext) {
        context.table.stats = Stats::default();
        context.stats = EntryStats::default();
    }

    fn forget(config: &WideConfig<W>, context: &mut WideContext) {
        context.table.forget(&config.buckets);
        context.spares.forget(&context.entries);
    }

    fn count(
        _: &WideConfig<W>,
        context: &WideContext,
        window: &[AtomicU64],
    ) -> Result<u64, OperationError> {
        occupied(buckets(&context.table.layout, window)?)
    }

    fn empty(
        config: &WideConfig<W>,
        context: &WideContext,
        window: &[AtomicU64],
    ) -> Result<(), OperationError> {
        let counter = words(window, config.counter(), 1)?;
        let all = buckets(&context.table.layout, window)?.iter().chain(counter);
        all.for_each(|word| word.store(0, Release));
        Ok(())
    }
}

impl<const W: usize> Open for Wide<W> {
    fn check(
        config: &WideConfig<W>,
        transport: &impl Transport,
        _: usize,
    ) -> Result<(), ConfigError> {
        config.check(transport.caps(), transport.geometry())
    }

    fn context(config: &WideConfig<W>, transport: &impl Transport) -> WideContext {
        WideContext::new(transport, config)
    }
}

impl<const W: usize> Keys for Wide<W> {
    type Arg<'k> = &'k [u64; W];
    const ANY: [u64; W] = [0; W];

    fn layout(context: &WideContext) -> &Layout {
        &context.table.layout
    }

    fn policy(context: &mut WideContext) -> &mut Policy {
        &mut context.table.policy
    }

    #[inline(always)]
    fn is_direct(context: &WideContext) -> bool {
        context.is_direct
    }

    fn run_block<R: BatchResult>(
        keys: &[[u64; W]],
        results: &mut [R],
        transport: &impl Transport,
        context: &mut WideContext,
        undecided: &mut Undecided,
    ) -> usize {
        let Some(mapped) = Mapped::new(transport, context) else {
            debug_assert!(false, "the CPU reached all words when the table was opened");
            return undecided.push_all(keys.len());
        };
        with_widest(Block {
            results,
            probe_limit: context.table.probe_limit,
            layout: context.table.layout,
            lines: mapped.lines(),
            undecided,
            keys: WideKeys { keys, mapped: &mapped, context, candidates: Candidates::NONE },
        })
    }

    fn read_part(
        phase: &mut Phase<'_, impl Transport>,
        context: &WideContext,
        next: &mut u64,
        keys: &mut [[u64; W]],
        is_quiet: bool,
    ) -> Result<usize, OperationError> {
        read_keys(phase, &context.entries, is_quiet, next, keys)
    }
}

/// Buckets that refer to entries of `W` words.
pub(crate) struct EntryKeys<const W: usize> {
    pub(crate) entries: Entries,
}

impl<const W: usize> Occupants for EntryKeys<W> {
    type Wanted = Tagged;
    type Key = [u64; W];

    fn of<T: Transport>(
        &self,
        word: u64,
        phase: &mut Phase<'_, T>,
    ) -> Result<Option<(Tagged, [u64; W])>, OperationError> {
        if word & OCCUPIED == 0 {
            return Ok(None);
        }
        let read = phase.read(self.entries.segment(self.entries.entry_of(word)))?;
        let key = key_of(read)?;
        Ok(Some((self.entries.tagged(hash(&key)), key)))
    }
}

impl<T, S, const W: usize> WideTable<T, S, W>
where
    T: Transport,
    S: AsMut<[OperationOf<Wide<W>>]>,
{
    /// Returns the counters of the cost of entries.
    #[must_use]
    pub fn entry_stats(&self) -> &EntryStats {
        &self.context().stats
    }

    /// Removes every key for which `keep` returns false, and returns the number of keys removed
    /// from the whole table. Afterwards every entry without a key is free again, including those that
    /// dead clients or operations of unknown outcome have left.
    ///
    /// `keep` must return the same result on every owner, and may be called more than once for a
    /// key. The collection runs in place: it reads the entry of each key, moves buckets as
    /// [`Table::retain`](crate::Table::retain) does, and then moves the entries at the end of each
    /// part into its gaps, with a few one-sided operations a key.
    ///
    /// # Errors
    /// [`CollectiveError`], after which the content is undefined. If the part of one owner fails,
    /// the call fails on every owner.
    pub fn retain(
        &mut self,
        exchange: &mut (impl Exchange + ?Sized),
        keep: impl FnMut(&[u64; W]) -> bool,
    ) -> Result<u64, CollectiveError> {
        self.forget();
        let (entries, first_mark) = (self.context().entries, self.config().first_mark());
        let counter = self.config().counter();
        let mut call = self.collective(exchange, "retain")?;
        let occupants = EntryKeys::<W> { entries };
        let mut retain = Retain { phase: phase(self).0, occupants };
        let removed = retain.run(&mut call, keep)?;
        let mut compaction = Compaction { phase: retain.phase, entries, first_mark, counter };
        compaction.run(&mut call)?;
        Ok(removed)
    }
}

/// Reads keys in the order of this owner's buckets, from the bucket with index `next` on, and advances
/// `next` past them. Has a READ in flight for each, up to [`READ_AT_ONCE`]; `by_cpu`, which is for the
/// time between barriers, the CPU loads the entries in this owner's part. Returns the number of keys,
/// less than that of `keys` only at the end.
fn read_keys<const W: usize>(
    phase: &mut Phase<'_, impl Transport>,
    entries: &Entries,
    by_cpu: bool,
    next: &mut u64,
    keys: &mut [[u64; W]],
) -> Result<usize, OperationError> {
    let entry = |word: u64| (word & OCCUPIED != 0).then(|| entries.segment(entries.entry_of(word)));
    let mut reads = ArrayVec::<_, READ_AT_ONCE>::new();
    let mut count = 0;
    while !reads.is_full()
        && let Some(key) = keys.get_mut(count)
        && let Some(from) = phase.next_of(next, entry)?
    {
        if by_cpu && from.start.owner.0 == phase.me() {
            *key = load(phase, from)?;
        } else {
            reads.try_push((count, from)).map_err(|_| OperationError::Window)?;
        }
        count += 1;
    }
    phase.read_all(&reads, |place, words| {
        if let Some(key) = keys.get_mut(place) {
            *key = key_of(words)?;
        }
        Ok(())
    })?;
    Ok(count)
}

/// Loads an entry in this owner's part.
fn load<const W: usize>(
    phase: &Phase<'_, impl Transport>,
    from: Segment,
) -> Result<[u64; W], OperationError> {
    let words = phase.words(from.start.index, from.words.into())?;
    let mut key = [0; W];
    key.iter_mut().zip(words).for_each(|(to, word)| *to = word.load(Acquire));
    Ok(key)
}

/// Returns the key at the start of an entry's words.
fn key_of<const W: usize>(words: &[u64]) -> Result<[u64; W], OperationError> {
    words.first_chunk().copied().ok_or(OperationError::Window)
}
