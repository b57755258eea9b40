//! A shortest path of transitions to a state that violates a property.

use std::collections::{BTreeMap, HashMap};

use probeline::transport::Exchange;
use serde::{Deserialize, Serialize};

use super::property::{Property, Violation};
use crate::petri::{Net, Packing};
use crate::{Error, gather_values};

/// The verdict of a search on a property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// `no deadlock`, or the inequality.
    pub property: String,
    /// Null if the search ended before it had found a violation or all states.
    pub holds: Option<bool>,
    /// The transitions of a shortest path from the initial marking to a violation; null if none was
    /// found.
    pub path: Option<Vec<String>>,
    /// The places that hold tokens at the end of the path, and their tokens.
    pub marking: Option<BTreeMap<String, u64>>,
}

/// The states of each level, of which this rank keeps a part.
pub(super) struct Levels<'a> {
    pub(super) net: &'a Net,
    pub(super) packing: &'a Packing,
    /// For each level, the states that this rank keeps.
    pub(super) states: &'a [Vec<u64>],
}

impl Levels<'_> {
    /// Returns what was found out about a property. All ranks call it.
    pub(super) fn verdict(
        &self,
        property: &Property,
        violation: Option<&Violation>,
        complete: bool,
        exchange: &mut dyn Exchange,
    ) -> Result<Verdict, Error> {
        let property = property.to_string();
        let Some(violation) = violation else {
            let holds = complete.then_some(true);
            return Ok(Verdict { property, holds, path: None, marking: None });
        };
        let transitions = self.net.transitions();
        let id = |number: u32| transitions.get(number as usize).map(|found| found.id.clone());
        let path = self.path(violation, exchange)?.into_iter().filter_map(id).collect();
        let tokens = self.net.places().iter().zip(self.packing.unpack(&violation.state));
        let marked = tokens.filter(|&(_, tokens)| tokens > 0);
        let marking = marked.map(|(place, tokens)| (place.id.clone(), tokens)).collect();
        Ok(Verdict { property, holds: Some(false), path: Some(path), marking: Some(marking) })
    }

    /// Returns the numbers of the transitions of a shortest path to a violation. Of several
    /// transitions that lead to the same state, the path has the first in the net.
    ///
    /// A level has exactly the states at its distance, so each state but the initial one has a
    /// predecessor in the level before. Which arc the search found it by does not matter.
    fn path(&self, violation: &Violation, exchange: &mut dyn Exchange) -> Result<Vec<u32>, Error> {
        let mut path = Vec::new();
        let mut state = violation.state.clone();
        let levels = usize::try_from(violation.distance)?;
        for level in self.states.iter().take(levels).rev() {
            let mine = self.predecessor(&state, level);
            let all = gather_values(exchange, &mine)?;
            let Some((transition, before)) = all.into_iter().flatten().min() else {
                return Err(Error::Wrong(
                    "a state has no predecessor in the level before".to_owned(),
                ));
            };
            path.push(transition);
            state = before;
        }
        path.reverse();
        Ok(path)
    }

    /// Returns the first transition by which a state of `level` leads to `state`, and the least
    /// such state.
    fn predecessor(&self, state: &[u64], level: &[u64]) -> Option<(u32, Vec<u64>)> {
        let marking: Vec<u64> = self.packing.unpack(state).collect();
        let mut leading = HashMap::new();
        self.net.predecessors(&marking, |transition, before| {
            if let Ok(packed) = self.packing.pack_words(&before) {
                leading.entry(packed).or_insert(transition);
            }
        });
        let by = |before| Some((*leading.get(before)?, before));
        let found = level.chunks_exact(self.packing.words()).filter_map(by).min();
        found.map(|(transition, before)| (transition, before.to_vec()))
    }
}

impl Verdict {
    /// Returns whether a state violates the property.
    #[must_use]
    pub fn is_violated(&self) -> bool {
        self.holds == Some(false)
    }
}
