//! The layout of the buckets: the parts of all owners, concatenated and closed to a ring.
//!
//! Paper section 3.1: n processes own k buckets each, T = b_0 .. b_(kn-1). A chunk that crosses the
//! end of a part is split (Fig. 1, split). Here it is also split between two owners.

use probeline_transport::{LINE_WORDS, Owner, RemoteWord, Segment};

use crate::bucket::Bucket;

/// Buckets in a cache line.
pub(crate) const LINE_BUCKETS: u32 = LINE_WORDS;

/// The ring of buckets. It is four words and cheap to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    owners: u32,
    buckets_per_owner: u64,
    /// The word of each window that holds the part's first bucket.
    first_word: u64,
    probing: Probing,
}

/// The order in which an operation examines buckets. All owners use the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Probing {
    /// Linear probing from the home bucket, as in the paper (section 3.1).
    Linear = 0,
    /// The cache line of the home bucket first, starting at the home bucket and wrapping around
    /// within the line; then the following lines in the same manner.
    ///
    /// A chunk starts at a line boundary, so it covers one line less than an unaligned one. A chunk
    /// of C = 8 buckets never straddles owners.
    Lines = 1,
    /// As `Lines`, but each next line is at a distance given by a second hash, so that full lines
    /// do not form clusters ("walking the line": Laarman, van de Pol and Weber, FMCAD 2010). Needs
    /// C = 8, one line per chunk.
    DoubleHash = 2,
}

/// The multiplier of the second hash, 2^64 divided by the golden ratio (Knuth's multiplicative
/// hashing). Its high result bits depend mostly on the low bits of the hash, on which the home
/// depends least.
const SECOND_HASH: u64 = 0x9e37_79b9_7f4a_7c15;

/// The position of a bucket: its owner and its index in that owner's part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Position {
    /// The owner that holds the bucket.
    pub owner: u32,
    /// The index of the bucket in the owner's part.
    pub index: u64,
}

impl Layout {
    /// Creates the ring of `owners` parts of `buckets_per_owner` buckets; both are at least 1.
    pub(crate) fn new(
        owners: u32,
        buckets_per_owner: u64,
        first_word: u64,
        probing: Probing,
    ) -> Self {
        Self { owners, buckets_per_owner, first_word, probing }
    }

    /// Returns the order in which an operation examines buckets.
    #[inline]
    #[must_use]
    pub fn probing(&self) -> Probing {
        self.probing
    }

    /// Returns the number of owners.
    #[must_use]
    pub fn owners(&self) -> u32 {
        self.owners
    }

    /// Returns the number of buckets in each owner's part.
    #[must_use]
    pub fn buckets_per_owner(&self) -> u64 {
        self.buckets_per_owner
    }

    /// Returns the number of buckets in the whole table.
    #[must_use]
    pub fn buckets(&self) -> u64 {
        self.buckets_per_owner.saturating_mul(u64::from(self.owners))
    }

    /// Returns the word of each window that holds the part's first bucket.
    #[must_use]
    pub fn first_word(&self) -> u64 {
        self.first_word
    }

    /// Returns the home of a bucket, the first position of its probe order: the hash as a fraction
    /// of the ring. This takes two multiplications and no division by the size of a part.
    #[inline]
    #[must_use]
    pub fn home(&self, bucket: Bucket) -> Position {
        self.home_of(bucket.word())
    }

    /// Returns the [`home`](Self::home) of a hash in the low 63 bits.
    #[inline(always)]
    pub(crate) fn home_of(&self, hashed: u64) -> Position {
        // The shift drops the top bit, so that the 63 bits of the hash are the fraction.
        let (owner, rest) = scale(hashed << 1, u64::from(self.owners));
        let (index, _) = scale(rest, self.buckets_per_owner);
        // The integer part is less than `owners`, which is a u32.
        #[allow(clippy::cast_possible_truncation)]
        Position { owner: owner as u32, index }
    }

    /// Returns the position `buckets` further around the ring, at most one part further.
    #[inline]
    #[must_use]
    pub fn advance(&self, from: Position, buckets: u64) -> Position {
        let index = from.index + buckets;
        if index < self.buckets_per_owner {
            return Position { owner: from.owner, index };
        }
        let owner = if from.owner + 1 < self.owners { from.owner + 1 } else { 0 };
        Position { owner, index: index - self.buckets_per_owner }
    }

    /// Returns the position `by` further around the ring; `by` is itself a position of the ring.
    #[inline]
    pub(crate) fn plus(&self, from: Position, by: Position) -> Position {
        let next = self.advance(from, by.index);
        let owner = u64::from(next.owner) + u64::from(by.owner);
        let owners = u64::from(self.owners);
        let owner = if owner < owners { owner } else { owner - owners };
        // Less than `owners`, which is a u32.
        #[allow(clippy::cast_possible_truncation)]
        Position { owner: owner as u32, index: next.index }
    }

    /// Returns the start of the line after the one that starts at `at`, in the probe order of a hash
    /// in the low 63 bits. An order by double hashing that has returned to its home continues one line further instead.
    #[inline]
    pub(crate) fn next_line(&self, at: Position, hashed: u64) -> Position {
        if self.probing == Probing::DoubleHash {
            return self.plus(at, self.stride(hashed));
        }
        self.advance(at, u64::from(LINE_BUCKETS))
    }

    /// Returns the distance between two lines in the order by double hashing of a hash in the low 63 bits: a
    /// whole number of lines, at least one and less than all of them. In a table of one line it is
    /// 0.
    #[inline]
    pub(crate) fn stride(&self, hashed: u64) -> Position {
        let second = hashed.wrapping_mul(SECOND_HASH) << 1;
        let (owner, rest) = scale(second, u64::from(self.owners));
        let (line, _) = scale(rest, self.buckets_per_owner / u64::from(LINE_BUCKETS));
        // Less than `owners`, which is a u32.
        #[allow(clippy::cast_possible_truncation)]
        let stride = Position { owner: owner as u32, index: line * u64::from(LINE_BUCKETS) };
        if stride == Position::default() {
            return self.advance(stride, u64::from(LINE_BUCKETS));
        }
        stride
    }

    /// Returns the offset of a bucket in its cache line, 0 to 7.
    #[inline]
    pub(crate) fn offset_in_line(&self, at: Position) -> u32 {
        // At most 7, because of the mask.
        #[allow(clippy::cast_possible_truncation)]
        let offset = (at.index & u64::from(LINE_BUCKETS - 1)) as u32;
        offset
    }

    /// Returns the position of the bucket with this number in the whole table.
    pub(crate) fn position_of(&self, number: u64) -> Position {
        let owner = number.checked_div(self.buckets_per_owner).unwrap_or_default();
        let index = number.checked_rem(self.buckets_per_owner).unwrap_or_default();
        Position { owner: u32::try_from(owner).unwrap_or(u32::MAX), index }
    }

    /// Returns the number of a bucket in the whole table.
    #[inline]
    pub(crate) fn number(&self, at: Position) -> u64 {
        u64::from(at.owner) * self.buckets_per_owner + at.index
    }

    /// Returns the address of a bucket.
    #[inline]
    #[must_use]
    pub fn word(&self, at: Position) -> RemoteWord {
        RemoteWord { owner: Owner(at.owner), index: self.first_word + at.index }
    }

    /// Returns the chunk of `buckets` buckets (at most one part) that starts at `start`: one
    /// segment, or two if the chunk crosses into the next part.
    #[inline]
    #[must_use]
    pub fn chunk(&self, start: Position, buckets: u32) -> (Segment, Option<Segment>) {
        let left = self.buckets_per_owner - start.index;
        if u64::from(buckets) <= left {
            return (Segment { start: self.word(start), words: buckets }, None);
        }
        // Less than `buckets`, which is a u32.
        #[allow(clippy::cast_possible_truncation)]
        let first = left as u32;
        let next = self.advance(start, left);
        (
            Segment { start: self.word(start), words: first },
            Some(Segment { start: self.word(next), words: buckets - first }),
        )
    }
}

/// Returns the integer part of `whole` times `fraction` / 2^64, and the fraction that remains.
#[inline]
fn scale(fraction: u64, whole: u64) -> (u64, u64) {
    let product = u128::from(fraction) * u128::from(whole);
    // The integer part is less than `whole`.
    #[allow(clippy::cast_possible_truncation)]
    ((product >> 64) as u64, product as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::MAX_KEY;
    use proptest::prelude::*;

    fn linear(layout: &Layout, at: Position) -> u64 {
        u64::from(at.owner) * layout.buckets_per_owner + at.index
    }

    proptest! {
        #[test]
        fn chunks_cover_ring_in_order(
            owners in 1_u32..6, eighths in 1_u64..20, chunk in 1_u32..20, key in 0..=MAX_KEY,
        ) {
            let layout = Layout::new(owners, eighths * 8, 24, Probing::Linear);
            let chunk = (chunk * 8).min(u32::try_from(eighths * 8).unwrap());
            let mut start = layout.home(Bucket::new(key).unwrap());
            let home = linear(&layout, start);
            prop_assert!(home < layout.buckets());
            for i in 0..4 {
                let (first, second) = layout.chunk(start, chunk);
                prop_assert_eq!(first.words + second.map_or(0, |s| s.words), chunk);
                let mut expected = (home + i * u64::from(chunk)) % layout.buckets();
                for segment in [Some(first), second].into_iter().flatten() {
                    prop_assert!(segment.words > 0);
                    let end = segment.start.index + u64::from(segment.words);
                    prop_assert!(end <= 24 + layout.buckets_per_owner);
                    for word in 0..u64::from(segment.words) {
                        let index = segment.start.index - 24 + word;
                        let at = Position { owner: segment.start.owner.0, index };
                        prop_assert_eq!(linear(&layout, at), expected);
                        expected = (expected + 1) % layout.buckets();
                    }
                }
                start = layout.advance(start, u64::from(chunk));
            }
        }

        #[test]
        fn spreads_homes_evenly(owners in 1_u32..9, seed: u64) {
            let layout = Layout::new(owners, 1000, 0, Probing::Linear);
            let mut counts = vec![0_u32; owners as usize];
            for i in 0..1000 * u64::from(owners) {
                let bucket = Bucket::new(seed.wrapping_add(i) & MAX_KEY).unwrap();
                counts[layout.home(bucket).owner as usize] += 1;
            }
            // Binomial: the standard deviation is below 32; the test allows six of them.
            prop_assert!(counts.iter().all(|c| (808..1192).contains(c)), "{:?}", counts);
        }
    }
}
