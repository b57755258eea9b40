//! A cache of pairs and their references, in storage provided by the caller. It needs no coherence
//! protocol, because a bucket never changes once it is occupied; a clear drops its content.

use crate::bucket::OCCUPIED;

/// Pairs in a line.
const PAIRS: usize = 5;
/// The multiplier of the hash that chooses a line, 2^64 divided by the golden ratio (Knuth's
/// multiplicative hashing).
const HASH: u64 = 0x9e37_79b9_7f4a_7c15;

/// Storage for 5 pairs in the cache of a [`TreeTable`](crate::TreeTable), 64 bytes: one cache line.
/// The caller of a table provides an array of them, such as `[PairCacheLine::EMPTY; 1024]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(align(64))]
pub struct PairCacheLine {
    /// The pairs, marked as a bucket is; 0 if the place is free.
    pairs: [u64; PAIRS],
    references: [u32; PAIRS],
    /// The place that the next pair takes.
    next: u32,
}

impl PairCacheLine {
    /// A line without pairs.
    pub const EMPTY: Self = Self { pairs: [0; PAIRS], references: [0; PAIRS], next: 0 };
}

/// A set-associative cache. A new pair replaces the oldest one of its line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PairCache<C> {
    lines: C,
    /// The number of lines in use, a power of two, minus 1; `None` without storage.
    mask: Option<u64>,
}

impl<C: AsMut<[PairCacheLine]>> PairCache<C> {
    /// Creates an empty cache in the first lines of `lines`. It uses the largest power of two that
    /// fits.
    pub(crate) fn new(mut lines: C) -> Self {
        let mask = lines.as_mut().len().checked_ilog2().map(|bits| (1 << bits) - 1);
        let mut cache = Self { lines, mask };
        cache.forget();
        cache
    }

    /// Drops all pairs, because buckets have changed or may change.
    pub(crate) fn forget(&mut self) {
        self.lines.as_mut().fill(PairCacheLine::EMPTY);
    }

    /// Returns the reference of a pair.
    #[inline(always)]
    pub(crate) fn find(&mut self, pair: u64) -> Option<u32> {
        let line = self.line(pair)?;
        let is_wanted = |word: &u64| *word == pair | OCCUPIED;
        let nth = line.pairs.iter().position(is_wanted)?;
        line.references.get(nth).copied()
    }

    /// Stores the reference of a pair that the cache does not contain.
    #[inline]
    pub(crate) fn learn(&mut self, pair: u64, reference: u32) {
        let Some(line) = self.line(pair) else { return };
        let nth = line.next as usize % PAIRS;
        line.pairs[nth] = pair | OCCUPIED;
        line.references[nth] = reference;
        line.next = if nth + 1 < PAIRS { line.next + 1 } else { 0 };
    }

    #[inline(always)]
    fn line(&mut self, pair: u64) -> Option<&mut PairCacheLine> {
        let hash = pair.wrapping_mul(HASH) >> 32;
        // The mask is less than the number of lines, which is a usize.
        #[allow(clippy::cast_possible_truncation)]
        self.lines.as_mut().get_mut((hash & self.mask?) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_has_64_bytes() {
        assert_eq!(size_of::<PairCacheLine>(), 64);
    }

    #[test]
    fn returns_only_learnt_pairs() {
        let mut cache = PairCache::new([PairCacheLine::EMPTY; 3]);
        for (pair, reference) in (0..100).zip(7..) {
            assert_eq!(cache.find(pair), None);
            cache.learn(pair, reference);
            assert_eq!(cache.find(pair), Some(reference));
        }
        let held = (0..100).filter(|pair| cache.find(*pair).is_some()).count();
        assert_eq!(held, 2 * PAIRS, "two of three lines are in use, and full");
        cache.forget();
        assert!((0..100).all(|pair| cache.find(pair).is_none()));
        let mut none = PairCache::new([]);
        none.learn(1, 1);
        assert_eq!(none.find(1), None);
    }
}
