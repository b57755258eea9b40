//! Tests of tables against a set: random sizes and loads, random operations, several owners at
//! once.

mod common;

use std::collections::HashSet;
use std::sync::Mutex;

use common::account::Account;
use common::drive::{Drive, Plan, block};
use common::extensions::setups;
use common::job::Sizes;
use common::{CachedTable, cache, content, key, own_words, storage};
use probeline_sim::{Cluster, DirectAccess, Engine, Jitter, Model, Order, Rng, stage};
use probeline_table::{Config, Finished, Intent, OperationError, Outcome, Table, Tag};
use probeline_transport::{AtomicScope, Exchange, Transport};
use proptest::prelude::*;

/// Generates configurations of random sizes, usually too small for the keys.
fn config() -> impl Strategy<Value = Config> {
    let part = prop_oneof![4 => 1_u64..9, 2 => 9_u64..40, 1 => 40_u64..400];
    let chunk = 1_u32..9;
    (0_u64..3, part, chunk, 1_u32..9).prop_map(|(first, part, chunk, max_chunks)| Config {
        first_word: 8 * first,
        chunk_buckets: 8 * chunk.min(u32::try_from(part).unwrap()),
        max_chunks,
        ..Config::paper(8 * part)
    })
}

fn sim_config(
    owners: u32,
    config: &Config,
) -> impl Strategy<Value = probeline_sim::Config> + use<> {
    let sizes = Sizes::of(owners, config);
    let depth = prop_oneof![Just(2), Just(3), Just(5), Just(24)];
    let reach =
        prop_oneof![Just(DirectAccess::None), Just(DirectAccess::Own), Just(DirectAccess::All)];
    (any::<u64>(), depth, reach, any::<[bool; 5]>()).prop_map(
        move |(seed, depth, direct_access, [shuffled, scatter_reads, whole, exact, device])| {
            probeline_sim::Config {
                depth,
                direct_access,
                slots: Config::slots(MOST_OPERATIONS),
                order: if shuffled { Order::Shuffled } else { Order::ByTime },
                model: Model {
                    jitter: if exact { Jitter::None } else { Jitter::Exponential { mean_ns: 900 } },
                    ..Model::simple(1_000)
                },
                scatter_reads,
                word_reads_whole: whole,
                faults: probeline_sim::Faults {
                    torn_read_ppm: 400_000,
                    ..probeline_sim::Faults::none()
                },
                atomics: if device { AtomicScope::Device } else { AtomicScope::Cpu },
                ..sizes.sim(seed)
            }
        },
    )
}

const MOST_OPERATIONS: u32 = 10;

fn plan() -> impl Strategy<Value = Plan> {
    (1_u32..5, config())
        .prop_flat_map(|(owners, table)| (sim_config(owners, &table), Just(table)))
        .prop_flat_map(|(sim, table)| {
            let buckets = table.buckets_per_owner * u64::from(sim.owners);
            // From a tenth of the buckets to twice their number.
            let keys = prop_oneof![buckets / 10 + 1..buckets + 2, buckets * 3 / 4..buckets * 2];
            let operations = prop_oneof![1 => Just(1), 3 => 1..=MOST_OPERATIONS];
            let shares = (0_u32..600_000, prop_oneof![Just(0), 0_u32..300_000]);
            let setups = any::<u64>().prop_map(move |seed| setups(seed, sim.owners, table));
            (Just(sim), setups, operations, keys, 2_u64..7, shares, 1_u32..12)
        })
        .prop_map(|(sim, setups, operations, keys, times, (finds_ppm, blocking_ppm), poll_room)| {
            let submits = (keys * times).min(30_000);
            let (key_step, kill) = (1, None);
            Plan {
                sim,
                setups,
                operations,
                keys,
                key_step,
                submits,
                finds_ppm,
                blocking_ppm,
                batch_ppm: 40_000,
                poll_room,
                kill,
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..Default::default() })]

    /// `submit` and blocking calls mixed: each key is inserted once among all owners, only inserted
    /// keys are found, and every submitted operation completes once.
    #[test]
    fn many_owners_many_operations(plan in plan()) {
        let mut drive = Drive::new(plan, |engine| engine);
        drive.agree();
        prop_assert_eq!(drive.run(), Ok(()));
    }

    /// One operation at a time: each outcome equals that of a set, and an operation is full exactly
    /// if every bucket within the probe limit is occupied.
    #[test]
    fn one_after_the_other(plan in plan()) {
        let (sim, keys, submits) = (plan.sim, plan.keys, plan.submits);
        let mut drive = Drive::new(plan, |engine| engine);
        let (mut set, mut rng) = (HashSet::new(), Rng::new(sim.seed, 7));
        for _ in 0..submits {
            let key = key(rng.below(keys));
            let owner = usize::try_from(rng.below(sim.owners.into())).unwrap();
            let (is_there, has_room) = drive.look(key);
            prop_assert_eq!(is_there, set.contains(&key));
            if rng.chance(300_000) {
                prop_assert_eq!(drive.tables[owner].find(key), Ok(is_there));
                continue;
            }
            let expected = match (is_there, has_room) {
                (true, _) => Outcome::Found,
                (false, true) => Outcome::Inserted,
                (false, false) => Outcome::Full,
            };
            if rng.chance(300_000) {
                // Either of the two may execute first.
                let mut results = [Ok(Outcome::Full); 2];
                drive.tables[owner].find_or_put_batch(&[key; 2], &mut results).unwrap();
                let other = if has_room { Outcome::Found } else { expected };
                prop_assert!(results.contains(&Ok(expected)) && results.contains(&Ok(other)), "{:?}", results);
                prop_assert!(expected != other || results[0] == results[1], "{:?}", results);
            } else {
                prop_assert_eq!(drive.tables[owner].find_or_put(key), Ok(expected));
            }
            if expected == Outcome::Inserted {
                set.insert(key);
            }
        }
        let found: HashSet<u64> = drive.tables.iter().flat_map(Table::local).collect();
        prop_assert_eq!(found, set);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 50, failure_persistence: None, ..Default::default() })]

    /// Blocking calls on one thread for each owner, mixed with some submitted operations.
    #[test]
    fn blocking_bodies(plan in plan()) {
        let cluster = Cluster::new(plan.sim).unwrap();
        let account = Mutex::new(Account::default());
        let parts = stage::run(&cluster, |engine, mut exchange| {
            let storage = storage(plan.operations);
            let setup = plan.setups[exchange.me().0 as usize];
            let table = Table::open(engine, setup.config, storage, &mut exchange).unwrap();
            let mut table = table.with_cache(cache(setup.cache_entries));
            body(&plan, &mut table, &account);
            exchange.barrier().unwrap();
            (*table.layout(), own_words(&table))
        })
        .unwrap();
        let ring: Vec<u64> = parts.iter().flat_map(|(_, words)| words.clone()).collect();
        let content = content(&parts[0].0, &ring);
        prop_assert_eq!(content.and_then(|set| account.into_inner().unwrap().check(&set)), Ok(()));
    }
}

/// Runs one owner's share of the operations. The account is never locked during a call, in which
/// other owners run.
fn body(plan: &Plan, table: &mut CachedTable<Engine>, account: &Mutex<Account>) {
    let account = || account.lock().unwrap();
    let owners = u64::from(plan.sim.owners);
    let me = u64::from(table.transport().geometry().me.0);
    let mut rng = Rng::new(plan.sim.seed, 8 + me);
    let mut out = vec![Finished::default(); plan.poll_room as usize];
    let mut running = 0;
    for tag in (me..plan.submits).step_by(usize::try_from(owners).unwrap()) {
        let key = key(rng.below(plan.keys));
        let find = rng.chance(plan.finds_ppm);
        let intent = if find { Intent::Find } else { Intent::FindOrPut };
        account().begin(tag, key, intent);
        if rng.chance(300_000) {
            match table.submit(Tag(tag), key, intent) {
                Ok(()) => running += 1,
                Err(_) => account().refused(tag),
            }
        } else {
            match block(table, key, intent) {
                Err(OperationError::Busy) => account().refused(tag),
                end => _ = account().end(tag, end).unwrap(),
            }
        }
        while running > 0 && (rng.chance(500_000) || tag + owners >= plan.submits) {
            let ended = table.poll_into(&mut out).unwrap();
            for end in ended {
                account().end(end.tag.0, end.result).unwrap();
            }
            running -= ended.len();
        }
    }
}
