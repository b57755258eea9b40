//! The functions of MPI-DHT, over the map: the headers in `include/mpi-dht` map the names of each of its
//! versions to these.
//!
//! Written from a description of the functions, their arguments and codes. Nothing comes from the
//! source of MPI-DHT.

mod create;
mod program;
mod statistics;

use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use core::time::Duration;
use std::path::Path;
use std::thread;
use std::time::Instant;

use probeline::map::{Location, Request};

use crate::call::{caught, path, put, room, slice};
use crate::handle::{Abandon, Handle};
use crate::map::MapInner;
use crate::mpi_dht_file;
use crate::operations::arguments;
use crate::status::{Error, probeline_outcome, probeline_status};
pub use create::probeline_dht_create;
pub use program::probeline_dht_rendezvous;
use statistics::{Accesses, Counts, EVICTIONS, MISSES, READS, Visible, WRITES};
pub use statistics::{
    probeline_dht_callback, probeline_dht_gather_accesses, probeline_dht_print_statistics,
};

const SUCCESS: c_int = 0;
const FAILED: c_int = -1;
const MISS: c_int = -2;
const NOT_IMPLEMENTED: c_int = -32;

/// The longest time for which an accumulating write tries again because other ranks change the same
/// key.
const ACCUMULATE_LIMIT: Duration = Duration::from_secs(60);

/// A table as programs of MPI-DHT have it.
#[repr(C)]
pub struct DHT {
    /// First, because the header declares only this.
    visible: Visible,
    table: Handle<Table>,
}

struct Table {
    map: MapInner,
    evicted: c_int,
    counts: Counts,
    /// The counts when the statistics were reset.
    reset_at: Counts,
    accesses: Option<Accesses>,
}

impl Abandon for Table {
    fn abandon(self) -> Option<Self> {
        self.map.abandon();
        None
    }
}

/// Why a function has failed, and the code that it returns.
pub(crate) struct Failure {
    pub(crate) code: c_int,
    pub(crate) error: Error,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { code: FAILED, error }
    }
}

/// Returns the code of `body`.
fn code(body: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    let result = caught(|| Ok(body())).unwrap_or_else(|error| Err(error.into()));
    result.unwrap_or_else(|Failure { code, error }| {
        error.report();
        code
    })
}

/// Returns the handle of a table.
///
/// # Safety
/// `table` is NULL or open.
unsafe fn handle<'t>(table: *mut DHT) -> Result<&'t Handle<Table>, Error> {
    if table.is_null() {
        return Err(Error::invalid("table is NULL"));
    }
    // SAFETY: the caller passes an open table (# Safety), not NULL by the check. The program accesses
    // only the members before the handle.
    Ok(unsafe { &(*table).table })
}

/// Runs a call on a table, and shows its counters.
///
/// # Safety
/// `table` is NULL or open.
unsafe fn with(table: *mut DHT, body: impl FnOnce(&mut Table) -> Result<c_int, Failure>) -> c_int {
    code(|| {
        // SAFETY: the caller passes NULL or an open table (# Safety).
        let handle = unsafe { handle(table) }?;
        let (result, counts, reset_at) =
            handle.with(|table| Ok((body(table), table.counts, table.reset_at)))?;
        // SAFETY: the caller passes an open table (# Safety); its handle belongs to this thread.
        unsafe { Visible::show(&raw mut (*table).visible, &counts, &reset_at) };
        result
    })
}

impl Table {
    /// Counts a write, and returns its code and its bucket.
    fn wrote(&mut self, key: &[u8], outcome: probeline_outcome) -> (c_int, Location) {
        use probeline_outcome::{PROBELINE_EVICTED, PROBELINE_INSERTED, PROBELINE_UPDATED};
        let is_stored =
            matches!(outcome, PROBELINE_INSERTED | PROBELINE_UPDATED | PROBELINE_EVICTED);
        let last = if is_stored { self.map.structure.last_put() } else { None };
        let at = last.unwrap_or_else(|| self.map.structure.first_candidate(key));
        self.counts[WRITES] += 1;
        if let Some(accesses) = &mut self.accesses {
            accesses.count(&at, is_stored);
        }
        if outcome != PROBELINE_EVICTED {
            return (SUCCESS, at);
        }
        self.counts[EVICTIONS] += 1;
        (self.evicted, at)
    }

    /// Counts a read, and returns its code.
    fn has_read(&mut self, outcome: probeline_outcome) -> c_int {
        self.counts[READS] += 1;
        if outcome == probeline_outcome::PROBELINE_FOUND {
            return SUCCESS;
        }
        self.counts[MISSES] += 1;
        MISS
    }
}

/// Stores the place of a bucket.
///
/// # Safety
/// `proc` and `index` are NULL or have room for a number.
unsafe fn put_place(at: &Location, proc: *mut u32, index: *mut u32) {
    // SAFETY: the caller passes NULL or places for numbers (# Safety).
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
        let pointers = (key.cast(), data, ptr::null_mut());
        // SAFETY: the program passes NULL or a key and a value of the map's sizes (# Safety).
        let (key, data, _) = unsafe { arguments(map, Request::Put(()), pointers, 1) }?;
        let outcome = map.structure.run(Request::Put(()), key, data, &mut [])?;
        let (code, at) = table.wrote(key, outcome);
        // SAFETY: the program passes `proc` and `index`, NULL or places for numbers (# Safety).
        unsafe { put_place(&at, proc, index) };
        Ok(code)
    };
    // SAFETY: the program passes NULL or an open table (# Safety).
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
        // SAFETY: the program passes an open table (# Safety); its handle belongs to this thread.
        let callback = unsafe { (*table).visible.accumulate_callback };
        let none =
            || Error::invalid("there is no callback: call DHT_set_accumulate_callback first");
        let callback = callback.ok_or_else(none)?;
        let map = &mut inner.map;
        // SAFETY: the program passes NULL or a key of the map's size (# Safety).
        let key = unsafe { slice(key.cast::<u8>(), map.options.key_bytes, "key") }?;
        let bytes = c_int::try_from(map.options.value_bytes).unwrap_or(c_int::MAX);
        let mut returned = 0;
        let mut change = |value: &mut [u8]| {
            // SAFETY: the program passes a callback that changes only the value, which is aligned (# Safety).
            returned = unsafe { callback(send_size, data, bytes, value.as_mut_ptr().cast()) };
            returned == 0
        };
        let begin = Instant::now();
        let outcome = loop {
            match map.structure.update(key, &mut change)? {
                probeline_outcome::PROBELINE_DROPPED if begin.elapsed() < ACCUMULATE_LIMIT => {
                    thread::yield_now();
                }
                outcome => break outcome,
            }
        };
        if outcome == probeline_outcome::PROBELINE_DROPPED {
            let text = "nothing was written, because other ranks changed the same key for a minute";
            return Err(Error::new(probeline_status::PROBELINE_ERROR_FAILED, text).into());
        }
        let (code, at) = inner.wrote(key, outcome);
        // SAFETY: the program passes NULL or places for numbers (# Safety).
        unsafe {
            put(callback_ret, returned);
            put_place(&at, proc, index);
        }
        Ok(code)
    };
    // SAFETY: the program passes NULL or an open table (# Safety).
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
        let pointers = (key.cast(), ptr::null(), destination);
        // SAFETY: the program passes NULL or a key of the map's size, and room for a value (# Safety).
        let (key, _, to) = unsafe { arguments(map, Request::Get, pointers, 1) }?;
        let outcome = map.structure.run(Request::Get, key, &[], to)?;
        if let Some(accesses) = &mut table.accesses {
            accesses.count(&map.structure.first_candidate(key), false);
        }
        Ok(table.has_read(outcome))
    };
    // SAFETY: the program passes NULL or an open table (# Safety).
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
        // SAFETY: the program passes NULL or room for a value (# Safety).
        let to = unsafe { room(destination.cast::<u8>(), map.options.value_bytes, "destination") }?;
        let outcome = map.structure.get_at(proc, index.into(), to)?;
        Ok(table.has_read(outcome))
    };
    // SAFETY: the program passes NULL or an open table (# Safety).
    unsafe { with(table, body) }
}

/// Frees a table; collective. Stores the evictions, the read misses, and the reads of words of different
/// times, of all ranks; zeros if it fails.
///
/// # Safety
/// `table` is NULL or open, and the others are NULL or have room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_dht_free(
    table: *mut DHT,
    evictions: *mut u64,
    misses: *mut u64,
    retries: *mut u64,
) -> c_int {
    code(|| {
        let counters = [evictions, misses, retries];
        // SAFETY: the program passes NULL or a place for a number (# Safety).
        counters.into_iter().for_each(|to| unsafe { put(to, 0) });
        // SAFETY: the program passes NULL or an open table (# Safety).
        let inner = unsafe { handle(table) }?.take_if(|_| Ok(()))?;
        // SAFETY: a box from `probeline_dht_create`, which the caller does not use again.
        drop(unsafe { Box::from_raw(table) });
        let lost = "the table is freed; an earlier call met a defect of the library, which lost its counts";
        let lost = || Error::new(probeline_status::PROBELINE_ERROR_PANIC, lost);
        let Table { map, counts, .. } = inner.ok_or_else(lost)?;
        let mine = [counts[EVICTIONS], counts[MISSES], map.structure.stats().failed_checks];
        let gathered = map.opened.gather("DHT_free", &mine);
        let closed = map.close("DHT_free");
        let all = gathered?;
        for (at, to) in counters.into_iter().enumerate() {
            // SAFETY: the program passes NULL or a place for a number (# Safety).
            unsafe { put(to, all.iter().skip(at).step_by(mine.len()).sum()) };
        }
        closed?;
        Ok(SUCCESS)
    })
}

/// Waits for all ranks; collective.
///
/// # Safety
/// `table` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_dht_barrier(table: *mut DHT) -> c_int {
    let body = |table: &mut Table| {
        table.map.opened.barrier("DHT_barrier")?;
        Ok(SUCCESS)
    };
    // SAFETY: the program passes NULL or an open table (# Safety).
    unsafe { with(table, body) }
}

/// Runs a call on a table and a file.
///
/// # Safety
/// `table` is NULL or open, and `name` is NULL or ends with NUL.
unsafe fn with_file(
    table: *mut DHT,
    name: *const c_char,
    body: fn(&mut MapInner, Result<&Path, Error>) -> Result<c_int, Failure>,
) -> c_int {
    let body = |table: &mut Table| {
        // SAFETY: the caller passes NULL or a text that ends with NUL (# Safety).
        body(&mut table.map, unsafe { path(name) })
    };
    // SAFETY: the caller passes NULL or an open table (# Safety).
    unsafe { with(table, body) }
}

/// Writes all entries to a file; collective.
///
/// # Safety
/// `table` is NULL or open, and `name` is NULL or ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_dht_to_file(table: *mut DHT, name: *const c_char) -> c_int {
    // SAFETY: the program passes NULL or an open table, and NULL or a text (# Safety).
    unsafe { with_file(table, name, mpi_dht_file::save) }
}

/// Writes the entries of a file to the table; collective.
///
/// # Safety
/// `table` is NULL or open, and `name` is NULL or ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_dht_from_file(table: *mut DHT, name: *const c_char) -> c_int {
    // SAFETY: the program passes NULL or an open table, and NULL or a text (# Safety).
    unsafe { with_file(table, name, mpi_dht_file::load) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ffi::CStr;
    use core::ptr;
    use std::ffi::CString;
    use std::process::Command;
    use std::sync::mpsc;

    use crate::status::probeline_last_error;

    /// Value that `DHT_from_file` and `DHT_to_file` return for a file that cannot be opened.
    const CANNOT_OPEN: c_int = -12;

    /// Creates a table of one rank.
    fn create() -> *mut DHT {
        // SAFETY: no rendezvous.
        let table = unsafe { probeline_dht_create(8, 8, 50, -5, 0, ptr::null()) };
        assert!(!table.is_null());
        table
    }

    fn last_error() -> String {
        // SAFETY: a text of this thread, and no call fails before it is copied.
        unsafe { CStr::from_ptr(probeline_last_error()) }.to_string_lossy().into_owned()
    }

    #[test]
    fn panic_zeroes_counts() {
        let table = create();
        let mut counts = [77; 3];
        let [evictions, misses, retries] = &mut counts;
        // SAFETY: an open table, which is not used again, and places for three numbers.
        unsafe {
            assert_eq!(with(table, |_| panic!("a test")), FAILED);
            assert_eq!(probeline_dht_free(table, evictions, misses, retries), FAILED);
        }
        assert!(last_error().contains("which lost its counts"), "{}", last_error());
        assert_eq!(counts, [0; 3]);
    }

    /// Opening a FIFO waits for a process at its other end, unless it is opened without waiting.
    #[test]
    fn refuses_fifo() {
        let path = std::env::temp_dir().join(format!("probeline-dht-{}", std::process::id()));
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let name = CString::new(path.to_str().unwrap()).unwrap();
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let table = create();
            for of_file in [probeline_dht_to_file, probeline_dht_from_file] {
                // SAFETY: an open table, and a text.
                let code = unsafe { of_file(table, name.as_ptr()) };
                sender.send((code, last_error())).unwrap();
            }
            // SAFETY: an open table, which is not used again; the counters may be NULL.
            let freed = unsafe {
                probeline_dht_free(table, ptr::null_mut(), ptr::null_mut(), ptr::null_mut())
            };
            assert_eq!(freed, SUCCESS);
        });
        for _ in 0..2 {
            let ended = receiver.recv_timeout(Duration::from_secs(60)).expect("a call that ends");
            assert_eq!(ended.0, CANNOT_OPEN);
            assert!(ended.1.ends_with("it is not a regular file"), "{}", ended.1);
        }
        std::fs::remove_file(path).unwrap();
    }
}
