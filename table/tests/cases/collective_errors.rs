//! Tests of collective calls with failing one-sided operations and with engines that have a defect: an
//! owner that fails keeps step with the others, and no word that cannot be read counts as empty.

use probeline_exchange::testing::{Access, AnyEngine, Watched};
use probeline_sim::{Cluster, Faults, Model, stage};
use probeline_table::{
    CollectiveError, Config, ConfigError, OperationError, Outcome, Probing, Table,
};
use probeline_transport::{Alone, AtomicScope, Exchange, Owner, PostError};

use crate::common::kinds::{self, NarrowKeys, Numbers, WideKeys};
use crate::common::storage;

const CONFIG: Config = Config { chunk_buckets: 8, max_chunks: 8, ..Config::paper(64) };

fn cluster(seed: u64, faults: Faults) -> Cluster {
    let config = probeline_sim::Config {
        owners: 3,
        window_words: WideKeys::<2>::config(CONFIG, 64).words(),
        seed,
        faults,
        model: Model::simple(1_000),
        ..probeline_sim::Config::default()
    };
    Cluster::new(config).unwrap()
}

#[test]
fn failed_retain_fails_all_owners() {
    for probing in [Probing::Linear, Probing::Lines, Probing::DoubleHash] {
        let buckets = Config { probing, ..CONFIG };
        let narrow = (0..100).map(|seed| keeps_step::<NarrowKeys>(seed, buckets)).sum::<usize>();
        let wide = (0..100).map(|seed| keeps_step::<WideKeys<2>>(seed, buckets)).sum::<usize>();
        for failed in [narrow, wide] {
            assert!(failed > 10, "{failed} failed with {probing:?}: nothing was tried");
        }
    }
}

/// Keys of each owner: enough for clusters that extend into the next owner's part.
const KEYS: u64 = 48;

/// Lets three owners remove the odd ones of their keys while operations fail. Returns the number of
/// owners that failed.
fn keeps_step<K: Numbers>(seed: u64, buckets: Config) -> usize {
    let faults = Faults { error_undone_ppm: 4_000, ..Faults::none() };
    let results = stage::run(&cluster(seed, faults), |engine, mut exchange| {
        let config = K::config(buckets, 64);
        let mut table =
            kinds::try_open::<_, K>(AnyEngine::new(engine), config, 2, &mut exchange).ok()?;
        let me = u64::from(exchange.me().0);
        (0..KEYS).try_for_each(|key| kinds::put(&mut table, 3 * key + me))?;
        exchange.barrier().ok()?;
        let removed = K::retain(&mut table, &mut exchange, |number| number % 2 == 0)?;
        // The owners are still in step: this matches the same call of the others, not one of their
        // barriers.
        let mut all = [9; 3];
        let told = exchange.all_gather(&[exchange.me().0.to_le_bytes()[0]], &mut all);
        assert!(told.is_err() || all == [0, 1, 2], "seed {seed}, {all:?}");
        Some((removed, told.is_ok()))
    })
    .unwrap();
    let results: Vec<_> = results.into_iter().flatten().collect();
    // An owner may fail at its very last READ, after all parts are done; then it alone returns an
    // error.
    for removed in results.iter().filter_map(|(end, _)| end.as_ref().ok()) {
        assert_eq!(*removed, 72, "seed {seed}");
    }
    if results.iter().any(|(end, _)| matches!(end, Err(CollectiveError::PartFailed { .. }))) {
        assert!(results.iter().all(|(end, _)| end.is_err()), "seed {seed}: {results:?}");
    }
    if results.len() == 3 {
        assert!(results.iter().all(|(_, told)| *told), "seed {seed}: out of step: {results:?}");
    }
    results.iter().filter(|(end, _)| end.is_err()).count()
}

const REFUSED: OperationError = OperationError::Post(PostError::Busy);

/// A word that could not be read must not count as 0, which is an empty bucket: keys would be lost.
#[test]
fn refused_slot_fails_collective_call() {
    // With `Lines` few keys leave their owner's part.
    for probing in [Probing::Linear, Probing::DoubleHash] {
        // The probe limit covers the ring.
        let config = Config { probing, max_chunks: 24, ..CONFIG };
        // Refuses each call of the collective operations in turn.
        let tried = (0..).take_while(|&nth| refuses(config, Access::Landed(nth))).count();
        assert!(tried >= 2, "{config:?}: {tried} refused");
    }
}

/// Lets owner 0 collect garbage and count while one of its calls is refused. Returns whether a call
/// was refused.
fn refuses(config: Config, refuse: Access) -> bool {
    let results = stage::run(&cluster(1, Faults::none()), |engine, mut exchange| {
        let engine = Watched::new(engine);
        let mut table = Table::open(engine, config, storage(4), &mut exchange).unwrap();
        let me = u64::from(exchange.me().0);
        // Enough keys for probe orders that extend into another owner's part.
        for key in 0..60 {
            assert_eq!(table.find_or_put(3 * key + me), Ok(Outcome::Inserted));
        }
        exchange.barrier().unwrap();
        table.transport_mut().unwrap().refuse = (exchange.me() == Owner(0)).then_some(refuse);
        let removed = table.retain(&mut exchange, |key| key % 2 == 0);
        let left = removed.and_then(|_| table.len(&mut exchange));
        (removed, left, table.transport().refused.get())
    })
    .unwrap();
    for (owner, (removed, left, refused)) in results.iter().enumerate() {
        let what = format!("{config:?}, {refuse:?}, owner {owner}: {results:?}");
        if *refused {
            assert_eq!(*left, Err(CollectiveError::from(REFUSED)), "{what}");
        }
        // The refused call may be an owner's last READ: then the other owners have completed their
        // parts.
        assert!(removed.is_err() || *removed == Ok(90), "{what}");
        assert!(left.is_err() || *left == Ok(90), "{what}");
    }
    results[0].2
}

/// The same for single operations: `landed` after a READ, `staged` when the CPU copies a chunk.
#[test]
fn refused_slot_fails_operation() {
    for (call, direct) in [(Access::Landed(0), false), (Access::Staged(0), true)] {
        let sim = probeline_sim::Config {
            window_words: CONFIG.words(),
            model: Model::simple(1_000),
            atomics: AtomicScope::Device,
            direct_access: probeline_sim::DirectAccess::Own,
            owners: 1,
            ..probeline_sim::Config::default()
        };
        let engine = Cluster::new(sim).unwrap().engine(Owner(0)).unwrap();
        let config = Config { direct, ..CONFIG };
        let mut table = Table::new(Watched::new(engine), config, storage(4)).unwrap();
        table.transport_mut().unwrap().refuse = Some(call);
        assert_eq!(table.find_or_put(5), Err(REFUSED), "{call:?}");
        assert!(table.transport().refused.get());
        assert_eq!(table.find_or_put(5), Ok(Outcome::Inserted));
        assert_eq!(table.find(5), Ok(true));
    }
}

/// Counting and clearing would skip the missing words.
#[test]
fn refuses_window_shorter_than_geometry() {
    let engine = || {
        let sim = probeline_sim::Config {
            owners: 1,
            window_words: CONFIG.words(),
            ..probeline_sim::Config::default()
        };
        Watched::new(Cluster::new(sim).unwrap().engine(Owner(0)).unwrap())
    };
    let mut short = engine();
    short.hidden_words = 1;
    let expected = CONFIG.words();
    let refused = Table::new(short, CONFIG, storage(4)).err();
    assert_eq!(refused, Some(ConfigError::ShortWindow { found: expected - 1, expected }));

    let mut table = Table::open(engine(), CONFIG, storage(4), &mut Alone).unwrap();
    table.transport_mut().unwrap().hidden_words = 1;
    let window = Err(CollectiveError::Operation(OperationError::Window));
    assert_eq!(table.len(&mut Alone), window);
    assert_eq!(table.retain(&mut Alone, |_| true), window);
    assert_eq!(table.clear(&mut Alone), window.map(drop));
}
