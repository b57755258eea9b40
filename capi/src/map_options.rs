//! Options and counters of maps.

use core::ffi::c_int;

use probeline::map::{Config, Mode, Stats};

use crate::cache::{MAX_KEY, MAX_VALUE};
use crate::options::Allowed::{Constants, Flag, Range};
use crate::options::{Extensible, MAX_KEYS, MAX_OPERATIONS, from_counts, options};

/// Ranks that write claim a bucket first: no rank waits for one that has died. The default.
pub const PROBELINE_MODE_CLAIMS: c_int = 0;
/// A lock for each rank's part, for comparison.
pub const PROBELINE_MODE_PART_LOCKS: c_int = 1;
/// A lock for each bucket, for comparison.
pub const PROBELINE_MODE_BUCKET_LOCKS: c_int = 2;
/// No lock and no claim: a put takes two roundtrips. Of two puts into one bucket at the same time one
/// may be lost, or both; puts of one key may leave it in two buckets, and a get then may return the
/// older value. It never returns the value of another key, or parts of two values.
pub const PROBELINE_MODE_UNLOCKED: c_int = 3;

/// Returns the mode of an option, which was checked.
pub(crate) fn mode_of(option: c_int) -> Mode {
    match option {
        PROBELINE_MODE_PART_LOCKS => Mode::PartLocks,
        PROBELINE_MODE_BUCKET_LOCKS => Mode::BucketLocks,
        PROBELINE_MODE_UNLOCKED => Mode::Unlocked,
        _ => Mode::Claims,
    }
}

/// Options of a map. `operations`, `claim_ticks`, `claims_with_read` and `direct` may differ between
/// ranks.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct probeline_map_options {
    /// The size of this structure, which probeline_map_options_init() stores.
    pub size: usize,
    /// Bytes of a key, 1 to 1024. Keys are equal if their bytes are, so padding must be 0. [no
    /// default]
    pub key_bytes: usize,
    /// Bytes of a value, 1 to 8192. [no default]
    pub value_bytes: usize,
    /// Entries for which the whole map has room, 1 to 2^48: at this number it is half full and has lost
    /// 0.2 %. [default: 1,000,000]
    pub entries: u64,
    /// Buckets of each rank, up to 2^48; 0 computes them from `entries`, which is unused otherwise.
    /// [default: 0]
    pub buckets_per_rank: u64,
    /// Buckets in which a key may be, 1 to 8. [default: 6]
    pub candidates: u32,
    /// Operations in flight at once, 1 to 65,536; over UCX at most 32,768 and over verbs 8,192. A device
    /// may have less. [default: 32]
    pub operations: u32,
    /// Ticks after which other ranks take over an unfinished write, because its rank seems dead, 1
    /// to 24. A tick is a number of writes of one rank: an eighth of the buckets of a part, but at
    /// least 1,024. [default: 8]
    pub claim_ticks: u32,
    /// Whether an insert takes a roundtrip less and an overwrite one atomic more: 0 or 1.
    /// [default: 1]
    pub claims_with_read: c_int,
    /// Whether the CPU itself reads and writes the memory of all ranks where it can: 0 or 1.
    /// [default: 1]
    pub direct: c_int,
    /// A number for what the bytes of keys and values mean, of your choice. All ranks give the same,
    /// and probeline_map_load() refuses a file that was saved with another one. [default: 0]
    pub format: u64,
    /// PROBELINE_MODE_..., how ranks that use a bucket at the same time are synchronized. In all but
    /// the default, the CPU does not access the memory of all ranks itself.
    /// [default: PROBELINE_MODE_CLAIMS]
    pub mode: c_int,
}

// SAFETY: repr(C); numbers, of which the first is the size.
unsafe impl Extensible for probeline_map_options {}

options!(probeline_map_options |options|
    key_bytes = 0, Range(1, MAX_KEY as u64);
    value_bytes = 0, Range(1, MAX_VALUE as u64);
    // One of the two numbers of buckets is not 0.
    entries = 1_000_000, Range(i64::from(options.buckets_per_rank == 0), MAX_KEYS);
    buckets_per_rank = 0, Range(0, MAX_KEYS);
    candidates = Config::new(1).candidates, Range(1, 8);
    operations = 32, Range(1, MAX_OPERATIONS);
    claim_ticks = Config::new(1).claim_ticks as u32, Range(1, 24);
    claims_with_read = 1, Flag;
    direct = 1, Flag;
    format = 0, Range(0, u64::MAX);
    mode = PROBELINE_MODE_CLAIMS, Constants(&[
        "PROBELINE_MODE_CLAIMS",
        "PROBELINE_MODE_PART_LOCKS",
        "PROBELINE_MODE_BUCKET_LOCKS",
        "PROBELINE_MODE_UNLOCKED",
    ]);
);

/// Counts of operations of this rank on a map since it was opened.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct probeline_map_stats {
    /// The size of this structure.
    pub size: usize,
    /// Gets that found the key.
    pub hits: u64,
    /// Gets that did not.
    pub misses: u64,
    /// The misses that gave up because other ranks write at the same place.
    pub busy: u64,
    /// Puts of new keys.
    pub inserts: u64,
    /// Puts over an older value.
    pub updates: u64,
    /// Puts in place of another key.
    pub evictions: u64,
    /// Puts that stored nothing.
    pub drops: u64,
    /// Puts-if-absent that found the key.
    pub present: u64,
    /// Removes that removed the key.
    pub removes: u64,
    /// Removes that did not.
    pub absent: u64,
    /// Operations that failed.
    pub failed: u64,
    /// Looks at buckets.
    pub bucket_reads: u64,
    /// The bucket reads whose check failed, because other ranks wrote meanwhile.
    pub failed_checks: u64,
    /// Entries destroyed beyond updates and evictions.
    pub lost_entries: u64,
}

// SAFETY: repr(C); numbers, of which the first is the size.
unsafe impl Extensible for probeline_map_stats {}

from_counts!(&Stats => probeline_map_stats {
    hits, misses, busy, inserts, updates, evictions, drops, present, removes, absent, failed,
    bucket_reads, failed_checks, lost_entries
});
