//! A place/transition net: places that hold tokens, and transitions that move them.
//!
//! From a model's name to the successors of a state that fits a table entry; nothing here knows
//! of tables or transports.

mod bounds;
mod generators;
mod load;
#[cfg(test)]
mod naive;
mod packing;
mod pnml;
mod probe;
mod successors;

pub(crate) use load::LoadError;
pub(crate) use packing::Packing;
pub(crate) use pnml::PnmlError;
pub(crate) use successors::{FiringRule, Overflow};

use core::error::Error;
use core::fmt;

use crate::digest::{Digest, Digester};

/// The most tokens a place may start with, and the most an arc may move. One firing on a count
/// that fits a table entry then stays within a `u64`.
pub(crate) const MAX_TOKENS: u64 = 1 << 62;

/// A place/transition net with its initial marking, checked when it was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Net {
    places: Vec<Place>,
    transitions: Vec<Transition>,
}

/// A holder of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its identifier in the model.
    pub(crate) id: String,
    /// What people call it; often the same.
    pub(crate) name: String,
    /// Tokens in the initial marking.
    pub(crate) initial: u64,
}

/// What takes tokens from its inputs and puts tokens into its outputs, in one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Transition {
    /// Its identifier in the model.
    pub(crate) id: String,
    /// Arcs from places: where tokens are needed and taken.
    pub(crate) inputs: Vec<Arc>,
    /// Arcs to places: where tokens are put.
    pub(crate) outputs: Vec<Arc>,
}

/// One end of a transition: a place, counted from 0, and how many tokens move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arc {
    /// Which place.
    pub(crate) place: usize,
    /// Tokens, at least 1.
    pub(crate) weight: u64,
}

impl Net {
    /// Checks the parts and adds up arcs that join the same two nodes.
    ///
    /// # Errors
    /// [`NetError`] with the first part that no net may have.
    pub(crate) fn new(
        places: Vec<Place>,
        mut transitions: Vec<Transition>,
    ) -> Result<Self, NetError> {
        if places.is_empty() {
            return Err(NetError::NoPlace);
        }
        if u32::try_from(transitions.len()).is_err() {
            return Err(NetError::TooManyTransitions);
        }
        if let Some(place) = places.iter().find(|place| place.initial > MAX_TOKENS) {
            return Err(NetError::TooManyTokens { place: place.id.clone() });
        }
        for transition in &mut transitions {
            transition.check(places.len())?;
        }
        Ok(Self { places, transitions })
    }

    /// Reads a built-in model (`kanban:5`) or a PNML file, whichever `model` names.
    ///
    /// # Errors
    /// [`LoadError`], which says what to do next.
    pub(crate) fn load(model: &str) -> Result<Self, LoadError> {
        load::load(model)
    }

    /// Reads a net from the text of a PNML file.
    ///
    /// # Errors
    /// [`PnmlError`] with the line and what is wrong there.
    pub(crate) fn parse(text: &str) -> Result<Self, PnmlError> {
        pnml::parse(text)
    }

    /// The places, in the order that markings and arcs use.
    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }

    /// The transitions, in the order that arcs of the reachability graph are numbered by.
    pub(crate) fn transitions(&self) -> &[Transition] {
        &self.transitions
    }

    /// The digest of everything that a state space depends on: the initial marking and every arc,
    /// in order. Nets that differ only in identifiers and names have the same digest.
    pub(crate) fn digest(&self) -> Digest {
        let mut digester = Digester::new("net");
        digester.number(self.places.len() as u64);
        for place in &self.places {
            digester.number(place.initial);
        }
        digester.number(self.transitions.len() as u64);
        for transition in &self.transitions {
            for arcs in [&transition.inputs, &transition.outputs] {
                digester.number(arcs.len() as u64);
                for arc in arcs {
                    digester.number(arc.place as u64);
                    digester.number(arc.weight);
                }
            }
        }
        digester.finish()
    }

    /// The initial marking: tokens by place.
    pub(crate) fn initial(&self) -> Vec<u64> {
        self.places.iter().map(|place| place.initial).collect()
    }
}

impl Transition {
    fn check(&mut self, places: usize) -> Result<(), NetError> {
        for arcs in [&mut self.inputs, &mut self.outputs] {
            let mut weights = arcs.iter().map(|arc| arc.weight);
            if weights.any(|weight| weight == 0 || weight > MAX_TOKENS) {
                return Err(NetError::Weight { transition: self.id.clone() });
            }
            if arcs.iter().any(|arc| arc.place >= places) {
                return Err(NetError::UnknownPlace { transition: self.id.clone() });
            }
            add_up(arcs);
            if arcs.iter().any(|arc| arc.weight > MAX_TOKENS) {
                return Err(NetError::Weight { transition: self.id.clone() });
            }
        }
        Ok(())
    }

    /// Whether every input has the tokens that this transition takes.
    pub(crate) fn is_enabled(&self, marking: &[u64]) -> bool {
        self.inputs.iter().all(|arc| marking[arc.place] >= arc.weight)
    }

    /// Moves the tokens in a marking that enables this transition. A count that leaves a `u64`
    /// stays at its largest value, which no entry can hold.
    pub(crate) fn fire(&self, marking: &mut [u64]) {
        for arc in &self.inputs {
            marking[arc.place] -= arc.weight;
        }
        for arc in &self.outputs {
            marking[arc.place] = marking[arc.place].saturating_add(arc.weight);
        }
    }

    /// How a firing changes each place it touches, by place. A place that gets back what it gave
    /// appears with a change of 0.
    pub(crate) fn effect(&self) -> Vec<(usize, i64)> {
        // Weights are at most 2^62, so neither the casts nor the differences overflow.
        let gains = self.outputs.iter().map(|arc| (arc.place, arc.weight.cast_signed()));
        let losses = self.inputs.iter().map(|arc| (arc.place, -arc.weight.cast_signed()));
        let mut effect: Vec<(usize, i64)> = gains.chain(losses).collect();
        effect.sort_unstable_by_key(|&(place, _)| place);
        effect.dedup_by(|later, sum| {
            let same = later.0 == sum.0;
            if same {
                sum.1 += later.1;
            }
            same
        });
        effect
    }
}

/// Joins arcs of the same place into one, with a weight past [`MAX_TOKENS`] where the sum is.
fn add_up(arcs: &mut Vec<Arc>) {
    arcs.sort_unstable_by_key(|arc| arc.place);
    arcs.dedup_by(|later, sum| {
        let same = later.place == sum.place;
        if same {
            sum.weight = (sum.weight + later.weight).min(MAX_TOKENS + 1);
        }
        same
    });
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name == self.id {
            return f.write_str(&self.id);
        }
        write!(f, "{} ({})", self.name, self.id)
    }
}

/// What no net may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NetError {
    /// There is nothing to hold a token.
    NoPlace,
    /// Transitions are numbered in 32 bits.
    TooManyTransitions,
    /// A place starts with more than [`MAX_TOKENS`].
    TooManyTokens {
        /// Its identifier.
        place: String,
    },
    /// The arcs between a place and this transition have no weight, or more than [`MAX_TOKENS`].
    Weight {
        /// Its identifier.
        transition: String,
    },
    /// An arc of this transition leads to a place that is not there.
    UnknownPlace {
        /// Its identifier.
        transition: String,
    },
}

impl fmt::Display for NetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPlace => f.write_str("the net has no place: there is no state to explore"),
            Self::TooManyTransitions => f.write_str("the net has more than 2^32 transitions"),
            Self::TooManyTokens { place } => {
                write!(f, "place {place} starts with more than {MAX_TOKENS} tokens")
            }
            Self::Weight { transition } => write!(
                f,
                "the weight between a place and transition {transition} is not in 1..={MAX_TOKENS}"
            ),
            Self::UnknownPlace { transition } => {
                write!(f, "an arc of transition {transition} leads to no place of the net")
            }
        }
    }
}

impl Error for NetError {}

#[cfg(test)]
mod tests {
    use super::naive::net;
    use super::*;

    fn transition(inputs: &[(usize, u64)], outputs: &[(usize, u64)]) -> Transition {
        let arcs = |ends: &[(usize, u64)]| {
            ends.iter().map(|&(place, weight)| Arc { place, weight }).collect()
        };
        Transition { id: "t".into(), inputs: arcs(inputs), outputs: arcs(outputs) }
    }

    fn built(initial: u64, transition: Transition) -> Result<Net, NetError> {
        let place = Place { id: "p".into(), name: "p".into(), initial };
        Net::new(vec![place], vec![transition])
    }

    #[test]
    fn parallel_arcs_add_up() {
        let net = built(0, transition(&[(0, 2), (0, 3)], &[(0, 1)])).unwrap();
        assert_eq!(net.transitions(), [transition(&[(0, 5)], &[(0, 1)])]);
        assert_eq!(net.transitions()[0].effect(), [(0, -4)]);
    }

    #[test]
    fn refuses_what_no_net_has() {
        let weight = Err(NetError::Weight { transition: "t".into() });
        assert_eq!(Net::new(vec![], vec![]), Err(NetError::NoPlace));
        assert_eq!(built(0, transition(&[(0, 0)], &[])), weight);
        assert_eq!(built(0, transition(&[], &[(0, MAX_TOKENS + 1)])), weight);
        assert_eq!(
            built(0, transition(&[(0, MAX_TOKENS), (0, MAX_TOKENS), (0, MAX_TOKENS)], &[])),
            weight
        );
        assert_eq!(
            built(0, transition(&[], &[(1, 1)])),
            Err(NetError::UnknownPlace { transition: "t".into() })
        );
        assert_eq!(
            built(MAX_TOKENS + 1, transition(&[], &[])),
            Err(NetError::TooManyTokens { place: "p".into() })
        );
    }

    #[test]
    fn takes_the_largest_counts() {
        let net = built(MAX_TOKENS, transition(&[(0, MAX_TOKENS)], &[])).unwrap();
        let mut marking = net.initial();
        assert!(net.transitions()[0].is_enabled(&marking));
        net.transitions()[0].fire(&mut marking);
        assert_eq!(marking, [0]);
    }

    #[test]
    fn a_place_gives_before_it_gets() {
        let net = net(&[1, 0], &[(&[(0, 2)], &[(0, 2), (1, 1)]), (&[(0, 1)], &[(0, 1), (1, 1)])]);
        let mut marking = net.initial();
        assert!(!net.transitions()[0].is_enabled(&marking));
        assert!(net.transitions()[1].is_enabled(&marking));
        net.transitions()[1].fire(&mut marking);
        assert_eq!(marking, [1, 1]);
        assert_eq!(net.transitions()[1].effect(), [(0, 0), (1, 1)]);
    }

    #[test]
    fn the_digest_covers_the_marking_and_every_arc() {
        let of = |initial: &[u64], weight, to: usize| {
            net(initial, &[(&[(0, weight)], &[(to, 1)]), (&[(1, 2)], &[])]).digest()
        };
        let base = of(&[3, 0, 0], 1, 1);
        assert_eq!(base, of(&[3, 0, 0], 1, 1));
        let others = [of(&[3, 0, 1], 1, 1), of(&[3, 0, 0], 4, 1), of(&[3, 0, 0], 1, 2)];
        assert!(others.iter().all(|other| *other != base), "{others:?}");
        // A reversed arc, and another order.
        let (one, other) = (net(&[1, 0], &[(&[(0, 1)], &[])]), net(&[1, 0], &[(&[], &[(0, 1)])]));
        assert_ne!(one.digest(), other.digest());
        assert_ne!(net(&[1, 0], &[]).digest(), net(&[0, 1], &[]).digest());
        // Identifiers and names do not change the digest.
        let named = Place { id: "a".into(), name: "b".into(), initial: 1 };
        let named = Net::new(vec![named], vec![]).unwrap();
        assert_eq!(named.digest(), net(&[1], &[]).digest());
        assert_ne!(Net::load("fms:2").unwrap().digest(), Net::load("fms:3").unwrap().digest());
    }

    #[test]
    fn shows_both_names_where_they_differ() {
        let place = Place { id: "p1".into(), name: "Fork".into(), initial: 0 };
        assert_eq!(place.to_string(), "Fork (p1)");
        assert_eq!(Place { name: "p1".into(), ..place }.to_string(), "p1");
    }
}
