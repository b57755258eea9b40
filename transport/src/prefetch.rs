//! Requests of cache lines ahead of their use, for words that the CPU can address.
#![allow(unsafe_code)]

use core::sync::atomic::AtomicU64;

/// Prefetches the cache line of the first of `words` for a load that follows soon. It changes nothing
/// but the time of a later load.
#[inline(always)]
pub fn prefetch(words: &[AtomicU64]) {
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

/// Prefetches as [`prefetch`], for one of many lines that are used later: into the second-level cache, which has
/// more misses in flight than the first one.
///
/// On a fourth-generation EPYC, loads of three neighbouring lines at random places of 1 GiB take
/// 12 ns instead of the 33 ns after [`prefetch`], both requested 16 places ahead.
#[inline(always)]
pub fn prefetch_far(words: &[AtomicU64]) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch faults on no address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(words.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = words;
}
