//! Tests of operations as futures, polled by a loop over all of them: against a set, with more
//! futures than storage, and with futures dropped before they return.

mod common;

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::collections::BTreeSet;

use common::account::{Account, End};
use common::extensions::setups;
use common::{CachedTable, cache, content, key, own_words, storage};
use probeline_sim::{Cluster, DirectAccess, Engine, Faults, Jitter, Model, Order, Rng};
use probeline_table::{Config, Ended, Intent, OperationError, Outcome, Shared, Table, Tag};
use probeline_transport::{AtomicScope, Owner};

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
    let open = |(owner, setup): (Owner, common::extensions::Setup)| {
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
fn concurrent_futures_agree_with_a_set() {
    for seed in 0..60 {
        let _replay = probeline_testing::Replay(seed);
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

/// All storage holds results that their tasks have not taken: a further future waits for them.
#[test]
fn a_future_waits_for_results_that_are_not_taken() {
    for seed in 0..20 {
        let _replay = probeline_testing::Replay(seed);
        let tables = shared(seed);
        let mut running: Vec<_> = (0..OPERATIONS).map(|n| tables[0].find(key(n.into()))).collect();
        assert!(running.iter_mut().all(|future| poll(future).is_pending()));
        let mut last = tables[0].find(key(100));
        for _ in 0..200 {
            assert!(poll(&mut last).is_pending());
        }
        for future in &mut running {
            assert!((0..100).any(|_| poll(future).is_ready()));
        }
        assert!((0..100).any(|_| poll(&mut last).is_ready()));
    }
}

#[test]
fn a_future_that_was_not_polled_does_nothing() {
    let mut tables = shared(0);
    drop(tables[0].find_or_put(1));
    assert_eq!(tables[0].table().find(1), Ok(false));
    let refused = {
        let mut future = tables[0].find_or_put(u64::MAX);
        poll(&mut future)
    };
    assert!(matches!(refused, Poll::Ready(Err(OperationError::Key { .. }))));
}

/// Awaits futures in a task, with a waker that is called at each pending poll.
#[test]
fn tasks_await_futures() {
    use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use std::sync::Arc;
    use std::task::Wake;

    #[derive(Default)]
    struct Woken(AtomicU64);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    let tables = shared(3);
    let task = async {
        let mut results = Vec::new();
        for key in [5, 6, 5] {
            results.push(tables[0].find_or_put(key).await.map(Ended::from));
        }
        results.push(tables[0].find(7).await.map(Ended::from));
        results
    };
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut task = Box::pin(task);
    for polls in 0..10_000 {
        assert!(woken.0.load(SeqCst) >= polls, "pending, and the waker was not called");
        if let Poll::Ready(results) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
            let [inserted, found] = [Ok(Ended::Inserted), Ok(Ended::Found)];
            let right = results
                .iter()
                .zip([inserted, inserted, found, Ok(Ended::Absent)])
                .all(|(end, right)| *end == right || matches!(end, Err(OperationError::Failed(_))));
            assert!(right, "{results:?}");
            return;
        }
    }
    panic!("never ready");
}

/// Runs 64 inserts in `tasks` tasks, which an executor polls in turn. Returns the simulated time
/// and the number of rounds of polls.
fn run_in_tasks(tasks: usize) -> (u64, u32) {
    const INSERTS: usize = 64;
    const CONFIG: Config = Config { direct: false, ..Config::new(1_024) };
    let sizes = CONFIG.sizes(64);
    let cluster = Cluster::new(probeline_sim::Config {
        owners: 1,
        window_words: sizes.window_words,
        slots: sizes.slots,
        slot_words: sizes.slot_words,
        depth: sizes.depth,
        seed: 1,
        model: Model::simple(2_000),
        ..probeline_sim::Config::default()
    })
    .unwrap();
    let table = Table::new(cluster.engine(Owner(0)).unwrap(), CONFIG, storage(64)).unwrap();
    let mut shared = Shared::new(table);
    let start_ns = shared.table().transport().now_ns();
    let mut rounds = 0;
    {
        let table = &shared;
        let task = |first: usize| async move {
            for key in (first..INSERTS).step_by(tasks) {
                assert_eq!(table.find_or_put(key as u64).await, Ok(Outcome::Inserted));
            }
        };
        let mut running: Vec<_> = (0..tasks).map(|first| Box::pin(task(first))).collect();
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..100_000 {
            running.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
            rounds += 1;
            if running.is_empty() {
                break;
            }
        }
        assert!(running.is_empty(), "never ready");
    }
    (shared.table().transport().now_ns() - start_ns, rounds)
}

#[test]
fn operations_of_tasks_overlap() {
    let (alone_ns, alone) = run_in_tasks(1);
    let (together_ns, together) = run_in_tasks(64);
    println!(
        "64 inserts: {alone_ns} ns in one task ({alone} rounds), {together_ns} ns in 64 ({together})"
    );
    assert!(together_ns * 16 < alone_ns, "{together_ns} ns in 64 tasks, {alone_ns} ns in one");
}
