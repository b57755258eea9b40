//! Counters against a map, by the CPU and over a transport, on one rank and on two.

use std::collections::BTreeMap;

use probeline_containers::OperationError;
use probeline_containers::counters::{
    Action, Config, Counters, CountersOf, Key, Operation, Outcome, Shuffled,
};
use probeline_exchange::testing::on_ranks;
use probeline_transport::{Alone, Exchange};
use proptest::prelude::*;

type Opened = Counters<probeline_shm::Engine, Vec<Operation>>;

fn open(config: Config, job: &mut (impl Exchange + ?Sized)) -> Opened {
    on_shm!(Counters::open, config, config.sizes(job.owners(), 8), 8, job).unwrap()
}

/// Checks counters with keys of this many bits against a map. Lines are few, so that keys pass lines and the
/// counters fill.
fn check<K: Key + Ord>(steps: &[(u64, u64, bool)], config: Config) {
    if config.max_count() == 0 {
        return;
    }
    let open = CountersOf::<_, _, K>::open;
    let mut counters = on_shm!(open, config, config.sizes(1, 8), 8, &mut Alone).unwrap();
    let mut model = BTreeMap::new();
    for &(number, addend, is_batch) in steps {
        let key = K::from_wide(u128::from(number) << (config.key_bits - 6));
        let old = model.get(&key).copied();
        let buckets = config.lines * 8 / u64::from(K::WORDS);
        let is_full = old.is_none() && model.len() as u64 == buckets;
        if is_batch {
            assert_eq!(counters.add_batch(&[key, key]).unwrap(), 2 * u64::from(is_full));
        } else {
            let room = old.map_or(Outcome::New, Outcome::Was);
            let expected = if is_full { Outcome::Full } else { room };
            assert_eq!(counters.add(key, addend).unwrap(), expected);
        }
        if !is_full {
            let addend = if is_batch { 2 } else { addend };
            model.insert(key, config.max_count().min(old.unwrap_or(0) + addend));
        }
        let count = model.get(&key).copied().unwrap_or(0);
        assert_eq!(counters.get(key).unwrap(), count);
    }
    assert_eq!(counters.len(&mut Alone).unwrap(), model.len() as u64);
    assert_eq!(counters.local().collect::<BTreeMap<_, _>>(), model);
    assert!(counters.local_counts().sum::<u64>() == model.values().sum());
    let keys: Vec<K> = model.keys().copied().collect();
    let mut counts = vec![0; keys.len()];
    counters.get_batch(&keys, &mut counts).unwrap();
    assert!(counts.iter().eq(model.values()));
    counters.clear(&mut Alone).unwrap();
    assert_eq!(counters.local().count(), 0);
}

proptest! {
    #[test]
    fn matches_map(
        steps in proptest::collection::vec((0..60_u64, 0..4_u64, any::<bool>()), 1..300),
        lines in 1..9_u64,
        key_bits in prop_oneof![Just(54_u32), Just(20)],
        wide_bits in prop_oneof![Just(117_u32), Just(64)],
        direct: bool,
    ) {
        let config = Config { lines, key_bits, first_word: 3, direct };
        check::<u64>(&steps, config);
        check::<u128>(&steps, Config { key_bits: wide_bits, ..config });
    }
}

/// Two ranks add to the same keys at the same time: nothing is lost.
#[test]
fn counts_adds_of_two_ranks() {
    const KEYS: u64 = 500;
    for direct in [false, true] {
        let config = Config { direct, ..Config::for_keys(KEYS, 42) };
        on_ranks(2, |mut job| {
            let mut counters = open(config, &mut job);
            let keys: Vec<u64> = (0..20 * KEYS).map(|n| n * 7 % KEYS * 1_000_003).collect();
            assert_eq!(counters.add_batch(&keys).unwrap(), 0);
            assert_eq!(counters.len(&mut job).unwrap(), KEYS);
            let sum: u64 = counters.local().map(|(_, count)| count).sum();
            assert_eq!(job.sum(sum).unwrap(), 40 * KEYS);
            let counts: Vec<_> = (0..KEYS).map(|key| counters.get(key * 1_000_003)).collect();
            assert!(counts.iter().all(|count| *count == Ok(40)));
            job.barrier().unwrap();
        });
    }
}

#[test]
fn refuses_long_keys_and_few_lines() {
    let mut counters = open(Config::for_keys(100, 10), &mut Alone);
    assert_eq!(counters.add(1 << 10, 1), Err(OperationError::Key { bits: 11, max: 10 }));
    assert!(counters.call(&u64::MAX, Action::Get).is_err());
    let config = Config::for_keys(8, 62);
    assert!(on_shm!(Counters::open, config, config.sizes(1, 4), 4, &mut Alone).is_err());
    // Keys of 31 bases.
    assert!(Config::for_keys(1 << 20, 62).max_count() > 1000);
}

#[test]
fn shuffled_keys_are_keys() {
    let config = Config::for_keys(100, 100);
    let open = CountersOf::<_, _, Shuffled<u128>>::open;
    let mut counters = on_shm!(open, config, config.sizes(1, 4), 4, &mut Alone).unwrap();
    for key in 0..100 {
        let key = counters.shuffled(key << 90 | key);
        assert_eq!(counters.add(key, 2), Ok(Outcome::New));
    }
    let mut keys: Vec<u128> = counters.local().map(|(key, _)| counters.unshuffled(key)).collect();
    keys.sort_unstable();
    assert_eq!(keys, (0..100).map(|key| key << 90 | key).collect::<Vec<_>>());
    let long = counters.shuffled(1 << 100);
    assert_eq!(counters.add(long, 1), Err(OperationError::Key { bits: 101, max: 100 }));
}
