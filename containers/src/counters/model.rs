//! The model check of counters and small maps: their operations are linearizable.

use std::collections::BTreeMap;

use probeline_pipeline::model::{Network, Scripts, Sequential, Stopped, check_linear};

use super::{Action, Config, Counts, Key, Layout, Outcome};
use crate::element::Each;
use crate::model::{Mutant, with};

/// The numbers of keys.
#[derive(Clone)]
struct OneByOne<K = u64>(BTreeMap<K, u64>);

impl<K> Default for OneByOne<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

/// So few lines that the count has two bits.
const CONFIG: Config = Config { lines: 1, key_bits: 55, first_word: 0, direct: true };
const MAX_COUNT: u64 = 3;
/// READs tear the count from the key, or the key in its middle.
const TEARS: [&[u64]; 3] = [&[], &[0xff, !0xff], &[0xffff_ffff, !0xffff_ffff]];

impl<K: Key + Ord> Sequential<Each<Counts<K>>> for OneByOne<K> {
    fn run(&mut self, key: &K, action: Action) -> Outcome {
        let old = self.0.get(key).copied();
        let new = match action {
            Action::Get => None,
            Action::Add(addend) => Some(MAX_COUNT.min(old.unwrap_or(0) + addend)),
            Action::Put(new) => Some(new),
            Action::CompareAndSwap { expected, new } => (expected == old).then_some(new),
        };
        if let Some(new) = new {
            self.0.insert(*key, new);
        }
        old.map_or(Outcome::New, Outcome::Was)
    }

    /// An operation on a wide key that met a claim in progress has no effect.
    fn explains(&mut self, key: &K, action: Action, outcome: &Outcome) -> bool {
        *outcome == Outcome::Unfinished && K::WORDS > 1 || self.run(key, action) == *outcome
    }
}

const ADD: Action = Action::Add(1);
const TWO_TO_THREE: Action = Action::CompareAndSwap { expected: Some(2), new: 3 };
const NEW: Action = Action::CompareAndSwap { expected: None, new: 1 };
const SCRIPTS: [Scripts<Each<Counts>>; 5] = [
    &[&[(1, ADD), (1, ADD)], &[(1, Action::Add(2)), (1, Action::Get)]],
    &[&[(1, ADD), (2, ADD)], &[(2, ADD), (1, Action::Get)]],
    &[&[(1, ADD)], &[(2, ADD)], &[(1, ADD), (2, Action::Get)]],
    &[&[(1, Action::Put(2)), (1, TWO_TO_THREE)], &[(1, TWO_TO_THREE), (1, Action::Get)]],
    &[&[(1, NEW), (1, Action::Get)], &[(2, Action::Put(1)), (1, NEW)]],
];

#[test]
fn operations_are_linearizable() {
    assert_eq!(CONFIG.max_count(), MAX_COUNT);
    for (scripts, tears) in SCRIPTS.into_iter().flat_map(|of| TEARS.map(|tears| (of, tears))) {
        let network = Network { tears, ..Network::ONE };
        let checked = check_linear::<Each<Counts>, OneByOne, 8>(CONFIG, network, scripts);
        let (worlds, _) = checked.expect("every history has a sequential order");
        assert!(worlds > 100, "{worlds}");
    }
    for (scripts, tears) in SCRIPTS.into_iter().zip(TEARS.into_iter().cycle()) {
        let network = Network { owners: 1, failures: 1, tears };
        check_linear::<Each<Counts>, OneByOne, 8>(CONFIG, network, scripts)
            .expect("also with failures");
    }
}

#[test]
fn detects_add_to_other_key() {
    let checked = with(Mutant::IgnoresLostSwaps, || {
        check_linear::<Each<Counts>, OneByOne, 8>(CONFIG, Network::ONE, SCRIPTS[1])
    });
    assert!(matches!(checked, Err(Stopped::Violation(_))), "{checked:?}");
}

#[test]
fn detects_count_of_torn_word() {
    let network = Network { tears: TEARS[1], ..Network::ONE };
    let check = |scripts| check_linear::<Each<Counts>, OneByOne, 8>(CONFIG, network, scripts);
    let found = with(Mutant::TrustsTornWords, || SCRIPTS.map(|scripts| check(scripts).is_err()));
    assert!(found.contains(&true));
}

const WIDE: Config = Config { key_bits: 118, ..CONFIG };

/// Scripts of two keys whose first words are equal, and of one key.
fn wide_scripts() -> [Scripts<Each<Counts<u128>>>; 3] {
    let layout = Layout::<u128>::new(WIDE.lines, WIDE.key_bits);
    let [one, two] = [5, 9].map(|shuffled| layout.unshuffle(shuffled));
    let (put, get) = (Action::Put(2), Action::Get);
    let scripts = [
        [vec![(one, ADD), (two, get)], vec![(two, ADD)]],
        [vec![(one, ADD), (one, ADD)], vec![(one, Action::Add(2)), (one, get)]],
        [vec![(one, put), (two, get)], vec![(two, ADD), (one, get)]],
    ];
    scripts.map(|clients| &*clients.map(|of| &*of.leak()).to_vec().leak())
}

fn check_wide(scripts: Scripts<Each<Counts<u128>>>, failures: u8) -> Result<usize, Stopped> {
    let network = Network { failures, ..Network::ONE };
    let checked = check_linear::<Each<Counts<u128>>, OneByOne<u128>, 8>(WIDE, network, scripts);
    checked.map(|(worlds, _)| worlds)
}

#[test]
fn wide_operations_are_linearizable() {
    assert_eq!(WIDE.max_count(), MAX_COUNT);
    for scripts in wide_scripts() {
        for failures in 0..2 {
            check_wide(scripts, failures).expect("every history has a sequential order");
        }
    }
}

/// Checks three clients on two keys with equal first words, with and without a failure, and on a full line.
#[test]
fn three_wide_clients_are_linearizable() {
    let layout = Layout::<u128>::new(WIDE.lines, WIDE.key_bits);
    let [one, two, three, four, five] = [5, 9, 11, 13, 15].map(|it| layout.unshuffle(it));
    type Script = Vec<(u128, Action)>;
    let scripts: [(Vec<Script>, u8); 4] = [
        (vec![vec![(one, ADD)], vec![(two, ADD)], vec![(one, Action::Get), (two, ADD)]], 0),
        (vec![vec![(one, ADD)], vec![(one, NEW)], vec![(two, ADD)]], 1),
        (vec![vec![(one, ADD)], vec![(one, ADD)], vec![(one, ADD)]], 1),
        (vec![vec![(one, ADD), (two, ADD), (three, ADD), (five, ADD)], vec![(four, ADD)]], 0),
    ];
    for (scripts, failures) in scripts {
        let scripts = &*scripts.into_iter().map(|of| &*of.leak()).collect::<Vec<_>>().leak();
        let network = Network { failures, ..Network::ONE };
        let checked = check_linear::<Each<Counts<u128>>, FourKeys, 8>(WIDE, network, scripts);
        checked.expect("every history has a sequential order");
    }
}

/// A line, which has room for four wide keys.
#[derive(Clone, Default)]
struct FourKeys(OneByOne<u128>);

impl Sequential<Each<Counts<u128>>> for FourKeys {
    fn run(&mut self, key: &u128, action: Action) -> Outcome {
        if self.0.0.len() == 4 && !self.0.0.contains_key(key) {
            return Outcome::Full;
        }
        self.0.run(key, action)
    }

    fn explains(&mut self, key: &u128, action: Action, outcome: &Outcome) -> bool {
        *outcome == Outcome::Unfinished || self.run(key, action) == *outcome
    }
}

/// Checks three clients on one owner, with words torn by READs or with a failure.
#[test]
fn three_clients_are_linearizable() {
    const THREE: Scripts<Each<Counts>> =
        &[&[(1, ADD)], &[(1, NEW)], &[(1, Action::Put(2)), (1, Action::Get)]];
    for (tears, failures) in [(TEARS[1], 0), (TEARS[2], 0), (TEARS[0], 1)] {
        let network = Network { owners: 1, failures, tears };
        let checked = check_linear::<Each<Counts>, OneByOne, 8>(CONFIG, network, THREE);
        checked.expect("every history has a sequential order");
    }
}

#[test]
fn detects_trusted_wide_claims() {
    for mutant in [Mutant::TrustsClaims, Mutant::PassesTornClaims] {
        let check = || wide_scripts().map(|scripts| check_wide(scripts, 0).is_err());
        assert!(with(mutant, check).contains(&true), "{mutant:?}");
    }
}
