//! Counters of a table, the members of it that programs read, and the collective functions that show counters:
//! `probeline_dht.h` has the same structures.

use core::ffi::{c_int, c_uint, c_void};
use core::{array, ptr};
use std::io::Write as _;

use probeline::map::Location;

use super::{DHT, NOT_IMPLEMENTED, SUCCESS, Table, with};
use crate::call::{room, slice};
use crate::job::Opened;
use crate::map::MapInner;

/// The numbers that ranks gather for the statistics.
const NUMBERS: usize = 6;

/// Counters of a table: writes, reads, misses of reads, and evictions.
pub(super) type Counts = [u64; 4];

/// Places of the counters.
pub(super) const WRITES: usize = 0;
pub(super) const READS: usize = 1;
pub(super) const MISSES: usize = 2;
pub(super) const EVICTIONS: usize = 3;

/// Returns what was counted between two states.
fn between(before: &Counts, after: &Counts) -> Counts {
    array::from_fn(|at| after[at] - before[at])
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
    pub(super) stats: *mut [c_int; 4],
    rank: c_uint,
    ranks: c_uint,
    candidates: c_uint,
    /// The counters since DHT_print_statistics() has reset them.
    pub(super) own_stats: [c_int; 4],
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
            own_stats: [0; 4],
        }
    }

    /// Shows the counters.
    ///
    /// # Safety
    /// `this` is valid, and no other thread uses it.
    pub(super) unsafe fn show(this: *mut Self, counts: &Counts, reset_at: &Counts) {
        // SAFETY: the caller passes a valid table, which no other thread uses (# Safety).
        unsafe {
            (*this).evictions = int(counts[EVICTIONS]);
            (*this).read_misses = int(counts[MISSES]);
            (*this).own_stats = between(reset_at, counts).map(int);
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
        // Every rank takes part in the gathering, even if its own count fails.
        let mut occupied = 0;
        let counted = map.structure.for_each_local(&mut |_, _| occupied += 1);
        let free = map.options.buckets_per_rank.saturating_sub(occupied);
        let [writes, reads, misses, evictions] = between(&table.reset_at, &table.counts);
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
    let sums = array::from_fn(|at| all.iter().filter_map(|rank| rank.get(at)).sum());
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
