//! Expands a level: batch calls look up the successors of many states in the table.

use core::mem;

use probeline::table::{OperationError, Outcome};
use probeline_petri::{FiringRule, Overflow};

use super::ExpandArgs;
use super::frontier::Frontier;
use serde::{Deserialize, Serialize};

use crate::failure;
use crate::table::CachedTable;
use crate::timed::Timed;

/// Arcs and states between two readings of the clock, which cost as much as several arcs.
const CLOCK_INTERVAL: usize = 4_096;

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Counts {
    pub(super) states: u64,
    pub(super) expanded: u64,
    pub(super) arcs: u64,
    /// Successors that were not looked up, because the rank remembers them.
    pub(super) known: u64,
    pub(super) find_or_puts: u64,
    pub(super) deadlocks: u64,
    pub(super) levels: u64,
}

/// Why a rank cannot continue with a level. All ranks then stop at the end of the round.
pub(super) enum Stop {
    Overflow(Overflow),
    Full,
}

pub(super) struct Expansion {
    rule: FiringRule,
    recent: RecentStates,
    batch: usize,
    /// The successors of the next batch, of which there are `pending`, and room for those of one
    /// more state.
    successors: Vec<u64>,
    pending: usize,
    outcomes: Vec<Result<Outcome, OperationError>>,
}

impl Expansion {
    pub(super) fn new(rule: FiringRule, args: ExpandArgs) -> Self {
        let batch = args.batch as usize;
        let capacity = batch + rule.max_successors();
        Self {
            rule,
            recent: RecentStates::new(args.known_states),
            batch,
            successors: vec![0; capacity],
            pending: 0,
            outcomes: vec![Ok(Outcome::Absent); capacity],
        }
    }

    /// Expands this rank's part of a level for about `round_ns`, and adds new states to the next
    /// level. All successors have been looked up in the table when it returns.
    pub(super) fn expand<T: Timed>(
        &mut self,
        table: &mut CachedTable<T>,
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
            let new = self.recent.filter_new(room.get_mut(..enabled).unwrap_or_default());
            counts.known += (enabled - new) as u64;
            self.pending += new;
            if self.pending >= self.batch && !self.put(table, frontier, counts)? {
                return Ok(Some(Stop::Full));
            }
            since_clock += 1 + enabled;
            if since_clock >= CLOCK_INTERVAL {
                since_clock = 0;
                if table.transport().now_ns() >= until {
                    break;
                }
            }
        }
        Ok(if self.put(table, frontier, counts)? { None } else { Some(Stop::Full) })
    }

    /// Puts the pending successors in the table, and the new ones in the next level. Returns false
    /// if the table was full for one of them.
    fn put<T: Timed>(
        &mut self,
        table: &mut CachedTable<T>,
        frontier: &mut Frontier,
        counts: &mut Counts,
    ) -> failure::Result<bool> {
        let pending = mem::take(&mut self.pending);
        let keys = self.successors.get(..pending).unwrap_or_default();
        let outcomes = self.outcomes.get_mut(..pending).unwrap_or_default();
        if self.batch == 1 {
            for (&key, outcome) in keys.iter().zip(&mut *outcomes) {
                *outcome = table.find_or_put(key);
            }
        } else {
            table.find_or_put_batch(keys, outcomes)?;
        }
        counts.find_or_puts += pending as u64;
        let mut full = false;
        for (&state, &mut outcome) in keys.iter().zip(outcomes) {
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

/// No state: states have 63 bits.
const EMPTY: u64 = u64::MAX;
/// 2^64 divided by the golden ratio, odd (Knuth, TAOCP volume 3, section 6.4).
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The states that this rank has lately put in the table, one for each hash. The table never loses
/// a state during an exploration, so they need not be put again: a cache without coherence.
struct RecentStates {
    entries: Box<[u64]>,
    /// Shifts a hash of 64 bits to the index of an entry.
    shift: u32,
}

impl RecentStates {
    /// Remembers `states`, a power of two, of 8 bytes each; none if that is 0 or 1.
    fn new(states: u32) -> Self {
        let entries = if states > 1 { vec![EMPTY; states as usize] } else { Vec::new() };
        Self { entries: entries.into(), shift: u64::BITS - states.max(1).ilog2() }
    }

    /// Moves the states that it does not remember to the front, in order, and remembers them.
    /// Returns their number.
    #[inline]
    fn filter_new(&mut self, states: &mut [u64]) -> usize {
        if self.entries.is_empty() {
            return states.len();
        }
        let mut new = 0;
        for at in 0..states.len() {
            let state = states[at];
            // Below the number of entries, which is 2 at least and a u32.
            #[allow(clippy::cast_possible_truncation)]
            let index = (state.wrapping_mul(FACTOR) >> self.shift) as usize;
            let Some(entry) = self.entries.get_mut(index) else { continue };
            // Always written, and kept if the state is new: no branch to predict.
            states[new] = state;
            new += usize::from(*entry != state);
            *entry = state;
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtered(recent: &mut RecentStates, states: &[u64]) -> Vec<u64> {
        let mut states = states.to_vec();
        let new = recent.filter_new(&mut states);
        states.truncate(new);
        states
    }

    #[test]
    fn recent_states_are_filtered_out() {
        let mut recent = RecentStates::new(1 << 10);
        assert_eq!(filtered(&mut recent, &[0, 5, 5, 0, 6]), [0, 5, 6]);
        assert_eq!(filtered(&mut recent, &[6, 8, 0]), [8]);
        assert!(filtered(&mut recent, &[]).is_empty());
    }

    /// Two entries for many states: most are forgotten.
    #[test]
    fn forgotten_states_are_new_again() {
        let mut recent = RecentStates::new(2);
        let states: Vec<u64> = (0..100).collect();
        assert_eq!(filtered(&mut recent, &states), states);
        assert!(filtered(&mut recent, &states).len() >= 98);
    }

    #[test]
    fn without_entries_all_states_are_new() {
        for states in [0, 1] {
            assert_eq!(filtered(&mut RecentStates::new(states), &[3, 3, 3]), [3, 3, 3]);
        }
    }
}
