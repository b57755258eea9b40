//! Requests for cache lines ahead of their use. They change nothing but time; on architectures
//! other than x86-64 and AArch64 they do nothing.

use core::sync::atomic::AtomicU64;

/// Requests the line of `word` into the first cache, to be read.
#[inline(always)]
pub(crate) fn near(word: &AtomicU64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch faults on no address, and this one is a live reference's.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(word).cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above; the instruction reads one register and writes none.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) core::ptr::from_ref(word),
            options(nostack, preserves_flags, readonly));
    }
    let _ = word;
}

/// Requests the line of `word` into the second cache: more of these can be under way at once.
#[inline(always)]
pub(crate) fn far(word: &AtomicU64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as for `near`.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(core::ptr::from_ref(word).cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as for `near`.
    unsafe {
        core::arch::asm!("prfm pldl2keep, [{}]", in(reg) core::ptr::from_ref(word),
            options(nostack, preserves_flags, readonly));
    }
    let _ = word;
}

/// Requests the line of `word` to be written, away from other cores.
#[inline(always)]
pub(crate) fn to_write(word: &AtomicU64) {
    // Not by `_mm_prefetch`, which reads where the target is not told that it has PREFETCHW. All
    // x86-64 processors take the instruction, old ones as one that does nothing.
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as for `near`; the instruction reads one register and writes none.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) core::ptr::from_ref(word),
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as for `near`.
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{}]", in(reg) core::ptr::from_ref(word),
            options(nostack, preserves_flags, readonly));
    }
    let _ = word;
}
