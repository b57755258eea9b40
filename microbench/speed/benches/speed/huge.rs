//! An allocator that asks for huge pages for what is large, so that other sets have them as the
//! table's windows do.

use core::alloc::{GlobalAlloc, Layout};
use std::alloc::System;

/// From here on memory is asked for in huge pages: two of them, the least that surely holds one.
const LARGE: usize = 2 * HUGE_PAGE;
const HUGE_PAGE: usize = 2 << 20;

/// The system's allocator, with huge pages for what is large.
pub(crate) struct Huge;

impl Huge {
    /// What is asked of the system: large memory begins on a huge page.
    fn layout(layout: Layout) -> Layout {
        if layout.size() < LARGE {
            return layout;
        }
        layout.align_to(HUGE_PAGE).unwrap_or(layout)
    }

    /// Advice that the kernel may leave alone, which the report then shows.
    fn advise(at: *mut u8, layout: Layout) {
        if !at.is_null() && layout.size() >= LARGE {
            let bytes = layout.size() / HUGE_PAGE * HUGE_PAGE;
            // SAFETY: the bytes were just allocated and begin on a page; the advice changes no
            // content.
            unsafe { libc::madvise(at.cast(), bytes, libc::MADV_HUGEPAGE) };
        }
    }
}

// SAFETY: every call goes to `System` with a layout that depends only on the caller's, at least as
// aligned, so that memory goes back as it was taken.
unsafe impl GlobalAlloc for Huge {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds `System`'s contract, which is the same.
        let at = unsafe { System.alloc(Self::layout(layout)) };
        Self::advise(at, layout);
        at
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() < LARGE {
            // SAFETY: as above.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // Zeroed only once it is advised: the first touch makes the pages.
        // SAFETY: as above.
        let at = unsafe { self.alloc(layout) };
        if !at.is_null() {
            // SAFETY: so many bytes were just allocated.
            unsafe { at.write_bytes(0, layout.size()) };
        }
        at
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, Self::layout(layout)) }
    }
}
