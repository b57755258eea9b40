//! What all tables have from the common front: `clear` and `retain` wait before they forget, and every way
//! to run operations polls the transport, because only a poll detects lost owners.

use probeline_shm::Builder;
use probeline_table::{
    CacheEntry, Config, Intent, Operation, Outcome, PairCacheLine, Table, Tag, TreeConfig,
    TreeOperation, TreeTable, WideConfig, WideOperation, WideTable,
};
use probeline_transport::Alone;

#[test]
fn clear_with_an_operation_in_flight_forgets_its_key() {
    let config = Config { direct: false, ..Config::new(64) };
    let engine = Builder::new(config.sizes(2)).open(&mut Alone).unwrap();
    let table = Table::open(engine, config, [Operation::EMPTY; 2], &mut Alone).unwrap();
    let mut table = table.with_cache([const { CacheEntry::EMPTY }; 16]);
    table.submit(Tag(1), 7, Intent::FindOrPut).unwrap();
    table.clear(&mut Alone).unwrap();
    assert_eq!(table.len(&mut Alone), Ok(0));
    assert_eq!(table.find(7), Ok(false), "find after clear");
    assert_eq!(table.find_or_put(7), Ok(Outcome::Inserted), "put after clear");
}

#[test]
fn retain_with_an_operation_in_flight_forgets_its_key() {
    let config = Config { direct: false, ..Config::new(64) };
    let engine = Builder::new(config.sizes(2)).open(&mut Alone).unwrap();
    let table = Table::open(engine, config, [Operation::EMPTY; 2], &mut Alone).unwrap();
    let mut table = table.with_cache([const { CacheEntry::EMPTY }; 16]);
    table.submit(Tag(1), 7, Intent::FindOrPut).unwrap();
    assert_eq!(table.retain(&mut Alone, |_| false), Ok(1));
    assert_eq!(table.find(7), Ok(false), "find after retain");
}

#[test]
fn clear_of_a_tree_with_an_operation_in_flight_forgets_its_nodes() {
    let mut config = TreeConfig::new(4_096, 200);
    config.buckets.direct = false;
    let engine = Builder::new(config.sizes(2)).open(&mut Alone).unwrap();
    let table = TreeTable::open(engine, config, [TreeOperation::EMPTY; 2], &mut Alone).unwrap();
    let mut table = table.with_cache([PairCacheLine::EMPTY; 64]);
    let key = [1, 2, 3, 4];
    table.submit(Tag(1), &key, Intent::FindOrPut).unwrap();
    table.clear(&mut Alone).unwrap();
    assert_eq!(table.occupied(&mut Alone), Ok(0));
    assert_eq!(table.find_or_put(&key), Ok(Outcome::Inserted));
    let mut seen = Vec::new();
    table.for_each_local(|key| seen.push(*key)).unwrap();
    assert_eq!(seen, [key]);
}

#[test]
fn clear_with_wide_operations_in_flight_forgets_their_entries() {
    let mut config = WideConfig::<4>::for_keys(1_000, 1);
    config.buckets.direct = false;
    let engine = Builder::new(config.sizes(4)).open(&mut Alone).unwrap();
    let mut table = WideTable::open(engine, config, [WideOperation::EMPTY; 4], &mut Alone).unwrap();
    for n in 0..4 {
        table.submit(Tag(n), &[n, 2, 3, 4], Intent::FindOrPut).unwrap();
    }
    table.clear(&mut Alone).unwrap();
    let mut out = [const {
        probeline_table::Finished { tag: Tag(0), result: Ok(probeline_table::Ended::Found) }
    }; 8];
    table.poll_into(&mut out).unwrap();
    let mut wrong = 0;
    let keys: Vec<_> = (0..400).map(|n| [n, 9, 9, 9]).collect();
    for key in &keys {
        assert_eq!(table.find_or_put(key), Ok(Outcome::Inserted));
    }
    for key in &keys {
        wrong += usize::from(table.find(key) != Ok(true));
    }
    assert_eq!(wrong, 0, "keys lost after clear");
}

/// Counts polls.
struct Polls {
    inner: probeline_shm::Engine,
    polls: u64,
}

impl probeline_transport::Transport for Polls {
    probeline_transport::forward_transport!(
        inner: caps, geometry, in_flight, post, kick, landed, staged, window, direct
    );

    fn poll(
        &mut self,
        out: &mut [probeline_transport::Completion],
    ) -> Result<usize, probeline_transport::Fault> {
        self.polls += 1;
        self.inner.poll(out)
    }
}

#[test]
fn finds_of_positions_that_the_cache_answers_poll() {
    let config = Config { direct: false, ..Config::new(64) };
    let inner = Builder::new(config.sizes(2)).open(&mut Alone).unwrap();
    let engine = Polls { inner, polls: 0 };
    let table = Table::open(engine, config, [Operation::EMPTY; 2], &mut Alone).unwrap();
    let mut table = table.with_cache([const { CacheEntry::EMPTY }; 16]);
    table.find_or_put(7).unwrap();
    table.find(7).unwrap();
    let polls = |table: &mut Table<Polls, _, _>, run: &mut dyn FnMut(&mut Table<Polls, _, _>)| {
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
fn call_all_of_a_direct_table_polls() {
    let config = WideConfig::<4>::for_keys(1_000, 1);
    let inner = Builder::new(config.sizes(4)).open(&mut Alone).unwrap();
    let engine = Polls { inner, polls: 0 };
    let mut table = WideTable::open(engine, config, [WideOperation::EMPTY; 4], &mut Alone).unwrap();
    let requests: Vec<_> = (0..500).map(|n| ([n, 0, 0, 0], Intent::FindOrPut)).collect();
    let mut results = vec![Ok(probeline_table::Ended::Full); 500];
    let before = table.transport().polls;
    for _ in 0..100 {
        table.call_all(&requests, &mut results).unwrap();
    }
    let polls = table.transport().polls - before;
    assert!(polls >= 100, "{polls} polls in 50,000 operations");
}

#[test]
fn the_keys_of_the_own_part_do_not_need_the_transport() {
    let config = Config { direct: false, ..Config::new(64) };
    let sizes = config.sizes(2);
    let cluster = probeline_sim::Cluster::new(probeline_sim::Config {
        owners: 2,
        window_words: sizes.window_words,
        slots: sizes.slots,
        slot_words: sizes.slot_words,
        depth: sizes.depth,
        ..probeline_sim::Config::default()
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

#[test]
fn futures_of_a_direct_table_poll() {
    use core::future::Future;
    let config = WideConfig::<4>::for_keys(1_000, 1);
    let inner = Builder::new(config.sizes(4)).open(&mut Alone).unwrap();
    let engine = Polls { inner, polls: 0 };
    let table = WideTable::open(engine, config, [WideOperation::EMPTY; 4], &mut Alone).unwrap();
    let before = table.transport().polls;
    let shared = probeline_table::Shared::new(table);
    let mut context = core::task::Context::from_waker(core::task::Waker::noop());
    for n in 0..6_400_u64 {
        let mut future = core::pin::pin!(shared.find_or_put(&[n % 500, 0, 0, 0]));
        while future.as_mut().poll(&mut context).is_pending() {}
    }
    let polls = shared.into_table().transport().polls - before;
    assert!(polls >= 100, "{polls} polls in 6,400 operations");
}
