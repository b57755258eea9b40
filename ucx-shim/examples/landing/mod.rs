//! Where a loop of bare calls lets data land: at the place in a page that the engine's slot has, so
//! that the same bytes are copied to the same alignment.

use probeline_transport::WORD_BYTES;

/// Words of the longest READ.
const WORDS: usize = 512;
/// Words in a page.
const PAGE_WORDS: usize = 4096 / WORD_BYTES;

/// Room for so many words from any word of the first page on.
#[repr(align(4096))]
struct Pages([u64; PAGE_WORDS + WORDS]);

/// Words that stay to the end of the process, as the library that they are given to does.
pub(crate) fn landing_like(slot: &[u64]) -> &'static mut [u64] {
    let first = slot.as_ptr().addr() / WORD_BYTES % PAGE_WORDS;
    let pages = Box::leak(Box::new(Pages([0; PAGE_WORDS + WORDS])));
    &mut pages.0[first..first + WORDS]
}
