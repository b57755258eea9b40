//! Reads the keys of an owner's part of the buckets, whose entries are in any owner's part.

use core::sync::atomic::Ordering::Acquire;

use arrayvec::ArrayVec;
use probeline_transport::{Segment, Transport};

use super::key::Entries;
use crate::OperationError;
use crate::bucket::OCCUPIED;
use crate::collective::Phase;
use crate::set::READ_AT_ONCE;

/// Reads keys in the order of this owner's buckets, from the bucket with index `next` on, and advances
/// `next` past them. Has a READ in flight for each, up to [`READ_AT_ONCE`]; `by_cpu`, which is for the
/// time between barriers, the CPU loads the entries in this owner's part. Returns the number of keys,
/// less than that of `keys` only at the end.
pub(super) fn read_keys<const W: usize>(
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
pub(super) fn key_of<const W: usize>(words: &[u64]) -> Result<[u64; W], OperationError> {
    words.first_chunk().copied().ok_or(OperationError::Window)
}
