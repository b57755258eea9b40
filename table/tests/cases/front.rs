//! Calls that tables have beside those of every structure: positions, own keys, and typed futures.

use probeline_exchange::testing::Watched;
use probeline_pipeline::model::ready;
use probeline_shm::Builder;
use probeline_sim::Cluster;
use probeline_table::{
    Config, ConfigError, Intent, MAX_KEY, Operation, OperationError, Outcome, Shared, Stats, Table,
    Tag,
};
use probeline_transport::{Alone, Owner, Transport};

use crate::common::{cache, storage};

/// Only a poll detects lost owners, so finds that the cache or the CPU answers poll now and then.
#[test]
fn finds_of_positions_poll() {
    for direct in [false, true] {
        let config = Config { direct, ..Config::new(64) };
        let engine = Watched::new(Builder::new(config.sizes(2)).open(&mut Alone).unwrap());
        let table = Table::open(engine, config, storage(2), &mut Alone).unwrap();
        let mut table = table.with_cache(cache(16));
        table.find_or_put(7).unwrap();
        let before = table.transport().polls;
        (0..6_400).for_each(|_| assert!(table.find_at(7).unwrap().is_some()));
        let between = table.transport().polls;
        (0..100).for_each(|_| table.find_batch(&[7; 64], &mut [false; 64]).unwrap());
        let polls = [between - before, table.transport().polls - between];
        assert!(polls[0] >= 100 && polls[1] >= 1, "{polls:?}, direct: {direct}");
    }
}

#[test]
fn reads_own_keys_without_transport() {
    let config = Config { direct: false, ..Config::new(64) };
    let cluster = Cluster::new(probeline_sim::Config::new(2, config.sizes(2))).unwrap();
    let engine = cluster.engine(Owner(0)).unwrap();
    let mut table = Table::new(engine, config, [Operation::EMPTY; 2]).unwrap();
    cluster.kill(Owner(1));
    while table.find(1).is_ok() {}
    let mut keys = 0;
    let local = table.local().count();
    assert_eq!(table.for_each_local(|_| keys += 1).map(|()| keys), Ok(local));
}

/// A key that is refused changes nothing, and the only storage is still free.
#[test]
fn refuses_key_beyond_63_bits() {
    let config = Config { direct: false, ..Config::new(64) };
    let engine = Builder::new(config.sizes(1)).open(&mut Alone).unwrap();
    let mut table = Table::new(engine, config, storage(1)).unwrap();
    let refused = OperationError::Key { bits: 64, max: 63 };
    assert!(refused.to_string().contains("at most 63"), "{refused}");
    for key in [1 << 63, u64::MAX] {
        assert_eq!(table.find_or_put(key), Err(refused));
        assert_eq!(table.find(key), Err(refused));
        assert_eq!(table.submit(Tag(1), key, Intent::FindOrPut), Err(refused));
    }
    assert_eq!((table.transport().in_flight(), *table.stats()), (0, Stats::default()));
    assert_eq!(table.local().count(), 0);
    for key in [0, MAX_KEY] {
        assert_eq!(table.find(key), Ok(false));
        assert_eq!(table.find_or_put(key), Ok(Outcome::Inserted));
        assert_eq!(table.find_or_put(key), Ok(Outcome::Found));
    }
}

#[test]
fn refuses_storage_beyond_slots() {
    let config = Config::new(64);
    let engine = || Builder::new(config.sizes(3)).open(&mut Alone).unwrap();
    for (found, words) in [(4, "slots for 3; open it with config.sizes(4)"), (0, "at least 1")] {
        let refused = Table::new(engine(), config, storage(found)).err().unwrap();
        assert_eq!(refused, ConfigError::Operations { found: found as usize, max: 3 });
        assert!(refused.to_string().contains(words), "{refused}");
    }
    assert!(Table::new(engine(), config, storage(3)).is_ok());
}

#[test]
fn futures_return_typed_answers() {
    let config = Config { direct: false, ..Config::new(64) };
    let engine = Builder::new(config.sizes(2)).open(&mut Alone).unwrap();
    let table = Shared::new(Table::open(engine, config, storage(2), &mut Alone).unwrap());
    assert_eq!(ready(table.find(7)), Ok(false));
    assert_eq!(ready(table.find_or_put(7)), Ok(Outcome::Inserted));
    assert_eq!(ready(table.find(7)), Ok(true));
    let refused = OperationError::Key { bits: 64, max: 63 };
    assert_eq!(ready(table.find_or_put(u64::MAX)), Err(refused));
    assert_eq!(table.into_table().local().collect::<Vec<_>>(), [7]);
}
