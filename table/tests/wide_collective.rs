//! The collective calls of the wide table, over shared memory and the simulator.

mod common;

use core::time::Duration;
use std::collections::BTreeSet;
use std::thread;

use common::job::{Over, Sizes};
use probeline_sim::Rng;
use probeline_table::{
    CollectiveError, Config, ConfigError, OneRoundtrip, OpenError, Outcome, Probing, WideConfig,
    WideOperation, WideTable,
};
use probeline_transport::{
    Alone, Call, Exchange, ExchangeError, Owner, Term, Transport, all_gather_u64,
};

const OWNERS: u32 = 3;
const OPERATIONS: u32 = 4;

fn storage<const W: usize>() -> Vec<WideOperation<W>> {
    vec![WideOperation::EMPTY; OPERATIONS as usize]
}

fn config(probing: Probing, entries_per_owner: u64) -> WideConfig<3> {
    let paper = Config { chunk_buckets: 8, max_chunks: 64, probing, ..Config::paper(64) };
    WideConfig { buckets: paper, entries_per_owner }
}

fn sizes(config: &WideConfig<3>) -> Sizes {
    Sizes {
        owners: OWNERS,
        window_words: config.words(),
        // The slots of an operation here are half of those of a wide one.
        operations: 2 * OPERATIONS,
        depth: 4 * OPERATIONS,
    }
}

fn key(number: u64) -> [u64; 3] {
    [number % 2, number, 5]
}

/// Owners insert, remove, insert again and clear; after each phase the table holds the right keys,
/// and every entry is free that no key has.
fn phases(over: Over, config: WideConfig<3>) {
    const KEYS: u64 = 120;
    let moved = over.run(sizes(&config), |transport: &mut dyn Transport, exchange| {
        let mut table = WideTable::open(transport, config, storage(), exchange).unwrap();
        let me = u64::from(exchange.me().0);
        let mut expected = BTreeSet::new();
        for round in 0..4_u64 {
            // All owners insert all keys, each in another order.
            let numbers: Vec<u64> =
                (0..KEYS).map(|nth| (nth + 40 * me) % KEYS + 10 * round).collect();
            let keys: Vec<_> = numbers.iter().copied().map(key).collect();
            let mut results = vec![Outcome::Full; keys.len()];
            table.find_or_put_batch(&keys, &mut results).unwrap();
            assert!(!results.contains(&Outcome::Full), "round {round}");
            expected.extend(numbers);
            check(&mut table, exchange, &expected);

            let keep = |key: &[u64; 3]| Rng::new(key[1], round).below(3) > 0;
            let removed = table.retain(exchange, keep).unwrap();
            let before = expected.len();
            expected.retain(|&number| keep(&key(number)));
            assert_eq!(removed, (before - expected.len()) as u64);
            check(&mut table, exchange, &expected);
        }
        let taken = table.entry_stats().entries_from_others;
        table.clear(exchange).unwrap();
        check(&mut table, exchange, &BTreeSet::new());
        // All entries of all parts are free: one owner takes them all.
        if me == 0 {
            for number in 0..config.entries_per_owner * u64::from(OWNERS) {
                assert_eq!(table.find_or_put(&key(number)), Ok(Outcome::Inserted), "{number}");
            }
            assert_eq!(table.find_or_put(&key(1 << 20)), Ok(Outcome::Full));
        }
        exchange.barrier().unwrap();
        taken
    });
    println!("entries taken from others: {moved:?}");
}

fn check<T: Transport>(
    table: &mut WideTable<T, Vec<WideOperation<3>>, 3>,
    exchange: &mut dyn Exchange,
    expected: &BTreeSet<u64>,
) {
    assert_eq!(table.len(exchange), Ok(expected.len() as u64));
    let mut local = Vec::new();
    table.for_each_local(|key| local.push(key[1])).unwrap();
    assert!(local.iter().all(|number| expected.contains(number)));
    let (count, sum) = (local.len() as u64, local.iter().sum::<u64>());
    let mut all = |mine: u64| -> u64 {
        let mut buffer = [[0; 8]; OWNERS as usize];
        all_gather_u64(exchange, mine, &mut buffer).unwrap().sum()
    };
    assert_eq!((all(count), all(sum)), (expected.len() as u64, expected.iter().sum()));
    for &number in expected {
        assert_eq!(table.find(&key(number)), Ok(true), "{number}");
    }
    assert_eq!(table.find(&key(1 << 30)), Ok(false));
    exchange.barrier().unwrap();
}

#[test]
fn phases_over_shared_memory() {
    for probing in [Probing::Linear, Probing::Lines, Probing::Jump] {
        phases(Over::Shm, config(probing, 64));
        let by_cpu = config(probing, 58);
        let buckets = Config { direct: true, ..by_cpu.buckets };
        phases(Over::Shm, WideConfig { buckets, ..by_cpu });
        // Fewer entries than buckets, so that the last keys of a round need others' entries.
        phases(Over::Shm, config(probing, 58));
    }
}

#[test]
fn phases_over_the_simulator() {
    for (seed, probing) in (0..).zip([Probing::Linear, Probing::Lines, Probing::Jump]) {
        phases(Over::Sim { seed }, config(probing, 64));
    }
}

#[test]
fn owners_with_other_parameters_are_told() {
    let right = config(Probing::Linear, 64);
    let wrong = [
        (WideConfig { entries_per_owner: 63, ..right }, "entries per owner"),
        (
            WideConfig { buckets: Config { max_chunks: 32, ..right.buckets }, ..right },
            "probe limit (C times M)",
        ),
    ];
    for (other, expected) in wrong {
        Over::Shm.run(
            sizes(&right),
            |transport: &mut dyn Transport, exchange: &mut dyn Exchange| {
                let is_other = exchange.me() == Owner(1);
                let mine = if is_other { other } else { right };
                let opened = WideTable::open(transport, mine, storage(), exchange).map(drop);
                let Err(OpenError::Collective(CollectiveError::Differs { owner, what, .. })) =
                    opened
                else {
                    panic!("{opened:?}")
                };
                assert_eq!((owner, what), (Owner(u32::from(!is_other)), expected));
            },
        );
    }
    // Keys of another width, and a narrow table in the same place.
    Over::Shm.run(sizes(&right), |transport: &mut dyn Transport, exchange: &mut dyn Exchange| {
        if exchange.me() == Owner(1) {
            let other = WideConfig::<2> { buckets: right.buckets, entries_per_owner: 64 };
            let opened = WideTable::open(transport, other, storage(), exchange).map(drop);
            assert!(matches!(opened, Err(OpenError::Collective(CollectiveError::Differs { .. }))));
        } else {
            let opened = WideTable::open(transport, right, storage(), exchange).map(drop);
            let Err(OpenError::Collective(CollectiveError::Differs { what, .. })) = opened else {
                panic!("{opened:?}")
            };
            assert_eq!(what, "words of a key");
        }
    });
}

/// An exchange whose reductions return late.
struct Late<'e>(&'e mut dyn Exchange);

impl Exchange for Late<'_> {
    fn me(&self) -> Owner {
        self.0.me()
    }

    fn owners(&self) -> u32 {
        self.0.owners()
    }

    fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), ExchangeError> {
        self.0.all_gather(mine, all)
    }

    fn all_to_all(&mut self, mine: &[u8], theirs: &mut [u8]) -> Result<(), ExchangeError> {
        self.0.all_to_all(mine, theirs)
    }

    fn reduce(&mut self, call: Call, terms: &mut [Term]) -> Result<(), ExchangeError> {
        let reduced = self.0.reduce(call, terms);
        thread::sleep(Duration::from_millis(50));
        reduced
    }
}

/// One owner alone must not use the direct path: others would not see the entries that its CPU
/// stores. An owner may already open its next table while another one leaves the last reduction.
#[test]
fn owners_use_the_direct_path_together_or_not_at_all() {
    let of = |direct| {
        let by_reads = config(Probing::Linear, 64);
        WideConfig { buckets: Config { direct, ..by_reads.buckets }, ..by_reads }
    };
    // What each owner's configuration allows, in one table after the other.
    let allowed = [[true; 3], [true, false, true], [true; 3], [false; 3]];
    Over::Shm.run(
        sizes(&of(true)),
        |transport: &mut dyn Transport, exchange: &mut dyn Exchange| {
            let me = exchange.me().0 as usize;
            let mut late = Late(exchange);
            for owners in allowed {
                let config = of(owners[me]);
                let exchange: &mut dyn Exchange = if me == 0 { &mut late } else { late.0 };
                let mut table =
                    WideTable::open(&mut *transport, config, storage(), exchange).unwrap();
                table.find(&key(1)).unwrap();
                assert_eq!(table.stats().total().lines > 0, owners == [true; 3], "owner {me}");
            }
        },
    );
}

#[test]
fn an_owner_that_cannot_open_does_not_block_the_others() {
    let right = config(Probing::Linear, 64);
    Over::Shm.run(sizes(&right), |transport: &mut dyn Transport, exchange: &mut dyn Exchange| {
        let is_wrong = exchange.me() == Owner(2);
        let entries_per_owner = if is_wrong { 0 } else { 64 };
        let mine = WideConfig { entries_per_owner, ..right };
        match WideTable::open(transport, mine, storage(), exchange).map(drop) {
            Err(OpenError::Config(ConfigError::Entries { found: 0, .. })) => assert!(is_wrong),
            Err(OpenError::Collective(CollectiveError::NotOpened { owner })) => {
                assert_eq!(owner, Owner(2));
            }
            opened => panic!("{opened:?}"),
        }
    });
}

#[test]
fn invalid_configurations_say_what_to_do() {
    let right = config(Probing::Linear, 64);
    let sizes = right.sizes(OPERATIONS);
    let refused = |config: WideConfig<3>| {
        let engine = probeline_shm::Builder::new(sizes).open(&mut Alone).unwrap();
        WideTable::new(engine, config, storage()).map(drop).unwrap_err().to_string()
    };
    let cases = [
        (WideConfig { entries_per_owner: 0, ..right }, "it must be at least 1"),
        (WideConfig { entries_per_owner: 80, ..right }, "open the engine with"),
        (WideConfig { entries_per_owner: 1 << 44, ..right }, "lower entries_per_owner"),
        (
            WideConfig {
                buckets: Config { one_roundtrip: OneRoundtrip::Auto, ..right.buckets },
                ..right
            },
            "one_roundtrip must be Off",
        ),
    ];
    for (config, expected) in cases {
        let message = refused(config);
        assert!(message.contains(expected), "{message}");
    }
    let engine = probeline_shm::Builder::new(sizes).open(&mut Alone).unwrap();
    let wide = WideConfig::<200> { buckets: right.buckets, entries_per_owner: 1 };
    let refused = WideTable::new(engine, wide, storage()).map(drop);
    assert_eq!(refused, Err(ConfigError::EntryWords { found: 200, most: sizes.slot_words }));
}
