//! The words of counters: key, distance from the home line, and count.

use core::fmt::Debug;
use core::hash::Hash;
use core::marker::PhantomData;
use core::num::{NonZeroU64, NonZeroU128};

use probeline_pipeline::Error;

use self::sealed::Sealed;
use crate::hash::mix;
use crate::probe::MAX_GROUPS;

pub(super) const OCCUPIED: u64 = 1 << 63;
/// Bits of the distance from the home line.
const DISTANCE_BITS: u32 = MAX_GROUPS.ilog2();

/// Bits of the second word of a bucket; the top bit says that it was written.
const SECOND_BITS: u32 = 63;

/// A key of counters: `u64` of up to 62 bits, `u128` of 64 to 126 bits, or one of them [`Shuffled`].
pub trait Key: Copy + Debug + Hash + Eq + Sealed + 'static {
    /// Words of a bucket: the first has the count; the second, if any, the lowest 63 bits of the key.
    const WORDS: u32;
    /// The fewest bits of a key.
    const MIN_BITS: u32;
    /// The most bits of a key.
    const MAX_BITS: u32;
    #[doc(hidden)]
    const IS_SHUFFLED: bool = false;
    #[doc(hidden)]
    fn to_wide(self) -> u128;
    #[doc(hidden)]
    fn from_wide(wide: u128) -> Self;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u64 {}
    impl Sealed for u128 {}
    impl<K: Sealed> Sealed for super::Shuffled<K> {}
}

/// A key that [`shuffled`](super::CountersOf::shuffled) has made of another one: operations do not shuffle it again.
/// For keys that are grouped by their home line first. The number has as many bits as the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shuffled<K>(pub K);

impl<K: Key> Key for Shuffled<K> {
    const WORDS: u32 = K::WORDS;
    const MIN_BITS: u32 = K::MIN_BITS;
    const MAX_BITS: u32 = K::MAX_BITS;
    const IS_SHUFFLED: bool = true;

    #[inline(always)]
    fn to_wide(self) -> u128 {
        self.0.to_wide()
    }

    #[inline(always)]
    fn from_wide(wide: u128) -> Self {
        Self(K::from_wide(wide))
    }
}

impl Key for u64 {
    const WORDS: u32 = 1;
    const MIN_BITS: u32 = 1;
    const MAX_BITS: u32 = super::MAX_KEY_BITS;

    #[inline(always)]
    fn to_wide(self) -> u128 {
        self.into()
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "a key of 64 bits")]
    fn from_wide(wide: u128) -> Self {
        wide as Self
    }
}

impl Key for u128 {
    const WORDS: u32 = 2;
    const MIN_BITS: u32 = 64;
    const MAX_BITS: u32 = super::MAX_WIDE_KEY_BITS;

    #[inline(always)]
    fn to_wide(self) -> u128 {
        self
    }

    #[inline(always)]
    fn from_wide(wide: u128) -> Self {
        wide
    }
}

#[inline(always)]
fn below(number: u64, bits: u32) -> u64 {
    number & !(u64::MAX << bits)
}

/// The fields of a bucket's first word, from the top: the occupied bit, what the second word has no room for of
/// the rest of the key, the distance, the count.
///
/// A key is shuffled by a bijection. Its home line is the shuffled key as a fraction of the lines; keys of one
/// line are consecutive numbers, of which the rest, the lowest bits, tells one from the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout<K> {
    lines: NonZeroU64,
    key_bits: u32,
    /// Shuffles the upper half of a key.
    upper: Shuffle,
    rest_bits: u32,
    /// The part of the rest that the first word has, and its place.
    first_mask: u64,
    first_shift: u32,
    count_bits: u32,
    max_count: u64,
    key: PhantomData<K>,
}

/// The word of a key's first count, and the second word of its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Home {
    /// The occupied bit and the first part of the rest of the key.
    word: u64,
    pub(super) second: u64,
}

impl<K: Key> Layout<K> {
    /// Bits of a key in the second word of its bucket.
    const LOWER_BITS: u32 = SECOND_BITS * (K::WORDS - 1);

    pub(super) fn new(lines: u64, key_bits: u32) -> Self {
        let key_bits = key_bits.clamp(K::MIN_BITS, K::MAX_BITS);
        let lines = NonZeroU64::new(lines).unwrap_or(NonZeroU64::MIN);
        // A line has at most 2^rest_bits keys.
        let rest_bits = key_bits.saturating_sub(lines.ilog2());
        let in_first = rest_bits.saturating_sub(Self::LOWER_BITS);
        let count_bits = (63 - DISTANCE_BITS).saturating_sub(in_first);
        Self {
            lines,
            key_bits,
            upper: Shuffle::new(key_bits - Self::LOWER_BITS),
            rest_bits,
            first_mask: !(u64::MAX << in_first),
            first_shift: DISTANCE_BITS + count_bits,
            count_bits,
            max_count: (1 << count_bits) - 1,
            key: PhantomData,
        }
    }

    /// Returns the largest count; 0 if a word has no bits left for it.
    #[inline(always)]
    pub(super) fn max_count(&self) -> u64 {
        self.max_count
    }

    /// Checks that a key has no more bits than the counters' keys.
    #[inline(always)]
    pub(super) fn check(&self, key: K) -> Result<(), Error> {
        let key = key.to_wide();
        if key >> Self::LOWER_BITS <= u128::from(self.upper.mask) {
            return Ok(());
        }
        Err(Error::Key { bits: u128::BITS - key.leading_zeros(), max: self.key_bits })
    }

    /// Divides a key into its bits for the first word, some of which may follow from the home line, and its bits for
    /// the second word. A key of one word has none of the latter.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "each is cut out by its width")]
    fn halves(key: u128) -> [u64; 2] {
        [(key >> Self::LOWER_BITS) as u64, below(key as u64, Self::LOWER_BITS)]
    }

    #[inline(always)]
    fn join([upper, lower]: [u64; 2]) -> u128 {
        u128::from(upper) << Self::LOWER_BITS | u128::from(lower)
    }

    /// Shuffles the keys one to one: a Feistel network of both halves, each of which is shuffled too. The lower half
    /// of a key of one word stays 0, and changes nothing.
    #[inline(always)]
    fn shuffle_halves(&self, [upper, lower]: [u64; 2]) -> [u64; 2] {
        let lower = LOWER.apply(lower);
        let upper = self.upper.apply(upper ^ (mix(lower) & self.upper.mask));
        [upper, lower ^ below(mix(upper), Self::LOWER_BITS)]
    }

    /// Shuffles as [`shuffle_halves`](Self::shuffle_halves); bits beyond those of a key stay, so that it is refused.
    #[inline(always)]
    pub(super) fn shuffle(&self, key: u128) -> u128 {
        let excess = key & u128::MAX << self.key_bits;
        Self::join(self.shuffle_halves(Self::halves(key))) | excess
    }

    pub(super) fn unshuffle(&self, shuffled: u128) -> u128 {
        let [upper, lower] = Self::halves(shuffled);
        let lower = lower ^ below(mix(upper), Self::LOWER_BITS);
        let upper = self.upper.invert(upper) ^ (mix(lower) & self.upper.mask);
        Self::join([upper, LOWER.invert(lower)])
    }

    /// Returns the home line of a key, and its words.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "a fraction of the lines")]
    pub(super) fn home(&self, key: K) -> (u64, Home) {
        let key = Self::halves(key.to_wide());
        let [upper, lower] = if K::IS_SHUFFLED { key } else { self.shuffle_halves(key) };
        // The highest 64 bits of the key; one of fewer bits is moved to the top.
        let unused = self.upper.unused_bits;
        let fraction = u128::from(upper << unused | lower >> (SECOND_BITS - unused));
        let line = ((fraction * u128::from(self.lines.get())) >> 64) as u64;
        let word = OCCUPIED | (upper & self.first_mask) << self.first_shift;
        (line, Home { word, second: OCCUPIED | lower })
    }

    /// Returns the word with a count of 0 of a key, in the line at this distance from its home.
    #[inline(always)]
    pub(super) fn word(&self, home: Home, distance: u64) -> u64 {
        home.word | distance << self.count_bits
    }

    /// Returns the count of a word.
    #[inline(always)]
    pub(super) fn count(&self, word: u64) -> u64 {
        word & self.max_count()
    }

    /// Returns the word with more counts, at most the largest.
    #[inline(always)]
    pub(super) fn plus(&self, word: u64, addend: u64) -> u64 {
        word + addend.min(self.max_count() - self.count(word))
    }

    /// Returns whether a word has the key and the distance of `wanted`.
    #[inline(always)]
    pub(super) fn matches(&self, word: u64, wanted: u64) -> bool {
        word & !self.max_count() == wanted
    }

    /// Returns whether a word that may be a mixture of the bytes of 0 and of an occupied word may be one of
    /// `wanted`.
    pub(super) fn may_match_torn(&self, word: u64, wanted: u64) -> bool {
        let (seen, wanted) = ((word & !self.max_count()).to_le_bytes(), wanted.to_le_bytes());
        seen.iter().zip(wanted).all(|(seen, wanted)| *seen == wanted || *seen == 0)
    }

    /// Returns the key and the count of a bucket in a line; `None` if it is empty, or being claimed.
    pub(super) fn entry(&self, words: &[u64], line: u64) -> Option<(K, u64)> {
        let (word, second) = (*words.first()?, words.get(1).copied().unwrap_or(OCCUPIED));
        if word & second & OCCUPIED == 0 {
            return None;
        }
        let distance = (word >> self.count_bits & (MAX_GROUPS - 1)) % self.lines;
        let lines = self.lines.get();
        let home = if line >= distance { line - distance } else { line + lines - distance };
        let upper = u128::from((word & !OCCUPIED) >> (DISTANCE_BITS + self.count_bits));
        let rest = upper << Self::LOWER_BITS | u128::from(second & !OCCUPIED);
        // The keys of a line begin at its share of all keys, rounded up to what `top` tells.
        let top_bits = self.key_bits.min(u64::BITS);
        let up = u128::from(lines) - 1;
        let first = ((u128::from(home) << top_bits) + up) / NonZeroU128::from(self.lines);
        let first = first << (self.key_bits - top_bits);
        let shuffled = first + (rest.wrapping_sub(first) & !(u128::MAX << self.rest_bits));
        let key = if K::IS_SHUFFLED { shuffled } else { self.unshuffle(shuffled) };
        Some((K::from_wide(key), self.count(word)))
    }
}

/// Odd multipliers, which have inverses modulo every power of two.
const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];
const INVERSES: [u64; 2] = [inverse(FACTORS[0]), inverse(FACTORS[1])];

/// Returns the inverse of an odd number modulo 2^64, by Newton's iteration.
const fn inverse(factor: u64) -> u64 {
    let (mut inverse, mut step) = (factor, 0_u32);
    while step < 5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(factor.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

/// Shuffles the numbers of some bits, 1 to 63, one to one. The highest bits, which determine the home, come last
/// from a multiplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Shuffle {
    mask: u64,
    unused_bits: u32,
    fold: u32,
}

/// Shuffles the lower half of a key of two words.
const LOWER: Shuffle = Shuffle::new(SECOND_BITS);

impl Shuffle {
    const fn new(bits: u32) -> Self {
        let unused_bits = u64::BITS - bits;
        Self { mask: u64::MAX >> unused_bits, unused_bits, fold: bits.div_ceil(2) }
    }

    #[inline(always)]
    fn apply(self, number: u64) -> u64 {
        self.rounds(number, [FACTORS[0], FACTORS[1], FACTORS[0]])
    }

    fn invert(self, shuffled: u64) -> u64 {
        self.rounds(shuffled, [INVERSES[0], INVERSES[1], INVERSES[0]])
    }

    #[inline(always)]
    fn rounds(self, number: u64, factors: [u64; 3]) -> u64 {
        let Self { mask, fold, .. } = self;
        let number = number.wrapping_mul(factors[0]) & mask;
        let number = (number ^ number >> fold).wrapping_mul(factors[1]) & mask;
        (number ^ number >> fold).wrapping_mul(factors[2]) & mask
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Checks the word of a key, and that its shuffled one has the same word.
    fn check<K: Key>(key: K, key_bits: u32, lines: u64, distance: u64, count: u64) {
        let layout = Layout::<K>::new(lines, key_bits);
        let key = K::from_wide(key.to_wide() & !(u128::MAX << key_bits));
        assert!(layout.check(key).is_ok());
        for bit in key_bits..K::WORDS * u64::BITS {
            let long = key.to_wide() | 1 << bit;
            assert!(layout.check(K::from_wide(long)).is_err(), "bit {bit} of {key_bits}");
            assert!(layout.check(K::from_wide(layout.shuffle(long))).is_err(), "bit {bit}");
        }
        assert_eq!(layout.unshuffle(layout.shuffle(key.to_wide())), key.to_wide());
        if layout.max_count() == 0 {
            return;
        }
        let (first, home) = layout.home(key);
        let number = key.to_wide();
        let number = if K::IS_SHUFFLED { number } else { layout.shuffle(number) };
        let shuffled = Shuffled(K::from_wide(number));
        assert_eq!(Layout::new(lines, key_bits).home(shuffled), (first, home));
        let line = (first + distance) % lines;
        let empty = layout.word(home, distance);
        let word = layout.plus(empty, count);
        assert!(layout.matches(word, empty) && first < lines);
        let bucket = [word, home.second];
        let entry = layout.entry(&bucket[..K::WORDS as usize], line);
        assert_eq!(entry, Some((key, count.min(layout.max_count()))));
        assert_eq!(layout.plus(word, u64::MAX), empty | layout.max_count());
    }

    proptest! {
        #[test]
        fn entries_hold_key_and_count(
            key_bits in 1..=62_u32, key: u64, wide_bits in 64..=126_u32, wide: u128, lines in 1..1_u64 << 40,
            distance in 0..MAX_GROUPS, count: u64,
        ) {
            check(key, key_bits, lines, distance, count);
            check(wide, wide_bits, lines, distance, count);
            check(Shuffled(key), key_bits, lines, distance, count);
            check(Shuffled(wide), wide_bits, lines, distance, count);
        }

        /// Keys that differ in few bits, wherever these are, have homes in all parts of a table.
        #[test]
        fn spreads_homes(shift in 0..118_u32, bits in 10..=62_u32, wide_bits in 64..=126_u32) {
            check_spread::<u64>(shift % (bits - 7), bits);
            check_spread::<u128>(shift % (wide_bits - 7), wide_bits);
        }
    }

    /// Checks 256 keys that differ in 8 bits, in a table of 256 lines, of which random keys hit 162.
    fn check_spread<K: Key>(shift: u32, bits: u32) {
        let layout = Layout::<K>::new(256, bits);
        let keys = (0..256_u128).map(|nth| K::from_wide(nth << shift));
        let mut lines: Vec<u64> = keys.map(|key| layout.home(key).0).collect();
        lines.sort_unstable();
        lines.dedup();
        assert!(lines.len() > 64, "{} lines, {bits} bits, those from {shift}", lines.len());
    }
}
