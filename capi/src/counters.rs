//! Counters: counts by key.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;

use probeline::containers::counters::{self, Action, Config, MAX_KEY_BITS, Operation, Outcome};
use probeline::containers::{OperationError, Plain};
use probeline::pipeline::Tag;

use crate::call::{call, put, room, slice};
use crate::job::{Members, probeline_job};
use crate::operations::{Keyed, Sizes, Started, Submit, ToC, poll, submit};
use crate::options::Allowed::{Flag, Range};
use crate::options::{self, Extensible, MAX_KEYS, MAX_OPERATIONS, Options, options};
use crate::status::{Error, probeline_finished, probeline_outcome, probeline_status};
use crate::structure::{self, Engine, Inner, Open, Pointee, Typed, result, with};

/// Options of counters. `operations` and `direct` may differ between ranks.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct probeline_counters_options {
    /// The size of this structure, which probeline_counters_options_init() stores.
    pub size: usize,
    /// Keys for which there is room on all ranks together, 1 to 2^48: at this number three quarters of it
    /// are in use. [default: 1,000,000]
    pub keys: u64,
    /// Bits of a key, 1 to 62. A word holds key and count: a count has 57 + floor(log2(words / 8)) - key_bits
    /// bits, at most 57. With the defaults, counts stay at 4,095. [default: 62]
    pub key_bits: u32,
    /// Operations of a batch in flight at once, 1 to 65,536; over verbs at most 16,384. A device may have
    /// less. [default: 32]
    pub operations: u32,
    /// Whether the CPU itself reads and writes the memory of all ranks where it can: 0 or 1.
    /// [default: 1]
    pub direct: c_int,
}

// SAFETY: repr(C); numbers, of which the first is the size.
unsafe impl Extensible for probeline_counters_options {}

options!(probeline_counters_options |_|
    keys = 1_000_000, Range(1, MAX_KEYS);
    key_bits = MAX_KEY_BITS, Range(1, MAX_KEY_BITS.into());
    operations = 32, Range(1, MAX_OPERATIONS);
    direct = 1, Flag;
);

/// Counters in the memory of all ranks.
pub struct probeline_counters(());

type Opened = counters::Counters<Engine, Vec<Operation>>;

impl ToC for Outcome {
    fn to_c(&self) -> (probeline_outcome, Option<&[u8]>) {
        match self {
            Self::Was(count) => (probeline_outcome::PROBELINE_FOUND, Some(count.bytes())),
            Self::New => (probeline_outcome::PROBELINE_ABSENT, Some(0_u64.bytes())),
            // Only keys of two words are unfinished.
            Self::Full | Self::Unfinished => (probeline_outcome::PROBELINE_FULL, None),
        }
    }
}

impl Pointee for probeline_counters {
    const NAME: &'static str = "counters";
    type Options = probeline_counters_options;
    type Structure = Typed<Opened>;

    fn plan(members: &mut Members, options: &Self::Options) -> Result<Open<Typed<Opened>>, Error> {
        let &probeline_counters_options { keys, key_bits, operations, .. } = options;
        members.check_depth(operations, operations)?;
        let config = Config { direct: options.direct != 0, ..Config::for_keys(keys, key_bits) };
        if config.max_count() == 0 {
            return Err(Error::invalid(format_args!(
                "key_bits is {key_bits}, which leaves no bits for counts: give fewer, or more keys"
            )));
        }
        let sizes = (config.sizes(members.owners(), operations), operations);
        Ok(Box::new(move |members| {
            let counters = structure::open(members, sizes, config, Opened::open)?;
            Ok(Typed::new(counters, (), operations))
        }))
    }
}

impl Keyed for probeline_counters {
    type Request = Action;
    type Word = u64;

    fn sizes(_: &Self::Options, _: Action) -> Result<Sizes, Error> {
        Ok(Sizes { key: 1, operand: 0, result: size_of::<u64>(), is_optional: true })
    }
}

impl Submit<probeline_counters> for Typed<Opened> {
    fn submit(&mut self, tag: Tag, action: Action, key: &[u64], _: &[u8]) -> Started {
        self.front.submit(tag, &key[0], action)
    }
}

/// Checks the keys of a batch.
fn check(options: &probeline_counters_options, keys: &[u64]) -> Result<(), Error> {
    let max = options.key_bits;
    let bits = |key: &u64| u64::BITS - key.leading_zeros();
    let invalid = keys.iter().find(|key| **key >> max != 0);
    invalid.map_or(Ok(()), |key| Err(OperationError::Key { bits: bits(key), max }.into()))
}

/// Stores the default options and `size`, which is sizeof(probeline_counters_options).
/// Never waits; any thread.
///
/// # Safety
/// `options` is NULL or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_counters_options_init(
    options: *mut probeline_counters_options,
    size: usize,
) -> probeline_status {
    // SAFETY: the program passes NULL or `size` bytes (# Safety).
    call(|| unsafe { options::write(options, size, &probeline_counters_options::DEFAULT) })
}

/// Opens counters without keys and stores their handle at `counters`. `options` may be NULL, for the
/// defaults. Collective.
///
/// # Safety
/// `job` is NULL or open, `options` is NULL or initialized, and `counters` is NULL or has room for a
/// pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_counters_open(
    job: *mut probeline_job,
    options: *const probeline_counters_options,
    counters: *mut *mut probeline_counters,
) -> probeline_status {
    // SAFETY: the program passes what this asks for (# Safety).
    unsafe { structure::open_for(job, options, counters) }
}

/// Waits for all ranks, closes the counters and frees them; `counters` may be NULL. Collective.
///
/// # Safety
/// `counters` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_counters_close(
    counters: *mut probeline_counters,
) -> probeline_status {
    // SAFETY: the program passes NULL or open counters (# Safety).
    unsafe { structure::close(counters) }
}

/// Adds to the count of a key, at most up to the largest count, and stores the count before at `before`, which may
/// be NULL: 0 for a key that had none. Stores 1 at `full` if there is no room for the key, and nothing was
/// counted, or else 0. Returns PROBELINE_ERROR_CONTENDED if other adds were faster 64 times. Waits for its
/// operation.
///
/// # Safety
/// `counters` is NULL or open, and `before` and `full` are NULL or have room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_counters_add(
    counters: *mut probeline_counters,
    key: u64,
    addend: u64,
    before: *mut u64,
    full: *mut u64,
) -> probeline_status {
    let add = |inner: &mut Inner<probeline_counters>| {
        let outcome = inner.structure.front.add(key, addend)?;
        // SAFETY: the program passes NULL or a place for a number (# Safety).
        unsafe { put(before, outcome.count()) };
        Ok(u64::from(outcome == Outcome::Full))
    };
    // SAFETY: the program passes NULL or open counters, and NULL or a place for a number (# Safety).
    unsafe { result(counters, (full, "full"), add) }
}

/// Stores the count of a key at `count`: 0 if it has none. Waits for its operation.
///
/// # Safety
/// `counters` is NULL or open, and `count` is NULL or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_counters_get(
    counters: *mut probeline_counters,
    key: u64,
    count: *mut u64,
) -> probeline_status {
    // SAFETY: the program passes NULL or open counters, and NULL or a place for a number (# Safety).
    unsafe { result(counters, (count, "count"), |inner| Ok(inner.structure.front.get(key)?)) }
}

/// Adds 1 to the counts of `count` keys, with as many in flight as the options allow, and stores at `full`
/// how many found no room: they have no count. If it fails, some are counted. Waits for its operations.
///
/// # Safety
/// `counters` is NULL or open, `keys` is NULL or has `count` numbers, and `full` is NULL or has room for a
/// number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_counters_add_batch(
    counters: *mut probeline_counters,
    keys: *const u64,
    count: usize,
    full: *mut u64,
) -> probeline_status {
    let add = |inner: &mut Inner<probeline_counters>| {
        // SAFETY: the program passes NULL or `count` keys (# Safety).
        let keys = unsafe { slice(keys, count, "keys") }?;
        check(&inner.options, keys)?;
        Ok(inner.structure.front.add_batch(keys)?)
    };
    // SAFETY: the program passes NULL or open counters, and NULL or a place for a number (# Safety).
    unsafe { result(counters, (full, "full"), add) }
}

/// Gets the counts of `count` keys, with as many in flight as the options allow, and stores them in
/// `counts`. If it fails, they are undefined. Waits for its operations.
///
/// # Safety
/// `counters` is NULL or open, `keys` is NULL or has `count` numbers, and `counts` is NULL or has room for
/// as many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_counters_get_batch(
    counters: *mut probeline_counters,
    keys: *const u64,
    count: usize,
    counts: *mut u64,
) -> probeline_status {
    let body = |Inner { structure, options, .. }: &mut Inner<probeline_counters>| {
        // SAFETY: the program passes NULL or `count` keys and places for their counts (# Safety).
        let (keys, counts) =
            unsafe { (slice(keys, count, "keys")?, room(counts, count, "counts")?) };
        check(options, keys)?;
        counts.fill(MaybeUninit::new(0));
        // SAFETY: all were just written.
        Ok(structure.front.get_batch(keys, unsafe { counts.assume_init_mut() })?)
    };
    // SAFETY: the program passes NULL or open counters (# Safety).
    unsafe { with(counters, body) }
}

/// Starts to add to the count of a key. A poll stores the count before at `before`, which may be NULL; the memory
/// there must stay valid until probeline_counters_poll() has reported `tag`. Returns PROBELINE_ERROR_BUSY while as
/// many operations are in flight as the options say. Never waits.
///
/// # Safety
/// `counters` is NULL or open, and `before` is NULL or has room for a number until the operation has ended or the
/// counters are closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_counters_submit_add(
    counters: *mut probeline_counters,
    tag: u64,
    key: u64,
    addend: u64,
    before: *mut u64,
) -> probeline_status {
    let pointers = (&raw const key, ptr::null(), before.cast());
    // SAFETY: the program passes NULL or open counters, and NULL or a place for a number (# Safety).
    unsafe { submit(counters, tag, Ok(Action::Add(addend)), pointers) }
}

/// Starts to get the count of a key, which a poll stores at `count`: see probeline_counters_submit_add(). Never
/// waits.
///
/// # Safety
/// As for `probeline_counters_submit_add`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_counters_submit_get(
    counters: *mut probeline_counters,
    tag: u64,
    key: u64,
    count: *mut u64,
) -> probeline_status {
    let pointers = (&raw const key, ptr::null(), count.cast());
    // SAFETY: the program passes NULL or open counters, and NULL or a place for a number (# Safety).
    unsafe { submit(counters, tag, Ok(Action::Get), pointers) }
}

/// Makes progress, and stores at most `capacity` operations that have ended, and their number. The outcome is
/// PROBELINE_FOUND if the key had a count before, PROBELINE_ABSENT if it had none, and PROBELINE_FULL if there is no
/// room for it. Never waits.
///
/// # Safety
/// `counters` is NULL or open, `finished` is NULL or has room for `capacity` items, `count` is NULL or has room for
/// a number, and the places given with submitted operations are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_counters_poll(
    counters: *mut probeline_counters,
    finished: *mut probeline_finished,
    capacity: usize,
    count: *mut usize,
) -> probeline_status {
    // SAFETY: the program passes what this asks for (# Safety).
    unsafe { poll(counters, finished, capacity, count) }
}

/// Stores the largest count, at which counts stay. Never waits.
///
/// # Safety
/// `counters` is NULL or open, and `count` is NULL or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_counters_max_count(
    counters: *mut probeline_counters,
    count: *mut u64,
) -> probeline_status {
    let max =
        |inner: &mut Inner<probeline_counters>| Ok(inner.structure.front.config().max_count());
    // SAFETY: the program passes NULL or open counters, and NULL or a place for a number (# Safety).
    unsafe { result(counters, (count, "count"), max) }
}

/// Stores the number of keys that have a count, on all ranks together. Collective.
///
/// # Safety
/// `counters` is NULL or open, and `len` is NULL or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_counters_len(
    counters: *mut probeline_counters,
    len: *mut u64,
) -> probeline_status {
    // SAFETY: the program passes NULL or open counters, and NULL or a place for a number (# Safety).
    unsafe { structure::len(counters, len) }
}

/// Removes all keys and their counts. Collective.
///
/// # Safety
/// `counters` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_counters_clear(
    counters: *mut probeline_counters,
) -> probeline_status {
    // SAFETY: the program passes NULL or open counters (# Safety).
    unsafe { structure::clear(counters) }
}

/// Receives a key, its count, and the pointer given with the function. It must return: no longjmp, no
/// exception.
pub type probeline_counters_visit =
    Option<unsafe extern "C" fn(key: u64, count: u64, context: *mut c_void)>;

/// Calls `visit` with every key in this rank's part of the counters, in this thread. Each key is in the part
/// of one rank. The result is exact between barriers. Never waits.
///
/// # Safety
/// `counters` is NULL or open, and `visit` is NULL or may be called with keys and `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_counters_for_each_local(
    counters: *mut probeline_counters,
    visit: probeline_counters_visit,
    context: *mut c_void,
) -> probeline_status {
    let body = |Inner { structure, .. }: &mut Inner<probeline_counters>| {
        let visit = visit.ok_or_else(|| Error::invalid("visit is NULL"))?;
        for (key, count) in structure.front.local() {
            // SAFETY: the program passes a function that may be called with keys and `context` (# Safety).
            unsafe { visit(key, count, context) };
        }
        Ok(())
    };
    // SAFETY: the program passes NULL or open counters (# Safety).
    unsafe { with(counters, body) }
}
