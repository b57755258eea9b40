//! The 64-byte lines of memory, and the choice of one by a random number.

use core::sync::atomic::AtomicU64;

use probeline_transport::{LINE_BYTES, LINE_WORDS};

pub(super) type Line = [AtomicU64; LINE_WORDS as usize];

/// Returns the whole lines of `words`, without partial lines at its ends.
pub(super) fn whole(words: &[AtomicU64]) -> &[Line] {
    let before = words.as_ptr().align_offset(LINE_BYTES);
    words.get(before..).unwrap_or_default().as_chunks().0
}

/// The lines that operations access.
pub(super) trait Lines: Copy {
    /// Returns the first word of a line. If `random` is uniform, each line is equally likely.
    fn pick(&self, random: u64) -> &AtomicU64;
}

impl Lines for &[Line] {
    #[inline(always)]
    fn pick(&self, random: u64) -> &AtomicU64 {
        &self[scale(random, self.len())][0]
    }
}

/// Lines of several parts; each part is equally likely.
impl Lines for &[&[Line]] {
    #[inline(always)]
    fn pick(&self, random: u64) -> &AtomicU64 {
        // The low bits choose the part; they hardly affect the choice of the line.
        self[scale(random << 32, self.len())].pick(random)
    }
}

/// Maps a uniform 64-bit number to `0..count`.
#[inline(always)]
#[allow(clippy::cast_possible_truncation)]
fn scale(random: u64, count: usize) -> usize {
    ((u128::from(random) * count as u128) >> 64) as usize
}
