//! Reads the keys of an owner's part of the buckets, whose entries are in any owner's part.

use core::sync::atomic::Ordering::Acquire;

use arrayvec::ArrayVec;
use probeline_transport::{Segment, Transport};

use super::key::Entries;
use crate::OperationError;
use crate::bucket::OCCUPIED;
use crate::collective::Phase;
use crate::set::READ_AT_ONCE;

/// Reads keys in the order of this owner's buckets.
pub(super) struct LocalReader<'p, 't, T> {
    pub(super) phase: &'p mut Phase<'t, T>,
    pub(super) entries: Entries,
    /// Whether the CPU loads the entries in this owner's part, which is for the time between
    /// barriers.
    pub(super) by_cpu: bool,
}

impl<T: Transport> LocalReader<'_, '_, T> {
    /// Reads keys from the bucket with index `next` on, and advances `next` past them. Has a READ in
    /// flight for each, up to [`READ_AT_ONCE`]. Returns the number of keys, less than that of `keys` only at the end.
    pub(super) fn read<const W: usize>(
        &mut self,
        next: &mut u64,
        keys: &mut [[u64; W]],
    ) -> Result<usize, OperationError> {
        let mut reads = ArrayVec::<_, READ_AT_ONCE>::new();
        let mut count = 0;
        while !reads.is_full()
            && let Some(key) = keys.get_mut(count)
            && let Some(from) = self.next_entry(next)?
        {
            if self.by_cpu && from.start.owner.0 == self.phase.me() {
                *key = self.load(from)?;
            } else {
                reads.try_push((count, from)).map_err(|_| OperationError::Window)?;
            }
            count += 1;
        }
        self.phase.read_all(&reads, |place, words| {
            if let Some(key) = keys.get_mut(place) {
                *key = key_of(words)?;
            }
            Ok(())
        })?;
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
        let words = self.phase.words(from.start.index, from.words.into())?;
        let mut key = [0; W];
        key.iter_mut().zip(words).for_each(|(to, word)| *to = word.load(Acquire));
        Ok(key)
    }
}

/// Returns the key at the start of an entry's words.
pub(super) fn key_of<const W: usize>(words: &[u64]) -> Result<[u64; W], OperationError> {
    words.first_chunk().copied().ok_or(OperationError::Window)
}
