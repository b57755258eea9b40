//! A cache of occupied buckets, in storage provided by the caller. It needs no coherence protocol,
//! because a bucket never changes once it is occupied.
//!
//! It answers finds without a roundtrip and lets an operation skip buckets known to hold other
//! keys. `clear` and `retain`, which do change buckets, drop its content.

use crate::bucket::{Bucket, Wanted};
use crate::layout::{Layout, Position};
use crate::walk::Walk;

/// Maximum number of cache lookups for one operation. An operation with more occupied buckets in
/// its way soon needs a chunk READ anyway.
const MAX_LOOKUPS: u32 = 64;

/// Storage for one bucket in the cache, 16 bytes. The caller of a table provides an array of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheEntry {
    /// The number of the bucket in the table.
    at: u64,
    /// The bucket's word; 0 if the entry is free.
    word: u64,
}

impl CacheEntry {
    /// A free entry.
    pub const EMPTY: Self = Self { at: 0, word: 0 };
}

/// A direct-mapped cache, indexed by bucket number: neighbouring buckets have neighbouring entries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cache<C> {
    entries: C,
    /// The number of entries in use, a power of two, minus 1; `None` without storage.
    mask: Option<u64>,
}

impl<C: AsMut<[CacheEntry]>> Cache<C> {
    /// Creates an empty cache in the first entries of `entries`. It uses the largest power of two
    /// that fits.
    pub(crate) fn new(mut entries: C) -> Self {
        let mask = entries.as_mut().len().checked_ilog2().map(|bits| (1 << bits) - 1);
        let mut cache = Self { entries, mask };
        cache.forget();
        cache
    }

    /// Drops all entries, because buckets have changed or may change.
    pub(crate) fn forget(&mut self) {
        self.entries.as_mut().fill(CacheEntry::EMPTY);
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.mask.is_some()
    }

    /// Stores the occupied bucket seen at `at`.
    #[inline]
    pub(crate) fn learn(&mut self, at: Position, word: Bucket, layout: &Layout) {
        let Some(mask) = self.mask else { return };
        let at = layout.number(at);
        // The mask is less than the number of entries, which is a usize.
        #[allow(clippy::cast_possible_truncation)]
        if let Some(entry) = self.entries.as_mut().get_mut((at & mask) as usize) {
            *entry = CacheEntry { at, word: word.word() };
        }
    }

    /// Advances `walk` past the buckets known to hold other keys. Returns true at the wanted
    /// bucket; if only its tag matches, the operation continues there.
    #[inline]
    pub(crate) fn follow<B: Wanted>(&mut self, walk: &mut Walk<B>, layout: &Layout) -> bool {
        let Some(mask) = self.mask else { return false };
        for _ in 0..MAX_LOOKUPS {
            let at = layout.number(walk.position(layout));
            // The mask is less than the number of entries.
            #[allow(clippy::cast_possible_truncation)]
            let Some(entry) = self.entries.as_mut().get((at & mask) as usize) else { return false };
            if entry.at != at || entry.word == 0 {
                return false;
            }
            if walk.bucket.matches(entry.word) {
                return !B::TAGGED;
            }
            // At the last bucket within the probe limit, leave the walk in place: the look at the
            // table decides how the operation completes.
            let here = *walk;
            if !walk.pass(layout) {
                *walk = here;
                return false;
            }
        }
        false
    }
}
