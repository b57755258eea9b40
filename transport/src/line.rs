//! A cache line of words that the CPU can address: all of its words compared at once.
#![allow(unsafe_code)]

use core::sync::atomic::AtomicU64;

/// The 8 words of a cache line.
pub type Line = [AtomicU64; 8];

/// The result of comparing the 8 words of a line, one bit each, the first word in the lowest bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Set for each word that is the wanted one, in the compared bits.
    pub wanted: u8,
    /// Set for each word whose top bit is set.
    pub occupied: u8,
}

/// Compares the 8 words of a line at once. It takes one branch for all of them; a branch for each
/// would be mispredicted about once an operation.
///
/// The CPU may load several words by one instruction. Each word is whole, but the words are not a snapshot.
pub trait Compare {
    /// Compares the bits of `mask` of each word with `wanted`, which has no other bits. A constant mask of all bits
    /// costs nothing.
    fn see(line: &Line, mask: u64, wanted: u64) -> Seen;
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub use Each as Narrow;
/// The comparison that every CPU of the target has.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub use x86::Sse2 as Narrow;

/// Work that is compiled for each kind of comparison.
pub trait Work {
    /// The result.
    type Output;

    /// Does the work. Inlined, so that it uses the instructions of its caller.
    fn run<C: Compare>(self) -> Self::Output;
}

/// Runs `work` with the widest comparison that the CPU has.
#[inline]
pub fn with_widest<W: Work>(work: W) -> W::Output {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return x86::with_widest(work);
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    return work.run::<Narrow>();
}

/// Compares one word after the other.
#[cfg(any(test, not(target_arch = "x86_64"), miri))]
pub struct Each;

#[cfg(any(test, not(target_arch = "x86_64"), miri))]
impl Compare for Each {
    #[inline]
    fn see(line: &Line, mask: u64, wanted: u64) -> Seen {
        let mut seen = Seen { wanted: 0, occupied: 0 };
        for (bit, word) in (0..).zip(line) {
            let word = word.load(core::sync::atomic::Ordering::SeqCst);
            seen.wanted |= u8::from(word & mask == wanted) << bit;
            seen.occupied |= u8::from(word >> 63 == 1) << bit;
        }
        seen
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86 {
    use core::arch::asm;
    use core::arch::x86_64::{
        __m128i, __m256i, __m512i, _mm_and_si128, _mm_castps_si128, _mm_castsi128_ps,
        _mm_cmpeq_epi32, _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32, _mm_set1_epi64x,
        _mm_shuffle_ps, _mm256_and_si256, _mm256_castsi256_pd, _mm256_cmpeq_epi64,
        _mm256_movemask_pd, _mm256_set1_epi64x, _mm512_and_si512, _mm512_cmpeq_epi64_mask,
        _mm512_movepi64_mask, _mm512_set1_epi64,
    };

    use super::{Compare, Line, Seen, Work};

    cpufeatures::new!(has_avx2, "avx2", "bmi1", "bmi2");
    cpufeatures::new!(has_avx512, "avx2", "bmi1", "bmi2", "avx512f", "avx512dq");

    pub(super) fn with_widest<W: Work>(work: W) -> W::Output {
        if has_avx512::get() {
            // SAFETY: the CPU has the instructions.
            return unsafe { with_avx512(work) };
        }
        if has_avx2::get() {
            // SAFETY: the CPU has the instructions.
            return unsafe { with_avx2(work) };
        }
        work.run::<Sse2>()
    }

    /// Runs `work` with 32-byte loads, if the CPU has them, even if it has wider ones.
    #[cfg(test)]
    pub(super) fn try_with_avx2<W: Work>(work: W) -> Option<W::Output> {
        // SAFETY: the CPU has the instructions.
        has_avx2::get().then(|| unsafe { with_avx2(work) })
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,avx512f,avx512dq")]
    fn with_avx512<W: Work>(work: W) -> W::Output {
        work.run::<Avx512>()
    }

    #[target_feature(enable = "avx2,bmi1,bmi2")]
    fn with_avx2<W: Work>(work: W) -> W::Output {
        work.run::<Avx2>()
    }

    /// Compares with 16-byte loads.
    pub struct Sse2;
    pub(super) struct Avx2;
    pub(super) struct Avx512;

    impl Compare for Avx512 {
        #[inline(always)]
        fn see(line: &Line, mask: u64, wanted: u64) -> Seen {
            // SAFETY: only `with_avx512` uses this type.
            unsafe { see_512(line, mask, wanted) }
        }
    }

    impl Compare for Avx2 {
        #[inline(always)]
        fn see(line: &Line, mask: u64, wanted: u64) -> Seen {
            // SAFETY: only `with_avx2` uses this type.
            unsafe { see_256(line, mask, wanted) }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    fn see_512(line: &Line, mask: u64, wanted: u64) -> Seen {
        let words: __m512i;
        // SAFETY: as in `load`.
        unsafe {
            asm!(
                "vmovdqu64 {words}, [{line}]",
                words = out(zmm_reg) words,
                line = in(reg) line.as_ptr(),
                options(readonly, nostack, preserves_flags),
            );
        }
        let compared = _mm512_and_si512(words, _mm512_set1_epi64(mask.cast_signed()));
        let wanted = _mm512_set1_epi64(wanted.cast_signed());
        let wanted = _mm512_cmpeq_epi64_mask(compared, wanted);
        Seen { wanted, occupied: _mm512_movepi64_mask(words) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn see_256(line: &Line, mask: u64, wanted: u64) -> Seen {
        let (low, high): (__m256i, __m256i);
        // SAFETY: as in `load`.
        unsafe {
            asm!(
                "vmovdqu {low}, [{line}]",
                "vmovdqu {high}, [{line} + 32]",
                low = out(ymm_reg) low,
                high = lateout(ymm_reg) high,
                line = in(reg) line.as_ptr(),
                options(readonly, nostack, preserves_flags),
            );
        }
        let occupied = signs_256(low, high);
        let mask = _mm256_set1_epi64x(mask.cast_signed());
        let (low, high) = (_mm256_and_si256(low, mask), _mm256_and_si256(high, mask));
        let wanted = _mm256_set1_epi64x(wanted.cast_signed());
        let wanted = signs_256(_mm256_cmpeq_epi64(low, wanted), _mm256_cmpeq_epi64(high, wanted));
        Seen { wanted, occupied }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn signs_256(low: __m256i, high: __m256i) -> u8 {
        let sign = |words| _mm256_movemask_pd(_mm256_castsi256_pd(words));
        // Four bits each.
        #[allow(clippy::cast_possible_truncation)]
        let signs = (sign(low) | sign(high) << 4) as u8;
        signs
    }

    /// Shuffle masks that select the low and the high halves of four 64-bit words.
    const LOW: i32 = 0b10_00_10_00;
    const HIGH: i32 = 0b11_01_11_01;

    impl Compare for Sse2 {
        #[inline(always)]
        fn see(line: &Line, mask: u64, wanted: u64) -> Seen {
            let words @ [ab, cd, ef, gh] = load(line);
            // The top bit of a word is its occupied bit, and the sign of its high half.
            let occupied = signs(halves::<HIGH>(ab, cd), halves::<HIGH>(ef, gh));
            let mask = splat(mask);
            let [ab, cd, ef, gh] = words.map(|pair| masked(pair, mask));
            let wanted = splat(wanted);
            let first = both(equal(ab, wanted), equal(cd, wanted));
            let second = both(equal(ef, wanted), equal(gh, wanted));
            Seen { wanted: signs(first, second), occupied }
        }
    }

    /// Loads the words of a line into four registers.
    #[inline(always)]
    fn load(line: &Line) -> [__m128i; 4] {
        let (ab, cd, ef, gh);
        // SAFETY: `line` is a reference to 64 bytes, so all loads are of readable memory, aligned
        // as an atomic is. The CPU loads each aligned 8 bytes of a wider load atomically (Intel SDM
        // volume 3, 9.1.1 promises it for 16 bytes with AVX; every x86-64 CPU does it for the
        // 8-byte parts), so a concurrent store cannot tear a word. The compiler sees no access
        // that could race.
        unsafe {
            asm!(
                "movdqu {ab}, [{line}]",
                "movdqu {cd}, [{line} + 16]",
                "movdqu {ef}, [{line} + 32]",
                "movdqu {gh}, [{line} + 48]",
                ab = out(xmm_reg) ab,
                cd = out(xmm_reg) cd,
                ef = out(xmm_reg) ef,
                gh = lateout(xmm_reg) gh,
                line = in(reg) line.as_ptr(),
                options(readonly, nostack, preserves_flags),
            );
        }
        [ab, cd, ef, gh]
    }

    #[inline]
    fn splat(word: u64) -> __m128i {
        // SAFETY: SSE2 is part of the x86-64 baseline; the same holds for the functions below.
        unsafe { _mm_set1_epi64x(word.cast_signed()) }
    }

    #[inline(always)]
    fn masked(words: __m128i, mask: __m128i) -> __m128i {
        // SAFETY: SSE2 is part of the x86-64 baseline.
        unsafe { _mm_and_si128(words, mask) }
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

    struct See<'l>(&'l Line, u64, u64);

    impl Work for See<'_> {
        type Output = Seen;
        #[inline(always)]
        fn run<C: Compare>(self) -> Seen {
            C::see(self.0, self.1, self.2)
        }
    }

    proptest! {
        /// Compares with words that differ from the wanted one in one half, in the top bit, or not
        /// at all.
        #[test]
        fn all_comparisons_agree(
            wanted: u64, mask in prop_oneof![Just(u64::MAX), any::<u64>()], kinds: [u8; 8], others: [u64; 8],
        ) {
            let line: Line = core::array::from_fn(|i| {
                let other = others[i];
                AtomicU64::new(match kinds[i] % 6 {
                    0 => 0,
                    1 => wanted,
                    2 => wanted & 0xffff_ffff | other & !0xffff_ffff,
                    3 => wanted & !0xffff_ffff | other & 0xffff_ffff,
                    4 => wanted ^ 1 << 63,
                    _ => other,
                })
            });
            let wanted = wanted & mask;
            let expected = Each::see(&line, mask, wanted);
            prop_assert_eq!(Narrow::see(&line, mask, wanted), expected);
            prop_assert_eq!(with_widest(See(&line, mask, wanted)), expected);
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            if let Some(seen) = x86::try_with_avx2(See(&line, mask, wanted)) {
                prop_assert_eq!(seen, expected);
            }
        }
    }
}
