//! The firing rule on packed states, for all places of a transition at once.
//!
//! Fields lie side by side in a word. Subtracting the tokens that a transition needs borrows out of
//! a field's top bit if and only if that place has too few tokens. Adding the tokens that the
//! transition produces carries out of the top bit if and only if the field is too narrow. (This
//! holds exactly for the lowest field that fails; its borrow or carry into the fields above cannot
//! hide it.) A few Boolean operations on operands and result show which bits borrow or carry
//! (Warren, Hacker's Delight, 2nd edition, section 2-16).

use crate::layout::Field;
use crate::{Net, Packing, Transition};

/// The bit that no field of a state of one word uses: 0 in every such state.
const NO_FIELD: u64 = 1 << 63;

/// The transitions of a net, compiled for one packing.
#[derive(Clone, Debug)]
pub struct FiringRule {
    rules: Vec<Rule>,
    /// The places that each rule adds to; only an overflow needs them.
    gains: Vec<Box<[Gain]>>,
    /// A rule that adds to every place the largest gain of any transition. If it does not overflow
    /// in a state, no rule does.
    ceiling: Rule,
}

/// A compiled transition.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rule {
    /// The tokens that input places must have, in their fields.
    needs: u64,
    /// The top bits of these fields.
    need_tops: u64,
    /// The tokens that places gain, in their fields.
    gains: u64,
    /// The top bits of these fields.
    gain_tops: u64,
    /// The difference between a state and its successor: gains minus losses, modulo 2^64.
    pub(crate) change: u64,
    /// The transition's number in the net.
    pub(crate) transition: u32,
}

/// A place that a transition adds tokens to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gain {
    place: usize,
    field: Field,
    tokens: u64,
}

impl Gain {
    /// Returns whether the field is too narrow for the gain, even in a state without tokens.
    pub(crate) fn never_fits(&self) -> bool {
        self.tokens > self.field.max()
    }
}

impl FiringRule {
    /// Compiles the transitions of `net` for states of `packing`, which must belong to the net and
    /// pack a state in one word.
    pub fn new(net: &Net, packing: &Packing) -> Self {
        let mut compiled = Self { rules: Vec::new(), gains: Vec::new(), ceiling: Rule::default() };
        for (number, transition) in (0..).zip(net.transitions()) {
            // No state of this packing has enough tokens for the skipped transitions.
            let Some(rule) = Rule::new(transition, number, packing.fields(), 0) else { continue };
            compiled.rules.push(rule);
            compiled.gains.push(gains(transition, packing.fields()));
        }
        compiled.ceiling = compiled.ceiling(packing.fields());
        compiled
    }

    fn ceiling(&self, fields: &[Field]) -> Rule {
        let mut max = vec![0; fields.len()];
        for gain in self.gains.iter().flatten() {
            max[gain.place] = gain.tokens.max(max[gain.place]);
        }
        let mut rule = Rule::default();
        for (&field, tokens) in fields.iter().zip(max).filter(|&(_, tokens)| tokens > 0) {
            rule.gain(field, tokens);
        }
        rule
    }

    /// Returns the rules of the transitions that a state of the packing can enable, in the order of
    /// the net.
    pub(crate) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns false if no transition overflows a field of `state`.
    #[inline]
    pub(crate) fn is_near_overflow(&self, state: u64) -> bool {
        self.ceiling.overflows(state, state.wrapping_add(self.ceiling.change))
    }

    /// Fires the rule at `index`, which `state` enables.
    #[inline]
    pub(crate) fn fire(&self, state: u64, index: usize) -> Result<u64, Overflow> {
        let rule = &self.rules[index];
        let next = state.wrapping_add(rule.change);
        if rule.overflows(state, next) {
            return Err(self.overflow(state, index));
        }
        Ok(next)
    }

    /// Calls `emit` for each transition that `state` enables, in the order of the net, with the
    /// transition's number and the successor.
    ///
    /// Returns the number of calls, which is the number of arcs that leave the state. Two
    /// transitions may lead to the same state.
    ///
    /// # Errors
    /// [`Overflow`] if a successor does not fit the packing; others may have been emitted before.
    #[inline]
    pub fn successors(&self, state: u64, mut emit: impl FnMut(u32, u64)) -> Result<u32, Overflow> {
        let mut enabled = 0;
        for (index, rule) in self.rules.iter().enumerate() {
            if !rule.is_enabled(state) {
                continue;
            }
            let next = self.fire(state, index)?;
            enabled += 1;
            emit(rule.transition, next);
        }
        Ok(enabled)
    }

    #[cold]
    fn overflow(&self, state: u64, index: usize) -> Overflow {
        overflow(&self.gains[index], &[state], self.rules[index].transition)
    }
}

/// Returns the places that a transition adds tokens to.
pub(crate) fn gains(transition: &Transition, fields: &[Field]) -> Box<[Gain]> {
    let gained = transition.effect().into_iter().filter(|&(_, change)| change > 0);
    let gained = gained.map(|(place, change)| Gain {
        place,
        field: fields[place],
        tokens: change.unsigned_abs(),
    });
    gained.collect()
}

/// Returns the last place whose field in `state` is too narrow for its gain by `transition`.
#[cold]
pub(crate) fn overflow(gains: &[Gain], state: &[u64], transition: u32) -> Overflow {
    let mut found = Overflow { transition: Some(transition), ..Overflow::default() };
    for gain in gains {
        // The terms are below 2^63 and at most 2^62, so the sum fits a u64.
        let tokens = gain.field.tokens(state) + gain.tokens;
        if tokens > gain.field.max() {
            (found.place, found.tokens) = (gain.place, tokens);
        }
    }
    found
}

impl Rule {
    /// Compiles the part of a transition that concerns the fields of one word; `None` if one of
    /// these is too narrow for the tokens that the transition takes.
    pub(crate) fn new(
        transition: &Transition,
        number: u32,
        fields: &[Field],
        word: u32,
    ) -> Option<Self> {
        let mut rule = Self { transition: number, ..Self::default() };
        for arc in &transition.inputs {
            let field = fields[arc.place];
            if field.word != word {
                continue;
            }
            if arc.weight > field.max() {
                return None;
            }
            rule.needs |= arc.weight << field.shift;
            rule.need_tops |= field.top();
        }
        for (place, change) in transition.effect() {
            let (field, tokens) = (fields[place], change.unsigned_abs());
            if field.word != word {
                continue;
            }
            if change < 0 {
                rule.change = rule.change.wrapping_sub(tokens << field.shift);
            }
            if change > 0 {
                rule.gain(field, tokens);
            }
        }
        Some(rule)
    }

    fn gain(&mut self, field: Field, tokens: u64) {
        if tokens > field.max() {
            // Too many tokens even for an empty field: this gain carries in every state.
            self.gains |= NO_FIELD;
            self.gain_tops |= NO_FIELD;
            return;
        }
        self.gains |= tokens << field.shift;
        self.gain_tops |= field.top();
        self.change = self.change.wrapping_add(tokens << field.shift);
    }

    #[inline]
    pub(crate) fn is_enabled(&self, state: u64) -> bool {
        let rest = state.wrapping_sub(self.needs);
        let borrows = (!state & self.needs) | (!(state ^ self.needs) & rest);
        borrows & self.need_tops == 0
    }

    /// Returns whether a place has too many tokens for its field in `next`, which is `state` plus
    /// `change`.
    #[inline]
    pub(crate) fn overflows(&self, state: u64, next: u64) -> bool {
        // Gains and losses are in different fields, and losses borrow from no other field, so the
        // carries are those of state + gains.
        let carries = (state & self.gains) | ((state | self.gains) & !next);
        carries & self.gain_tops != 0
    }
}

/// A marking that does not fit a packing: a place holds more tokens than its field can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("place {place} (from 0) holds {tokens} tokens, more than its field; grow the packing")]
pub struct Overflow {
    /// Index of the place in [`Net::places`].
    pub place: usize,
    /// The tokens that it holds.
    pub tokens: u64,
    /// The number of the transition that leads to the marking; `None` if no transition was fired.
    pub transition: Option<u32>,
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;
    use crate::MAX_TOKENS;
    use crate::naive::{self, Ends, net};
    use crate::{Expanded, Expander, Successors};

    /// Returns the successors, and checks that an expander that leaves out none agrees.
    fn fire(net: &Net, packing: &Packing, state: u64) -> Result<Vec<(u32, u64)>, Overflow> {
        let mut fired = Vec::new();
        let enabled = FiringRule::new(net, packing)
            .successors(state, |transition, next| fired.push((transition, next)));
        let expander = Expander::new(net, packing, Successors::All);
        // Old contents have no effect.
        let mut buffer = vec![u64::MAX; expander.max_successors()];
        let expanded = expander.expand(state, &mut buffer);
        if let Ok(Expanded { enabled, nodes }) = expanded {
            assert_eq!((enabled, nodes), (fired.len(), fired.len()));
            assert!(buffer.iter().zip(&fired).all(|(&node, &(_, next))| node == next));
        }
        assert_eq!(expanded.map(|expanded| expanded.enabled), enabled.map(|count| count as usize));
        enabled.map(|_| fired)
    }

    fn overflowed(place: usize, tokens: u64, transition: u32) -> Overflow {
        Overflow { place, tokens, transition: Some(transition) }
    }

    #[test]
    fn one_arc_for_each_transition() {
        let net = net(&[1, 0], &[(&[(0, 1)], &[(1, 1)]), (&[(0, 1)], &[(1, 1)])]);
        let packing = Packing::of_widths(&[1, 1]);
        assert_eq!(fire(&net, &packing, 0b01), Ok(vec![(0, 0b10), (1, 0b10)]));
    }

    #[test]
    fn a_transition_without_inputs_is_always_enabled() {
        let net = net(&[0], &[(&[], &[]), (&[], &[(0, 1)])]);
        let packing = Packing::of_widths(&[1]);
        assert_eq!(fire(&net, &packing, 0), Ok(vec![(0, 0), (1, 1)]));
        assert_eq!(fire(&net, &packing, 1), Err(overflowed(0, 2, 1)));
    }

    #[test]
    fn a_borrow_from_a_neighbour_enables_nothing() {
        let net = net(&[0, 0], &[(&[(0, 1)], &[])]);
        let packing = Packing::of_widths(&[2, 2]);
        assert_eq!(fire(&net, &packing, 0b0100), Ok(vec![]));
    }

    #[test]
    fn a_field_without_bits_never_has_enough_and_cannot_gain() {
        let packing = Packing::of_widths(&[1, 0]);
        let takes = net(&[1, 0], &[(&[(1, 1)], &[])]);
        assert_eq!(fire(&takes, &packing, 1), Ok(vec![]));
        let gives = net(&[1, 0], &[(&[(0, 1)], &[(1, 6)])]);
        assert_eq!(fire(&gives, &packing, 0), Ok(vec![]));
        assert_eq!(fire(&gives, &packing, 1), Err(overflowed(1, 6, 0)));
    }

    #[test]
    fn tokens_that_come_back_do_not_overflow() {
        let net = net(&[3], &[(&[(0, 3)], &[(0, 3)]), (&[(0, 3)], &[(0, 1)])]);
        let packing = Packing::of_widths(&[2]);
        assert_eq!(fire(&net, &packing, 3), Ok(vec![(0, 3), (1, 1)]));
        assert_eq!(fire(&net, &packing, 2), Ok(vec![]));
    }

    #[test]
    fn counts_of_2_to_62_are_fired_and_overflow() {
        let net = net(&[MAX_TOKENS], &[(&[(0, MAX_TOKENS)], &[]), (&[], &[(0, MAX_TOKENS)])]);
        let packing = Packing::of_widths(&[63]);
        assert_eq!(fire(&net, &packing, 5), Ok(vec![(1, MAX_TOKENS + 5)]));
        assert_eq!(fire(&net, &packing, MAX_TOKENS), Err(overflowed(0, 1 << 63, 1)));
    }

    /// Generates field widths and a net of the same number of places, with weights that fit the
    /// fields and some that do not.
    fn packed_nets() -> impl Strategy<Value = (Vec<u32>, Net)> {
        naive::widths().prop_flat_map(|widths| {
            let places = widths.len();
            let weight = prop_oneof![4 => 1_u64..=2, 2 => 1_u64..=20, 1 => 1..=MAX_TOKENS];
            let ends = btree_map(0..places, weight, 0..4);
            let ends = ends.prop_map(|ends| ends.into_iter().collect::<Vec<_>>());
            let transitions = vec((ends.clone(), ends), 1..6);
            transitions.prop_map(move |transitions| {
                let ends: Vec<Ends<'_>> =
                    transitions.iter().map(|(from, to)| (&from[..], &to[..])).collect();
                (widths.clone(), net(&vec![0; places], &ends))
            })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// Both rules give the same transitions, order and markings. The packed rule overflows if
        /// and only if the naive rule exceeds a field, and then reports that place and count.
        #[test]
        fn packed_and_naive_rule_agree(
            (widths, net) in packed_nets(),
            words in vec((any::<u64>(), any::<u64>(), any::<bool>()), 8),
        ) {
            let packing = Packing::of_widths(&widths);
            let used: u32 = widths.iter().sum();
            for (word, other, sparse) in words {
                let word = if sparse { word & other } else { word | other };
                let state = word & !(u64::MAX << used);
                let marking: Vec<u64> = packing.unpack(state).collect();
                let naive = naive::successors(&net, &marking);
                let too_many = naive.iter().find(|(_, after)| packing.pack(after).is_err());
                match fire(&net, &packing, state) {
                    Ok(fired) => {
                        prop_assert!(too_many.is_none());
                        let packed: Vec<_> = naive
                            .iter()
                            .map(|(transition, after)| (*transition, packing.pack(after).unwrap()))
                            .collect();
                        prop_assert_eq!(fired, packed);
                    }
                    Err(Overflow { place, tokens, transition }) => {
                        let after = too_many.map(|(by, after)| (Some(*by), after[place]));
                        prop_assert_eq!(after, Some((transition, tokens)));
                        prop_assert!(tokens > packing.fields()[place].max());
                    }
                }
            }
        }
    }
}
