//! Tables: sets of keys with find-or-put.

use core::ffi::{c_int, c_void};
use core::ptr;

use probeline::pipeline::{self, Kind, OperationOf, Plain};
use probeline::table::{
    self, BatchError, Config, Ended, Intent, Keys, Narrow, Outcome, Stats, Tag, Wide, WideConfig,
};
use probeline::transport::Sizes as EngineSizes;

use crate::call::call;
use crate::job::{Members, probeline_job};
use crate::operations::{
    self, Keyed, Outcomes, Place, Pointers, Run, Sizes, Started, Submit, ToC, optional, poll, run,
    submit,
};
use crate::options::Allowed::{Flag, KeyBits, Multiples, Range};
use crate::options::{self, Extensible, MAX_KEYS, MAX_OPERATIONS, Options, options};
use crate::status::{Error, probeline_finished, probeline_outcome, probeline_status};
use crate::structure::{self, Engine, Inner, Open, Pointee, Typed, with};

/// Bits of a word of a key.
const WORD_BITS: u32 = u64::BITS;

/// The widest key in words.
const MAX_WORDS: usize = 64;
/// Keys and results that a batch converts at once.
const BLOCK: usize = 1024;

/// Options of a table. `operations` and `direct` may differ between ranks.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct probeline_table_options {
    /// The size of this structure, which probeline_table_options_init() stores.
    pub size: usize,
    /// Keys for which the whole table has room, 1 to 2^48: at this number it is three quarters full.
    /// [default: 1,000,000]
    pub keys: u64,
    /// 63 for keys of one word below 2^63, which are fastest; or bits of wide keys, a multiple of
    /// 64 up to 4096. Wide keys take the room of 2, 4, 8, 16, 32 or 64 words. [default: 63]
    pub key_bits: u32,
    /// Operations in flight at once, 1 to 65,536; over UCX at most 21,845 and over verbs 5,461, with wide
    /// keys 16,384 and 4,096. A device may have less. [default: 32]
    pub operations: u32,
    /// C, the buckets that one READ brings: a multiple of 8, up to 65,536 and to the buckets of a rank.
    /// [default: 32]
    pub chunk_buckets: u32,
    /// M, the chunks that an operation reads before it finds the table full, 1 to 65,536. [default: 32]
    pub max_chunks: u32,
    /// Whether the CPU itself reads and writes the memory of all ranks where it can: 0 or 1.
    /// [default: 1]
    pub direct: c_int,
}

// SAFETY: repr(C); numbers, of which the first is the size.
unsafe impl Extensible for probeline_table_options {}

options!(probeline_table_options |_|
    keys = 1_000_000, Range(1, MAX_KEYS);
    key_bits = 63, KeyBits(MAX_WORDS);
    operations = 32, Range(1, MAX_OPERATIONS);
    chunk_buckets = Config::new(0).chunk_buckets, Multiples(8, 65_536);
    max_chunks = Config::new(0).max_chunks, Range(1, 65_536);
    direct = 1, Flag;
);

/// Costs of operations of this rank on a table since it was opened.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct probeline_table_stats {
    /// The size of this structure.
    pub size: usize,
    /// Operations that found their key.
    pub found: u64,
    /// Operations that inserted their key.
    pub inserted: u64,
    /// Operations that found no room.
    pub full: u64,
    /// Finds without their key.
    pub absent: u64,
    /// Operations that failed.
    pub failed: u64,
    /// READs of chunks that operations waited for.
    pub effective_roundtrips: u64,
    /// READs of chunks posted.
    pub outgoing_roundtrips: u64,
    /// Compare-and-swaps of buckets.
    pub claims: u64,
    /// Cache lines that the CPU examined.
    pub lines: u64,
}

// SAFETY: repr(C); numbers, of which the first is the size.
unsafe impl Extensible for probeline_table_stats {}

impl From<&Stats> for probeline_table_stats {
    fn from(stats: &Stats) -> Self {
        let total = stats.total();
        Self {
            size: size_of::<Self>(),
            found: stats.found.operations,
            inserted: stats.inserted.operations,
            full: stats.full.operations,
            absent: stats.absent.operations,
            failed: stats.failed,
            effective_roundtrips: total.effective_roundtrips,
            outgoing_roundtrips: total.outgoing_roundtrips,
            claims: total.claims + total.one_roundtrip_claims,
            lines: total.lines,
        }
    }
}

/// A set of keys in the memory of all ranks.
pub struct probeline_table(());

/// Find a key.
pub const PROBELINE_FIND: c_int = 0;
/// Find a key, or insert it.
pub const PROBELINE_FIND_OR_PUT: c_int = 1;

fn intent(operation: c_int) -> Result<Intent, Error> {
    match operation {
        PROBELINE_FIND => Ok(Intent::Find),
        PROBELINE_FIND_OR_PUT => Ok(Intent::FindOrPut),
        other => Err(Error::invalid(format_args!(
            "the operation is {other}: give PROBELINE_FIND or PROBELINE_FIND_OR_PUT"
        ))),
    }
}

/// Returns the pointers of an operation that has a key only.
fn only(key: *const u64) -> Pointers<probeline_table> {
    (key, ptr::null(), ptr::null_mut())
}

impl Pointee for probeline_table {
    const NAME: &'static str = "table";
    type Options = probeline_table_options;
    type Structure = dyn Set;

    fn plan(members: &mut Members, options: &Self::Options) -> Result<Open<dyn Set>, Error> {
        let (owners, operations) = (members.owners(), options.operations);
        // Words of a wide key; 0 for 63 bits.
        let words = (options.key_bits / WORD_BITS) as usize;
        let (config, entries, depth) = if words > 0 {
            let wide = WideConfig::<1>::for_keys(options.keys, owners);
            let entries = wide.entries_per_owner + u64::from(operations);
            (wide.buckets, entries, wide.sizes(operations).depth)
        } else {
            let config = Config::for_keys(options.keys, owners);
            (config, 0, config.sizes(operations).depth)
        };
        members.check_depth(operations, depth)?;
        let config = Config {
            chunk_buckets: options.chunk_buckets,
            max_chunks: options.max_chunks,
            direct: options.direct != 0,
            ..config
        };
        config.validate()?;
        Ok(Box::new(move |members| open(members, words, config, entries, operations)))
    }
}

impl Keyed for probeline_table {
    type Request = Intent;
    type Word = u64;

    fn sizes(options: &Self::Options, _: Intent) -> Result<Sizes, Error> {
        let words = (options.key_bits / WORD_BITS).max(1);
        Ok(Sizes { key: words as usize, operand: 0, result: 0, is_optional: false })
    }
}

/// Runs `batch` and stores its outcomes. Its results are `empty` at first.
fn store<A: Copy + Into<Ended>>(
    outcomes: Outcomes<'_>,
    empty: A,
    batch: impl FnOnce(&mut [A]) -> Result<(), BatchError>,
) -> Result<(), Error> {
    let mut results = [empty; BLOCK];
    let results = results.get_mut(..outcomes.len()).unwrap_or_default();
    batch(results)?;
    for (to, result) in outcomes.iter_mut().zip(results) {
        to.write((*result).into().into());
    }
    Ok(())
}

/// A set of keys of some words.
pub(crate) trait Set: Run<probeline_table> {
    fn for_each_local(&mut self, visit: &mut dyn FnMut(&[u8])) -> Result<(), Error>;
    fn stats(&self) -> &Stats;
}

/// Opens a table of keys of `words` words, or of 63 bits if `words` is 0.
fn open(
    members: &mut Members,
    words: usize,
    config: Config,
    entries: u64,
    operations: u32,
) -> Result<Box<dyn Set>, Error> {
    let buckets = (config, entries);
    match words {
        0 => open_as::<Narrow>(members, config, config.sizes(operations), operations),
        1..=2 => open_wide::<2>(members, buckets, operations),
        3..=4 => open_wide::<4>(members, buckets, operations),
        5..=8 => open_wide::<8>(members, buckets, operations),
        9..=16 => open_wide::<16>(members, buckets, operations),
        17..=32 => open_wide::<32>(members, buckets, operations),
        _ => open_wide::<MAX_WORDS>(members, buckets, operations),
    }
}

fn open_wide<const W: usize>(
    members: &mut Members,
    (buckets, entries_per_owner): (Config, u64),
    operations: u32,
) -> Result<Box<dyn Set>, Error>
where
    [u64; W]: Plain,
{
    let config = WideConfig::<W> { buckets, entries_per_owner };
    open_as::<Wide<W>>(members, config, config.sizes(operations), operations)
}

fn open_as<K: Keys<Key: Plain> + pipeline::Open + 'static>(
    members: &mut Members,
    config: K::Config,
    sizes: EngineSizes,
    operations: u32,
) -> Result<Box<dyn Set>, Error> {
    let open = table::Set::<_, _, K>::open;
    let table = structure::open(members, (sizes, operations), config, open)?;
    Ok(Typed::new(table, Vec::new(), operations))
}

/// Returns the key of at most as many words as a key has; the other words are 0.
fn key_of<K: Plain>(words: &[u64]) -> K {
    K::from_words(&mut words.iter().copied(), 0)
}

/// A table, and the keys of a batch in its form.
type Opened<K> = Typed<table::Set<Engine, Vec<OperationOf<K>>, K>, Vec<<K as Kind>::Key>>;

impl ToC for Ended {
    fn to_c(&self) -> (probeline_outcome, Option<&[u8]>) {
        ((*self).into(), None)
    }
}

impl<K: Keys<Key: Plain> + 'static> Submit<probeline_table> for Opened<K> {
    fn submit(&mut self, tag: Tag, intent: Intent, key: &[u64], _: &[u8]) -> Started {
        pipeline::Structure::submit(&mut self.front, tag, &key_of(key), intent)
    }
}

impl<K: Keys<Key: Plain> + 'static> Run<probeline_table> for Opened<K> {
    fn run(&mut self, intent: Intent, key: &[u64], _: &[u8], _: Place<'_>) -> operations::Ended {
        Ok(self.front.call(&key_of(key), intent)?.into())
    }

    fn batch(
        &mut self,
        intent: Intent,
        keys: &[u64],
        _: &[u8],
        _: Place<'_>,
        outcomes: Outcomes<'_>,
    ) -> Result<(), Error> {
        let (table, staged) = (&mut self.front, &mut self.own);
        let words = (keys.len() / outcomes.len().max(1)).max(1);
        let blocks = keys.chunks(BLOCK * words).zip(outcomes.chunks_mut(BLOCK));
        for (keys, outcomes) in blocks {
            staged.clear();
            staged.extend(keys.chunks_exact(words).map(key_of::<K::Key>));
            match intent {
                Intent::FindOrPut => {
                    store(outcomes, Outcome::Full, |to| table.find_or_put_batch(staged, to))?;
                }
                Intent::Find => store(outcomes, false, |to| table.find_batch(staged, to))?,
            }
        }
        Ok(())
    }
}

impl<K: Keys<Key: Plain> + 'static> Set for Opened<K> {
    fn for_each_local(&mut self, visit: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        Ok(self.front.for_each_local(|key| visit(key.bytes()))?)
    }

    fn stats(&self) -> &Stats {
        self.front.stats()
    }
}

/// Stores the default options and `size`, which is sizeof(probeline_table_options).
/// Never waits; any thread.
///
/// # Safety
/// `options` is NULL or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_table_options_init(
    options: *mut probeline_table_options,
    size: usize,
) -> probeline_status {
    // SAFETY: the program passes NULL or `size` bytes (# Safety).
    call(|| unsafe { options::write(options, size, &probeline_table_options::DEFAULT) })
}

/// Opens an empty table and stores its handle at `table`. `options` may be NULL, for the defaults.
/// Collective.
///
/// # Safety
/// `job` is NULL or open, `options` is NULL or initialized, and `table` is NULL or has room for a
/// pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_table_open(
    job: *mut probeline_job,
    options: *const probeline_table_options,
    table: *mut *mut probeline_table,
) -> probeline_status {
    // SAFETY: the program passes what this asks for (# Safety).
    unsafe { structure::open_for(job, options, table) }
}

/// Waits for all ranks, closes the table and frees it; `table` may be NULL. Collective.
///
/// # Safety
/// `table` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_table_close(table: *mut probeline_table) -> probeline_status {
    // SAFETY: the program passes NULL or an open table (# Safety).
    unsafe { structure::close(table) }
}

/// Finds the key, or inserts it: PROBELINE_FOUND, PROBELINE_INSERTED or PROBELINE_FULL. The key has
/// one word, or as many as key_bits says. `outcome` may be NULL. Waits for its operation.
///
/// # Safety
/// `table` is NULL or open, `key` is NULL or has the words of a key, and `outcome` is NULL or has room
/// for an outcome.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_table_find_or_put(
    table: *mut probeline_table,
    key: *const u64,
    outcome: *mut probeline_outcome,
) -> probeline_status {
    // SAFETY: the program passes NULL or an open table, a key of its words, and a place for an outcome
    // (# Safety).
    unsafe { run(table, Ok(Intent::FindOrPut), only(key), 1, optional(outcome)) }
}

/// Finds the key: PROBELINE_FOUND or PROBELINE_ABSENT. Waits for its operation.
///
/// # Safety
/// As for `probeline_table_find_or_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_table_find(
    table: *mut probeline_table,
    key: *const u64,
    outcome: *mut probeline_outcome,
) -> probeline_status {
    // SAFETY: the program passes NULL or an open table, a key of its words, and a place for an outcome
    // (# Safety).
    unsafe { run(table, Ok(Intent::Find), only(key), 1, optional(outcome)) }
}

/// Runs PROBELINE_FIND_OR_PUT or PROBELINE_FIND for the `count` keys of the array `keys`, with as
/// many in flight as the options allow, and stores the outcome of each. If it fails, the outcomes
/// are undefined. Waits for its operations.
///
/// # Safety
/// `table` is NULL or open, `keys` is NULL or has the words of `count` keys, and `outcomes` is NULL or
/// has room for `count` outcomes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_table_batch(
    table: *mut probeline_table,
    operation: c_int,
    keys: *const u64,
    count: usize,
    outcomes: *mut probeline_outcome,
) -> probeline_status {
    let outcomes = Some(outcomes);
    // SAFETY: the program passes NULL or an open table, the words of `count` keys, and places for their outcomes
    // (# Safety).
    unsafe { run(table, intent(operation), only(keys), count, outcomes) }
}

/// Starts PROBELINE_FIND_OR_PUT or PROBELINE_FIND, which probeline_table_poll() reports under `tag`.
/// Returns PROBELINE_ERROR_BUSY while as many operations are in flight as the options say. The key is
/// copied. Never waits.
///
/// # Safety
/// As for `probeline_table_find_or_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_table_submit(
    table: *mut probeline_table,
    tag: u64,
    operation: c_int,
    key: *const u64,
) -> probeline_status {
    // SAFETY: the program passes NULL or an open table, and a key of its words (# Safety).
    unsafe { submit(table, tag, intent(operation), only(key)) }
}

/// Makes progress, and stores at most `capacity` operations that have ended, and their number. Never
/// waits.
///
/// # Safety
/// `table` is NULL or open, `finished` is NULL or has room for `capacity` items, and `count` is NULL or
/// has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_table_poll(
    table: *mut probeline_table,
    finished: *mut probeline_finished,
    capacity: usize,
    count: *mut usize,
) -> probeline_status {
    // SAFETY: the program passes what this asks for (# Safety); submitted operations have no places.
    unsafe { poll(table, finished, capacity, count) }
}

/// Stores the number of keys in the whole table. Collective.
///
/// # Safety
/// `table` is NULL or open, and `len` is NULL or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_table_len(
    table: *mut probeline_table,
    len: *mut u64,
) -> probeline_status {
    // SAFETY: the program passes NULL or an open table, and NULL or a place for a number (# Safety).
    unsafe { structure::len(table, len) }
}

/// Removes all keys from the whole table. Collective.
///
/// # Safety
/// `table` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_table_clear(table: *mut probeline_table) -> probeline_status {
    // SAFETY: the program passes NULL or an open table (# Safety).
    unsafe { structure::clear(table) }
}

/// Receives a key and the pointer given with the function. It must return: no longjmp, no exception.
pub type probeline_table_visit =
    Option<unsafe extern "C" fn(key: *const u64, context: *mut c_void)>;

/// Calls `visit` with every key in this rank's part of the table, in this thread. The result is exact
/// between barriers. Keys of 63 bits: never waits. Wide keys are read from their ranks, after all operations
/// in flight have ended.
///
/// # Safety
/// `table` is NULL or open, and `visit` is NULL or may be called with keys and `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_table_for_each_local(
    table: *mut probeline_table,
    visit: probeline_table_visit,
    context: *mut c_void,
) -> probeline_status {
    let body = |table: &mut Inner<probeline_table>| {
        let visit = visit.ok_or_else(|| Error::invalid("visit is NULL"))?;
        // SAFETY: the program passes a function that may be called with entries and `context` (# Safety).
        table.structure.for_each_local(&mut |key| unsafe { visit(key.as_ptr().cast(), context) })
    };
    // SAFETY: the program passes NULL or an open table (# Safety).
    unsafe { with(table, body) }
}

/// Stores the counters of this rank's operations in a structure of `size` bytes, which is
/// sizeof(probeline_table_stats). Never waits.
///
/// # Safety
/// `table` is NULL or open, and `stats` is NULL or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_table_get_stats(
    table: *mut probeline_table,
    stats: *mut probeline_table_stats,
    size: usize,
) -> probeline_status {
    // SAFETY: the program passes NULL or an open table, and `stats`, NULL or of `size` bytes (# Safety).
    unsafe { with(table, |table| options::write(stats, size, &table.structure.stats().into())) }
}

/// Panics in a call.
///
/// # Safety
/// `table` is open.
#[cfg(test)]
pub(crate) unsafe fn panic_in_call(table: *mut probeline_table) -> probeline_status {
    // SAFETY: the caller passes NULL or an open table (# Safety).
    unsafe { with(table, |_| panic!("a test")) }
}
