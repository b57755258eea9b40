//! Every way to run operations polls the transport, because only a poll detects lost owners.

use probeline_exchange::testing::Watched;
use probeline_shm::{Builder, Engine};
use probeline_table::{CacheEntry, Config, Operation, Table};
use probeline_transport::Alone;

#[test]
fn cached_position_finds_poll() {
    let config = Config { direct: false, ..Config::new(64) };
    let inner = Builder::new(config.sizes(2)).open(&mut Alone).unwrap();
    let engine = Watched::new(inner);
    let table = Table::open(engine, config, [Operation::EMPTY; 2], &mut Alone).unwrap();
    let mut table = table.with_cache([const { CacheEntry::EMPTY }; 16]);
    table.find_or_put(7).unwrap();
    table.find(7).unwrap();
    let polls = |table: &mut Table<Watched<Engine>, _, _>,
                 run: &mut dyn FnMut(&mut Table<Watched<Engine>, _, _>)| {
        let before = table.transport().polls;
        run(table);
        table.transport().polls - before
    };
    let find =
        polls(&mut table, &mut |table| (0..6400).for_each(|_| assert!(table.find(7).unwrap())));
    let find_at = polls(&mut table, &mut |table| {
        (0..6400).for_each(|_| assert!(table.find_at(7).unwrap().is_some()));
    });
    let batch = polls(&mut table, &mut |table| {
        let mut found = [false; 64];
        (0..100).for_each(|_| table.find_batch(&[7; 64], &mut found).unwrap());
    });
    println!("polls: find {find}, find_at {find_at}, find_batch {batch}");
    assert!(find >= 100, "find");
    assert!(find_at >= 100, "find_at {find_at}");
    assert!(batch >= 1, "find_batch {batch}");
}

#[test]
fn reads_own_keys_without_transport() {
    let config = Config { direct: false, ..Config::new(64) };
    let sizes = config.sizes(2);
    let cluster = probeline_sim::Cluster::new(probeline_sim::Config {
        ..probeline_sim::Config::new(2, sizes)
    })
    .unwrap();
    let engine = cluster.engine(probeline_transport::Owner(0)).unwrap();
    let mut table = Table::new(engine, config, [Operation::EMPTY; 2]).unwrap();
    cluster.kill(probeline_transport::Owner(1));
    while table.find(1).is_ok() {}
    let mut keys = 0;
    let local = table.local().count();
    assert_eq!(table.for_each_local(|_| keys += 1).map(|()| keys), Ok(local));
}
