//! The breadth-first search: rounds in which ranks expand states of one level, then exchange their
//! progress.

use core::time::Duration;

use probeline::table::{CollectiveError, Outcome};
use probeline::transport::{Exchange, Owner};

use super::counterexample::{Levels, Verdict};
use super::expansion::{Counts, Expand, Stop};
use super::frontier::Frontier;
use super::property::Findings;
use super::table_size::{Limit, TableSize};
use super::tables::{Engine, Opening, StateTable, States, TableStats};
use super::{Exploration, Explored, Host, Progress};
use crate::petri::{Overflow, Packing, PackingError};
use crate::{Error, Timed, gather_values};

/// Time that ranks expand states before they exchange their progress: a tenth of a second, and more
/// with many ranks, whose exchange takes longer.
const ROUND_NS: u64 = 100_000_000;
const ROUND_NS_PER_RANK: u64 = 1_000_000;

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

/// The reason why the search in a table ends.
enum Pause {
    /// With this number of states that were found and not expanded.
    Ended(Ending, u64),
    /// A marking does not fit the packing: the search has to start again with this one.
    Restart(Packing),
    /// The search goes on with a table of this size.
    Grow(u64),
}

/// A search of all states that are reachable from the initial marking, until all properties are
/// violated.
pub(super) struct Search<'a, 'e> {
    exploration: &'a Exploration,
    host: &'a mut dyn Host,
    packing: &'a Packing,
    states: &'static States,
    size: &'a mut TableSize<'e>,
    expansion: Box<dyn Expand>,
    frontier: Frontier,
    findings: Findings<'a>,
    counts: Counts,
    /// Counters of this rank, in all tables so far.
    stats: TableStats,
    /// The last round; none before the first.
    round: Option<Round>,
    /// States of all levels up to the current one.
    held: u64,
    /// The reason why a growth has failed; the search tries no other one.
    failed: Option<Limit>,
    /// Whether a crowded table had no larger one to grow to. A full one asks again, because others may
    /// have freed memory since then.
    has_asked: bool,
    /// The clock when the exploration began.
    start_ns: u64,
}

impl<'a, 'e> Search<'a, 'e> {
    pub(super) fn new(
        exploration: &'a Exploration,
        packing: &'a Packing,
        start_ns: u64,
        size: &'a mut TableSize<'e>,
        host: &'a mut dyn Host,
    ) -> Self {
        let states = exploration.states(packing.words());
        let findings = Findings::new(&exploration.properties, packing);
        Self {
            exploration,
            host,
            packing,
            states,
            size,
            expansion: (states.expansion)(exploration, packing),
            frontier: Frontier::new(packing.words(), findings.is_open()),
            findings,
            counts: Counts::default(),
            stats: TableStats::default(),
            round: None,
            held: 0,
            failed: None,
            has_asked: false,
            start_ns,
        }
    }

    /// Searches in an empty table, and in larger ones that take its place. All ranks call it.
    /// Returns the packing with which to search again if a marking does not fit this one.
    pub(super) fn run(
        mut self,
        engine: &mut dyn Engine,
        exchange: &mut dyn Exchange,
    ) -> Result<Result<Explored, Packing>, Error> {
        // Each table but the last is larger than the one before it.
        loop {
            let at = self.opening(engine.current(), self.size.now, exchange)?;
            let mut table = (self.states.open)(at, exchange)?;
            match self.search(&mut *table, exchange)? {
                Pause::Ended(ending, open) => {
                    return self.end(&mut *table, ending, open, exchange).map(Ok);
                }
                Pause::Restart(grown) => return Ok(Err(grown)),
                Pause::Grow(bytes) => {
                    drop(table);
                    // If it cannot grow, the search goes on in the present table until it is full.
                    self.failed = self.grow(engine, bytes, exchange)?;
                }
            }
        }
    }

    /// Returns how to open a table of this size.
    fn opening<'t>(
        &mut self,
        engine: &'t mut dyn Timed,
        bytes: u64,
        exchange: &mut dyn Exchange,
    ) -> Result<Opening<'t>, Error>
    where
        'a: 't,
    {
        let exploration = self.exploration;
        let narrow = self.host.configure(engine, exploration.config_of(bytes), exchange)?;
        Ok(Opening { engine, narrow, exploration })
    }

    /// Begins the search, with an empty table, or continues it, with the states found so far in the
    /// table. It returns for the same reason on all ranks.
    fn search(
        &mut self,
        table: &mut dyn StateTable,
        exchange: &mut dyn Exchange,
    ) -> Result<Pause, Error> {
        let earlier = self.stats;
        // Each round expands states, or is the last one in this table.
        loop {
            let last = self.round.take();
            let stop = match &last {
                Some(last) => self.expand(table, last, exchange)?,
                None => self.put_initial(table, exchange)?,
            };
            self.stats = earlier.plus(&table.facts().stats);
            let round = self.end_round(stop, exchange)?;
            let has_begun = last.is_some() || !round.full;
            // The initial state is not expanded yet: nothing to decide, if the table has it.
            let pause = match last.is_none() && has_begun {
                true => None,
                false => self.after(&round, table, exchange)?,
            };
            self.round = has_begun.then_some(round);
            if let Some(pause) = pause {
                return Ok(pause);
            }
        }
    }

    /// Expands states of this rank for a round.
    fn expand(
        &mut self,
        table: &mut dyn StateTable,
        last: &Round,
        exchange: &mut dyn Exchange,
    ) -> Result<Option<Stop>, Error> {
        if last.has_level() {
            self.held += last.found();
            self.frontier.spread(table.engine()?, &last.found, exchange)?;
        }
        let round_ns = ROUND_NS + ROUND_NS_PER_RANK * u64::from(exchange.owners());
        let Self { expansion, frontier, findings, counts, .. } = self;
        let stop = expansion.expand(table, frontier, findings, counts, round_ns)?;
        let scarce = self.size.scarcity(self.frontier.bytes()).map(Stop::OutOfMemory);
        Ok(stop.or(scarce))
    }

    /// Moves the states found so far to a table of this size. If that fails, or is stopped, they stay
    /// where they are. Returns the reason of a failure.
    fn grow(
        &mut self,
        engine: &mut dyn Engine,
        bytes: u64,
        exchange: &mut dyn Exchange,
    ) -> Result<Option<Limit>, Error> {
        let start_ns = engine.current().now_ns();
        let (exploration, from) = (self.exploration, self.size.now);
        let moved =
            engine.grow(exploration.sizes_of(bytes), exchange, &mut |now, next, exchange| {
                let at = self.opening(now, from, exchange)?;
                let mut table = (self.states.open)(at, exchange)?;
                let larger = self.opening(next, bytes, exchange)?;
                table.move_to(larger, self.host, exchange)
            });
        let moved = match moved {
            Ok(Err(CollectiveError::Full { .. })) => return Ok(Some(self.size.limit_at(bytes))),
            // The search ends with its next round, because a rank has got a signal.
            Ok(Err(CollectiveError::Stopped)) => return Ok(None),
            moved => moved.and_then(|moved| Ok(moved?)),
        };
        match moved {
            Ok(_) => {}
            Err(error) if error.is_loss() => {
                return Err(Error::Growing { bytes, error: Box::new(error) });
            }
            Err(error) => return Ok(Some(Limit::Failed(bytes, error.to_string()))),
        }
        self.size.now = bytes;
        self.size.growths += 1;
        self.size.growth_ns += engine.current().now_ns() - start_ns;
        Ok(None)
    }

    /// Exchanges the progress of all ranks. `stop` is the reason why this rank stopped.
    fn end_round(&self, stop: Option<Stop>, exchange: &mut dyn Exchange) -> Result<Round, Error> {
        let (found, open) = (self.frontier.found(), self.frontier.open());
        let mine = (found, open, self.stats.nodes.inner_inserted, stop, self.host.stop());
        let all = gather_values(exchange, &mine)?;
        let mut round = Round {
            found: all.iter().map(|of_rank| of_rank.0).collect(),
            open: all.iter().map(|of_rank| of_rank.1).sum(),
            inner_nodes: all.iter().map(|of_rank| of_rank.2).sum(),
            stop: all.iter().map(|of_rank| of_rank.4).find(|number| *number != 0),
            ..Round::default()
        };
        for stop in all.iter().filter_map(|of_rank| of_rank.3) {
            match stop {
                Stop::Full => round.full = true,
                Stop::Overflow(overflow) => round.overflow = round.overflow.or(Some(overflow)),
                Stop::OutOfMemory(bytes) => {
                    round.scarce = Some(round.scarce.map_or(bytes, |least| least.min(bytes)));
                }
            }
        }
        Ok(round)
    }

    /// Puts the initial state in the table, on rank 0, unless the table has no room for it.
    fn put_initial(
        &mut self,
        table: &mut dyn StateTable,
        exchange: &dyn Exchange,
    ) -> Result<Option<Stop>, Error> {
        if exchange.me() != Owner(0) {
            return Ok(None);
        }
        let state = self.packing.pack_words(&self.exploration.net.initial());
        let state = state.map_err(|error| {
            Error::Parameter(format!("the initial marking does not fit: {error}"))
        })?;
        self.counts.find_or_puts += 1;
        let mut outcome = [Outcome::Full];
        table.put(&state, false, &mut outcome)?;
        if outcome == [Outcome::Full] {
            return Ok(Some(Stop::Full));
        }
        self.frontier.push(&state);
        self.counts.states = 1;
        Ok(None)
    }

    /// Decides how to go on after a round. All ranks have the same round.
    fn after(
        &mut self,
        round: &Round,
        table: &dyn StateTable,
        exchange: &mut dyn Exchange,
    ) -> Result<Option<Pause>, Error> {
        let (held, open) = (self.held + round.found(), round.open + round.found());
        let levels = self.counts.levels;
        let elapsed = Duration::from_nanos(table.now_ns() - self.start_ns);
        self.host.show(Progress::Level { level: levels + 1, states: held, open, elapsed });
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
                let is_crowded = held + round.inner_nodes > table.facts().grow_at;
                let mut limit = self.failed.clone();
                if limit.is_none() && (round.full || is_crowded && !self.has_asked) {
                    match self.size.next(exchange)? {
                        Ok(next) => {
                            self.host.show(Progress::Grow { bytes: next, states: held });
                            larger = Some(next);
                        }
                        Err(why) => limit = Some(why),
                    }
                    self.has_asked = larger.is_none();
                }
                let limit = limit.filter(|_| round.full);
                let words = self.packing.words();
                limit.map(|limit| Reason::Table { words, bytes: self.size.now, limit })
            }
        };
        let out_of_room =
            out_of_room.map(|reason| Box::new(OutOfRoom { states: held, levels, reason }));
        let stops = out_of_room.is_some() || round.stop.is_some();
        if stops || round.has_level() {
            self.findings.gather(levels, exchange)?;
        }
        self.counts.levels += u64::from(round.has_level());
        let findings = &self.findings;
        let ending = match (out_of_room, round.stop) {
            (None, _) if is_complete => Ending::Complete,
            _ if findings.are_complete() => Ending::Answered,
            // A counterexample is a result, whatever ends the search.
            (Some(reason), _) if findings.has_violation() => Ending::OutOfRoom(reason),
            (Some(reason), _) => return Err(Error::OutOfRoom(reason)),
            (None, Some(number)) => Ending::Stopped(number),
            (None, None) => return Ok(larger.map(Pause::Grow)),
        };
        Ok(Some(Pause::Ended(ending, open)))
    }

    fn verdicts(
        &mut self,
        complete: bool,
        exchange: &mut dyn Exchange,
    ) -> Result<Vec<Verdict>, Error> {
        let (exploration, packing) = (self.exploration, self.packing);
        let levels = self.frontier.take_levels(packing.last_bits());
        let levels = Levels { net: &exploration.net, packing, states: &levels };
        let found = exploration.properties.iter().zip(&self.findings.violations);
        found.map(|(of, at)| levels.verdict(of, at.as_ref(), complete, exchange)).collect()
    }

    fn end(
        &mut self,
        table: &mut dyn StateTable,
        ending: Ending,
        open: u64,
        exchange: &mut dyn Exchange,
    ) -> Result<Explored, Error> {
        let verdicts = self.verdicts(ending == Ending::Complete, exchange)?;
        let end_ns = table.now_ns();
        let all = gather_values(exchange, &(self.counts, self.stats))?;
        let sum =
            |field: fn(&Counts) -> u64| all.iter().map(|(counts, _)| field(counts)).sum::<u64>();
        let counts = Counts {
            states: sum(|of| of.states),
            expanded: sum(|of| of.expanded),
            arcs: sum(|of| of.arcs),
            known: sum(|of| of.known),
            find_or_puts: sum(|of| of.find_or_puts),
            deadlocks: sum(|of| of.deadlocks),
            levels: self.counts.levels,
        };
        let none = TableStats::default();
        let stats = all.iter().fold(none, |sum, (_, of_rank)| sum.plus(of_rank));
        let Counts { states, expanded, .. } = counts;
        let [held, occupied] = table.count(exchange)?;
        if held != states || expanded + open != states {
            return Err(Error::Wrong(format!(
                "{states} states were inserted, {held} are in the table, {expanded} were expanded \
                 and {open} were not"
            )));
        }
        Ok(Explored {
            counts,
            stats,
            open,
            ending,
            verdicts,
            busiest: all.iter().map(|(counts, _)| counts.expanded).max().unwrap_or(0),
            took_ns: end_ns - self.start_ns,
            growths: self.size.growths,
            growth_ns: self.size.growth_ns,
            table_bytes: self.size.now,
            buckets: table.facts().buckets,
            occupied,
            entry_bytes: self.states.entry_bytes,
            words: self.states.words,
            bits: self.packing.bits(),
        })
    }
}

/// The progress of all ranks at the end of a round, the same on every rank.
#[derive(Default)]
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
