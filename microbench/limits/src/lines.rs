//! The 64-byte lines of some memory, and one of them by a random number.

use core::sync::atomic::AtomicU64;

use probeline_transport::{LINE_BYTES, LINE_WORDS};

type Line = [AtomicU64; LINE_WORDS as usize];

/// The whole lines of `words`: without those that it begins and ends in the middle of.
pub(crate) fn whole(words: &[AtomicU64]) -> &[Line] {
    let before = words.as_ptr().align_offset(LINE_BYTES);
    words.get(before..).unwrap_or_default().as_chunks().0
}

/// Where operations go.
pub(crate) trait Lines: Copy {
    /// The first word of some line; each equally likely where `random` is.
    fn pick(&self, random: u64) -> &AtomicU64;
}

impl Lines for &[Line] {
    #[inline(always)]
    fn pick(&self, random: u64) -> &AtomicU64 {
        &self[part(random, self.len())][0]
    }
}

/// Several parts with lines of each, a part as likely as another.
impl Lines for &[&[Line]] {
    #[inline(always)]
    fn pick(&self, random: u64) -> &AtomicU64 {
        // The bits that choose the part are the lowest, which hardly count for the line.
        self[part(random << 32, self.len())].pick(random)
    }
}

/// Where of `count` places a number of 64 bits falls.
#[inline(always)]
#[allow(clippy::cast_possible_truncation)]
fn part(random: u64, count: usize) -> usize {
    ((u128::from(random) * count as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::random::Random;

    /// Every line is picked about as often as any other, the first and the last too.
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
