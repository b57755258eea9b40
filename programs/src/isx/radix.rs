//! Radix sort of keys in a range, from the lowest digit to the highest.

use core::ops::Range;

/// The most bits of a digit.
const DIGIT_BITS: u32 = 11;

/// Sorts keys of a range. `scratch` gets as long as them.
#[allow(clippy::cast_possible_truncation, reason = "the range is one of keys")]
pub(super) fn sort(keys: &mut Vec<u32>, scratch: &mut Vec<u32>, range: Range<u64>) {
    let start = range.start as u32;
    let bits = u64::BITS - (range.end - range.start).saturating_sub(1).leading_zeros();
    let passes = bits.div_ceil(DIGIT_BITS);
    scratch.resize(keys.len(), 0);
    for pass in 0..passes {
        let digit_bits = bits.div_ceil(passes);
        let mask = (1 << digit_bits) - 1;
        distribute(keys, scratch, |key| (key - start) >> (pass * digit_bits) & mask);
        core::mem::swap(keys, scratch);
    }
}

/// Stores keys in order of a digit, those of one digit in the order in which they are.
fn distribute(from: &[u32], to: &mut [u32], digit: impl Fn(u32) -> u32) {
    let mut ends = [0_usize; 1 << DIGIT_BITS];
    from.iter().for_each(|key| ends[digit(*key) as usize] += 1);
    let mut next = 0;
    for end in &mut ends {
        (*end, next) = (next, next + *end);
    }
    for key in from {
        let end = &mut ends[digit(*key) as usize];
        to[*end] = *key;
        *end += 1;
    }
}
