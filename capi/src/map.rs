//! Maps: caches of values by keys.

use core::ffi::{c_int, c_void};
use core::ptr;

use probeline::map::{Config, Stats, Tag};

use crate::cache::{self, Access, Cache, MAX_KEY, MAX_VALUE, Write};
use crate::call::{call, out, product, put, room, slice};
use crate::handle::Handle;
use crate::job::{Shared, check_operations, probeline_job, shared};
use crate::options::{self, Extensible};
use crate::status::{Error, probeline_finished, probeline_outcome, probeline_status};

/// The kind of structure, in what ranks agree on.
const KIND: u64 = 2;

/// Options of a map. All ranks give the same.
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
    /// Entries for which the whole map has room: at this number it is half full and has lost 0.2 %.
    /// [default: 1,000,000]
    pub entries: u64,
    /// Buckets of each rank; 0 computes them from `entries`. [default: 0]
    pub buckets_per_rank: u64,
    /// Buckets in which a key may be, 1 to 8. [default: 6]
    pub candidates: u32,
    /// Operations in flight at once, 1 to 65,536. [default: 32]
    pub operations: u32,
    /// Eighths of a part's buckets that a rank writes until others take its unfinished write for that
    /// of a dead rank, 1 to 48. [default: 8]
    pub claim_ticks: u32,
    /// Whether an insert takes a roundtrip less and an overwrite one atomic more: 0 or 1.
    /// [default: 1]
    pub claims_with_read: c_int,
    /// Whether the CPU itself reads and writes the memory of all ranks where it can: 0 or 1.
    /// [default: 1]
    pub direct: c_int,
}

// SAFETY: repr(C); numbers, of which the first is the size.
unsafe impl Extensible for probeline_map_options {
    const DEFAULT: Self = Self {
        size: size_of::<Self>(),
        key_bytes: 0,
        value_bytes: 0,
        entries: 1_000_000,
        buckets_per_rank: 0,
        candidates: Config::new(1).candidates,
        operations: 32,
        claim_ticks: Config::new(1).claim_ticks as u32,
        claims_with_read: 1,
        direct: 1,
    };
}

/// What operations of this rank on a map have found and done since it was opened.
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
    pub looks: u64,
    /// The looks whose check failed, because other ranks wrote meanwhile.
    pub failed_checks: u64,
    /// Entries destroyed beyond updates and evictions.
    pub lost_entries: u64,
}

// SAFETY: repr(C); numbers, of which the first is the size.
unsafe impl Extensible for probeline_map_stats {
    const DEFAULT: Self = Self {
        size: size_of::<Self>(),
        hits: 0,
        misses: 0,
        busy: 0,
        inserts: 0,
        updates: 0,
        evictions: 0,
        drops: 0,
        present: 0,
        removes: 0,
        absent: 0,
        failed: 0,
        looks: 0,
        failed_checks: 0,
        lost_entries: 0,
    };
}

impl From<&Stats> for probeline_map_stats {
    fn from(stats: &Stats) -> Self {
        let Stats { hits, misses, busy, inserts, updates, evictions, drops, .. } = *stats;
        let Stats { present, removes, absent, failed, looks, failed_checks, .. } = *stats;
        Self {
            size: size_of::<Self>(),
            hits,
            misses,
            busy,
            inserts,
            updates,
            evictions,
            drops,
            present,
            removes,
            absent,
            failed,
            looks,
            failed_checks,
            lost_entries: stats.lost_entries,
        }
    }
}

/// A cache of values by keys, in the memory of all ranks.
pub struct probeline_map(Handle<Inner>);

pub(crate) struct Inner {
    pub(crate) cache: Box<dyn Cache>,
    pub(crate) job: Shared,
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
    /// Submitted operations, by the tag inside the map.
    submitted: Vec<Submitted>,
    /// Places in `submitted` that are free.
    free: Vec<usize>,
}

/// What the caller gave with a submitted operation.
#[derive(Clone, Copy)]
struct Submitted {
    tag: u64,
    /// Where the value of a get goes.
    value: *mut u8,
}

/// Get a value.
pub const PROBELINE_GET: c_int = 0;
/// Put a value, over an older one.
pub const PROBELINE_PUT: c_int = 1;
/// Put a value unless the key has one.
pub const PROBELINE_PUT_IF_ABSENT: c_int = 2;
/// Remove a key.
pub const PROBELINE_REMOVE: c_int = 3;

/// Returns what an operation writes; `None` for a get.
fn write_of(operation: c_int) -> Result<Option<Write>, Error> {
    match operation {
        PROBELINE_GET => Ok(None),
        PROBELINE_PUT => Ok(Some(Write::Put)),
        PROBELINE_PUT_IF_ABSENT => Ok(Some(Write::PutIfAbsent)),
        PROBELINE_REMOVE => Ok(Some(Write::Remove)),
        other => Err(Error::invalid(format_args!("a map has no operation {other}"))),
    }
}

fn check(options: &probeline_map_options) -> Result<Config, Error> {
    check_operations(options.operations)?;
    let sizes = [
        ("key_bytes", options.key_bytes, MAX_KEY),
        ("value_bytes", options.value_bytes, MAX_VALUE),
    ];
    for (what, found, most) in sizes {
        if !(1..=most).contains(&found) {
            return Err(Error::invalid(format_args!("{what} is {found}: give 1 to {most}")));
        }
    }
    let ticks = options.claim_ticks;
    let claim_ticks = u8::try_from(ticks);
    Ok(Config {
        candidates: options.candidates,
        claims_with_read: options.claims_with_read != 0,
        // The map names the range.
        claim_ticks: claim_ticks.unwrap_or(u8::MAX),
        direct: options.direct != 0,
        key_bytes: options.key_bytes,
        value_bytes: options.value_bytes,
        ..Config::new(options.buckets_per_rank)
    })
}

pub(crate) fn open(job: &Shared, options: &probeline_map_options) -> Result<Inner, Error> {
    let mut members = job.borrow_mut();
    let config = check(options);
    let (key_bytes, value_bytes) = (options.key_bytes, options.value_bytes);
    let sizes = (key_bytes as u64) << u32::BITS | value_bytes as u64;
    let buckets = options.buckets_per_rank.max(options.entries);
    members.agree(config.as_ref().ok().map(|_| [KIND, sizes, buckets]))?;
    let mut config = config?;
    if config.buckets_per_owner == 0 {
        config.buckets_per_owner =
            Config::for_entries(options.entries, members.owners()).buckets_per_owner;
    }
    let cache = cache::open(&mut members, config, options.operations)?;
    let operations = options.operations as usize;
    let submitted = vec![Submitted { tag: 0, value: ptr::null_mut() }; operations];
    let free = (0..operations).collect();
    Ok(Inner { cache, job: job.clone(), key_bytes, value_bytes, submitted, free })
}

impl Inner {
    /// Waits for all ranks, and closes the map.
    pub(crate) fn close(self) -> Result<(), Error> {
        let engine = self.cache.into_engine();
        let closed = self.job.borrow_mut().exchange().barrier();
        drop(engine);
        Ok(closed?)
    }

    /// Starts an operation.
    fn submit(&mut self, mine: Submitted, key: &[u8], access: Access<'_>) -> Result<(), Error> {
        let busy = probeline::map::OperationError::Busy;
        let place = *self.free.last().ok_or(busy)?;
        self.cache.submit(Tag(place as u64), key, access)?;
        self.free.pop();
        if let Some(submitted) = self.submitted.get_mut(place) {
            *submitted = mine;
        }
        Ok(())
    }

    /// Stores what has ended.
    ///
    /// # Safety
    /// The places given with gets that were submitted are valid for writes of a value.
    unsafe fn poll(
        &mut self,
        finished: &mut [core::mem::MaybeUninit<probeline_finished>],
    ) -> Result<usize, Error> {
        let Self { cache, submitted, free, value_bytes, .. } = self;
        let capacity = finished.len();
        let mut room = finished.iter_mut();
        let count = cache.poll(capacity, &mut |Tag(place), result, value| {
            // The map returns the tags that it was given.
            let place = usize::try_from(place).unwrap_or(usize::MAX);
            let Some(Submitted { tag, value: to }) = submitted.get(place).copied() else { return };
            free.push(place);
            if let Some(value) = value {
                debug_assert_eq!(value.len(), *value_bytes, "the map has values of one size");
                // SAFETY: by the contract; the value is as long as those of the map.
                unsafe { ptr::copy_nonoverlapping(value.as_ptr(), to, value.len()) };
            }
            let (status, outcome) = match result {
                Ok(outcome) => (probeline_status::PROBELINE_OK, outcome),
                Err(error) => (Error::from(error).report(), probeline_outcome::PROBELINE_ABSENT),
            };
            if let Some(to) = room.next() {
                to.write(probeline_finished { tag, status, outcome });
            }
        })?;
        Ok(count)
    }
}

/// Runs a call on a map.
///
/// # Safety
/// `map` is NULL or open.
unsafe fn with(
    map: *mut probeline_map,
    body: impl FnOnce(&mut Inner) -> Result<(), Error>,
) -> probeline_status {
    call(|| {
        // SAFETY: by the contract.
        let map = unsafe { map.as_ref() }.ok_or_else(|| Error::invalid("map is NULL"))?;
        map.0.with(body)
    })
}

/// Stores the default options and `size`, which is sizeof(probeline_map_options).
///
/// # Safety
/// `options` is NULL or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_map_options_init(
    options: *mut probeline_map_options,
    size: usize,
) -> probeline_status {
    // SAFETY: by the contract.
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
    call(|| {
        // SAFETY: by the contract.
        let (map, job, options) = unsafe {
            let options = options::read(options, "probeline_map_options_init")?;
            (out(map, "map")?, shared(job)?, options)
        };
        map.write(ptr::null_mut());
        let handle = probeline_map(Handle::new(open(&job, &options)?));
        map.write(Box::into_raw(Box::new(handle)));
        Ok(())
    })
}

/// Waits for all ranks, closes the map and frees it; `map` may be NULL. Collective.
///
/// # Safety
/// `map` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_map_close(map: *mut probeline_map) -> probeline_status {
    call(|| {
        // SAFETY: by the contract.
        let Some(handle) = (unsafe { map.as_ref() }) else { return Ok(()) };
        let inner = handle.0.take()?;
        // SAFETY: a box from `probeline_map_open`, which the caller does not use again.
        drop(unsafe { Box::from_raw(map) });
        inner.map_or(Ok(()), Inner::close)
    })
}

/// Stores the value of the key at `value`: PROBELINE_FOUND, or PROBELINE_ABSENT, which leaves `value`
/// as it is. A map may forget keys, but never returns a wrong value.
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
    let body = |map: &mut Inner| {
        // SAFETY: by the contract.
        let (key, value, outcome) = unsafe {
            let key = slice(key.cast::<u8>(), map.key_bytes, "key")?;
            (key, room(value.cast::<u8>(), map.value_bytes, "value")?, out(outcome, "outcome")?)
        };
        outcome.write(map.cache.get(key, value)?);
        Ok(())
    };
    // SAFETY: by the contract.
    unsafe { with(map, body) }
}

/// Runs a write.
///
/// # Safety
/// `map` is NULL or open, `key` is NULL or a key, `value` is NULL or a value, and `outcome` is NULL or
/// has room for an outcome.
unsafe fn write(
    map: *mut probeline_map,
    key: *const c_void,
    (write, value): (Write, *const c_void),
    outcome: *mut probeline_outcome,
) -> probeline_status {
    let body = |map: &mut Inner| {
        let bytes = if write == Write::Remove { 0 } else { map.value_bytes };
        // SAFETY: by the contract.
        let (key, value) = unsafe {
            let key = slice(key.cast::<u8>(), map.key_bytes, "key")?;
            (key, slice(value.cast::<u8>(), bytes, "value")?)
        };
        let result = map.cache.write(key, write, value)?;
        // SAFETY: by the contract.
        unsafe { put(outcome, result) };
        Ok(())
    };
    // SAFETY: by the contract.
    unsafe { with(map, body) }
}

/// Stores a value for the key, over an older one: PROBELINE_INSERTED, PROBELINE_UPDATED,
/// PROBELINE_EVICTED or PROBELINE_DROPPED. `outcome` may be NULL.
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
    // SAFETY: by the contract.
    unsafe { write(map, key, (Write::Put, value), outcome) }
}

/// As probeline_map_put(), but leaves an older value as it is: PROBELINE_FOUND.
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
    // SAFETY: by the contract.
    unsafe { write(map, key, (Write::PutIfAbsent, value), outcome) }
}

/// Removes the key: PROBELINE_REMOVED, PROBELINE_ABSENT or PROBELINE_DROPPED. `outcome` may be NULL.
///
/// # Safety
/// As for `probeline_map_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_map_remove(
    map: *mut probeline_map,
    key: *const c_void,
    outcome: *mut probeline_outcome,
) -> probeline_status {
    // SAFETY: by the contract.
    unsafe { write(map, key, (Write::Remove, ptr::null()), outcome) }
}

/// Gets the values of `count` keys, one after another in `keys`, and stores the outcome of each, as
/// many in flight as there is room for. Values of keys that are absent stay as they are. If it fails,
/// values and outcomes are undefined.
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
    let body = |map: &mut Inner| {
        let (key_bytes, value_bytes) =
            (product(count, map.key_bytes)?, product(count, map.value_bytes)?);
        // SAFETY: by the contract.
        let (keys, values, outcomes) = unsafe {
            let keys = slice(keys.cast::<u8>(), key_bytes, "keys")?;
            let values = room(values.cast::<u8>(), value_bytes, "values")?;
            (keys, values, room(outcomes, count, "outcomes")?)
        };
        map.cache.get_batch(keys, values, outcomes)
    };
    // SAFETY: by the contract.
    unsafe { with(map, body) }
}

/// Runs PROBELINE_PUT, PROBELINE_PUT_IF_ABSENT or PROBELINE_REMOVE for `count` keys, one after another
/// in `keys`, with the values in `values`, which may be NULL for PROBELINE_REMOVE. Stores the outcome
/// of each. If it fails, outcomes are undefined.
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
    let body = |map: &mut Inner| {
        let reads = || Error::invalid("PROBELINE_GET does not write: call probeline_map_get_batch");
        let write = write_of(operation)?.ok_or_else(reads)?;
        let each = if write == Write::Remove { 0 } else { map.value_bytes };
        let (key_bytes, value_bytes) = (product(count, map.key_bytes)?, product(count, each)?);
        // SAFETY: by the contract.
        let (keys, values, outcomes) = unsafe {
            let keys = slice(keys.cast::<u8>(), key_bytes, "keys")?;
            let values = slice(values.cast::<u8>(), value_bytes, "values")?;
            (keys, values, room(outcomes, count, "outcomes")?)
        };
        map.cache.write_batch(keys, write, values, outcomes)
    };
    // SAFETY: by the contract.
    unsafe { with(map, body) }
}

/// Starts PROBELINE_GET, which stores a value it finds at `value` during a poll. It is valid until
/// probeline_map_poll() has reported `tag`. Returns PROBELINE_ERROR_BUSY while as many operations are
/// in flight as the options say.
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
    let body = |map: &mut Inner| {
        let value: *mut u8 = value.cast();
        // SAFETY: by the contract.
        let key = unsafe { slice(key.cast::<u8>(), map.key_bytes, "key") }?;
        // SAFETY: nothing is written through it.
        unsafe { room(value, map.value_bytes, "value") }?;
        map.submit(Submitted { tag, value }, key, Access::Get)
    };
    // SAFETY: by the contract.
    unsafe { with(map, body) }
}

/// Starts PROBELINE_PUT, PROBELINE_PUT_IF_ABSENT or PROBELINE_REMOVE, which probeline_map_poll()
/// reports under `tag`. Key and value are copied; `value` may be NULL for PROBELINE_REMOVE. Returns
/// PROBELINE_ERROR_BUSY as probeline_map_submit_get() does.
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
    let body = |map: &mut Inner| {
        let reads =
            || Error::invalid("PROBELINE_GET does not write: call probeline_map_submit_get");
        let write = write_of(operation)?.ok_or_else(reads)?;
        let bytes = if write == Write::Remove { 0 } else { map.value_bytes };
        // SAFETY: by the contract.
        let (key, value) = unsafe {
            let key = slice(key.cast::<u8>(), map.key_bytes, "key")?;
            (key, slice(value.cast::<u8>(), bytes, "value")?)
        };
        let mine = Submitted { tag, value: ptr::null_mut() };
        map.submit(mine, key, Access::Write(write, value))
    };
    // SAFETY: by the contract.
    unsafe { with(map, body) }
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
    let body = |map: &mut Inner| {
        // SAFETY: by the contract.
        let (finished, count) =
            unsafe { (room(finished, capacity, "finished")?, out(count, "count")?) };
        count.write(0);
        // SAFETY: by the contract.
        count.write(unsafe { map.poll(finished) }?);
        Ok(())
    };
    // SAFETY: by the contract.
    unsafe { with(map, body) }
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
    let body = |map: &mut Inner| {
        let entries = map.cache.len(map.job.borrow_mut().exchange())?;
        // SAFETY: by the contract.
        unsafe { put(len, entries) };
        Ok(())
    };
    // SAFETY: by the contract.
    unsafe { with(map, body) }
}

/// Removes all entries from the whole map. Collective.
///
/// # Safety
/// `map` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_map_clear(map: *mut probeline_map) -> probeline_status {
    // SAFETY: by the contract.
    unsafe { with(map, |map| map.cache.clear(map.job.borrow_mut().exchange())) }
}

/// Lets every entry so far look older than those that follow, for evictions: call it after each step
/// of a simulation.
///
/// # Safety
/// `map` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_map_advance_age(map: *mut probeline_map) -> probeline_status {
    let body = |map: &mut Inner| {
        map.cache.advance_age();
        Ok(())
    };
    // SAFETY: by the contract.
    unsafe { with(map, body) }
}

/// Receives a key, its value, and the pointer given with the function. It must return: no longjmp, no
/// exception.
pub type probeline_map_visit =
    Option<unsafe extern "C" fn(key: *const c_void, value: *const c_void, context: *mut c_void)>;

/// Calls `visit` with every entry in this rank's part of the map. The result is exact between
/// barriers.
///
/// # Safety
/// `map` is NULL or open, and `visit` is NULL or may be called with entries and `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_map_for_each_local(
    map: *mut probeline_map,
    visit: probeline_map_visit,
    context: *mut c_void,
) -> probeline_status {
    let body = |map: &mut Inner| {
        let visit = visit.ok_or_else(|| Error::invalid("visit is NULL"))?;
        map.cache.for_each_local(&mut |key, value| {
            // SAFETY: by the contract.
            unsafe { visit(key.as_ptr().cast(), value.as_ptr().cast(), context) };
        })
    };
    // SAFETY: by the contract.
    unsafe { with(map, body) }
}

/// Stores the counters of this rank's operations in a structure of `size` bytes, which is
/// sizeof(probeline_map_stats).
///
/// # Safety
/// `map` is NULL or open, and `stats` is NULL or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_map_get_stats(
    map: *mut probeline_map,
    stats: *mut probeline_map_stats,
    size: usize,
) -> probeline_status {
    // SAFETY: by the contract.
    let body = |map: &mut Inner| unsafe { options::write(stats, size, &map.cache.stats().into()) };
    // SAFETY: by the contract.
    unsafe { with(map, body) }
}
