//! The members of a table that programs read: `probeline_dht.h` has the same structures.

use core::ffi::{c_int, c_uint, c_void};

use super::statistics::Counts;
use crate::map::MapInner;

/// Changes a stored value in place: bytes and place of what was sent, and of the value.
pub type probeline_dht_callback =
    Option<unsafe extern "C" fn(c_int, *mut c_void, c_int, *mut c_void) -> c_int>;

/// Counters since DHT_print_statistics() reset them.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct VisibleStats {
    w_access: c_int,
    r_access: c_int,
    read_misses: c_int,
    evictions: c_int,
}

/// Part of a table that a program sees. The program may read it at any time and sets the callback, so it is
/// accessed through pointers only.
#[repr(C)]
pub(super) struct Visible {
    key_size: c_uint,
    data_size: c_uint,
    bucket_count: c_uint,
    table_size: c_uint,
    evictions: c_int,
    read_misses: c_int,
    accumulate_callback: probeline_dht_callback,
    stats: *mut VisibleStats,
    rank: c_uint,
    ranks: c_uint,
    candidates: c_uint,
    own_stats: VisibleStats,
}

fn int(count: u64) -> c_int {
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

impl Visible {
    pub(super) fn new(map: &MapInner) -> Self {
        let size = |bytes: usize| c_uint::try_from(bytes).unwrap_or(c_uint::MAX);
        let buckets = c_uint::try_from(map.options.buckets_per_rank).unwrap_or(c_uint::MAX);
        Self {
            key_size: size(map.options.key_bytes),
            data_size: size(map.options.value_bytes),
            bucket_count: buckets,
            table_size: buckets,
            evictions: 0,
            read_misses: 0,
            accumulate_callback: None,
            stats: core::ptr::null_mut(),
            rank: map.opened.rank,
            ranks: map.opened.ranks,
            candidates: map.options.candidates,
            own_stats: VisibleStats::default(),
        }
    }

    /// Lets `stats` point to the counters beside it, at the place that the table keeps.
    ///
    /// # Safety
    /// `this` is valid.
    pub(super) unsafe fn point_to_stats(this: *mut Self) {
        // SAFETY: the caller passes a valid table, which no other thread uses (# Safety).
        unsafe { (*this).stats = &raw mut (*this).own_stats };
    }

    /// Shows counters: those since the table was created, and those since the last reset.
    ///
    /// # Safety
    /// `this` is valid, and no other thread uses it.
    pub(super) unsafe fn show(this: *mut Self, all: &Counts, recent: &Counts) {
        // SAFETY: the caller passes a valid table, which no other thread uses (# Safety).
        unsafe {
            (*this).evictions = int(all.evictions);
            (*this).read_misses = int(all.misses);
            (*this).own_stats = VisibleStats {
                w_access: int(recent.writes),
                r_access: int(recent.reads),
                read_misses: int(recent.misses),
                evictions: int(recent.evictions),
            };
        }
    }

    /// # Safety
    /// `this` is valid, and no other thread uses it.
    pub(super) unsafe fn callback(this: *const Self) -> probeline_dht_callback {
        // SAFETY: the caller passes a valid table, which no other thread uses (# Safety).
        unsafe { (*this).accumulate_callback }
    }
}
