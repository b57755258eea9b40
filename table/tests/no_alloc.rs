//! Tests that no call allocates after opening: blocking calls, batches, `submit` and `poll_into`,
//! futures, and the collective calls, with the paper's algorithm alone and with all extensions.

mod common;

use core::future::Future;
use core::hint::black_box;
use core::pin::Pin;
use core::task::{Context, Waker};

use common::extensions::probed;
use common::job::{Sizes, on_shm};
use common::{cache, storage};
use probeline_shm::Builder;
use probeline_table::{
    CacheEntry, ChunkChoice, Config, Finished, Intent, OneRoundtrip, Operation, OperationError,
    Outcome, PairCacheLine, Probing, ReadAhead, ReadCost, Shared, Table, Tag, TreeConfig,
    TreeOperation, TreeTable, WideConfig, WideOperation, WideTable,
};
use probeline_transport::Exchange;
use probeline_transport::conformance::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Counts the allocations of this thread in a call; `black_box` keeps the compiler from moving them
/// out of it.
fn allocations_in(call: impl FnOnce()) -> u64 {
    let before = allocations();
    black_box(call)();
    allocations() - before
}

const OPERATIONS: u32 = 8;
const CONFIG: Config = Config { chunk_buckets: 16, max_chunks: 8, ..Config::paper(1_024) };
const EXTENSIONS: Config = Config {
    probing: Probing::Lines,
    chunk_choice: ChunkChoice::Adaptive(ReadCost { base_ps: 1_000_000, bucket_ps: 1_000 }),
    read_ahead: ReadAhead::Likely,
    one_roundtrip: OneRoundtrip::On,
    ..CONFIG
};
/// More keys than buckets, so that some find the table full.
const KEYS: u64 = 2_500;

type ShmTable = Table<probeline_shm::Engine, Vec<Operation>, Vec<CacheEntry>>;

fn blocking(table: &mut ShmTable) {
    for key in 0..KEYS / 2 {
        table.find_or_put(key).unwrap();
        table.find(key + KEYS / 4).unwrap();
    }
}

fn batches(table: &mut ShmTable) {
    let mut results = [Ok(Outcome::Full); 100];
    let mut found = [Ok(false); 100];
    for first in (0..KEYS).step_by(50) {
        let keys: [u64; 100] = core::array::from_fn(|i| first + i as u64);
        table.find_or_put_batch(&keys, &mut results).unwrap();
        table.find_batch(&keys, &mut found).unwrap();
        assert!(results.iter().all(Result::is_ok) && found.iter().all(Result::is_ok));
    }
}

fn poll_form(table: &mut ShmTable) {
    let mut out = [Finished::default(); 3];
    let mut ended = 0;
    for tag in 0..KEYS {
        while table.submit(Tag(tag), tag, Intent::FindOrPut) == Err(OperationError::Busy) {
            ended += table.poll_into(&mut out).unwrap().len();
        }
    }
    while ended < usize::try_from(KEYS).unwrap() {
        ended += table.poll_into(&mut out).unwrap().len();
    }
}

/// Runs twice as many futures as there is storage for, one of which is dropped.
fn futures(table: &Shared<ShmTable>) {
    let mut context = Context::from_waker(Waker::noop());
    let mut futures: [_; 16] = core::array::from_fn(|i| Some(table.find_or_put(i as u64)));
    let mut running = futures.len();
    while running > 0 {
        for future in &mut futures {
            let Some(here) = future else { continue };
            if running == 5 || Pin::new(here).poll(&mut context).is_ready() {
                *future = None;
                running -= 1;
            }
        }
    }
}

fn collective(table: &mut ShmTable, exchange: &mut dyn Exchange) {
    table.agree(exchange).unwrap();
    assert!(table.len(exchange).unwrap() > 2_000);
    assert!(table.load_factor(exchange).unwrap() > 0.9);
    table.retain(exchange, |key| key % 3 > 0).unwrap();
    table.clear(exchange).unwrap();
}

/// The growth of each kind of table into another one, and positions of keys.
fn growth(direct: bool) {
    let narrow = Config { direct, ..CONFIG };
    let larger = Config { buckets_per_owner: 2_048, ..narrow };
    let counts = on_shm(Sizes { operations: OPERATIONS, ..Sizes::of(2, &larger) }, |_, mut job| {
        let open = |config: Config, job: &mut _| {
            let engine = Builder::new(config.sizes(OPERATIONS)).open(job).unwrap();
            Table::open(engine, config, storage(OPERATIONS), job).unwrap()
        };
        let (mut table, mut target) = (open(narrow, &mut job), open(larger, &mut job));
        let positions = allocations_in(|| {
            for key in 0..1_000 {
                assert!(table.find_or_put_at(key).unwrap().at.is_some());
            }
        });
        let narrow =
            allocations_in(|| assert_eq!(table.grow_into(&mut target, &mut job), Ok(1_000)));
        let open = |buckets, job: &mut _| {
            let new = WideConfig::<3>::new(buckets);
            let config = WideConfig { buckets: Config { direct, ..new.buckets }, ..new };
            let engine = Builder::new(config.sizes(OPERATIONS)).open(job).unwrap();
            let storage = vec![WideOperation::EMPTY; OPERATIONS as usize];
            WideTable::open(engine, config, storage, job).unwrap()
        };
        let (mut table, mut target) = (open(1_024, &mut job), open(2_048, &mut job));
        for number in 0..1_000 {
            table.find_or_put(&[number, 1, 2]).unwrap();
        }
        let wide = allocations_in(|| assert_eq!(table.grow_into(&mut target, &mut job), Ok(1_000)));
        let open = |buckets, job: &mut _| {
            let new = TreeConfig::new(buckets, 192);
            let config = TreeConfig { buckets: Config { direct, ..new.buckets }, ..new };
            let engine = Builder::new(config.sizes(OPERATIONS)).open(job).unwrap();
            let storage = vec![TreeOperation::<3>::EMPTY; OPERATIONS as usize];
            TreeTable::open(engine, config, storage, job).unwrap()
        };
        let (mut table, mut target) = (open(2_048, &mut job), open(4_096, &mut job));
        for number in 0..1_000 {
            table.find_or_put(&[number, 1, 2]).unwrap();
        }
        let tree = allocations_in(|| assert_eq!(table.grow_into(&mut target, &mut job), Ok(1_000)));
        [positions, narrow, wide, tree]
    });
    assert_eq!(counts, [[0; 4]; 2], "positions, narrow, wide, tree; direct: {direct}");
}

fn nothing_allocates_with(config: Config, cache_entries: usize) {
    // The depth is less than all operations can post, so that they queue.
    let sizes = Sizes { operations: OPERATIONS, depth: 5, ..Sizes::of(2, &config) };
    let counts = on_shm(sizes, |engine, mut exchange| {
        let table = Table::open(engine, config, storage(OPERATIONS), &mut exchange).unwrap();
        let mut table = table.with_cache(cache(cache_entries));
        let blocking = allocations_in(|| blocking(&mut table));
        let batches = allocations_in(|| batches(&mut table));
        let poll_form = allocations_in(|| poll_form(&mut table));
        assert!(table.stats().full.operations > 0);
        let has_hits = cache_entries > 0 && !config.direct;
        assert_eq!(table.stats().total().cache_hits > 0, has_hits);
        let refused = allocations_in(|| {
            assert!(table.find_or_put(u64::MAX).is_err());
            assert!(table.submit(Tag(0), u64::MAX, Intent::Find).is_err());
        });
        let shared = Shared::new(table);
        let futures = allocations_in(|| futures(&shared));
        let mut table = shared.into_table();
        let collective = allocations_in(|| collective(&mut table, &mut exchange));
        [blocking, batches, poll_form, refused, futures, collective]
    });
    let what = "blocking, batches, poll form, refused, futures, collective";
    assert_eq!(counts, [[0; 6]; 2], "{what} with {config:?}");
}

/// All calls of a wide table.
fn wide(direct: bool) {
    const WORDS: usize = 4;
    let config = WideConfig::<WORDS>::new(1_024);
    let config = WideConfig { buckets: Config { direct, ..config.buckets }, ..config };
    // Twice the slots of a narrow operation.
    let sizes =
        Sizes { owners: 2, window_words: config.words(), operations: 2 * OPERATIONS, depth: 5 };
    let key = |number: u64| [number, 1, number, 2];
    let counts = on_shm(sizes, |engine, mut exchange| {
        let storage = vec![WideOperation::EMPTY; OPERATIONS as usize];
        let mut table = WideTable::open(engine, config, storage, &mut exchange).unwrap();
        let calls = allocations_in(|| {
            for number in 0..100 {
                table.find_or_put(&key(number)).unwrap();
                assert!(table.find(&key(number)).unwrap());
            }
            let keys: [_; 100] = core::array::from_fn(|nth| key(50 + nth as u64));
            let mut results = [Ok(Outcome::Full); 100];
            let mut found = [Ok(false); 100];
            table.find_or_put_batch(&keys, &mut results).unwrap();
            table.find_batch(&keys, &mut found).unwrap();
            assert_eq!(found, [Ok(true); 100]);
        });
        let poll_form = allocations_in(|| {
            let mut out = [Finished::default(); 4];
            for number in 200..300 {
                while table.submit(Tag(number), &key(number), Intent::FindOrPut).is_err() {
                    table.poll_into(&mut out).unwrap();
                }
            }
            while table.in_flight() > 0 {
                table.poll_into(&mut out).unwrap();
            }
        });
        let shared = Shared::new(table);
        let futures = allocations_in(|| {
            let mut context = Context::from_waker(Waker::noop());
            let mut future = shared.find_or_put(&key(300));
            while Pin::new(&mut future).poll(&mut context).is_pending() {}
        });
        let mut table = shared.into_table();
        exchange.barrier().unwrap();
        let collective = allocations_in(|| {
            assert_eq!(table.len(&mut exchange), Ok(251));
            let mut count = 0;
            table.for_each_local(|_| count += 1).unwrap();
            assert!(count > 0);
            table.retain(&mut exchange, |key| key[0] % 3 > 0).unwrap();
            table.clear(&mut exchange).unwrap();
        });
        [calls, poll_form, futures, collective]
    });
    assert_eq!(counts, [[0; 4]; 2], "calls, poll form, futures, collective; direct: {direct}");
}

/// All calls of a tree table.
fn tree(direct: bool) {
    let new = TreeConfig::new(1_024, 256);
    let config = TreeConfig { buckets: Config { direct, ..new.buckets }, ..new };
    let sizes = Sizes { owners: 2, window_words: config.words(), operations: OPERATIONS, depth: 5 };
    let key = |number: u64| [number, 1, number, 2];
    let counts = on_shm(sizes, |engine, mut exchange| {
        let storage = vec![TreeOperation::<4>::EMPTY; OPERATIONS as usize];
        let table = TreeTable::open(engine, config, storage, &mut exchange).unwrap();
        let mut table = table.with_cache(vec![PairCacheLine::EMPTY; 16]);
        let calls = allocations_in(|| {
            let keys: [_; 100] = core::array::from_fn(|nth| key(nth as u64));
            let mut results = [Ok(Outcome::Full); 100];
            let mut found = [Ok(false); 100];
            table.find_or_put_batch(&keys, &mut results).unwrap();
            table.find_batch(&keys, &mut found).unwrap();
            assert_eq!(found, [Ok(true); 100]);
            assert_eq!(table.find_or_put(&key(1)), Ok(Outcome::Found));
        });
        let poll_form = allocations_in(|| {
            let mut out = [Finished::default(); 4];
            for number in 100..200 {
                while table.submit(Tag(number), &key(number), Intent::FindOrPut).is_err() {
                    table.poll_into(&mut out).unwrap();
                }
            }
            while table.in_flight() > 0 {
                table.poll_into(&mut out).unwrap();
            }
        });
        exchange.barrier().unwrap();
        let collective = allocations_in(|| {
            assert_eq!(table.len(&mut exchange), Ok(200));
            let mut count = 0;
            table.for_each_local(|_| count += 1).unwrap();
            assert!(count > 0);
            table.clear(&mut exchange).unwrap();
        });
        [calls, poll_form, collective]
    });
    assert_eq!(counts, [[0; 3]; 2], "calls, poll form, collective; direct: {direct}");
}

#[test]
fn nothing_allocates_after_opening() {
    tree(false);
    tree(true);
    wide(false);
    wide(true);
    growth(false);
    growth(true);
    for cache_entries in [0, 64] {
        nothing_allocates_with(CONFIG, cache_entries);
        nothing_allocates_with(EXTENSIONS, cache_entries);
        nothing_allocates_with(Config { direct: true, ..EXTENSIONS }, cache_entries);
        nothing_allocates_with(probed(EXTENSIONS, Probing::Jump), cache_entries);
    }
    assert_eq!(allocations_in(|| drop(black_box(vec![1; 8]))), 1, "the counter counts");
}
