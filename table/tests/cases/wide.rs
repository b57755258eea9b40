//! The wide table: its roundtrips, its entries, and how full it gets.

use probeline_shm::Builder;
use probeline_sim::{Cluster, Engine, Faults};
use probeline_table::{
    Config, ConfigError, OneRoundtrip, Outcome, WideConfig, WideOperation, WideTable,
};
use probeline_transport::{Alone, Owner, Slot, SlotRange, Transport};

use crate::common::kinds::{self, Numbered, WideKeys};

/// A roundtrip to the own part; one to others takes ten times as long.
const ROUNDTRIP_NS: u64 = 10_000;

/// Creates a cluster whose owners' engines fit the table.
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
        direct_access: probeline_sim::DirectAccess::None,
        model: probeline_sim::Model {
            idle_poll_ns: 100,
            ..probeline_sim::Model::simple(10 * ROUNDTRIP_NS)
        },
        ..probeline_sim::Config::new(owners, sizes)
    }
}

fn open<const W: usize>(
    cluster: &Cluster,
    owner: u32,
    config: WideConfig<W>,
    operations: u32,
) -> Numbered<Engine, WideKeys<W>> {
    kinds::new(cluster.engine(Owner(owner)).unwrap(), config, operations, 0)
}

/// Returns a different key for each number; keys of near numbers differ in one word only.
fn key<const W: usize>(number: u64) -> [u64; W] {
    core::array::from_fn(|at| if at == W - 1 { number } else { 7 })
}

/// At load factor 0.5 a find takes a chunk and an entry, an insert a chunk and a claim; the WRITE
/// of the key and the entries taken cost no roundtrip of their own.
#[test]
fn operations_take_two_roundtrips() {
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
    for ns in [find_ns, insert_ns] {
        assert!((2 * ROUNDTRIP_NS..22 * ROUNDTRIP_NS / 10).contains(&ns), "{ns}");
    }
    let found = table.stats().found;
    assert_eq!((found.operations, found.effective_roundtrips), (KEYS / 2, KEYS / 2));
    assert_eq!(table.entry_stats().entry_reads, KEYS / 2);
    assert_eq!(table.entry_stats().false_entry_reads, 0);
}

/// The slots after those of the operations belong to others.
#[test]
fn iterates_only_in_operation_slots() {
    let config = WideConfig::<2>::new(64);
    let sizes = config.sizes(1);
    let own = sizes.slots;
    let engine = Builder::new(probeline_transport::Sizes { slots: own + 16, depth: 32, ..sizes });
    let engine = engine.open(&mut Alone).unwrap();
    let mut table = WideTable::open(engine, config, [WideOperation::EMPTY], &mut Alone).unwrap();
    for number in 0..40 {
        table.find_or_put(&key(number)).unwrap();
    }
    let others = |nth| SlotRange { slot: Slot(own + nth), start: 0, words: 2 };
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
fn reuses_unused_entries() {
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
fn waits_for_entries_in_flight() {
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
fn waits_for_entry_held_elsewhere() {
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

#[test]
fn invalid_config_errors_advise() {
    let paper = Config { chunk_buckets: 8, max_chunks: 64, ..Config::paper(64) };
    let right = WideConfig::<3> { buckets: paper, entries_per_owner: 64 };
    let sizes = right.sizes(4);
    let engine = || Builder::new(sizes).open(&mut Alone).unwrap();
    let buckets = Config { one_roundtrip: OneRoundtrip::Auto, ..paper };
    for (config, expected) in [
        (WideConfig { entries_per_owner: 0, ..right }, "it must be at least 1"),
        (WideConfig { entries_per_owner: 80, ..right }, "open the engine with"),
        (WideConfig { entries_per_owner: 1 << 44, ..right }, "lower entries_per_owner"),
        (WideConfig { buckets, ..right }, "one_roundtrip must be Off"),
    ] {
        let refused =
            WideTable::new(engine(), config, [WideOperation::EMPTY; 4]).map(drop).unwrap_err();
        let message = refused.to_string();
        assert!(message.contains(expected), "{message}");
    }
    let wide = WideConfig::<200> { buckets: paper, entries_per_owner: 1 };
    let refused = WideTable::new(engine(), wide, [WideOperation::EMPTY; 4]).map(drop);
    assert_eq!(refused, Err(ConfigError::Slot { needed: 200, found: sizes.slot_words.into() }));
}
