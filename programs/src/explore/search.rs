//! The breadth-first search: rounds in which ranks expand states of one level, then exchange their
//! progress.

use std::time::Instant;

use probeline::table::Outcome;
use probeline::transport::{Exchange, Owner};

use super::counterexample::{Levels, Verdict};
use super::expansion::{Counts, Expansion, Stop};
use super::frontier::Frontier;
use super::property::{Findings, Property, Violation};
use super::table_size::{self, Limit, TableSize};
use super::tables::{Opened, StateKind, TableStats};
use super::{Exploration, Host, Progress};
use crate::petri::{Expander, Overflow, Packing, PackingError, Successors};
use crate::{Error, gather};

/// Time that ranks expand states before they exchange their progress: a tenth of a second, and more
/// with many ranks, whose exchange takes longer.
const ROUND_NS: u64 = 100_000_000;
const ROUND_NS_PER_RANK: u64 = 1_000_000;

/// Results of a search that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Counters of states and edges.
    pub counts: Counts,
    /// Counters of all tables so far.
    pub stats: TableStats,
    /// States that were found and not expanded.
    pub open: u64,
    /// The reason why it ended.
    pub ending: Ending,
    /// The verdict on each property.
    pub verdicts: Vec<Verdict>,
}

/// The reason why a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All states were expanded.
    Complete,
    /// All properties are violated.
    Answered,
    /// A rank has stopped, with this number of [`Host::stop`].
    Stopped(u64),
    /// The table or a state had no room, after a property was violated.
    OutOfRoom(Box<OutOfRoom>),
}

/// The reason why a search could not go on, and its results until then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room for more states after {states} states in {levels} complete levels")]
pub struct OutOfRoom {
    /// States that it had found.
    pub states: u64,
    /// Levels of which all states were expanded.
    pub levels: u64,
    /// The structure that had no room.
    pub reason: Reason,
}

/// The structure that had no room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The table, which could not grow.
    Table {
        /// Words of a state.
        words: usize,
        /// Bytes of the table.
        bytes: u64,
        /// The reason why it did not grow.
        limit: Limit,
    },
    /// A rank, which holds states outside the table.
    Memory {
        /// Bytes that it had left.
        available: u64,
        /// Whether all states found are kept, for the sake of properties.
        keeps_levels: bool,
    },
    /// The packed state, which lacks bits for the tokens of a place.
    State {
        /// The tokens without room.
        overflow: Overflow,
        /// The reason why no packing holds them.
        error: PackingError,
    },
}

/// The reason why a search returns.
pub(super) enum Pause {
    Ended(Box<Ended>),
    /// A marking does not fit the packing: the search has to start again with this one.
    Restart(Packing),
    /// The search goes on with a table of this size.
    Grow(u64),
}

/// A search of all states that are reachable from the initial marking, until all properties are
/// violated.
pub(super) struct Search<'a, const W: usize> {
    exploration: &'a Exploration,
    packing: &'a Packing,
    expansion: Expansion<'a, W>,
    frontier: Frontier<W>,
    counts: Counts,
    /// Counters of this rank, in all tables so far.
    stats: TableStats,
    /// The last round; none before the first.
    round: Option<Round>,
    /// States of all levels up to the current one.
    states: u64,
    /// The reason why the table does not grow any more.
    limit: Option<Limit>,
    /// Whether a growth has failed; the search does not try again.
    has_failed_to_grow: bool,
    /// Whether the net is known to have no bound on its tokens; none before it was asked.
    is_unbounded: Option<bool>,
    start: Instant,
}

impl<'a, const W: usize> Search<'a, W> {
    pub(super) fn new(exploration: &'a Exploration, packing: &'a Packing) -> Self {
        let written = match exploration.all_successors {
            true => Successors::All,
            false => Successors::Needed,
        };
        let expander = Expander::new(&exploration.net, packing, written);
        let findings = Findings::new(&exploration.properties, packing);
        Self {
            exploration,
            packing,
            frontier: Frontier::new(findings.is_open()),
            expansion: Expansion::new(expander, exploration, findings),
            counts: Counts::default(),
            stats: TableStats::default(),
            round: None,
            states: 0,
            limit: None,
            has_failed_to_grow: false,
            is_unbounded: None,
            start: Instant::now(),
        }
    }

    /// Begins a search, with an empty table, or continues it, with the states found so far in the
    /// table. All ranks call it, and it returns for the same reason on all of them.
    pub(super) fn run<K: StateKind<W>>(
        &mut self,
        table: &mut Opened<'_, K>,
        size: &TableSize,
        host: &mut dyn Host,
        exchange: &mut dyn Exchange,
    ) -> Result<Pause, Error> {
        let earlier = self.stats;
        let mut round = match self.round.take() {
            Some(round) => round,
            None => {
                let stop = self.put_initial::<K>(table, exchange)?;
                let round = self.end_round(stop.as_ref(), host, exchange)?;
                if round.full
                    && let Some(pause) =
                        self.after(&round, K::grow_at(table), size, host, exchange)?
                {
                    return Ok(pause);
                }
                round
            }
        };
        let round_ns = ROUND_NS + ROUND_NS_PER_RANK * u64::from(exchange.owners());
        loop {
            if round.has_level() {
                self.states += round.found();
                self.frontier.spread(&mut **table.transport_mut()?, &round.found, exchange)?;
            }
            let (frontier, counts) = (&mut self.frontier, &mut self.counts);
            let stop = self.expansion.expand::<K>(table, frontier, counts, round_ns)?;
            let stop = stop.or_else(|| self.scarcity(size));
            self.stats = earlier.plus(&K::table_stats(table));
            round = self.end_round(stop.as_ref(), host, exchange)?;
            if let Some(pause) = self.after(&round, K::grow_at(table), size, host, exchange)? {
                self.round = Some(round);
                return Ok(pause);
            }
        }
    }

    /// Exchanges the progress of all ranks, of which this one stopped for this reason.
    fn end_round(
        &self,
        stop: Option<&Stop>,
        host: &dyn Host,
        exchange: &mut dyn Exchange,
    ) -> Result<Round, Error> {
        /// The place of a rank without an overflow, the transition of a marking not fired, and the
        /// memory left of a rank that has enough.
        const NONE: u64 = u64::MAX;
        let [full, place, tokens, transition, scarce] = match stop {
            Some(Stop::Full) => [1, NONE, 0, NONE, NONE],
            Some(Stop::Overflow(Overflow { place, tokens, transition })) => {
                [0, *place as u64, *tokens, transition.map_or(NONE, u64::from), NONE]
            }
            Some(Stop::OutOfMemory(available)) => [0, NONE, 0, NONE, *available],
            None => [0, NONE, 0, NONE, NONE],
        };
        let (found, open) = (self.frontier.found(), self.frontier.open());
        let inner_nodes = self.stats.nodes.inner_inserted;
        let mine = [found, open, inner_nodes, full, place, tokens, transition, scarce, host.stop()];
        let all = gather(exchange, mine)?;
        let of_all = |at: usize| all.iter().map(move |of_rank| of_rank[at]);
        let overflow = match all.iter().find(|of_rank| of_rank[4] != NONE) {
            Some(&[_, _, _, _, place, tokens, transition, ..]) => Some(Overflow {
                place: usize::try_from(place)?,
                tokens,
                transition: u32::try_from(transition).ok(),
            }),
            None => None,
        };
        Ok(Round {
            found: of_all(0).collect(),
            open: of_all(1).sum(),
            inner_nodes: of_all(2).sum(),
            full: of_all(3).any(|full| full != 0),
            overflow,
            scarce: of_all(7).filter(|bytes| *bytes != NONE).min(),
            stop: of_all(8).find(|number| *number != 0),
        })
    }

    /// Returns why this rank cannot hold more states beside the table.
    fn scarcity(&self, size: &TableSize) -> Option<Stop> {
        let available = size.memory_here()?;
        table_size::is_scarce(available, self.frontier.bytes())
            .then_some(Stop::OutOfMemory(available))
    }

    /// Puts the initial state in the table, on rank 0, unless the table has no room for it.
    fn put_initial<K: StateKind<W>>(
        &mut self,
        table: &mut Opened<'_, K>,
        exchange: &dyn Exchange,
    ) -> Result<Option<Stop>, Error> {
        if exchange.me() != Owner(0) {
            return Ok(None);
        }
        let state = self.packing.pack(&self.exploration.net.initial());
        let state = state.map_err(|error| {
            Error::Parameter(format!("the initial marking does not fit: {error}"))
        })?;
        self.counts.find_or_puts += 1;
        if table.find_or_put(K::key(&state))? == Outcome::Full {
            return Ok(Some(Stop::Full));
        }
        self.frontier.push(state);
        self.counts.states = 1;
        Ok(None)
    }

    /// Decides how to go on after a round. All ranks have the same round.
    fn after(
        &mut self,
        round: &Round,
        grow_at: u64,
        size: &TableSize,
        host: &mut dyn Host,
        exchange: &mut dyn Exchange,
    ) -> Result<Option<Pause>, Error> {
        let (held, open) = (self.states + round.found(), round.open + round.found());
        let levels = self.counts.levels;
        let elapsed = self.start.elapsed();
        host.show(Progress::Level { level: levels + 1, states: held, open, elapsed });
        let is_complete = open == 0 && !round.full && round.overflow.is_none();
        let mut larger = None;
        let out_of_room = match round.overflow {
            Some(overflow) => match self.packing.grown(&self.exploration.net, overflow) {
                Ok(grown) => return Ok(Some(Pause::Restart(grown))),
                Err(error) => Some(Reason::State { overflow, error }),
            },
            None if is_complete || round.stop.is_some() => None,
            None if let Some(available) = round.scarce => {
                Some(Reason::Memory { available, keeps_levels: self.frontier.keeps_levels() })
            }
            None => {
                let is_crowded = held + round.inner_nodes > grow_at && self.limit.is_none();
                if (round.full || is_crowded) && !self.has_failed_to_grow {
                    let net = &self.exploration.net;
                    let is_unbounded =
                        *self.is_unbounded.get_or_insert_with(|| net.growth().is_some());
                    match size.next(is_unbounded, exchange)? {
                        Ok(next) => {
                            host.show(Progress::Grow { bytes: next, states: held });
                            (larger, self.limit) = (Some(next), None);
                        }
                        Err(limit) => self.limit = Some(limit),
                    }
                }
                let limit = self.limit.as_ref().filter(|_| round.full && larger.is_none());
                let words = self.packing.words();
                limit.cloned().map(|limit| Reason::Table { words, bytes: size.now, limit })
            }
        };
        let out_of_room =
            out_of_room.map(|reason| Box::new(OutOfRoom { states: held, levels, reason }));
        let stops = out_of_room.is_some() || round.stop.is_some();
        if stops || round.has_level() {
            self.expansion.findings.gather(levels, exchange)?;
        }
        self.counts.levels += u64::from(round.has_level());
        let findings = &self.expansion.findings;
        let ending = match (out_of_room, round.stop) {
            (None, _) if is_complete => Ending::Complete,
            _ if findings.are_complete() => Ending::Answered,
            // A counterexample is a result, whatever ends the search.
            (Some(reason), _) if findings.has_violation() => Ending::OutOfRoom(reason),
            (Some(reason), _) => return Err(Error::OutOfRoom(reason)),
            (None, Some(number)) => Ending::Stopped(number),
            (None, None) => return Ok(larger.map(Pause::Grow)),
        };
        Ok(Some(Pause::Ended(Box::new(self.ended(ending, open, exchange)?))))
    }

    /// Lets the search go on in its table until that is full, because the table cannot grow.
    pub(super) fn stop_growing(&mut self, limit: Limit) {
        self.limit = Some(limit);
        self.has_failed_to_grow = true;
    }

    fn ended(
        &mut self,
        ending: Ending,
        open: u64,
        exchange: &mut dyn Exchange,
    ) -> Result<Ended, Error> {
        let (exploration, packing) = (self.exploration, self.packing);
        let levels = self.frontier.take_levels(|node| self.expansion.state(node));
        let violations = &self.expansion.findings.violations;
        let levels = Levels { net: &exploration.net, packing, states: &levels };
        let verdict = |(property, violation): (&Property, &Option<Violation>)| {
            levels.verdict(property, violation.as_ref(), ending == Ending::Complete, exchange)
        };
        let verdicts = exploration.properties.iter().zip(violations).map(verdict);
        let verdicts = verdicts.collect::<Result<_, Error>>()?;
        Ok(Ended { counts: self.counts, stats: self.stats, open, ending, verdicts })
    }
}

/// The progress of all ranks at the end of a round, the same on every rank.
struct Round {
    /// States of the next level that each rank has found.
    found: Vec<u64>,
    open: u64,
    /// Inner nodes of states in trees.
    inner_nodes: u64,
    full: bool,
    overflow: Option<Overflow>,
    /// The least memory in bytes that a rank without enough of it has left.
    scarce: Option<u64>,
    /// The number with which a rank stops.
    stop: Option<u64>,
}

impl Round {
    fn found(&self) -> u64 {
        self.found.iter().sum()
    }

    /// Returns whether a whole level was expanded, or none yet. A rank whose table was full may have
    /// successors of the level's last states to look up again.
    fn has_level(&self) -> bool {
        self.open == 0 && !self.full
    }
}
