//! Private memory that the library reads and writes: slots, requests, results of atomics.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::fence;
use std::alloc::{alloc_zeroed, dealloc};

use probeline_transport::LINE_BYTES;

/// Zeroed words at an address that stays, reached by pointers only.
#[derive(Debug)]
pub(super) struct Memory {
    first: NonNull<u64>,
    words: usize,
    layout: Layout,
}

impl Memory {
    /// At least one word; `None` if memory lacks.
    pub(super) fn new(words: usize) -> Option<Self> {
        let layout = Layout::array::<u64>(words.max(1)).ok()?.align_to(LINE_BYTES).ok()?;
        // SAFETY: the layout is of one word at least.
        let first = NonNull::new(unsafe { alloc_zeroed(layout) })?.cast::<u64>();
        Some(Self { first, words, layout })
    }

    pub(super) fn first(&self) -> NonNull<u64> {
        self.first
    }

    pub(super) fn len(&self) -> usize {
        self.words
    }

    /// The word `index`, from which on `words` are used; `None` unless all of them are there.
    #[inline]
    pub(super) fn at(&self, index: usize, words: usize) -> Option<NonNull<u64>> {
        let end = index.checked_add(words)?;
        // SAFETY: within the allocation, or at its end.
        (end <= self.words).then(|| unsafe { self.first.add(index) })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout. Whoever handed pointers to the library has
        // ended its use of them before.
        unsafe { dealloc(self.first.as_ptr().cast(), self.layout) };
    }
}

/// Where UCX has stored by this CPU: out of the store buffer before anything posted later loads.
#[inline]
pub(super) fn publish() {
    fence(SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_aligned_and_bounded() {
        let memory = Memory::new(20).unwrap();
        assert_eq!(memory.first().addr().get() % 64, 0);
        assert!(memory.at(0, 20).is_some() && memory.at(20, 0).is_some());
        assert!(memory.at(1, 20).is_none() && memory.at(usize::MAX, 2).is_none());
        assert!(Memory::new(usize::MAX / 8).is_none());
    }
}
