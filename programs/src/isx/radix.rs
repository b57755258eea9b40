//! Radix sort of keys in a range: by the highest digit first, and then by the lower ones within the keys that
//! have it, which stay in a CPU's cache.

/// Bits of the highest digit: the pages of its buckets stay in the translation cache.
const HIGH_BITS: u32 = 9;
/// The most bits of a lower digit.
const LOW_BITS: u32 = 11;

/// Sorts keys, which are from `start` on and less than `start + width`. `scratch` gets as long as them.
pub(super) fn sort(keys: &mut Vec<u32>, scratch: &mut Vec<u32>, start: u32, width: u64) {
    let bits = u64::BITS - width.saturating_sub(1).leading_zeros();
    let low = bits.saturating_sub(HIGH_BITS);
    scratch.resize(keys.len(), 0);
    let ends = distribute(keys, scratch, |key| (key - start) >> low);
    core::mem::swap(keys, scratch);
    let passes = low.div_ceil(LOW_BITS);
    let mut first = 0;
    for end in ends {
        if first == end {
            continue;
        }
        let (mut from, mut to) = (&mut keys[first..end], &mut scratch[first..end]);
        for pass in 0..passes {
            let digit_bits = low.div_ceil(passes);
            let mask = (1 << digit_bits.min(low - pass * digit_bits)) - 1;
            distribute(from, to, |key| (key - start) >> (pass * digit_bits) & mask);
            (from, to) = (to, from);
        }
        first = end;
    }
    if passes % 2 == 1 {
        core::mem::swap(keys, scratch);
    }
}

/// Stores keys in order of a digit, those of one digit in the order in which they are. Returns the end of each
/// digit.
fn distribute(from: &[u32], to: &mut [u32], digit: impl Fn(u32) -> u32) -> Vec<usize> {
    let mut ends = vec![0_usize; 1 << HIGH_BITS.max(LOW_BITS)];
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
    ends
}
