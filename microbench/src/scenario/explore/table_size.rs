//! The sizes that the table of an exploration may have.

use probeline::pin::memory_available;
use probeline::table::TreeConfig;
use probeline::transport::Exchange;
use probeline_results::gather;

use super::ExploreArgs;
use super::states::StatesChoice;
use crate::cli::TransportName;
use crate::failure::Result;
use crate::machine::largest_pool;
use crate::size::Size;

/// How many times as large the next table is. Over a run the ranks then move at most a third of the
/// states that they find, and old and new table together take five quarters of the new one's memory.
const FACTOR: u64 = 4;
/// The least size of a larger table, and of its part of each rank: smaller ones would grow again
/// within milliseconds, and their entries would not suffice for those that clients hold.
const MIN_SIZE: u64 = 1 << 20;
const MIN_PART: u64 = 1 << 16;
/// A larger table has at least five quarters of the size, or the move is not worth its time.
const MIN_GAIN: u64 = 4;

/// Memory that a rank leaves to others, in bytes.
const MIN_MEMORY: u64 = 16 << 20;

/// The size of the table, and its upper limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableSize {
    pub(super) now: Size,
    most: Option<Size>,
    trees: bool,
    ranks: u64,
    ranks_here: u64,
    grows: bool,
}

/// Why the table cannot grow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// `--max-table-size`.
    Asked(Size),
    /// The memory that the machines have available, less a quarter for the states to expand.
    Memory(Size),
    /// The net has no bound on its tokens, and the user gave no `--max-table-size`: any memory would
    /// be filled.
    Unbounded,
    /// A job has one engine over this transport.
    Transport(TransportName),
    /// References between the nodes of trees reach no larger table.
    Trees(Size),
    /// The growth to this size has failed, for the reason given.
    Failed(Size, String),
}

/// The size of the largest table of trees.
pub(super) const MAX_TREES: Size = Size(8 * TreeConfig::MAX_BUCKETS);

/// Returns whether tables grow over this transport.
pub(super) fn grows(transport: TransportName) -> bool {
    !transport.is_mpi() && transport != TransportName::Sim
}

impl TableSize {
    pub(super) fn new(args: &ExploreArgs) -> Self {
        let ExploreArgs { job, max_table_size: most, states, .. } = args;
        let ranks = u64::from(job.ranks.max(1));
        Self {
            now: job.table_size,
            most: *most,
            trees: *states == StatesChoice::Tree,
            ranks,
            ranks_here: job.bytes_here(ranks).max(1),
            grows: grows(job.transport),
        }
    }

    /// Returns this rank's share of the memory available on its machine for states outside the
    /// table, in bytes; `None` if it is unknown.
    pub(super) fn memory_here(&self) -> Option<u64> {
        Some(memory_available()? / self.ranks_here)
    }

    /// Returns the size of the next table, or why there is none. All ranks call it, and all get the
    /// same result.
    pub(super) fn next(
        &self,
        transport: TransportName,
        is_unbounded: bool,
        exchange: &mut dyn Exchange,
    ) -> Result<core::result::Result<Size, Limit>> {
        if !self.grows {
            return Ok(Err(Limit::Transport(transport)));
        }
        if self.most.is_none() && is_unbounded {
            return Ok(Err(Limit::Unbounded));
        }
        // The pages of a table come from one pool.
        let here = largest_pool().map_or(u64::MAX, |bytes| bytes / self.ranks_here) / 4 * 3;
        let mine = [here, self.most.map_or(u64::MAX, |most| most.0)];
        let (mut memory, mut most) = (u64::MAX, u64::MAX);
        for [part, asked] in gather(exchange, mine)? {
            memory = memory.min(part.saturating_mul(self.ranks));
            most = most.min(asked);
        }
        Ok(self.within(memory, most))
    }

    /// Returns the limit that does not allow a larger table than this one.
    pub(super) fn limit_at(&self, size: Size) -> Limit {
        match self.most {
            Some(most) if most.0 <= size.0 => Limit::Asked(most),
            _ => Limit::Memory(size),
        }
    }

    fn within(&self, memory: u64, most: u64) -> core::result::Result<Size, Limit> {
        let Size(size) = self.now;
        let wanted = size.saturating_mul(FACTOR).max(MIN_SIZE).max(MIN_PART * self.ranks);
        let reach = if self.trees { MAX_TREES.0 } else { u64::MAX };
        let possible = wanted.min(memory).min(most).min(reach);
        if possible >= size.saturating_add(size / MIN_GAIN) {
            return Ok(Size(possible));
        }
        Err(if reach <= memory.min(most) {
            Limit::Trees(Size(reach))
        } else if most < memory {
            Limit::Asked(Size(most))
        } else {
            Limit::Memory(Size(memory))
        })
    }
}

/// Returns whether a rank with states to expand of this many bytes, and this many bytes of memory
/// available, should end. Until the next round, they may become twice as many, in a copy of them.
pub(super) fn is_scarce(available: u64, states: u64) -> bool {
    available < MIN_MEMORY.saturating_add(states.saturating_mul(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_leave_memory_to_others() {
        assert!(is_scarce(10 << 20, 0));
        assert!(!is_scarce(100 << 20, 10 << 20));
        assert!(is_scarce(100 << 20, 50 << 20));
        assert!(is_scarce(u64::MAX - 1, u64::MAX));
    }

    #[test]
    fn tables_grow_up_to_their_limits() {
        let table = |size| {
            let (most, trees, ranks, ranks_here, grows) = (None, false, 2, 2, true);
            TableSize { now: Size::mib(size), most, trees, ranks, ranks_here, grows }
        };
        let within = |size, memory, most| {
            table(size).within(Size::mib(memory).0, Size::mib(most).0).map(|size| size.0 >> 20)
        };
        assert_eq!(within(32, 1000, 1000), Ok(128));
        assert_eq!(within(32, 100, 1000), Ok(100));
        assert_eq!(within(32, 1000, 40), Ok(40));
        assert_eq!(within(32, 1000, 39), Err(Limit::Asked(Size::mib(39))));
        assert_eq!(within(32, 20, 39), Err(Limit::Memory(Size::mib(20))));
        let tiny = TableSize { now: Size(4096), ..table(0) };
        assert_eq!(tiny.within(u64::MAX, u64::MAX), Ok(Size::mib(1)));
        let many = TableSize { ranks: 64, ..tiny };
        assert_eq!(many.within(u64::MAX, u64::MAX), Ok(Size::mib(4)));
        let trees = |size| TableSize { trees: true, ..table(size) }.within(1 << 40, u64::MAX);
        assert_eq!(trees(8 << 10), Ok(Size::mib(16 << 10)));
        assert_eq!(trees(16 << 10), Err(Limit::Trees(Size::mib(16 << 10))));
    }
}
