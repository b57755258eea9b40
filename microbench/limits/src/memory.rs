//! What one core does with some memory at best: random lines of it, read and swapped.
//!
//! Each operation goes to one random line of 64 bytes, no matter which, as a lookup in a large
//! hash table does. What a table does with the line comes on top.

mod tries;

use core::error::Error;
use core::fmt;
use core::sync::atomic::AtomicU64;
use core::time::Duration;

use probeline_transport::LINE_BYTES;

use crate::lines::{Lines, whole};
use tries::{Turns, dependent_reads, independent_reads, indexes};

/// Fewer lines would be the same ones again while they are still in flight.
const LEAST_LINES: usize = 1024;
/// The least memory that can be measured.
pub const LEAST_BYTES: usize = LEAST_LINES * LINE_BYTES;

/// Operations a second by the calling thread, each on a random line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// Computing where an operation goes, and nothing else. All others include it.
    pub indexes: f64,
    /// Reads of which each goes where the value of the one before says: a lookup that blocks.
    pub dependent_reads: f64,
    /// Reads that do not wait for each other, as many at once as the CPU finds by itself.
    pub independent_reads: f64,
    /// The same with prefetches: finds, many in flight.
    pub prefetched_reads: f64,
    /// With which prefetches those were fastest.
    pub prefetched_reads_by: Ahead,
    /// Compare-and-swaps, with prefetches.
    pub swaps: f64,
    /// With which prefetches those were fastest.
    pub swaps_by: Ahead,
    /// A read and then a compare-and-swap of the same word, with prefetches: inserts, many in
    /// flight.
    pub reads_then_swaps: f64,
    /// With which prefetches those were fastest.
    pub reads_then_swaps_by: Ahead,
}

/// Prefetches: each line is requested so many operations before its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// 8, 16, 32 or 64 lines.
    pub lines: u32,
    /// How they are requested.
    pub hint: Hint,
}

/// How a line is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Into the first cache, to be read (x86 PREFETCHT0, AArch64 PRFM PLDL1KEEP).
    Near,
    /// Into the second cache, to be read (x86 PREFETCHT1, AArch64 PRFM PLDL2KEEP).
    Far,
    /// To be written (x86 PREFETCHW, AArch64 PRFM PSTL1KEEP).
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryError {
    /// It has fewer whole lines than are needed.
    TooSmall {
        /// Lines found; of several parts in the smallest one.
        lines: usize,
        /// Lines needed.
        least: usize,
    },
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::TooSmall { lines, least } = self;
        write!(f, "{lines} lines of 64 bytes are too few to be measured: take {least} or more")
    }
}

impl Error for MemoryError {}

/// Measures the whole lines of `words`: five times for `per_measurement` and once for a tenth of
/// it, or a few milliseconds more where that is too short to do anything at all.
///
/// What the words hold stays as it is, even while others change them: a swap puts a value in the
/// place of the same value, which takes the line as any other swap does. Every page must have been
/// written before, as those of a `probeline_pin::Mapping` have, for all others are one page of zeroes.
///
/// # Errors
/// [`MemoryError::TooSmall`] for less than [`LEAST_BYTES`].
pub fn measure(words: &[AtomicU64], per_measurement: Duration) -> Result<Memory, MemoryError> {
    let lines = whole(words);
    enough(lines.len())?;
    Ok(all(lines, per_measurement))
}

/// As [`measure`], of memory in several parts, such as the windows of several owners. A line of
/// one part is as likely as one of another where they are of one size.
///
/// # Errors
/// [`MemoryError::TooSmall`] for a part of less than [`LEAST_BYTES`], or without parts.
pub fn measure_parts(
    parts: &[&[AtomicU64]],
    per_measurement: Duration,
) -> Result<Memory, MemoryError> {
    // To choose a part costs little, and nothing where there is no choice.
    if let [only] = parts {
        return measure(only, per_measurement);
    }
    let parts: Vec<_> = parts.iter().map(|part| whole(part)).collect();
    enough(parts.iter().map(|part| part.len()).min().unwrap_or(0))?;
    Ok(all(&*parts, per_measurement))
}

fn enough(lines: usize) -> Result<(), MemoryError> {
    if lines < LEAST_LINES {
        return Err(MemoryError::TooSmall { lines, least: LEAST_LINES });
    }
    Ok(())
}

/// Measures one limit after the other.
fn all<L: Lines>(lines: L, time: Duration) -> Memory {
    let mut turns = Turns::new();
    let indexes = turns.best(vec![indexes(lines)], time / 10);
    let dependent = turns.best(vec![dependent_reads(lines)], time);
    let independent = turns.best(vec![independent_reads(lines)], time);
    let reads = turns.best(tries::prefetched_reads(lines), time);
    let swaps = turns.best(tries::swaps(lines), time);
    let both = turns.best(tries::reads_then_swaps(lines), time);
    Memory {
        indexes: indexes.rate,
        dependent_reads: dependent.rate,
        independent_reads: independent.rate,
        prefetched_reads: reads.rate,
        prefetched_reads_by: reads.ahead,
        swaps: swaps.rate,
        swaps_by: swaps.ahead,
        reads_then_swaps: both.rate,
        reads_then_swaps_by: both.ahead,
    }
}

#[cfg(test)]
mod tests;
