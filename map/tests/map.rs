//! Calls, sizes and limits of the map of one client.

use core::sync::atomic::Ordering::Relaxed;

use crate::common::{Key, Value, key, on_ranks, on_shm, open, sim, storage, value};
use probeline_exchange::Thread;
use probeline_exchange::testing::{AnyEngine, OtherBuild};
use probeline_map::{
    BatchError, Bytes, CollectiveError, Config, ConfigError, Map, Mode, OperationError, Plain,
    Request, Shared, Tag, Written,
};
use probeline_pipeline::model::ready;
use probeline_shm::Builder;
use probeline_sim::Cluster;
use probeline_transport::{Alone, Exchange, Owner, PostError, Transport};

/// Blocking, and as a future.
#[test]
fn computes_missing_value() {
    let map = on_shm::<u64, u64>(Config { direct: false, ..Config::new(64) }, 4);
    let mut map = Shared::new(map);
    assert_eq!(map.map().get_or_compute(&1, |key| key + 1), Ok(2));
    assert_eq!(map.map().get_or_compute(&1, |_| unreachable!()), Ok(2));
    assert_eq!(ready(map.get_or_compute(&3, |key| key + 1)), Ok(4));
    assert_eq!(ready(map.get_or_compute(&3, |_| unreachable!())), Ok(4));
}

/// Batches longer than a block, in which a few keys are missing.
#[test]
fn batch_computes_missing_values() {
    const KEYS: u64 = 10_000;
    for direct in [true, false] {
        let config = Config { direct, ..Config::for_entries(16 * KEYS, 1) };
        let mut map = on_shm::<u64, u64>(config, 32);
        let keys: Vec<u64> = (0..KEYS).collect();
        let is_there = |key: &u64| key.is_multiple_of(3);
        for key in keys.iter().copied().filter(is_there) {
            map.put(&key, &(2 * key)).unwrap();
        }
        for missing in [KEYS - KEYS.div_ceil(3), 0] {
            let (mut computed, mut values) = (0, vec![Some(7); keys.len()]);
            map.reset_stats();
            let compute = |key: &u64| {
                assert!(!is_there(key));
                computed += 1;
                3 * key
            };
            map.get_or_compute_batch(&keys, &mut values, compute).unwrap();
            for (key, value) in keys.iter().zip(values) {
                assert_eq!(value, Some(if is_there(key) { 2 * key } else { 3 * key }));
            }
            let stats = map.stats();
            assert_eq!((computed, stats.misses, stats.inserts), (missing, missing, missing));
            assert_eq!((stats.hits, stats.present), (KEYS - missing, 0));
        }
        let lengths = map.get_or_compute_batch(&keys, &mut [None; 3], |_| 0).unwrap_err();
        assert!(matches!(lengths, BatchError::Lengths { .. }), "{lengths}");
    }
}

/// Also when ages have wrapped, and although all entries are read in each step: of 500 new entries,
/// those that go within three steps are few.
#[test]
fn evicts_oldest_after_ages_wrap() {
    for direct in [true, false] {
        let config = Config { direct, ..Config::new(40) };
        let mut map = on_shm::<u64, u64>(config, 2);
        let mut evicted = 0;
        for number in 0..600_u64 {
            map.put(&number, &number).unwrap();
            map.advance_age();
            (0..=number).for_each(|key| assert!(map.get(&key).is_ok()));
            let newest = number.saturating_sub(2)..=number;
            evicted += newest.filter(|key| map.get(key) == Ok(None)).count();
        }
        assert!(evicted <= 10, "{evicted} new entries were evicted");
    }
}

/// Bodies of any size, also less than a word, none, and many lines.
#[test]
fn stores_entries_of_any_size() {
    fn any<K: Plain + PartialEq, V: Plain + PartialEq + core::fmt::Debug>(
        key: impl Fn(u8) -> K,
        value: impl Fn(u8) -> V,
    ) {
        let (key_bytes, value_bytes) = (key(0).bytes().len(), value(0).bytes().len());
        for direct in [true, false] {
            let config = Config { direct, key_bytes, value_bytes, ..Config::new(300) };
            let mut map = on_shm::<K, V>(config, 3);
            let keys: Vec<K> = (0..100).map(&key).collect();
            let values: Vec<V> = (0..100).map(&value).collect();
            let mut results = vec![Written::Absent; 100];
            map.put_batch(&keys, &values, &mut results).unwrap();
            assert!(results.iter().all(|written| *written == Written::Inserted), "{results:?}");
            let mut found = vec![None; 100];
            map.get_batch(&keys, &mut found).unwrap();
            assert_eq!(found, values.iter().map(|value| Some(*value)).collect::<Vec<_>>());
            assert_eq!(map.len(&mut Alone), Ok(100));
            let mut local = 0;
            let each = |there: &K, has: &V| {
                let nth = keys.iter().position(|key| key == there).unwrap();
                assert_eq!(*has, values[nth]);
                local += 1;
            };
            assert_eq!(map.for_each_local(each), Ok(0));
            assert_eq!(local, 100);
            map.clear(&mut Alone).unwrap();
            assert_eq!((map.len(&mut Alone), map.get(&keys[0])), (Ok(0), Ok(None)));
        }
    }
    // Few types, each of which takes seconds to compile.
    any(|n| [n; 3], |n| [n; 21]);
    any(u64::from, |n| [n; 4096]);
    any(|n| [u16::from(n); 37], |_| ());
    any(|n| LongKey::new(&[n; 80]).unwrap(), |n| LongValue::new(&[n; 104]).unwrap());
    any(|n| LongKey::new(&[n; 3]).unwrap(), |n| LongValue::new(&[n; 21]).unwrap());
}

/// Keys and values of which the configuration says the sizes.
type LongKey = Bytes<80>;
type LongValue = Bytes<128>;

/// In all forms of call.
#[test]
fn keeps_run_time_sizes() {
    let bytes = |len: usize| LongKey::new(&[7; 80][..len]).unwrap();
    let value = |len: usize| LongValue::new(&[7; 80][..len]).unwrap();
    assert_eq!(LongKey::new(&[7; 81]), None);
    let too_large = Config { key_bytes: 81, value_bytes: 3, ..Config::new(300) };
    let sizes = too_large.sizes::<LongKey, LongValue>(3);
    let engine = AnyEngine::new(Builder::new(sizes).open(&mut Alone).unwrap());
    let refused = Map::<_, _, LongKey, LongValue>::new(engine, too_large, storage(3)).err();
    let what = "key_bytes, within the type of keys,";
    assert_eq!(refused, Some(ConfigError::Range { what, found: 81, min: 0, max: 80 }));
    for direct in [true, false] {
        let config = Config { direct, key_bytes: 9, value_bytes: 3, ..Config::new(300) };
        let mut map = on_shm::<LongKey, LongValue>(config, 3);
        let refused = OperationError::Post(PostError::OutOfRange);
        assert_eq!(map.get(&bytes(8)), Err(refused));
        assert_eq!(map.put(&bytes(9), &value(4)), Err(refused));
        assert_eq!(map.submit(Tag(0), &bytes(10), Request::Get), Err(refused));
        let (key, mut room) = ([7; 9], [0; 3]);
        assert_eq!(map.call_bytes(&key[1..], Request::Get, &mut room), Err(refused));
        assert_eq!(map.call_bytes(&key, Request::Get, &mut room[1..]), Err(refused));
        assert_eq!(map.call_bytes(&key, Request::Put(&[1, 2]), &mut room), Err(refused));
        let of_batch = BatchError::Failed { place: 1, error: refused };
        let mut written = [Written::Absent; 2];
        let short = map.put_batch(&[bytes(9); 2], &[value(3), value(2)], &mut written);
        assert_eq!(short, Err(of_batch));
        assert_eq!(map.get_batch(&[bytes(9), bytes(1)], &mut [None; 2]), Err(of_batch));
        assert_eq!(map.len(&mut Alone), Ok(0));
    }
}

/// By the CPU and over a transport, with claims and without: what a late WRITE has destroyed is no hit,
/// neither after a change of the value nor after one of the key, and a put makes the key whole again.
#[test]
fn get_returns_no_destroyed_value() {
    let claims = |direct| Config { direct, claims_with_read: false, ..Config::new(64) };
    let unlocked = Config { mode: Mode::Unlocked, ..claims(false) };
    for config in [claims(true), claims(false), unlocked] {
        let mut map = on_shm::<Key, Value>(config, 2);
        let (key, first, second) = (key(5), value(5, 1), value(5, 2));
        let bucket = usize::try_from(map.first_candidate(&key).1).unwrap() * 24;
        for word in [1, 10, 11, 23] {
            map.put(&key, &first).unwrap();
            assert_eq!(map.get(&key), Ok(Some(first)));
            map.transport_mut().unwrap().window()[bucket + word].fetch_xor(1 << 40, Relaxed);
            assert_eq!(map.get(&key), Ok(None), "word {word}, {config:?}");
            map.put(&key, &second).unwrap();
            assert_eq!(map.get(&key), Ok(Some(second)), "word {word}, {config:?}");
            map.clear(&mut Alone).unwrap();
        }
        assert!(map.stats().failed_checks > 0);
    }
}

#[test]
fn refuses_bad_configurations() {
    let good = Config::new(100);
    let engine =
        || AnyEngine::new(Builder::new(good.sizes::<u64, u64>(2)).open(&mut Alone).unwrap());
    let refused = |config: Config, operations: u32| match Map::<_, _, u64, u64>::new(
        engine(),
        config,
        storage(operations),
    ) {
        Ok(_) => panic!("{config:?} is accepted"),
        Err(error) => error,
    };
    for (config, operations, text) in [
        (
            Config { buckets_per_owner: 101, ..good },
            2,
            "buckets_per_owner is 101: the windows have room for 100 of 8 words; open the engine with \
             config.sizes(operations)",
        ),
        (
            Config { first_word: 800, ..good },
            2,
            "buckets_per_owner is 100: the windows have no room for a single one of 8 words; open the \
             engine with config.sizes(operations)",
        ),
        (Config::new(0), 2, "buckets_per_owner is 0: it must be at least 1"),
        (Config { candidates: 9, ..good }, 2, "candidates is 9: it must be 1 to 8"),
        (Config { claim_ticks: 0, ..good }, 2, "claim_ticks is 0: it must be 1 to 24"),
        (Config { lock_attempts: 0, ..good }, 2, "lock_attempts is 0: it must be 1 to 4294967295"),
        (
            good,
            3,
            "storage for 3 operations: the engine has slots for 2; open it with config.sizes(3), or \
             pass less storage",
        ),
    ] {
        assert_eq!(refused(config, operations).to_string(), text);
    }
    let odd = ConfigError::Multiple { what: "first_word", found: 4, of: 8 };
    assert_eq!(refused(Config { first_word: 4, ..good }, 2), odd);
    // The lock of the part needs a line.
    let locked = Config { mode: Mode::PartLocks, ..good };
    let full = ConfigError::Room { what: "buckets_per_owner", found: 100, max: 99, words: 8 };
    assert_eq!(refused(locked, 2), full);
    let depth = good.sizes::<u64, u64>(2).with_depth(6);
    let shallow = AnyEngine::new(Builder::new(depth).open(&mut Alone).unwrap());
    let error = Map::<_, _, u64, u64>::new(shallow, good, storage(2)).err();
    assert_eq!(error, Some(ConfigError::Depth { found: 6, min: 7 }));
    let large = Map::<_, _, u64, [u64; 100]>::new(engine(), good, storage(2)).err();
    assert_eq!(large, Some(ConfigError::Slot { needed: 104, found: 8 }));
    let mut map = on_shm::<u64, u64>(good, 2);
    assert_eq!(
        map.get_batch(&[1, 2], &mut [None]),
        Err(BatchError::Lengths { keys: 2, what: "results", found: 1 })
    );
    assert_eq!(
        map.put_batch(&[1, 2], &[1], &mut [Written::Absent; 2]).unwrap_err().to_string(),
        "a batch of 2 keys has 1 values: give one for each key"
    );
}

/// The texts of differing parameters, and the direct path only if all owners may take it.
#[test]
fn names_owners_with_other_parameters() {
    fn open<V: Plain>(config: Config, member: &mut Thread) -> Result<bool, CollectiveError> {
        let engine = Builder::new(Config::new(200).sizes::<u64, [u64; 20]>(2)).open(member);
        let engine = AnyEngine::new(engine.unwrap());
        let map = Map::<_, _, u64, V>::open(engine, config, storage(2), member);
        let opened = map.map(|map| map.is_direct());
        member.barrier().unwrap();
        opened
    }
    let good = Config::new(100);
    // The second owner may have wider values.
    let opened = |other: Config, is_wide: bool| {
        on_ranks(2, |member| match member.me() {
            Owner(0) => open::<u64>(good, member),
            _ if is_wide => open::<[u64; 2]>(other, member),
            _ => open::<u64>(other, member),
        })
    };
    assert_eq!(opened(good, false), [Ok(true), Ok(true)]);
    assert_eq!(opened(Config { direct: false, ..good }, false), [Ok(false), Ok(false)]);
    for (other, is_wide, what) in [
        (Config { candidates: 5, ..good }, false, "number of candidates is 5, here it is 6"),
        (Config { format: 7, ..good }, false, "format of keys and values is 7, here it is 0"),
        (
            Config { mode: Mode::Unlocked, ..good },
            false,
            "mode (0 for claims, 1 part locks, 2 bucket locks, 3 unlocked) is 3, here it is 0",
        ),
        (good, true, "size of a value in bytes is 16, here it is 8"),
    ] {
        let text = opened(other, is_wide)[0].unwrap_err().to_string();
        let expected = format!(
            "owner 1 has other parameters: its {what}; start all of them with the same parameters"
        );
        assert_eq!(text, expected);
    }
}

#[test]
fn refuses_another_build() {
    let config = Config::new(100);
    let cluster = Cluster::new(sim::<u64, u64>(&config, 2, 2)).unwrap();
    let agreed = open::<u64, u64>(&cluster, 0, config, 2).agree(&mut OtherBuild::default());
    let Err(CollectiveError::Differs { owner, what, .. }) = agreed else { panic!("{agreed:?}") };
    assert_eq!(owner, Owner(1));
    assert!(what.contains("of the build"), "{what}");
}
