//! Keys as trees of pairs: against a set, on every path, with faults, and the collective calls.

mod common;

use core::future::Future;
use core::pin::pin;
use core::sync::atomic::Ordering::Acquire;
use core::task::{Context, Waker};
use std::collections::{BTreeSet, HashSet};

use common::account::{Account, UNTOUCHED, ends};
use common::job::{Over, Sizes};
use common::{Replay, Wrong, seeds};
use probeline_shm::Builder;
use probeline_sim::{Cluster, Engine, Faults, Jitter, Model, Order, Rng};
use probeline_table::{
    Bucket, Config, ConfigError, Ended, Finished, Intent, OneRoundtrip, OpenError, OperationError,
    Outcome, PairCacheLine, Probing, Shared, Tag, TreeConfig, TreeOperation, TreeStats, TreeTable,
};
use probeline_transport::{Alone, Exchange, Owner, Transport};
use proptest::prelude::*;

const OPERATIONS: u32 = 4;

type Tree<T, const W: usize> = TreeTable<T, Vec<TreeOperation<W>>, W, Vec<PairCacheLine>>;

fn storage<const W: usize>() -> Vec<TreeOperation<W>> {
    vec![TreeOperation::EMPTY; OPERATIONS as usize]
}

/// A different key for each number below 4096; keys have parts in common, and bits up to the last.
fn key<const W: usize>(number: u64, bits: u32) -> [u64; W] {
    let mut key = [0; W];
    for (nth, part) in (0..).zip([number % 16, number / 16 % 16, number / 256]) {
        // The first, a middle and the last bits of the key.
        let first = (bits - 4) * nth / 2;
        for bit in (0..4).filter(|bit| part >> bit & 1 == 1) {
            key[(first + bit) as usize / 64] |= 1 << ((first + bit) % 64);
        }
    }
    key
}

fn sim(config: &TreeConfig, owners: u32, seed: u64) -> probeline_sim::Config {
    let sizes = config.sizes(OPERATIONS);
    probeline_sim::Config {
        owners,
        window_words: sizes.window_words,
        slots: sizes.slots,
        slot_words: sizes.slot_words,
        depth: sizes.depth,
        direct_access: probeline_sim::DirectAccess::None,
        word_reads_whole: false,
        seed,
        model: Model { idle_poll_ns: 100, ..Model::simple(2_000) },
        ..probeline_sim::Config::default()
    }
}

/// Runs operations of every kind, and compares their outcomes with a set. A step is a number and
/// what to do with it.
fn is_a_set<T: Transport, const W: usize>(
    tables: &mut [Tree<T, W>],
    bits: u32,
    steps: &[(u64, u8)],
) -> Result<(), TestCaseError> {
    let mut set = HashSet::new();
    let mut out = [Finished::default(); 4];
    for (nth, &(number, what)) in steps.iter().enumerate() {
        let owner = nth % tables.len();
        let table = &mut tables[owner];
        let numbers: Vec<u64> =
            if what < 2 { vec![number] } else { (number..number + 9).collect() };
        let intent = if what % 2 == 0 { Intent::FindOrPut } else { Intent::Find };
        let expected: Vec<Ended> = numbers
            .iter()
            .map(|number| match (set.contains(number), intent) {
                (true, _) => Ended::Found,
                (_, Intent::Find) => Ended::Absent,
                (_, Intent::FindOrPut) => {
                    set.insert(*number);
                    Ended::Inserted
                }
            })
            .collect();
        let keys: Vec<[u64; W]> = numbers.iter().map(|number| key(*number, bits)).collect();
        let mut results = vec![Err(UNTOUCHED); keys.len()];
        match what {
            0 => results[0] = table.find_or_put(&keys[0]).map(Ended::from),
            1 => results[0] = table.find(&keys[0]).map(Ended::from),
            2 => {
                let ends = ends(keys.len(), |ends| table.find_or_put_batch(&keys, ends));
                results = ends.unwrap();
            }
            3 => results = ends(keys.len(), |ends| table.find_batch(&keys, ends)).unwrap(),
            _ => {
                let mut next = 0;
                while next < keys.len() || table.in_flight() > 0 {
                    while next < keys.len() && table.has_room() {
                        match table.submit(Tag(next as u64), &keys[next], intent) {
                            Ok(()) => next += 1,
                            Err(error) => prop_assert_eq!(error, OperationError::Busy),
                        }
                    }
                    for end in table.poll_into(&mut out).unwrap() {
                        results[usize::try_from(end.tag.0).unwrap()] = end.result;
                    }
                }
            }
        }
        let results: Result<Vec<Ended>, _> = results.into_iter().collect();
        prop_assert_eq!(results, Ok(expected), "step {}", nth);
    }
    let mut content = Vec::new();
    for table in &mut *tables {
        table.for_each_local(|key| content.push(*key)).unwrap();
    }
    let mut expected: Vec<[u64; W]> = set.iter().map(|number| key(*number, bits)).collect();
    content.sort_unstable();
    expected.sort_unstable();
    prop_assert_eq!(content, expected);
    let stats = tables.iter().fold(TreeStats::default(), |sum, of| sum.plus(of.tree_stats()));
    prop_assert_eq!(stats.keys_inserted, set.len() as u64);
    Ok(())
}

fn config(bits: u32, probing: usize, direct: bool, one_roundtrip: bool) -> TreeConfig {
    let buckets = Config {
        probing: [Probing::Linear, Probing::Lines, Probing::Jump][probing],
        chunk_buckets: 8,
        max_chunks: 128,
        direct,
        one_roundtrip: if one_roundtrip { OneRoundtrip::On } else { OneRoundtrip::Off },
        ..Config::new(1_024)
    };
    TreeConfig { buckets, key_bits: bits }
}

#[derive(Clone, Debug)]
struct Case {
    steps: Vec<(u64, u8)>,
    owners: u32,
    probing: usize,
    one_roundtrip: bool,
    lines: usize,
    seed: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let steps = prop::collection::vec((0_u64..400, 0_u8..6), 1..30);
    (steps, 1_u32..5, 0_usize..3, any::<bool>(), 0_usize..5, any::<u64>()).prop_map(
        |(steps, owners, probing, one_roundtrip, lines, seed)| {
            let lines = [0, 1, 1, 16, 256][lines];
            Case { steps, owners, probing, one_roundtrip, lines, seed }
        },
    )
}

fn is_a_set_in<const W: usize>(case: &Case, bits: u32) -> Result<(), TestCaseError> {
    let Case { ref steps, owners, probing, one_roundtrip, lines, seed } = *case;
    let lines = || vec![PairCacheLine::EMPTY; lines];
    let posted = config(bits, probing, false, one_roundtrip);
    let cluster = Cluster::new(sim(&posted, owners, seed)).unwrap();
    let open = |owner| {
        let engine = cluster.engine(Owner(owner)).unwrap();
        TreeTable::new(engine, posted, storage::<W>()).unwrap().with_cache(lines())
    };
    is_a_set(&mut (0..owners).map(open).collect::<Vec<_>>(), bits, steps)?;
    let direct = config(bits, probing, true, one_roundtrip);
    let engine = Builder::new(direct.sizes(OPERATIONS)).open(&mut Alone).unwrap();
    let table = TreeTable::open(engine, direct, storage::<W>(), &mut Alone).unwrap();
    is_a_set(&mut [table.with_cache(lines())], bits, steps)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_tree_table_is_a_set(case in cases()) {
        is_a_set_in::<1>(&case, 12)?;
        is_a_set_in::<1>(&case, 63)?;
        is_a_set_in::<1>(&case, 64)?;
        is_a_set_in::<2>(&case, 100)?;
        is_a_set_in::<4>(&case, 200)?;
        is_a_set_in::<16>(&case, 1024)?;
    }
}

/// 4,096 keys of 124 bits, of which each half has 64 values: 64 nodes for each half.
#[test]
fn keys_share_their_nodes() {
    let config = TreeConfig::new(8_192, 124);
    for direct in [true, false] {
        let buckets = Config { direct, ..config.buckets };
        let config = TreeConfig { buckets, ..config };
        let engine = Builder::new(config.sizes(OPERATIONS)).open(&mut Alone).unwrap();
        let table = TreeTable::open(engine, config, storage::<2>(), &mut Alone).unwrap();
        let mut table = table.with_cache(vec![PairCacheLine::EMPTY; 256]);
        for number in 0..4_096_u64 {
            let half = |number: u64| u128::from(number % 64) << 31 | 3;
            let key = half(number) | half(number / 64) << 62 | 1 << 20;
            #[allow(clippy::cast_possible_truncation)]
            let key = [key as u64, (key >> 64) as u64];
            assert_eq!(table.find_or_put(&key), Ok(Outcome::Inserted));
        }
        let stats = *table.tree_stats();
        assert_eq!(stats.keys_inserted, 4_096);
        assert_eq!((stats.inner_nodes, stats.inner_inserted), (2 * 4_096, 128));
        assert_eq!(stats.cache_hits, 2 * 4_096 - 128);
        assert!((stats.bytes_per_key() - 8.25).abs() < 1e-9, "{stats:?}");
        assert_eq!(table.len(&mut Alone), Ok(4_096));
        assert_eq!(table.occupied(&mut Alone), Ok(4_224));
        table.clear(&mut Alone).unwrap();
        assert_eq!(table.occupied(&mut Alone), Ok(0));
        assert_eq!(table.find(&[3, 0]), Ok(false));
    }
}

#[test]
fn bad_parameters_are_refused() {
    let new = TreeConfig::new(64, 100);
    let open = |config: TreeConfig| {
        let engine = Builder::new(new.sizes(OPERATIONS)).open(&mut Alone).unwrap();
        TreeTable::open(engine, config, storage::<2>(), &mut Alone).map(drop)
    };
    assert_eq!(open(new), Ok(()));
    for found in [0, 129] {
        let refused = OpenError::Config(ConfigError::KeyBits { found, most: 128 });
        assert_eq!(open(TreeConfig { key_bits: found, ..new }), Err(refused));
    }
    let refused = open(TreeConfig::new(72, 100)).unwrap_err();
    assert_eq!(refused, OpenError::Config(ConfigError::Buckets { found: 72, most: 64 }));
    let message = ConfigError::References { found: 1 << 32, most: 1 << 31 }.to_string();
    assert!(message.contains("lower buckets_per_owner"), "{message}");

    let engine = Builder::new(new.sizes(OPERATIONS)).open(&mut Alone).unwrap();
    let mut table = TreeTable::open(engine, new, storage::<2>(), &mut Alone).unwrap();
    let (fits, wide) = ([u64::MAX, (1 << 36) - 1], [0, 1 << 36]);
    let refused = OperationError::Key { bits: 101, most: 100 };
    assert_eq!(table.find_or_put(&wide), Err(refused));
    assert_eq!(table.submit(Tag(0), &wide, Intent::Find), Err(refused));
    let mut results = [Ok(Outcome::Full); 3];
    table.find_or_put_batch(&[fits, wide, fits], &mut results).unwrap();
    assert_eq!(results, [Ok(Outcome::Inserted), Err(refused), Ok(Outcome::Found)]);
}

#[test]
fn a_full_table_stays_a_set() {
    for direct in [true, false] {
        let new = TreeConfig::new(64, 200);
        let config = TreeConfig { buckets: Config { direct, ..new.buckets }, ..new };
        let engine = Builder::new(config.sizes(OPERATIONS)).open(&mut Alone).unwrap();
        let mut table = TreeTable::open(engine, config, storage::<4>(), &mut Alone).unwrap();
        let keys: Vec<[u64; 4]> = (0..64).map(|number| [number, number << 40, 0, 7]).collect();
        let outcomes: Vec<Outcome> =
            keys.iter().map(|key| table.find_or_put(key).unwrap()).collect();
        assert!(outcomes.contains(&Outcome::Inserted) && outcomes.contains(&Outcome::Full));
        for (key, outcome) in keys.iter().zip(&outcomes) {
            assert_eq!(table.find(key), Ok(*outcome == Outcome::Inserted));
        }
        let inserted = outcomes.iter().filter(|outcome| **outcome == Outcome::Inserted).count();
        assert_eq!(table.len(&mut Alone), Ok(inserted as u64));
        assert_eq!(table.occupied(&mut Alone), Ok(64));
    }
}

/// All owners insert the same keys at once, each in another order; then the table is cleared.
fn collective(over: Over, owners: u32, direct: bool) {
    const KEYS: u64 = 600;
    let new = config(200, 1, direct, true);
    let sizes =
        Sizes { owners, window_words: new.words(), operations: OPERATIONS, depth: 4 * OPERATIONS };
    let inserted = over.run(sizes, |transport: &mut dyn Transport, exchange| {
        let table = TreeTable::open(transport, new, storage::<4>(), exchange).unwrap();
        let mut table = table.with_cache(vec![PairCacheLine::EMPTY; 64]);
        let me = u64::from(exchange.me().0);
        let mut inserted = 0;
        for round in 0..2 {
            let keys: Vec<_> = (0..KEYS).map(|nth| key((nth + 40 * me) % KEYS, 200)).collect();
            let mut results = vec![Outcome::Full; keys.len()];
            table.find_or_put_batch(&keys, &mut results).unwrap();
            inserted += results.iter().filter(|end| **end == Outcome::Inserted).count() as u64;
            assert_eq!(table.len(exchange), Ok(KEYS));
            let mut local = Vec::new();
            table.for_each_local(|key| local.push(*key)).unwrap();
            assert!(local.iter().all(|key| table.find(key) == Ok(true)));
            if round == 0 {
                table.clear(exchange).unwrap();
                assert_eq!(table.len(exchange), Ok(0));
            }
        }
        exchange.barrier().unwrap();
        inserted
    });
    assert_eq!(inserted.iter().sum::<u64>(), 2 * KEYS);
}

#[test]
fn owners_insert_the_same_keys() {
    for owners in 1..5 {
        collective(Over::Shm, owners, true);
        collective(Over::Shm, owners, false);
        collective(Over::Sim { seed: owners.into() }, owners, false);
    }
}

#[test]
fn owners_with_other_keys_are_refused() {
    let sizes = Sizes { owners: 2, window_words: 1_048, operations: OPERATIONS, depth: 8 };
    let opened = Over::Shm.run(sizes, |transport: &mut dyn Transport, exchange| {
        let config = TreeConfig::new(1_024, 100 + exchange.me().0);
        TreeTable::open(transport, config, storage::<2>(), exchange).err()
    });
    for error in opened {
        let message = error.unwrap().to_string();
        assert!(message.contains("bits of a key"), "{message}");
    }
}

#[test]
fn futures_are_operations() {
    let config = TreeConfig::new(64, 100);
    let engine = Builder::new(config.sizes(OPERATIONS)).open(&mut Alone).unwrap();
    let table = TreeTable::open(engine, config, storage::<2>(), &mut Alone).unwrap();
    let shared = Shared::new(table);
    let mut context = Context::from_waker(Waker::noop());
    let run = async || {
        assert_eq!(shared.find(&[1, 2]).await, Ok(false));
        assert_eq!(shared.find_or_put(&[1, 2]).await, Ok(Outcome::Inserted));
        assert_eq!(shared.find(&[1, 2]).await, Ok(true));
        assert!(shared.find_or_put(&[0, 1 << 40]).await.is_err());
    };
    let mut run = pin!(run());
    while run.as_mut().poll(&mut context).is_pending() {}
}

const BITS: u32 = 150;
/// Operations of a run with faults.
const SUBMITS: u64 = 400;
/// Steps before a run counts as stuck.
const MAX_STEPS: u64 = 2_000_000;
const KEYS: u64 = 300;

/// Finds a key with as many attempts as it takes: READs may fail.
fn is_there(table: &mut Tree<Engine, 3>, key: &[u64; 3]) -> bool {
    loop {
        if let Ok(found) = table.find(key) {
            return found;
        }
    }
}

/// Returns the words of an owner's buckets.
fn words(table: &Tree<Engine, 3>) -> Vec<u64> {
    let first = usize::try_from(table.layout().first_word()).unwrap();
    let count = usize::try_from(table.layout().buckets_per_owner()).unwrap();
    let words = &table.transport().window()[first..first + count];
    words.iter().map(|word| word.load(Acquire)).collect()
}

/// Runs owners with faults in one thread, in the order of a seed, and compares their results with
/// the content.
#[allow(clippy::too_many_lines)]
fn run_with_faults(seed: u64, faults: Faults) -> Result<(TreeStats, u64), Wrong> {
    let mut rng = Rng::new(seed, 900);
    let owners = u32::try_from(2 + rng.below(2)).unwrap();
    let probing = usize::try_from(rng.below(3)).unwrap();
    let new = config(BITS, probing, false, rng.below(2) == 0);
    let buckets_per_owner = 64 + 8 * rng.below(40);
    let config = TreeConfig { buckets: Config { buckets_per_owner, ..new.buckets }, ..new };
    let cluster = Cluster::new(probeline_sim::Config {
        order: if rng.below(4) > 0 { Order::Shuffled } else { Order::ByTime },
        model: Model { jitter: Jitter::Exponential { mean_ns: 1_000 }, ..Model::simple(2_000) },
        faults,
        scatter_reads: rng.below(2) == 1,
        ..sim(&config, owners, seed)
    })
    .unwrap();
    let mut tables: Vec<Tree<Engine, 3>> = (0..owners)
        .map(|owner| {
            let engine = cluster.engine(Owner(owner)).unwrap();
            let table = TreeTable::new(engine, config, storage::<3>()).unwrap();
            table.with_cache(vec![PairCacheLine::EMPTY; 4])
        })
        .collect();
    let mut account = Account::default();
    let (mut left, mut next_tag, mut running) = (SUBMITS, 0, 0);
    let mut again = Vec::new();
    for step in 0.. {
        if left == 0 && running == 0 && again.is_empty() {
            break;
        }
        if step == MAX_STEPS {
            return Err("stuck".into());
        }
        let table = &mut tables[usize::try_from(rng.below(owners.into())).unwrap()];
        if rng.below(2) == 0 && (left > 0 || !again.is_empty()) {
            let (number, intent) = again.pop().unwrap_or_else(|| {
                let intent = if rng.below(4) == 0 { Intent::Find } else { Intent::FindOrPut };
                (rng.below(KEYS), intent)
            });
            next_tag += 1;
            account.begin(next_tag, number, intent);
            match table.submit(Tag(next_tag), &key(number, BITS), intent) {
                Ok(()) => {
                    running += 1;
                    left = left.saturating_sub(1);
                }
                Err(OperationError::Busy) => {
                    account.refused(next_tag);
                    again.push((number, intent));
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        let mut out = [Finished::default(); 3];
        for end in table.poll_into(&mut out).map_err(|error| error.to_string())? {
            running -= 1;
            let (number, intent) = account.end(end.tag.0, end.result)?;
            if end.result.is_err() {
                again.push((number, intent));
            }
        }
    }
    cluster.settle();
    // READs fail here too.
    let content: BTreeSet<u64> =
        (0..KEYS).filter(|number| is_there(&mut tables[0], &key(*number, BITS))).collect();
    let words = tables.iter().flat_map(words);
    let pairs: Vec<u64> = words.filter_map(Bucket::from_word).map(Bucket::key).collect();
    if pairs.iter().collect::<BTreeSet<_>>().len() < pairs.len() {
        return Err("a pair is there twice".into());
    }
    let roots = pairs.iter().filter(|pair| **pair >> 62 == 1).count();
    if roots != content.len() {
        return Err(format!("{} keys of {roots} roots", content.len()));
    }
    account.check(&content)?;
    let stats = tables.iter().fold(TreeStats::default(), |sum, of| sum.plus(of.tree_stats()));
    Ok((stats, tables.iter().map(|table| table.stats().full.operations).sum()))
}

#[test]
fn sixty_seeds_with_all_faults() {
    let (mut stats, mut full) = (TreeStats::default(), 0);
    for seed in seeds(60) {
        let _replay = Replay(seed);
        let faults = Faults { death: None, torn_read_ppm: 300_000, ..Faults::swarm(seed) };
        let (of_run, full_of_run) =
            run_with_faults(seed, faults).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        stats = stats.plus(&of_run);
        full += full_of_run;
    }
    println!("{stats:?}, {full} full");
    if std::env::var_os("PROBELINE_SEED").is_none() {
        assert!(stats.cache_hits > 0 && stats.inner_inserted > 0 && full > 0);
    }
}
