//! Files of maps.

use core::ffi::c_char;

use probeline::map::Loaded;

use crate::call::{path, put};
use crate::job::all_know;
use crate::map::{probeline_map, with};
use crate::map_state::Inner;
use crate::options::{self, Extensible};
use crate::status::{Error, probeline_status};

/// What probeline_map_load() has done, in the whole map.
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
unsafe impl Extensible for probeline_map_loaded {
    const DEFAULT: Self = Self {
        size: size_of::<Self>(),
        entries: 0,
        inserted: 0,
        evicted: 0,
        present: 0,
        dropped: 0,
    };
}

impl From<Loaded> for probeline_map_loaded {
    fn from(loaded: Loaded) -> Self {
        let Loaded { entries, inserted, evicted, present, dropped } = loaded;
        Self { size: size_of::<Self>(), entries, inserted, evicted, present, dropped }
    }
}

/// The calls, in what ranks agree on.
const SAVE: u64 = 3;
const LOAD: u64 = 4;

/// Checks that all ranks make this call with right arguments.
fn agree<R>(map: &Inner, call: u64, arguments: Result<R, Error>) -> Result<R, Error> {
    let arguments = all_know(&map.job, arguments)?;
    map.job.borrow_mut().agree(Some([call, 0, 0]))?;
    Ok(arguments)
}

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
    let body = |map: &mut Inner| {
        // SAFETY: by the contract.
        let name = agree(map, SAVE, unsafe { path(name) })?;
        let saved = map.cache.save(name, map.job.borrow_mut().exchange())?;
        // SAFETY: by the contract.
        unsafe { put(entries, saved) };
        Ok(())
    };
    // SAFETY: by the contract.
    unsafe { with(map, body) }
}

/// Loads the entries of a file that probeline_map_save() has written with any number of ranks and
/// buckets, but the same sizes of keys and values. A key that is there keeps its value. Stores what it
/// has done in a structure of `size` bytes, which is sizeof(probeline_map_loaded); `loaded` may be
/// NULL. If it fails, the map has some of the entries. Collective.
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
    let body = |map: &mut Inner| {
        // SAFETY: by the contract.
        let name = unsafe { path(name) };
        let has_room = if loaded.is_null() { Ok(()) } else { options::check(loaded, size) };
        let name = agree(map, LOAD, name.and_then(|name| has_room.map(|()| name)))?;
        let done = map.cache.load(name, map.job.borrow_mut().exchange())?;
        if loaded.is_null() {
            return Ok(());
        }
        // SAFETY: by the contract.
        unsafe { options::write(loaded, size, &done.into()) }
    };
    // SAFETY: by the contract.
    unsafe { with(map, body) }
}
