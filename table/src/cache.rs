//! Occupied buckets that were seen, kept in storage of the caller's: a cache that needs no
//! coherence protocol, because a bucket never changes once it is occupied.
//!
//! It answers finds without a roundtrip, and takes an operation past the buckets that it knows to
//! hold other data. The one time that buckets change, between the barriers of `clear` and
//! `retain`, it is dropped.

use core::sync::atomic::Ordering::Acquire;

use crate::bucket::Bucket;
use crate::direct::Look;
use crate::find_or_put::Outcome;
use crate::layout::{Layout, Position};
use crate::line::Line;
use crate::walk::Walk;

/// Buckets that one operation looks up at most: where more are in its way, a chunk READ is near
/// anyway.
const MOST_LOOKUPS: u32 = 64;

/// Storage for one bucket in the cache, 16 bytes; the caller of a table provides an array of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheEntry {
    /// Which bucket of the table.
    at: u64,
    /// Its word; 0 where the entry is free.
    word: u64,
}

impl CacheEntry {
    /// An entry that is free.
    pub const EMPTY: Self = Self { at: 0, word: 0 };
}

/// Directly mapped by the place in the table: buckets that are neighbours there are neighbours
/// here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cache<C> {
    entries: C,
    /// One less than the entries in use, a power of two; none if there is no storage.
    mask: Option<u64>,
}

impl<C: AsMut<[CacheEntry]>> Cache<C> {
    /// An empty cache in the first entries of `entries`, as many as are a power of two.
    pub(crate) fn new(mut entries: C) -> Self {
        let mask = entries.as_mut().len().checked_ilog2().map(|bits| (1 << bits) - 1);
        let mut cache = Self { entries, mask };
        cache.forget();
        cache
    }

    /// Drops everything: buckets have changed, or may.
    pub(crate) fn forget(&mut self) {
        self.entries.as_mut().fill(CacheEntry::EMPTY);
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.mask.is_some()
    }

    /// The occupied bucket at `at` was seen.
    #[inline]
    pub(crate) fn learn(&mut self, at: Position, word: Bucket, layout: &Layout) {
        let Some(mask) = self.mask else { return };
        let at = layout.number(at);
        // The storage has more entries than the mask counts, so the index fits.
        #[allow(clippy::cast_possible_truncation)]
        if let Some(entry) = self.entries.as_mut().get_mut((at & mask) as usize) {
            *entry = CacheEntry { at, word: word.word() };
        }
    }

    /// Lets `walk` look at `line`, and learns what that shows.
    #[inline]
    pub(crate) fn look(&mut self, walk: &mut Walk, line: &Line, layout: &Layout) -> Look {
        if !self.is_on() {
            return walk.look(line, layout);
        }
        let before = *walk;
        let look = walk.look(line, layout);
        self.learn_line(before, walk, look, line, layout);
        look
    }

    /// The walk at `before` has looked at `line`, which came to `look`.
    pub(crate) fn learn_line(
        &mut self,
        before: Walk,
        after: &Walk,
        look: Look,
        line: &Line,
        layout: &Layout,
    ) {
        let end = match look {
            Look::Done(Outcome::Found | Outcome::Inserted) => after.passed + 1,
            Look::Done(_) => after.passed,
            Look::Passed => before.buckets_in_line(layout),
        };
        let mut walk = before;
        while walk.passed < end {
            let at = walk.position(layout);
            let word = line.get(layout.offset_in_line(at) as usize).map(|word| word.load(Acquire));
            if let Some(bucket) = word.and_then(Bucket::from_word) {
                self.learn(at, bucket, layout);
            }
            walk.passed += 1;
        }
    }

    /// Takes `walk` past the buckets known to hold other data; true if it comes to its own.
    #[inline]
    pub(crate) fn follow(&mut self, walk: &mut Walk, layout: &Layout) -> bool {
        let Some(mask) = self.mask else { return false };
        for _ in 0..MOST_LOOKUPS {
            let at = layout.number(walk.position(layout));
            // As above.
            #[allow(clippy::cast_possible_truncation)]
            let Some(entry) = self.entries.as_mut().get((at & mask) as usize) else { return false };
            if entry.at != at || entry.word == 0 {
                return false;
            }
            if entry.word == walk.bucket.word() {
                return true;
            }
            // The last bucket in reach is looked at again, so that one end is told in one place.
            let here = *walk;
            if !walk.pass(layout) {
                *walk = here;
                return false;
            }
        }
        false
    }
}
