//! Tests of the collective calls, over shared memory and on the simulator's stage.

use core::time::Duration;
use std::collections::BTreeSet;
use std::thread;

use crate::common::extensions::{Setup, probed, setups};
use crate::common::job::{self, Over, Sizes};
use crate::common::kinds::{self, NarrowKeys, Numbered, Numbers, TreeKeys, WideKeys};
use crate::common::{cache, content, home, own_words, storage};
use probeline_exchange::testing::{AnyEngine, OtherBuild, gather};
use probeline_pipeline::Structure;
use probeline_sim::{Cluster, Rng};
use probeline_table::{
    ChunkChoice, CollectiveError, Config, Ended, Finished, Intent, Layout, MAX_KEY, OneRoundtrip,
    Outcome, Probing, ReadAhead, ReadCost, Table, Tag, TreeConfig,
};
use probeline_transport::{Call, Exchange, ExchangeError, Owner, Term};
use proptest::prelude::*;

const CONFIG: Config =
    Config { first_word: 8, chunk_buckets: 16, max_chunks: 64, ..Config::paper(64) };
const BOTH: [Over; 2] = [Over::Shm, Over::Sim { seed: 1 }];

/// Owners of the cases that do not draw their number.
const OWNERS: u32 = 3;
const OPERATIONS: u32 = 4;

/// Returns sizes of engines for tables of any kind with these words.
fn sizes(window_words: u64) -> Sizes {
    // The slots of an operation here are half of those of a wide one.
    Sizes { owners: OWNERS, window_words, operations: 2 * OPERATIONS, depth: 4 * OPERATIONS }
}

/// Opens a table on three owners, of which `odd` has other parameters, and returns their errors.
fn open_with<K: Numbers>(over: Over, odd: u32, mine: K::Config, theirs: K::Config) -> Vec<Error> {
    let window_words = [mine, theirs].map(|of| K::sizes(&of, OPERATIONS).window_words);
    over.run(sizes(window_words[0].max(window_words[1])), |engine, exchange| {
        let config = if exchange.me() == Owner(odd) { theirs } else { mine };
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
            assert_eq!(open_with::<NarrowKeys>(over, 1, CONFIG, theirs), [None; 3]);
        }
    }
}

/// Asserts that all owners name the first one that differs, and `what` differs.
fn names<K: Numbers>(what: &str, mine: K::Config, theirs: K::Config) {
    for odd in 0..OWNERS {
        let errors = open_with::<K>(Over::Shm, odd, mine, theirs);
        for (me, error) in (0..).zip(errors) {
            let different = Owner(if me != odd { odd } else { u32::from(odd == 0) });
            let Some(CollectiveError::Differs { owner, what: found, .. }) = error else {
                panic!("{error:?}")
            };
            assert_eq!((owner, found), (different, what), "{odd} is odd, owner {me}");
        }
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
    let errors = Over::Shm.run(sizes(1_000), |engine, exchange| match exchange.me() {
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
        let cluster = Cluster::new(Sizes { owners: 2, ..sizes(window_words) }.sim(1)).unwrap();
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
fn phases<K: Numbers>(over: Over, config: K::Config, room: Option<u64>) {
    const KEYS: u64 = 120;
    let window_words = K::sizes(&config, OPERATIONS).window_words;
    over.run(sizes(window_words), |engine, exchange| {
        let mut table = kinds::open::<_, K>(engine, config, OPERATIONS, exchange);
        let me = u64::from(exchange.me().0);
        let mut expected = BTreeSet::new();
        for round in 0..4_u64 {
            // All owners insert all keys, each in another order.
            let numbers = (0..KEYS).map(|nth| (nth + 40 * me) % KEYS + 10 * round);
            let keys: Vec<K::Key> = numbers.clone().map(|n| K::key(&config, n)).collect();
            let mut results = vec![Outcome::Full; keys.len()];
            table.find_or_put_batch(&keys, &mut results).unwrap();
            assert!(!results.contains(&Outcome::Full), "round {round}");
            let inserted = results.iter().filter(|end| **end == Outcome::Inserted).count() as u64;
            let before = expected.len() as u64;
            expected.extend(numbers);
            let new = expected.len() as u64 - before;
            assert_eq!(gather(exchange, inserted).iter().sum::<u64>(), new, "round {round}");
            check(&mut table, exchange, &expected);

            let keep = |number| Rng::new(number, round).below(3) > 0;
            if let Some(removed) = K::retain(&mut table, exchange, keep) {
                let before = expected.len();
                expected.retain(|&number| keep(number));
                assert_eq!(removed, Ok((before - expected.len()) as u64));
                check(&mut table, exchange, &expected);
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
        assert!((0..KEYS).all(|number| kinds::find(&mut table, number) == Some(false)));
        exchange.barrier().unwrap();
        if let Some(room) = room.filter(|_| me == 0) {
            (0..room).for_each(|number| kinds::put(&mut table, number).unwrap());
            let full = table.call(&K::key(&config, 1 << 15), Intent::FindOrPut);
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
    assert_eq!(kinds::find(table, 1 << 15), Some(false));
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
            phases::<NarrowKeys>(over, NarrowKeys::config(buckets(64), 0), None);
            // Fewer entries than buckets, so that the last keys of a round need others' entries.
            let wide = WideKeys::<3>::config(buckets(64), 58);
            phases::<WideKeys<3>>(over, wide, Some(58 * u64::from(OWNERS)));
            phases::<TreeKeys<4>>(over, TreeKeys::<4>::config(buckets(512), 0), None);
        }
    }
}

type AnyTable<K> = Numbered<AnyEngine<'static>, K>;

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

    fn reduce(&mut self, call: Call, terms: &mut [Term]) -> Result<(), ExchangeError> {
        let reduced = self.0.reduce(call, terms);
        thread::sleep(Duration::from_millis(50));
        reduced
    }
}

/// One owner alone must not use the direct path of wide keys: others would not see the entries that
/// its CPU stores. An owner may already open its next table while another one leaves the last
/// reduction.
#[test]
fn owners_agree_on_direct_path() {
    let config = |direct| WideKeys::<3>::config(Config { direct, ..CONFIG }, 64);
    // What each owner's configuration allows, in one table after the other.
    let allowed = [[true; 3], [true, false, true], [true; 3], [false; 3]];
    Over::Shm.run(sizes(config(true).words() + 8), |mut engine, exchange| {
        let me = exchange.me().0 as usize;
        let mut late = Late(exchange);
        for owners in allowed {
            let exchange: &mut dyn Exchange = if me == 0 { &mut late } else { late.0 };
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

fn random_key(rng: &mut Rng) -> u64 {
    rng.bits() & MAX_KEY
}

fn table_setups(owners: u32) -> impl Strategy<Value = Vec<Setup>> {
    (1_u64..9, 1_u32..9, 0_u64..2, any::<u64>()).prop_map(move |(part, chunk, first, seed)| {
        let sizes = Config {
            first_word: 8 * first,
            chunk_buckets: 8 * chunk.min(u32::try_from(part).unwrap()),
            // The probe limit covers the whole ring.
            max_chunks: 64,
            ..Config::paper(8 * part)
        };
        setups(seed, owners, sizes)
    })
}

/// Opens this owner's table together with all others.
fn open_as(
    setups: &[Setup],
    engine: AnyEngine<'static>,
    exchange: &mut dyn Exchange,
) -> job::AnyTable {
    let Setup { config, cache_entries } = setups[exchange.me().0 as usize];
    let table = Table::open(engine, config, storage(4), exchange).unwrap();
    table.with_cache(cache(cache_entries))
}

fn over() -> impl Strategy<Value = Over> {
    prop_oneof![Just(Over::Shm), any::<u64>().prop_map(|seed| Over::Sim { seed })]
}

/// The placement of the homes of a table's keys.
#[derive(Clone, Copy, Debug)]
enum Homes {
    Anywhere,
    /// At most this number of buckets before the border between two owners or the end of the ring.
    BeforeBorders(usize),
    /// All in the part of one owner, which fills up first.
    With(Owner),
}

/// Returns `count` different keys, the same on all owners.
fn keys(layout: &Layout, homes: Homes, count: usize, seed: u64) -> Vec<u64> {
    let part = usize::try_from(layout.buckets_per_owner()).unwrap();
    let (mut rng, mut all) = (Rng::new(seed, 1), BTreeSet::new());
    while all.len() < count {
        let key = random_key(&mut rng);
        let home = home(layout, key);
        let fits = match homes {
            Homes::Anywhere => true,
            Homes::BeforeBorders(buckets) => part - home % part <= buckets,
            Homes::With(Owner(owner)) => home / part == owner as usize % layout.owners() as usize,
        };
        if fits {
            all.insert(key);
        }
    }
    all.into_iter().collect()
}

/// Converts a load factor to a number of buckets.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn share_of(buckets: u64, load: f64) -> usize {
    (buckets as f64 * load) as usize
}

/// Inserts this owner's share of `keys`. Returns the number of keys inserted.
fn put(table: &mut job::AnyTable, keys: &[u64]) -> u64 {
    let put = |&key: &u64| match table.find_or_put(key).unwrap() {
        Outcome::Inserted => 1,
        Outcome::Found => 0,
        outcome => panic!("{key} ended {outcome:?}"),
    };
    keys.iter().map(put).sum()
}

/// Returns the sizes of the engines for these tables, and the number of buckets of all owners.
fn sizes_of(setups: &[Setup]) -> (Sizes, u64) {
    let (owners, config) = (u32::try_from(setups.len()).unwrap(), setups[0].config);
    (Sizes::of(owners, &config), config.buckets_per_owner * u64::from(owners))
}

fn share(keys: &[u64], exchange: &dyn Exchange) -> Vec<u64> {
    let (me, owners) = (exchange.me().0 as usize, exchange.owners() as usize);
    keys.iter().copied().skip(me).step_by(owners).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    /// Collects garbage in rounds, at any load and with clusters across all borders. Kept keys can
    /// be found, removed keys cannot, and the table still works.
    #[test]
    fn retain_keeps_set_and_order(
        setups in (1_u32..4).prop_flat_map(table_setups),
        over in over(),
        load in prop_oneof![Just(0.3), Just(0.9), Just(1.0), 0.0..1.0],
        homes in prop_oneof![
            Just(Homes::Anywhere),
            (1_usize..6).prop_map(Homes::BeforeBorders),
            (0_u32..3).prop_map(|owner| Homes::With(Owner(owner))),
        ],
        kept_ppm in prop::collection::vec(
            prop_oneof![Just(0), Just(1_000_000), Just(990_000), 0_u32..1_000_000], 1..4,
        ),
        seed: u64,
    ) {
        let (sizes, buckets) = sizes_of(&setups);
        let count = share_of(buckets, load);
        let keep = |round: usize, key: u64| {
            Rng::new(key, seed ^ round as u64).chance(kept_ppm[round])
        };
        let owners = over.run(sizes, |engine, exchange| {
            let mut table = open_as(&setups, engine, exchange);
            let layout = *table.layout();
            let all = keys(&layout, homes, count, seed);
            let (mut parts, mut inserted) = (Vec::new(), 0);
            for round in 0..kept_ppm.len() {
                inserted += put(&mut table, &share(&all, exchange));
                assert_eq!(table.len(exchange), Ok(count as u64));
                // A cache then contains them.
                assert!(all.iter().all(|&key| table.find(key) == Ok(true)));
                let removed = table.retain(exchange, |key| keep(round, key)).unwrap();
                parts.push(own_words(&table));
                exchange.barrier().unwrap();
                let kept = all.iter().filter(|&&key| keep(round, key)).count() as u64;
                assert_eq!(removed, count as u64 - kept);
                assert_eq!(table.len(exchange), Ok(kept));
                for &key in &all {
                    assert_eq!(table.find(key), Ok(keep(round, key)));
                }
                exchange.barrier().unwrap();
            }
            // All owners insert all keys: exactly one of them inserts each missing key.
            inserted += put(&mut table, &all);
            exchange.barrier().unwrap();
            parts.push(own_words(&table));
            (layout, parts, inserted)
        });
        let layout = owners[0].0;
        // The content after each round: each key is in the right place.
        let content_after = |round: usize| {
            let parts = owners.iter().flat_map(|(_, parts, _)| parts[round].clone());
            content(&layout, &parts.collect::<Vec<_>>())
        };
        let all = keys(&layout, homes, count, seed);
        let mut inserted = count;
        for round in 0..kept_ppm.len() {
            let kept: BTreeSet<u64> = all.iter().copied().filter(|&key| keep(round, key)).collect();
            inserted += count - kept.len();
            prop_assert_eq!(content_after(round), Ok(kept));
        }
        prop_assert_eq!(content_after(kept_ppm.len()), Ok(all.into_iter().collect()));
        prop_assert_eq!(owners.iter().map(|(.., inserted)| inserted).sum::<u64>(), inserted as u64);
    }
}
