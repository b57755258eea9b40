//! The direct path: the CPU examines lines, compares entries and claims buckets itself.
//!
//! All owners use it or none: an entry that a CPU has stored is visible to other CPUs at once, but
//! to a READ only after the next barrier. The owners agree on it when they open the table. It
//! requires that every owner's CPU can address every part, and at most [`PARTS`] owners.
//!
//! An entry is stored before the compare-and-swap that claims a bucket for it. It is loaded after
//! the bucket was seen.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use probeline_transport::{AtomicScope, Owner, RemoteWord, Segment, Transport};

use super::context::WideContext;
use super::key::{Entries, Entry, Tagged};
use crate::block::{Lines, PARTS};
use crate::bucket::Wanted;
use crate::direct::{LineOutcome, line_at};
use crate::layout::{LINE_BUCKETS, Layout, Position};
use crate::outcome::{Ended, Intent};
use probeline_transport::line::{Compare, Line};

/// Addresses of the words of all owners, for the CPU.
pub(super) trait WordAccess<'t, const W: usize> {
    fn line(&self, at: Position) -> Option<&'t Line>;
    fn entry(&self, entry: Entry) -> Option<&'t [AtomicU64; W]>;
    /// Returns the word that counts the entries taken from the part of `owner`.
    fn counter(&self, owner: u32) -> Option<&'t AtomicU64>;
}

/// Asks the engine for each word, for single operations.
pub(super) struct EngineAccess<'t, T> {
    pub(super) transport: &'t T,
    pub(super) layout: Layout,
    pub(super) entries: Entries,
    pub(super) counter: u64,
}

impl<'t, T: Transport> EngineAccess<'t, T> {
    pub(super) fn new(transport: &'t T, context: &WideContext) -> Self {
        let WideContext { entries, counter, .. } = *context;
        Self { transport, layout: context.table.layout, entries, counter }
    }
}

impl<'t, T: Transport, const W: usize> WordAccess<'t, W> for EngineAccess<'t, T> {
    #[inline]
    fn line(&self, at: Position) -> Option<&'t Line> {
        line_at(self.transport, &self.layout, at)
    }

    #[inline]
    fn entry(&self, entry: Entry) -> Option<&'t [AtomicU64; W]> {
        self.transport.direct(self.entries.segment(entry))?.first_chunk()
    }

    fn counter(&self, owner: u32) -> Option<&'t AtomicU64> {
        counter(self.transport, owner, self.counter)
    }
}

fn counter(transport: &impl Transport, owner: u32, index: u64) -> Option<&AtomicU64> {
    let start = RemoteWord { owner: Owner(owner), index };
    transport.direct(Segment { start, words: 1 })?.first()
}

/// The words of all owners, looked up once for many operations.
pub(super) struct Mapped<'t, const W: usize> {
    lines: Lines<'t>,
    entries: [&'t [[AtomicU64; W]]; PARTS],
    counters: [Option<&'t AtomicU64>; PARTS],
    layout: Entries,
}

impl<'t, const W: usize> Mapped<'t, W> {
    /// Returns `None` if the CPU cannot address some word, or if there are more than [`PARTS`]
    /// owners.
    pub(super) fn new(transport: &'t impl Transport, context: &WideContext) -> Option<Self> {
        let layout = &context.table.layout;
        let (lines, owners) = (Lines::new(transport, layout), layout.owners());
        let mut mapped =
            Self { lines, entries: [&[]; PARTS], counters: [None; PARTS], layout: context.entries };
        for owner in 0..owners {
            let start = context.entries.segment(context.entries.entry(owner, 0)).start;
            let words = context.entries.per_owner.checked_mul(W as u64)?;
            let words = u32::try_from(words).ok()?;
            let part = transport.direct(Segment { start, words })?;
            mapped.lines.at(Position { owner, index: 0 })?;
            *mapped.entries.get_mut(owner as usize)? = part.as_chunks().0;
            *mapped.counters.get_mut(owner as usize)? =
                Some(counter(transport, owner, context.counter)?);
        }
        Some(mapped)
    }

    pub(super) fn lines(&self) -> &Lines<'t> {
        &self.lines
    }

    #[inline(always)]
    pub(super) fn entry_at(&self, entry: Entry) -> Option<&'t [AtomicU64; W]> {
        let (owner, index) = self.layout.place(entry);
        // A part is mapped into this process, so its indices fit a usize.
        #[allow(clippy::cast_possible_truncation)]
        let index = index as usize;
        self.entries.get(owner as usize)?.get(index)
    }
}

impl<'t, const W: usize> WordAccess<'t, W> for &Mapped<'t, W> {
    #[inline(always)]
    fn line(&self, at: Position) -> Option<&'t Line> {
        self.lines.at(at)
    }

    #[inline(always)]
    fn entry(&self, entry: Entry) -> Option<&'t [AtomicU64; W]> {
        self.entry_at(entry)
    }

    fn counter(&self, owner: u32) -> Option<&'t AtomicU64> {
        *self.counters.get(owner as usize)?
    }
}

/// Returns whether this owner's CPU reaches the words of all owners, coherently with their atomics.
pub(super) fn is_possible<const W: usize>(
    transport: &impl Transport,
    context: &WideContext,
) -> bool {
    transport.caps().atomics == AtomicScope::Cpu && Mapped::<W>::new(transport, context).is_some()
}

/// Runs an operation. Returns `None` if a word cannot be reached: a defect of the transport.
#[inline(always)]
pub(super) fn run<'t, C: Compare, const W: usize>(
    words: &impl WordAccess<'t, W>,
    context: &mut WideContext,
    key: &[u64; W],
    tagged: Tagged,
    intent: Intent,
) -> Option<Ended> {
    let layout = context.table.layout;
    let mut walk = context.table.walk(tagged, intent);
    // Each iteration passes one line within the probe limit.
    loop {
        let line = words.line(walk.probe.at)?;
        let (first, mask) = walk.places(&layout);
        let wanted = Wide { words, key, tagged };
        let outcome = wanted.scan_line::<C>(context, line, first, mask, intent)?;
        let outcome = walk.decide(outcome, &layout);
        if let LineOutcome::Done(ended) = outcome {
            context.table.stats.add_direct(ended, 1, walk.lines.into());
            return Some(ended);
        }
    }
}

/// Gives back the entry taken last.
fn give_back(context: &mut WideContext, spare: Entry) {
    let refused = context.spares.give_back(spare);
    debug_assert_eq!(refused, None, "there is room for the entry taken last");
}

/// A wanted key.
pub(super) struct Wide<'r, R, const W: usize> {
    pub(super) words: &'r R,
    pub(super) key: &'r [u64; W],
    pub(super) tagged: Tagged,
}

impl<'t, R: WordAccess<'t, W>, const W: usize> Wide<'_, R, W> {
    /// Examines those buckets of `line` whose bits are set in `mask`, in the order from bucket
    /// `first` on, which wraps around. Returns `Some(None)` if all of them hold other keys.
    #[inline(always)]
    fn scan_line<C: Compare>(
        &self,
        context: &mut WideContext,
        line: &Line,
        first: u32,
        mask: u8,
        intent: Intent,
    ) -> Option<Option<Ended>> {
        let seen = C::see(line, self.tagged.mask(), self.tagged.compared());
        let (mut alike, empty) = (seen.wanted & mask, !seen.occupied & mask);
        // The wanted key decides even if a bucket before it looked empty: another process may have
        // filled that one meanwhile.
        while alike != 0 {
            let word = line.get(alike.trailing_zeros() as usize)?.load(Acquire);
            if self.is_at(context, word)? {
                return Some(Some(Ended::Found));
            }
            alike &= alike - 1;
        }
        if empty == 0 {
            return Some(None);
        }
        match intent {
            Intent::Find => Some(Some(Ended::Absent)),
            Intent::FindOrPut => self.claim(context, line, first, empty),
        }
    }

    /// Returns whether the entry to which a bucket's word refers holds the key.
    #[inline(always)]
    fn is_at(&self, context: &mut WideContext, word: u64) -> Option<bool> {
        let entry = self.words.entry(context.entries.entry_of(word))?;
        Some(context.is_equal(entry, self.key))
    }

    /// Claims the first bucket in the order from `first` on, among those whose bits are set in
    /// `empty`.
    ///
    /// Returns `Some(None)` if other keys have taken all of them meanwhile.
    #[inline(never)]
    pub(super) fn claim(
        &self,
        context: &mut WideContext,
        line: &Line,
        first: u32,
        empty: u8,
    ) -> Option<Option<Ended>> {
        let Some(spare) = self.take(context)? else { return Some(Some(Ended::Full)) };
        for (to, word) in self.words.entry(spare)?.iter().zip(self.key) {
            // The compare-and-swap releases these stores.
            to.store(*word, Relaxed);
        }
        let claimed = context.entries.refer(self.tagged, spare).word();
        let mut left = empty.rotate_right(first);
        while left != 0 {
            let at = (first + left.trailing_zeros()) % LINE_BUCKETS;
            match line.get(at as usize)?.compare_exchange(0, claimed, SeqCst, SeqCst) {
                Ok(_) => return Some(Some(Ended::Inserted)),
                Err(word) if self.tagged.matches(word) && self.is_at(context, word)? => {
                    give_back(context, spare);
                    return Some(Some(Ended::Found));
                }
                Err(_) => left &= left - 1,
            }
        }
        give_back(context, spare);
        Some(None)
    }

    /// Takes a spare entry. Returns `Some(None)` if every part is exhausted.
    fn take(&self, context: &mut WideContext) -> Option<Option<Entry>> {
        let entries = context.entries;
        // Each iteration takes an entry or exhausts a part.
        loop {
            if let Some(entry) = context.spares.pop(&entries) {
                return Some(Some(entry));
            }
            let Some(fetch) = context.spares.fetch(true) else { return Some(None) };
            let before = self.words.counter(fetch.owner)?.fetch_add(fetch.count, SeqCst);
            if let Some(entry) = context.fetched(fetch, before, true) {
                return Some(Some(entry));
            }
        }
    }
}
