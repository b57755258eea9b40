//! The sizes that the table of an exploration may have.

use probeline::pin::{Topology, memory_available};
use probeline::table::TreeConfig;
use probeline::transport::{Exchange, ExchangeError};

use super::Exploration;
use super::tables::StatesChoice;

/// The factor from the size of a table to that of the next one. Over a run the ranks then move at most
/// a third of the states that they find, and old and new table together take five quarters of the new
/// one's memory.
const FACTOR: u64 = 4;
/// The least size of a larger table, and of its part of each rank: smaller ones would grow again
/// within milliseconds, and their entries would not suffice for those that clients hold.
const MIN_SIZE: u64 = 1 << 20;
const MIN_PART: u64 = 1 << 16;
/// A larger table has at least five quarters of the size, or the move is not worth its time.
const MIN_GAIN: u64 = 4;

/// Memory that a rank leaves to others, in bytes.
const MIN_MEMORY: u64 = 16 << 20;

/// The bytes of the table of an exploration, and how they grew.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableSize<'e> {
    exploration: &'e Exploration,
    pub(super) now: u64,
    /// The number of times that the table grew, and the time that it took.
    pub(super) growths: u32,
    pub(super) growth_ns: u64,
}

/// The reason why the table cannot grow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// [`Exploration::max_table_bytes`].
    Asked(u64),
    /// The memory that the machines have available, less a quarter for the states to expand.
    Memory(u64),
    /// The net has no bound on its tokens, and there is no [`Exploration::max_table_bytes`]: any memory
    /// would be filled.
    Unbounded,
    /// A job has one engine over this transport.
    Transport,
    /// References between the nodes of trees reach no larger table.
    Trees(u64),
    /// The growth to this size has failed, for the reason given.
    Failed(u64, String),
}

/// The bytes of the largest table of trees.
pub const MAX_TREES_BYTES: u64 = 8 * TreeConfig::MAX_BUCKETS;

impl<'e> TableSize<'e> {
    pub(super) fn new(exploration: &'e Exploration) -> Self {
        Self { exploration, now: exploration.table_bytes, growths: 0, growth_ns: 0 }
    }

    /// Returns the bytes of memory that this rank has left for states outside the table, if it should end
    /// with states to expand of this many bytes. Until the next round, they may become twice as many, in a
    /// copy of them.
    pub(super) fn scarcity(&self, states: u64) -> Option<u64> {
        let available = memory_available()? / u64::from(self.exploration.ranks_here.max(1));
        is_scarce(available, states).then_some(available)
    }

    /// Returns the size of the next table, or why there is none. All ranks call it, and all get the
    /// same result, because they have the same exploration.
    pub(super) fn next(
        &self,
        exchange: &mut dyn Exchange,
    ) -> Result<Result<u64, Limit>, ExchangeError> {
        let &Exploration { ref net, grows, max_table_bytes, ranks, ranks_here, .. } =
            self.exploration;
        if !grows {
            return Ok(Err(Limit::Transport));
        }
        if max_table_bytes.is_none() && net.growth().is_some() {
            return Ok(Err(Limit::Unbounded));
        }
        // The pages of a table come from one pool.
        let here = largest_pool().map_or(u64::MAX, |bytes| bytes / u64::from(ranks_here.max(1)));
        let least = exchange.min(here / 4 * 3)?;
        Ok(self.within(least.saturating_mul(ranks.into()), max_table_bytes.unwrap_or(u64::MAX)))
    }

    /// Returns the limit that does not allow a larger table than this one.
    pub(super) fn limit_at(&self, size: u64) -> Limit {
        match self.exploration.max_table_bytes {
            Some(max) if max <= size => Limit::Asked(max),
            _ => Limit::Memory(size),
        }
    }

    fn within(&self, memory: u64, max: u64) -> Result<u64, Limit> {
        let (size, ranks) = (self.now, u64::from(self.exploration.ranks));
        let wanted = size.saturating_mul(FACTOR).max(MIN_SIZE).max(MIN_PART * ranks);
        let trees = self.exploration.states == StatesChoice::Tree;
        let reach = if trees { MAX_TREES_BYTES } else { u64::MAX };
        let possible = wanted.min(memory).min(max).min(reach);
        if possible >= size.saturating_add(size / MIN_GAIN) {
            return Ok(possible);
        }
        Err(if reach <= memory.min(max) {
            Limit::Trees(reach)
        } else if max < memory {
            Limit::Asked(max)
        } else {
            Limit::Memory(memory)
        })
    }
}

/// Returns the bytes of available memory, or those of free huge pages if they are more.
fn largest_pool() -> Option<u64> {
    let topology = Topology::from_sysfs("/sys".as_ref());
    let free = topology.map_or(0, |topology| topology.huge_bytes_free());
    Some(memory_available()?.max(free))
}

fn is_scarce(available: u64, states: u64) -> bool {
    available < MIN_MEMORY.saturating_add(states.saturating_mul(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::tests::exploration_of;
    use crate::petri::naive::net;

    #[test]
    fn states_leave_memory_to_others() {
        assert!(is_scarce(10 << 20, 0));
        assert!(!is_scarce(100 << 20, 10 << 20));
        assert!(is_scarce(100 << 20, 50 << 20));
        assert!(is_scarce(u64::MAX - 1, u64::MAX));
    }

    #[test]
    fn grows_up_to_limit() {
        let exploration = |states, ranks| exploration_of(net(&[1], &[]), states, ranks);
        let flat = exploration(StatesChoice::Flat, 2);
        let within = |size: u64, memory: u64, max: u64| {
            let table = TableSize { now: size << 20, ..TableSize::new(&flat) };
            table.within(memory << 20, max << 20).map(|size| size >> 20)
        };
        assert_eq!(within(32, 1000, 1000), Ok(128));
        assert_eq!(within(32, 100, 1000), Ok(100));
        assert_eq!(within(32, 1000, 40), Ok(40));
        assert_eq!(within(32, 1000, 39), Err(Limit::Asked(39 << 20)));
        assert_eq!(within(32, 20, 39), Err(Limit::Memory(20 << 20)));
        for (states, ranks, now, size) in [
            (StatesChoice::Flat, 2, 4096, Ok(1 << 20)),
            (StatesChoice::Flat, 64, 4096, Ok(4 << 20)),
            (StatesChoice::Tree, 2, 8 << 30, Ok(16 << 30)),
            (StatesChoice::Tree, 2, 16 << 30, Err(Limit::Trees(16 << 30))),
        ] {
            let exploration = exploration(states, ranks);
            let table = TableSize { now, ..TableSize::new(&exploration) };
            assert_eq!(table.within(1 << 40, u64::MAX), size);
        }
    }
}
