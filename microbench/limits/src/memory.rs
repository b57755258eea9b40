//! The fastest random accesses of one core to memory.
//!
//! Each operation accesses one random line of 64 bytes, as a lookup in a large hash table does. The
//! rates do not include the table's own work.

mod variants;

use core::fmt;
use core::sync::atomic::AtomicU64;
use core::time::Duration;

use probeline_transport::LINE_BYTES;
use thiserror::Error;

use crate::lines::{Line, Lines, whole};
use crate::random;
use variants::{Chosen, Schedule, dependent_reads};

/// With fewer lines, operations would access lines that are still in flight.
const MIN_LINES: usize = 1024;
/// The minimum memory that can be measured, in bytes.
pub const MIN_BYTES: usize = MIN_LINES * LINE_BYTES;

/// Keys that choose lines, a power of two: 4 MiB, more than a core's own caches.
const KEYS: usize = 1 << 19;

/// The rates of one thread, each on random lines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// Reads whose address depends on the value of the previous read: blocking lookups.
    pub dependent_reads: Rate,
    /// Independent reads with prefetches, of random lines: many finds in flight.
    pub prefetched_reads: Rate,
    /// The same with lines chosen by random keys that are read from memory in order, as the keys of
    /// a batch are.
    pub keyed_reads: Rate,
    /// A read and a compare-and-swap of the same word, with prefetches: many inserts in flight.
    pub reads_then_swaps: Rate,
    /// The same with lines chosen by keys that are read from memory.
    pub keyed_reads_then_swaps: Rate,
}

/// A rate of one kind of access.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Operations per second.
    pub per_second: f64,
    /// The fastest prefetches; `None` for accesses without prefetches.
    pub by: Option<Ahead>,
}

/// How lines are prefetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Operations between the prefetch of a line and its access: 8, 16, 32 or 64.
    pub lines: u32,
    /// The kind of prefetch.
    pub hint: Hint,
}

/// A kind of prefetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Into the first cache, for a load (x86 PREFETCHT0, AArch64 PRFM PLDL1KEEP).
    Near,
    /// Into the second cache, for a load (x86 PREFETCHT1, AArch64 PRFM PLDL2KEEP).
    Far,
    /// For a store (x86 PREFETCHW, AArch64 PRFM PSTL1KEEP).
    Write,
}

impl fmt::Display for Ahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hint = match self.hint {
            Hint::Near => "near",
            Hint::Far => "far",
            Hint::Write => "to write",
        };
        write!(f, "{} ahead, {hint}", self.lines)
    }
}

/// Why memory cannot be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MemoryError {
    /// The memory has too few whole lines.
    #[error("{lines} lines of 64 bytes are too few to be measured: {least} are needed")]
    TooSmall {
        /// Lines of the memory, or of the smallest of several parts.
        lines: usize,
        /// Lines needed.
        least: usize,
    },
}

/// Measures the whole lines of memory in several parts, such as the windows of several owners; each
/// part is equally likely. Measures five rates for `per_measurement` each, or a few milliseconds longer if
/// that is too short for a block of operations.
///
/// The words keep their values, even if others change them meanwhile: a compare-and-swap replaces a
/// value by itself, which costs the same. Every page must have been written before, as those of a
/// `probeline_pin::Mapping` have; the kernel maps all other pages to one page of zeros.
///
/// # Errors
/// [`MemoryError::TooSmall`] for a part of less than [`MIN_BYTES`], or without parts.
pub fn measure(parts: &[&[AtomicU64]], per_measurement: Duration) -> Result<Memory, MemoryError> {
    // With one part, omits the choice of a part, which takes some time.
    Ok(match whole_lines(parts)?[..] {
        [only] => all(only, per_measurement),
        ref parts => all(parts, per_measurement),
    })
}

/// As [`measure`], of only [`Memory::keyed_reads`] and [`Memory::keyed_reads_then_swaps`], the
/// limits of batched finds and inserts.
///
/// # Errors
/// As for [`measure`].
pub fn measure_keyed(
    parts: &[&[AtomicU64]],
    per_measurement: Duration,
) -> Result<[Rate; 2], MemoryError> {
    Ok(match whole_lines(parts)?[..] {
        [only] => keyed(only, per_measurement, &mut Schedule::new()),
        ref parts => keyed(parts, per_measurement, &mut Schedule::new()),
    })
}

fn whole_lines<'a>(parts: &[&'a [AtomicU64]]) -> Result<Vec<&'a [Line]>, MemoryError> {
    let parts: Vec<_> = parts.iter().map(|part| whole(part)).collect();
    let lines = parts.iter().map(|part| part.len()).min().unwrap_or(0);
    if lines < MIN_LINES {
        return Err(MemoryError::TooSmall { lines, least: MIN_LINES });
    }
    Ok(parts)
}

/// Measures the rates one after the other.
fn all<L: Lines>(lines: L, time: Duration) -> Memory {
    let mut schedule = Schedule::new();
    let dependent_reads = schedule.best(vec![dependent_reads(lines)], time);
    let reads = variants::prefetched_reads(lines, Chosen::AtRandom);
    let prefetched_reads = schedule.best(reads, time);
    let both = variants::reads_then_swaps(lines, Chosen::AtRandom);
    let reads_then_swaps = schedule.best(both, time);
    let [keyed_reads, keyed_reads_then_swaps] = keyed(lines, time, &mut schedule);
    Memory {
        dependent_reads,
        prefetched_reads,
        keyed_reads,
        reads_then_swaps,
        keyed_reads_then_swaps,
    }
}

fn keyed<L: Lines>(lines: L, time: Duration, schedule: &mut Schedule) -> [Rate; 2] {
    let keys = random::numbers(KEYS);
    let by_keys = Chosen::ByKeys(&keys);
    let reads = schedule.best(variants::prefetched_reads(lines, by_keys), time);
    let both = schedule.best(variants::reads_then_swaps(lines, by_keys), time);
    [reads, both]
}

#[cfg(test)]
mod tests;
