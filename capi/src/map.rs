//! Maps: caches of values by keys.

use core::ffi::{c_int, c_void};
use core::ptr;

use probeline::map::{Bytes, Config, Mode, Request, Stats};

use crate::cache::{self, Cache, MAX_KEY, MAX_VALUE};
use crate::call::call;
use crate::job::{Members, probeline_job};
use crate::operations::{Keyed, Sizes, optional, poll, run, submit};
use crate::options::Allowed::{Constants, Flag, Range};
use crate::options::{self, Extensible, MAX_KEYS, MAX_OPERATIONS, Options, from_counts, options};
use crate::status::{Error, probeline_finished, probeline_outcome, probeline_status};
use crate::structure::{self, Inner, Open, Pointee, with};

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

/// The modes in the order of their constants.
const MODES: [Mode; 4] = [Mode::Claims, Mode::PartLocks, Mode::BucketLocks, Mode::Unlocked];

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

/// A cache of values by keys, in the memory of all ranks.
pub struct probeline_map(());

pub(crate) type MapInner = Inner<probeline_map>;

impl Pointee for probeline_map {
    const NAME: &'static str = "map";
    const OWN_OPTIONS: &'static [&'static str] =
        &["operations", "claim_ticks", "claims_with_read", "direct"];
    type Options = probeline_map_options;
    type Structure = dyn Cache;

    fn plan(members: &mut Members, options: &Self::Options) -> Result<Open<dyn Cache>, Error> {
        let (operations, owners) = (options.operations, members.owners());
        let config = match options.buckets_per_rank {
            0 => Config::for_entries(options.entries, owners),
            buckets => Config::new(buckets),
        };
        members.check_depth(operations, config.sizes::<Bytes<1>, Bytes<1>>(operations).depth)?;
        let mode = usize::try_from(options.mode).ok().and_then(|mode| MODES.get(mode));
        let mode = mode.copied().unwrap_or_default();
        let config = Config {
            candidates: options.candidates,
            claims_with_read: options.claims_with_read != 0,
            // Checked.
            claim_ticks: u8::try_from(options.claim_ticks).unwrap_or(u8::MAX),
            direct: options.direct != 0,
            format: options.format,
            mode,
            key_bytes: options.key_bytes,
            value_bytes: options.value_bytes,
            ..config
        };
        Ok(Box::new(move |members| cache::open(members, config, operations)))
    }
}

/// Get a value.
pub const PROBELINE_GET: c_int = 0;
/// Put a value, over an older one.
pub const PROBELINE_PUT: c_int = 1;
/// Put a value unless the key has one.
pub const PROBELINE_PUT_IF_ABSENT: c_int = 2;
/// Remove a key.
pub const PROBELINE_REMOVE: c_int = 3;

/// Returns the request of an operation that writes; the program gets with the function `get`.
fn write_of(operation: c_int, get: &str) -> Result<Request<()>, Error> {
    match operation {
        PROBELINE_PUT => Ok(Request::Put(())),
        PROBELINE_PUT_IF_ABSENT => Ok(Request::PutIfAbsent(())),
        PROBELINE_REMOVE => Ok(Request::Remove),
        other => Err(Error::invalid(format_args!(
            "the operation is {other}: give PROBELINE_PUT, PROBELINE_PUT_IF_ABSENT or \
             PROBELINE_REMOVE, or call {get}"
        ))),
    }
}

impl Keyed for probeline_map {
    const VALUE: &'static str = "value";
    type Request = Request<()>;
    type Word = u8;

    #[inline(always)]
    fn sizes(options: &Self::Options, request: Request<()>) -> Result<Sizes, Error> {
        let operand = if request.value().is_some() { options.value_bytes } else { 0 };
        let result = if request == Request::Get { options.value_bytes } else { 0 };
        Ok(Sizes { key: options.key_bytes, operand, result, is_optional: false })
    }
}

/// Stores the default options and `size`, which is sizeof(probeline_map_options).
/// Never waits; any thread.
///
/// # Safety
/// `options` is NULL or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_map_options_init(
    options: *mut probeline_map_options,
    size: usize,
) -> probeline_status {
    // SAFETY: the program passes NULL or `size` bytes (# Safety).
    call(|| unsafe { options::write(options, size, &probeline_map_options::DEFAULT) })
}

/// Opens an empty map and stores its handle at `map`. The options must have sizes of keys and values.
/// Collective.
///
/// # Safety
/// `job` is NULL or open, `options` is NULL or initialized, and `map` is NULL or has room for a
/// pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_map_open(
    job: *mut probeline_job,
    options: *const probeline_map_options,
    map: *mut *mut probeline_map,
) -> probeline_status {
    // SAFETY: the program passes what this asks for (# Safety).
    unsafe { structure::open_for(job, options, map) }
}

/// Waits for all ranks, closes the map and frees it; `map` may be NULL. Collective.
///
/// # Safety
/// `map` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_map_close(map: *mut probeline_map) -> probeline_status {
    // SAFETY: the program passes NULL or an open map (# Safety).
    unsafe { structure::close(map) }
}

/// Stores the value of the key at `value`: PROBELINE_FOUND, or PROBELINE_ABSENT, which leaves `value`
/// as it is. A map may forget keys, but never returns a wrong value. Waits for its operation.
///
/// # Safety
/// `map` is NULL or open, `key` is NULL or a key, `value` is NULL or has room for a value, and
/// `outcome` is NULL or has room for an outcome.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_map_get(
    map: *mut probeline_map,
    key: *const c_void,
    value: *mut c_void,
    outcome: *mut probeline_outcome,
) -> probeline_status {
    // SAFETY: the program passes NULL or an open map, a key of its size, room for a value, and a place for an
    // outcome (# Safety).
    unsafe { run(map, Ok(Request::Get), (key.cast(), ptr::null(), value), 1, Some(outcome)) }
}

/// Stores a value for the key, over an older one: PROBELINE_INSERTED, PROBELINE_UPDATED,
/// PROBELINE_EVICTED or PROBELINE_DROPPED. `outcome` may be NULL. Waits for its operation.
///
/// # Safety
/// `map` is NULL or open, `key` is NULL or a key, `value` is NULL or a value, and `outcome` is NULL or
/// has room for an outcome.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_map_put(
    map: *mut probeline_map,
    key: *const c_void,
    value: *const c_void,
    outcome: *mut probeline_outcome,
) -> probeline_status {
    let pointers = (key.cast(), value, ptr::null_mut());
    // SAFETY: the program passes NULL or an open map, a key and a value of its sizes, and a place for an
    // outcome (# Safety).
    unsafe { run(map, Ok(Request::Put(())), pointers, 1, optional(outcome)) }
}

/// As probeline_map_put(), but leaves an older value as it is: PROBELINE_FOUND. Waits for its operation.
///
/// # Safety
/// As for `probeline_map_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_map_put_if_absent(
    map: *mut probeline_map,
    key: *const c_void,
    value: *const c_void,
    outcome: *mut probeline_outcome,
) -> probeline_status {
    let pointers = (key.cast(), value, ptr::null_mut());
    // SAFETY: the program passes NULL or an open map, a key and a value of its sizes, and a place for an
    // outcome (# Safety).
    unsafe { run(map, Ok(Request::PutIfAbsent(())), pointers, 1, optional(outcome)) }
}

/// Removes the key: PROBELINE_REMOVED, PROBELINE_ABSENT or PROBELINE_DROPPED. `outcome` may be NULL.
/// Waits for its operation.
///
/// # Safety
/// As for `probeline_map_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_map_remove(
    map: *mut probeline_map,
    key: *const c_void,
    outcome: *mut probeline_outcome,
) -> probeline_status {
    let pointers = (key.cast(), ptr::null(), ptr::null_mut());
    // SAFETY: the program passes NULL or an open map, a key of its size, and a place for an outcome
    // (# Safety).
    unsafe { run(map, Ok(Request::Remove), pointers, 1, optional(outcome)) }
}

/// Gets the values of `count` keys, one after another in `keys`, and stores the outcome of each, as
/// many in flight as there is room for. Values of keys that are absent stay as they are. If it fails,
/// values and outcomes are undefined. Waits for its operations.
///
/// # Safety
/// `map` is NULL or open, and the others are NULL or have `count` keys, values and outcomes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_map_get_batch(
    map: *mut probeline_map,
    keys: *const c_void,
    count: usize,
    values: *mut c_void,
    outcomes: *mut probeline_outcome,
) -> probeline_status {
    let pointers = (keys.cast(), ptr::null(), values);
    // SAFETY: the program passes NULL or an open map, `count` keys, room for values, and places for outcomes
    // (# Safety).
    unsafe { run(map, Ok(Request::Get), pointers, count, Some(outcomes)) }
}

/// Runs PROBELINE_PUT, PROBELINE_PUT_IF_ABSENT or PROBELINE_REMOVE for `count` keys, one after another
/// in `keys`, with the values in `values`, which may be NULL for PROBELINE_REMOVE. Stores the outcome
/// of each. If it fails, outcomes are undefined. Waits for its operations.
///
/// # Safety
/// `map` is NULL or open, and the others are NULL or have `count` keys, values and outcomes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_map_write_batch(
    map: *mut probeline_map,
    operation: c_int,
    keys: *const c_void,
    values: *const c_void,
    count: usize,
    outcomes: *mut probeline_outcome,
) -> probeline_status {
    let write = write_of(operation, "probeline_map_get_batch");
    let pointers = (keys.cast(), values, ptr::null_mut());
    // SAFETY: the program passes NULL or an open map, `count` keys and values, and places for outcomes
    // (# Safety).
    unsafe { run(map, write, pointers, count, Some(outcomes)) }
}

/// Starts PROBELINE_GET. If the key has a value, a poll stores it at `value`. The memory there must
/// stay valid until probeline_map_poll() has reported `tag`. Returns PROBELINE_ERROR_BUSY while as
/// many operations are in flight as the options say. The key is copied. Never waits.
///
/// # Safety
/// `map` is NULL or open, `key` is NULL or a key, and `value` is NULL or has room for a value until the
/// operation has ended or the map is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_map_submit_get(
    map: *mut probeline_map,
    tag: u64,
    key: *const c_void,
    value: *mut c_void,
) -> probeline_status {
    // SAFETY: the program passes NULL or an open map, a key of its size, and room for a value (# Safety).
    unsafe { submit(map, tag, Ok(Request::Get), (key.cast(), ptr::null(), value)) }
}

/// Starts PROBELINE_PUT, PROBELINE_PUT_IF_ABSENT or PROBELINE_REMOVE, which probeline_map_poll()
/// reports under `tag`. Key and value are copied; `value` may be NULL for PROBELINE_REMOVE. Returns
/// PROBELINE_ERROR_BUSY as probeline_map_submit_get() does. Never waits.
///
/// # Safety
/// `map` is NULL or open, `key` is NULL or a key, and `value` is NULL or a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_map_submit_write(
    map: *mut probeline_map,
    tag: u64,
    operation: c_int,
    key: *const c_void,
    value: *const c_void,
) -> probeline_status {
    let write = write_of(operation, "probeline_map_submit_get");
    // SAFETY: the program passes NULL or an open map, a key and a value of its sizes (# Safety).
    unsafe { submit(map, tag, write, (key.cast(), value, ptr::null_mut())) }
}

/// Makes progress, and stores at most `capacity` operations that have ended, and their number. Never
/// waits.
///
/// # Safety
/// `map` is NULL or open, `finished` is NULL or has room for `capacity` items, `count` is NULL or has
/// room for a number, and the values of submitted gets are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_map_poll(
    map: *mut probeline_map,
    finished: *mut probeline_finished,
    capacity: usize,
    count: *mut usize,
) -> probeline_status {
    // SAFETY: the program passes what this asks for (# Safety).
    unsafe { poll(map, finished, capacity, count) }
}

/// Stores the number of entries in the whole map. Collective.
///
/// # Safety
/// `map` is NULL or open, and `len` is NULL or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_map_len(
    map: *mut probeline_map,
    len: *mut u64,
) -> probeline_status {
    // SAFETY: the program passes NULL or an open map, and NULL or a place for a number (# Safety).
    unsafe { structure::len(map, len) }
}

/// Removes all entries from the whole map. Collective.
///
/// # Safety
/// `map` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_map_clear(map: *mut probeline_map) -> probeline_status {
    // SAFETY: the program passes NULL or an open map (# Safety).
    unsafe { structure::clear(map) }
}

/// Lets every entry so far look older than those that follow, for evictions: call it on every rank after each
/// step of a simulation. Never waits.
///
/// # Safety
/// `map` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_map_advance_age(map: *mut probeline_map) -> probeline_status {
    let body = |map: &mut MapInner| {
        map.structure.advance_age();
        Ok(())
    };
    // SAFETY: the program passes NULL or an open map (# Safety).
    unsafe { with(map, body) }
}

/// Receives a key, its value, and the pointer given with the function. It must return: no longjmp, no
/// exception.
pub type probeline_map_visit =
    Option<unsafe extern "C" fn(key: *const c_void, value: *const c_void, context: *mut c_void)>;

/// Calls `visit` with every entry in this rank's part of the map, in this thread. The result is exact
/// between barriers. Never waits.
///
/// # Safety
/// `map` is NULL or open, and `visit` is NULL or may be called with entries and `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_map_for_each_local(
    map: *mut probeline_map,
    visit: probeline_map_visit,
    context: *mut c_void,
) -> probeline_status {
    let body = |map: &mut MapInner| {
        let visit = visit.ok_or_else(|| Error::invalid("visit is NULL"))?;
        map.structure.for_each_local(&mut |key, value| {
            // SAFETY: the program passes a function that may be called with entries and `context`
            // (# Safety).
            unsafe { visit(key.as_ptr().cast(), value.as_ptr().cast(), context) };
        })
    };
    // SAFETY: the program passes NULL or an open map (# Safety).
    unsafe { with(map, body) }
}

/// Stores the counters of this rank's operations in a structure of `size` bytes, which is
/// sizeof(probeline_map_stats). Never waits.
///
/// # Safety
/// `map` is NULL or open, and `stats` is NULL or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_map_get_stats(
    map: *mut probeline_map,
    stats: *mut probeline_map_stats,
    size: usize,
) -> probeline_status {
    // SAFETY: the program passes NULL or an open map, and `stats`, NULL or of `size` bytes (# Safety).
    unsafe { with(map, |map| options::write(stats, size, &map.structure.stats().into())) }
}
