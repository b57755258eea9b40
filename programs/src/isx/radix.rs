//! Radix sort of keys in a range.

/// Bits of a digit: the ends of its buckets stay in the fastest cache.
const MAX_DIGIT_BITS: u32 = 11;

/// Sorts keys, which are from `start` on and less than `start + width`. `scratch` gets as long as them.
pub(super) fn sort(keys: &mut Vec<u32>, scratch: &mut Vec<u32>, start: u32, width: u64) {
    let bits = u64::BITS - width.saturating_sub(1).leading_zeros();
    let passes = bits.div_ceil(MAX_DIGIT_BITS).max(1);
    let digit_bits = bits.div_ceil(passes);
    scratch.resize(keys.len(), 0);
    for pass in 0..passes {
        let mask = (1 << digit_bits) - 1;
        let digit = |key: u32| ((key - start) >> (pass * digit_bits) & mask) as usize;
        let mut ends = vec![0_usize; 1 << digit_bits];
        keys.iter().for_each(|key| ends[digit(*key)] += 1);
        let mut next = 0;
        for end in &mut ends {
            (*end, next) = (next, next + *end);
        }
        for key in keys.iter() {
            let end = &mut ends[digit(*key)];
            scratch[*end] = *key;
            *end += 1;
        }
        core::mem::swap(keys, scratch);
    }
}
