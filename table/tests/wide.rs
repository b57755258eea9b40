//! The wide table: against a set, its roundtrips, and how full it gets.

mod common;

use core::future::Future;
use core::task::{Context, Poll, Waker};
use std::collections::BTreeSet;

use common::account::ends;
use common::job::{Sizes, on_shm};
use probeline_shm::Builder;
use probeline_sim::{Cluster, Engine, Faults};
use probeline_table::{
    Config, Ended, Finished, Intent, OperationError, Outcome, Probing, Shared, Tag, WideConfig,
    WideOperation, WideTable,
};
use probeline_transport::{Alone, Exchange, Local, Owner, Slot, Transport};
use proptest::prelude::*;

type Wide<T, const W: usize> = WideTable<T, Vec<WideOperation<W>>, W>;

fn storage<const W: usize>(operations: u32) -> Vec<WideOperation<W>> {
    vec![WideOperation::EMPTY; operations as usize]
}

/// A roundtrip to the own part; one to others takes ten times as long.
const ROUNDTRIP_NS: u64 = 10_000;

/// A cluster whose owners' engines fit the table.
fn cluster<const W: usize>(config: &WideConfig<W>, owners: u32, operations: u32) -> Cluster {
    Cluster::new(sim(config, owners, operations)).unwrap()
}

fn sim<const W: usize>(
    config: &WideConfig<W>,
    owners: u32,
    operations: u32,
) -> probeline_sim::Config {
    let sizes = config.sizes(operations);
    probeline_sim::Config {
        owners,
        window_words: sizes.window_words,
        slots: sizes.slots,
        slot_words: sizes.slot_words,
        depth: sizes.depth,
        direct_access: probeline_sim::DirectAccess::None,
        model: probeline_sim::Model {
            idle_poll_ns: 100,
            ..probeline_sim::Model::simple(10 * ROUNDTRIP_NS)
        },
        ..probeline_sim::Config::default()
    }
}

fn open<const W: usize>(
    cluster: &Cluster,
    owner: u32,
    config: WideConfig<W>,
    operations: u32,
) -> Wide<Engine, W> {
    WideTable::new(cluster.engine(Owner(owner)).unwrap(), config, storage(operations)).unwrap()
}

/// A different key for each number; keys of near numbers differ in one word only.
fn key<const W: usize>(number: u64) -> [u64; W] {
    core::array::from_fn(|at| if at == W - 1 { number } else { 7 })
}

#[derive(Clone, Debug)]
enum Step {
    Put(u64),
    Find(u64),
    PutBatch(u64, usize),
    FindBatch(u64, usize),
    Submit(u64, bool),
    Poll,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let number = 0_u64..60;
    prop::collection::vec(
        prop_oneof![
            number.clone().prop_map(Step::Put),
            number.clone().prop_map(Step::Find),
            (number.clone(), 0_usize..30).prop_map(|(first, count)| Step::PutBatch(first, count)),
            (number.clone(), 0_usize..30).prop_map(|(first, count)| Step::FindBatch(first, count)),
            (number, any::<bool>()).prop_map(|(number, puts)| Step::Submit(number, puts)),
            Just(Step::Poll),
        ],
        1..80,
    )
}

fn ended(set: &mut BTreeSet<u64>, number: u64, puts: bool) -> Ended {
    if set.contains(&number) {
        return Ended::Found;
    }
    if !puts {
        return Ended::Absent;
    }
    set.insert(number);
    Ended::Inserted
}

/// Checks a table whose operations are posted, among other owners.
fn posted_is_a_set<const W: usize>(steps: Vec<Step>, owners: u32) -> Result<(), TestCaseError> {
    let config = WideConfig::<W>::new(128);
    let cluster = cluster(&config, owners, 4);
    let table = open(&cluster, 0, config, 4);
    let _others: Vec<_> = (1..owners).map(|owner| open(&cluster, owner, config, 4)).collect();
    is_a_set(table, steps)
}

/// Checks a table whose operations the CPU runs.
fn direct_is_a_set<const W: usize>(
    steps: Vec<Step>,
    probing: Probing,
) -> Result<(), TestCaseError> {
    let new = WideConfig::<W>::new(128);
    let chunk_buckets = if probing == Probing::Jump { 8 } else { 32 };
    let buckets = Config { probing, chunk_buckets, ..new.buckets };
    let config = WideConfig { buckets, ..new };
    let engine = Builder::new(config.sizes(4)).open(&mut Alone).unwrap();
    let table = WideTable::open(engine, config, storage(4), &mut Alone).unwrap();
    is_a_set(table, steps)
}

fn is_a_set<T: Transport, const W: usize>(
    mut table: Wide<T, W>,
    steps: Vec<Step>,
) -> Result<(), TestCaseError> {
    let mut set = BTreeSet::new();
    let mut out = [Finished::default(); 4];
    // Keys whose submitted operations may not have ended.
    let mut submitted = BTreeSet::new();
    for step in steps {
        match step {
            Step::Put(number) if !submitted.contains(&number) => {
                let expected = ended(&mut set, number, true);
                match table.find_or_put(&key(number)) {
                    Err(OperationError::Busy) => {
                        prop_assert_eq!(table.in_flight(), 4);
                        if expected == Ended::Inserted {
                            set.remove(&number);
                        }
                    }
                    end => prop_assert_eq!(end.map(Ended::from), Ok(expected)),
                }
            }
            Step::Find(number) if !submitted.contains(&number) && table.in_flight() < 4 => {
                prop_assert_eq!(table.find(&key(number)), Ok(set.contains(&number)));
            }
            Step::PutBatch(first, count) | Step::FindBatch(first, count)
                if submitted.is_empty() =>
            {
                let puts = matches!(step, Step::PutBatch(..));
                let numbers = first..first + count as u64;
                let keys: Vec<[u64; W]> = numbers.clone().map(key).collect();
                let results = if puts {
                    ends(count, |ends| table.find_or_put_batch(&keys, ends))
                } else {
                    ends(count, |ends| table.find_batch(&keys, ends))
                };
                let expected: Vec<_> =
                    numbers.map(|number| Ok(ended(&mut set, number, puts))).collect();
                prop_assert_eq!(results, Ok(expected));
            }
            Step::Submit(number, puts) if !submitted.contains(&number) => {
                let intent = if puts { Intent::FindOrPut } else { Intent::Find };
                let expected = ended(&mut set.clone(), number, puts);
                // The tag is the key's number and the expected outcome.
                let tag = Tag(number << 8 | expected as u64);
                if table.submit(tag, &key(number), intent).is_ok() {
                    ended(&mut set, number, puts);
                    submitted.insert(number);
                }
            }
            _ => {
                for end in table.poll_into(&mut out).unwrap() {
                    prop_assert_eq!(end.result.map(|ended| ended as u64), Ok(end.tag.0 & 255));
                    submitted.remove(&(end.tag.0 >> 8));
                }
            }
        }
    }
    while table.in_flight() > 0 {
        for end in table.poll_into(&mut out).unwrap() {
            prop_assert_eq!(end.result.map(|ended| ended as u64), Ok(end.tag.0 & 255));
        }
    }
    for number in 0..100 {
        prop_assert_eq!(table.find(&key(number)), Ok(set.contains(&number)));
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_wide_table_is_a_set(steps in steps(), owners in 1_u32..4) {
        posted_is_a_set::<1>(steps.clone(), owners)?;
        posted_is_a_set::<2>(steps.clone(), owners)?;
        posted_is_a_set::<5>(steps, owners)?;
    }

    #[test]
    fn a_wide_table_that_the_cpu_reaches_is_a_set(steps in steps()) {
        direct_is_a_set::<1>(steps.clone(), Probing::Linear)?;
        direct_is_a_set::<2>(steps.clone(), Probing::Lines)?;
        direct_is_a_set::<16>(steps, Probing::Jump)?;
    }
}

/// At load factor 0.5 a find takes a chunk and an entry, an insert a chunk and a claim; the WRITE
/// of the key and the entries taken cost no roundtrip of their own.
#[test]
fn a_find_and_an_insert_take_two_roundtrips() {
    const KEYS: u64 = 512;
    let config = WideConfig::<4>::new(1_024);
    let sim = cluster(&config, 1, 1);
    let mut table = open(&sim, 0, config, 1);
    for number in 0..KEYS {
        assert_eq!(table.find_or_put(&key(number)), Ok(Outcome::Inserted));
    }
    table.reset_stats();
    let before = sim.now_ns();
    for number in 0..KEYS / 2 {
        assert_eq!(table.find(&key(number)), Ok(true));
    }
    let find_ns = (sim.now_ns() - before) / (KEYS / 2);
    let before = sim.now_ns();
    for number in KEYS..KEYS + KEYS / 8 {
        assert_eq!(table.find_or_put(&key(number)), Ok(Outcome::Inserted));
    }
    let insert_ns = (sim.now_ns() - before) / (KEYS / 8);
    println!("roundtrip {ROUNDTRIP_NS} ns, find {find_ns} ns, insert {insert_ns} ns");
    println!("{:?} {:?}", table.stats(), table.entry_stats());
    for ns in [find_ns, insert_ns] {
        assert!((2 * ROUNDTRIP_NS..22 * ROUNDTRIP_NS / 10).contains(&ns), "{ns}");
    }
    let found = table.stats().found;
    assert_eq!((found.operations, found.effective_roundtrips), (KEYS / 2, KEYS / 2));
    assert_eq!(table.entry_stats().entry_reads, KEYS / 2);
    assert_eq!(table.entry_stats().false_entry_reads, 0);
}

/// Every entry of every part is used before the table is full; the keys beyond are still found
/// absent.
#[test]
fn full_means_full() {
    for owners in [1, 2, 3] {
        let config = WideConfig::<2> { entries_per_owner: 37, ..WideConfig::new(64) };
        let cluster = cluster(&config, owners, 1);
        let mut table = open(&cluster, 0, config, 1);
        let _others: Vec<_> = (1..owners).map(|owner| open(&cluster, owner, config, 1)).collect();
        let room = 37 * u64::from(owners);
        for number in 0..room {
            assert_eq!(table.find_or_put(&key(number)), Ok(Outcome::Inserted), "{number}");
        }
        for number in room..room + 10 {
            assert_eq!(table.find_or_put(&key(number)), Ok(Outcome::Full), "{number}");
            assert_eq!(table.find(&key(number)), Ok(false));
        }
        assert_eq!(table.find_or_put(&key(room - 1)), Ok(Outcome::Found));
        assert_eq!(table.entry_stats().entries_from_others, room - 37);
    }
}

/// The keys of a batch that find no entry are counted as such.
#[test]
fn full_means_full_in_a_batch_of_the_cpu() {
    let config = WideConfig::<2> { entries_per_owner: 37, ..WideConfig::new(64) };
    let engine = Builder::new(config.sizes(4)).open(&mut Alone).unwrap();
    let mut table = WideTable::open(engine, config, storage(4), &mut Alone).unwrap();
    let keys: Vec<_> = (0..50).map(key).collect();
    let mut outcomes = [Outcome::Full; 50];
    table.find_or_put_batch(&keys, &mut outcomes).unwrap();
    let count = |of| outcomes.iter().filter(|outcome| **outcome == of).count() as u64;
    assert_eq!((count(Outcome::Inserted), count(Outcome::Full)), (37, 13));
    let stats = table.stats();
    assert_eq!((stats.inserted.operations, stats.full.operations), (37, 13));
}

/// The slots after those of the operations belong to others.
#[test]
fn iteration_uses_the_slots_of_the_operations_only() {
    let config = WideConfig::<2>::new(64);
    let sizes = config.sizes(1);
    let own = sizes.slots;
    let engine = Builder::new(probeline_transport::Sizes { slots: own + 16, depth: 32, ..sizes });
    let engine = engine.open(&mut Alone).unwrap();
    let mut table = WideTable::open(engine, config, storage(1), &mut Alone).unwrap();
    for number in 0..40 {
        table.find_or_put(&key(number)).unwrap();
    }
    let others = |nth| Local { slot: Slot(own + nth), start: 0, words: 2 };
    for nth in 0..16 {
        table.transport_mut().unwrap().staged(others(nth)).unwrap().fill(99);
    }
    let mut count = 0;
    table.for_each_local(|_| count += 1).unwrap();
    assert_eq!(count, 40);
    for nth in 0..16 {
        assert_eq!(table.transport().landed(others(nth)).unwrap(), [99; 2]);
    }
}

/// Entries that find-or-puts of existing keys took serve all later operations, whichever storage
/// these use.
#[test]
fn entries_that_were_not_used_serve_later_operations() {
    let config = WideConfig::<2> { entries_per_owner: 10, ..WideConfig::new(64) };
    let cluster = cluster(&config, 1, 8);
    let mut table = open(&cluster, 0, config, 8);
    for number in 0..2 {
        assert_eq!(table.find_or_put(&key(number)), Ok(Outcome::Inserted));
    }
    let keys: Vec<_> = (0..8).map(|number| key(number % 2)).collect();
    let mut results = [Outcome::Full; 8];
    table.find_or_put_batch(&keys, &mut results).unwrap();
    assert_eq!(results, [Outcome::Found; 8]);
    for number in 2..10 {
        assert_eq!(table.find_or_put(&key(number)), Ok(Outcome::Inserted), "{number}");
    }
    assert_eq!(table.find_or_put(&key(10)), Ok(Outcome::Full));
}

/// Fetches of entries complete in another order than they execute: an operation that finds every
/// part exhausted waits for the run that another one fetches.
#[test]
fn entries_in_flight_are_not_taken() {
    const KEYS: u64 = 48;
    for seed in 0..200 {
        let config = WideConfig::<2> { entries_per_owner: KEYS, ..WideConfig::new(96) };
        let faults = Faults { slow_ppm: 200_000, slow_factor: 20, ..Faults::none() };
        let sim = probeline_sim::Config { seed, faults, ..sim(&config, 1, 8) };
        let mut table = open(&Cluster::new(sim).unwrap(), 0, config, 8);
        let keys: Vec<_> = (0..KEYS).map(key).collect();
        let mut results = vec![Outcome::Full; keys.len()];
        table.find_or_put_batch(&keys, &mut results).unwrap();
        let inserted = results.iter().filter(|result| **result == Outcome::Inserted).count();
        assert_eq!(inserted as u64, KEYS, "seed {seed}: {results:?}");
    }
}

/// A find-or-put of an existing key requests the last entry, and gives it back. An insert that finds
/// every part exhausted meanwhile waits for it, with nothing of its own in flight. It is full only if
/// the other operation holds the entry by then.
#[test]
fn an_insert_waits_for_an_entry_that_another_operation_has_requested() {
    let mut inserted = 0;
    for seed in 0..200 {
        let config = WideConfig::<2> { entries_per_owner: 10, ..WideConfig::new(64) };
        let order = probeline_sim::Order::Shuffled;
        let sim = probeline_sim::Config { seed, order, ..sim(&config, 1, 2) };
        let mut table = open(&Cluster::new(sim).unwrap(), 0, config, 2);
        for number in 0..9 {
            assert_eq!(table.find_or_put(&key(number)), Ok(Outcome::Inserted));
        }
        let mut results = [Ok(Outcome::Full); 2];
        table.find_or_put_batch(&[key(0), key(9)], &mut results).unwrap();
        let [Ok(Outcome::Found), Ok(end @ (Outcome::Inserted | Outcome::Full))] = results else {
            panic!("seed {seed}: {results:?}")
        };
        inserted += u32::from(end == Outcome::Inserted);
    }
    assert!(inserted > 20, "{inserted}");
}

/// Several owners insert the same keys at the same time: each is inserted once.
#[test]
fn owners_race_for_the_same_keys() {
    const OWNERS: u32 = 3;
    const KEYS: u64 = 400;
    let config = WideConfig::<3>::for_keys(KEYS, OWNERS);
    let sizes = Sizes { owners: OWNERS, window_words: config.words(), operations: 16, depth: 32 };
    for direct in [false, true] {
        let buckets = Config { direct, ..config.buckets };
        let inserted = race(sizes, WideConfig { buckets, ..config }, KEYS);
        assert_eq!(inserted.iter().sum::<u64>(), KEYS);
    }
}

/// Returns how many keys each owner inserted.
fn race(sizes: Sizes, config: WideConfig<3>, keys: u64) -> Vec<u64> {
    on_shm(sizes, |engine, mut exchange| {
        let storage = storage::<3>(8);
        let mut table = WideTable::open(engine, config, storage, &mut exchange).unwrap();
        let keys: Vec<_> = (0..keys).map(key).collect();
        let mut results = vec![Outcome::Full; keys.len()];
        table.find_or_put_batch(&keys, &mut results).unwrap();
        let count = results.iter().filter(|result| **result == Outcome::Inserted).count();
        assert!(results.iter().all(|result| *result != Outcome::Full));
        for key in &keys {
            assert_eq!(table.find(key), Ok(true));
        }
        // An engine that is dropped while others use theirs is a loss to them.
        exchange.barrier().unwrap();
        assert_eq!(table.stats().total().lines > 0, config.buckets.direct);
        count as u64
    })
}

/// More futures than storage, polled together: each ends once, and the set is right.
#[test]
fn futures_of_wide_keys() {
    let config = WideConfig::<2>::new(128);
    let cluster = cluster(&config, 1, 4);
    let shared = &Shared::new(open(&cluster, 0, config, 4));
    let mut context = Context::from_waker(Waker::noop());
    let mut run = |puts: bool| {
        let start = |number: u64| {
            let key = key(number % 20);
            Some(Box::pin(async move {
                match puts {
                    true => shared.find_or_put(&key).await.map(Ended::from),
                    false => shared.find(&key).await.map(Ended::from),
                }
            }))
        };
        let mut futures: Vec<_> = (0..30).map(start).collect();
        let mut outcomes = Vec::new();
        // Far more rounds than roundtrips.
        for _ in 0..100_000 {
            if outcomes.len() == futures.len() {
                break;
            }
            for place in &mut futures {
                if let Some(future) = place
                    && let Poll::Ready(end) = future.as_mut().poll(&mut context)
                {
                    outcomes.push(end.unwrap());
                    *place = None;
                }
            }
        }
        outcomes
    };
    let count = |outcomes: Vec<Ended>, outcome| {
        outcomes.into_iter().filter(|other| *other == outcome).count()
    };
    assert_eq!(count(run(false), Ended::Absent), 30);
    assert_eq!(count(run(true), Ended::Inserted), 20);
    assert_eq!(count(run(false), Ended::Found), 30);
}

/// A client stops for good after any of its steps: before the WRITE of its key, between the WRITE
/// and the claim, or after the claim. The others finish, and no key is lost or doubled.
#[test]
fn a_client_that_stops_between_two_steps_blocks_nobody() {
    const KEYS: u64 = 20;
    let mut ends = BTreeSet::new();
    for steps in 0..120 {
        let config = WideConfig::<2>::new(64);
        let cluster = cluster(&config, 2, 4);
        let mut stopping = open(&cluster, 0, config, 4);
        let mut table = open(&cluster, 1, config, 4);
        for number in 0..4 {
            stopping.submit(Tag(number), &key(number), Intent::FindOrPut).unwrap();
        }
        let mut reported = 0;
        for _ in 0..steps {
            reported += stopping.poll_into(&mut [Finished::default(); 4]).unwrap().len();
        }
        // One that had only posted may have claimed without knowing it.
        let mut inserted = 0;
        for number in 0..KEYS {
            match table.find_or_put(&key(number)).unwrap() {
                Outcome::Inserted => inserted += 1,
                Outcome::Found => assert!(number < 4),
                end => panic!("{number} ended {end:?}"),
            }
            assert_eq!(table.find_or_put(&key(number)), Ok(Outcome::Found));
        }
        assert!((KEYS - 4..=KEYS - reported as u64).contains(&inserted), "{steps}: {inserted}");
        let mut local = Vec::new();
        table.for_each_local(|key| local.push(key[1])).unwrap();
        let all: BTreeSet<u64> = local.iter().copied().collect();
        assert_eq!(local.len(), all.len(), "a key is there twice");
        ends.insert((reported, inserted));
    }
    // It stopped before any claim, after all of them, and in between.
    println!("reported and inserted by others: {ends:?}");
    assert!(ends.contains(&(0, KEYS)) && ends.contains(&(4, KEYS - 4)) && ends.len() > 2);
}
