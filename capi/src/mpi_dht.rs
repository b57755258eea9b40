//! The functions of MPI-DHT, over the map: `include/mpi-dht/LUCX/DHT.h` describes them.
//!
//! Written from a description of the functions, their arguments and codes. Nothing comes from the
//! source of MPI-DHT.

use core::cell::RefCell;
use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use core::time::Duration;
use std::io::Write as _;
use std::path::Path;
use std::rc::Rc;

use probeline::map::Stats;
use probeline::mpi::{RawComm, World};

use crate::cache::Write;
use crate::call::{call, path, put, room, slice};
use crate::handle::{Abandon, Handle};
use crate::job::{Members, Shared};
use crate::map_options::probeline_map_options;
use crate::map_state::{Inner, open};
use crate::mpi_dht_file;
use crate::options::Extensible;
use crate::status::{Error, probeline_outcome, probeline_status};

const SUCCESS: c_int = 0;
const FAILED: c_int = -1;
const MISS: c_int = -2;
const EVICTED: c_int = -5;

/// The longest wait in a collective call.
const LIMIT: Duration = Duration::from_secs(600);
/// The numbers that ranks gather for the statistics.
const NUMBERS: usize = 6;

/// A table as programs of MPI-DHT have it.
pub struct DHT(Handle<Table>);

struct Table {
    map: Inner,
    /// Failed checks that were counted before the statistics were reset.
    mismatches: u64,
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

/// Runs a call on a table.
///
/// # Safety
/// `table` is NULL or open.
unsafe fn with(table: *mut DHT, body: impl FnOnce(&mut Table) -> Result<c_int, Error>) -> c_int {
    code(|code| {
        // SAFETY: by the contract.
        let table = unsafe { table.as_ref() }.ok_or_else(|| Error::invalid("table is NULL"))?;
        *code = table.0.with(body)?;
        Ok(())
    })
}

/// Opens a job among the members of a communicator, over the transport that the environment names, or
/// MPI RMA.
fn job(comm: RawComm) -> Result<Shared, Error> {
    // SAFETY: the caller's communicator; `DHT.h` asks for MPI_THREAD_MULTIPLE if other threads call
    // MPI.
    let world = unsafe { World::attach(comm, LIMIT) }?;
    Ok(Rc::new(RefCell::new(Members::of_mpi(world.members()?)?)))
}

/// Creates a table; collective. NULL if that fails.
#[unsafe(no_mangle)]
pub extern "C" fn DHT_create(
    key_size: usize,
    data_size: usize,
    bucket_count: u64,
    _hash: Option<unsafe extern "C" fn(c_int, *const c_void) -> u64>,
    comm: RawComm,
) -> *mut DHT {
    let mut table = ptr::null_mut();
    let opened = call(|| {
        let options = probeline_map_options {
            key_bytes: key_size,
            value_bytes: data_size,
            buckets_per_rank: bucket_count,
            entries: 0,
            ..probeline_map_options::DEFAULT
        };
        let map = open(&job(comm)?, &options)?;
        table = Box::into_raw(Box::new(DHT(Handle::new(Table { map, mismatches: 0 }))));
        Ok(())
    });
    debug_assert_eq!(opened == probeline_status::PROBELINE_OK, !table.is_null());
    table
}

/// Writes an entry.
///
/// # Safety
/// `table` is NULL or open, `key` is NULL or a key, `data` is NULL or a value, and `proc` and `index`
/// are NULL or have room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn DHT_write(
    table: *mut DHT,
    key: *const c_void,
    data: *const c_void,
    proc: *mut u32,
    index: *mut u32,
) -> c_int {
    let body = |Table { map, .. }: &mut Table| {
        // SAFETY: by the contract.
        let (key, data) = unsafe {
            let key = slice(key.cast::<u8>(), map.key_bytes, "key")?;
            (key, slice(data.cast::<u8>(), map.value_bytes, "data")?)
        };
        let outcome = map.cache.write(key, Write::Put, data)?;
        let (owner, bucket) = map.cache.first_candidate(key)?;
        // SAFETY: by the contract.
        unsafe {
            put(proc, owner);
            put(index, u32::try_from(bucket).unwrap_or(u32::MAX));
        }
        Ok(if outcome == probeline_outcome::PROBELINE_EVICTED { EVICTED } else { SUCCESS })
    };
    // SAFETY: by the contract.
    unsafe { with(table, body) }
}

/// Reads an entry.
///
/// # Safety
/// `table` is NULL or open, `key` is NULL or a key, and `destination` is NULL or has room for a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn DHT_read(
    table: *mut DHT,
    key: *const c_void,
    destination: *mut c_void,
) -> c_int {
    let body = |Table { map, .. }: &mut Table| {
        // SAFETY: by the contract.
        let (key, to) = unsafe {
            let key = slice(key.cast::<u8>(), map.key_bytes, "key")?;
            (key, room(destination.cast::<u8>(), map.value_bytes, "destination")?)
        };
        let found = map.cache.get(key, to)? == probeline_outcome::PROBELINE_FOUND;
        Ok(if found { SUCCESS } else { MISS })
    };
    // SAFETY: by the contract.
    unsafe { with(table, body) }
}

/// Frees a table; collective.
///
/// # Safety
/// `table` is NULL or open, and `mismatches` is NULL or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn DHT_free(table: *mut DHT, mismatches: *mut u32) -> c_int {
    code(|_| {
        // SAFETY: by the contract.
        let handle = unsafe { table.as_ref() }.ok_or_else(|| Error::invalid("table is NULL"))?;
        let inner = handle.0.take()?;
        // SAFETY: a box from `DHT_create`, which the caller does not use again.
        drop(unsafe { Box::from_raw(table) });
        let Some(Table { map, mismatches: before }) = inner else { return Ok(()) };
        let mine = before + map.cache.stats().failed_checks;
        let gathered = map.gather([mine]);
        let closed = map.close();
        let sum: u64 = gathered?.as_flattened().iter().sum();
        // SAFETY: by the contract.
        unsafe { put(mismatches, u32::try_from(sum).unwrap_or(u32::MAX)) };
        closed
    })
}

/// Waits for all ranks; collective.
///
/// # Safety
/// `table` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn DHT_barrier(table: *mut DHT) -> c_int {
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
pub unsafe extern "C" fn DHT_print_statistics(table: *mut DHT) -> c_int {
    let body = |table: &mut Table| {
        let Table { map, mismatches } = table;
        // Every rank takes part in the gathering, also if its own count fails.
        let mut occupied = 0;
        let counted = map.cache.for_each_local(&mut |_, _| occupied += 1);
        let stats: Stats = *map.cache.stats();
        let free = map.cache.buckets().saturating_sub(occupied);
        let (writes, reads) = (stats.writes() + stats.present, stats.reads());
        let mine = [occupied, free, writes, reads, stats.misses, stats.evictions];
        let all = map.gather(mine)?;
        counted?;
        *mismatches += stats.failed_checks;
        map.cache.reset_stats();
        let is_first = map.job.borrow_mut().exchange().me().0 == 0;
        if is_first {
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
pub unsafe extern "C" fn DHT_to_file(table: *mut DHT, name: *const c_char) -> c_int {
    // SAFETY: by the contract.
    unsafe { with_file(table, name, mpi_dht_file::save) }
}

/// Writes the entries of a file to the table; collective.
///
/// # Safety
/// `table` is NULL or open, and `name` is NULL or ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn DHT_from_file(table: *mut DHT, name: *const c_char) -> c_int {
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
