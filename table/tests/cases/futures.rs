//! Operations as futures, polled by a loop over all of them: against a set, with more futures than
//! storage, and with futures dropped before they return.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::collections::BTreeSet;

use probeline_sim::{Cluster, DirectAccess, Engine, Faults, Jitter, Model, Order, Rng};
use probeline_table::{Config, Ended, Intent, OperationError, Shared, Table, Tag};
use probeline_transport::{AtomicScope, Owner};

use crate::common::account::{Account, End};
use crate::common::extensions::setups;
use crate::common::{CachedTable, cache, content, key, own_words, storage};

const OPERATIONS: u32 = 5;
const OWNERS: u32 = 2;
/// Concurrent futures of each owner: four times the storage.
const FUTURES: usize = 20;
const STEPS: u64 = 6_000;
const SIZES: Config = Config { chunk_buckets: 16, max_chunks: 3, ..Config::paper(120) };

type Storage = Vec<probeline_table::Operation>;
type Cache = Vec<probeline_table::CacheEntry>;
type Running<'t> = (u64, Pin<Box<dyn Future<Output = End> + 't>>);

fn cluster(seed: u64) -> Cluster {
    let mut rng = Rng::new(seed, 600);
    let mut one_of = |count: u64| usize::try_from(rng.below(count)).unwrap();
    Cluster::new(probeline_sim::Config {
        owners: OWNERS,
        window_words: SIZES.words(),
        slots: Config::slots(OPERATIONS),
        slot_words: SIZES.chunk_buckets,
        depth: [2, 5, 24][one_of(3)],
        seed,
        order: Order::Shuffled,
        model: Model { jitter: Jitter::Exponential { mean_ns: 900 }, ..Model::simple(1_000) },
        faults: Faults { error_undone_ppm: 2_000, ..Faults::none() },
        atomics: [AtomicScope::Cpu, AtomicScope::Device][one_of(2)],
        direct_access: [DirectAccess::None, DirectAccess::Own, DirectAccess::All][one_of(3)],
        ..probeline_sim::Config::default()
    })
    .unwrap()
}

fn shared(seed: u64) -> Vec<Shared<Table<Engine, Storage, Cache>>> {
    let cluster = cluster(seed);
    let open = |(owner, setup): (Owner, crate::common::extensions::Setup)| {
        let engine = cluster.engine(owner).unwrap();
        let table = Table::new(engine, setup.config, storage(OPERATIONS)).unwrap();
        Shared::new(table.with_cache(cache(setup.cache_entries)))
    };
    (0..OWNERS).map(Owner).zip(setups(seed, OWNERS, SIZES)).map(open).collect()
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls futures in random order and drops some before they return. The key of a dropped insert may
/// be in the table or not.
#[test]
fn agrees_with_set() {
    for seed in 0..60 {
        let _replay = probeline_exchange::testing::Replay(seed);
        let tables = shared(seed);
        let mut rng = Rng::new(seed, 601);
        let mut account = Account::default();
        let mut running: Vec<Vec<Running<'_>>> = (0..OWNERS).map(|_| Vec::new()).collect();
        let (mut most, mut dropped) = (0, 0);
        for tag in 0..STEPS {
            let owner = usize::try_from(rng.below(OWNERS.into())).unwrap();
            let mine = &mut running[owner];
            if mine.len() < FUTURES && rng.chance(700_000) {
                let key = key(rng.below(200));
                let find = rng.chance(300_000);
                let intent = if find { Intent::Find } else { Intent::FindOrPut };
                account.begin(tag, key, intent);
                let table = &tables[owner];
                let find_or_put = async move {
                    match intent {
                        Intent::Find => table.find(key).await.map(Ended::from),
                        Intent::FindOrPut => table.find_or_put(key).await.map(Ended::from),
                    }
                };
                mine.push((tag, Box::pin(find_or_put)));
            }
            most = most.max(mine.len());
            if mine.is_empty() {
                continue;
            }
            let which = usize::try_from(rng.below(mine.len() as u64)).unwrap();
            if rng.chance(10_000) {
                let (tag, future) = mine.swap_remove(which);
                drop(future);
                let unknown = Err(OperationError::Busy);
                account.end(tag, unknown).unwrap();
                dropped += 1;
            } else if let Poll::Ready(end) = poll(&mut mine[which].1) {
                account.end(mine.swap_remove(which).0, end).unwrap();
            }
        }
        finish(&mut account, running);
        assert!(most == FUTURES && dropped > 5, "{most} at once, {dropped} dropped");
        check(tables, &account);
    }
}

/// Polls all remaining futures, a bounded number of times.
fn finish(account: &mut Account, running: Vec<Vec<Running<'_>>>) {
    let mut running: Vec<Running<'_>> = running.into_iter().flatten().collect();
    for _ in 0..100_000 {
        running.retain_mut(|(tag, future)| match poll(future) {
            Poll::Pending => true,
            Poll::Ready(end) => {
                account.end(*tag, end).unwrap();
                false
            }
        });
    }
    assert_eq!(running.len(), 0, "never ready");
}

/// Checks that all storage is free again and that the content agrees with the results.
fn check(tables: Vec<Shared<Table<Engine, Storage, Cache>>>, account: &Account) {
    let mut tables: Vec<CachedTable<Engine>> = tables.into_iter().map(Shared::into_table).collect();
    for table in &mut tables {
        table.transport_mut().unwrap();
        for tag in 0..OPERATIONS.into() {
            table.submit(Tag(tag), 1, Intent::Find).unwrap();
        }
        table.transport_mut().unwrap();
    }
    let ring: Vec<u64> = tables.iter().flat_map(own_words).collect();
    let content: BTreeSet<u64> = content(tables[0].layout(), &ring).unwrap();
    account.check(&content).unwrap();
}

#[test]
fn refuses_key_when_polled() {
    let tables = shared(0);
    let refused = poll(&mut tables[0].find_or_put(u64::MAX));
    assert!(matches!(refused, Poll::Ready(Err(OperationError::Key { .. }))));
}
