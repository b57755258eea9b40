//! Tests of the collective calls, over shared memory and on the simulator's stage.

mod common;

use core::time::Duration;
use std::collections::BTreeSet;
use std::thread;
use std::time::Instant;

use common::extensions::{Setup, probed, setups};
use common::job::{AnyTable, Over, Sizes, on_shm};
use common::{cache, content, home, own_words, storage};
use probeline_exchange::{Thread, threads};
use probeline_sim::{Cluster, Rng, stage};
use probeline_table::{
    ChunkChoice, CollectiveError, Config, ConfigError, Ended, Finished, Intent, Layout, MAX_KEY,
    OneRoundtrip, OpenError, Outcome, Probing, ReadAhead, ReadCost, Table, Tag,
};
use probeline_testing::OtherBuild;
use probeline_transport::{Exchange, ExchangeError, Owner, Pending, Splitter, Transport};
use proptest::prelude::*;

const CONFIG: Config =
    Config { first_word: 8, chunk_buckets: 16, max_chunks: 64, ..Config::paper(64) };
/// Upper limit of the time that a call with a failed or lost owner takes. It is half the time that
/// an exchange waits for a missing owner, and far more than a call takes on a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(30);
const BOTH: [Over; 2] = [Over::Shm, Over::Sim { seed: 1 }];

/// Opens and drops a table on one owner, and returns the result.
fn open<T: Transport>(
    engine: T,
    config: Config,
    operations: u32,
    mut exchange: impl Exchange,
) -> Result<(), OpenError> {
    Table::open(engine, config, storage(operations), &mut exchange).map(drop)
}

/// Opens a table on three owners, of which `odd` has another configuration, and returns their
/// results.
fn open_with(over: Over, odd: u32, theirs: Config, operations: u32) -> Vec<Result<(), OpenError>> {
    let sizes = Sizes { window_words: 128, ..Sizes::of(3, &CONFIG) };
    let config = |me| if me == Owner(odd) { (theirs, operations) } else { (CONFIG, 4) };
    match over {
        Over::Shm => on_shm(sizes, |engine, exchange| {
            let (config, operations) = config(exchange.me());
            open(engine, config, operations, exchange)
        }),
        Over::Sim { seed } => {
            stage::run(&Cluster::new(sizes.sim(seed)).unwrap(), |engine, exchange| {
                let (config, operations) = config(exchange.me());
                open(engine, config, operations, exchange)
            })
            .unwrap()
        }
    }
}

#[test]
fn the_same_table_is_opened_by_all() {
    for over in BOTH {
        assert_eq!(open_with(over, 1, CONFIG, 4), [Ok(()); 3]);
        // The probe limit must agree; C, M and the number of operations may differ.
        let steps = Config { chunk_buckets: 32, max_chunks: 32, ..CONFIG };
        assert_eq!(open_with(over, 1, steps, 1), [Ok(()); 3]);
        let options = Config {
            chunk_choice: ChunkChoice::Adaptive(ReadCost { base_ps: 1, bucket_ps: 1 }),
            read_ahead: ReadAhead::Never,
            one_roundtrip: OneRoundtrip::On,
            direct: true,
            ..steps
        };
        assert_eq!(open_with(over, 1, options, 1), [Ok(()); 3]);
    }
}

#[test]
fn all_owners_name_the_owner_that_differs() {
    for (what, theirs) in [
        ("buckets per owner", Config { buckets_per_owner: 56, ..CONFIG }),
        ("probe limit (C times M)", Config { chunk_buckets: 8, ..CONFIG }),
        ("probe limit (C times M)", Config { max_chunks: 63, ..CONFIG }),
        ("probe order (0 linear, 1 lines, 2 jump)", probed(CONFIG, Probing::Lines)),
        ("probe order (0 linear, 1 lines, 2 jump)", probed(CONFIG, Probing::Jump)),
        ("first word", Config { first_word: 16, ..CONFIG }),
    ] {
        for (over, odd) in BOTH.into_iter().flat_map(|over| [0, 1, 2].map(|odd| (over, odd))) {
            let begin = Instant::now();
            let results = open_with(over, odd, theirs, 4);
            for (me, end) in (0..).zip(&results) {
                let different = Owner(if me != odd { odd } else { u32::from(odd == 0) });
                let right = match end {
                    Err(OpenError::Collective(CollectiveError::Differs {
                        owner,
                        what: found,
                        ..
                    })) => (*owner, *found) == (different, what),
                    Err(OpenError::Collective(CollectiveError::NotOpened { owner })) => {
                        (*owner, "") == (different, what)
                    }
                    _ => false,
                };
                assert!(right, "{over:?}, {odd} has another {what}, owner {me}: {end:?}");
            }
            assert!(begin.elapsed() < TIME_LIMIT, "an owner waited for a lost owner");
        }
    }
}

#[test]
fn refuses_another_build() {
    let cluster = Cluster::new(Sizes::of(2, &CONFIG).sim(1)).unwrap();
    let engine = cluster.engine(Owner(0)).unwrap();
    let agreed = Table::new(engine, CONFIG, storage(4)).unwrap().agree(&mut OtherBuild::default());
    let Err(CollectiveError::Differs { owner, what, .. }) = agreed else { panic!("{agreed:?}") };
    assert_eq!(owner, Owner(1));
    assert!(what.contains("of the build"), "{what}");
}

#[test]
fn an_owner_with_an_invalid_table_does_not_block_the_others() {
    let odd_chunk = Config { chunk_buckets: 12, ..CONFIG };
    let chunk = ConfigError::ChunkBuckets { found: 12, most: 64 };
    let storage = ConfigError::Operations { found: 0, most: 4 };
    for (theirs, operations, error) in [(odd_chunk, 4, chunk), (CONFIG, 0, storage)] {
        for (over, odd) in BOTH.into_iter().flat_map(|over| [0, 1, 2].map(|odd| (over, odd))) {
            let begin = Instant::now();
            let results = open_with(over, odd, theirs, operations);
            for (me, end) in (0..).zip(&results) {
                let right = match end {
                    Err(OpenError::Config(found)) => me == odd && *found == error,
                    Err(OpenError::Collective(CollectiveError::NotOpened { owner })) => {
                        me != odd && *owner == Owner(odd)
                    }
                    _ => false,
                };
                assert!(right, "{over:?}, owner {me} of those with {odd} odd: {end:?}");
            }
            assert!(begin.elapsed() < TIME_LIMIT, "an owner waited for a lost owner");
        }
    }
}

#[test]
fn a_call_fails_if_an_owner_has_left() {
    for over in BOTH {
        let begin = Instant::now();
        let results = over.run(Sizes::of(3, &CONFIG), |engine, exchange| {
            let mut table = Table::open(engine, CONFIG, storage(2), exchange).unwrap();
            table.find_or_put(u64::from(exchange.me().0)).unwrap();
            assert_eq!(table.len(exchange), Ok(3));
            if exchange.me() == Owner(2) {
                return None;
            }
            Some(table.retain(exchange, |_| true))
        });
        assert!(matches!(results[..], [Some(Err(_)), Some(Err(_)), None]), "{results:?}");
        assert!(begin.elapsed() < TIME_LIMIT, "an owner waited for a lost owner");
    }
}

/// Owner 1 makes another call than the others, who count. Without the names of calls both succeed,
/// with a wrong number, and half of the table is cleared.
#[test]
fn all_owners_name_the_calls_that_differ() {
    let others: [(&str, Odd); 2] = [
        ("Table::clear (call", |table, exchange| of_call(table.clear(exchange))),
        ("barrier (call", |_, exchange| exchange.barrier().err()),
    ];
    for (over, (what, odd)) in BOTH.into_iter().flat_map(|over| others.map(|other| (over, other))) {
        let errors = over.run(Sizes::of(3, &CONFIG), |engine, exchange| {
            let table = Table::open(engine, CONFIG, storage(4), exchange).unwrap();
            let mut table = table.with_cache(cache(64));
            for key in 0..20 {
                table.find_or_put(key).unwrap();
            }
            match exchange.me() {
                Owner(1) => odd(&mut table, exchange),
                _ => of_call(table.len(exchange).map(drop)),
            }
        });
        for error in errors {
            let text = error.expect("an error on each owner").to_string();
            assert!(text.contains(&format!("owner 1 called {what}")), "{over:?}: {text}");
            assert!(text.contains("owner 0 called Table::len (call"), "{over:?}: {text}");
        }
    }
}

/// Two tables of the same sizes: the same call of the same name, on another table.
#[test]
fn a_call_of_another_table_differs() {
    let plan = [CONFIG.sizes(4), CONFIG.sizes(4)];
    let builder = probeline_shm::Builder::new(plan[0].plus(plan[1]));
    let run = |mut exchange: Thread| {
        let mut engine = builder.open(&mut exchange).unwrap();
        let mut pending = vec![Pending::EMPTY; plan[0].plus(plan[1]).depth as usize];
        let splitter = Splitter::new(&mut engine, plan, &mut pending).unwrap();
        let mut tables = splitter
            .channels()
            .unwrap()
            .map(|channel| Table::open(channel, CONFIG, storage(4), &mut exchange).unwrap());
        tables[exchange.me().0 as usize].len(&mut exchange).unwrap_err().to_string()
    };
    let texts: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> =
            threads(2).into_iter().map(|member| scope.spawn(|| run(member))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(texts[0], texts[1]);
    let count = |what| texts[0].matches(what).count();
    assert_eq!(
        (count("Table::len"), count("of the structure opened by call")),
        (2, 2),
        "{texts:?}"
    );
}

type Odd = fn(&mut AnyTable<'_>, &mut dyn Exchange) -> Option<ExchangeError>;

/// Returns the error of the exchange with which a call failed.
fn of_call(result: Result<(), CollectiveError>) -> Option<ExchangeError> {
    match result {
        Err(CollectiveError::Exchange(error)) => Some(error),
        _ => None,
    }
}

/// Operations in flight at the start of a call complete before its first effect, and are reported
/// after it.
#[test]
fn operations_in_flight_take_effect_and_are_reported() {
    let calls: [(Call, u64); 3] = [
        (|table, exchange| assert_eq!(table.len(exchange), Ok(12)), 12),
        (|table, exchange| table.clear(exchange).unwrap(), 0),
        (|table, exchange| assert_eq!(table.retain(exchange, |key| key < 5), Ok(7)), 5),
    ];
    for (over, (call, left)) in BOTH.into_iter().flat_map(|over| calls.map(|call| (over, call))) {
        over.run(Sizes::of(3, &CONFIG), |engine, exchange| {
            let table = Table::open(engine, CONFIG, storage(4), exchange).unwrap();
            let mut table = table.with_cache(cache(64));
            let me = u64::from(exchange.me().0);
            for tag in 0..4 {
                table.submit(Tag(tag), 4 * me + tag, Intent::FindOrPut).unwrap();
            }
            call(&mut table, exchange);
            assert_eq!(table.transport_mut().unwrap().in_flight(), 0);
            let mut out = [Finished::default(); 8];
            let ended = table.poll_into(&mut out).unwrap();
            assert!(ended.iter().all(|end| end.result == Ok(Ended::Inserted)));
            assert_eq!(ended.iter().map(|end| end.tag.0).collect::<BTreeSet<_>>().len(), 4);
            assert_eq!(table.len(exchange), Ok(left));
        });
    }
}

type Call = fn(&mut AnyTable<'_>, &mut dyn Exchange);

/// A second table on an engine must not receive completions of the first one.
#[test]
fn an_engine_is_returned_idle() {
    for over in BOTH {
        over.run(Sizes::of(2, &CONFIG), |engine, exchange| {
            let config = Config { chunk_buckets: 8, ..CONFIG };
            for round in 0..20 {
                let mut table = Table::open(&mut *engine, config, storage(4), exchange).unwrap();
                for tag in 0..4 {
                    table.submit(Tag(tag), 4 * round + tag, Intent::FindOrPut).unwrap();
                }
                let engine = table.into_transport();
                assert_eq!(engine.in_flight(), 0);
                exchange.barrier().unwrap();
            }
        });
    }
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
fn open_as<'e>(
    setups: &[Setup],
    engine: &'e mut dyn Transport,
    exchange: &mut dyn Exchange,
) -> AnyTable<'e> {
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

/// The part of one owner at several moments.
struct Moments {
    layout: Layout,
    parts: Vec<Vec<u64>>,
    inserted: u64,
}

impl Moments {
    /// Returns the whole table's content at the `nth` moment, and checks that each key is in the
    /// right place.
    fn content(all: &[Self], nth: usize) -> Result<BTreeSet<u64>, String> {
        let ring: Vec<u64> = all.iter().flat_map(|owner| owner.parts[nth].clone()).collect();
        content(&all[0].layout, &ring)
    }
}

/// Inserts this owner's share of `keys`. Returns the number of keys inserted.
fn put(table: &mut AnyTable<'_>, keys: &[u64]) -> u64 {
    let put = |&key: &u64| match table.find_or_put(key).unwrap() {
        Outcome::Inserted => 1,
        Outcome::Found => 0,
        outcome => panic!("{key} ended {outcome:?}"),
    };
    keys.iter().map(put).sum()
}

/// Finds all keys, so that a cache contains them.
fn see_all(table: &mut AnyTable<'_>, keys: &[u64]) {
    for &key in keys {
        assert_eq!(table.find(key), Ok(true));
    }
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

    #[test]
    fn len_load_factor_and_clear(
        setups in (1_u32..4).prop_flat_map(table_setups),
        over in over(),
        load in prop_oneof![Just(1.0), 0.0..1.0],
        seed: u64,
    ) {
        let (sizes, buckets) = sizes_of(&setups);
        let count = share_of(buckets, load);
        over.run(sizes, |engine, exchange| {
            let mut table = open_as(&setups, engine, exchange);
            let all = keys(table.layout(), Homes::Anywhere, count, seed);
            for _ in 0..2 {
                assert_eq!(table.len(exchange), Ok(0));
                assert_eq!(table.load_factor(exchange), Ok(0.0));
                let inserted = put(&mut table, &share(&all, exchange));
                assert_eq!(inserted, share(&all, exchange).len() as u64);
                assert_eq!(table.len(exchange), Ok(count as u64));
                let load = count as f64 / buckets as f64;
                assert_eq!(table.load_factor(exchange), Ok(load));
                see_all(&mut table, &all);
                table.clear(exchange).unwrap();
                assert_eq!(table.local().count(), 0);
                for &key in &all {
                    assert_eq!(table.find(key), Ok(false));
                }
            }
            exchange.barrier().unwrap();
        });
    }

    /// Collects garbage in rounds, at any load and with clusters across all borders. Kept keys can
    /// be found, removed keys cannot, and the table still works.
    #[test]
    fn retain_keeps_the_set_and_its_order(
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
        let moments = over.run(sizes, |engine, exchange| {
            let mut table = open_as(&setups, engine, exchange);
            let layout = *table.layout();
            let all = keys(&layout, homes, count, seed);
            let (mut parts, mut inserted) = (Vec::new(), 0);
            for round in 0..kept_ppm.len() {
                inserted += put(&mut table, &share(&all, exchange));
                assert_eq!(table.len(exchange), Ok(count as u64));
                see_all(&mut table, &all);
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
            Moments { layout, parts, inserted }
        });
        let layout = moments[0].layout;
        let all = keys(&layout, homes, count, seed);
        let mut inserted = count;
        for round in 0..kept_ppm.len() {
            let kept: BTreeSet<u64> = all.iter().copied().filter(|&key| keep(round, key)).collect();
            inserted += count - kept.len();
            prop_assert_eq!(Moments::content(&moments, round), Ok(kept));
        }
        prop_assert_eq!(Moments::content(&moments, kept_ppm.len()), Ok(all.into_iter().collect()));
        prop_assert_eq!(moments.iter().map(|owner| owner.inserted).sum::<u64>(), inserted as u64);
    }
}
