//! Reads the keys of an owner's part of the buckets, whose entries are in any owner's part.

use core::sync::atomic::Ordering::Acquire;

use probeline_transport::{Geometry, Segment, Transport};

use super::key::Entries;
use crate::bucket::OCCUPIED;
use crate::collective::{Phase, words};
use crate::error::OperationError;

/// READs of entries in flight at once.
pub(super) const MAX_READS: usize = 16;

/// Reads keys in the order of this owner's buckets.
pub(super) struct LocalReader<'t, T> {
    phase: Phase<'t, T>,
    entries: Entries,
    by_cpu: bool,
    /// The place of each key whose READ is posted, of which there are `posted`.
    places: [usize; MAX_READS],
    posted: usize,
}

impl<'t, T: Transport> LocalReader<'t, T> {
    /// Creates a reader. If `by_cpu`, which is for the time between barriers, the CPU loads the
    /// entries in this owner's part.
    pub(super) fn new(phase: Phase<'t, T>, entries: Entries, by_cpu: bool) -> Self {
        Self { phase, entries, by_cpu, places: [0; MAX_READS], posted: 0 }
    }

    /// Reads keys from the bucket with index `next` on, and advances `next` past them. Has a READ in
    /// flight for each, up to [`MAX_READS`]. Returns the number of keys, which is 0 only at the end.
    pub(super) fn read<const W: usize>(
        &mut self,
        next: &mut u64,
        keys: &mut [[u64; W]],
    ) -> Result<usize, OperationError> {
        self.posted = 0;
        let count = self.post(next, keys);
        // Also after an error: the slots belong to the next operation.
        let finished = self.phase.finish_reads(self.posted);
        let count = count?;
        finished?;
        for (nth, &place) in self.places.iter().take(self.posted).enumerate() {
            if let Some(key) = keys.get_mut(place) {
                *key = key_of(self.phase.landed(nth, self.entries.words)?)?;
            }
        }
        Ok(count)
    }

    /// Loads keys, or posts READs of them. Returns the number of both.
    fn post<const W: usize>(
        &mut self,
        next: &mut u64,
        keys: &mut [[u64; W]],
    ) -> Result<usize, OperationError> {
        let Geometry { me, slots, .. } = *self.phase.transport.geometry();
        let most = MAX_READS.min(self.phase.transport.caps().depth.min(slots) as usize);
        let mut count = 0;
        while self.posted < most
            && let Some(key) = keys.get_mut(count)
            && let Some(from) = self.next_entry(next)?
        {
            if self.by_cpu && from.start.owner == me {
                *key = self.load(from)?;
            } else if let Some(place) = self.places.get_mut(self.posted) {
                self.phase.post_read(self.posted, from)?;
                *place = count;
                self.posted += 1;
            }
            count += 1;
        }
        Ok(count)
    }

    /// Returns the entry of the next occupied bucket of this owner's part.
    fn next_entry(&self, next: &mut u64) -> Result<Option<Segment>, OperationError> {
        let first = usize::try_from(*next).unwrap_or(usize::MAX);
        for bucket in self.phase.part()?.iter().skip(first) {
            *next += 1;
            let word = bucket.load(Acquire);
            if word & OCCUPIED != 0 {
                return Ok(Some(self.entries.segment(self.entries.entry_of(word))));
            }
        }
        Ok(None)
    }

    /// Loads an entry in this owner's part.
    fn load<const W: usize>(&self, from: Segment) -> Result<[u64; W], OperationError> {
        let words = words(&*self.phase.transport, from.start.index, from.words.into())?;
        let mut key = [0; W];
        key.iter_mut().zip(words).for_each(|(to, word)| *to = word.load(Acquire));
        Ok(key)
    }
}

/// Returns the key at the start of an entry's words.
pub(super) fn key_of<const W: usize>(words: &[u64]) -> Result<[u64; W], OperationError> {
    words.first_chunk().copied().ok_or(OperationError::Window)
}
