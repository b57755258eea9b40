//! The rate of reads of random lines of 64 bytes, without a table: what batches of finds cannot exceed.

use core::hash::{BuildHasher, Hasher};
use core::hint::black_box;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;
use core::time::Duration;
use std::hash::RandomState;
use std::time::Instant;

use probeline::transport::{LINE_BYTES, LINE_WORDS};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

type Line = [AtomicU64; LINE_WORDS as usize];

/// With fewer lines in a part, operations would access lines that are still in flight.
const MIN_LINES: usize = 1024;
/// Operations between two readings of the clock.
const BLOCK: usize = 1024;

/// Measures the whole lines of memory in several parts, such as the windows of several owners; each
/// part is equally likely. Returns the independent reads of random lines of this thread per second,
/// measured for `time`. `None` if a part has too few lines. Every page must have been written before,
/// because the kernel maps all other pages to one page of zeros.
pub(crate) fn reads_per_s(parts: &[&[AtomicU64]], time: Duration) -> Option<f64> {
    let parts: Vec<&[Line]> = parts.iter().map(|part| lines(part)).collect();
    if parts.iter().map(|part| part.len()).min()? < MIN_LINES {
        return None;
    }
    // Two ranks with the same sequence would fill each other's caches.
    let mut random = SmallRng::seed_from_u64(RandomState::new().build_hasher().finish());
    let mut pick = || {
        let number: u64 = random.random();
        // The low bits choose the part; they hardly affect the choice of the line.
        let part = parts[scale(number << 32, parts.len())];
        &part[scale(number, part.len())][0]
    };
    let start = Instant::now();
    let mut reads = 0.0;
    loop {
        let sum = (0..BLOCK).fold(0, |sum, _| sum ^ pick().load(Acquire));
        black_box(sum);
        reads += BLOCK as f64;
        let took = start.elapsed();
        if took >= time {
            return Some(reads / took.as_secs_f64().max(1e-9));
        }
    }
}

/// Returns the whole lines of `words`, without partial lines at its ends.
fn lines(words: &[AtomicU64]) -> &[Line] {
    let before = words.as_ptr().align_offset(LINE_BYTES);
    words.get(before..).unwrap_or_default().as_chunks().0
}

/// Maps a uniform 64-bit number to `0..count`.
#[allow(clippy::cast_possible_truncation)]
fn scale(number: u64, count: usize) -> usize {
    ((u128::from(number) * count as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_whole_lines() {
        let all: Vec<AtomicU64> = (0..1 << 16).map(AtomicU64::new).collect();
        // Only whole lines of these words are used, although the first one starts within a line.
        for from in 0..8 {
            let (one, other) = all[from..].split_at(1 << 15);
            let rate = reads_per_s(&[one, other], Duration::from_millis(1)).unwrap();
            assert!(rate.is_finite() && rate > 0.0, "{rate}");
        }
        assert_eq!(reads_per_s(&[&all, &all[..1000 * 8]], Duration::ZERO), None);
        assert_eq!(reads_per_s(&[], Duration::ZERO), None);
    }
}
