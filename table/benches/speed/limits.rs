//! The fastest random accesses of one core to memory.
//!
//! Each operation accesses one random line of 64 bytes, as a lookup in a large hash table does. The
//! rates do not include the table's own work.

use core::array;
use core::hash::BuildHasher;
use core::hint::black_box;
use core::mem;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire};
use core::time::Duration;
use std::hash::RandomState;
use std::time::Instant;

use probeline_transport::{LINE_WORDS, prefetch_far};

/// Operations between two readings of the clock: a multiple of all prefetch distances.
const BLOCK: usize = 1024;

/// Measures random lines of memory in several parts, such as the windows of several owners. Returns
/// operations per second, each measured for `time`:
/// - reads whose address depends on the value of the previous read: blocking lookups;
/// - independent reads with prefetches, and a read and a compare-and-swap of the same word with
///   prefetches: at the fastest of three distances, each of which has a third of the time.
///
/// The words keep their values: a compare-and-swap replaces a value by itself, which costs the same.
/// Every page must have been written before; the kernel maps all other pages to one page of zeros.
pub(crate) fn measure(parts: &[&[AtomicU64]], time: Duration) -> [f64; 3] {
    let third = time / 3;
    let best = |rates: [f64; 3]| rates.into_iter().fold(0.0, f64::max);
    [
        dependent_reads(parts, time),
        best([
            prefetched::<16>(parts, load, third),
            prefetched::<32>(parts, load, third),
            prefetched::<64>(parts, load, third),
        ]),
        best([
            prefetched::<16>(parts, read_then_swap, third),
            prefetched::<32>(parts, read_then_swap, third),
            prefetched::<64>(parts, read_then_swap, third),
        ]),
    ]
}

/// Executes blocks of operations for `time`, at least one; returns operations per second.
fn rate(time: Duration, mut block: impl FnMut() -> u64) -> f64 {
    let (start, mut blocks) = (Instant::now(), 0.0);
    loop {
        black_box(block());
        blocks += 1.0;
        let elapsed = start.elapsed();
        if elapsed >= time {
            return blocks * BLOCK as f64 / elapsed.as_secs_f64();
        }
    }
}

/// Returns the first word of a line. If `random` is uniform, each part and each line is equally likely.
#[inline(always)]
fn pick<'a>(parts: &[&'a [AtomicU64]], random: u64) -> &'a AtomicU64 {
    // The low bits choose the part; they hardly affect the choice of the line.
    let part = if let [only] = parts { only } else { parts[scale(random << 32, parts.len())] };
    let line = LINE_WORDS as usize;
    &part[line * scale(random, part.len() / line)]
}

/// Maps a uniform 64-bit number to `0..count`.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "below `count`")]
fn scale(random: u64, count: usize) -> usize {
    ((u128::from(random) * count as u128) >> 64) as usize
}

/// A sequence of numbers, each of which depends on the previous one by an addition only, so that
/// the CPU computes many in parallel.
struct Random(u64);

impl Random {
    /// Seeds the sequence: two cores with the same one would fill each other's caches.
    fn with_random_seed() -> Self {
        Self(RandomState::new().hash_one(0))
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the halves of a product")]
    fn next(&mut self) -> u64 {
        // Odd, without a pattern of bits: the fractions of the golden ratio and of the root of 3.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let product = u128::from(self.0) * u128::from(self.0 ^ 0xbb67_ae85_84ca_a73b);
        (product as u64) ^ (product >> 64) as u64
    }
}

fn dependent_reads(parts: &[&[AtomicU64]], time: Duration) -> f64 {
    let (mut random, mut value) = (Random::with_random_seed(), 0);
    rate(time, || {
        for _ in 0..BLOCK {
            value = load(pick(parts, random.next().wrapping_add(value)));
        }
        value
    })
}

/// Prefetches one line and executes the operation on the line prefetched `AHEAD` lines before.
fn prefetched<const AHEAD: usize>(
    parts: &[&[AtomicU64]],
    operation: impl Fn(&AtomicU64) -> u64,
    time: Duration,
) -> f64 {
    let mut random = Random::with_random_seed();
    // Stores random numbers, not addresses: computing an address is faster than loading it.
    let mut coming: [u64; AHEAD] = array::from_fn(|_| random.next());
    rate(time, || {
        let mut sum = 0;
        for _ in 0..BLOCK / AHEAD {
            for place in &mut coming {
                let next = random.next();
                prefetch_far(core::slice::from_ref(pick(parts, next)));
                sum ^= operation(pick(parts, mem::replace(place, next)));
            }
        }
        sum
    })
}

#[inline(always)]
fn load(word: &AtomicU64) -> u64 {
    word.load(Acquire)
}

#[inline(always)]
fn read_then_swap(word: &AtomicU64) -> u64 {
    let value = load(word);
    let (Ok(found) | Err(found)) = word.compare_exchange(value, value, AcqRel, Acquire);
    found
}
