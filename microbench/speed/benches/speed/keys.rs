//! The keys of all sets: uniform numbers of 63 bits. The nth key is computed, and n is computed from a
//! key, so that no array has to record which keys are in a set: always the first ones.

/// Bits of a key, as many as the table takes.
const BITS: u32 = 63;
const MASK: u64 = (1 << BITS) - 1;
/// At least half of 63, so that a second fold undoes the first.
const FOLD: u32 = 32;
/// Odd, hence invertible: the multipliers of Stafford's 13th variant of MurmurHash3's finaliser. The
/// table mixes with others.
const FACTOR_1: u64 = 0xbf58_476d_1ce4_e5b9;
const FACTOR_2: u64 = 0x94d0_49bb_1331_11eb;
const INVERSE_1: u64 = inverse(FACTOR_1);
const INVERSE_2: u64 = inverse(FACTOR_2);
/// Makes the first key other than 0.
const OFFSET: u64 = 0x1e37_79b9_7f4a_7c15;

/// The nth key; all are different for n below 2^63.
#[inline]
pub(crate) fn nth(n: u64) -> u64 {
    let mut x = n.wrapping_add(OFFSET) & MASK;
    x ^= x >> FOLD;
    x = x.wrapping_mul(FACTOR_1) & MASK;
    x ^= x >> FOLD;
    x = x.wrapping_mul(FACTOR_2) & MASK;
    x ^ (x >> FOLD)
}

/// The n of a key.
#[inline]
pub(crate) fn number(key: u64) -> u64 {
    let mut x = key ^ (key >> FOLD);
    x = x.wrapping_mul(INVERSE_2) & MASK;
    x ^= x >> FOLD;
    x = x.wrapping_mul(INVERSE_1) & MASK;
    x ^= x >> FOLD;
    x.wrapping_sub(OFFSET) & MASK
}

/// The inverse of an odd number modulo 2^64 by Newton's iteration: each step doubles the correct
/// low bits, of which an odd number is its own inverse in three.
const fn inverse(odd: u64) -> u64 {
    let mut x = odd;
    let mut correct_bits = 3;
    while correct_bits < u64::BITS {
        x = x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x)));
        correct_bits *= 2;
    }
    x
}

/// The keys of a measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keys {
    /// Those numbered from `from` to `to`, exclusive, in this order.
    Run { from: u64, to: u64 },
    /// `count` of the first `of` keys, drawn at random.
    Random { of: u64, count: usize, seed: u64 },
}

impl Keys {
    /// The keys of thread `part` of `parts`.
    pub(crate) fn part(self, part: usize, parts: usize) -> Self {
        let (at, parts) = (part as u64, parts as u64);
        match self {
            Self::Run { from, to } => {
                let cut = |at: u64| from + (to - from) * at / parts;
                Self::Run { from: cut(at), to: cut(at + 1) }
            }
            Self::Random { of, count, seed } => {
                // A prime, so that threads of different rounds have different seeds.
                Self::Random { of, count, seed: seed.wrapping_mul(1009).wrapping_add(at) }
            }
        }
    }

    /// Replaces the contents of `keys` by these keys.
    pub(crate) fn fill(self, keys: &mut Vec<u64>) {
        keys.clear();
        match self {
            Self::Run { from, to } => keys.extend((from..to).map(nth)),
            Self::Random { of, count, seed } => {
                // Keys are uniform numbers themselves. The ranges of two seeds are disjoint.
                let random = |n: u64| nth((seed << 32).wrapping_add(n) & MASK);
                keys.extend((0..count as u64).map(|n| nth(scale(random(n), of))));
            }
        }
    }
}

/// Maps a uniform number of 63 bits to 0 to `count`, exclusive.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "less than `count`")]
fn scale(number: u64, count: u64) -> u64 {
    ((u128::from(number) * u128::from(count)) >> BITS) as u64
}

// Cargo sets `test` for a benchmark without a harness too, and there the tests are left out.
#[cfg(test)]
#[allow(dead_code, unused_imports)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn numbers_come_back_from_keys_of_63_bits() {
        for n in (0..10_000).chain((0..10_000).map(|n| MASK - n)) {
            assert!(nth(n) <= MASK);
            assert_eq!(number(nth(n)), n);
        }
    }

    #[test]
    fn the_parts_of_a_run_are_disjoint_and_complete() {
        let mut all = BTreeSet::new();
        let mut keys = Vec::new();
        for part in 0..3 {
            Keys::Run { from: 10, to: 1000 }.part(part, 3).fill(&mut keys);
            assert!(keys.iter().all(|key| all.insert(*key)));
        }
        assert_eq!(all, (10..1000).map(nth).collect());
    }

    #[test]
    fn random_keys_are_present_and_differ_by_part_and_seed() {
        let mut seen = Vec::new();
        for (seed, part) in [(1, 0), (1, 1), (2, 0)] {
            let mut keys = Vec::new();
            Keys::Random { of: 5000, count: 10_000, seed }.part(part, 2).fill(&mut keys);
            assert_eq!(keys.len(), 10_000);
            assert!(keys.iter().all(|key| number(*key) < 5000));
            let different: BTreeSet<u64> = keys.iter().copied().collect();
            // 5000 (1 - e^-2) expected, which is 4323; 6 standard deviations of it are below 200.
            assert!((4123..4523).contains(&different.len()), "{}", different.len());
            assert!(!seen.contains(&keys));
            seen.push(keys);
        }
    }
}
