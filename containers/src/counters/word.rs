//! The words of counters: key, distance from the home line, and count.

use probeline_pipeline::Error;

pub(super) const OCCUPIED: u64 = 1 << 63;
/// Bits of the distance from the home line.
const DISTANCE_BITS: u32 = 6;
/// Lines in which a key may be.
pub(super) const MAX_LINES: u64 = 1 << DISTANCE_BITS;

/// The fields of a word, from the top: the occupied bit, the rest of the key, the distance, the count.
///
/// A key is shuffled by a bijection. Its home line is the shuffled key as a fraction of the lines; keys of one
/// line are consecutive numbers, of which the rest, the lowest bits, tells one from the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    lines: u64,
    key_bits: u32,
    rest_bits: u32,
    count_bits: u32,
}

/// The home of a key, and the word of its first count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Home {
    pub(super) line: u64,
    /// The occupied bit and the rest of the key.
    word: u64,
}

impl Layout {
    pub(super) fn new(lines: u64, key_bits: u32) -> Self {
        let key_bits = key_bits.clamp(1, super::MAX_KEY_BITS);
        let lines = lines.max(1);
        // A line has at most 2^rest_bits keys.
        let rest_bits = key_bits.saturating_sub(lines.ilog2());
        let count_bits = (63 - DISTANCE_BITS).saturating_sub(rest_bits);
        Self { lines, key_bits, rest_bits, count_bits }
    }

    /// Returns the largest count; 0 if a word has no bits left for it.
    #[inline(always)]
    pub(super) fn max_count(&self) -> u64 {
        (1 << self.count_bits) - 1
    }

    /// Checks that a key has no more bits than the counters' keys.
    #[inline(always)]
    pub(super) fn check(&self, key: u64) -> Result<(), Error> {
        if key >> self.key_bits == 0 {
            return Ok(());
        }
        Err(Error::Key { bits: u64::BITS - key.leading_zeros(), most: self.key_bits })
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "a fraction of the lines")]
    pub(super) fn home(&self, key: u64) -> Home {
        let shuffled = shuffle(key, self.key_bits);
        let fraction = u128::from(shuffled << (u64::BITS - self.key_bits));
        let line = ((fraction * u128::from(self.lines)) >> 64) as u64;
        let rest = shuffled & !(u64::MAX << self.rest_bits);
        Home { line, word: OCCUPIED | rest << (DISTANCE_BITS + self.count_bits) }
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

    /// Returns the key and the count of a word in a line; `None` if it is empty.
    #[allow(clippy::cast_possible_truncation, reason = "a shuffled key")]
    pub(super) fn entry(&self, word: u64, line: u64) -> Option<(u64, u64)> {
        if word & OCCUPIED == 0 {
            return None;
        }
        let distance = word >> self.count_bits & (MAX_LINES - 1);
        let rest = (word & !OCCUPIED) >> (DISTANCE_BITS + self.count_bits);
        let distance = distance % self.lines;
        let home = if line >= distance { line - distance } else { line + self.lines - distance };
        // The keys of a line begin at its share of all keys, rounded up.
        let first = (u128::from(home) << self.key_bits).div_ceil(u128::from(self.lines)) as u64;
        let shuffled = first + (rest.wrapping_sub(first) & !(u64::MAX << self.rest_bits));
        Some((unshuffle(shuffled, self.key_bits), self.count(word)))
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

/// Shuffles the numbers of this many bits, one to one.
#[inline(always)]
fn shuffle(key: u64, bits: u32) -> u64 {
    let mask = u64::MAX >> (u64::BITS - bits);
    let fold = bits.div_ceil(2);
    let key = key.wrapping_mul(FACTORS[0]) & mask;
    let key = (key ^ key >> fold).wrapping_mul(FACTORS[1]) & mask;
    key ^ key >> fold
}

fn unshuffle(shuffled: u64, bits: u32) -> u64 {
    let mask = u64::MAX >> (u64::BITS - bits);
    let fold = bits.div_ceil(2);
    let key = (shuffled ^ shuffled >> fold).wrapping_mul(INVERSES[1]) & mask;
    (key ^ key >> fold).wrapping_mul(INVERSES[0]) & mask
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn entries_are_the_keys_and_counts(
            key_bits in 1..=62_u32, key: u64, lines in 1..1_u64 << 40, distance in 0..MAX_LINES, count: u64,
        ) {
            let layout = Layout::new(lines, key_bits);
            let key = key & (u64::MAX >> (64 - key_bits));
            prop_assert!(layout.check(key).is_ok());
            prop_assume!(layout.max_count() > 0);
            let home = layout.home(key);
            let line = (home.line + distance) % lines;
            let empty = layout.word(home, distance);
            let word = layout.plus(empty, count);
            prop_assert!(layout.matches(word, empty) && home.line < lines && line < lines);
            prop_assert_eq!(layout.entry(word, line), Some((key, count.min(layout.max_count()))));
            prop_assert_eq!(layout.plus(word, u64::MAX), empty | layout.max_count());
        }
    }
}
