//! The functions of MPI-DHT, over the map: the headers in `include/mpi-dht` map the names of each of its
//! versions to these.
//!
//! Written from a description of the functions, their arguments and codes. Nothing comes from the
//! source of MPI-DHT.

mod program;
mod visible;

use core::cell::RefCell;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::hash::{Hash, Hasher};
use core::ptr;
use core::time::Duration;
use std::hash::DefaultHasher;
use std::io::Write as _;
use std::path::Path;
use std::rc::Rc;
use std::thread;
use std::time::Instant;

use probeline::map::Location;
use probeline::transport::Exchange;

use crate::cache::Write;
use crate::call::{call, path, put, room, slice};
use crate::handle::{Abandon, Handle};
use crate::job::{Members, Shared};
use crate::job_options::probeline_job_options;
use crate::map_options::probeline_map_options;
use crate::map_state::{Inner, open};
use crate::meeting::Meeting;
use crate::mpi_dht_file;
use crate::network::Transport;
use crate::options::{self, Extensible};
use crate::status::{Error, probeline_last_error, probeline_outcome, probeline_status};
use program::Program;
pub use program::probeline_dht_meeting;
pub use visible::probeline_dht_callback;
use visible::{Counts, Visible};

const SUCCESS: c_int = 0;
const FAILED: c_int = -1;
const MISS: c_int = -2;
const NOT_IMPLEMENTED: c_int = -32;

/// The longest time for which an accumulating write tries again because other ranks change the same
/// key.
const ACCUMULATE_LIMIT: Duration = Duration::from_secs(60);
/// The numbers that ranks gather for the statistics.
const NUMBERS: usize = 6;

/// What a table is created with.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct probeline_dht_options {
    /// The size of this structure.
    pub size: usize,
    /// Bytes of a key.
    pub key_size: u64,
    /// Bytes of a value.
    pub data_size: u64,
    /// Buckets of each rank.
    pub bucket_count: u64,
    /// What a write that evicts returns.
    pub evicted: c_int,
    /// Whether accesses are counted by rank and by candidate.
    pub counts_accesses: c_int,
}

// SAFETY: repr(C); numbers, of which the first is the size.
unsafe impl Extensible for probeline_dht_options {
    const DEFAULT: Self = Self {
        size: size_of::<Self>(),
        key_size: 0,
        data_size: 0,
        bucket_count: 0,
        evicted: -5,
        counts_accesses: 0,
    };
}

/// A table as programs of MPI-DHT have it.
#[repr(C)]
pub struct DHT {
    /// First, because the header declares only this.
    visible: Visible,
    table: Handle<Table>,
}

struct Table {
    map: Inner,
    evicted: c_int,
    counts: Counts,
    /// The counts when the statistics were reset.
    reset_at: Counts,
    accesses: Option<Accesses>,
    /// A value for the callback, aligned to 8 bytes.
    scratch: Vec<u64>,
}

/// How often this rank accessed each rank, and wrote to the first, second ... candidate of a key.
struct Accesses {
    ranks: Vec<u64>,
    candidates: Vec<u64>,
}

impl Abandon for Table {
    fn abandon(self) -> Option<Self> {
        self.map.abandon();
        None
    }
}

/// Returns a code: that of `body`, or [`FAILED`].
fn code(body: impl FnOnce(&mut c_int) -> Result<(), Error>) -> c_int {
    let mut code = SUCCESS;
    match call(|| body(&mut code)) {
        probeline_status::PROBELINE_OK => code,
        _ => FAILED,
    }
}

fn null() -> Error {
    Error::invalid("table is NULL")
}

/// Runs a call on a table, and shows its counters.
///
/// # Safety
/// `table` is NULL or open.
unsafe fn with(table: *mut DHT, body: impl FnOnce(&mut Table) -> Result<c_int, Error>) -> c_int {
    code(|code| {
        if table.is_null() {
            return Err(null());
        }
        // SAFETY: by the contract. The program accesses only the members before it.
        let handle = unsafe { &(*table).table };
        *code = handle
            .with(|table| {
                let result = body(table);
                let (all, before) = (table.counts, table.reset_at);
                result.map(|code| (code, all, before.until(&all)))
            })
            .map(|(code, all, recent)| {
                // SAFETY: open by the contract; the handle belongs to this thread.
                unsafe { Visible::show(&raw mut (*table).visible, &all, &recent) };
                code
            })?;
        Ok(())
    })
}

/// Opens a job among the ranks of a program, or of its launcher if it has passed none.
fn job(meeting: Option<probeline_dht_meeting>) -> Result<Shared, Error> {
    let members = match meeting {
        // SAFETY: the default has no texts.
        None => unsafe { Members::join(&probeline_job_options::DEFAULT) }?,
        Some(meeting) => {
            // SAFETY: the header's functions, which `DHT.h` asks to call in one thread.
            let mut program = unsafe { Program::new(meeting) };
            match choose_transport(&mut program)? {
                Transport::Mpi => Members::met(attach(&meeting)?, Transport::Mpi),
                transport => Members::met(Meeting::Program(Box::new(program)), transport),
            }
        }
    };
    Ok(Rc::new(RefCell::new(members)))
}

/// Returns the transport that the environment names, or else shared memory if all ranks are on one
/// machine, or else MPI RMA if this library has it. All ranks return the same.
fn choose_transport(ranks: &mut dyn Exchange) -> Result<Transport, Error> {
    let named = Transport::from_env();
    let choice = named.as_ref().map_or(u64::MAX, |named| named.map_or(0, |named| named as u64 + 1));
    let mine = [machine(), choice].map(u64::to_ne_bytes);
    let mut all = vec![[[0; 8]; 2]; ranks.owners() as usize];
    ranks.all_gather(mine.as_flattened(), all.as_flattened_mut().as_flattened_mut())?;
    let named = named?;
    if let Some(rank) = all.iter().position(|theirs| theirs[1] != mine[1]) {
        return Err(Error::new(
            probeline_status::PROBELINE_ERROR_DIFFERS,
            format_args!("rank {rank} has another PROBELINE_TRANSPORT: give all ranks the same"),
        ));
    }
    match named {
        Some(transport) => Ok(transport),
        None if all.iter().all(|theirs| theirs[0] == mine[0]) => Ok(Transport::Shm),
        None if cfg!(feature = "mpi") => Ok(Transport::Mpi),
        None => Err(Error::open(
            "the ranks run on several machines: set PROBELINE_TRANSPORT to verbs or ucx on all of them",
        )),
    }
}

/// Returns a number that processes have in common if they can share memory: their machine has started
/// once, and they see each other's process numbers.
fn machine() -> u64 {
    let mut hasher = DefaultHasher::new();
    std::fs::read("/proc/sys/kernel/random/boot_id").ok().hash(&mut hasher);
    std::fs::read_link("/proc/self/ns/pid").ok().hash(&mut hasher);
    hasher.finish()
}

/// Lets the ranks of the program's communicator meet through the MPI library of this build.
#[cfg(feature = "mpi")]
fn attach(meeting: &probeline_dht_meeting) -> Result<Meeting, Error> {
    use probeline::mpi::{RawComm, World};
    if meeting.comm.is_null() || meeting.comm_bytes != size_of::<RawComm>() {
        return Err(Error::open(
            "the program uses another MPI library than this one was built with",
        ));
    }
    // SAFETY: the header passes the place of its communicator, whose type has this size; `DHT.h` asks
    // for MPI_THREAD_MULTIPLE if other threads call MPI.
    let world =
        unsafe { World::attach(meeting.comm.cast::<RawComm>().read_unaligned(), program::LIMIT) }?;
    Ok(Meeting::Mpi(world.members()?))
}

#[cfg(not(feature = "mpi"))]
fn attach(_: &probeline_dht_meeting) -> Result<Meeting, Error> {
    Err(crate::status::not_built("mpi"))
}

fn create(
    options: &probeline_dht_options,
    meeting: Option<probeline_dht_meeting>,
) -> Result<Box<DHT>, Error> {
    // A size that does not fit is refused as too large.
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let map_options = probeline_map_options {
        key_bytes: size(options.key_size),
        value_bytes: size(options.data_size),
        buckets_per_rank: options.bucket_count,
        entries: 0,
        ..probeline_map_options::DEFAULT
    };
    let map = open(&job(meeting)?, &map_options)?;
    let rank = map.job.borrow_mut().exchange().me().0;
    let (ranks, candidates) = (map.job.borrow_mut().owners(), map.cache.config().candidates);
    let bytes = [map.key_bytes, map.value_bytes];
    let visible = Visible::new(bytes, options.bucket_count, [rank, ranks, candidates]);
    let accesses = (options.counts_accesses != 0).then(|| Accesses {
        ranks: vec![0; ranks as usize],
        candidates: vec![0; candidates as usize],
    });
    let scratch = vec![0; map.value_bytes.div_ceil(size_of::<u64>())];
    let (counts, reset_at, evicted) = (Counts::default(), Counts::default(), options.evicted);
    let table = Table { map, evicted, counts, reset_at, accesses, scratch };
    Ok(Box::new(DHT { visible, table: Handle::new(table) }))
}

/// Creates a table; collective. NULL if that fails, and a sentence on standard error. Without a meeting
/// the ranks meet through their launcher.
///
/// # Safety
/// `options` is NULL or initialized. `meeting` is NULL, or its functions behave as described, in this
/// thread, until the table is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_dht_create(
    options: *const probeline_dht_options,
    meeting: *const probeline_dht_meeting,
) -> *mut DHT {
    let mut table = ptr::null_mut();
    let created = call(|| {
        // SAFETY: by the contract.
        let options = unsafe { options::read(options, "DHT_create") }?;
        // SAFETY: by the contract.
        table = Box::into_raw(create(&options, unsafe { meeting.as_ref() }.copied())?);
        // SAFETY: it was just created.
        unsafe { Visible::point_to_stats(&raw mut (*table).visible) };
        Ok(())
    });
    if created != probeline_status::PROBELINE_OK {
        // SAFETY: a text of this thread.
        let text = unsafe { CStr::from_ptr(probeline_last_error()) }.to_string_lossy();
        // Programs of MPI-DHT know only NULL. One write, because other ranks print as well.
        let _ = std::io::stderr().write_all(format!("DHT_create: {text}\n").as_bytes());
    }
    table
}

impl Table {
    /// Counts a write, and returns its code and its bucket.
    fn wrote(
        &mut self,
        key: &[u8],
        outcome: probeline_outcome,
    ) -> Result<(c_int, Location), Error> {
        use probeline_outcome::{PROBELINE_EVICTED, PROBELINE_INSERTED, PROBELINE_UPDATED};
        let is_stored =
            matches!(outcome, PROBELINE_INSERTED | PROBELINE_UPDATED | PROBELINE_EVICTED);
        let last = if is_stored { self.map.cache.last_put() } else { None };
        let at = last.map_or_else(|| self.map.cache.first_candidate(key), Ok)?;
        self.counts.writes += 1;
        if let Some(accesses) = &mut self.accesses {
            accesses.count(&at);
            if let (true, Some(count)) =
                (is_stored, accesses.candidates.get_mut(at.candidate as usize))
            {
                *count += 1;
            }
        }
        if outcome != PROBELINE_EVICTED {
            return Ok((SUCCESS, at));
        }
        self.counts.evictions += 1;
        Ok((self.evicted, at))
    }

    /// Counts a read, and returns its code.
    fn has_read(&mut self, outcome: probeline_outcome) -> c_int {
        self.counts.reads += 1;
        if outcome == probeline_outcome::PROBELINE_FOUND {
            return SUCCESS;
        }
        self.counts.misses += 1;
        MISS
    }
}

impl Accesses {
    fn count(&mut self, at: &Location) {
        if let Some(count) = self.ranks.get_mut(at.owner.0 as usize) {
            *count += 1;
        }
    }
}

impl Counts {
    /// Returns the counts from these on.
    fn until(&self, now: &Self) -> Self {
        Self {
            writes: now.writes - self.writes,
            reads: now.reads - self.reads,
            misses: now.misses - self.misses,
            evictions: now.evictions - self.evictions,
        }
    }
}

/// Stores the place of a bucket.
///
/// # Safety
/// `proc` and `index` are NULL or have room for a number.
unsafe fn put_place(at: &Location, proc: *mut u32, index: *mut u32) {
    // SAFETY: by the contract.
    unsafe {
        put(proc, at.owner.0);
        put(index, u32::try_from(at.bucket).unwrap_or(u32::MAX));
    }
}

/// Writes an entry.
///
/// # Safety
/// `table` is NULL or open, `key` is NULL or a key, `data` is NULL or a value, and `proc` and `index`
/// are NULL or have room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_dht_write(
    table: *mut DHT,
    key: *const c_void,
    data: *const c_void,
    proc: *mut u32,
    index: *mut u32,
) -> c_int {
    let body = |table: &mut Table| {
        let map = &mut table.map;
        // SAFETY: by the contract.
        let (key, data) = unsafe {
            let key = slice(key.cast::<u8>(), map.key_bytes, "key")?;
            (key, slice(data.cast::<u8>(), map.value_bytes, "data")?)
        };
        let outcome = map.cache.write(key, Write::Put, data)?;
        let (code, at) = table.wrote(key, outcome)?;
        // SAFETY: by the contract.
        unsafe { put_place(&at, proc, index) };
        Ok(code)
    };
    // SAFETY: by the contract.
    unsafe { with(table, body) }
}

/// Lets the table's callback change the value of a key, or zeros, and writes it if the callback returns
/// 0. Calls it again with the new value if another rank has changed the value meanwhile.
///
/// # Safety
/// As for [`probeline_dht_write`]; `data` is what the callback expects, and `callback_ret` is NULL or
/// has room for a number. The callback changes only the value and what is its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_dht_write_accumulate(
    table: *mut DHT,
    key: *const c_void,
    send_size: c_int,
    data: *mut c_void,
    proc: *mut u32,
    index: *mut u32,
    callback_ret: *mut c_int,
) -> c_int {
    let body = |inner: &mut Table| {
        // SAFETY: open by the contract; the handle belongs to this thread.
        let callback = unsafe { Visible::callback(&raw const (*table).visible) };
        let none =
            || Error::invalid("there is no callback: call DHT_set_accumulate_callback first");
        let callback = callback.ok_or_else(none)?;
        let Table { map, scratch, .. } = inner;
        // SAFETY: by the contract.
        let key = unsafe { slice(key.cast::<u8>(), map.key_bytes, "key") }?;
        let bytes = c_int::try_from(map.value_bytes).unwrap_or(c_int::MAX);
        let mut returned = 0;
        let mut change = |value: &mut [u8]| {
            let place = scratch.as_mut_ptr().cast::<u8>();
            // SAFETY: the scratch memory is as long as a value; the callback is the program's.
            unsafe {
                place.copy_from_nonoverlapping(value.as_ptr(), value.len());
                returned = callback(send_size, data, bytes, place.cast());
                place.copy_to_nonoverlapping(value.as_mut_ptr(), value.len());
            }
            returned == 0
        };
        let begin = Instant::now();
        let outcome = loop {
            match map.cache.update(key, &mut change)? {
                probeline_outcome::PROBELINE_DROPPED if begin.elapsed() < ACCUMULATE_LIMIT => {
                    thread::yield_now();
                }
                outcome => break outcome,
            }
        };
        if outcome == probeline_outcome::PROBELINE_DROPPED {
            let text = "nothing was written, because other ranks changed the same key for a minute";
            return Err(Error::new(probeline_status::PROBELINE_ERROR_FAILED, text));
        }
        let (code, at) = inner.wrote(key, outcome)?;
        // SAFETY: by the contract.
        unsafe {
            put(callback_ret, returned);
            put_place(&at, proc, index);
        }
        Ok(code)
    };
    // SAFETY: by the contract.
    unsafe { with(table, body) }
}

/// Reads an entry.
///
/// # Safety
/// `table` is NULL or open, `key` is NULL or a key, and `destination` is NULL or has room for a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_dht_read(
    table: *mut DHT,
    key: *const c_void,
    destination: *mut c_void,
) -> c_int {
    let body = |table: &mut Table| {
        let map = &mut table.map;
        // SAFETY: by the contract.
        let (key, to) = unsafe {
            let key = slice(key.cast::<u8>(), map.key_bytes, "key")?;
            (key, room(destination.cast::<u8>(), map.value_bytes, "destination")?)
        };
        let outcome = map.cache.get(key, to)?;
        if let Some(accesses) = &mut table.accesses {
            accesses.count(&map.cache.first_candidate(key)?);
        }
        Ok(table.has_read(outcome))
    };
    // SAFETY: by the contract.
    unsafe { with(table, body) }
}

/// Reads the value of the entry in a bucket.
///
/// # Safety
/// As for [`probeline_dht_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_dht_read_location(
    table: *mut DHT,
    proc: u32,
    index: u32,
    destination: *mut c_void,
) -> c_int {
    let body = |table: &mut Table| {
        let map = &mut table.map;
        // SAFETY: by the contract.
        let to = unsafe { room(destination.cast::<u8>(), map.value_bytes, "destination") }?;
        let outcome = map.cache.get_at(proc, index.into(), to)?;
        Ok(table.has_read(outcome))
    };
    // SAFETY: by the contract.
    unsafe { with(table, body) }
}

/// Frees a table; collective. Stores the evictions, the read misses, and the reads of words of different
/// times, of all ranks.
///
/// # Safety
/// `table` is NULL or open, and `sums` is NULL or has room for three numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_dht_free(table: *mut DHT, sums: *mut u64) -> c_int {
    code(|_| {
        if table.is_null() {
            return Err(null());
        }
        // SAFETY: by the contract.
        let inner = unsafe { &(*table).table }.take()?;
        // SAFETY: a box from `probeline_dht_create`, which the caller does not use again.
        drop(unsafe { Box::from_raw(table) });
        let Some(Table { map, counts, .. }) = inner else { return Ok(()) };
        let gathered =
            map.gather([counts.evictions, counts.misses, map.cache.stats().failed_checks]);
        let closed = map.close();
        let all = gathered?;
        // SAFETY: by the contract.
        let sums = unsafe { room(sums, if sums.is_null() { 0 } else { 3 }, "sums") }?;
        for (at, to) in sums.iter_mut().enumerate() {
            to.write(all.iter().filter_map(|rank| rank.get(at)).sum());
        }
        closed
    })
}

/// Waits for all ranks; collective.
///
/// # Safety
/// `table` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_dht_barrier(table: *mut DHT) -> c_int {
    let body = |table: &mut Table| {
        table.map.job.borrow_mut().exchange().barrier()?;
        Ok(SUCCESS)
    };
    // SAFETY: by the contract.
    unsafe { with(table, body) }
}

/// Prints the statistics on rank 0 and resets those of operations; collective.
///
/// # Safety
/// `table` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_dht_print_statistics(table: *mut DHT) -> c_int {
    let body = |table: &mut Table| {
        let map = &mut table.map;
        // Every rank takes part in the gathering, also if its own count fails.
        let mut occupied = 0;
        let counted = map.cache.for_each_local(&mut |_, _| occupied += 1);
        let free = map.cache.config().buckets_per_owner.saturating_sub(occupied);
        let Counts { writes, reads, misses, evictions } = table.reset_at.until(&table.counts);
        let all = map.gather([occupied, free, writes, reads, misses, evictions])?;
        counted?;
        table.reset_at = table.counts;
        if map.job.borrow_mut().exchange().me().0 == 0 {
            // Standard output may be closed; the ranks go on together.
            let _ = std::io::stdout().lock().write_all(statistics(&all).as_bytes());
        }
        Ok(SUCCESS)
    };
    // SAFETY: by the contract.
    unsafe { with(table, body) }
}

/// Returns a table of the numbers of all ranks and their sums.
fn statistics(all: &[[u64; NUMBERS]]) -> String {
    const TITLES: [&str; NUMBERS] =
        ["occupied", "free", "w_access", "r_access", "read misses", "evictions"];
    let row = |name: &str, cells: [String; NUMBERS]| {
        let cells = cells.map(|cell| format!("{cell:>14}")).concat();
        format!("{name:>6}{cells}\n")
    };
    let numbers = |numbers: [u64; NUMBERS]| numbers.map(|number| number.to_string());
    let mut text = row("rank", TITLES.map(str::to_owned));
    for (rank, mine) in all.iter().enumerate() {
        text += &row(&rank.to_string(), numbers(*mine));
    }
    let sums = core::array::from_fn(|at| all.iter().filter_map(|rank| rank.get(at)).sum());
    text + &row("sum", numbers(sums))
}

/// Gathers a row of each rank into `rows` on rank 0; collective. The rows have the accesses to each rank,
/// or with `by_candidate` the writes to each candidate. Not implemented unless the table counts them.
///
/// # Safety
/// `table` is NULL or open. On rank 0 `rows` has a row for each rank.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_dht_gather_accesses(
    table: *mut DHT,
    by_candidate: c_int,
    reset: c_int,
    rows: *const *mut u64,
) -> c_int {
    let body = |table: &mut Table| {
        let Some(accesses) = &mut table.accesses else { return Ok(NOT_IMPLEMENTED) };
        let mine = if by_candidate != 0 { &mut accesses.candidates } else { &mut accesses.ranks };
        let bytes: Vec<u8> = mine.iter().flat_map(|count| count.to_ne_bytes()).collect();
        let mut members = table.map.job.borrow_mut();
        let exchange = members.exchange();
        let mut all = vec![0; bytes.len() * exchange.owners() as usize];
        exchange.all_gather(&bytes, &mut all)?;
        if reset != 0 {
            mine.fill(0);
        }
        if exchange.me().0 != 0 {
            return Ok(SUCCESS);
        }
        // SAFETY: by the contract.
        let rows = unsafe { slice(rows, exchange.owners() as usize, "rows") }?;
        for (row, counts) in rows.iter().zip(all.chunks_exact(bytes.len().max(1))) {
            // SAFETY: by the contract.
            let row = unsafe { room(*row, mine.len(), "a row") }?;
            for (to, count) in row.iter_mut().zip(counts.as_chunks().0) {
                to.write(u64::from_ne_bytes(*count));
            }
        }
        Ok(SUCCESS)
    };
    // SAFETY: by the contract.
    unsafe { with(table, body) }
}

/// Runs a call on a table and a file.
///
/// # Safety
/// `table` is NULL or open, and `name` is NULL or ends with NUL.
unsafe fn with_file(
    table: *mut DHT,
    name: *const c_char,
    body: fn(&mut Inner, Result<&Path, Error>) -> Result<c_int, Error>,
) -> c_int {
    let body = |table: &mut Table| {
        // SAFETY: by the contract.
        body(&mut table.map, unsafe { path(name) })
    };
    // SAFETY: by the contract.
    unsafe { with(table, body) }
}

/// Writes all entries to a file; collective.
///
/// # Safety
/// `table` is NULL or open, and `name` is NULL or ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_dht_to_file(table: *mut DHT, name: *const c_char) -> c_int {
    // SAFETY: by the contract.
    unsafe { with_file(table, name, mpi_dht_file::save) }
}

/// Writes the entries of a file to the table; collective.
///
/// # Safety
/// `table` is NULL or open, and `name` is NULL or ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_dht_from_file(table: *mut DHT, name: *const c_char) -> c_int {
    // SAFETY: by the contract.
    unsafe { with_file(table, name, mpi_dht_file::load) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_end_with_their_sums() {
        let text = statistics(&[[1, 2, 3, 4, 5, 6], [10, 20, 30, 40, 50, 60]]);
        let last: Vec<_> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(last, ["sum", "11", "22", "33", "44", "55", "66"]);
    }
}
