//! Collective calls while one-sided operations fail: an owner that fails keeps step with the
//! others, so that a later count is right or an error, and a lost owner is named.

use sim::{Cluster, Faults, Model, stage};
use table::{CollectiveError, Config, Operation, OperationError, Outcome, Probing, Table};
use transport::{Exchange, ExchangeError, Fault, Owner};

const CONFIG: Config = Config { chunk_buckets: 8, max_chunks: 8, ..Config::paper(64) };
const ROUNDS: u64 = 24;

fn cluster(seed: u64, faults: Faults) -> Cluster {
    let config = sim::Config {
        owners: 3,
        window_words: CONFIG.words(),
        seed,
        faults,
        model: Model::simple(1_000),
        ..sim::Config::default()
    };
    Cluster::new(config).unwrap()
}

fn storage() -> [Operation; 4] {
    [const { Operation::EMPTY }; 4]
}

/// Repeats what failed, which was not done; `None` once the transport is dead.
fn insert(table: &mut Table<sim::Engine, [Operation; 4]>, data: u64) -> Option<()> {
    loop {
        match table.find_or_put(data) {
            Ok(outcome) => return (outcome != Outcome::Full).then_some(()),
            Err(OperationError::Failed(_)) => {}
            Err(_) => return None,
        }
    }
}

#[test]
fn a_count_is_right_or_an_error() {
    let (mut right, mut errors) = (0, 0);
    for seed in 0..100 {
        let faults = Faults { error_undone_ppm: 4_000, ..Faults::none() };
        let counts = stage::run(&cluster(seed, faults), |engine, mut exchange| {
            let mut table = Table::open(engine, CONFIG, storage(), &mut exchange).ok()?;
            let me = u64::from(exchange.me().0);
            let mut counts = Vec::new();
            for round in 0..ROUNDS {
                insert(&mut table, 3 * round + me)?;
                counts.push(match table.len(&mut exchange) {
                    Ok(len) => Some(len),
                    Err(CollectiveError::Operation(OperationError::Failed(_)))
                    | Err(CollectiveError::PartFailed { .. }) => None,
                    // Another owner could not even open its table.
                    Err(_) => return None,
                });
            }
            Some(counts)
        })
        .unwrap();
        for of_owner in counts.into_iter().flatten() {
            for (round, len) in (0..).zip(of_owner) {
                match len {
                    Some(len) => assert_eq!(len, 3 * (round + 1), "seed {seed}, round {round}"),
                    None => errors += 1,
                }
                right += u32::from(len.is_some());
            }
        }
    }
    assert!(right > 1_000 && errors > 10, "{right} right, {errors} errors: nothing was tried");
}

#[test]
fn retain_that_failed_on_one_owner_is_an_error_on_all() {
    for probing in [Probing::Linear, Probing::Lines, Probing::Jump] {
        let mut failed = 0;
        for seed in 0..100 {
            failed += retains(seed, Config { probing, ..CONFIG });
        }
        assert!(failed > 10, "{failed} failed with {probing:?}: nothing was tried");
    }
}

/// How many owners failed.
fn retains(seed: u64, config: Config) -> usize {
    let faults = Faults { error_undone_ppm: 4_000, ..Faults::none() };
    let ends = stage::run(&cluster(seed, faults), |engine, mut exchange| {
        let mut table = Table::open(engine, config, storage(), &mut exchange).ok()?;
        let me = u64::from(exchange.me().0);
        // Full enough for clusters that reach into the next owner's part.
        for data in 0..48 {
            insert(&mut table, 3 * data + me)?;
        }
        exchange.barrier().ok()?;
        let removed = table.retain(&mut exchange, |data| data % 2 == 0);
        // In step all the same: this meets the same call of the others, no barrier of theirs.
        let mut all = [9; 3];
        let told = exchange.all_gather(&[exchange.me().0.to_le_bytes()[0]], &mut all);
        assert!(told.is_err() || all == [0, 1, 2], "seed {seed}, {all:?}");
        Some((removed, told.is_ok()))
    })
    .unwrap();
    let ends: Vec<_> = ends.into_iter().flatten().collect();
    // An owner may fail at the very last READ, when all parts are done; then it alone errs.
    for removed in ends.iter().filter_map(|(end, _)| end.as_ref().ok()) {
        assert_eq!(*removed, 72, "seed {seed}");
    }
    if ends.iter().any(|(end, _)| matches!(end, Err(CollectiveError::PartFailed { .. }))) {
        assert!(ends.iter().all(|(end, _)| end.is_err()), "seed {seed}: {ends:?}");
    }
    if ends.len() == 3 {
        assert!(
            ends.iter().all(|(_, told)| *told),
            "{config:?}, seed {seed}: out of step: {ends:?}"
        );
    }
    ends.iter().filter(|(end, _)| end.is_err()).count()
}

#[test]
fn a_lost_owner_is_named_by_the_call() {
    let named = stage::run(&cluster(1, Faults::none()), |engine, mut exchange| {
        let mut table = Table::open(engine, CONFIG, storage(), &mut exchange).unwrap();
        if exchange.me() == Owner(2) {
            return true;
        }
        let lost = Owner(2);
        match table.len(&mut exchange) {
            Err(CollectiveError::Exchange(error)) => error == ExchangeError::OwnerLost(lost),
            Err(CollectiveError::Operation(OperationError::Fault(fault))) => {
                fault == Fault::OwnerLost(lost)
            }
            other => panic!("{other:?}"),
        }
    })
    .unwrap();
    assert_eq!(named, [true; 3]);
}

/// An owner whose second table is impossible must not be taken for one that has the first still.
#[test]
fn an_earlier_tables_header_is_not_taken_for_this_ones() {
    let ends = stage::run(&cluster(1, Faults::none()), |engine, mut exchange| {
        let table = Table::open(engine, CONFIG, storage(), &mut exchange).unwrap();
        let bad = Config { chunk_buckets: 12, ..CONFIG };
        let config = if exchange.me() == Owner(1) { bad } else { CONFIG };
        let again = Table::open(table.into_transport(), config, storage(), &mut exchange);
        let refused = again.is_err();
        exchange.barrier().unwrap();
        refused
    })
    .unwrap();
    assert_eq!(ends, [true; 3]);
}
