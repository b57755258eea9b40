//! Counters against a map, by the CPU and over a transport, on one rank and on two.

use std::collections::BTreeMap;

use probeline_containers::OperationError;
use probeline_containers::counters::{Action, Config, Counters, Operation, Outcome};
use probeline_shm::Builder;
use probeline_transport::{Alone, Exchange};
use proptest::prelude::*;

type Opened = Counters<probeline_shm::Engine, Vec<Operation>>;

fn open(config: Config, job: &mut (impl Exchange + ?Sized)) -> Opened {
    let engine = Builder::new(config.sizes(job.owners(), 8)).open(job).unwrap();
    Counters::open(engine, config, vec![Operation::EMPTY; 8], job).unwrap()
}

proptest! {
    /// Lines are few, so that keys pass lines and the counters fill.
    #[test]
    fn equals_a_map(
        steps in proptest::collection::vec((0..60_u64, 0..4_u64, any::<bool>()), 1..300),
        lines in 1..6_u64,
        key_bits in prop_oneof![Just(54_u32), Just(20)],
        direct: bool,
    ) {
        let config = Config { lines, key_bits, first_word: 3, direct };
        prop_assume!(config.max_count() > 0);
        let (mut counters, mut model) = (open(config, &mut Alone), BTreeMap::new());
        for (key, addend, is_batch) in steps {
            let key = key << (key_bits - 6);
            let old = model.get(&key).copied();
            let is_full = old.is_none() && model.len() as u64 == lines * 8;
            if is_batch {
                prop_assert_eq!(counters.add_batch(&[key, key]).unwrap(), 2 * u64::from(is_full));
            } else {
                let expected = if is_full { Outcome::Full } else { old.map_or(Outcome::New, Outcome::Was) };
                prop_assert_eq!(counters.add(key, addend).unwrap(), expected);
            }
            if !is_full {
                let addend = if is_batch { 2 } else { addend };
                model.insert(key, config.max_count().min(old.unwrap_or(0) + addend));
            }
            let count = model.get(&key).copied().unwrap_or(0);
            prop_assert_eq!(counters.get(key).unwrap(), count);
        }
        prop_assert_eq!(counters.len(&mut Alone).unwrap(), model.len() as u64);
        let entries: BTreeMap<u64, u64> = counters.local().collect();
        prop_assert_eq!(&entries, &model);
        let keys: Vec<u64> = model.keys().copied().collect();
        let mut counts = vec![0; keys.len()];
        counters.get_batch(&keys, &mut counts).unwrap();
        prop_assert!(counts.iter().eq(model.values()));
        counters.clear(&mut Alone).unwrap();
        prop_assert_eq!(counters.local().count(), 0);
    }
}

/// Two ranks add to the same keys at the same time: nothing is lost.
#[test]
fn counts_adds_of_two_ranks() {
    const KEYS: u64 = 500;
    for direct in [false, true] {
        let config = Config { direct, ..Config::for_keys(KEYS, 42) };
        std::thread::scope(|scope| {
            for mut job in probeline_exchange::threads(2) {
                scope.spawn(move || {
                    let mut counters = open(config, &mut job);
                    let keys: Vec<u64> = (0..20 * KEYS).map(|n| n * 7 % KEYS * 1_000_003).collect();
                    assert_eq!(counters.add_batch(&keys).unwrap(), 0);
                    assert_eq!(counters.len(&mut job).unwrap(), KEYS);
                    let sum: u64 = counters.local().map(|(_, count)| count).sum();
                    assert_eq!(job.sum(sum).unwrap(), 40 * KEYS);
                    let counts: Vec<_> =
                        (0..KEYS).map(|key| counters.get(key * 1_000_003)).collect();
                    assert!(counts.iter().all(|count| *count == Ok(40)));
                    job.barrier().unwrap();
                });
            }
        });
    }
}

#[test]
fn refuses_long_keys_and_few_lines() {
    let mut counters = open(Config::for_keys(100, 10), &mut Alone);
    assert_eq!(counters.add(1 << 10, 1), Err(OperationError::Key { bits: 11, most: 10 }));
    assert!(counters.call(&u64::MAX, Action::Get).is_err());
    let config = Config::for_keys(8, 62);
    let engine = Builder::new(config.sizes(1, 4)).open(&mut Alone).unwrap();
    assert!(Counters::open(engine, config, [Operation::EMPTY; 4], &mut Alone).is_err());
    // Keys of 31 bases.
    assert!(Config::for_keys(1 << 20, 62).max_count() > 1000);
}
