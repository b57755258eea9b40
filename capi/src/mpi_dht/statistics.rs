//! Counters of a table, and the collective functions that show them.

use core::ffi::c_int;
use std::io::Write as _;

use probeline::map::Location;
use probeline::transport::Exchange;

use super::{DHT, NOT_IMPLEMENTED, SUCCESS, Table, with};
use crate::call::{room, slice};

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
        let all = map
            .opened
            .gather("DHT_print_statistics", [occupied, free, writes, reads, misses, evictions])?;
        counted?;
        table.reset_at = table.counts;
        if map.opened.rank == 0 {
            // Standard output may be closed; the ranks go on together.
            let _ = std::io::stdout().lock().write_all(statistics(&all).as_bytes());
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
        let bytes: Vec<u8> = mine.iter().flat_map(|count| count.to_ne_bytes()).collect();
        let gather = |(), exchange: &mut dyn Exchange| {
            let mut all = vec![0; bytes.len() * exchange.owners() as usize];
            exchange.all_gather(&bytes, &mut all)?;
            Ok((all, exchange.me().0, exchange.owners()))
        };
        let (all, me, ranks) = table.map.opened.collective(name, Ok(()), gather)?;
        if reset != 0 {
            mine.fill(0);
        }
        if me != 0 {
            return Ok(SUCCESS);
        }
        // SAFETY: the program passes, on rank 0, `rows` with a row for each rank (# Safety).
        let rows = unsafe { slice(rows, ranks as usize, "rows") }?;
        for (row, counts) in rows.iter().zip(all.chunks_exact(bytes.len().max(1))) {
            // SAFETY: the program passes rows with room for all counts (# Safety).
            let row = unsafe { room(*row, mine.len(), "a row") }?;
            for (to, count) in row.iter_mut().zip(counts.as_chunks().0) {
                to.write(u64::from_ne_bytes(*count));
            }
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
