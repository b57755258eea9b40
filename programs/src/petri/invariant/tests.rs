//! Tests of the text of inequalities, and of their truth in markings.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::petri::naive::net;
use crate::petri::{Net, Place};

#[track_caller]
fn holds(text: &str, marking: &[u64]) -> bool {
    let invariant = Invariant::parse(text, &net(&vec![0; marking.len()], &[])).unwrap();
    assert_eq!(invariant.to_string(), text.trim());
    invariant.holds(|place| marking[place])
}

#[test]
fn sums_terms_of_both_sides() {
    assert!(holds("2 * p0 + 3p1 - p2 <= 1", &[2, 1, 6]));
    assert!(!holds("2*p0 + 3 p1 - p2 <= 1", &[2, 1, 5]));
    assert!(holds("-p0 + 7 == p1 + p0 - 1", &[3, 2]));
    assert!(holds(" 10 > p0 + p0 + p0 ", &[3]));
    assert!(!holds("10 > p0+p0+p0+1", &[3]));
    let large = u64::MAX;
    assert!(holds("1099511627776 * p0 - 1099511627776 * p1 == 0", &[large, large]));
    assert!(holds("1099511627776 * p0 - 1099511627776 * p1 >= 1099511627776", &[large, large - 1]));
}

fn places(ids: &[(&str, &str)]) -> Net {
    let place = |&(id, name): &(&str, &str)| Place { id: id.into(), name: name.into(), initial: 0 };
    Net::new(ids.iter().map(place).collect(), Vec::new()).unwrap()
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
    assert!(error.problem.ends_with("write an identifier: \"3x\", c"), "{error}");
}

#[test]
fn errors_have_position_and_advice() {
    let net = places(&["work_1", "work_2", "ticket-1", "a", "b"].map(|id| (id, id)));
    for (text, position, part) in [
        ("", 1, "found the end; write, for example"),
        ("work_1", 7, "one of <=, >=, =="),
        ("work_1 + <= 1", 10, "a place or a number, found '<'"),
        ("2 * <= 1", 5, "found '<'"),
        ("work_1 = 1", 8, "one of <=, >=, ==, !=, <, >, found '='"),
        ("work_1 work_2 <= 1", 8, "found 'work_2'"),
        ("work_1 <= 1 && x", 13, "found '&'; give each inequality"),
        ("work_1 <= ", 11, "found the end"),
        ("1 <= 2", 1, "names no place"),
        ("work_1 <= 1099511627777", 11, "1099511627776; scale"),
        ("work_1 <= 99999999999999999999999", 11, "scale"),
        ("\"work_1 <= 1", 1, "double quote"),
        ("ticket-1 <= 1", 1, "no place 'ticket'; the nearest are \"ticket-1\", "),
        ("work_1 + é <= 1", 10, "no place 'é'"),
        ("a + Wrok_1 <= 1", 5, "the nearest are work_1, work_2, "),
    ] {
        let error = Invariant::parse(text, &net).unwrap_err();
        let message = error.to_string();
        assert_eq!(error.position, position, "{message}");
        assert!(message.contains(part) && message.starts_with(&format!("'{text}', ")), "{message}");
    }
}

proptest! {
    /// A random inequality has the truth that its numbers say, at and beside equality.
    #[test]
    fn truth_matches_sums(
        left in vec((any::<bool>(), 0..=MAX_NUMBER, 0_usize..4), 1..5),
        number in 0..=MAX_NUMBER,
        marking in vec(prop_oneof![Just(0), any::<u64>()], 4),
        relation in prop::sample::select(vec!["<=", ">=", "==", "!=", "<", ">"]),
        beside in -1_i128..=1,
    ) {
        let sign = |minus| if minus { "-" } else { "+" };
        let mut text = "0 * p0".to_owned();
        let mut sum = 0_i128;
        for (minus, factor, place) in left {
            text += &format!(" {} {factor} * p{place}", sign(minus));
            let product = i128::from(factor) * i128::from(marking[place]);
            sum += if minus { -product } else { product };
        }
        let near = u64::try_from(sum + beside).ok().filter(|near| *near <= MAX_NUMBER);
        let number = near.unwrap_or(number);
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
