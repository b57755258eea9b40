//! Successors for a breadth-first search, without most of those that other states of a level find.
//!
//! In nets with concurrency, most states have many predecessors: transitions that do not disturb
//! each other can fire in any order. A search looks a state up once for each arc that leads to it.
//! This module leaves out a successor if another arc surely leads to it. For that, a search keeps
//! with each state the transition by which it found the state.
//!
//! Let r -k-> s -t-> u be arcs, s found by k, and t after k in the net. Let r also enable t, and
//! let the state r' with r -t-> r' still enable k. Then the arc s -> u is left out, because r' -k->
//! u leads to u too.
//!
//! All states are still found, and at their distances from the initial state. Of all arcs to a
//! state u from the level before, take one whose transition is first in the net. If it were left
//! out, as s -t-> u above, then r' would be no farther than s, and its arc to u has the earlier
//! transition k: a contradiction. (Compare sleep sets: Godefroid, Partial-Order Methods for the
//! Verification of Concurrent Systems, 1996, chapter 5. They leave out more, but find states in
//! another order.)

use crate::layout::Field;
use crate::masks::{BLOCK, Disabled, Fields};
use crate::masks::{bits, commuting, labels_above, places_taken_from, without_disabled};
use crate::successors::Rule;
use crate::{FiringRule, Net, Overflow, Packing, Transition};

/// Expands the nodes of a breadth-first search whose states have one word: states, each with the
/// transition that found it.
#[derive(Clone, Debug)]
pub struct Expander {
    rule: FiringRule,
    /// The bits of a node that are the state. The bits above hold the label of its origin.
    state_mask: u64,
    state_bits: u32,
    fields: Fields,
    blocks: Vec<Block>,
    /// By label; label 0 is the unknown origin.
    origins: Vec<Origin>,
}

/// The successors that an [`Expander`] writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Successors {
    /// One for each arc.
    All,
    /// Those that a breadth-first search needs.
    Needed,
}

/// The counts of an expansion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expanded {
    /// Transitions that the state enables, which is the number of its arcs.
    pub enabled: usize,
    /// Nodes written; the other arcs lead to successors of states of the same or an earlier level.
    pub nodes: usize,
}

/// The transition that found a state.
#[derive(Clone, Debug)]
struct Origin {
    /// The difference between the state and its predecessor, modulo 2^64.
    change: u64,
    /// For each block, the later transitions that leave this one enabled.
    commuting: Vec<u64>,
}

/// Up to 64 transitions, each a bit in masks.
#[derive(Clone, Debug)]
struct Block {
    members: u64,
    disabled: Disabled,
    /// The difference between a state and the successor's node, modulo 2^64.
    steps: [u64; BLOCK],
    /// The bits and rules of transitions that need several tokens of a place.
    weighted: Vec<(u64, Rule)>,
}

impl Expander {
    /// Compiles the transitions of `net` for states of `packing`, which must belong to the net.
    /// `written` selects the successors that [`expand`](Self::expand) writes; with few spare bits
    /// in the packing, fewer are left out.
    pub fn new(net: &Net, packing: &Packing, written: Successors) -> Self {
        let rule = FiringRule::new(net, packing);
        let state_bits = packing.bits();
        let labels = match written {
            Successors::All => 0,
            Successors::Needed => labels_above(state_bits),
        };
        let transitions: Vec<&Transition> =
            rule.rules().iter().map(|rule| &net.transitions()[rule.transition as usize]).collect();
        let mut blocks: Vec<Block> = transitions
            .chunks(BLOCK)
            .zip(rule.rules().chunks(BLOCK))
            .map(|(transitions, rules)| Block::new(transitions, rules, packing.fields()))
            .collect();
        let taken: Vec<Vec<usize>> =
            transitions.iter().map(|transition| places_taken_from(transition)).collect();
        let mut origins = vec![Origin { change: 0, commuting: vec![0; blocks.len()] }];
        for (index, first) in rule.rules().iter().enumerate().take(labels) {
            let label = origins.len() as u64;
            // The sum of a state and a change has no bit of a label.
            let step = &mut blocks[index / BLOCK].steps[index % BLOCK];
            *step = step.wrapping_add(label.checked_shl(state_bits).unwrap_or(0));
            let commuting = commuting(transitions[index], &taken, index);
            origins.push(Origin { change: first.change, commuting });
        }
        let state_mask = (1 << state_bits) - 1;
        Self {
            state_mask,
            state_bits,
            fields: Fields::new(packing.fields(), 0),
            blocks,
            origins,
            rule,
        }
    }

    /// Returns an upper bound on the number of successors of a state.
    pub fn max_successors(&self) -> usize {
        self.rule.rules().len()
    }

    /// Returns the state of a node. A state is itself a node, of unknown origin.
    #[inline]
    pub fn state(&self, node: u64) -> u64 {
        node & self.state_mask
    }

    /// Writes nodes of successors of `node` to the front of `buffer`, which has at least
    /// [`max_successors`](Self::max_successors) words, in the order of the net: one for each
    /// enabled transition or, with [`Successors::Needed`], without those that the module's rule
    /// leaves out, because another state of the same or an earlier level surely leads to the same
    /// successor.
    ///
    /// A breadth-first search finds all states, at their distances, if it starts with a state of
    /// unknown origin, keeps the node by which it first found each state, and expands all nodes of
    /// a level before those of the next.
    ///
    /// # Errors
    /// [`Overflow`] if a successor does not fit the packing, written or not.
    #[inline]
    pub fn expand(&self, node: u64, buffer: &mut [u64]) -> Result<Expanded, Overflow> {
        let state = self.state(node);
        let label = usize::try_from(node >> self.state_bits).unwrap_or(0);
        debug_assert!(label < self.origins.len(), "a node of another expander");
        // From an unknown origin nothing is left out.
        let Some(origin) = self.origins.get(label).or(self.origins.first()) else {
            return Ok(Expanded::default());
        };
        let before = state.wrapping_sub(origin.change);
        let (empty, empty_before) = (self.fields.empty(state), self.fields.empty(before));
        let near_overflow = self.rule.is_near_overflow(state);
        let mut expanded = Expanded::default();
        for (number, (block, commuting)) in self.blocks.iter().zip(&origin.commuting).enumerate() {
            let enabled = block.enabled(state, empty);
            if near_overflow {
                for at in bits(enabled) {
                    self.rule.fire(state, number * BLOCK + at)?;
                }
            }
            expanded.enabled += enabled.count_ones() as usize;
            let left_out = block.enabled(before, empty_before) & commuting;
            let room = buffer.get_mut(expanded.nodes..).unwrap_or_default();
            for (at, node) in bits(enabled & !left_out).zip(room) {
                *node = state.wrapping_add(block.steps[at]);
                expanded.nodes += 1;
            }
        }
        Ok(expanded)
    }
}

impl Block {
    fn new(transitions: &[&Transition], rules: &[Rule], fields: &[Field]) -> Self {
        let mut block = Self {
            members: 0,
            disabled: Disabled::none(),
            steps: [0; BLOCK],
            weighted: Vec::new(),
        };
        for (at, (transition, rule)) in transitions.iter().zip(rules).enumerate() {
            let bit = 1 << at;
            block.members |= bit;
            block.steps[at] = rule.change;
            for arc in &transition.inputs {
                block.disabled.add(bit, fields[arc.place]);
            }
            if transition.inputs.iter().any(|arc| arc.weight > 1) {
                block.weighted.push((bit, *rule));
            }
        }
        block
    }

    /// Returns the transitions that `state` enables; `empty` has the top bits of its empty fields.
    #[inline]
    fn enabled(&self, state: u64, empty: u64) -> u64 {
        let enabled = self.members & !self.disabled.of(empty);
        let weighted = self.weighted.iter();
        weighted.fold(enabled, |all, (bit, rule)| without_disabled(all, *bit, rule, state))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::naive::nets;

    /// The states of a level, and the arcs that leave them; none after an overflow.
    type Level = (BTreeSet<u64>, Result<usize, Overflow>);

    /// Searches until it has found more states than `limit`. Returns the levels, and the number of
    /// nodes that were written.
    fn search(expander: &Expander, initial: u64, limit: usize) -> (Vec<Level>, usize) {
        let (mut visited, mut written) = (BTreeSet::from([initial]), 0);
        let (mut levels, mut current) = (Vec::new(), vec![initial]);
        let mut buffer = vec![u64::MAX; expander.max_successors()];
        while !current.is_empty() && visited.len() <= limit {
            let (mut next, mut arcs) = (Vec::new(), Ok(0));
            for &node in &current {
                match expander.expand(node, &mut buffer) {
                    Ok(expanded) => {
                        written += expanded.nodes;
                        arcs = arcs.map(|arcs| arcs + expanded.enabled);
                        let new = |node: &u64| visited.insert(expander.state(*node));
                        next.extend(buffer[..expanded.nodes].iter().copied().filter(new));
                    }
                    Err(overflow) => arcs = Err(overflow),
                }
            }
            // Which of several overflows is found last depends on the order of states.
            let failed = arcs.is_err();
            let arcs = arcs.map_err(|_| Overflow::default());
            levels.push((current.iter().map(|&node| expander.state(node)).collect(), arcs));
            current = if failed { Vec::new() } else { next };
        }
        (levels, written)
    }

    #[track_caller]
    fn searches(net: &Net, packing: &Packing, limit: usize) -> [(Vec<Level>, usize); 2] {
        let initial = packing.pack(&net.initial()).unwrap();
        [Successors::All, Successors::Needed]
            .map(|written| search(&Expander::new(net, packing, written), initial, limit))
    }

    /// Published sizes, with more and with fewer transitions than a block has bits, and than the
    /// spare bits of a node can number.
    #[test]
    fn most_successors_are_left_out_of_concurrent_nets() {
        for (model, states, share) in
            [("philosophers:9", 19_683, 0.25), ("kanban:3", 58_400, 0.4), ("fms:2", 3_444, 0.4)]
        {
            let net = Net::load(model).unwrap();
            let [all, needed] = searches(&net, &Packing::new(&net).unwrap(), usize::MAX);
            assert!(all.0 == needed.0, "{model}");
            assert_eq!(needed.0.iter().map(|(level, _)| level.len()).sum::<usize>(), states);
            assert!((needed.1 as f64) < share * all.1 as f64, "{model}: {} {}", needed.1, all.1);
        }
    }

    #[test]
    fn transitions_of_all_blocks_are_enabled() {
        // 150 transitions that do the same.
        let net = crate::naive::net(
            &[1, 1, 0],
            &(0..150).map(|_| (&[(0, 1)][..], &[(2, 1)][..])).collect::<Vec<_>>(),
        );
        let expander = Expander::new(&net, &Packing::of_widths(&[1, 1, 1]), Successors::All);
        let mut buffer = vec![0; 150];
        assert_eq!(expander.expand(0b011, &mut buffer), Ok(Expanded { enabled: 150, nodes: 150 }));
        assert!(buffer.iter().all(|&node| node == 0b110));
        let none = Ok(Expanded::default());
        assert_eq!(expander.expand(0b010, &mut buffer), none);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// Every level has the same states, found by all arcs and by the needed ones, however many
        /// transitions the spare bits of a node can number.
        #[test]
        fn levels_are_those_of_all_successors(
            net in nets(),
            bits in 2_u32..=10,
            spare in 1_u32..=5,
        ) {
            let mut widths = vec![bits; net.places().len()];
            // The first field fills the state up to the spare bits.
            widths[0] = 64 - spare - widths.iter().skip(1).sum::<u32>();
            let packing = Packing::of_widths(&widths);
            if packing.pack(&net.initial()).is_ok() {
                let [all, needed] = searches(&net, &packing, 300);
                prop_assert_eq!(all.0, needed.0);
                prop_assert!(needed.1 <= all.1);
            }
        }
    }
}
