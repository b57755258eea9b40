//! The expansion of a level: the successors of many states go through the table together.

use core::mem;

use probeline_petri::{FiringRule, Overflow};
use probeline_table::{OperationError, Outcome};

use super::Expand;
use super::frontier::Frontier;
use super::known::Known;
use serde::{Deserialize, Serialize};

use crate::failure;
use crate::means::MeansTable;
use crate::timed::Timed;

/// A rank reads the clock after this number of arcs and states, because reading it takes as long as
/// several arcs.
const CLOCK_EVERY: usize = 4_096;

/// Sums of a rank; of all ranks, once they are gathered.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Counts {
    pub(super) states: u64,
    pub(super) expanded: u64,
    pub(super) arcs: u64,
    /// Successors that went by the table, known to be there.
    pub(super) known: u64,
    pub(super) find_or_puts: u64,
    pub(super) deadlocks: u64,
    /// Levels of which all ranks have expanded all states.
    pub(super) levels: u64,
}

/// Why a rank cannot go on with a level; all of them stop at its end.
pub(super) enum Stop {
    Overflow(Overflow),
    Full,
}

/// A rank's way from states to those after them.
pub(super) struct Expansion {
    rule: FiringRule,
    known: Known,
    batch: usize,
    /// Successors to go through the table next, as many as `pending` says; behind them room for
    /// those of one more state.
    successors: Vec<u64>,
    pending: usize,
    outcomes: Vec<Result<Outcome, OperationError>>,
}

impl Expansion {
    pub(super) fn new(rule: FiringRule, args: &Expand) -> Self {
        let batch = args.batch as usize;
        let most = batch + rule.max_successors();
        Self {
            rule,
            known: Known::new(args.known_states),
            batch,
            successors: vec![0; most],
            pending: 0,
            outcomes: vec![Ok(Outcome::Absent); most],
        }
    }

    /// Expands this rank's part of a level for about `round_ns`. New states go to the next level.
    /// On return all successors have been looked up in the table.
    pub(super) fn expand<T: Timed>(
        &mut self,
        table: &mut MeansTable<T>,
        frontier: &mut Frontier,
        counts: &mut Counts,
        round_ns: u64,
    ) -> failure::Result<Option<Stop>> {
        let until = table.transport().now_ns().saturating_add(round_ns);
        let mut since_clock = 0;
        while let Some(state) = frontier.pop() {
            let room = self.successors.get_mut(self.pending..).unwrap_or_default();
            let enabled = match self.rule.successors_into(state, room) {
                Ok(enabled) => enabled,
                Err(overflow) => return Ok(Some(Stop::Overflow(overflow))),
            };
            counts.expanded += 1;
            counts.arcs += enabled as u64;
            counts.deadlocks += u64::from(enabled == 0);
            let unknown = self.known.sift(room.get_mut(..enabled).unwrap_or_default());
            counts.known += (enabled - unknown) as u64;
            self.pending += unknown;
            if self.pending >= self.batch && !self.put(table, frontier, counts)? {
                return Ok(Some(Stop::Full));
            }
            since_clock += 1 + enabled;
            if since_clock >= CLOCK_EVERY {
                since_clock = 0;
                if table.transport().now_ns() >= until {
                    break;
                }
            }
        }
        Ok(if self.put(table, frontier, counts)? { None } else { Some(Stop::Full) })
    }

    /// Puts what is pending in the table, and what is new there in the next level. False if some
    /// of it found the table full.
    fn put<T: Timed>(
        &mut self,
        table: &mut MeansTable<T>,
        frontier: &mut Frontier,
        counts: &mut Counts,
    ) -> failure::Result<bool> {
        let pending = mem::take(&mut self.pending);
        let data = self.successors.get(..pending).unwrap_or_default();
        let outcomes = self.outcomes.get_mut(..pending).unwrap_or_default();
        if self.batch == 1 {
            put_each(table, data, outcomes);
        } else {
            table.find_or_put_batch(data, outcomes)?;
        }
        counts.find_or_puts += pending as u64;
        let mut full = false;
        for (&state, &mut outcome) in data.iter().zip(outcomes) {
            match outcome? {
                Outcome::Inserted => {
                    frontier.push(state);
                    counts.states += 1;
                }
                Outcome::Found | Outcome::Absent => {}
                Outcome::Full => full = true,
            }
        }
        Ok(!full)
    }
}

/// A find-or-put of each of `data`, one after the other; each end is left at the same place of
/// `outcomes`.
fn put_each<T: Timed>(
    table: &mut MeansTable<T>,
    data: &[u64],
    outcomes: &mut [Result<Outcome, OperationError>],
) {
    for (&data, outcome) in data.iter().zip(outcomes) {
        *outcome = table.find_or_put(data);
    }
}
