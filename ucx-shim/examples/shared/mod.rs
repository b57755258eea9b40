//! Code that the latency programs share.

use core::error::Error;

use probeline_transport::WORD_BYTES;

pub(crate) type Result<T> = core::result::Result<T, Box<dyn Error>>;

/// The number of words of the longest READ.
pub(crate) const MAX_WORDS: u32 = 512;
/// The number of words of a page.
const PAGE_WORDS: usize = 4096 / WORD_BYTES;

/// A measured operation.
#[derive(Clone, Copy)]
pub(crate) enum Operation {
    /// A READ of this number of words.
    Read(u32),
    CompareAndSwap,
    FetchAdd,
}

impl Operation {
    pub(crate) const ALL: [Self; 5] =
        [Self::Read(1), Self::Read(8), Self::Read(MAX_WORDS), Self::CompareAndSwap, Self::FetchAdd];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Read(1) => "READ 8 B",
            Self::Read(8) => "READ 64 B",
            Self::Read(_) => "READ 4 KiB",
            Self::CompareAndSwap => "CAS",
            Self::FetchAdd => "FAA",
        }
    }
}

pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Pages that hold the longest READ from any word of the first page on.
#[repr(align(4096))]
struct Pages([u64; PAGE_WORDS + MAX_WORDS as usize]);

/// A buffer for a loop of bare calls, at the same offset in a page as `slot` of the engine, so that
/// both copy to the same alignment. It lives until the process ends, as the library that writes to
/// it.
pub(crate) fn buffer_like(slot: &[u64]) -> &'static mut [u64] {
    let first = slot.as_ptr().addr() / WORD_BYTES % PAGE_WORDS;
    let pages = Box::leak(Box::new(Pages([0; PAGE_WORDS + MAX_WORDS as usize])));
    &mut pages.0[first..first + MAX_WORDS as usize]
}
