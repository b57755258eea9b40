//! The map of one client against a sequential model, in every form of call.

use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};
use std::collections::HashMap;

use crate::common::{AnyMap, Key, Value, key, on_shm, open, sim, value};
use probeline_map::{Config, Finished, Mode, Outcome, Plain, Request, Shared, Stats, Tag, Written};
use probeline_sim::Cluster;
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

fn block_on<R>(mut future: impl Future<Output = R> + Unpin) -> R {
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(result) = Pin::new(&mut future).poll(&mut context) {
            return result;
        }
    }
}
