//! The model check of filters: inserts and finds are linearizable, and the answer of an insert is true.

use std::collections::BTreeSet;

use probeline_pipeline::model::{Network, Sequential, Stopped, check_linear};

use super::Config;
use super::bits::{Action, Bits};
use crate::element::Each;
use crate::model::{Mutant, with};

/// The keys of a filter in which none is a false positive.
#[derive(Clone, Default)]
struct Keys(BTreeSet<u64>);

impl Sequential<Each<Bits>> for Keys {
    fn run(&mut self, key: &u64, action: Action) -> bool {
        match action {
            Action::Find => self.0.contains(key),
            Action::Insert => !self.0.insert(*key),
        }
    }
}

const CONFIG: Config = Config { words: 1, bits: 3, first_word: 0, direct: true };
/// READs tear a word in its middle.
const TEARS: &[u64] = &[0xffff_ffff, !0xffff_ffff];
const SCRIPTS: &[&[(u64, Action)]] = &[
    &[(1, Action::Insert), (2, Action::Find), (2, Action::Insert)],
    &[(2, Action::Insert), (1, Action::Insert)],
];

#[test]
fn inserts_are_linearizable() {
    for failures in 0..2 {
        let network = Network { failures, tears: TEARS, ..Network::ONE };
        let checked = check_linear::<Each<Bits>, Keys, 1>(CONFIG, network, SCRIPTS);
        let (worlds, _) = checked.expect("every history has a sequential order");
        assert!(worlds > 100, "{worlds}");
    }
}

#[test]
fn detects_answer_from_stale_word() {
    // An insert answers from the stale word that its compare-and-swap expected.
    let checked = with(Mutant::IgnoresLostSwaps, || {
        check_linear::<Each<Bits>, Keys, 1>(CONFIG, Network::ONE, SCRIPTS)
    });
    assert!(matches!(checked, Err(Stopped::Violation(_))), "{checked:?}");
}
