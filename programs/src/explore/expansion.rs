//! Expands a level: batch calls look up the successors of many states in the table.

use core::mem;

use probeline::table::Outcome;
use serde::{Deserialize, Serialize};

use super::Exploration;
use super::frontier::Frontier;
use super::property::Findings;
use super::tables::StateTable;
use crate::Error;
use crate::petri::{Expanded, Expander, Overflow, Packing, Successors};

/// Arcs and states between two readings of the clock, which cost as much as several arcs.
const CLOCK_INTERVAL: usize = 4_096;

/// Counters of a search.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// States in the table.
    pub states: u64,
    /// States whose successors were computed.
    pub expanded: u64,
    /// Pairs of a state and a transition that is enabled in it.
    pub arcs: u64,
    /// Successors that were not looked up, because the rank remembers them or another state of the
    /// same or an earlier level leads to them too.
    pub known: u64,
    /// Lookups.
    pub find_or_puts: u64,
    /// States in which no transition is enabled.
    pub deadlocks: u64,
    /// Levels expanded.
    pub levels: u64,
}

/// Why a rank cannot continue with a level. All ranks then stop at the end of the round, or continue
/// with a larger table.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) enum Stop {
    Overflow(Overflow),
    Full,
    /// This rank has only these bytes of memory left.
    OutOfMemory(u64),
}

/// An expansion of states of any number of words.
pub(super) trait Expand {
    /// Expands this rank's part of a level for about `round_ns`, and adds new states to the next
    /// level. When it returns, all successors have been looked up in the table. Those for which it
    /// was full are looked up again by the next call.
    fn expand(
        &mut self,
        table: &mut dyn StateTable,
        frontier: &mut Frontier,
        findings: &mut Findings<'_>,
        counts: &mut Counts,
        round_ns: u64,
    ) -> Result<Option<Stop>, Error>;
}

pub(super) struct Expansion<const W: usize> {
    expander: Expander<W>,
    recent: RecentStates<W>,
    batch: usize,
    /// Nodes of the `pending` successors of the next batch, and room for those of one more state. A
    /// node joins the frontier if its state is new.
    nodes: Vec<[u64; W]>,
    /// The states of these nodes, which are the keys of the table.
    keys: Vec<[u64; W]>,
    pending: usize,
    outcomes: Vec<Outcome>,
}

impl<const W: usize> Expand for Expansion<W> {
    fn expand(
        &mut self,
        table: &mut dyn StateTable,
        frontier: &mut Frontier,
        findings: &mut Findings<'_>,
        counts: &mut Counts,
        round_ns: u64,
    ) -> Result<Option<Stop>, Error> {
        let until = table.now_ns().saturating_add(round_ns);
        let mut since_clock = 0;
        // Ranks agree on violations between calls only.
        let checks = findings.is_open();
        if self.pending > 0 && !self.put(table, frontier, counts)? {
            return Ok(Some(Stop::Full));
        }
        while let Some(node) = frontier.pop() {
            let nodes = self.nodes.get_mut(self.pending..).unwrap_or_default();
            let expanded = match self.expander.expand(&node, nodes) {
                Ok(expanded) => expanded,
                Err(overflow) => {
                    frontier.put_back(&node);
                    self.put(table, frontier, counts)?;
                    return Ok(Some(Stop::Overflow(overflow)));
                }
            };
            let Expanded { enabled, nodes: written } = expanded;
            counts.expanded += 1;
            counts.arcs += enabled as u64;
            counts.deadlocks += u64::from(enabled == 0);
            if checks {
                findings.check(&self.expander.state(node), enabled);
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
                if table.now_ns() >= until {
                    break;
                }
            }
        }
        Ok(if self.put(table, frontier, counts)? { None } else { Some(Stop::Full) })
    }
}

impl<const W: usize> Expansion<W> {
    pub(super) fn new(exploration: &Exploration, packing: &Packing) -> Self {
        let written = match exploration.all_successors {
            true => Successors::All,
            false => Successors::Needed,
        };
        let expander = Expander::new(&exploration.net, packing, written);
        let batch = exploration.batch as usize;
        let capacity = batch + expander.max_successors();
        Self {
            expander,
            recent: RecentStates::new(exploration.recent_states),
            batch,
            nodes: vec![[0; W]; capacity],
            keys: vec![[0; W]; capacity],
            pending: 0,
            outcomes: vec![Outcome::Full; capacity],
        }
    }

    /// Puts the pending successors in the table, and the new ones in the next level. Returns false
    /// if the table was full for some of them, which stay pending.
    fn put(
        &mut self,
        table: &mut dyn StateTable,
        frontier: &mut Frontier,
        counts: &mut Counts,
    ) -> Result<bool, Error> {
        let pending = mem::take(&mut self.pending);
        let nodes = self.nodes.get_mut(..pending).unwrap_or_default();
        let keys = self.keys.get_mut(..pending).unwrap_or_default();
        let outcomes = self.outcomes.get_mut(..pending).unwrap_or_default();
        table.put(keys.as_flattened(), self.batch > 1, outcomes)?;
        counts.find_or_puts += pending as u64;
        counts.states += frontier.push_inserted(nodes, outcomes);
        if !outcomes.contains(&Outcome::Full) {
            return Ok(true);
        }
        for at in (0..pending).filter(|&at| outcomes[at] == Outcome::Full) {
            nodes[self.pending] = nodes[at];
            keys[self.pending] = keys[at];
            self.pending += 1;
        }
        Ok(false)
    }
}

/// The words of an entry without a state. States of one word have 63 bits; a wider state that has
/// these words is never remembered.
const EMPTY: u64 = u64::MAX;
/// 2^64 divided by the golden ratio, odd (Knuth, TAOCP volume 3, section 6.4).
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The states that this rank has lately put in the table, one for each hash. The table never loses
/// a state during an exploration, so they need not be put again: a cache without coherence.
struct RecentStates<const W: usize> {
    entries: Box<[[u64; W]]>,
    /// Shifts a hash of 64 bits to the index of an entry.
    shift: u32,
}

impl<const W: usize> RecentStates<W> {
    /// Remembers `states`, a power of two, of `8 * W` bytes each; none if that is 0 or 1.
    fn new(states: u32) -> Self {
        let entries = if states > 1 { vec![[EMPTY; W]; states as usize] } else { Vec::new() };
        Self { entries: entries.into(), shift: u64::BITS - states.max(1).ilog2() }
    }

    /// Moves the nodes whose states it does not remember to the front, in order, stores these
    /// states in `keys`, which is as long at least, and remembers them. Returns their number.
    #[inline]
    fn filter_new(
        &mut self,
        nodes: &mut [[u64; W]],
        keys: &mut [[u64; W]],
        state: impl Fn([u64; W]) -> [u64; W],
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
            let index = hash(&state).checked_shr(self.shift).unwrap_or(0) as usize;
            let is_new = match self.entries.get_mut(index) {
                Some(entry) => mem::replace(entry, state) != state || is_empty(&state),
                None => true,
            };
            new += usize::from(is_new);
        }
        new
    }
}

#[inline]
fn hash<const W: usize>(state: &[u64; W]) -> u64 {
    state.iter().fold(0, |hash: u64, &word| (hash.rotate_left(32) ^ word).wrapping_mul(FACTOR))
}

#[inline]
fn is_empty<const W: usize>(state: &[u64; W]) -> bool {
    W > 1 && *state == [EMPTY; W]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All words of such a state are those of an entry without a state.
    #[test]
    fn keeps_state_of_ones() {
        let mut recent = RecentStates::<2>::new(4);
        for ones in [[[u64::MAX; 2]; 2], [[u64::MAX, 0]; 2]] {
            let (mut nodes, mut keys) = (ones, [[0; 2]; 2]);
            let new = recent.filter_new(&mut nodes, &mut keys, |node| node);
            assert_eq!(new, if ones[0][1] == 0 { 1 } else { 2 });
        }
    }
}
