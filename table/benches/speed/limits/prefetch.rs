//! Prefetches of cache lines. They change only the time of later accesses; on architectures other
//! than x86-64 and AArch64 they do nothing.

use core::sync::atomic::AtomicU64;

/// Prefetches the line of `word` into the first cache, for a load.
#[inline(always)]
pub(super) fn near(word: &AtomicU64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch faults on no address, and this address is that of a live reference.
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

/// Prefetches the line of `word` into the second cache, which allows more prefetches in flight.
#[inline(always)]
pub(super) fn far(word: &AtomicU64) {
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

/// Prefetches the line of `word` for a store, which takes it from other cores.
#[inline(always)]
pub(super) fn to_write(word: &AtomicU64) {
    // `_mm_prefetch` compiles to a prefetch for a load unless the target has PREFETCHW. All x86-64
    // processors accept the instruction; old ones ignore it.
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
