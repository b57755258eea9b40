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

use crate::layout::Field;
use crate::masks::{BLOCK, ByWord, Fields};
use crate::masks::{add, bits, commuting, labels_above, places_taken_from};
use crate::{Net, Overflow, Packing, Transition};

/// Expands the nodes of a breadth-first search: states of `W` words, each with the transition that
/// found it.
///
/// The bits of a node's last word that no field uses hold the label of this transition.
#[derive(Clone, Debug)]
pub struct Expander<const W: usize> {
    /// Index of the lowest bit of the label in the last word; 64 if no label fits.
    label_shift: u32,
    /// By word.
    fields: [Fields; W],
    transitions: usize,
    blocks: Vec<Block<W>>,
    /// By label; label 0 is the unknown origin.
    origins: Vec<Origin<W>>,
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
    /// Those that need a token of a field.
    takers: ByWord,
    /// Those that add tokens to a field.
    givers: ByWord,
    /// Those that add more tokens than a field holds.
    never_fit: u64,
    /// Inputs of several tokens.
    weighted: Vec<Input>,
    /// The differences between a state and the successors' nodes, modulo 2^64 in each word.
    steps: [[u64; W]; BLOCK],
    /// The number of each transition in the net, and the places that it adds tokens to.
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
    /// In the field.
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
        let blocks = transitions.chunks(BLOCK).map(|transitions| Block::new(transitions, fields));
        let mut expander = Self {
            label_shift: packing.last_bits(),
            fields: array::from_fn(|_| Fields::default()),
            transitions: transitions.len(),
            blocks: blocks.collect(),
            origins: Vec::new(),
        };
        for (word, masks) in (0..).zip(&mut expander.fields) {
            *masks = Fields::new(fields, word);
        }
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
            if tokens > 0 && field.bits > 0 {
                self.fields[field.word as usize].add_gain(*field, tokens.min(field.max()));
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
    ///
    /// A breadth-first search finds all states, at their distances, if it starts with a state of
    /// unknown origin, keeps the node by which it first found each state, and expands all nodes of
    /// a level before those of the next.
    ///
    /// # Errors
    /// [`Overflow`] if a successor does not fit the packing, written or not.
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
        let near_overflow = array::from_fn(|word| self.fields[word].near_overflow(state[word]));
        let mut expanded = Expanded::default();
        for (block, commuting) in self.blocks.iter().zip(&origin.commuting) {
            let enabled = block.enabled(&state, &self.fields);
            block.check_gains(enabled, &state, &near_overflow)?;
            expanded.enabled += enabled.count_ones() as usize;
            let mut left_out = enabled & commuting;
            if left_out != 0 {
                left_out &= block.enabled(&before, &self.fields);
            }
            let room = buffer.get_mut(expanded.nodes..).unwrap_or_default();
            for (at, node) in bits(enabled & !left_out).zip(room) {
                let step = &block.steps[at];
                *node = array::from_fn(|word| state[word].wrapping_add(step[word]));
                expanded.nodes += 1;
            }
        }
        Ok(expanded)
    }
}

impl<const W: usize> Block<W> {
    fn new(transitions: &[(u32, &Transition)], fields: &[Field]) -> Self {
        let mut block = Self {
            members: 0,
            takers: ByWord::new(),
            givers: ByWord::new(),
            never_fit: 0,
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
                let (field, tokens) = (fields[place], change.unsigned_abs());
                let step = &mut block.steps[at][field.word as usize];
                *step = step.wrapping_add(change.cast_unsigned() << field.shift);
                if change > 0 {
                    gains.push(Gain { place, field, tokens });
                    block.add_gain(bit, field, tokens);
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
        add(&mut self.takers, bit, field);
        if tokens > 1 {
            let (mask, tokens) = (field.max() << field.shift, tokens << field.shift);
            self.weighted.push(Input { bit, word: field.word as usize, mask, tokens });
        }
    }

    /// Adds the tokens that the transition of this bit adds to a place.
    fn add_gain(&mut self, bit: u64, field: Field, tokens: u64) {
        if tokens > field.max() {
            self.never_fit |= bit;
        } else {
            add(&mut self.givers, bit, field);
        }
    }

    /// Returns the transitions that `state` enables; `fields` are those of its words.
    #[inline]
    fn enabled(&self, state: &[u64; W], fields: &[Fields; W]) -> u64 {
        let takers = self.takers.iter();
        let disabled = takers.fold(0, |disabled, (word, takers)| {
            disabled | takers.of(fields[*word].empty(state[*word]))
        });
        self.weighted.iter().fold(self.members & !disabled, |enabled, input| {
            let has_enough = state[input.word] & input.mask >= input.tokens;
            enabled & if has_enough { u64::MAX } else { !input.bit }
        })
    }

    /// Checks that the successors of `state` by the `enabled` transitions fit. No transition overflows
    /// other fields than those whose top bits are set in `near_overflow`.
    #[inline]
    fn check_gains(
        &self,
        enabled: u64,
        state: &[u64; W],
        near_overflow: &[u64; W],
    ) -> Result<(), Overflow> {
        let near = self.givers.iter().filter(|(word, _)| near_overflow[*word] != 0);
        let suspects =
            near.fold(self.never_fit, |all, (word, givers)| all | givers.of(near_overflow[*word]));
        for (transition, gains) in bits(enabled & suspects).map(|at| &self.gains[at]) {
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
