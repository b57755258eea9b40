//! Counters of a table, the members of it that programs read, and the collective functions that show counters:
//! `probeline_dht.h` has the same structures.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr;
use std::io::Write as _;

use probeline::map::Location;

use super::{DHT, NOT_IMPLEMENTED, SUCCESS, Table, with};
use crate::call::{room, slice};
use crate::job::Opened;
use crate::map::MapInner;

/// The numbers that ranks gather for the statistics.
const NUMBERS: usize = 6;

/// Counters of a table.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) writes: u64,
    pub(super) reads: u64,
    pub(super) misses: u64,
    pub(super) evictions: u64,
}

impl Counts {
    /// Returns the counts from these on.
    pub(super) fn until(&self, now: &Self) -> Self {
        Self {
            writes: now.writes - self.writes,
            reads: now.reads - self.reads,
            misses: now.misses - self.misses,
            evictions: now.evictions - self.evictions,
        }
    }
}

/// How often this rank accessed each rank, and wrote to the first, second ... candidate of a key.
pub(super) struct Accesses {
    ranks: Vec<u64>,
    candidates: Vec<u64>,
}

impl Accesses {
    pub(super) fn new(ranks: u32, candidates: u32) -> Self {
        Self { ranks: vec![0; ranks as usize], candidates: vec![0; candidates as usize] }
    }

    /// Counts an access, which is a write to this bucket if it `writes`.
    pub(super) fn count(&mut self, at: &Location, writes: bool) {
        if let Some(count) = self.ranks.get_mut(at.owner.0 as usize) {
            *count += 1;
        }
        if let (true, Some(count)) = (writes, self.candidates.get_mut(at.candidate as usize)) {
            *count += 1;
        }
    }
}

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
    pub(super) accumulate_callback: probeline_dht_callback,
    pub(super) stats: *mut VisibleStats,
    rank: c_uint,
    ranks: c_uint,
    candidates: c_uint,
    pub(super) own_stats: VisibleStats,
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
            stats: ptr::null_mut(),
            rank: map.opened.rank,
            ranks: map.opened.ranks,
            candidates: map.options.candidates,
            own_stats: VisibleStats::default(),
        }
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
        let counted = map.structure.for_each_local(&mut |_, _| occupied += 1);
        let free = map.options.buckets_per_rank.saturating_sub(occupied);
        let Counts { writes, reads, misses, evictions } = table.reset_at.until(&table.counts);
        let mine = [occupied, free, writes, reads, misses, evictions];
        let all = map.opened.gather("DHT_print_statistics", &mine)?;
        counted?;
        table.reset_at = table.counts;
        if map.opened.rank == 0 {
            // Standard output may be closed; the ranks go on together.
            let _ = std::io::stdout().lock().write_all(statistics(all.as_chunks().0).as_bytes());
        }
        Ok(SUCCESS)
    };
    // SAFETY: the program passes NULL or an open table (# Safety).
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
        let (name, mine) = match by_candidate {
            0 => ("DHT_gather_distribution", &mut accesses.ranks),
            _ => ("DHT_gather_index_usage", &mut accesses.candidates),
        };
        let Opened { rank, ranks, .. } = table.map.opened;
        let all = table.map.opened.gather(name, mine)?;
        // SAFETY: the program passes, on rank 0, `rows` with a row for each rank (# Safety).
        let rows = unsafe { slice(rows, if rank == 0 { ranks as usize } else { 0 }, "rows") }?;
        for (row, counts) in rows.iter().zip(all.chunks_exact(mine.len().max(1))) {
            // SAFETY: the program passes rows with room for all counts (# Safety).
            unsafe { room(*row, mine.len(), "a row") }?.write_copy_of_slice(counts);
        }
        if reset != 0 {
            mine.fill(0);
        }
        Ok(SUCCESS)
    };
    // SAFETY: the program passes NULL or an open table (# Safety).
    unsafe { with(table, body) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_with_sums() {
        let text = statistics(&[[1, 2, 3, 4, 5, 6], [10, 20, 30, 40, 50, 60]]);
        let last: Vec<_> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(last, ["sum", "11", "22", "33", "44", "55", "66"]);
    }
}
