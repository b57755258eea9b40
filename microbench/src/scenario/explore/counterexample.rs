//! A shortest path of transitions to a state that violates a property.

use std::collections::{BTreeMap, HashMap};

use probeline::transport::Exchange;
use probeline_petri::{Net, Packing};
use probeline_results::gather_values;
use serde::{Deserialize, Serialize};

use super::property::{NO_DEADLOCK, Property, Violation};
use crate::failure::{Failure, Result};
use crate::units::counted;

/// The columns of a printed path.
const LINE_WIDTH: usize = 100;

/// What a search found out about a property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Verdict {
    /// `no deadlock`, or the inequality.
    property: String,
    /// Null if the search ended before it had found a violation or all states.
    holds: Option<bool>,
    /// The transitions of a shortest path from the initial marking to a violation; null if none was
    /// found.
    path: Option<Vec<String>>,
    /// The places that hold tokens at the end of the path, and their tokens.
    marking: Option<BTreeMap<String, u64>>,
}

/// The states of each level, of which this rank keeps a part.
pub(super) struct Levels<'a, const W: usize> {
    pub(super) net: &'a Net,
    pub(super) packing: &'a Packing,
    /// For each level, the states that this rank keeps.
    pub(super) states: &'a [Vec<[u64; W]>],
}

impl<const W: usize> Levels<'_, W> {
    /// Returns what was found out about a property. All ranks call it.
    pub(super) fn verdict(
        &self,
        property: &Property,
        violation: Option<&Violation>,
        complete: bool,
        exchange: &mut dyn Exchange,
    ) -> Result<Verdict> {
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
    fn path(&self, violation: &Violation, exchange: &mut dyn Exchange) -> Result<Vec<u32>> {
        let mut path = Vec::new();
        let mut state = violation.state.clone();
        let levels = usize::try_from(violation.distance)?;
        for level in self.states.iter().take(levels).rev() {
            let mine = self.predecessor(&state, level);
            let all = gather_values(exchange, &mine)?;
            let Some((transition, before)) = all.into_iter().flatten().min() else {
                return Err(Failure::new("a state has no predecessor in the level before"));
            };
            path.push(transition);
            state = before;
        }
        path.reverse();
        Ok(path)
    }

    /// Returns the first transition by which a state of `level` leads to `state`, and the least
    /// such state.
    fn predecessor(&self, state: &[u64], level: &[[u64; W]]) -> Option<(u32, Vec<u64>)> {
        let marking: Vec<u64> = self.packing.unpack(state).collect();
        let mut leading = HashMap::new();
        self.net.predecessors(&marking, |transition, before| {
            if let Ok(packed) = self.packing.pack::<W>(&before) {
                leading.entry(packed).or_insert(transition);
            }
        });
        let by = |before: &[u64; W]| Some((*leading.get(before)?, before.to_vec()));
        level.iter().filter_map(by).min()
    }
}

impl Verdict {
    pub(super) fn is_violated(&self) -> bool {
        self.holds == Some(false)
    }

    /// Returns the lines of the summary.
    pub(super) fn summary(&self) -> Vec<String> {
        let Self { property, holds, path, marking } = self;
        let Some((path, marking)) = path.as_ref().zip(marking.as_ref()) else {
            let line = match (holds, property.as_str()) {
                (Some(true), NO_DEADLOCK) => property.clone(),
                (_, NO_DEADLOCK) => format!("{property} so far"),
                (Some(true), _) => format!("holds: {property}"),
                _ => format!("not violated so far: {property}"),
            };
            return vec![line];
        };
        let steps = match path.len() as u64 {
            0 => "in the initial state".to_owned(),
            steps => format!("after {}", counted(steps, "transition")),
        };
        let mut lines = vec![match property.as_str() {
            NO_DEADLOCK => format!("deadlock {steps}"),
            _ => format!("violated: {property}, {steps}"),
        }];
        lines.extend(wrapped("path", path));
        let tokens = |(place, tokens): (&String, &u64)| match tokens {
            1 => place.clone(),
            tokens => format!("{place} = {tokens}"),
        };
        lines.extend(wrapped("marked", &marking.iter().map(tokens).collect::<Vec<_>>()));
        lines
    }
}

/// Returns lines of the items after a label, separated by commas; none without items.
fn wrapped(label: &str, items: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let comma = if at + 1 == items.len() { "" } else { "," };
        match lines.last_mut() {
            Some(line) if line.len() + item.len() + 2 <= LINE_WIDTH => {
                *line += &format!(" {item}{comma}");
            }
            Some(_) => lines.push(format!("  {:1$} {item}{comma}", "", label.len() + 1)),
            None => lines.push(format!("  {label}: {item}{comma}")),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(path: &[&str], marking: &[(&str, u64)]) -> Verdict {
        let marking = marking.iter().map(|&(place, tokens)| (place.to_owned(), tokens));
        Verdict {
            property: "p <= 1".to_owned(),
            holds: Some(false),
            path: Some(path.iter().map(|&id| id.to_owned()).collect()),
            marking: Some(marking.collect()),
        }
    }

    #[test]
    fn a_counterexample_can_be_quoted() {
        let lines = verdict(&["t", "u"], &[("p", 2), ("q", 1)]).summary();
        let expected =
            ["violated: p <= 1, after 2 transitions", "  path: t, u", "  marked: p = 2, q"];
        assert_eq!(lines, expected);
        let lines = verdict(&[], &[]).summary();
        assert_eq!(lines, ["violated: p <= 1, in the initial state"]);
    }

    #[test]
    fn a_property_without_a_violation_holds() {
        let holds = Verdict { holds: Some(true), path: None, marking: None, ..verdict(&[], &[]) };
        assert_eq!(holds.summary(), ["holds: p <= 1"]);
        let open = Verdict { holds: None, ..holds };
        assert_eq!(open.summary(), ["not violated so far: p <= 1"]);
        assert!(!open.is_violated());
    }

    #[test]
    fn deadlocks_are_named_as_such() {
        let property = NO_DEADLOCK.to_owned();
        let found = Verdict { property: property.clone(), ..verdict(&["t"], &[("p", 2)]) };
        let lines = ["deadlock after 1 transition", "  path: t", "  marked: p = 2"];
        assert_eq!(found.summary(), lines);
        let none = Verdict { property, holds: Some(true), path: None, marking: None };
        assert_eq!(none.summary(), ["no deadlock"]);
        assert_eq!(Verdict { holds: None, ..none }.summary(), ["no deadlock so far"]);
    }

    #[test]
    fn long_paths_are_wrapped() {
        let path: Vec<String> = (100..200).map(|number| format!("step_{number}")).collect();
        let lines = wrapped("path", &path);
        assert!(lines.len() > 5 && lines.iter().all(|line| line.len() <= LINE_WIDTH));
        assert!(lines[1].starts_with("        step_1"), "{lines:?}");
        let words: Vec<&str> = lines.iter().flat_map(|line| line.split([' ', ','])).collect();
        let steps: Vec<&str> = words.into_iter().filter(|word| word.starts_with("step")).collect();
        assert_eq!(steps, path);
    }
}
