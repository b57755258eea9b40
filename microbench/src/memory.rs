//! The rates of random accesses to memory, without a table: what batches of finds and inserts cannot
//! exceed.
//!
//! Each operation accesses one random line of 64 bytes, as a lookup in a large hash table does.

use core::hash::{BuildHasher, Hasher};
use core::hint::black_box;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire};
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
/// Lines that the CPU loads at once, before it swaps words of them: more than it has in flight.
const LOADED: usize = 32;

/// Measures the whole lines of memory in several parts, such as the windows of several owners; each
/// part is equally likely. Returns the operations per second of this thread: independent reads of
/// random lines, and reads with a compare-and-swap of the same word, each measured for `time`.
/// `None` if a part has too few lines.
///
/// The words keep their values, even if others change them meanwhile: a compare-and-swap replaces a
/// value by itself, which costs the same. Every page must have been written before, because the
/// kernel maps all other pages to one page of zeros.
pub(crate) fn rates(parts: &[&[AtomicU64]], time: Duration) -> Option<[f64; 2]> {
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
    let reads = rate(time, || {
        let sum = (0..BLOCK).fold(0, |sum, _| sum ^ pick().load(Acquire));
        black_box(sum);
    });
    let swaps = rate(time, || {
        for _ in 0..BLOCK / LOADED {
            let words: [&AtomicU64; LOADED] = core::array::from_fn(|_| pick());
            let values = words.map(|word| word.load(Acquire));
            for (word, value) in words.into_iter().zip(values) {
                let swapped = word.compare_exchange(value, value, AcqRel, Acquire);
                black_box(swapped.is_ok());
            }
        }
    });
    Some([reads, swaps])
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

/// Returns the operations per second of blocks.
fn rate(time: Duration, mut block: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut operations = 0.0;
    loop {
        block();
        operations += BLOCK as f64;
        let took = start.elapsed();
        if took >= time {
            return operations / took.as_secs_f64().max(1e-9);
        }
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn measures_rates_without_changing_words() {
        let value = |n: usize| if n.is_multiple_of(3) { 0 } else { n as u64 };
        let all: Vec<AtomicU64> = (0..1 << 16).map(|n| AtomicU64::new(value(n))).collect();
        // Only whole lines of these words are used, although the first one starts within a line.
        for from in 0..8 {
            let (one, other) = all[from..].split_at(1 << 15);
            let rates = rates(&[one, other], Duration::from_millis(1)).unwrap();
            assert!(rates.iter().all(|rate| rate.is_finite() && *rate > 0.0), "{rates:?}");
        }
        assert!(all.iter().enumerate().all(|(n, word)| word.load(Relaxed) == value(n)));
        assert_eq!(rates(&[&all, &all[..1000 * 8]], Duration::ZERO), None);
        assert_eq!(rates(&[], Duration::ZERO), None);
    }
}
