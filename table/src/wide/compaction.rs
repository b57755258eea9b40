//! Frees the entries without a key after a garbage collection, in place.
//!
//! Each owner marks the entries to which its buckets refer: it sets a bit in the window of the
//! entry's owner. An owner with n marked entries moves those with an index of n or more into the
//! gaps below n, and stores the new index in the first word of the old entry. Then each owner
//! updates the references in its buckets.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use probeline_pipeline::{Collective, CollectiveError};
use probeline_transport::{Exchange, Owner, RemoteWord, Transport};

use super::key::Entries;
use crate::OperationError;
use crate::bucket::OCCUPIED;
use crate::collective::Phase;
use crate::layout::Position;

const WORD_BITS: u64 = 64;
/// Counters of other owners that are remembered while buckets are updated.
const COUNTERS: usize = 64;

pub(super) struct Compaction<'t, T> {
    pub(super) phase: Phase<'t, T>,
    pub(super) entries: Entries,
    /// The word of each window that holds the first marks.
    pub(super) first_mark: u64,
    /// The word of each window that counts the entries taken.
    pub(super) counter: u64,
}

impl<T: Transport> Compaction<'_, T> {
    /// Compacts after the last change of a bucket, in four steps.
    pub(super) fn run(
        &mut self,
        call: &mut Collective<'_, impl Exchange + ?Sized>,
    ) -> Result<(), CollectiveError> {
        for step in [Self::clear_marks, Self::mark, Self::compact, Self::update] {
            call.together(step(self).map_err(CollectiveError::from))?;
        }
        Ok(())
    }

    fn clear_marks(&mut self) -> Result<(), OperationError> {
        self.marks()?.iter().for_each(|mark| mark.store(0, Release));
        Ok(())
    }

    fn marks(&self) -> Result<&[core::sync::atomic::AtomicU64], OperationError> {
        let count = self.entries.per_owner.div_ceil(WORD_BITS);
        self.phase.words(self.first_mark, count)
    }

    /// Marks the entries to which this owner's buckets refer. Only one bucket refers to an entry,
    /// so adding its bit sets it.
    fn mark(&mut self) -> Result<(), OperationError> {
        self.for_each(|this, word, _| {
            let (owner, index) = this.entries.place(this.entries.entry_of(word));
            let index_of_mark = this.first_mark + index / WORD_BITS;
            let at = RemoteWord { owner: Owner(owner), index: index_of_mark };
            this.phase.add(at, 1 << (index % WORD_BITS))
        })
    }

    /// Moves this owner's marked entries to the front of its part.
    fn compact(&mut self) -> Result<(), OperationError> {
        let marks = self.marks()?;
        let is_marked = |index: u64| {
            let word = usize::try_from(index / WORD_BITS).ok().and_then(|at| marks.get(at));
            word.is_some_and(|word| word.load(Acquire) >> (index % WORD_BITS) & 1 == 1)
        };
        let live = marks.iter().map(|mark| u64::from(mark.load(Acquire).count_ones())).sum();
        let all = self.entries.per_owner;
        let mut gap = 0;
        // As many gaps are before `live` as marked entries after it.
        for from in (live..all).filter(|&index| is_marked(index)) {
            while is_marked(gap) {
                gap += 1;
            }
            self.copy(from, gap)?;
            gap += 1;
        }
        self.phase.words(self.counter, 1)?.iter().for_each(|word| word.store(live, Release));
        Ok(())
    }

    fn copy(&self, from: u64, to: u64) -> Result<(), OperationError> {
        let entry = |index: u64| {
            let length = u64::from(self.entries.words);
            self.phase.words(self.entries.first_word + index * length, length)
        };
        let (from, gap) = (entry(from)?, entry(to)?);
        for (to, from) in gap.iter().zip(from) {
            to.store(from.load(Relaxed), Release);
        }
        if let Some(first) = from.first() {
            first.store(to, Release);
        }
        Ok(())
    }

    /// Updates the references of this owner's buckets to entries that were moved.
    fn update(&mut self) -> Result<(), OperationError> {
        let mut counters = [(u32::MAX, 0); COUNTERS];
        self.for_each(|this, word, at| {
            let entry = this.entries.entry_of(word);
            let (owner, index) = this.entries.place(entry);
            let live = this.live(owner, &mut counters)?;
            if index < live {
                return Ok(());
            }
            let moved_to = this.phase.read_word(this.entries.segment(entry).start)?;
            if moved_to >= live {
                return Err(OperationError::Window);
            }
            let entry = this.entries.entry(owner, moved_to);
            this.phase.store(at, this.entries.with_entry(word, entry))
        })
    }

    /// Returns the number of entries in use in the part of `owner`.
    fn live(
        &mut self,
        owner: u32,
        counters: &mut [(u32, u64); COUNTERS],
    ) -> Result<u64, OperationError> {
        let at = RemoteWord { owner: Owner(owner), index: self.counter };
        let Some(place) = counters.get_mut(owner as usize % COUNTERS) else {
            return self.phase.read_word(at);
        };
        if place.0 != owner {
            *place = (owner, self.phase.read_word(at)?);
        }
        Ok(place.1)
    }

    /// Calls `act` with the word of each of this owner's occupied buckets.
    fn for_each(
        &mut self,
        mut act: impl FnMut(&mut Self, u64, Position) -> Result<(), OperationError>,
    ) -> Result<(), OperationError> {
        let owner = self.phase.me();
        for index in 0..self.phase.layout.buckets_per_owner() {
            let at = Position { owner, index };
            let word = self.phase.load(at)?;
            if word & OCCUPIED != 0 {
                act(self, word, at)?;
            }
        }
        Ok(())
    }
}
