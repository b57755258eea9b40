//! A place/transition net: its places hold tokens, its transitions move them.

use core::fmt;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use crate::Error;
use crate::petri::generators;

/// The largest initial marking of a place and the largest weight of an arc. One firing on a count
/// that fits a packed state therefore stays within a `u64`.
pub const MAX_TOKENS: u64 = 1 << 62;

/// The longest PNML file that is accepted: its parser needs all of it in memory.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// A valid place/transition net with its initial marking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Net {
    places: Vec<Place>,
    transitions: Vec<Transition>,
}

/// A place, which holds tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The identifier in the model.
    pub id: String,
    /// The label for people; the identifier if the model has none.
    pub name: String,
    /// Tokens in the initial marking, at most [`MAX_TOKENS`].
    pub initial: u64,
}

/// A transition, which takes tokens from its input places and puts tokens into its output places in
/// one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The identifier in the model.
    pub id: String,
    /// Arcs from places; a transition is enabled if each of them has the arc's tokens.
    pub inputs: Vec<Arc>,
    /// Arcs to places.
    pub outputs: Vec<Arc>,
}

/// An arc between a transition and a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arc {
    /// Index of the place in [`Net::places`].
    pub place: usize,
    /// Tokens that one firing moves: 1 to [`MAX_TOKENS`].
    pub weight: u64,
}

impl Net {
    /// Validates the parts and merges arcs that join the same two nodes.
    ///
    /// # Errors
    /// [`NetError`] with the first invalid part.
    pub fn new(places: Vec<Place>, mut transitions: Vec<Transition>) -> Result<Self, NetError> {
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
            transition.validate(places.len())?;
        }
        Ok(Self { places, transitions })
    }

    /// Builds the built-in model of a name such as `kanban:5`, or else reads the PNML file at this
    /// path.
    ///
    /// The built-in models are `kanban:N`, `fms:N`, `philosophers:N` and `peterson:N`. They have the
    /// state spaces of the Model Checking Contest's nets of these names (<https://mcc.lip6.fr>).
    ///
    /// # Errors
    /// [`Error`] with the path and, for a PNML file, the line; [`Error::Parameter`] for a name.
    pub fn load(model: &str) -> Result<Self, Error> {
        let path = Path::new(model);
        if model.contains(':') && !model.contains('/') && !path.exists() {
            return generators::build(model);
        }
        Self::from_pnml(&read(path)?).map_err(|error| Error::Pnml { path: path.into(), error })
    }

    /// Returns the places, in the order of markings and of [`Arc::place`].
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Returns the transitions, in the order of their numbers.
    pub fn transitions(&self) -> &[Transition] {
        &self.transitions
    }

    /// Calls `emit` with each marking from which a transition leads to `marking`, reachable or not,
    /// and the number of this transition.
    ///
    /// # Panics
    /// If `marking` has fewer places than the net.
    pub fn predecessors(&self, marking: &[u64], mut emit: impl FnMut(u32, Vec<u64>)) {
        for (number, transition) in (0..).zip(&self.transitions) {
            if let Some(before) = transition.unfire(marking) {
                emit(number, before);
            }
        }
    }

    /// Returns the initial marking: the tokens of each place.
    pub fn initial(&self) -> Vec<u64> {
        self.places.iter().map(|place| place.initial).collect()
    }
}

impl Transition {
    fn validate(&mut self, places: usize) -> Result<(), NetError> {
        for arcs in [&mut self.inputs, &mut self.outputs] {
            if arcs.iter().any(|arc| arc.place >= places) {
                return Err(NetError::UnknownPlace { transition: self.id.clone() });
            }
            let is_valid = |arc: &Arc| (1..=MAX_TOKENS).contains(&arc.weight);
            if arcs.iter().all(is_valid) {
                merge(arcs);
            }
            if !arcs.iter().all(is_valid) {
                return Err(NetError::Weight { transition: self.id.clone() });
            }
        }
        Ok(())
    }

    /// Returns whether each input place holds the tokens that this transition takes from it.
    ///
    /// # Panics
    /// If `marking` has fewer places than the net.
    pub fn is_enabled(&self, marking: &[u64]) -> bool {
        self.inputs.iter().all(|arc| marking[arc.place] >= arc.weight)
    }

    /// Fires this transition in a marking that enables it. A count that exceeds a `u64` saturates,
    /// and no packed state can hold it.
    ///
    /// # Panics
    /// If `marking` has fewer places than the net; in debug builds, even if it has them but does not
    /// enable the transition.
    pub fn fire(&self, marking: &mut [u64]) {
        for arc in &self.inputs {
            marking[arc.place] -= arc.weight;
        }
        for arc in &self.outputs {
            marking[arc.place] = marking[arc.place].saturating_add(arc.weight);
        }
    }

    /// Returns the marking that [`fire`](Self::fire) turns into this one; `None` if there is none
    /// whose counts fit a `u64`.
    fn unfire(&self, marking: &[u64]) -> Option<Vec<u64>> {
        let mut before = marking.to_vec();
        for arc in &self.outputs {
            before[arc.place] = before[arc.place].checked_sub(arc.weight)?;
        }
        for arc in &self.inputs {
            before[arc.place] = before[arc.place].checked_add(arc.weight)?;
        }
        Some(before)
    }

    /// Returns the change that a firing makes to each place that it touches, ordered by place. A
    /// place that gets back the tokens that it gave has a change of 0.
    pub(crate) fn effect(&self) -> Vec<(usize, i64)> {
        // Weights are at most 2^62, so neither the casts nor the differences overflow.
        let mut effect = BTreeMap::new();
        for arc in &self.outputs {
            *effect.entry(arc.place).or_insert(0) += arc.weight.cast_signed();
        }
        for arc in &self.inputs {
            *effect.entry(arc.place).or_insert(0) -= arc.weight.cast_signed();
        }
        effect.into_iter().collect()
    }
}

/// Reads a text of at most [`MAX_FILE_BYTES`].
fn read(path: &Path) -> Result<String, Error> {
    let refused = |problem: String| Error::Format { path: path.into(), problem };
    let mut bytes = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(|source| match source.kind() {
        ErrorKind::NotFound => refused(format!(
            "there is no such file; name a PNML file or a built-in model: {}",
            generators::built_in_models()
        )),
        _ => Error::Read { path: path.into(), source },
    })?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let max = MAX_FILE_BYTES >> 20;
        let problem = format!("longer than {max} MiB; take a smaller instance of the model");
        return Err(refused(problem));
    }
    String::from_utf8(bytes).map_err(|_| {
        refused("not UTF-8 text; unpack it if it is an archive, or convert it to UTF-8".into())
    })
}

/// Merges arcs of the same place into one. If the sum of their weights exceeds [`MAX_TOKENS`], so
/// does the weight of the merged arc.
fn merge(arcs: &mut Vec<Arc>) {
    let mut weights = BTreeMap::new();
    for arc in &*arcs {
        let weight = weights.entry(arc.place).or_insert(0);
        *weight = (*weight + arc.weight).min(MAX_TOKENS + 1);
    }
    *arcs = weights.into_iter().map(|(place, weight)| Arc { place, weight }).collect();
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name == self.id {
            return f.write_str(&self.id);
        }
        write!(f, "{} ({})", self.name, self.id)
    }
}

/// The reason why places and transitions do not form a net.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum NetError {
    /// There is no place, so there is no state.
    #[error("the net has no place: there is no state to explore")]
    NoPlace,
    /// There are more than 2^32 transitions, which are numbered in 32 bits.
    #[error("the net has more than 2^32 transitions")]
    TooManyTransitions,
    /// A place starts with more than [`MAX_TOKENS`].
    #[error("place {place} starts with more than {MAX_TOKENS} tokens")]
    TooManyTokens { place: String },
    /// The arcs between a place and this transition have weight 0 or more than [`MAX_TOKENS`].
    #[error("the weight between a place and transition {transition} is not in 1..={MAX_TOKENS}")]
    Weight { transition: String },
    /// An arc of this transition refers to a place that the net does not have.
    #[error("an arc of transition {transition} refers to a place that the net does not have")]
    UnknownPlace { transition: String },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::petri::naive::{markings, nets, successors};

    fn built(initial: u64, outputs: &[(usize, u64)]) -> Result<Net, NetError> {
        let place = Place { id: "p".into(), name: "p".into(), initial };
        let outputs = outputs.iter().map(|&(place, weight)| Arc { place, weight }).collect();
        Net::new(vec![place], vec![Transition { id: "t".into(), inputs: Vec::new(), outputs }])
    }

    #[test]
    fn rejects_unsuitable_files() {
        let path = std::env::temp_dir().join(format!("probeline-net-{}", std::process::id()));
        for (start, length, problem) in [
            (&b"PK\x03\x04\xff"[..], 5, "unpack it"),
            (b"", MAX_FILE_BYTES + 1, "longer than 256 MiB"),
        ] {
            std::fs::write(&path, start).unwrap();
            // Sparse: a hole takes no room on the disk.
            File::options().write(true).open(&path).unwrap().set_len(length).unwrap();
            let error = Net::load(path.to_str().unwrap()).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    /// Files have no other places, and `pnml` has tests of the rest.
    #[test]
    fn rejects_invalid_parts() {
        let weight = Err(NetError::Weight { transition: "t".into() });
        assert_eq!(built(0, &[(0, MAX_TOKENS + 1)]), weight);
        let place = Err(NetError::UnknownPlace { transition: "t".into() });
        assert_eq!(built(0, &[(1, 1)]), place);
        let tokens = Err(NetError::TooManyTokens { place: "p".into() });
        assert_eq!(built(MAX_TOKENS + 1, &[]), tokens);
    }

    proptest! {
        /// Every arc is found backwards, and every arc found backwards is one.
        #[test]
        fn predecessors_reverse_successors(net in nets()) {
            for marking in &markings(&net, 50) {
                for (transition, after) in successors(&net, marking) {
                    let mut found = false;
                    net.predecessors(&after, |by, before| {
                        found |= by == transition && before == *marking;
                    });
                    prop_assert!(found);
                }
                net.predecessors(marking, |transition, before| {
                    let arc = (transition, marking.clone());
                    assert!(successors(&net, &before).contains(&arc));
                });
            }
        }
    }

    #[test]
    fn shows_both_differing_names() {
        let place = Place { id: "p1".into(), name: "Fork".into(), initial: 0 };
        assert_eq!(place.to_string(), "Fork (p1)");
        assert_eq!(Place { name: "p1".into(), ..place }.to_string(), "p1");
    }
}
