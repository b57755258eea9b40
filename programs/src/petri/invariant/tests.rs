//! Tests of the text of inequalities, and of their truth in markings.

use std::collections::HashSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::petri::naive::net;
use crate::petri::{Net, Place};

fn places(ids: &[(&str, &str)]) -> Net {
    let place = |&(id, name): &(&str, &str)| Place { id: id.into(), name: name.into(), initial: 0 };
    Net::new(ids.iter().map(place).collect(), Vec::new()).unwrap()
}

#[track_caller]
fn holds(text: &str, marking: &[u64]) -> bool {
    let invariant = Invariant::parse(text, &net(&vec![0; marking.len()], &[])).unwrap();
    assert_eq!(invariant.to_string(), text.trim());
    invariant.holds(|place| marking[place])
}

#[test]
fn relations_compare() {
    for (relation, expected) in [
        ("<", [true, false, false]),
        ("<=", [true, true, false]),
        ("==", [false, true, false]),
        ("!=", [true, false, true]),
        (">=", [false, true, true]),
        (">", [false, false, true]),
    ] {
        for (tokens, expected) in (4..).zip(expected) {
            assert_eq!(
                holds(&format!("p0{relation}5"), &[tokens]),
                expected,
                "{tokens} {relation}"
            );
        }
    }
}

#[test]
fn sums_terms_of_both_sides() {
    assert!(holds("2 * p0 + 3p1 - p2 <= 1", &[2, 1, 6]));
    assert!(!holds("2*p0 + 3 p1 - p2 <= 1", &[2, 1, 5]));
    assert!(holds("-p0 + 7 == p1 + p0 - 1", &[3, 2]));
    assert!(holds(" 10 > p0 + p0 + p0 ", &[3]));
    assert!(!holds("10 > p0+p0+p0+1", &[3]));
    assert!(holds("0 * p0 == 0", &[9]));
}

#[test]
fn computes_large_sums_exactly() {
    let large = u64::MAX;
    assert!(holds("1099511627776 * p0 - 1099511627776 * p1 == 0", &[large, large]));
    assert!(holds("1099511627776 * p0 - 1099511627776 * p1 >= 1099511627776", &[large, large - 1]));
}

#[test]
fn places_have_identifiers_or_names() {
    let net = places(&[("a-1", "one"), ("b", "a-1"), ("3x", "two"), ("c", "two"), ("d", "three")]);
    let found = |text: &str| Invariant::parse(&format!("{text} <= 1"), &net).unwrap().terms;
    // The identifier of one place is the name of another.
    assert_eq!(found("\"a-1\""), [(0, 1)]);
    assert_eq!(found("one - three"), [(0, 1), (4, -1)]);
    assert_eq!(found("2 \"3x\""), [(2, 2)]);
    let error = Invariant::parse("two <= 1", &net).unwrap_err();
    let ids = vec!["\"3x\"".to_owned(), "c".to_owned()];
    assert_eq!(error.fault, InvariantFault::AmbiguousPlace { name: "two".into(), ids });
}

/// Each part of an inequality changes its encoding, and names that mean the same place do not.
#[test]
fn encoding_covers_resolved_parts() {
    let net = places(&[("a", "one"), ("b", "two")]);
    let encoded = |text: &str| Invariant::parse(text, &net).unwrap().encoding();
    let texts = [
        "a <= 1",
        "b <= 1",
        "2 a <= 1",
        "-a <= 1",
        "a < 1",
        "a >= 1",
        "a > 1",
        "a == 1",
        "a != 1",
        "a <= 2",
        "a <= -1",
        "a + b <= 1",
        "b + a <= 1",
    ];
    let all: HashSet<Vec<u64>> = texts.iter().map(|text| encoded(text)).collect();
    assert_eq!(all.len(), texts.len());
    assert_eq!(encoded("one <= 1"), encoded("a<=1"));
    let swapped = Invariant::parse("a <= 1", &places(&[("b", "two"), ("a", "one")])).unwrap();
    assert_eq!(swapped.encoding(), encoded("b <= 1"));
}

/// Checks the position of the fault, and that the message has the text and this part.
#[track_caller]
fn refused(text: &str, position: usize, part: &str) {
    let net = places(&[("work_1", "work_1"), ("work_2", "work_2"), ("ticket-1", "ticket-1")]);
    let error = Invariant::parse(text, &net).unwrap_err();
    let message = error.to_string();
    assert_eq!(error.position, position, "{message}");
    assert!(message.contains(part) && message.starts_with(&format!("'{text}', ")), "{message}");
}

#[test]
fn faults_have_position_and_advice() {
    refused("", 1, "found the end; write, for example");
    refused("work_1", 7, "one of <=, >=, ==");
    refused("work_1 + <= 1", 10, "a place or a number, found '<'");
    refused("2 * <= 1", 5, "found '<'");
    refused("work_1 = 1", 8, "write ==");
    refused("work_1 => 1", 8, "write ==");
    refused("work_1 work_2 <= 1", 8, "found 'work_2'");
    refused("work_1 <= 1 and work_2 <= 1", 13, "found 'and'; give each inequality");
    refused("work_1 <= work_2 or work_2 <= 1", 18, "found 'or'; give each inequality");
    refused("0 <= work_1 <= 1", 13, "found '<'");
    refused("work_1 <= 1 && x", 13, "found '&'");
    refused("work_1 <= ", 11, "found the end");
    refused("1 <= 2", 1, "names no place");
    refused("work_1 <= 1099511627777", 11, "1099511627776; scale");
    refused("work_1 <= 99999999999999999999999", 11, "scale");
    refused("\"work_1 <= 1", 1, "double quote");
    refused("ticket-1 <= 1", 1, "no place 'ticket'; did you mean \"ticket-1\"?");
    refused("é <= 1", 1, "no place 'é'; identifiers are");
    refused("work_1 + é <= 1", 10, "no place 'é'");
}

#[test]
fn unknown_places_suggest_near_ones() {
    refused("wrok_1 <= 1", 1, "did you mean work_1?");
    refused("work_1 + Work_3 <= 1", 10, "did you mean work_1 or work_2?");
    refused("nothing_alike <= 1", 1, "those of the model, such as work_1, work_2, \"ticket-1\"");
}

proptest! {
    /// A random inequality has the truth that its numbers say.
    #[test]
    fn truth_matches_sums(
        left in vec((any::<bool>(), 0..=MAX_NUMBER, 0_usize..4), 1..5),
        number in 0..=MAX_NUMBER,
        marking in vec(any::<u64>(), 4),
        relation in prop::sample::select(vec!["<=", ">=", "==", "!=", "<", ">"]),
    ) {
        let sign = |minus| if minus { "-" } else { "+" };
        let mut text = "0 * p0".to_owned();
        let mut sum = 0_i128;
        for (minus, factor, place) in left {
            text += &format!(" {} {factor} * p{place}", sign(minus));
            let product = i128::from(factor) * i128::from(marking[place]);
            sum += if minus { -product } else { product };
        }
        let right = i128::from(number);
        let expected = match relation {
            "<=" => sum <= right,
            ">=" => sum >= right,
            "==" => sum == right,
            "!=" => sum != right,
            "<" => sum < right,
            _ => sum > right,
        };
        prop_assert_eq!(holds(&format!("{text} {relation} {number}"), &marking), expected);
    }

    /// Any text is an inequality or an error at a position in it.
    #[test]
    fn error_position_stays_within_text(text in "[p0-3 +*<=>!\"é-]{0,20}") {
        let net = net(&[0; 4], &[]);
        if let Err(error) = Invariant::parse(&text, &net) {
            prop_assert!(error.position <= text.chars().count() + 1);
            prop_assert!(!error.to_string().is_empty());
        }
    }
}
