//! The 64-byte lines of memory, and the choice of one by a random number.

use core::sync::atomic::AtomicU64;

use probeline_transport::{LINE_BYTES, LINE_WORDS};

pub(crate) type Line = [AtomicU64; LINE_WORDS as usize];

/// Returns the whole lines of `words`, without partial lines at its ends.
pub(crate) fn whole(words: &[AtomicU64]) -> &[Line] {
    let before = words.as_ptr().align_offset(LINE_BYTES);
    words.get(before..).unwrap_or_default().as_chunks().0
}

/// The lines that operations access.
pub(crate) trait Lines: Copy {
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

#[cfg(test)]
mod tests {
    use core::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::random::Random;

    /// All lines are picked about equally often.
    #[test]
    fn picks_cover_all_lines_of_all_parts() {
        let words: Vec<AtomicU64> = (0..8 * 3001).map(|_| AtomicU64::new(0)).collect();
        let lines = whole(&words);
        assert!(lines.len() >= 3000 && lines.as_ptr().addr().is_multiple_of(LINE_BYTES));
        let parts: Vec<&[Line]> = lines[..3000].chunks(1000).collect();
        let parts = &*parts;
        let mut random = Random::new(1);
        for _ in 0..3000 * 100 {
            let one = lines.pick(random.next());
            one.store(one.load(Relaxed) + 1, Relaxed);
            let other = Lines::pick(&parts, random.next());
            other.store(other.load(Relaxed) + 1, Relaxed);
        }
        for (at, line) in lines[..3000].iter().enumerate() {
            // 200 expected; 6 standard deviations of it are 85.
            let picked = line[0].load(Relaxed);
            assert!((115..285).contains(&picked), "{at}: {picked}");
            assert!(line[1..].iter().all(|word| word.load(Relaxed) == 0), "{at}");
        }
    }
}
