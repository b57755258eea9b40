//! A cache line of buckets: prefetch it, and compare all of its buckets at once. This module has
//! all the unsafe code of the crate.
#![allow(unsafe_code)]

use core::sync::atomic::AtomicU64;

use crate::bucket::Bucket;

/// The 8 buckets of a cache line.
pub(crate) type Line = [AtomicU64; 8];

/// The result of comparing the 8 buckets of a line, one bit each, the first bucket in the lowest
/// bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Set for the wanted bucket; at most one bit.
    pub(crate) wanted: u8,
    /// Set for every occupied bucket.
    pub(crate) occupied: u8,
}

/// Prefetches the cache line of `words`, if `words` is not empty.
#[inline]
pub(crate) fn prefetch(words: &[AtomicU64]) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults and changes no memory, whatever its address. The
        // instruction is part of SSE, which the x86-64 baseline includes.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(words.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = words;
}

/// Loads and compares the 8 buckets of a line. It takes one branch for all of them; a branch for
/// each would be mispredicted about once an operation.
#[inline]
pub(crate) fn see(line: &Line, wanted: Bucket) -> Seen {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return x86::see(line, wanted);
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    return see_each(line, wanted);
}

#[cfg(any(test, not(target_arch = "x86_64"), miri))]
fn see_each(line: &Line, wanted: Bucket) -> Seen {
    let mut seen = Seen { wanted: 0, occupied: 0 };
    for (bit, word) in (0..).zip(line) {
        let word = word.load(core::sync::atomic::Ordering::SeqCst);
        seen.wanted |= u8::from(word == wanted.word()) << bit;
        seen.occupied |= u8::from(Bucket::from_word(word).is_some()) << bit;
    }
    seen
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86 {
    use core::arch::asm;
    use core::arch::x86_64::{
        __m128i, _mm_and_si128, _mm_castps_si128, _mm_castsi128_ps, _mm_cmpeq_epi32,
        _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32, _mm_set1_epi64x, _mm_shuffle_ps,
    };
    use core::sync::atomic::AtomicU64;

    use super::{Line, Seen};
    use crate::bucket::Bucket;

    /// Shuffle masks that select the low and the high halves of four 64-bit words.
    const LOW: i32 = 0b10_00_10_00;
    const HIGH: i32 = 0b11_01_11_01;

    #[inline]
    pub(super) fn see(line: &Line, wanted: Bucket) -> Seen {
        let [a, b, c, d, e, f, g, h] = line;
        let [ab, cd, ef, gh] = [pair(a, b), pair(c, d), pair(e, f), pair(g, h)];
        let wanted = splat(wanted.word());
        let first = both(equal(ab, wanted), equal(cd, wanted));
        let second = both(equal(ef, wanted), equal(gh, wanted));
        Seen {
            wanted: signs(first, second),
            // The top bit of a word is its occupied bit, and the sign of its high half.
            occupied: signs(halves::<HIGH>(ab, cd), halves::<HIGH>(ef, gh)),
        }
    }

    /// Loads two words into one register.
    #[inline]
    fn pair(low: &AtomicU64, high: &AtomicU64) -> __m128i {
        let pair;
        // SAFETY: `low` and `high` are references, so the 8 bytes that each instruction loads are
        // readable and aligned as an atomic is. The CPU loads 8 aligned bytes atomically (Intel SDM
        // volume 3, 10.1.1), so a concurrent store cannot tear them. The compiler sees no access
        // that could race.
        unsafe {
            asm!(
                "movq {pair}, [{low}]",
                "movhps {pair}, [{high}]",
                pair = out(xmm_reg) pair,
                low = in(reg) low.as_ptr(),
                high = in(reg) high.as_ptr(),
                options(readonly, nostack, preserves_flags),
            );
        }
        pair
    }

    #[inline]
    fn splat(word: u64) -> __m128i {
        // SAFETY: SSE2 is part of the x86-64 baseline; the same holds for the functions below.
        unsafe { _mm_set1_epi64x(word.cast_signed()) }
    }

    #[inline]
    fn equal(words: __m128i, wanted: __m128i) -> __m128i {
        // SAFETY: SSE2 is part of the x86-64 baseline.
        unsafe { _mm_cmpeq_epi32(words, wanted) }
    }

    /// Selects one half of each of four words.
    #[inline]
    fn halves<const WHICH: i32>(first: __m128i, second: __m128i) -> __m128i {
        // SAFETY: SSE2 is part of the x86-64 baseline.
        unsafe {
            let halves = _mm_shuffle_ps::<WHICH>(_mm_castsi128_ps(first), _mm_castsi128_ps(second));
            _mm_castps_si128(halves)
        }
    }

    /// Combines two half-word comparisons: a word is equal if both of its halves are.
    #[inline]
    fn both(first: __m128i, second: __m128i) -> __m128i {
        // SAFETY: SSE2 is part of the x86-64 baseline.
        unsafe { _mm_and_si128(halves::<LOW>(first, second), halves::<HIGH>(first, second)) }
    }

    /// Packs the sign bits of eight half words into a byte.
    #[inline]
    fn signs(first: __m128i, second: __m128i) -> u8 {
        // SAFETY: SSE2 is part of the x86-64 baseline.
        let signs = unsafe {
            let packed = _mm_packs_epi32(first, second);
            _mm_movemask_epi8(_mm_packs_epi16(packed, packed))
        };
        // The high 8 bits repeat the low 8 bits.
        #[allow(clippy::cast_possible_truncation)]
        let signs = signs as u8;
        signs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares with words that differ from the wanted one in one half, in the top bit, or not
        /// at all.
        #[test]
        fn see_equals_see_each(
            wanted: u64, kinds: [u8; 8], others: [u64; 8],
        ) {
            let wanted = Bucket::from_word(wanted | 1 << 63).unwrap();
            let line: Line = core::array::from_fn(|i| {
                let (word, other) = (wanted.word(), others[i]);
                AtomicU64::new(match kinds[i] % 6 {
                    0 => 0,
                    1 => word,
                    2 => word & 0xffff_ffff | other << 32,
                    3 => word & !0xffff_ffff | other & 0xffff_ffff,
                    4 => word ^ 1 << 63,
                    _ => other,
                })
            });
            prop_assert_eq!(see(&line, wanted), see_each(&line, wanted));
        }
    }
}
