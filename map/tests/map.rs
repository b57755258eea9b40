//! The map of one client against a sequential model, its roundtrips, and its limits.

use core::future::Future;
use core::pin::{Pin, pin};
use core::sync::atomic::Ordering::Relaxed;
use core::task::{Context, Poll, Waker};
use std::collections::HashMap;

use crate::common::{
    AnyMap, Key, ROUNDTRIP_NS, Value, key, on_ranks, on_shm, open, sim, storage, value,
};
use probeline_exchange::testing::{AnyEngine, OtherBuild};
use probeline_map::{
    BatchError, Bytes, CollectiveError, Config, ConfigError, Finished, Map, Mode, OperationError,
    Outcome, Plain, Request, Shared, Stats, Tag, Written,
};
use probeline_shm::Builder;
use probeline_sim::Cluster;
use probeline_transport::{Alone, Exchange, Owner, PostError, Transport};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Get(u64),
    Put(u64),
    PutIfAbsent(u64),
    Remove(u64),
    GetBatch(u64, usize),
    PutBatch(u64, usize, bool),
    RemoveBatch(u64, usize),
    Compute(u64),
    AdvanceAge,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let number = 0_u64..40;
    prop::collection::vec(
        prop_oneof![
            number.clone().prop_map(Step::Get),
            number.clone().prop_map(Step::Put),
            number.clone().prop_map(Step::PutIfAbsent),
            number.clone().prop_map(Step::Remove),
            (number.clone(), 0_usize..20).prop_map(|(first, count)| Step::GetBatch(first, count)),
            (number.clone(), 0_usize..20, any::<bool>())
                .prop_map(|(first, count, over)| Step::PutBatch(first, count, over)),
            (number.clone(), 0_usize..5).prop_map(|(first, count)| Step::RemoveBatch(first, count)),
            number.prop_map(Step::Compute),
            Just(Step::AdvanceAge),
        ],
        1..120,
    )
}

/// Steps that a sequential map of one client may take: it forgets a key when it evicts one, and the model
/// does not know which.
#[derive(Default)]
struct Model {
    /// The last value put for each key that was not removed.
    last: HashMap<u64, u64>,
    /// The number of entries.
    entries: i64,
    puts: u64,
    expected: Stats,
}

impl Model {
    fn got(&mut self, number: u64, found: Option<Value>) -> Result<(), TestCaseError> {
        match found {
            Some(found) => {
                self.expected.hits += 1;
                let put = self.last.get(&number).copied();
                prop_assert_eq!(Some(found), put.map(|put| value(number, put)));
            }
            None => {
                self.expected.misses += 1;
                // It was evicted, if it was there at all.
                if self.last.remove(&number).is_some() {
                    prop_assert!(self.expected.evictions > 0);
                }
            }
        }
        Ok(())
    }

    fn written(&mut self, number: u64, put: u64, written: Written) -> Result<(), TestCaseError> {
        let expected = &mut self.expected;
        match written {
            Written::Inserted => {
                expected.inserts += 1;
                self.entries += 1;
            }
            Written::Evicted => expected.evictions += 1,
            Written::Updated => expected.updates += 1,
            Written::Present => expected.present += 1,
            Written::Removed => {
                expected.removes += 1;
                self.entries -= 1;
            }
            Written::Absent => expected.absent += 1,
            Written::Dropped => prop_assert!(false, "no other client is in the way"),
        }
        match written {
            Written::Inserted | Written::Evicted => {
                if self.last.insert(number, put).is_some() {
                    prop_assert!(self.expected.evictions > 0, "{} is there already", number);
                }
            }
            Written::Updated => {
                prop_assert!(self.last.insert(number, put).is_some());
            }
            Written::Present => prop_assert!(self.last.contains_key(&number)),
            Written::Removed => prop_assert!(self.last.remove(&number).is_some()),
            _ => {
                if self.last.remove(&number).is_some() {
                    prop_assert!(self.expected.evictions > 0);
                }
            }
        }
        Ok(())
    }
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

fn is_the_model(mut map: AnyMap<Key, Value>, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut model = Model::default();
    for step in steps {
        model.puts += 1;
        let put = model.puts;
        match step {
            Step::Get(number) => model.got(number, map.get(&key(number)).unwrap())?,
            Step::Put(number) => {
                let written = map.put(&key(number), &value(number, put)).unwrap();
                prop_assert!(written != Written::Present);
                model.written(number, put, written)?;
            }
            Step::PutIfAbsent(number) => {
                let written = map.put_if_absent(&key(number), &value(number, put)).unwrap();
                prop_assert!(written != Written::Updated);
                model.written(number, put, written)?;
            }
            Step::Remove(number) => {
                let written = map.remove(&key(number)).unwrap();
                model.written(number, put, written)?;
            }
            Step::Compute(number) => {
                let before = *map.stats();
                let mut computed = false;
                let found = map.get_or_compute(&key(number), |_| {
                    computed = true;
                    value(number, put)
                });
                if !computed {
                    model.got(number, Some(found.unwrap()))?;
                    continue;
                }
                prop_assert_eq!(found, Ok(value(number, put)));
                model.got(number, None)?;
                let is_evicted = map.stats().evictions > before.evictions;
                let written = if is_evicted { Written::Evicted } else { Written::Inserted };
                model.written(number, put, written)?;
            }
            Step::GetBatch(first, count) => {
                let keys: Vec<Key> = (first..).take(count).map(key).collect();
                let mut values = vec![Some([0; 13]); count];
                map.get_batch(&keys, &mut values).unwrap();
                for (number, found) in (first..).zip(values) {
                    model.got(number, found)?;
                }
            }
            Step::PutBatch(first, count, over) => {
                let keys: Vec<Key> = (first..).take(count).map(key).collect();
                let values: Vec<Value> = (first..).take(count).map(|n| value(n, put)).collect();
                let mut results = vec![Written::Absent; count];
                if over {
                    map.put_batch(&keys, &values, &mut results).unwrap();
                } else {
                    map.put_if_absent_batch(&keys, &values, &mut results).unwrap();
                }
                for (number, written) in (first..).zip(results) {
                    // Requests of one batch may be in each other's way.
                    if written == Written::Dropped {
                        model.expected.drops += 1;
                        model.last.remove(&number);
                        model.expected.evictions += 0;
                        continue;
                    }
                    model.written(number, put, written)?;
                }
            }
            Step::RemoveBatch(first, count) => {
                let keys: Vec<Key> = (first..).take(count).map(key).collect();
                let mut results = vec![Written::Present; count];
                map.remove_batch(&keys, &mut results).unwrap();
                for (number, written) in (first..).zip(results) {
                    model.written(number, put, written)?;
                }
            }
            Step::AdvanceAge => map.advance_age(),
        }
    }
    let (stats, expected) = (*map.stats(), model.expected);
    prop_assert_eq!(
        Stats {
            busy: 0,
            dropped_removes: 0,
            bucket_reads: 0,
            failed_checks: 0,
            lost_claims: 0,
            given_up: 0,
            lost_entries: 0,
            ..stats
        },
        expected
    );
    prop_assert_eq!(
        stats.writes(),
        expected.inserts + expected.updates + expected.evictions + expected.drops
    );
    Ok(())
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![
        3 => Just(Mode::Claims),
        1 => Just(Mode::PartLocks),
        1 => Just(Mode::BucketLocks),
        1 => Just(Mode::Unlocked),
    ]
}

proptest! {
    #[test]
    fn agrees_with_model(
        steps in steps(),
        buckets in 1_u64..80,
        candidates in 1_u32..=8,
        claims_with_read: bool,
        write_then_atomic: bool,
        mode in mode(),
    ) {
        let config = Config { candidates, claims_with_read, mode, ..Config::new(buckets) };
        let config = Config { direct: false, ..config };
        for owners in [1, 3] {
            let sim = sim::<Key, Value>(&config, owners, 1);
            let cluster = Cluster::new(probeline_sim::Config { write_then_atomic, ..sim }).unwrap();
            let map = open(&cluster, 0, config, 1);
            let _others: Vec<AnyMap<Key, Value>> =
                (1..owners).map(|owner| open(&cluster, owner, config, 1)).collect();
            is_the_model(map, steps.clone())?;
        }
    }

    #[test]
    fn agrees_with_model_by_cpu(
        steps in steps(),
        buckets in 1_u64..80,
        candidates in 1_u32..=8,
    ) {
        let config = Config { candidates, ..Config::new(buckets) };
        is_the_model(on_shm(config, 4), steps)?;
    }
}

fn roundtrips(cluster: &Cluster, call: impl FnOnce()) -> u64 {
    let before = cluster.now_ns();
    call();
    (cluster.now_ns() - before) * 10 / ROUNDTRIP_NS
}

/// In a map with room, every key is in its first candidate or close to it. The roundtrips here are
/// to the own part, a tenth of one to another owner.
#[test]
fn roundtrips_of_each_call() {
    for write_then_atomic in [false, true] {
        let config = Config { direct: false, ..Config::new(1 << 16) };
        let sim = sim::<Key, Value>(&config, 1, 1);
        let cluster = Cluster::new(probeline_sim::Config { write_then_atomic, ..sim }).unwrap();
        let mut map = open::<Key, Value>(&cluster, 0, config, 1);
        let less = u64::from(write_then_atomic);
        for number in 0..50 {
            let (key, first, second) = (key(number), value(number, 1), value(number, 2));
            let miss = roundtrips(&cluster, || assert_eq!(map.get(&key), Ok(None)));
            let insert = roundtrips(&cluster, || {
                assert_eq!(map.put(&key, &first), Ok(Written::Inserted));
            });
            let hit = roundtrips(&cluster, || assert_eq!(map.get(&key), Ok(Some(first))));
            let present = roundtrips(&cluster, || {
                assert_eq!(map.put_if_absent(&key, &second), Ok(Written::Present));
            });
            let update = roundtrips(&cluster, || {
                assert_eq!(map.put(&key, &second), Ok(Written::Updated));
            });
            let remove = roundtrips(&cluster, || {
                assert_eq!(map.remove(&key), Ok(Written::Removed));
            });
            assert_eq!(
                [miss, insert, hit, present, update, remove],
                [1, 3 - less, 1, 1, 4 - less, 2],
                "write_then_atomic: {write_then_atomic}, key {number}"
            );
            // An insert into the bucket again, which is dropped now, compares nothing first.
            assert_eq!(map.put(&key, &first), Ok(Written::Inserted));
        }
    }
}

/// A put of a key that is not there, without a claim along with the first READ.
#[test]
fn late_claim_costs_one_roundtrip() {
    let config = Config { direct: false, claims_with_read: false, ..Config::new(1 << 16) };
    let cluster = Cluster::new(sim::<Key, Value>(&config, 1, 1)).unwrap();
    let mut map = open::<Key, Value>(&cluster, 0, config, 1);
    let insert = roundtrips(&cluster, || {
        assert_eq!(map.put(&key(1), &value(1, 1)), Ok(Written::Inserted));
    });
    assert_eq!(insert, 4);
}

/// With one candidate in one bucket, the newest entry remains.
#[test]
fn evicts_oldest_entry() {
    let config = Config { candidates: 4, ..Config::new(4) };
    for direct in [true, false] {
        let config = Config { direct, ..config };
        let mut map = on_shm::<u64, u64>(config, 2);
        let mut number = 0;
        while map.stats().evictions < 20 {
            map.put(&number, &(number + 1)).unwrap();
            map.advance_age();
            number += 1;
        }
        // Each key has most of the four buckets as candidates.
        let newest = (number - 4..number).filter(|key| map.get(key) == Ok(Some(key + 1))).count();
        assert!(newest >= 2, "{newest} of the last four keys are left");
        assert_eq!(map.get(&(number - 1)), Ok(Some(number)));
        assert_eq!(map.get(&0), Ok(None));
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
fn blocking_beside_submitted_calls() {
    let config = Config { direct: false, mode: Mode::Unlocked, ..Config::new(64) };
    let cluster = Cluster::new(sim::<u64, u64>(&config, 1, 2)).unwrap();
    let mut map = open::<u64, u64>(&cluster, 0, config, 2);
    map.submit(Tag(1), &1, Request::Put(10)).unwrap();
    assert_eq!(map.put(&2, &20), Ok(Written::Inserted));
    assert_eq!(map.get(&2), Ok(Some(20)));
    let mut out = [Finished::default(); 2];
    while map.in_flight() > 0 {
        map.poll_into(&mut out).unwrap();
    }
    let inserted = Finished { tag: Tag(1), result: Ok(Outcome::Written(Written::Inserted)) };
    assert_eq!(out[0], inserted);
    assert_eq!(map.get(&1), Ok(Some(10)));
    map.submit(Tag(2), &1, Request::Get).unwrap();
    map.submit(Tag(3), &2, Request::Get).unwrap();
    assert_eq!(map.get(&1), Err(OperationError::Busy), "results hold all storage");
}

#[test]
fn calls_of_bytes() {
    for direct in [true, false] {
        let config = Config { direct, key_bytes: 9, value_bytes: 3, ..Config::new(300) };
        let mut map = on_shm::<LongKey, LongValue>(config, 3);
        let (key, mut room) = ([7; 9], [0; 3]);
        let refused = Err(OperationError::Post(PostError::OutOfRange));
        assert_eq!(map.call_bytes(&key[1..], Request::Get, &mut room), refused);
        assert_eq!(map.call_bytes(&key, Request::Get, &mut room[1..]), refused);
        assert_eq!(map.call_bytes(&key, Request::Put(&[1, 2]), &mut room), refused);
        assert_eq!(map.call_bytes(&key, Request::Get, &mut room), Ok(Outcome::Miss));
        for (request, written) in [
            (Request::Put(&[1, 2, 3][..]), Written::Inserted),
            (Request::PutIfAbsent(&[4, 5, 6]), Written::Present),
        ] {
            let outcome = map.call_bytes(&key, request, &mut room);
            assert_eq!(outcome, Ok(Outcome::Written(written)));
        }
        assert_eq!(map.call_bytes(&key, Request::Get, &mut room), Ok(Outcome::Hit(())));
        assert_eq!(room, [1, 2, 3]);
        let removed = Ok(Outcome::Written(Written::Removed));
        assert_eq!(map.call_bytes(&key, Request::Remove, &mut room), removed);
    }
}

#[test]
fn submitted_requests_and_futures() {
    for direct in [true, false] {
        let config = Config { direct, ..Config::new(1_000) };
        let mut map = on_shm::<u64, u64>(config, 4);
        let (mut next, mut hits, mut out) = (0, 0, [Finished::default(); 3]);
        while next < 200 || map.in_flight() > 0 {
            let request = if next < 100 { Request::Put(next * 3) } else { Request::Get };
            if next < 200 && (next != 100 || map.in_flight() == 0) && map.has_room() {
                map.submit(Tag(next), &(next % 100), request).unwrap();
                next += 1;
                continue;
            }
            for end in map.poll_into(&mut out).unwrap() {
                match end.result.unwrap() {
                    Outcome::Hit(value) => {
                        assert_eq!(value, (end.tag.0 - 100) * 3);
                        hits += 1;
                    }
                    outcome => assert_eq!(outcome, Outcome::Written(Written::Inserted)),
                }
            }
        }
        assert_eq!(hits, 100);
        let mut shared = Shared::new(map);
        assert_eq!(block_on(shared.get(&7)), Ok(Outcome::Hit(21)));
        assert_eq!(block_on(shared.put(&7, &8)), Ok(Outcome::Written(Written::Updated)));
        assert_eq!(block_on(shared.put_if_absent(&7, &9)), Ok(Outcome::Written(Written::Present)));
        assert_eq!(block_on(shared.remove(&7)), Ok(Outcome::Written(Written::Removed)));
        assert_eq!(block_on(shared.get(&7)), Ok(Outcome::Miss));
        for (computed, expected) in [(5, 5), (6, 5)] {
            assert_eq!(block_on(pin!(shared.get_or_compute(&7, |_| computed))), Ok(expected));
        }
        assert_eq!(shared.map().stats().removes, 1);
    }
}

fn block_on<R>(mut future: impl Future<Output = R> + Unpin) -> R {
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(result) = Pin::new(&mut future).poll(&mut context) {
            return result;
        }
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
    assert_eq!(
        refused(Config { buckets_per_owner: 101, ..good }, 2).to_string(),
        "buckets_per_owner is 101: the windows have room for 100 of 8 words; open the engine with \
         config.sizes(operations)"
    );
    assert_eq!(
        refused(Config { first_word: 800, ..good }, 2).to_string(),
        "buckets_per_owner is 100: the windows have no room for a single one of 8 words; open the \
         engine with config.sizes(operations)"
    );
    assert_eq!(
        refused(Config::new(0), 2).to_string(),
        "buckets_per_owner is 0: it must be at least 1"
    );
    let odd = ConfigError::Multiple { what: "first_word", found: 4, of: 8 };
    assert_eq!(refused(Config { first_word: 4, ..good }, 2), odd);
    for (config, range) in [
        (Config { candidates: 9, ..good }, "candidates is 9: it must be 1 to 8"),
        (Config { claim_ticks: 0, ..good }, "claim_ticks is 0: it must be 1 to 24"),
        (Config { lock_attempts: 0, ..good }, "lock_attempts is 0: it must be 1 to 4294967295"),
    ] {
        assert_eq!(refused(config, 2).to_string(), range);
    }
    // The lock of the part needs a line.
    let locked = Config { mode: Mode::PartLocks, ..good };
    let full = ConfigError::Room { what: "buckets_per_owner", found: 100, max: 99, words: 8 };
    assert_eq!(refused(locked, 2), full);
    assert_eq!(
        refused(good, 3).to_string(),
        "storage for 3 operations: the engine has slots for 2; open it with config.sizes(3), or pass \
         less storage"
    );
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

/// Owners that disagree are told, and none of them waits for ever.
#[test]
fn names_owners_with_other_parameters() {
    type Opened = Result<bool, CollectiveError>;
    // The second owner may have wider values.
    let open = |config: [Config; 2], wide: bool| -> Vec<Opened> {
        on_ranks(2, |member| {
            let engine = Builder::new(Config::new(200).sizes::<u64, [u64; 20]>(2)).open(member);
            let (engine, me) = (AnyEngine::new(engine.unwrap()), member.me().0);
            let config = config[me as usize];
            let opened = if me == 1 && wide {
                let map = Map::<_, _, u64, [u64; 2]>::open(engine, config, storage(2), member);
                map.map(|map| map.is_direct())
            } else {
                let map = Map::<_, _, u64, u64>::open(engine, config, storage(2), member);
                map.map(|map| map.is_direct())
            };
            member.barrier().unwrap();
            opened
        })
    };
    let good = Config::new(100);
    assert_eq!(open([good; 2], false), [Ok(true), Ok(true)]);
    let posted = Config { direct: false, ..good };
    assert_eq!(open([good, posted], false), [Ok(false), Ok(false)]);
    let text = |opened: &Opened| opened.unwrap_err().to_string();
    let other = open([good, Config { candidates: 5, ..good }], false);
    assert_eq!(
        text(&other[0]),
        "owner 1 has other parameters: its number of candidates is 5, here it is 6; \
         start all of them with the same parameters"
    );
    let format = open([good, Config { format: 7, ..good }], false);
    assert_eq!(
        text(&format[0]),
        "owner 1 has other parameters: its format of keys and values is 7, here it \
         is 0; start all of them with the same parameters"
    );
    let mode = open([good, Config { mode: Mode::Unlocked, ..good }], false);
    assert_eq!(
        text(&mode[1]),
        "owner 0 has other parameters: its mode (0 for claims, 1 part locks, 2 \
         bucket locks, 3 unlocked) is 0, here it is 3; start all of them with the same parameters"
    );
    let values = open([good; 2], true);
    assert_eq!(
        text(&values[1]),
        "owner 0 has other parameters: its size of a value in bytes is 8, here it \
         is 16; start all of them with the same parameters"
    );
    let [fine, bad] = open([good, Config::new(0)], false)[..] else { panic!("two owners") };
    let not_opened = CollectiveError::NotOpened { owner: Owner(1) };
    assert_eq!(fine, Err(not_opened));
    assert!(matches!(bad, Err(CollectiveError::Config(_))), "{bad:?}");
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
