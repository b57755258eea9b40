//! Properties that a search checks in each state, and the first states that violate them.

use core::fmt;

use probeline::transport::Exchange;

use crate::petri::{Invariant, Packing};
use crate::{Error, gather_values};

/// The text of [`Property::NoDeadlock`].
pub const NO_DEADLOCK: &str = "no deadlock";

/// A property that each state has or violates.
#[derive(Clone, Debug)]
pub enum Property {
    /// Each state enables a transition.
    NoDeadlock,
    /// A linear inequality over places.
    Invariant(Invariant),
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDeadlock => f.write_str(NO_DEADLOCK),
            Self::Invariant(invariant) => invariant.fmt(f),
        }
    }
}

impl Property {
    /// Returns whether a state violates the property that enables this number of transitions.
    fn is_violated(&self, packing: &Packing, state: &[u64], enabled: usize) -> bool {
        match self {
            Self::NoDeadlock => enabled == 0,
            Self::Invariant(invariant) => !invariant.holds_in(packing, state),
        }
    }
}

/// A state that violates a property, at the least distance from the initial state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// The number of transitions from the initial state.
    pub(super) distance: u64,
    pub(super) state: Vec<u64>,
}

/// The violations found so far.
pub(super) struct Findings<'a> {
    properties: &'a [Property],
    packing: &'a Packing,
    /// For each property, the least of this rank's states that violate it, in the level that is
    /// being expanded. Ranks agree on the least state of all, so that the result does not depend on
    /// their number.
    candidates: Vec<Option<Vec<u64>>>,
    /// For each property, the violation that ranks have agreed on.
    pub(super) violations: Vec<Option<Violation>>,
}

impl<'a> Findings<'a> {
    pub(super) fn new(properties: &'a [Property], packing: &'a Packing) -> Self {
        let none = vec![None; properties.len()];
        Self { properties, packing, candidates: none, violations: vec![None; properties.len()] }
    }

    /// Returns whether some property may still be violated.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.violations.iter().any(Option::is_none)
    }

    /// Returns whether ranks have agreed on a violation.
    pub(super) fn has_violation(&self) -> bool {
        self.violations.iter().any(Option::is_some)
    }

    /// Returns whether properties were asked for and all of them are violated.
    pub(super) fn are_complete(&self) -> bool {
        !self.properties.is_empty() && !self.is_open()
    }

    /// Checks a state that enables this number of transitions.
    pub(super) fn check(&mut self, state: &[u64], enabled: usize) {
        let found = self.candidates.iter_mut().zip(&self.violations);
        for (property, (candidate, violation)) in self.properties.iter().zip(found) {
            let is_first =
                violation.is_none() && candidate.as_ref().is_none_or(|known| *state < known[..]);
            if is_first && property.is_violated(self.packing, state, enabled) {
                *candidate = Some(state.to_vec());
            }
        }
    }

    /// Gathers the violations among the states at `distance` of all ranks. All ranks call it.
    pub(super) fn gather(
        &mut self,
        distance: u64,
        exchange: &mut dyn Exchange,
    ) -> Result<(), Error> {
        if !self.is_open() {
            return Ok(());
        }
        for candidates in gather_values(exchange, &self.candidates)? {
            for (violation, candidate) in self.violations.iter_mut().zip(candidates) {
                let Some(state) = candidate else { continue };
                let is_less = |known: &Violation| known.distance == distance && state < known.state;
                if violation.as_ref().is_none_or(is_less) {
                    *violation = Some(Violation { distance, state });
                }
            }
        }
        self.candidates.fill(None);
        Ok(())
    }
}
