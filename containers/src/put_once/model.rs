//! The model check of put-once maps: inserts and finds are linearizable.

use std::collections::BTreeMap;

use probeline_pipeline::model::{Explored, Network, Scripts, Sequential, Stopped, check_linear};

use super::{Action, Config, Entries, Outcome};
use crate::element::Each;
use crate::model::{Mutant, with};

/// Keys that differ in their first bytes, or only behind them.
type Key = [u8; 8];
type Value = [u8; 6];
type Map = Each<Entries<Key, Value>>;

#[derive(Clone, Default)]
struct OneByOne(BTreeMap<Key, Value>);

impl Sequential<Map> for OneByOne {
    fn run(&mut self, key: &Key, action: Action<Value>) -> Outcome<Value> {
        match (self.0.get(key), action) {
            (Some(value), _) => Outcome::Found(*value),
            (None, Action::Find) => Outcome::Absent,
            (None, Action::Insert(value)) => {
                self.0.insert(*key, value);
                Outcome::Inserted
            }
        }
    }

    /// An operation that met an insert in progress has no effect.
    fn explains(&mut self, key: &Key, action: Action<Value>, outcome: &Outcome<Value>) -> bool {
        *outcome == Outcome::Unfinished || self.run(key, action) == *outcome
    }
}

const A: Key = [1; 8];
const B: Key = [1, 1, 1, 1, 1, 1, 1, 2];
const fn insert(value: u8) -> Action<Value> {
    Action::Insert([value; 6])
}

const SCRIPTS: [Scripts<Map>; 5] = [
    &[&[(A, insert(5)), (A, Action::Find)], &[(A, insert(6)), (A, Action::Find)]],
    &[&[(A, insert(5)), (B, insert(6))], &[(B, insert(7)), (A, Action::Find)]],
    &[&[(A, insert(5))], &[(A, Action::Find), (A, Action::Find)]],
    &[&[(A, insert(5))], &[(B, insert(6)), (A, insert(7))]],
    &[&[(A, insert(5))], &[(B, insert(6))], &[(A, insert(7))]],
];

/// A group of two words and buckets, in one line.
const CONFIG: Config =
    Config { buckets: 4, first_word: 0, direct: true, key_bytes: 0, value_bytes: 0 };
/// READs tear a word in its middle, or behind its first byte.
const TEARS: [&[u64]; 3] = [&[], &[0xffff_ffff, !0xffff_ffff], &[0xff, !0xff]];

fn check(network: Network, scripts: Scripts<Map>) -> Result<Explored, Stopped> {
    check_linear::<Map, OneByOne, 8>(CONFIG, network, scripts)
}

#[test]
fn inserts_and_finds_are_linearizable() {
    let torn = SCRIPTS[..4].iter().flat_map(|scripts| TEARS.map(|tears| (*scripts, tears, 0)));
    let failing = SCRIPTS[..2].iter().map(|scripts| (*scripts, TEARS[1], 1));
    let three_clients = (SCRIPTS[4], TEARS[0], 0);
    for (scripts, tears, failures) in torn.chain(failing).chain([three_clients]) {
        let (worlds, _) = check(Network { owners: 1, failures, tears }, scripts).expect("an order");
        assert!(worlds > 100, "{worlds}");
    }
}

/// Three clients, with a failed insert or with torn words.
#[test]
fn three_clients_are_linearizable() {
    const FINDS: Scripts<Map> =
        &[&[(A, insert(5))], &[(A, insert(6))], &[(A, Action::Find), (A, Action::Find)]];
    for (scripts, tears, failures) in [
        (FINDS, TEARS[0], 0),
        (FINDS, TEARS[0], 1),
        (SCRIPTS[4], TEARS[0], 1),
        (SCRIPTS[4], TEARS[1], 0),
    ] {
        check(Network { owners: 1, failures, tears }, scripts).expect("an order");
    }
}

#[test]
fn detects_mutants() {
    for (mutant, tears) in [
        (Mutant::TrustsClaims, TEARS[0]),
        (Mutant::PassesTornClaims, TEARS[1]),
        (Mutant::PassesLostSwaps, TEARS[0]),
    ] {
        let network = Network { tears, ..Network::ONE };
        let found = with(mutant, || SCRIPTS.map(|scripts| check(network, scripts).is_err()));
        assert!(found.contains(&true), "{mutant:?}");
    }
}
