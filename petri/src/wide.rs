//! Successors for a breadth-first search whose states have several words.
//!
//! Fields do not straddle words, so a transition consists of independent parts, one for each word
//! that it touches. Each part is computed as in a state of one word (see `successors`), and the
//! same successors are left out (see `expander`).

use std::collections::BTreeSet;

use crate::layout::Field;
use crate::masks::{BLOCK, Disabled, Fields};
use crate::masks::{bits, commuting, labels_above, places_taken_from, without_disabled};
use crate::successors::{Gain, Rule, gains, overflow};
use crate::{Expanded, Net, Overflow, Packing, Successors, Transition};

/// As an [`Expander`](crate::Expander), for states of any number of words.
///
/// A node has as many words as a state. The bits of the last word that no field uses hold the label
/// of its origin.
#[derive(Clone, Debug)]
pub struct WideExpander {
    words: usize,
    /// Index of the lowest bit of the label in the last word; 64 if no label fits.
    label_shift: u32,
    /// By word.
    fields: Vec<Fields>,
    rules: Vec<WideRule>,
    blocks: Vec<Block>,
    /// By label; label 0 is the unknown origin.
    origins: Vec<Origin>,
}

/// A compiled transition.
#[derive(Clone, Debug)]
struct WideRule {
    transition: u32,
    /// The words that the transition touches, each with its part.
    parts: Box<[(usize, Rule)]>,
    gains: Box<[Gain]>,
    /// Whether a gain exceeds its field in every state.
    never_fits: bool,
    /// The label of the successors' origin, at its place in the last word.
    label: u64,
}

/// The transition that found a state.
#[derive(Clone, Debug)]
struct Origin {
    /// For each word, the difference between the state and its predecessor, modulo 2^64.
    change: Box<[u64]>,
    /// For each block, the later transitions that leave this one enabled.
    commuting: Vec<u64>,
}

/// Up to 64 transitions, each a bit in masks.
#[derive(Clone, Debug)]
struct Block {
    members: u64,
    /// The words from which these transitions take tokens.
    disabled: Vec<(usize, Disabled)>,
    /// The bits and parts of transitions that need several tokens of a place.
    weighted: Vec<(u64, usize, Rule)>,
}

impl WideExpander {
    /// Compiles the transitions of `net` for states of `packing`, which must belong to the net.
    /// `written` selects the successors that [`expand`](Self::expand) writes; with few spare bits
    /// in the last word of the packing, fewer are left out.
    pub fn new(net: &Net, packing: &Packing, written: Successors) -> Self {
        let (words, fields) = (packing.words(), packing.fields());
        let label_shift = packing.last_bits();
        // No state of this packing has enough tokens for the transitions without a rule.
        let compiled = (0..).zip(net.transitions()).filter_map(|(number, transition)| {
            Some((transition, WideRule::new(transition, number, fields)?))
        });
        let (transitions, mut rules): (Vec<&Transition>, Vec<WideRule>) = compiled.unzip();
        let blocks = transitions.chunks(BLOCK).zip(rules.chunks(BLOCK));
        let blocks: Vec<Block> =
            blocks.map(|(transitions, rules)| Block::new(transitions, rules, fields)).collect();
        let taken: Vec<Vec<usize>> =
            transitions.iter().map(|transition| places_taken_from(transition)).collect();
        let mut origins =
            vec![Origin { change: vec![0; words].into(), commuting: vec![0; blocks.len()] }];
        let labels = match written {
            Successors::All => 0,
            Successors::Needed => labels_above(label_shift),
        };
        for (index, rule) in rules.iter_mut().enumerate().take(labels) {
            rule.label = (origins.len() as u64) << label_shift;
            let mut change = vec![0; words];
            for (word, part) in &rule.parts {
                change[*word] = part.change;
            }
            let commuting = commuting(transitions[index], &taken, index);
            origins.push(Origin { change: change.into(), commuting });
        }
        let fields = (0..).take(words).map(|word| Fields::new(fields, word)).collect();
        Self { words, label_shift, fields, rules, blocks, origins }
    }

    /// Returns an upper bound on the number of successors of a state.
    pub fn max_successors(&self) -> usize {
        self.rules.len()
    }

    /// Returns the number of words of a state, and of a node.
    pub fn words(&self) -> usize {
        self.words
    }

    /// Turns a node into its state, by clearing the label of its origin. A state is itself a node,
    /// of unknown origin.
    #[inline]
    pub fn clear_origin(&self, node: &mut [u64]) {
        if let Some(last) = node.get_mut(self.words - 1) {
            *last &= self.last_mask();
        }
    }

    /// The bits of a node's last word that belong to the state.
    #[inline]
    fn last_mask(&self) -> u64 {
        !u64::MAX.checked_shl(self.label_shift).unwrap_or(0)
    }

    /// Writes nodes of successors of `node` to the front of `buffer`, one after the other, as
    /// [`Expander::expand`](crate::Expander::expand) does. `node` has [`words`](Self::words) words;
    /// `buffer` has room for [`max_successors`](Self::max_successors) nodes of as many.
    ///
    /// # Errors
    /// [`Overflow`] if a successor to be written does not fit the packing. One that is left out is
    /// to be written for a state of the same or an earlier level.
    #[inline]
    pub fn expand(&self, node: &[u64], buffer: &mut [u64]) -> Result<Expanded, Overflow> {
        debug_assert_eq!(node.len(), self.words, "a node of another expander");
        let last = node.last().copied().unwrap_or(0);
        let label = last.checked_shr(self.label_shift).unwrap_or(0);
        let label = usize::try_from(label).unwrap_or(0);
        debug_assert!(label < self.origins.len(), "a node of another expander");
        // From an unknown origin nothing is left out.
        let Some(origin) = self.origins.get(label).or(self.origins.first()) else {
            return Ok(Expanded::default());
        };
        let mut expanded = Expanded::default();
        let mut room = buffer.chunks_exact_mut(self.words);
        for (number, (block, &commuting)) in self.blocks.iter().zip(&origin.commuting).enumerate() {
            let (enabled, before) = self.enabled(block, node, origin, commuting != 0);
            expanded.enabled += enabled.count_ones() as usize;
            for at in bits(enabled & !(before & commuting)) {
                let rule = &self.rules[number * BLOCK + at];
                let Some(next) = room.next() else { break };
                next.copy_from_slice(node);
                self.clear_origin(next);
                if !rule.fire(next) {
                    return Err(overflow(&rule.gains, node, rule.transition));
                }
                next[self.words - 1] |= rule.label;
                expanded.nodes += 1;
            }
        }
        Ok(expanded)
    }

    /// Returns the transitions of `block` that `node` enables and, if `with_before`, those that its
    /// predecessor enables from which `origin` leads to it.
    #[inline]
    fn enabled(
        &self,
        block: &Block,
        node: &[u64],
        origin: &Origin,
        with_before: bool,
    ) -> (u64, u64) {
        // The label is above all fields, so it changes neither of them.
        let (mut enabled, mut before) = (block.members, block.members);
        for &(word, ref disabled) in &block.disabled {
            let (fields, at) = (self.fields[word], node[word]);
            let now = disabled.of(fields.empty(at));
            enabled &= !now;
            let change = origin.change[word];
            if with_before && change == 0 {
                before &= !now;
            } else if with_before {
                before &= !disabled.of(fields.empty(at.wrapping_sub(change)));
            }
        }
        for &(bit, word, ref part) in &block.weighted {
            let at = node[word];
            enabled = without_disabled(enabled, bit, part, at);
            before = without_disabled(before, bit, part, at.wrapping_sub(origin.change[word]));
        }
        (enabled, before)
    }
}

impl WideRule {
    /// Compiles a transition; `None` if a field is too narrow for the tokens that it takes.
    fn new(transition: &Transition, number: u32, fields: &[Field]) -> Option<Self> {
        let arcs = transition.inputs.iter().chain(&transition.outputs);
        let words: BTreeSet<u32> = arcs.map(|arc| fields[arc.place].word).collect();
        let part = |word| Some((word as usize, Rule::new(transition, number, fields, word)?));
        let parts = words.into_iter().map(part).collect::<Option<_>>()?;
        let gains = gains(transition, fields);
        let never_fits = gains.iter().any(Gain::never_fits);
        Some(Self { transition: number, parts, gains, never_fits, label: 0 })
    }

    /// Fires the transition in a state that enables it. Returns false if the result does not fit.
    #[inline]
    fn fire(&self, state: &mut [u64]) -> bool {
        for (word, part) in &self.parts {
            let before = state[*word];
            state[*word] = before.wrapping_add(part.change);
            if part.overflows(before, state[*word]) {
                return false;
            }
        }
        !self.never_fits
    }
}

impl Block {
    fn new(transitions: &[&Transition], rules: &[WideRule], fields: &[Field]) -> Self {
        let mut block = Self { members: 0, disabled: Vec::new(), weighted: Vec::new() };
        for (at, (transition, rule)) in transitions.iter().zip(rules).enumerate() {
            let bit = 1 << at;
            block.members |= bit;
            for arc in &transition.inputs {
                let field = fields[arc.place];
                block.disabled_by(field.word as usize).add(bit, field);
            }
            if transition.inputs.iter().any(|arc| arc.weight > 1) {
                block.weighted.extend(rule.parts.iter().map(|&(word, part)| (bit, word, part)));
            }
        }
        block
    }

    /// Returns the transitions that empty fields of `word` disable.
    fn disabled_by(&mut self, word: usize) -> &mut Disabled {
        let known = self.disabled.iter().position(|(of, _)| *of == word);
        let at = known.unwrap_or(self.disabled.len());
        if at == self.disabled.len() {
            self.disabled.push((word, Disabled::none()));
        }
        &mut self.disabled[at].1
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::naive::{self, net};
    use crate::{Expander, MAX_TOKENS, STATE_BITS};

    /// Returns the successors of a marking, one for each arc, as markings.
    fn fire(net: &Net, packing: &Packing, marking: &[u64]) -> Result<Vec<Vec<u64>>, Overflow> {
        let expander = WideExpander::new(net, packing, Successors::All);
        let mut state = vec![0; packing.words()];
        packing.pack_wide(marking, &mut state).unwrap();
        // Old contents have no effect.
        let mut buffer = vec![u64::MAX; expander.max_successors() * packing.words()];
        let Expanded { enabled, nodes } = expander.expand(&state, &mut buffer)?;
        assert_eq!(enabled, nodes);
        let states = buffer.chunks(packing.words()).take(nodes);
        Ok(states.map(|state| packing.unpack_wide(state).collect()).collect())
    }

    /// The markings of each level, and the number of arcs that leave it.
    type Levels = Vec<(BTreeSet<Vec<u64>>, usize)>;

    /// Searches breadth-first until it has found more states than `limit`. Returns the levels, and
    /// the number of nodes that were written. The last level may be cut short by an overflow.
    fn search(
        net: &Net,
        packing: &Packing,
        written: Successors,
        limit: usize,
    ) -> (Result<Levels, usize>, usize) {
        let expander = WideExpander::new(net, packing, written);
        let words = expander.words();
        let mut initial = vec![0; words];
        packing.pack_wide(&net.initial(), &mut initial).unwrap();
        let (mut visited, mut written) = (BTreeSet::from([initial.clone()]), 0);
        let (mut levels, mut current) = (Levels::new(), vec![initial]);
        let mut buffer = vec![u64::MAX; expander.max_successors() * words];
        while !current.is_empty() && visited.len() <= limit {
            let (mut next, mut arcs, mut markings) = (Vec::new(), 0, BTreeSet::new());
            for node in &current {
                let Ok(expanded) = expander.expand(node, &mut buffer) else {
                    return (Err(levels.len()), written);
                };
                written += expanded.nodes;
                arcs += expanded.enabled;
                for node in buffer.chunks(words).take(expanded.nodes) {
                    let mut state = node.to_vec();
                    expander.clear_origin(&mut state);
                    if visited.insert(state) {
                        next.push(node.to_vec());
                    }
                }
                let mut state = node.clone();
                expander.clear_origin(&mut state);
                markings.insert(packing.unpack_wide(&state).collect());
            }
            levels.push((markings, arcs));
            current = next;
        }
        (Ok(levels), written)
    }

    /// Searches breadth-first on plain markings, as [`search`] does.
    fn naive_levels(net: &Net, limit: usize) -> Levels {
        let mut distances = BTreeMap::from([(net.initial(), 0)]);
        let (mut levels, mut current) = (Levels::new(), BTreeSet::from([net.initial()]));
        while !current.is_empty() && distances.len() <= limit {
            let (mut next, mut arcs) = (BTreeSet::new(), 0);
            for (_, after) in current.iter().flat_map(|at| naive::successors(net, at)) {
                arcs += 1;
                if distances.insert(after.clone(), levels.len() + 1).is_none() {
                    next.insert(after);
                }
            }
            levels.push((current, arcs));
            current = next;
        }
        levels
    }

    /// Philosophers in two words, 65 places, and in several words of few places each.
    #[test]
    fn levels_are_those_of_plain_markings() {
        for (model, states) in [("philosophers:8", 6_561), ("fms:2", 3_444)] {
            let net = Net::load(model).unwrap();
            let widths = vec![9; net.places().len()];
            let packing = Packing::of_wide_widths(&widths, 16);
            assert_eq!(packing.words(), widths.len().div_ceil(7));
            let naive = naive_levels(&net, usize::MAX);
            assert_eq!(naive.iter().map(|(level, _)| level.len()).sum::<usize>(), states);
            let [all, needed] = [Successors::All, Successors::Needed]
                .map(|written| search(&net, &packing, written, usize::MAX));
            assert!(all.0.as_ref() == Ok(&naive) && needed.0.as_ref() == Ok(&naive), "{model}");
            assert!((needed.1 as f64) < 0.5 * all.1 as f64, "{model}: {} {}", needed.1, all.1);
        }
    }

    #[test]
    fn one_word_gives_the_successors_of_the_narrow_expander() {
        let net = Net::load("fms:2").unwrap();
        let packing = Packing::new(&net).unwrap();
        let (wide, narrow) = (
            WideExpander::new(&net, &packing, Successors::Needed),
            Expander::new(&net, &packing, Successors::Needed),
        );
        let mut open = vec![packing.pack(&net.initial()).unwrap()];
        let mut buffers = [vec![0; wide.max_successors()], vec![0; narrow.max_successors()]];
        let mut visited = BTreeSet::from([open[0]]);
        while let Some(node) = open.pop() {
            let expanded = wide.expand(&[node], &mut buffers[0]).unwrap();
            assert_eq!(narrow.expand(node, &mut buffers[1]), Ok(expanded));
            assert_eq!(buffers[0][..expanded.nodes], buffers[1][..expanded.nodes]);
            let new = buffers[0][..expanded.nodes].iter();
            open.extend(new.filter(|&&node| visited.insert(narrow.state(node))));
        }
        assert_eq!(visited.len(), 3_444);
    }

    #[test]
    fn the_top_bit_of_a_word_is_used() {
        // Two fields fill each of two words.
        let ends = [[(0, 1)], [(1, 3)], [(2, MAX_TOKENS)], [(3, 1)]];
        let net = net(
            &[0, 5, 0, 1],
            &[(&ends[1], &ends[0]), (&ends[3], &ends[2]), (&ends[2], &ends[1]), (&[], &ends[3])],
        );
        let packing = Packing::of_wide_widths(&[1, 63, 63, 1], 2);
        assert_eq!(
            fire(&net, &packing, &[0, 5, 1, 1]),
            Err(Overflow { place: 3, tokens: 2, transition: Some(3) })
        );
        assert_eq!(
            fire(&net, &packing, &[0, 5, MAX_TOKENS, 0]),
            Ok(vec![vec![1, 2, MAX_TOKENS, 0], vec![0, 8, 0, 0], vec![0, 5, MAX_TOKENS, 1]])
        );
        assert_eq!(
            fire(&net, &packing, &[0, 2, MAX_TOKENS, 1]),
            Err(Overflow { place: 2, tokens: 1 << 63, transition: Some(1) })
        );
    }

    #[test]
    fn a_gain_that_no_state_holds_overflows() {
        let takes = [(0, 1)];
        let net = net(&[1, 0, 0], &[(&takes, &[(1, 1), (2, 6)])]);
        let packing = Packing::of_wide_widths(&[63, 2, 0], 2);
        assert_eq!(fire(&net, &packing, &[0, 0, 0]), Ok(vec![]));
        let overflow = Overflow { place: 2, tokens: 6, transition: Some(0) };
        assert_eq!(fire(&net, &packing, &[1, 3, 0]), Err(overflow));
    }

    /// Generates a net and field widths that fill 1 to 6 words, with few bits of some last words
    /// left for labels.
    fn wide_nets() -> impl Strategy<Value = (Net, Vec<u32>)> {
        let width = prop_oneof![2 => 1_u32..=4, 2 => 20_u32..=40, 1 => 0..=STATE_BITS];
        naive::nets().prop_flat_map(move |net| {
            let places = net.places().len();
            (Just(net), vec(width.clone(), places))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// Both rules give the same successors in the same order. The packed one overflows if and
        /// only if the naive one exceeds a field, and then reports the transition, a place and its
        /// count.
        #[test]
        fn packed_and_naive_rule_agree((net, widths) in wide_nets(), words in vec(any::<u64>(), 6)) {
            let packing = Packing::of_wide_widths(&widths, 6);
            let max = packing.fields().iter().map(|field| field.max());
            // Most counts are near the ends of their fields.
            let marking: Vec<u64> = max
                .zip(&words)
                .map(|(max, word)| match word % 4 {
                    0 => (word >> 2) & max,
                    1 => max - (word >> 2) % 4.min(max.saturating_add(1)),
                    _ => ((word >> 2) % 6).min(max),
                })
                .collect();
            let naive = naive::successors(&net, &marking);
            let fits = |after: &[u64]| after.iter().zip(packing.fields()).all(|(&n, f)| n <= f.max());
            let too_many = naive.iter().find(|(_, after)| !fits(after));
            match fire(&net, &packing, &marking) {
                Ok(fired) => {
                    prop_assert!(too_many.is_none());
                    let naive: Vec<_> = naive.into_iter().map(|(_, after)| after).collect();
                    prop_assert_eq!(fired, naive);
                }
                Err(Overflow { place, tokens, transition }) => {
                    let after = too_many.map(|(by, after)| (Some(*by), after[place]));
                    prop_assert_eq!(after, Some((transition, tokens)));
                    prop_assert!(tokens > packing.fields()[place].max());
                }
            }
        }

        /// Every level has the markings and arcs of a plain search, and a deadlock is one without
        /// arcs in all of them, however many transitions the spare bits of a node can number.
        #[test]
        fn levels_are_those_of_a_plain_search(net in naive::nets(), spare in 0_u32..=5) {
            let mut widths = vec![40; net.places().len()];
            // The last field fills its word up to the spare bits.
            *widths.last_mut().unwrap() = STATE_BITS - spare;
            let packing = Packing::of_wide_widths(&widths, 6);
            let naive = naive_levels(&net, 200);
            if packing.pack_wide(&net.initial(), &mut [0; 6]).is_ok() {
                let [all, needed] = [Successors::All, Successors::Needed]
                    .map(|written| search(&net, &packing, written, 200));
                prop_assert_eq!(&all.0, &needed.0);
                prop_assert!(needed.1 <= all.1);
                if let Ok(levels) = needed.0 {
                    prop_assert_eq!(levels, naive);
                }
            }
        }
    }
}
