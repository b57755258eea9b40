//! The model check of counters: adds and gets are linearizable.

use std::collections::BTreeMap;

use probeline_pipeline::model::{Sequential, Stopped, check_linear};

use super::{Action, Config, Counts, Outcome};
use crate::element::Each;

/// The counts of keys.
#[derive(Clone, Default)]
struct OneByOne(BTreeMap<u64, u64>);

/// So few lines that the count has two bits.
const CONFIG: Config = Config { lines: 1, key_bits: 55, first_word: 0, direct: true };
const MAX_COUNT: u64 = 3;

impl Sequential<Each<Counts>> for OneByOne {
    fn run(&mut self, key: &u64, action: Action) -> Outcome {
        let count = self.0.entry(*key).or_default();
        let old = *count;
        if let Action::Add(addend) = action {
            *count = MAX_COUNT.min(old + addend);
        }
        Outcome::Counted(old)
    }
}

const ADD: Action = Action::Add(1);
const SCRIPTS: [&[&[(u64, Action)]]; 3] = [
    &[&[(1, ADD), (1, ADD)], &[(1, Action::Add(2)), (1, Action::Get)]],
    &[&[(1, ADD), (2, ADD)], &[(2, ADD), (1, Action::Get)]],
    &[&[(1, ADD)], &[(2, ADD)], &[(1, ADD), (2, Action::Get)]],
];

#[test]
fn adds_and_gets_are_linearizable() {
    assert_eq!(CONFIG.max_count(), MAX_COUNT);
    for scripts in SCRIPTS {
        let checked = check_linear::<Each<Counts>, OneByOne, 8>(CONFIG, 1, scripts, 0);
        let (worlds, _) = checked.expect("every history has a sequential order");
        assert!(worlds > 100, "{worlds}");
    }
    check_linear::<Each<Counts>, OneByOne, 8>(CONFIG, 1, SCRIPTS[0], 1)
        .expect("also with failures");
}

#[test]
fn finds_an_add_into_a_word_of_another_key() {
    super::count::ADDS_BLINDLY.set(true);
    let checked = check_linear::<Each<Counts>, OneByOne, 8>(CONFIG, 1, SCRIPTS[1], 0);
    super::count::ADDS_BLINDLY.set(false);
    assert!(matches!(checked, Err(Stopped::Violation(_))), "{checked:?}");
}
