//! Files of maps.

use core::ffi::c_char;

use probeline::map::Loaded;
use probeline::transport::Exchange;

use crate::call::{path, put};
use crate::map::{MapInner, probeline_map};
use crate::options::{self, Extensible, from_counts};
use crate::status::probeline_status;
use crate::structure::with;

/// Counts of probeline_map_load(), in the whole map.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct probeline_map_loaded {
    /// The size of this structure.
    pub size: usize,
    /// Entries of the file.
    pub entries: u64,
    /// Entries stored in places without an entry.
    pub inserted: u64,
    /// Entries stored in place of others, which are lost.
    pub evicted: u64,
    /// Entries whose keys were there already, and kept the values that they had.
    pub present: u64,
    /// Entries not stored, because ranks wrote at the same places.
    pub dropped: u64,
}

// SAFETY: repr(C); numbers, of which the first is the size.
unsafe impl Extensible for probeline_map_loaded {}

from_counts!(Loaded => probeline_map_loaded { entries, inserted, evicted, present, dropped });

/// Saves all entries to a file in a file system that all ranks share, and stores their number at
/// `entries`, which may be NULL. No rank writes to the map meanwhile. If it fails, an older file of this
/// name stays as it was. Collective.
///
/// # Safety
/// `map` is NULL or open, `name` is NULL or ends with NUL, and `entries` is NULL or has room for a
/// number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_map_save(
    map: *mut probeline_map,
    name: *const c_char,
    entries: *mut u64,
) -> probeline_status {
    let body = |MapInner { structure: cache, opened, .. }: &mut MapInner| {
        // SAFETY: the program passes NULL or a text that ends with NUL (# Safety).
        let name = unsafe { path(name) };
        let save = |name, exchange: &mut dyn Exchange| cache.save(name, exchange);
        let saved = opened.collective("probeline_map_save", name, save)?;
        // SAFETY: the program passes NULL or a place for a number (# Safety).
        unsafe { put(entries, saved) };
        Ok(())
    };
    // SAFETY: the program passes NULL or an open map (# Safety).
    unsafe { with(map, body) }
}

/// Checks that probeline_map_save() may write a file of this name, so that a wrong name is known before
/// the work whose results are saved. Creates `name`.partial and removes it. Collective.
///
/// # Safety
/// `map` is NULL or open, and `name` is NULL or ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_map_check_save(
    map: *mut probeline_map,
    name: *const c_char,
) -> probeline_status {
    let body = |MapInner { structure: cache, opened, .. }: &mut MapInner| {
        // SAFETY: the program passes NULL or a text that ends with NUL (# Safety).
        let name = unsafe { path(name) };
        let check = |name, exchange: &mut dyn Exchange| cache.check_save(name, exchange);
        opened.collective("probeline_map_check_save", name, check)
    };
    // SAFETY: the program passes NULL or an open map (# Safety).
    unsafe { with(map, body) }
}

/// Loads the entries of a file that probeline_map_save() or a program in Rust has written with any number
/// of ranks and buckets, but the same sizes of keys and values and the same `format`. A key that is
/// present keeps its value. Stores what it has done in a structure of `size` bytes, which is
/// sizeof(probeline_map_loaded); `loaded` may be NULL. If it fails, the map has some of the entries.
/// Collective.
///
/// # Safety
/// `map` is NULL or open, `name` is NULL or ends with NUL, and `loaded` is NULL or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_map_load(
    map: *mut probeline_map,
    name: *const c_char,
    loaded: *mut probeline_map_loaded,
    size: usize,
) -> probeline_status {
    let body = |MapInner { structure: cache, opened, .. }: &mut MapInner| {
        // SAFETY: the program passes NULL or a text that ends with NUL (# Safety).
        let name = unsafe { path(name) };
        let has_room = if loaded.is_null() { Ok(()) } else { options::check(loaded, size) };
        let arguments = name.and_then(|name| has_room.map(|()| name));
        let load = |name, exchange: &mut dyn Exchange| cache.load(name, exchange);
        let done = opened.collective("probeline_map_load", arguments, load)?;
        if loaded.is_null() {
            return Ok(());
        }
        // SAFETY: the program passes `loaded`, NULL or of `size` bytes (# Safety).
        unsafe { options::write(loaded, size, &done.into()) }
    };
    // SAFETY: the program passes NULL or an open map (# Safety).
    unsafe { with(map, body) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{probeline_job_close, probeline_job_open};
    use crate::job_options::{PROBELINE_TRANSPORT_SHM, probeline_job_options};
    use crate::map::{
        probeline_map_close, probeline_map_get, probeline_map_open, probeline_map_options,
        probeline_map_put,
    };
    use crate::options::Options;
    use crate::status::probeline_outcome;
    use core::ptr;
    use probeline::map::{Config, Map, Operation};
    use probeline::shm::{Builder, Engine};
    use probeline::transport::Alone;
    use probeline_status::{PROBELINE_ERROR_FILE as FILE, PROBELINE_OK as OK};
    use std::ffi::CString;

    type Key = [u64; 2];
    type Value = [f64; 3];
    type InRust = Map<Engine, Vec<Operation<Key, Value>>, Key, Value>;

    const FORMAT: u64 = 7;

    fn in_rust() -> InRust {
        let config = Config { format: FORMAT, ..Config::for_entries(100, 1) };
        let engine = Builder::new(config.sizes::<Key, Value>(4)).open(&mut Alone).unwrap();
        Map::open(engine, config, vec![Operation::EMPTY; 4], &mut Alone).unwrap()
    }

    /// Calls `body` with a map in C.
    fn in_c(format: u64, body: impl FnOnce(*mut probeline_map)) {
        let job_options = probeline_job_options {
            transport: PROBELINE_TRANSPORT_SHM,
            ..probeline_job_options::DEFAULT
        };
        let options = probeline_map_options {
            key_bytes: size_of::<Key>(),
            value_bytes: size_of::<Value>(),
            entries: 100,
            format,
            ..probeline_map_options::DEFAULT
        };
        let (mut job, mut map) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: valid options and places; the handles are open until they are closed here.
        unsafe {
            assert_eq!(probeline_job_open(&raw const job_options, &raw mut job), OK);
            assert_eq!(probeline_map_open(job, &raw const options, &raw mut map), OK);
            body(map);
            assert_eq!(probeline_map_close(map), OK);
            assert_eq!(probeline_job_close(job), OK);
        }
    }

    #[test]
    fn rust_and_c_exchange_files() {
        let path = std::env::temp_dir().join(format!("probeline-format-{}", std::process::id()));
        let name = CString::new(path.to_str().unwrap()).unwrap();
        let (key, from_rust, from_c): (Key, Value, Value) = ([3, 4], [0.5; 3], [2.5; 3]);
        let load = |map| {
            // SAFETY: an open map, and a text.
            unsafe { probeline_map_load(map, name.as_ptr(), ptr::null_mut(), 0) }
        };

        let mut map = in_rust();
        map.put(&key, &from_rust).unwrap();
        map.save(&path, &mut Alone).unwrap();
        in_c(0, |map| assert_eq!(load(map), FILE));
        in_c(FORMAT, |map| {
            assert_eq!(load(map), OK);
            let (mut found, mut outcome) = (Value::default(), probeline_outcome::PROBELINE_ABSENT);
            let (key, value) = (key.as_ptr().cast(), from_c.as_ptr().cast());
            // SAFETY: an open map, and keys, values and outcomes of its sizes.
            unsafe {
                let to = (&raw mut found).cast();
                assert_eq!(probeline_map_get(map, key, to, &raw mut outcome), OK);
                assert_eq!(probeline_map_put(map, key, value, ptr::null_mut()), OK);
                assert_eq!(probeline_map_save(map, name.as_ptr(), ptr::null_mut()), OK);
            }
            assert_eq!((outcome, found), (probeline_outcome::PROBELINE_FOUND, from_rust));
        });
        let mut map = in_rust();
        assert_eq!(map.load(&path, &mut Alone).unwrap().inserted, 1);
        assert_eq!(map.get(&key).unwrap(), Some(from_c));
        std::fs::remove_file(path).unwrap();
    }
}
