//! The successors of packed states, and for a breadth-first search without most of those that other
//! states of a level find.
//!
//! Fields lie side by side in words, so a transition is enabled if none of its input fields is empty,
//! or too small for an arc of a larger weight, and it fires by the addition of one number to each
//! word. Sums are checked only in states in which some transition may overflow a field.
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

use core::array;

use crate::petri::layout::Field;
use crate::petri::masks::{BLOCK, Disabled, Fields};
use crate::petri::masks::{bits, commuting, labels_above, places_taken_from};
use crate::petri::{Net, Overflow, Packing, Transition};

/// Expands the nodes of a breadth-first search: states of `W` words, each with the transition that
/// found it.
///
/// The bits of a node's last word that no field uses hold the label of this transition.
#[derive(Clone, Debug)]
pub struct Expander<const W: usize> {
    /// Index of the lowest bit of the label in the last word; 64 if no label fits.
    label_shift: u32,
    /// The fields of each word of a state.
    fields: [Fields; W],
    /// Whether a transition adds more tokens than a field holds.
    never_fits: bool,
    transitions: usize,
    blocks: Vec<Block<W>>,
    /// The origins by label; label 0 is the unknown origin.
    origins: Vec<Origin<W>>,
}

/// The successors that an [`Expander`] writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Successors {
    /// A successor for each arc.
    All,
    /// The successors that a breadth-first search needs.
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
struct Origin<const W: usize> {
    /// The difference between the state and its predecessor, modulo 2^64 in each word.
    change: [u64; W],
    /// For each block, the later transitions that leave this one enabled.
    commuting: Vec<u64>,
}

/// Up to 64 transitions, each a bit in masks.
#[derive(Clone, Debug)]
struct Block<const W: usize> {
    members: u64,
    /// The words from which these transitions take tokens.
    disabled: Vec<(usize, Disabled)>,
    /// Inputs of several tokens.
    weighted: Vec<Input>,
    /// The differences between a state and the successors' nodes, modulo 2^64 in each word.
    steps: [[u64; W]; BLOCK],
    /// The number of each transition in the net, and its gains that may overflow a field.
    gains: Vec<(u32, Box<[Gain]>)>,
}

/// The tokens that a transition needs of one place.
#[derive(Clone, Copy, Debug)]
struct Input {
    /// The transition's.
    bit: u64,
    word: usize,
    /// The bits of the field.
    mask: u64,
    /// The number of tokens, in the bits of the field.
    tokens: u64,
}

/// A place that a transition adds tokens to.
#[derive(Clone, Copy, Debug)]
struct Gain {
    place: usize,
    field: Field,
    tokens: u64,
}

impl<const W: usize> Expander<W> {
    /// Compiles the transitions of `net` for states of `packing`, which must belong to the net.
    /// `written` selects the successors that [`expand`](Self::expand) writes; with few spare bits
    /// in the last word of the packing, fewer are left out.
    ///
    /// # Panics
    /// If states of `packing` have another number of words than `W`.
    pub fn new(net: &Net, packing: &Packing, written: Successors) -> Self {
        assert_eq!(packing.words(), W, "the words of a state");
        let fields = packing.fields();
        // No state of this packing has enough tokens for the other transitions.
        let transitions = (0..).zip(net.transitions()).filter(|(_, transition)| {
            transition.inputs.iter().all(|arc| arc.weight <= fields[arc.place].max())
        });
        let transitions: Vec<(u32, &Transition)> = transitions.collect();
        let blocks = transitions.chunks(BLOCK).map(|transitions| Block::new(transitions, packing));
        let mut expander = Self {
            label_shift: packing.last_bits(),
            fields: array::from_fn(|word| Fields::new(fields, word)),
            never_fits: false,
            transitions: transitions.len(),
            blocks: blocks.collect(),
            origins: Vec::new(),
        };
        expander.add_gains(fields);
        let labels = match written {
            Successors::All => 0,
            Successors::Needed => labels_above(expander.label_shift),
        };
        expander.add_origins(&transitions, labels);
        expander
    }

    /// Adds the largest gain of each field to the masks of the fields.
    fn add_gains(&mut self, fields: &[Field]) {
        let mut largest = vec![0; fields.len()];
        for gain in self.blocks.iter().flat_map(|block| &block.gains).flat_map(|(_, gains)| gains) {
            largest[gain.place] = gain.tokens.max(largest[gain.place]);
        }
        for (field, tokens) in fields.iter().zip(largest) {
            if tokens > field.max() {
                self.never_fits = true;
            } else if tokens > 0 {
                self.fields[field.word as usize].add_gain(*field, tokens);
            }
        }
    }

    /// Adds the unknown origin and as many transitions as there are labels.
    fn add_origins(&mut self, transitions: &[(u32, &Transition)], labels: usize) {
        let commutes_with_none = vec![0; self.blocks.len()];
        self.origins.push(Origin { change: [0; W], commuting: commutes_with_none });
        let taken: Vec<Vec<usize>> =
            transitions.iter().map(|(_, transition)| places_taken_from(transition)).collect();
        for (index, (_, transition)) in transitions.iter().enumerate().take(labels) {
            let label = (self.origins.len() as u64).checked_shl(self.label_shift).unwrap_or(0);
            let step = &mut self.blocks[index / BLOCK].steps[index % BLOCK];
            let commuting = commuting(transition, &taken, index);
            self.origins.push(Origin { change: *step, commuting });
            // The sum of a state and a change has no bit of a label.
            step[W - 1] = step[W - 1].wrapping_add(label);
        }
    }

    /// Returns an upper bound on the number of successors of a state.
    pub fn max_successors(&self) -> usize {
        self.transitions
    }

    /// Returns the state of a node. A state is itself a node, of unknown origin.
    #[inline]
    pub fn state(&self, mut node: [u64; W]) -> [u64; W] {
        node[W - 1] &= !u64::MAX.checked_shl(self.label_shift).unwrap_or(0);
        node
    }

    /// Writes nodes of successors of `node` to the front of `buffer`, which has room for at least
    /// [`max_successors`](Self::max_successors), in the order of the net: one for each enabled
    /// transition or, with [`Successors::Needed`], without those that the module's rule leaves out,
    /// because another state of the same or an earlier level surely leads to the same successor.
    /// `node` is a reachable state: a sum is not checked if it has a bound that its field holds.
    ///
    /// A breadth-first search finds all states, at their distances, if it starts with a state of
    /// unknown origin, keeps the node by which it first found each state, and expands all nodes of
    /// a level before those of the next.
    ///
    /// # Errors
    /// [`Overflow`] if a successor to be written does not fit the packing. One that is left out is
    /// written for a state of the same or an earlier level.
    #[inline]
    pub fn expand(&self, node: &[u64; W], buffer: &mut [[u64; W]]) -> Result<Expanded, Overflow> {
        let state = self.state(*node);
        let label = node[W - 1].checked_shr(self.label_shift).unwrap_or(0);
        let label = usize::try_from(label).unwrap_or(0);
        debug_assert!(label < self.origins.len(), "a node of another expander");
        // From an unknown origin nothing is left out.
        let Some(origin) = self.origins.get(label).or(self.origins.first()) else {
            return Ok(Expanded::default());
        };
        let before = array::from_fn(|word| state[word].wrapping_sub(origin.change[word]));
        let near_overflow = self.is_near_overflow(&state);
        let mut expanded = Expanded::default();
        for (block, commuting) in self.blocks.iter().zip(&origin.commuting) {
            let enabled = block.enabled(block.members, &state, &self.fields, |_| true);
            expanded.enabled += enabled.count_ones() as usize;
            let left_out = match enabled & commuting {
                0 => 0,
                among => {
                    block.enabled(among, &before, &self.fields, |word| origin.change[word] != 0)
                }
            };
            let written = enabled & !left_out;
            if near_overflow {
                block.check_gains(written, &state)?;
            }
            let room = buffer.get_mut(expanded.nodes..).unwrap_or_default();
            for (at, node) in bits(written).zip(room) {
                let step = &block.steps[at];
                for ((word, of_state), of_step) in node.iter_mut().zip(&state).zip(step) {
                    *word = of_state.wrapping_add(*of_step);
                }
                expanded.nodes += 1;
            }
        }
        Ok(expanded)
    }

    /// Returns false if no transition overflows a field of `state`.
    #[inline]
    fn is_near_overflow(&self, state: &[u64; W]) -> bool {
        let words = self.fields.iter().zip(state);
        let carries = words.fold(0, |all, (fields, &word)| all | fields.carries(word));
        self.never_fits || carries != 0
    }
}

impl<const W: usize> Block<W> {
    fn new(transitions: &[(u32, &Transition)], packing: &Packing) -> Self {
        let fields = packing.fields();
        let mut block = Self {
            members: 0,
            disabled: Vec::new(),
            weighted: Vec::new(),
            steps: [[0; W]; BLOCK],
            gains: Vec::new(),
        };
        for (at, &(number, transition)) in transitions.iter().enumerate() {
            let bit = 1 << at;
            block.members |= bit;
            for arc in &transition.inputs {
                block.add_input(bit, fields[arc.place], arc.weight);
            }
            let mut gains = Vec::new();
            for (place, change) in transition.effect() {
                let field = fields[place];
                let step = &mut block.steps[at][field.word as usize];
                *step = step.wrapping_add(change.cast_unsigned() << field.shift);
                if change > 0 && packing.may_exceed(place) {
                    gains.push(Gain { place, field, tokens: change.unsigned_abs() });
                }
            }
            // Of several places that overflow, the last one is reported.
            gains.reverse();
            block.gains.push((number, gains.into()));
        }
        block
    }

    /// Adds the tokens that the transition of this bit needs of a place.
    fn add_input(&mut self, bit: u64, field: Field, tokens: u64) {
        let word = field.word as usize;
        let known = self.disabled.iter().position(|(of, _)| *of == word);
        let at = known.unwrap_or(self.disabled.len());
        if at == self.disabled.len() {
            self.disabled.push((word, Disabled::none()));
        }
        self.disabled[at].1.add(bit, field);
        if tokens > 1 {
            let (mask, tokens) = (field.max() << field.shift, tokens << field.shift);
            self.weighted.push(Input { bit, word, mask, tokens });
        }
    }

    /// Returns those of the transitions `among` that `state` enables, of which another state is known
    /// to enable all that has the same words but those that `differs` names.
    #[inline]
    fn enabled(
        &self,
        among: u64,
        state: &[u64; W],
        fields: &[Fields; W],
        differs: impl Fn(usize) -> bool,
    ) -> u64 {
        let words = self.disabled.iter().filter(|(word, _)| differs(*word));
        let disabled = words
            .fold(0, |all, (word, disabled)| all | disabled.of(fields[*word].empty(state[*word])));
        let inputs = self.weighted.iter().filter(|input| differs(input.word));
        inputs.fold(among & !disabled, |enabled, input| {
            let has_enough = state[input.word] & input.mask >= input.tokens;
            enabled & if has_enough { u64::MAX } else { !input.bit }
        })
    }

    /// Checks that the successors of `state` by the `enabled` transitions fit.
    fn check_gains(&self, enabled: u64, state: &[u64; W]) -> Result<(), Overflow> {
        for (transition, gains) in bits(enabled).map(|at| &self.gains[at]) {
            for &Gain { place, field, tokens } in gains {
                // The terms are below 2^63 and at most 2^62, so the sum fits a u64.
                let tokens = field.tokens(state) + tokens;
                if tokens > field.max() {
                    return Err(Overflow { place, tokens, transition: Some(*transition) });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
