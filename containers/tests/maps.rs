//! Small maps, put-once maps and objects against sequential models, by the CPU and over a transport, on one
//! rank and on two.

use std::collections::BTreeMap;

use probeline_containers::put_once::{self, PutOnce};
use probeline_containers::small_map::{self, Outcome, SmallMap};
use probeline_containers::{Bytes, CollectiveError, Objects, OperationError, Plain, Tag, objects};
use probeline_exchange::testing::on_ranks;
use probeline_pipeline::Finished;
use probeline_shm::Engine;
use probeline_transport::{Alone, Exchange, Owner, Sizes};
use proptest::prelude::*;

type Key = [u8; 11];
type Value = [u8; 5];
type Put = PutOnce<Engine, Vec<put_once::Operation<Key, Value>>, Key, Value>;
type Small = SmallMap<Engine, Vec<small_map::Operation>>;

fn open_small(config: small_map::Config, job: &mut (impl Exchange + ?Sized)) -> Small {
    on_shm!(SmallMap::open, config, config.sizes(job.owners(), 8), 8, job).unwrap()
}

fn open_put(config: put_once::Config, job: &mut (impl Exchange + ?Sized)) -> Put {
    on_shm!(PutOnce::open, config, config.sizes::<Key, Value>(job.owners(), 8), 8, job).unwrap()
}

fn key(number: u64) -> Key {
    let [a, b, ..] = number.to_le_bytes();
    [9, 9, 9, 9, 9, 9, 9, 9, 9, a, b]
}

proptest! {
    #[test]
    fn small_map_matches_model(
        steps in proptest::collection::vec((0..60_u64, 0..4_u64, 0..4_u8), 1..200),
        lines in 1..6_u64,
        direct: bool,
    ) {
        let config = small_map::Config { lines, key_bits: 20, first_word: 3, direct };
        let (mut map, mut model) = (open_small(config, &mut Alone), BTreeMap::new());
        for (key, value, step) in steps {
            let old: Option<u64> = model.get(&key).copied();
            let is_full = old.is_none() && model.len() as u64 == lines * 8;
            let before = old.map_or(if is_full { Outcome::Full } else { Outcome::New }, Outcome::Was);
            let (outcome, new) = match step {
                0 => (map.put(key, value), Some(value)),
                1 => (map.update(key, |old| old.unwrap_or(7) + value), Some(old.unwrap_or(7) + value)),
                2 => {
                    let is_equal = old == Some(value);
                    let outcome = map.compare_and_swap(key, Some(value), 9).unwrap();
                    prop_assert_eq!(outcome.number(), old);
                    model.entry(key).and_modify(|old| *old = if is_equal { 9 } else { *old });
                    continue;
                }
                _ => {
                    prop_assert_eq!(map.get(key).unwrap(), old);
                    continue;
                }
            };
            prop_assert_eq!(outcome.unwrap(), before);
            if !is_full {
                model.extend(new.map(|new| (key, new)));
            }
        }
        prop_assert_eq!(&map.local().collect::<BTreeMap<_, _>>(), &model);
        let keys: Vec<u64> = model.keys().copied().collect();
        map.find_phase(&mut Alone, |finder| {
            finder.find_all(&keys, |place, found| assert_eq!(found.number(), Some(model[&keys[place]])))
        }).unwrap().unwrap();
    }

    #[test]
    fn put_once_map_matches_model(
        steps in proptest::collection::vec((0..80_u64, any::<Value>(), any::<bool>()), 1..300),
        buckets in 1..60_u64,
        direct: bool,
    ) {
        let config =
            put_once::Config { buckets, first_word: 5, direct, ..put_once::Config::for_keys(0) };
        let (mut map, mut model) = (open_put(config, &mut Alone), BTreeMap::new());
        let mut is_full = false;
        for (number, value, is_insert) in steps {
            let (old, key) = (model.get(&number).copied(), key(number));
            if !is_insert {
                let expected = old.map_or(put_once::Outcome::Absent, put_once::Outcome::Found);
                prop_assert_eq!(map.find(&key).unwrap(), expected);
                continue;
            }
            match (map.insert(&key, &value).unwrap(), old) {
                (put_once::Outcome::Found(found), Some(old)) => prop_assert_eq!(found, old),
                (put_once::Outcome::Full, None) => is_full = true,
                (put_once::Outcome::Inserted, None) => {
                    prop_assert!(!is_full);
                    model.insert(number, value);
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }
        prop_assert!(!is_full || model.len() as u64 >= buckets);
        prop_assert_eq!(map.len(&mut Alone).unwrap(), model.len() as u64);
        let local: BTreeMap<Key, Value> = map.local().collect();
        prop_assert_eq!(local, model.iter().map(|(number, value)| (key(*number), *value)).collect());
        map.clear(&mut Alone).unwrap();
        prop_assert_eq!(map.local().count(), 0);
    }

    #[test]
    fn objects_put_then_get(
        all in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..40),
    ) {
        let config = objects::Config { first_word: 3, ..objects::Config::new(60) };
        let open = Objects::<_, _, 40>::open;
        let mut objects = on_shm!(open, config, config.sizes::<40>(4), 4, &mut Alone).unwrap();
        let mut used = 0;
        let mut pointers = Vec::new();
        for bytes in &all {
            let words = bytes.len().div_ceil(8) + 1;
            used += words;
            let put = objects.put(Owner(0), bytes).unwrap();
            prop_assert_eq!(put.is_some(), used <= 60);
            pointers.extend(put.map(|pointer| (pointer, bytes)));
        }
        for (pointer, bytes) in &pointers {
            let found = objects.get(*pointer).unwrap();
            prop_assert_eq!(found.as_ref().map(Plain::bytes), Some(bytes.as_slice()));
        }
        prop_assert_eq!(objects.local_words(), used as u64);
        let (all, blobs): (Vec<_>, Vec<&[u8]>) =
            pointers.iter().map(|(pointer, bytes)| (*pointer, bytes.as_slice())).unzip();
        let mut found = vec![Vec::new(); all.len()];
        objects
            .get_batch(&all, |place, object| found[place] = object.unwrap().bytes().to_vec())
            .unwrap();
        prop_assert_eq!(&found, &blobs);
        objects.clear(&mut Alone).unwrap();
        let mut again = vec![None; blobs.len()];
        objects.put_batch(Owner(0), &blobs, &mut again).unwrap();
        for (pointer, bytes) in again.into_iter().zip(blobs) {
            let object = objects.get(pointer.unwrap()).unwrap();
            prop_assert_eq!(object.as_ref().map(Plain::bytes), Some(bytes));
        }
        objects.clear(&mut Alone).unwrap();
        for (pointer, _) in pointers {
            prop_assert_eq!(objects.get(pointer).unwrap(), None);
        }
    }
}

#[cfg(feature = "postcard")]
#[test]
fn stores_values_of_any_type() {
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Read {
        name: String,
        bases: Vec<u8>,
    }
    let config = objects::Config::new(1000);
    let open = Objects::<_, _, 64>::open;
    let mut objects = on_shm!(open, config, config.sizes::<64>(4), 4, &mut Alone).unwrap();
    let read = Read { name: "r1".into(), bases: b"ACGT".to_vec() };
    let pointer = objects.put_value(Owner(0), &read).unwrap().unwrap();
    assert_eq!(objects.get_value(pointer).unwrap().as_ref(), Some(&read));
    let other = objects.get_value::<(u64, Vec<String>)>(pointer.cast());
    assert_eq!(other, Err(OperationError::Encoding));
    // The first field alone.
    assert_eq!(objects.get_value::<String>(pointer.cast()), Err(OperationError::Encoding));
    let long = Read { bases: vec![0; 100], ..read };
    assert_eq!(objects.put_value(Owner(0), &long).map(drop), Err(OperationError::Encoding));
}

#[test]
fn refuses_oversized_values() {
    let mut map = open_small(small_map::Config::for_keys(100, 50), &mut Alone);
    let most = map.config().max_count();
    let bits = u64::BITS - most.leading_zeros();
    let refused = Err(OperationError::Value { bits: bits + 1, max: bits });
    assert_eq!(map.put(1, most), Ok(Outcome::New));
    assert_eq!(map.put(1, most + 1), refused);
    assert_eq!(map.compare_and_swap(1, None, most + 1), refused);
    let config = put_once::Config::for_keys(10);
    let open = PutOnce::<_, _, u64, [u64; 64]>::open;
    assert!(on_shm!(open, config, config.sizes::<u64, u64>(1, 1), 1, &mut Alone).is_err());
    let config = objects::Config::new(100);
    let open = Objects::<_, _, 9>::open;
    let mut objects = on_shm!(open, config, config.sizes::<9>(1), 1, &mut Alone).unwrap();
    let refused = OperationError::Value { bits: 80, max: 72 };
    assert_eq!(objects.put(Owner(0), &[0; 10]), Err(refused));
    assert_eq!(
        objects.put(Owner(1), &[]),
        Err(OperationError::UnknownOwner { owner: 1, owners: 1 })
    );
}

/// Runs `rank` on two ranks at the same time, with direct access and without it.
fn on_two_ranks(rank: impl Fn(bool, &mut probeline_exchange::Thread) + Sync) {
    for direct in [false, true] {
        on_ranks(2, |mut job| rank(direct, &mut job));
    }
}

#[test]
fn keeps_updates_of_two_ranks() {
    on_two_ranks(|direct, job| {
        let config = small_map::Config { direct, ..small_map::Config::for_keys(100, 42) };
        let mut map = open_small(config, job);
        for key in (0..2000).map(|n| n * 7 % 100) {
            // Contention ends an update after 64 attempts at most.
            while map.update(key, |value| value.unwrap_or(5) + 1).is_err() {}
        }
        map.find_phase(job, |finder| {
            for key in 0..100 {
                assert_eq!(finder.find(&key).unwrap(), Outcome::Was(45));
            }
        })
        .unwrap();
        job.barrier().unwrap();
    });
}

/// Two ranks insert the same keys: one value of each key wins, and both see it.
#[test]
fn one_of_two_inserts_wins() {
    on_two_ranks(|direct, job| {
        let config = put_once::Config { direct, ..put_once::Config::for_keys(2000) };
        let mut map = open_put(config, job);
        let me = job.me();
        let keys: Vec<Key> = (0..2000).map(key).collect();
        let value = |place: usize| [place.to_le_bytes()[0], me.0.to_le_bytes()[0], 1, 2, 3];
        let mut won = 0;
        let insert = |place| Some(put_once::Action::Insert(value(place)));
        map.run_all(&keys, insert, |place, outcome| match outcome {
            put_once::Outcome::Inserted => won += 1,
            put_once::Outcome::Found(found) => assert_ne!(found, value(place)),
            // The other rank waits for its processor between its claim and its value.
            put_once::Outcome::Unfinished => {}
            other => panic!("{other:?}"),
        })
        .unwrap();
        assert_eq!(job.sum(won).unwrap(), 2000);
        assert_eq!(map.len(job).unwrap(), 2000);
        let found = map
            .find_phase(job, |finder| {
                let mut found = 0;
                let mut out = [Finished::default(); 4];
                for (nth, key) in (0..).zip(&keys) {
                    finder.submit(Tag(nth), key).unwrap();
                    while finder.container().in_flight() > 0 {
                        let ended = finder.poll_into(&mut out).unwrap();
                        found +=
                            ended.iter().filter(|it| it.result.unwrap().found().is_some()).count();
                    }
                }
                found
            })
            .unwrap();
        assert_eq!(found, 2000);
        job.barrier().unwrap();
    });
}

#[test]
fn find_phase_fails_against_clear() {
    on_two_ranks(|direct, job| {
        let config = put_once::Config { direct, ..put_once::Config::for_keys(10) };
        let mut map = open_put(config, job);
        let result = match job.me() {
            Owner(0) => map.find_phase(job, |_| ()).map(drop),
            _ => map.clear(job),
        };
        assert!(matches!(result, Err(CollectiveError::Exchange(_))), "{result:?}");
    });
}

/// A rank whose phase fails, by a panic or by an error of its end, cannot change the map, in which the other
/// rank may still be.
#[test]
fn failed_find_phase_closes_map() {
    on_two_ranks(|direct, job| {
        let config = small_map::Config { direct, ..small_map::Config::for_keys(10, 30) };
        let mut map = open_small(config, job);
        if job.me() == Owner(0) {
            let phase = || map.find_phase(job, |_| panic!("a finder panics"));
            std::panic::catch_unwind(core::panic::AssertUnwindSafe(phase)).unwrap_err();
        } else {
            // The other rank does not end it.
            let ended = map.find_phase(job, |finder| finder.find(&1).unwrap());
            assert!(ended.is_err(), "{ended:?}");
        }
        assert_eq!(map.put(1, 1), Err(OperationError::PhaseFailed));
        assert_eq!(map.get(1), Err(OperationError::PhaseFailed));
        let keys = [1];
        let put = map.run_all(&keys, |_| Some(small_map::Action::Put(1)), |_, _| ());
        assert!(put.is_err());
    });
}

/// A map that a failed phase has closed stays closed when its owners agree again.
#[test]
fn agreement_opens_no_closed_map() {
    let mut map = open_small(small_map::Config::for_keys(10, 30), &mut Alone);
    let phase = || map.find_phase(&mut Alone, |_| panic!("a finder panics"));
    std::panic::catch_unwind(core::panic::AssertUnwindSafe(phase)).unwrap_err();
    map.agree(&mut Alone).unwrap();
    assert_eq!(map.put(1, 1), Err(OperationError::PhaseFailed));
}

#[test]
fn find_phase_refuses_other_exchange() {
    on_two_ranks(|direct, job| {
        let config = small_map::Config { direct, ..small_map::Config::for_keys(10, 30) };
        let mut map = open_small(config, job);
        let wrong = map.find_phase(&mut Alone, |_| ());
        assert_eq!(wrong, Err(CollectiveError::Owners { exchange: 1, engine: 2 }));
        map.find_phase(job, |_| ()).unwrap();
        job.barrier().unwrap();
    });
}

#[test]
fn refuses_other_entry_sizes() {
    let open = |config: put_once::Config, sizes| {
        on_shm!(PutOnce::<_, _, Bytes<9>, Bytes<8>>::open, config, sizes, 1, &mut Alone)
    };
    let config = put_once::Config { key_bytes: 8, value_bytes: 8, ..put_once::Config::for_keys(5) };
    let mut map = open(config, config.sizes::<Bytes<9>, Bytes<8>>(1, 1)).unwrap();
    let [short, right] = [&b"abc"[..], b"abcdefgh"].map(|bytes| Bytes::<9>::new(bytes).unwrap());
    let [value, short_value] =
        [&b"12345678"[..], b"1"].map(|bytes| Bytes::<8>::new(bytes).unwrap());
    assert_eq!(map.insert(&short, &value), Err(OperationError::Key { bits: 24, max: 64 }));
    assert_eq!(map.insert(&right, &short_value), Err(OperationError::Value { bits: 8, max: 64 }));
    assert_eq!(map.find(&short), Err(OperationError::Key { bits: 24, max: 64 }));
    assert_eq!(map.insert(&right, &value), Ok(put_once::Outcome::Inserted));
    for config in [
        put_once::Config { key_bytes: 10, ..config },
        put_once::Config { value_bytes: 9, ..config },
        put_once::Config { first_word: u64::MAX - 3, ..config },
    ] {
        assert!(open(config, Sizes::new(64).with_slots(1, 64)).is_err(), "{config:?}");
    }
}
