//! Expands a level: batch calls look up the successors of many states in the table.

use core::mem;

use probeline::table::Outcome;
use probeline_petri::{Expanded, Expander, Overflow};

use super::ExpandArgs;
use super::frontier::Frontier;
use super::property::Findings;
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
    /// Successors that were not looked up, because the rank remembers them or another state of the
    /// same or an earlier level leads to them too.
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

pub(super) struct Expansion<'a> {
    expander: Expander,
    recent: RecentStates,
    batch: usize,
    /// The successors of the next batch, of which there are `pending`, and room for those of one
    /// more state: the nodes of the frontier that they become if they are new.
    nodes: Vec<u64>,
    /// The states of these nodes, which are the keys of the table.
    keys: Vec<u64>,
    pending: usize,
    outcomes: Vec<Outcome>,
    pub(super) findings: Findings<'a>,
}

impl<'a> Expansion<'a> {
    pub(super) fn new(expander: Expander, args: ExpandArgs, findings: Findings<'a>) -> Self {
        let batch = args.batch as usize;
        let capacity = batch + expander.max_successors();
        Self {
            expander,
            recent: RecentStates::new(args.known_states),
            batch,
            nodes: vec![0; capacity],
            keys: vec![0; capacity],
            pending: 0,
            outcomes: vec![Outcome::Absent; capacity],
            findings,
        }
    }

    pub(super) fn state(&self, node: u64) -> u64 {
        self.expander.state(node)
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
        while let Some(node) = frontier.pop() {
            let nodes = self.nodes.get_mut(self.pending..).unwrap_or_default();
            let expanded = match self.expander.expand(node, nodes) {
                Ok(expanded) => expanded,
                Err(overflow) => return Ok(Some(Stop::Overflow(overflow))),
            };
            let Expanded { enabled, nodes: written } = expanded;
            counts.expanded += 1;
            counts.arcs += enabled as u64;
            counts.deadlocks += u64::from(enabled == 0);
            if self.findings.is_open() {
                self.findings.check(&[self.expander.state(node)], enabled);
            }
            let nodes = nodes.get_mut(..written).unwrap_or_default();
            let keys = self.keys.get_mut(self.pending..).unwrap_or_default();
            let new = self.recent.filter_new(nodes, keys, |node| self.expander.state(node));
            counts.known += (enabled - new) as u64;
            self.pending += new;
            if self.pending >= self.batch && !self.put(table, frontier, counts)? {
                return Ok(Some(Stop::Full));
            }
            since_clock += 1 + written;
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
        let nodes = self.nodes.get(..pending).unwrap_or_default();
        let keys = self.keys.get(..pending).unwrap_or_default();
        let outcomes = self.outcomes.get_mut(..pending).unwrap_or_default();
        if self.batch == 1 {
            for (&key, outcome) in keys.iter().zip(&mut *outcomes) {
                *outcome = table.find_or_put(key)?;
            }
        } else {
            table.find_or_put_batch(keys, outcomes)?;
        }
        counts.find_or_puts += pending as u64;
        counts.states += frontier.push_inserted(nodes, outcomes);
        Ok(!outcomes.contains(&Outcome::Full))
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

    /// Moves the nodes whose states it does not remember to the front, in order, stores these
    /// states in `keys`, which is as long at least, and remembers them. Returns their number.
    #[inline]
    fn filter_new(
        &mut self,
        nodes: &mut [u64],
        keys: &mut [u64],
        state: impl Fn(u64) -> u64,
    ) -> usize {
        let mut new = 0;
        for at in 0..nodes.len() {
            let node = nodes[at];
            let state = state(node);
            // Always written, and kept if the state is new: no branch to predict.
            nodes[new] = node;
            keys[new] = state;
            // Below the number of entries, which is a u32.
            #[allow(clippy::cast_possible_truncation)]
            let index = state.wrapping_mul(FACTOR).checked_shr(self.shift).unwrap_or(0) as usize;
            match self.entries.get_mut(index) {
                Some(entry) => new += usize::from(mem::replace(entry, state) != state),
                None => new += 1,
            }
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtered(recent: &mut RecentStates, states: &[u64]) -> Vec<u64> {
        let (mut nodes, mut keys) = (states.to_vec(), vec![0; states.len()]);
        let new = recent.filter_new(&mut nodes, &mut keys, |node| node);
        assert_eq!(nodes[..new], keys[..new]);
        nodes.truncate(new);
        nodes
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
