//! A global allocator that counts allocations, for tests that the data path allocates nothing.
#![allow(unsafe_code)]

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::hint::black_box;
use std::alloc::System;

/// The system's allocator. It counts the allocations of each thread.
///
/// ```standalone_crate
/// use probeline_transport::conformance::{CountingAllocator, allocations};
///
/// #[global_allocator]
/// static ALLOCATOR: CountingAllocator = CountingAllocator;
///
/// let before = allocations();
/// drop(std::hint::black_box(vec![0; 8]));
/// assert_eq!(allocations() - before, 1);
/// ```
pub struct CountingAllocator;

/// Returns the allocations and reallocations of this thread so far; 0 unless [`CountingAllocator`]
/// is the global allocator.
#[must_use]
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// Returns whether [`CountingAllocator`] is the global allocator.
pub(super) fn are_counted() -> bool {
    let before = allocations();
    // Without the black box, the optimiser removes the allocation.
    drop(black_box(vec![0_u8; 64]));
    allocations() > before
}

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
}

// SAFETY: each call passes its arguments to `System` unchanged, and `System` upholds the conditions
// of `GlobalAlloc`. The counter is a thread-local without destructor or lazy initialisation, so
// counting neither allocates nor fails when a thread ends.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller upholds the conditions of `GlobalAlloc`, which `System` requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller upholds the conditions of `GlobalAlloc`, which `System` requires.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: the caller upholds the conditions of `GlobalAlloc`, which `System` requires.
        unsafe { System.realloc(at, layout, bytes) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the conditions of `GlobalAlloc`, which `System` requires.
        unsafe { System.dealloc(at, layout) }
    }
}
