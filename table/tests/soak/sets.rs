//! Tables against a set: random sizes and loads, random operations, several owners at once.

use std::collections::{BTreeSet, HashSet};
use std::sync::Mutex;

use probeline_exchange::testing::{AnyEngine, Replay, seeds};
use probeline_sim::{Cluster, DirectAccess, Faults, Model, Rng, stage};
use probeline_table::{
    Config, Ended, Finished, Intent, OneRoundtrip, OperationError, Outcome, Probing, Table, Tag,
    TreeConfig,
};
use probeline_transport::{Alone, Exchange, Owner, Transport};
use proptest::prelude::*;

use super::simulated::plan;
use crate::common::account::{Account, End};
use crate::common::drive::{Drive, Plan};
use crate::common::kinds::{self, NarrowKeys, Numbered, Numbers, TreeKeys, WideKeys};
use crate::common::{CachedTable, cache, content, key, own_words, storage};

/// Returns a plan for narrow keys without operations that fail.
fn calm(seed: u64) -> Plan {
    let mut plan = plan(seed, Faults { torn_read_ppm: 400_000, ..Faults::none() }, 60);
    plan.sim.word_reads_whole = seed.is_multiple_of(2);
    plan
}

/// One operation at a time: each outcome equals that of a set, and an operation is full exactly if
/// every bucket within the probe limit is occupied.
#[test]
fn sequential_operations() {
    for seed in seeds(100) {
        let _replay = Replay(seed);
        let plan = calm(seed);
        let (owners, keys, submits) = (plan.sim.owners, plan.keys, plan.submits);
        let mut drive = Drive::<NarrowKeys>::new(plan, AnyEngine::new);
        let (mut set, mut rng) = (HashSet::new(), Rng::new(seed, 7));
        for _ in 0..submits {
            let number = rng.below(keys);
            let key = key(number);
            let owner = usize::try_from(rng.below(owners.into())).unwrap();
            let (is_there, has_room) = drive.look(number).unwrap();
            assert_eq!(is_there, set.contains(&key));
            if rng.chance(300_000) {
                assert_eq!(drive.tables[owner].find(key), Ok(is_there));
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
                let are_right = results.contains(&Ok(expected)) && results.contains(&Ok(other));
                assert!(
                    are_right && (expected != other || results[0] == results[1]),
                    "{results:?}"
                );
            } else {
                assert_eq!(drive.tables[owner].find_or_put(key), Ok(expected));
            }
            if expected == Outcome::Inserted {
                set.insert(key);
            }
        }
        let found: HashSet<u64> = drive.tables.iter().flat_map(Table::local).collect();
        assert_eq!(found, set);
    }
}

/// Blocking calls on one thread for each owner, mixed with some submitted operations.
#[test]
fn blocking_bodies() {
    for seed in seeds(40) {
        let _replay = Replay(seed);
        let plan = calm(seed);
        let sizes = NarrowKeys::sizes(&plan.setups[0].config, plan.operations);
        let (window_words, slots) = (sizes.window_words, sizes.slots);
        let sim = probeline_sim::Config { window_words, slots, ..plan.sim };
        let account = Mutex::new(Account::default());
        let parts = stage::run(&Cluster::new(sim).unwrap(), |engine, mut exchange| {
            let setup = plan.setups[exchange.me().0 as usize];
            let storage = storage(plan.operations);
            let engine = AnyEngine::new(engine);
            let table = Table::open(engine, setup.config, storage, &mut exchange).unwrap();
            let mut table = table.with_cache(cache(setup.cache_entries));
            body(&plan, &mut table, &account);
            exchange.barrier().unwrap();
            (*table.layout(), own_words(&table))
        })
        .unwrap();
        let ring: Vec<u64> = parts.iter().flat_map(|(_, words)| words.clone()).collect();
        let content = content(&parts[0].0, &ring);
        let checked = content.and_then(|set| account.into_inner().unwrap().check(&set));
        assert_eq!(checked, Ok(()), "seed {seed}");
    }
}

/// Runs one owner's share of the operations. The account is never locked during a call, in which
/// other owners run.
fn body(plan: &Plan, table: &mut CachedTable<AnyEngine<'_>>, account: &Mutex<Account>) {
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
            match table.call(&key, intent) {
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

/// A number and what to do with its key, in a table of some owners.
#[derive(Clone, Debug)]
struct Case {
    steps: Vec<(u64, u8)>,
    owners: u32,
    probing: Probing,
    one_roundtrip: OneRoundtrip,
    cache_entries: usize,
    seed: u64,
}

const OPERATIONS: u32 = 4;

fn cases() -> impl Strategy<Value = Case> {
    let probing = prop_oneof![Just(Probing::Linear), Just(Probing::Lines), Just(Probing::Jump)];
    let one_roundtrip = prop_oneof![Just(OneRoundtrip::On), Just(OneRoundtrip::Off)];
    let cache_entries = prop_oneof![Just(0), Just(4), Just(64), Just(1_024)];
    let steps = prop::collection::vec((0_u64..400, 0_u8..6), 1..30);
    (steps, 1_u32..5, probing, one_roundtrip, cache_entries, any::<u64>()).prop_map(
        |(steps, owners, probing, one_roundtrip, cache_entries, seed)| Case {
            steps,
            owners,
            probing,
            one_roundtrip,
            cache_entries,
            seed,
        },
    )
}

impl Case {
    /// Checks a table of each kind, whose operations are posted or run by the CPU. Every key has
    /// room.
    fn agrees_with_a_set<K: Numbers>(
        &self,
        adapt: impl Fn(K::Config) -> K::Config,
    ) -> Result<(), TestCaseError> {
        let config = |direct| {
            let buckets = Config {
                probing: self.probing,
                one_roundtrip: self.one_roundtrip,
                chunk_buckets: 8,
                max_chunks: 128,
                direct,
                ..Config::new(1_024)
            };
            adapt(K::config(buckets, 1_200))
        };
        let sizes = K::sizes(&config(false), OPERATIONS);
        let cluster = Cluster::new(probeline_sim::Config {
            direct_access: DirectAccess::None,
            word_reads_whole: false,
            seed: self.seed,
            model: Model { idle_poll_ns: 100, ..Model::simple(2_000) },
            ..probeline_sim::Config::new(self.owners, sizes)
        })
        .unwrap();
        let open = |owner| {
            let engine = cluster.engine(Owner(owner)).unwrap();
            kinds::new(AnyEngine::new(engine), config(false), OPERATIONS, self.cache_entries)
        };
        self.run::<K>(&mut (0..self.owners).map(open).collect::<Vec<_>>())?;
        let engine = probeline_shm::Builder::new(sizes).open(&mut Alone).unwrap();
        self.run::<K>(&mut [kinds::open(
            AnyEngine::new(engine),
            config(true),
            OPERATIONS,
            &mut Alone,
        )])
    }

    /// Runs operations in every form of call, and compares their outcomes with a set.
    fn run<K: Numbers>(
        &self,
        tables: &mut [Numbered<AnyEngine<'_>, K>],
    ) -> Result<(), TestCaseError> {
        let (config, mut set) = (*tables[0].config(), BTreeSet::new());
        for (nth, &(number, what)) in self.steps.iter().enumerate() {
            let owner = nth % tables.len();
            let last = if what < 2 { number } else { number + 8 };
            let intent = if what % 2 == 0 { Intent::FindOrPut } else { Intent::Find };
            let mut expect = |number| match (set.contains(&number), intent) {
                (true, _) => Ended::Found,
                (_, Intent::Find) => Ended::Absent,
                (_, Intent::FindOrPut) => {
                    set.insert(number);
                    Ended::Inserted
                }
            };
            let expected: Vec<End> = (number..=last).map(|number| Ok(expect(number))).collect();
            let keys: Vec<K::Key> = (number..=last).map(|n| K::key(&config, n)).collect();
            let results = kinds::run_in_form(&mut tables[owner], &keys, what / 2, intent);
            prop_assert_eq!(results, expected, "step {}", nth);
        }
        let parts = tables.iter_mut().flat_map(|table| kinds::part(table).unwrap());
        let (mut content, expected) = (parts.collect::<Vec<_>>(), set.iter().copied());
        content.sort_unstable();
        prop_assert_eq!(content, expected.collect::<Vec<_>>());
        prop_assert_eq!(K::content(tables, (0..410).collect()), Ok(Some(set)));
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn narrow_table_agrees_with_set(case in cases()) {
        case.agrees_with_a_set::<NarrowKeys>(|config| config)?;
    }

    #[test]
    fn wide_table_agrees_with_set(case in cases()) {
        case.agrees_with_a_set::<WideKeys<1>>(|config| config)?;
        case.agrees_with_a_set::<WideKeys<2>>(|config| config)?;
        case.agrees_with_a_set::<WideKeys<16>>(|config| config)?;
    }

    #[test]
    fn tree_table_agrees_with_set(case in cases()) {
        let bits = |key_bits| move |config| TreeConfig { key_bits, ..config };
        case.agrees_with_a_set::<TreeKeys<1>>(bits(12))?;
        case.agrees_with_a_set::<TreeKeys<1>>(bits(63))?;
        case.agrees_with_a_set::<TreeKeys<1>>(bits(64))?;
        case.agrees_with_a_set::<TreeKeys<2>>(bits(100))?;
        case.agrees_with_a_set::<TreeKeys<4>>(bits(200))?;
        case.agrees_with_a_set::<TreeKeys<16>>(bits(1_024))?;
    }
}
