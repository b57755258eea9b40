//! Copies between shared words, which other CPUs access at the same time, and private bytes, with
//! few instructions.
#![allow(unsafe_code)]

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};

use crate::WORD_BYTES;

/// Loads as many bytes as `into` has from `words`; stops at the end of the words. Each word is loaded
/// whole and with acquire order, in any order.
#[inline(always)]
pub fn load_bytes(words: &[AtomicU64], into: &mut [u8]) {
    let (whole, rest) = into.as_chunks_mut::<WORD_BYTES>();
    let count = whole.len().min(words.len());
    // SAFETY: both ranges have `count` words, and nothing else refers to the bytes.
    unsafe { load_words(words.as_ptr(), whole.as_mut_ptr(), count) };
    if !rest.is_empty()
        && let Some(last) = words.get(count)
    {
        let last = last.load(Acquire).to_ne_bytes();
        rest.iter_mut().zip(last).for_each(|(to, byte)| *to = byte);
    }
}

/// Stores `bytes` to `words`, the last word padded with zeros; stops at the end of the words. Each
/// word is stored whole and with release order, in any order.
#[inline(always)]
pub fn store_bytes(bytes: &[u8], words: &[AtomicU64]) {
    let (whole, rest) = bytes.as_chunks::<WORD_BYTES>();
    let count = whole.len().min(words.len());
    // SAFETY: both ranges have `count` words.
    unsafe { store_words(whole.as_ptr(), words.as_ptr(), count) };
    if !rest.is_empty()
        && let Some(to) = words.get(count)
    {
        let mut last = [0; WORD_BYTES];
        last.iter_mut().zip(rest).for_each(|(to, byte)| *to = *byte);
        to.store(u64::from_ne_bytes(last), Release);
    }
}

/// Returns whether the words begin with these bytes, at the moments at which each was loaded. They are
/// loaded in any order, and may be torn: only bytes that are known to be of one time may decide.
#[inline(always)]
pub fn begin_with(words: &[AtomicU64], bytes: &[u8]) -> bool {
    let (whole, rest) = bytes.as_chunks::<WORD_BYTES>();
    let Some(words) = words.get(..bytes.len().div_ceil(WORD_BYTES)) else { return false };
    let (pairs, _) = words.as_chunks::<2>();
    let (byte_pairs, byte_last) = whole.as_chunks::<2>();
    let mut same = pair::Same::new();
    for (pair, bytes) in pairs.iter().zip(byte_pairs) {
        same.compare(pair, bytes);
    }
    if !same.is_true() {
        return false;
    }
    let mut tail =
        words.iter().skip(byte_pairs.len() * 2).map(|word| word.load(Acquire).to_ne_bytes());
    byte_last.iter().all(|bytes| tail.next() == Some(*bytes))
        && (rest.is_empty() || tail.next().is_some_and(|word| word.starts_with(rest)))
}

/// Loads as [`load_bytes`], for memory to which no reference may exist.
///
/// # Safety
/// `words` is valid for atomic loads and `into` for stores of `count` words, and no reference to the
/// words of `into` is used meanwhile.
#[inline(always)]
pub unsafe fn load_words(words: *const AtomicU64, into: *mut [u8; WORD_BYTES], count: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the caller upholds that both pointers are valid for `count` words, and that no reference
    // to the words of `into` is used.
    unsafe {
        x86::copy(words.cast(), into.cast(), words.addr(), count);
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    for word in 0..count {
        // SAFETY: `word` is less than `count`, for which the caller upholds that both pointers are
        // valid.
        unsafe { into.add(word).write((*words.add(word)).load(Acquire).to_ne_bytes()) };
    }
}

/// Stores as [`store_bytes`], for memory to which no reference may exist.
///
/// # Safety
/// `from` is valid for loads and `words` for atomic stores of `count` words, and nothing changes the
/// words of `from` meanwhile.
#[inline(always)]
pub unsafe fn store_words(from: *const [u8; WORD_BYTES], words: *const AtomicU64, count: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the caller upholds that both pointers are valid for `count` words, and that nothing
    // changes the words of `from`.
    unsafe {
        x86::copy(from.cast(), words.cast_mut().cast(), words.addr(), count);
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    for word in 0..count {
        // SAFETY: `word` is less than `count`, for which the caller upholds that both pointers are
        // valid.
        unsafe { (*words.add(word)).store(u64::from_ne_bytes(from.add(word).read()), Release) };
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod pair {
    use core::arch::asm;
    use core::arch::x86_64::{
        __m128i, _mm_and_si128, _mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set1_epi8,
    };
    use core::sync::atomic::AtomicU64;

    use crate::WORD_BYTES;

    /// Whether all pairs of words were the same.
    pub(super) struct Same(__m128i);

    impl Same {
        #[inline(always)]
        pub(super) fn new() -> Self {
            // SAFETY: SSE2, which the x86-64 baseline includes.
            Self(unsafe { _mm_set1_epi8(-1) })
        }

        #[inline(always)]
        pub(super) fn compare(&mut self, words: &[AtomicU64; 2], bytes: &[[u8; WORD_BYTES]; 2]) {
            let (found, given): (__m128i, __m128i);
            // SAFETY: 16 bytes each. Assembly, as in `x86::copy`: it may do what atomic loads of each
            // byte could.
            unsafe {
                asm!("movdqu {found}, [{words}]", "movdqu {given}, [{bytes}]",
                    found = lateout(xmm_reg) found, given = lateout(xmm_reg) given,
                    words = in(reg) words, bytes = in(reg) bytes,
                    options(nostack, readonly, preserves_flags));
                self.0 = _mm_and_si128(self.0, _mm_cmpeq_epi8(found, given));
            }
        }

        #[inline(always)]
        pub(super) fn is_true(&self) -> bool {
            // SAFETY: as in `new`.
            unsafe { _mm_movemask_epi8(self.0) == 0xffff }
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod pair {
    use core::sync::atomic::AtomicU64;
    use core::sync::atomic::Ordering::Acquire;

    use crate::WORD_BYTES;

    /// Whether all pairs of words were the same.
    pub(super) struct Same(bool);

    impl Same {
        pub(super) fn new() -> Self {
            Self(true)
        }

        pub(super) fn compare(&mut self, words: &[AtomicU64; 2], bytes: &[[u8; WORD_BYTES]; 2]) {
            self.0 &= words.each_ref().map(|word| word.load(Acquire).to_ne_bytes()) == *bytes;
        }

        pub(super) fn is_true(&self) -> bool {
            self.0
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86 {
    use core::arch::asm;

    use crate::LINE_WORDS;

    cpufeatures::new!(has_avx, "avx");

    /// Copies words between shared and private memory. `shared` is the address of the first word in
    /// shared memory.
    ///
    /// Peers access the shared words at the same time, so each word must be copied whole, and the
    /// compiler must assume nothing about them. The copy is therefore assembly, which may do what
    /// atomic loads and stores of each word could do. A vector access whose address in shared memory
    /// is a multiple of its size lies in one cache line, from which the processor moves each 8-byte
    /// word whole. Intel (SDM volume 3A, 9.1.1) and AMD (APM volume 2, 7.3.2) promise it for 16 bytes
    /// on processors with AVX; other processors split accesses only at multiples of 8 bytes. On
    /// x86-64 loads acquire and stores release, also those of vectors.
    ///
    /// # Safety
    /// `from` is valid for loads and `into` for stores of `words` words, with references at most to
    /// the shared ones, as atomics.
    #[inline(always)]
    pub(super) unsafe fn copy(from: *const u64, into: *mut u64, shared: usize, words: usize) {
        let mut copy = Copy { from, into, at: 0 };
        // SAFETY: the steps copy at most the words that are left; each aligns the next one.
        unsafe {
            if shared & 8 != 0 && words > 0 {
                copy.word();
            }
            if words - copy.at >= LONG_WORDS && has_avx::get() {
                if (shared + (shared & 8)) & 16 != 0 {
                    copy.pair();
                }
                copy.at = long(from, into, copy.at, words);
            }
            while words - copy.at >= LINE_WORDS as usize {
                copy.line();
            }
            while words - copy.at >= 2 {
                copy.pair();
            }
            if words > copy.at {
                copy.word();
            }
        }
    }

    /// The fewest words that are copied 32 bytes at a time, without the first ones that align them.
    const LONG_WORDS: usize = 32;

    /// A copy in progress.
    ///
    /// The methods are unsafe: at least as many words as they copy are left, and the pointers are
    /// valid for them. The address in shared memory is a multiple of the vectors' size.
    struct Copy {
        from: *const u64,
        into: *mut u64,
        /// Words copied.
        at: usize,
    }

    impl Copy {
        #[inline(always)]
        unsafe fn word(&mut self) {
            // SAFETY: the caller upholds that a word is left, for which the pointers are valid.
            unsafe {
                asm!("mov {word}, [{from} + 8*{at}]", "mov [{into} + 8*{at}], {word}",
                    word = out(reg) _, from = in(reg) self.from, into = in(reg) self.into,
                    at = in(reg) self.at, options(nostack, preserves_flags));
            }
            self.at += 1;
        }

        #[inline(always)]
        unsafe fn pair(&mut self) {
            // SAFETY: the caller upholds that two words are left, for which the pointers are valid.
            unsafe {
                asm!("movdqu {pair}, [{from} + 8*{at}]", "movdqu [{into} + 8*{at}], {pair}",
                    pair = out(xmm_reg) _, from = in(reg) self.from, into = in(reg) self.into,
                    at = in(reg) self.at, options(nostack, preserves_flags));
            }
            self.at += 2;
        }

        /// Copies 8 words, 16 bytes at a time.
        #[inline(always)]
        unsafe fn line(&mut self) {
            // SAFETY: the caller upholds that 8 words are left, for which the pointers are valid.
            unsafe {
                asm!(
                    "movdqu {a}, [{from} + 8*{at}]", "movdqu {b}, [{from} + 8*{at} + 16]",
                    "movdqu {c}, [{from} + 8*{at} + 32]", "movdqu {d}, [{from} + 8*{at} + 48]",
                    "movdqu [{into} + 8*{at}], {a}", "movdqu [{into} + 8*{at} + 16], {b}",
                    "movdqu [{into} + 8*{at} + 32], {c}", "movdqu [{into} + 8*{at} + 48], {d}",
                    a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
                    from = in(reg) self.from, into = in(reg) self.into, at = in(reg) self.at,
                    options(nostack, preserves_flags)
                );
            }
            self.at += 8;
        }
    }

    /// Copies all but the last 0 to 15 of `words`, 32 bytes at a time, from word `at` on. Returns the
    /// first word that is left.
    ///
    /// # Safety
    /// As for [`copy`]. At least 16 words are left, and the processor has AVX.
    // Not inlined: `vzeroupper` changes the upper halves of all vector registers, which a caller
    // may keep across inlined code, but not across a call.
    #[inline(never)]
    #[target_feature(enable = "avx")]
    unsafe fn long(from: *const u64, into: *mut u64, mut at: usize, words: usize) -> usize {
        let rounds = (words - at) / 16;
        // SAFETY: the caller upholds that both pointers are valid for `words` words, that at least 16
        // are left, and that the processor has AVX.
        unsafe {
            asm!(
                "2:",
                "vmovdqu {a}, [{from} + 8*{at}]", "vmovdqu {b}, [{from} + 8*{at} + 32]",
                "vmovdqu {c}, [{from} + 8*{at} + 64]", "vmovdqu {d}, [{from} + 8*{at} + 96]",
                "vmovdqu [{into} + 8*{at}], {a}", "vmovdqu [{into} + 8*{at} + 32], {b}",
                "vmovdqu [{into} + 8*{at} + 64], {c}", "vmovdqu [{into} + 8*{at} + 96], {d}",
                "add {at}, 16", "dec {rounds}", "jnz 2b", "vzeroupper",
                a = out(ymm_reg) _, b = out(ymm_reg) _, c = out(ymm_reg) _, d = out(ymm_reg) _,
                from = in(reg) from, into = in(reg) into,
                at = inout(reg) at, rounds = inout(reg) rounds => _, options(nostack)
            );
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::Ordering::Relaxed;

    use super::*;

    const WORDS: usize = 96;
    #[repr(align(64))]
    struct Lines([AtomicU64; WORDS]);

    fn byte(nth: usize) -> u8 {
        u8::try_from(nth % 251).unwrap() + 1
    }

    /// Every length and alignment, in both directions: the bytes of the range and no others.
    #[test]
    fn copies_only_its_range() {
        for (start, private) in (0..8).flat_map(|start| (0..4).map(move |at| (start, at))) {
            for bytes in (0..640).step_by(3).chain((0..640).step_by(8)) {
                let given: Vec<_> = (0..private + bytes).map(byte).collect();
                let lines = Lines([const { AtomicU64::new(u64::MAX) }; WORDS]);
                let words = &lines.0[start..];
                store_bytes(&given[private..], words);
                let mut loaded = vec![0; private + bytes + 1];
                load_bytes(words, &mut loaded[private..private + bytes]);
                assert_eq!(
                    loaded[private..private + bytes],
                    given[private..],
                    "{bytes} at {start}"
                );
                assert!(loaded[..private].iter().chain(loaded.last()).all(|byte| *byte == 0));
                let stored = start..start + bytes.div_ceil(WORD_BYTES);
                let untouched = lines.0.iter().enumerate().filter(|(nth, _)| !stored.contains(nth));
                assert!(untouched.map(|(_, word)| word.load(Relaxed)).all(|word| word == u64::MAX));
            }
        }
    }

    #[test]
    fn stops_at_end_of_words() {
        let words = [AtomicU64::new(1), AtomicU64::new(2)];
        store_bytes(&[255; 40], &words);
        let mut bytes = [7; 40];
        load_bytes(&words, &mut bytes);
        assert!(
            bytes[..16].iter().all(|byte| *byte == 255)
                && bytes[16..].iter().all(|byte| *byte == 7)
        );
    }

    /// Every length and alignment, and a difference in each byte; the padding does not matter.
    #[test]
    fn compares_each_byte() {
        for bytes in 0..50 {
            for start in 0..2 {
                let words = [const { AtomicU64::new(u64::MAX) }; 9];
                let mut given: Vec<_> = (0..bytes).map(byte).collect();
                store_bytes(&given, &words[start..]);
                assert!(begin_with(&words[start..], &given), "{bytes}");
                let short = &words[..bytes.div_ceil(WORD_BYTES).saturating_sub(1)];
                assert_eq!(begin_with(short, &given), bytes == 0);
                for nth in 0..bytes {
                    given[nth] ^= 1;
                    assert!(!begin_with(&words[start..], &given), "{nth} of {bytes}");
                    given[nth] ^= 1;
                }
            }
        }
    }

    #[test]
    fn pads_last_word_with_zeros() {
        let word = AtomicU64::new(u64::MAX);
        store_bytes(&[1, 2, 3], core::slice::from_ref(&word));
        assert_eq!(word.load(Relaxed).to_ne_bytes(), [1, 2, 3, 0, 0, 0, 0, 0]);
    }
}
