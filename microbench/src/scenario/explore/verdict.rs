//! The text of a verdict, with a shortest path of transitions to a state that violates a property.

use probeline_programs::explore::{NO_DEADLOCK, Verdict};

use crate::units::counted;

/// Returns the lines of the summary.
pub(super) fn summary(verdict: &Verdict) -> Vec<String> {
    let Verdict { property, holds, path, marking } = verdict;
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
    let tokens = |(place, tokens): (&String, &u64)| match tokens {
        1 => place.clone(),
        tokens => format!("{place} = {tokens}"),
    };
    let marked = marking.iter().map(tokens).collect::<Vec<_>>().join(", ");
    let listed = [("path", path.join(", ")), ("marked", marked)];
    let listed = listed.iter().filter(|(_, items)| !items.is_empty());
    lines.extend(listed.map(|(label, items)| format!("  {label}: {items}")));
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
    fn prints_counterexample() {
        let lines = summary(&verdict(&["t", "u"], &[("p", 2), ("q", 1)]));
        let expected =
            ["violated: p <= 1, after 2 transitions", "  path: t, u", "  marked: p = 2, q"];
        assert_eq!(lines, expected);
        let lines = summary(&verdict(&[], &[]));
        assert_eq!(lines, ["violated: p <= 1, in the initial state"]);
    }

    #[test]
    fn unviolated_property_holds() {
        let holds = Verdict { holds: Some(true), path: None, marking: None, ..verdict(&[], &[]) };
        assert_eq!(summary(&holds), ["holds: p <= 1"]);
        let open = Verdict { holds: None, ..holds };
        assert_eq!(summary(&open), ["not violated so far: p <= 1"]);
        assert!(!open.is_violated());
    }

    #[test]
    fn names_deadlocks() {
        let property = NO_DEADLOCK.to_owned();
        let found = Verdict { property: property.clone(), ..verdict(&["t"], &[("p", 2)]) };
        let lines = ["deadlock after 1 transition", "  path: t", "  marked: p = 2"];
        assert_eq!(summary(&found), lines);
        let none = Verdict { property, holds: Some(true), path: None, marking: None };
        assert_eq!(summary(&none), ["no deadlock"]);
        assert_eq!(summary(&Verdict { holds: None, ..none }), ["no deadlock so far"]);
    }
}
