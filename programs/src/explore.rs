//! Explores the reachable states of a Petri net breadth first. The table is the set of visited states,
//! which is the use that its paper designed it for (section 1).

mod counterexample;
mod expansion;
mod frontier;
mod property;
mod search;
mod table_size;
mod tables;
#[cfg(test)]
mod tests;

use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;

use probeline::table::Config;
use probeline::transport::{Exchange, Sizes};

pub use self::counterexample::Verdict;
pub use self::expansion::Counts;
pub use self::property::{NO_DEADLOCK, Property};
use self::search::Search;
pub use self::search::{Ending, OutOfRoom, Reason};
use self::table_size::TableSize;
pub use self::table_size::{Limit, MAX_TREES_BYTES};
use self::tables::States;
pub use self::tables::{Engine, MoveContent, Moved, StatesChoice, TableStats};
use crate::petri::{Net, Packing};
use crate::{Error, Timed};

/// The options of an exploration. All ranks give the same: ranks decide from them, without asking each
/// other, whether a table grows and when a search ends.
#[derive(Debug)]
pub struct Exploration {
    /// The Petri net whose markings are explored.
    pub net: Net,
    /// The first packing of its markings, in one of the [`StatesChoice::widths`].
    pub packing: Packing,
    /// Properties to check in each state. The exploration ends once all are violated.
    pub properties: Vec<Property>,
    /// The layout of states in the table.
    pub states: StatesChoice,
    /// The table of states of one word; its size follows from `table_bytes`.
    pub config: Config,
    /// Lookups in flight of each rank.
    pub in_flight: u32,
    /// Entries of each rank's cache of buckets with states of one word.
    pub cache_entries: u32,
    /// Successors that one batch call looks up, rounded up to whole states; 1 makes single calls.
    pub batch: u32,
    /// Most recent states that a rank remembers, to skip their lookups: a power of two, or 0.
    pub recent_states: u32,
    /// Whether successors are looked up to which another state of the same or an earlier level leads.
    pub all_successors: bool,
    /// Ranks of the job.
    pub ranks: u32,
    /// Ranks on each machine.
    pub ranks_here: u32,
    /// Bytes of the table of all ranks at first.
    pub table_bytes: u64,
    /// Bytes up to which it grows, the same on all ranks; without them, three quarters of the memory
    /// available.
    pub max_table_bytes: Option<u64>,
    /// Whether it grows: [`Engine::grow`] opens further engines.
    pub grows: bool,
}

/// The result of an exploration.
#[derive(Clone, Debug)]
pub struct Explored {
    /// Counters of states and edges in the last search; all but the levels are sums over all ranks.
    pub counts: Counts,
    /// Counters of all its tables.
    pub stats: TableStats,
    /// States that were found and not expanded.
    pub open: u64,
    /// The reason why it ended.
    pub ending: Ending,
    /// The verdict on each property.
    pub verdicts: Vec<Verdict>,
    /// States that the busiest rank expanded.
    pub busiest: u64,
    /// Time by the clock of this rank.
    pub took_ns: u64,
    /// The number of times that the table grew, and the time that it took.
    pub growths: u32,
    /// Time of all growths.
    pub growth_ns: u64,
    /// Bytes of the last table.
    pub table_bytes: u64,
    /// Buckets of the last table.
    pub buckets: u64,
    /// Occupied buckets.
    pub occupied: u64,
    /// Bytes of a state in the last table, beside its bucket.
    pub entry_bytes: u64,
    /// Words of a state in the last table.
    pub words: usize,
    /// Bits of a packed state.
    pub bits: u32,
}

/// The current phase of a search.
#[derive(Clone, Copy, Debug)]
pub enum Progress {
    /// It expands a level.
    Level {
        /// The number of the level, from 1.
        level: u64,
        /// States found.
        states: u64,
        /// States to expand.
        open: u64,
        /// Time since the exploration began.
        elapsed: Duration,
    },
    /// The table grows.
    Grow {
        /// Bytes of the next table.
        bytes: u64,
        /// States to move.
        states: u64,
    },
}

/// The caller of an exploration, which it asks and tells.
pub trait Host {
    /// Returns a number other than 0 if the exploration shall stop. Ranks agree on one of their numbers.
    fn stop(&self) -> u64;

    /// Shows what this rank is doing.
    fn show(&mut self, progress: Progress);

    /// Returns the configuration with which to open a table on this engine, together with the other ranks.
    ///
    /// # Errors
    /// [`Error`], with which the exploration fails.
    fn configure(
        &mut self,
        engine: &mut dyn Timed,
        config: Config,
        exchange: &mut dyn Exchange,
    ) -> Result<Config, Error>;
}

/// Explores together with all other ranks. The windows of the engine, which has [`Exploration::sizes`], are 0.
///
/// # Errors
/// [`Error::OutOfRoom`] if no property was violated before; or the table cannot be opened, an operation or a
/// rank failed.
pub fn run(
    exploration: &Exploration,
    engine: &mut dyn Engine,
    host: &mut dyn Host,
    exchange: &mut dyn Exchange,
) -> Result<Explored, Error> {
    let start_ns = engine.current().now_ns();
    let mut size = TableSize::new(exploration);
    let mut packing = exploration.packing.clone();
    // Each search but the first has a wider field than the one before, so the number of bits bounds
    // the number of searches.
    loop {
        let search = Search::new(exploration, &packing, start_ns, &mut size, host);
        packing = match search.run(engine, exchange)? {
            Ok(explored) => return Ok(explored),
            Err(grown) => grown,
        };
        // The next search starts with an empty table, and maybe with other words.
        exchange.barrier()?;
        engine.current().window().iter().for_each(|word| word.store(0, Relaxed));
        exchange.barrier()?;
    }
}

impl Exploration {
    /// Returns the sizes of the first engine.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        self.sizes_of(self.table_bytes)
    }

    /// Returns the configuration of the buckets of a table of this size, of states of this number of words.
    #[must_use]
    pub fn buckets(&self, words: usize, bytes: u64) -> Config {
        self.sizes_of_words(words, bytes).0
    }

    /// Returns what is compiled for states of this number of words.
    fn states(&self, words: usize) -> &'static States {
        let all = self.states.all();
        let found = all.iter().find(|states| states.words == words);
        found.unwrap_or(&all[0])
    }

    fn sizes_of_words(&self, words: usize, bytes: u64) -> (Config, Sizes) {
        (self.states(words).sizes)(self.config_of(bytes), self.in_flight)
    }

    /// Returns the sizes of engines for a table of this size.
    fn sizes_of(&self, bytes: u64) -> Sizes {
        let now = self.packing.words();
        // A packing that overflows may need more words.
        let may_be = |&words: &usize| words == now || words > now && self.packing.may_overflow();
        let words = self.states.all().iter().map(|states| states.words);
        let least = Sizes { window_words: 0, slots: 0, slot_words: 0, depth: frontier::READS };
        let table = words.filter(may_be).fold(least, |all, words| {
            let (_, sizes) = self.sizes_of_words(words, bytes);
            Sizes {
                window_words: all.window_words.max(sizes.window_words),
                slots: all.slots.max(sizes.slots),
                slot_words: all.slot_words.max(sizes.slot_words),
                depth: all.depth.max(sizes.depth),
            }
        });
        table.plus(frontier::SIZES)
    }

    /// Returns the configuration of a table of this size, of states of one word: whole lines of 8 buckets.
    fn config_of(&self, bytes: u64) -> Config {
        let buckets_per_owner = bytes / 8 / u64::from(self.ranks.max(1)) / 8 * 8;
        Config { buckets_per_owner, ..self.config }
    }
}
