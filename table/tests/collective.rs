//! Tests of the collective calls, over shared memory and on the simulator's stage.

use core::cell::RefCell;
use std::collections::BTreeSet;

use crate::common::account::End;
use crate::common::extensions::probed;
use crate::common::job::{Over, SLOT_WORDS};
use crate::common::kinds::{self, FORMS, NarrowKeys, Numbered, Numbers, TreeKeys, WideKeys};
use probeline_exchange::testing::{AnyEngine, OtherBuild, gather};
use probeline_pipeline::Structure;
use probeline_pipeline::model::run_futures;
use probeline_sim::{Cluster, Rng};
use probeline_table::{
    ChunkChoice, CollectiveError, Config, Ended, Finished, Intent, OneRoundtrip, Probing,
    ReadAhead, ReadCost, Tag, TreeConfig,
};
use probeline_transport::{Exchange, Owner, Sizes};

const CONFIG: Config =
    Config { first_word: 8, chunk_buckets: 16, max_chunks: 64, ..Config::paper(64) };
const BOTH: [Over; 2] = [Over::Shm, Over::Sim { seed: 1 }];

/// Owners of the cases that do not draw their number.
const OWNERS: u32 = 3;
const OPERATIONS: u32 = 4;
/// The number of a key that no owner inserts.
const ABSENT: u64 = 1 << 11;

/// Returns sizes of engines for tables of any kind with these words.
fn sizes(window_words: u64) -> Sizes {
    // The slots of a narrow operation are half of those of a wide one.
    let slots = Config::slots(2 * OPERATIONS);
    Sizes::new(window_words).with_slots(slots, SLOT_WORDS).with_depth(4 * OPERATIONS)
}

/// Opens a table on three owners, of which owner 1 has other parameters, and returns their errors.
fn open_with<K: Numbers>(over: Over, mine: K::Config, theirs: K::Config) -> Vec<Error> {
    let window_words = [mine, theirs].map(|of| K::sizes(&of, OPERATIONS).window_words);
    over.run(OWNERS, sizes(window_words[0].max(window_words[1])), |engine, exchange| {
        let config = if exchange.me() == Owner(1) { theirs } else { mine };
        kinds::try_open::<_, K>(engine, config, OPERATIONS, exchange).err()
    })
}

type Error = Option<CollectiveError>;

#[test]
fn opens_same_table() {
    for over in BOTH {
        // The probe limit must agree; C, M and the ways of searching may differ.
        let steps = Config { chunk_buckets: 32, max_chunks: 32, ..CONFIG };
        let options = Config {
            chunk_choice: ChunkChoice::Adaptive(ReadCost { base_ps: 1, bucket_ps: 1 }),
            read_ahead: ReadAhead::Never,
            one_roundtrip: OneRoundtrip::On,
            direct: true,
            ..steps
        };
        for theirs in [CONFIG, steps, options] {
            assert_eq!(open_with::<NarrowKeys>(over, CONFIG, theirs), [None; 3]);
        }
    }
}

/// Asserts that all owners name the parameter that differs.
fn names<K: Numbers>(expected: &str, mine: K::Config, theirs: K::Config) {
    for error in open_with::<K>(Over::Shm, mine, theirs) {
        let Some(CollectiveError::Differs { what, .. }) = error else { panic!("{error:?}") };
        assert_eq!(what, expected);
    }
}

#[test]
fn names_differing_parameter() {
    let order = "probe order (0 linear, 1 lines, 2 double-hash)";
    for (what, theirs) in [
        ("buckets per owner", Config { buckets_per_owner: 56, ..CONFIG }),
        ("probe limit (C times M)", Config { chunk_buckets: 8, ..CONFIG }),
        ("probe limit (C times M)", Config { max_chunks: 63, ..CONFIG }),
        (order, probed(CONFIG, Probing::Lines)),
        (order, probed(CONFIG, Probing::DoubleHash)),
        ("first word", Config { first_word: 16, ..CONFIG }),
    ] {
        names::<NarrowKeys>(what, CONFIG, theirs);
    }
    let wide = |buckets, entries| WideKeys::<3>::config(buckets, entries);
    names::<WideKeys<3>>("entries per owner", wide(CONFIG, 64), wide(CONFIG, 63));
    let limit = Config { max_chunks: 32, ..CONFIG };
    names::<WideKeys<3>>("probe limit (C times M)", wide(CONFIG, 64), wide(limit, 64));
    let tree = TreeKeys::<2>::config(CONFIG, 0);
    names::<TreeKeys<2>>("bits of a key", tree, TreeConfig { key_bits: 100, ..tree });
    // Keys of another width.
    let errors = Over::Shm.run(OWNERS, sizes(1_000), |engine, exchange| match exchange.me() {
        Owner(1) => {
            let config = WideKeys::<2>::config(CONFIG, 64);
            kinds::try_open::<_, WideKeys<2>>(engine, config, OPERATIONS, exchange).err()
        }
        _ => {
            let config = wide(CONFIG, 64);
            kinds::try_open::<_, WideKeys<3>>(engine, config, OPERATIONS, exchange).err()
        }
    });
    for error in errors {
        let text = error.unwrap().to_string();
        assert!(text.contains("words of a key"), "{text}");
    }
}

#[test]
fn refuses_another_build() {
    fn refuses<K: Numbers>() {
        let config = K::config(Config::paper(64), 64);
        let window_words = K::sizes(&config, OPERATIONS).window_words;
        let config_of_two = probeline_sim::Config::new(2, sizes(window_words));
        let cluster = Cluster::new(config_of_two).unwrap();
        let engine = AnyEngine::new(cluster.engine(Owner(0)).unwrap());
        let mut table = kinds::new::<_, K>(engine, config, OPERATIONS, 0);
        let agreed = table.agree(&mut OtherBuild::default());
        let Err(CollectiveError::Differs { owner, what, .. }) = agreed else {
            panic!("{agreed:?}")
        };
        assert_eq!(owner, Owner(1));
        assert!(what.contains("of the build"), "{what}");
    }
    refuses::<NarrowKeys>();
    refuses::<WideKeys<3>>();
    refuses::<TreeKeys<3>>();
}

/// Owners insert the same keys at once, remove some, insert again and clear; after each phase the
/// table holds the right keys. `room` keys fill the empty table.
fn phases<K: Numbers>(over: Over, config: K::Config, numbers: u64, room: Option<u64>) {
    let window_words = K::sizes(&config, OPERATIONS).window_words;
    over.run(OWNERS, sizes(window_words), |engine, exchange| {
        let mut table = kinds::open::<_, K>(engine, config, OPERATIONS, exchange);
        let me = u64::from(exchange.me().0);
        let mut expected = BTreeSet::new();
        for round in 0..4_u64 {
            // All owners insert all keys, each in another order.
            let numbers = (0..numbers).map(|nth| (nth + 40 * me) % numbers + 4 * round);
            let keys: Vec<K::Key> = numbers.clone().map(|n| K::key(&config, n)).collect();
            let form = u8::try_from(round).unwrap();
            let ends = if form < FORMS {
                kinds::run_in_form(&mut table, &keys, form, Intent::FindOrPut)
            } else {
                let shared = RefCell::new(table);
                let all: Vec<_> = keys.iter().map(|key| (*key, Intent::FindOrPut)).collect();
                let ends = run_futures(&shared, &all);
                table = shared.into_inner();
                ends
            };
            let right = |end: &End| matches!(end, Ok(Ended::Found | Ended::Inserted));
            assert!(ends.iter().all(right), "round {round}: {ends:?}");
            let inserted = ends.iter().filter(|end| **end == Ok(Ended::Inserted)).count() as u64;
            let before = expected.len() as u64;
            expected.extend(numbers);
            let new = expected.len() as u64 - before;
            assert_eq!(gather(exchange, inserted).iter().sum::<u64>(), new, "round {round}");
            check(&mut table, exchange, &expected);

            // Most, none, nearly all, and half.
            let kept = [20, 0, 29, 15][usize::try_from(round).unwrap()];
            let keep = |number| Rng::new(number, round).below(30) < kept;
            if let Some(removed) = K::retain(&mut table, exchange, keep) {
                let before = expected.clone();
                expected.retain(|&number| keep(number));
                assert_eq!(removed, Ok((before.len() - expected.len()) as u64));
                check(&mut table, exchange, &expected);
                for number in before {
                    let found = kinds::find(&mut table, number);
                    assert_eq!(found, Some(keep(number)), "{number}");
                }
                exchange.barrier().unwrap();
            }
        }
        // Operations in flight complete before the call, which forgets what caches know, and the entries
        // that clients hold.
        table.transport_mut().unwrap();
        for number in me * 4..me * 4 + 4 {
            let key = K::key(&config, number);
            Structure::submit(&mut table, Tag(number), &key, Intent::Find).unwrap();
        }
        table.clear(exchange).unwrap();
        let mut out = [Finished::default(); 8];
        let ended = table.poll_into(&mut out).unwrap().iter().map(|end| end.tag.0);
        assert_eq!(ended.collect::<BTreeSet<_>>(), (me * 4..me * 4 + 4).collect());
        assert_eq!(table.occupied(exchange), Ok(0));
        check(&mut table, exchange, &BTreeSet::new());
        assert!((0..numbers).all(|number| kinds::find(&mut table, number) == Some(false)));
        exchange.barrier().unwrap();
        if let Some(room) = room.filter(|_| me == 0) {
            (0..room).for_each(|number| kinds::put(&mut table, number).unwrap());
            let full = table.call(&K::key(&config, ABSENT), Intent::FindOrPut);
            assert_eq!(full, Ok(Ended::Full));
        }
        exchange.barrier().unwrap();
    });
}

fn check<K: Numbers>(
    table: &mut AnyTable<K>,
    exchange: &mut dyn Exchange,
    expected: &BTreeSet<u64>,
) {
    assert_eq!(table.len(exchange), Ok(expected.len() as u64));
    let buckets = table.layout().buckets();
    let load_factor = table.occupied(exchange).unwrap() as f64 / buckets as f64;
    assert_eq!(table.load_factor(exchange), Ok(load_factor));
    let local = kinds::part(table).unwrap();
    assert!(local.iter().all(|number| expected.contains(number)));
    let count = gather(exchange, local.len() as u64).iter().sum::<u64>();
    let sum = gather(exchange, local.iter().sum()).iter().sum::<u64>();
    assert_eq!((count, sum), (expected.len() as u64, expected.iter().sum()));
    for &number in expected {
        assert_eq!(kinds::find(table, number), Some(true), "{number}");
    }
    assert_eq!(kinds::find(table, ABSENT), Some(false));
    exchange.barrier().unwrap();
}

#[test]
fn holds_expected_keys_after_phases() {
    for probing in [Probing::Linear, Probing::Lines, Probing::DoubleHash] {
        for (over, direct) in [(Over::Shm, false), (Over::Shm, true), (BOTH[1], false)] {
            let buckets = |count| Config {
                chunk_buckets: 8,
                max_chunks: 64,
                probing,
                direct,
                ..Config::paper(count)
            };
            // Four fifths full, and full but for the last keys.
            for numbers in [150, 180] {
                phases::<NarrowKeys>(over, NarrowKeys::config(buckets(64), 0), numbers, None);
            }
            // One line for each owner: every probe order crosses the borders.
            phases::<NarrowKeys>(over, NarrowKeys::config(buckets(8), 0), 12, None);
            // Fewer entries than buckets, so that the last keys of a round need others' entries.
            let wide = WideKeys::<3>::config(buckets(64), 58);
            phases::<WideKeys<3>>(over, wide, 120, Some(58 * u64::from(OWNERS)));
            phases::<TreeKeys<4>>(over, TreeKeys::<4>::config(buckets(512), 0), 120, None);
            phases::<WideKeys<1>>(over, WideKeys::<1>::config(buckets(64), 58), 120, None);
            phases::<WideKeys<16>>(over, WideKeys::<16>::config(buckets(64), 58), 120, None);
            let tree = |key_bits| TreeConfig { buckets: buckets(512), key_bits };
            for key_bits in [12, 63, 64] {
                phases::<TreeKeys<1>>(over, tree(key_bits), 120, None);
            }
            phases::<TreeKeys<2>>(over, tree(100), 120, None);
            phases::<TreeKeys<16>>(over, tree(1_024), 120, None);
        }
    }
}

type AnyTable<K> = Numbered<AnyEngine<'static>, K>;

/// One owner alone must not use the direct path of wide keys: others would not see the entries that
/// its CPU stores.
#[test]
fn owners_agree_on_direct_path() {
    let config = |direct| WideKeys::<3>::config(Config { direct, ..CONFIG }, 64);
    // What each owner's configuration allows, in one table after the other.
    let allowed = [[true; 3], [true, false, true], [true; 3], [false; 3]];
    Over::Shm.run(OWNERS, sizes(config(true).words() + 8), |mut engine, exchange| {
        let me = exchange.me().0 as usize;
        for owners in allowed {
            let config = config(owners[me]);
            let mut table = kinds::open::<_, WideKeys<3>>(
                AnyEngine::new(&mut engine),
                config,
                OPERATIONS,
                exchange,
            );
            kinds::find(&mut table, 1).unwrap();
            assert_eq!(table.stats().total().lines > 0, owners == [true; 3], "owner {me}");
        }
    });
}
