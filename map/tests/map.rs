//! The map of one client against a sequential model, its roundtrips, and its limits.

use core::future::Future;
use core::pin::{Pin, pin};
use core::sync::atomic::Ordering::Relaxed;
use core::task::{Context, Poll, Waker};
use std::collections::HashMap;

use crate::common::{AnyMap, Key, Value, key, on_ranks, on_shm, open, sim, storage, value};
use probeline_exchange::Thread;
use probeline_exchange::testing::{AnyEngine, OtherBuild};
use probeline_map::{
    BatchError, Bytes, CollectiveError, Config, ConfigError, Finished, Map, Mode, OperationError,
    Outcome, Plain, Request, Shared, Stats, Tag, Written,
};
use probeline_shm::Builder;
use probeline_sim::Cluster;
use probeline_transport::{Alone, Exchange, Owner, PostError, Transport};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Get,
    Put,
    PutIfAbsent,
    Remove,
}

use Act::{Get, Put, PutIfAbsent, Remove};

impl Act {
    fn request(self, number: u64, put: u64) -> Request<Value> {
        match self {
            Get => Request::Get,
            Put => Request::Put(value(number, put)),
            PutIfAbsent => Request::PutIfAbsent(value(number, put)),
            Remove => Request::Remove,
        }
    }
}

/// Forms of a call: blocking, of bytes, submitted, and as a future.
const FORMS: u8 = 4;

#[derive(Clone, Debug)]
enum Step {
    One(u8, Act, u64),
    /// Of keys from this number on.
    Batch(Act, u64, usize),
    Compute(u8, u64),
    AdvanceAge,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let acts = || prop::sample::select(vec![Get, Put, PutIfAbsent, Remove]);
    let counted = (acts(), 0_u64..40, 0_usize..20);
    prop::collection::vec(
        prop_oneof![
            4 => (0..FORMS, acts(), 0_u64..40).prop_map(|(form, act, at)| Step::One(form, act, at)),
            3 => counted.prop_map(|(act, first, count)| Step::Batch(act, first, count)),
            1 => (0..FORMS, 0_u64..40).prop_map(|(form, number)| Step::Compute(form, number)),
            1 => Just(Step::AdvanceAge),
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
    expected: Stats,
}

impl Model {
    fn ended(
        &mut self,
        (act, number, put): (Act, u64, u64),
        outcome: Outcome<Value>,
    ) -> Result<(), TestCaseError> {
        match outcome {
            Outcome::Hit(found) => self.got(number, Some(found)),
            Outcome::Miss => self.got(number, None),
            Outcome::Written(written) => {
                prop_assert!(act != Put || written != Written::Present);
                prop_assert!(act != PutIfAbsent || written != Written::Updated);
                self.written(number, put, written)
            }
        }
    }

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
            Written::Inserted => expected.inserts += 1,
            Written::Evicted => expected.evictions += 1,
            Written::Updated => expected.updates += 1,
            Written::Present => expected.present += 1,
            Written::Removed => expected.removes += 1,
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

/// Runs a request in any form of call.
fn run_one(
    map: &mut Shared<AnyMap<Key, Value>>,
    form: u8,
    key: &Key,
    request: Request<Value>,
) -> Outcome<Value> {
    match (form, request) {
        (0, Request::Get) => map.map().get(key).unwrap().map_or(Outcome::Miss, Outcome::Hit),
        (0, Request::Put(value)) => Outcome::Written(map.map().put(key, &value).unwrap()),
        (0, Request::PutIfAbsent(value)) => {
            Outcome::Written(map.map().put_if_absent(key, &value).unwrap())
        }
        (0, _) => Outcome::Written(map.map().remove(key).unwrap()),
        (1, _) => {
            let (value, mut room) = (request.value().copied().unwrap_or_default(), [0; 13]);
            let bytes = request.map(|_| value.bytes());
            match map.map().call_bytes(key.bytes(), bytes, room.bytes_mut()).unwrap() {
                Outcome::Hit(()) => Outcome::Hit(room),
                Outcome::Miss => Outcome::Miss,
                Outcome::Written(written) => Outcome::Written(written),
            }
        }
        (2, _) => {
            map.map().submit(Tag(9), key, request).unwrap();
            let mut out = [Finished::default(); 3];
            loop {
                if let [end] = map.map().poll_into(&mut out).unwrap() {
                    assert_eq!(end.tag, Tag(9));
                    return end.result.unwrap();
                }
            }
        }
        _ => block_on(map.run(key, request)).unwrap(),
    }
}

/// Runs a batch of the keys from `first` on.
fn run_batch(
    map: &mut AnyMap<Key, Value>,
    act: Act,
    (first, count, put): (u64, usize, u64),
) -> Vec<Outcome<Value>> {
    let keys: Vec<Key> = (first..).take(count).map(key).collect();
    let values: Vec<Value> = (first..).take(count).map(|number| value(number, put)).collect();
    let mut written = vec![Written::Absent; count];
    match act {
        Get => {
            let mut found = vec![Some([0; 13]); count];
            map.get_batch(&keys, &mut found).unwrap();
            return found.into_iter().map(|of| of.map_or(Outcome::Miss, Outcome::Hit)).collect();
        }
        Put => map.put_batch(&keys, &values, &mut written).unwrap(),
        PutIfAbsent => map.put_if_absent_batch(&keys, &values, &mut written).unwrap(),
        Remove => map.remove_batch(&keys, &mut written).unwrap(),
    }
    written.into_iter().map(Outcome::Written).collect()
}

fn is_the_model(map: AnyMap<Key, Value>, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let (mut model, mut map) = (Model::default(), Shared::new(map));
    for (put, step) in (1..).zip(steps) {
        match step {
            Step::One(form, act, number) => {
                let outcome = run_one(&mut map, form, &key(number), act.request(number, put));
                model.ended((act, number, put), outcome)?;
            }
            Step::Batch(act, first, count) => {
                let outcomes = run_batch(map.map(), act, (first, count, put));
                for (number, outcome) in (first..).zip(outcomes) {
                    // Requests of one batch may be in each other's way.
                    if act != Remove && outcome == Outcome::Written(Written::Dropped) {
                        model.expected.drops += 1;
                        model.last.remove(&number);
                    } else {
                        model.ended((act, number, put), outcome)?;
                    }
                }
            }
            Step::Compute(form, number) => {
                let (before, mut computed) = (*map.map().stats(), false);
                let compute = |_: &Key| {
                    computed = true;
                    value(number, put)
                };
                let found = if form % 2 == 0 {
                    map.map().get_or_compute(&key(number), compute)
                } else {
                    block_on(pin!(map.get_or_compute(&key(number), compute)))
                };
                if !computed {
                    model.got(number, Some(found.unwrap()))?;
                    continue;
                }
                prop_assert_eq!(found, Ok(value(number, put)));
                model.got(number, None)?;
                let is_evicted = map.map().stats().evictions > before.evictions;
                let written = if is_evicted { Written::Evicted } else { Written::Inserted };
                model.written(number, put, written)?;
            }
            Step::AdvanceAge => map.map().advance_age(),
        }
    }
    let (stats, expected) = (*map.map().stats(), model.expected);
    let counted = Stats {
        busy: 0,
        dropped_removes: 0,
        bucket_reads: 0,
        failed_checks: 0,
        lost_claims: 0,
        given_up: 0,
        lost_entries: 0,
        ..stats
    };
    prop_assert_eq!(counted, expected);
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
