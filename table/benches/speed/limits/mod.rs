//! The fastest random accesses of one core to memory.
//!
//! Each operation accesses one random line of 64 bytes, as a lookup in a large hash table does. The
//! rates do not include the table's own work.

mod lines;
#[allow(unsafe_code)]
mod prefetch;
mod random;
mod variants;

use core::sync::atomic::AtomicU64;
use core::time::Duration;

use lines::{Line, Lines, whole};
use variants::{Chosen, Schedule, dependent_reads, prefetched_reads, reads_then_swaps};

use super::Result;

/// With fewer lines, operations would access lines that are still in flight.
const MIN_LINES: usize = 1024;
/// Keys that choose lines, a power of two: 4 MiB, more than a core's own caches.
const KEYS: usize = 1 << 19;

/// Measures the whole lines of memory in several parts, such as the windows of several owners; each
/// part is equally likely. Returns operations per second, each measured for `time`:
/// - reads whose address depends on the value of the previous read: blocking lookups;
/// - independent reads with prefetches, of lines chosen by random numbers, and by random keys that
///   are read from memory in order, as the keys of a batch are;
/// - a read and a compare-and-swap of the same word with prefetches, likewise.
///
/// The words keep their values: a compare-and-swap replaces a value by itself, which costs the same.
/// Every page must have been written before; the kernel maps all other pages to one page of zeros.
pub(crate) fn measure(parts: &[&[AtomicU64]], time: Duration) -> Result<[f64; 5]> {
    let parts: Vec<&[Line]> = parts.iter().map(|part| whole(part)).collect();
    if parts.iter().map(|part| part.len()).min().unwrap_or(0) < MIN_LINES {
        return Err("the windows are too small for the limits of their memory".into());
    }
    // With one part, omits the choice of a part, which takes some time.
    Ok(match parts[..] {
        [only] => all(only, time),
        ref parts => all(parts, time),
    })
}

fn all<L: Lines>(lines: L, time: Duration) -> [f64; 5] {
    let keys = random::numbers(KEYS);
    let mut schedule = Schedule::new();
    [
        vec![dependent_reads(lines)],
        prefetched_reads(lines, Chosen::AtRandom),
        prefetched_reads(lines, Chosen::ByKeys(&keys)),
        reads_then_swaps(lines, Chosen::AtRandom),
        reads_then_swaps(lines, Chosen::ByKeys(&keys)),
    ]
    .map(|variants| schedule.best(variants, time))
}
