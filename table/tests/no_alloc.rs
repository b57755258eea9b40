//! Tests that no call allocates after opening: blocking calls, batches, `submit` and `poll_into`,
//! futures, collective calls, and growth, with the paper's algorithm alone and with all extensions.

use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Waker};

use crate::common::extensions::probed;
use crate::common::job::{Sizes, on_shm};
use crate::common::kinds::{self, NarrowKeys, Numbered, Numbers, TreeKeys, WideKeys};
use probeline_pipeline::{OperationFuture, Structure};
use probeline_shm::{Builder, Engine};
use probeline_table::{
    ChunkChoice, Config, Finished, Intent, OneRoundtrip, OperationError, Outcome, Probing,
    ReadAhead, ReadCost, Tag,
};
use probeline_transport::Exchange;
use probeline_transport::conformance::allocations_in;

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

type ShmTable<K> = Numbered<Engine, K>;

fn blocking<K: Numbers>(table: &mut ShmTable<K>) {
    let config = *table.config();
    for number in 0..KEYS / 2 {
        table.call(&K::key(&config, number), Intent::FindOrPut).unwrap();
        table.call(&K::key(&config, number + KEYS / 4), Intent::Find).unwrap();
    }
}

fn batches<K: Numbers>(table: &mut ShmTable<K>) {
    let config = *table.config();
    let mut results = [Ok(Outcome::Full); 100];
    let mut found = [Ok(false); 100];
    for first in (0..KEYS).step_by(50) {
        let keys: [K::Key; 100] = core::array::from_fn(|nth| K::key(&config, first + nth as u64));
        table.find_or_put_batch(&keys, &mut results).unwrap();
        table.find_batch(&keys, &mut found).unwrap();
        assert!(results.iter().all(Result::is_ok) && found.iter().all(Result::is_ok));
    }
}

fn poll_form<K: Numbers>(table: &mut ShmTable<K>) {
    let (config, mut out, mut ended) = (*table.config(), [Finished::default(); 3], 0);
    for number in 0..KEYS {
        let key = K::key(&config, number);
        while Structure::submit(table, Tag(number), &key, Intent::FindOrPut)
            == Err(OperationError::Busy)
        {
            ended += table.poll_into(&mut out).unwrap().len() as u64;
        }
    }
    while ended < KEYS {
        ended += table.poll_into(&mut out).unwrap().len() as u64;
    }
}

fn refused<K: Numbers>(table: &mut ShmTable<K>) {
    if let Some(key) = K::too_large(0) {
        assert!(table.call(&key, Intent::FindOrPut).is_err());
        assert!(Structure::submit(table, Tag(0), &key, Intent::Find).is_err());
    }
}

/// Runs twice as many futures as there is storage for, some of which are dropped.
fn futures<K: Numbers>(table: &RefCell<ShmTable<K>>) {
    let mut context = Context::from_waker(Waker::noop());
    let config = *table.borrow().config();
    let future = |nth| OperationFuture::new(table, &K::key(&config, nth), Intent::FindOrPut);
    let mut futures: [_; 16] = core::array::from_fn(|nth| Some(future(nth as u64)));
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

fn collective<K: Numbers>(table: &mut ShmTable<K>, exchange: &mut dyn Exchange) {
    table.agree(exchange).unwrap();
    assert!(table.len(exchange).unwrap() > 200);
    assert!(table.load_factor(exchange).unwrap() > 0.9);
    let mut count = 0;
    table.for_each_local(|_| count += 1).unwrap();
    assert!(count > 0);
    K::retain(table, exchange, |number| number % 3 > 0);
    table.clear(exchange).unwrap();
}

fn is_free_of_allocations<K: Numbers>(config: Config, cache_entries: usize) {
    let of_kind = K::config(config, 1_024);
    // The depth is less than all operations can post, so that they queue. A wide operation has twice
    // the slots of a narrow one.
    let window_words = K::sizes(&of_kind, OPERATIONS).window_words;
    let sizes = Sizes { owners: 2, window_words, operations: 2 * OPERATIONS, depth: 5 };
    let counts = on_shm(sizes, |engine, mut exchange| {
        let mut table = kinds::new::<_, K>(engine, of_kind, OPERATIONS, cache_entries);
        table.agree(&mut exchange).unwrap();
        // The test's own map of keys to numbers.
        K::number(&of_kind, &K::key(&of_kind, 1));
        let mut counts = vec![
            allocations_in(|| blocking(&mut table)),
            allocations_in(|| batches(&mut table)),
            allocations_in(|| poll_form(&mut table)),
            allocations_in(|| refused(&mut table)),
        ];
        assert!(table.stats().full.operations > 0);
        let shared = RefCell::new(table);
        counts.push(allocations_in(|| futures(&shared)));
        let mut table = shared.into_inner();
        counts.push(allocations_in(|| collective(&mut table, &mut exchange)));
        counts
    });
    let what = "blocking, batches, poll form, refused, futures, collective";
    assert_eq!(counts, [[0; 6]; 2], "{what} of {} with {config:?}", K::NAME);
}

/// The growth of a table into another one.
fn growth_is_free_of_allocations<K: Numbers>(direct: bool) {
    const KEYS: u64 = 1_000;
    let config = |buckets| K::config(Config { direct, ..Config::paper(buckets) }, 1_200);
    let counts = on_shm(Sizes::of(2, &CONFIG), |_, mut job| {
        let mut open = |buckets| {
            let sizes = K::sizes(&config(buckets), OPERATIONS);
            let engine = Builder::new(sizes).open(&mut job).unwrap();
            kinds::open::<_, K>(engine, config(buckets), OPERATIONS, &mut job)
        };
        let (mut table, mut target) = (open(2_048), open(4_096));
        (0..KEYS).for_each(|number| kinds::put(&mut table, number).unwrap());
        allocations_in(|| assert_eq!(table.grow_into(&mut target, &mut job), Ok(KEYS)))
    });
    assert_eq!(counts, [0; 2], "{}, direct: {direct}", K::NAME);
}

#[test]
fn nothing_allocates_after_opening() {
    for direct in [false, true] {
        is_free_of_allocations::<WideKeys<4>>(Config { direct, ..CONFIG }, 0);
        is_free_of_allocations::<TreeKeys<4>>(Config { direct, ..CONFIG }, 64);
        growth_is_free_of_allocations::<NarrowKeys>(direct);
        growth_is_free_of_allocations::<WideKeys<3>>(direct);
        growth_is_free_of_allocations::<TreeKeys<3>>(direct);
    }
    for cache_entries in [0, 64] {
        for config in [
            CONFIG,
            EXTENSIONS,
            Config { direct: true, ..EXTENSIONS },
            probed(EXTENSIONS, Probing::DoubleHash),
        ] {
            is_free_of_allocations::<NarrowKeys>(config, cache_entries);
        }
    }
}

#[test]
fn positions_allocate_nothing() {
    for direct in [false, true] {
        let config = Config { direct, ..CONFIG };
        on_shm(Sizes::of(1, &config), |engine, mut exchange| {
            let mut table = kinds::open::<_, NarrowKeys>(engine, config, 2, &mut exchange);
            let count = allocations_in(|| {
                for key in 0..200 {
                    assert!(table.find_or_put_at(key).unwrap().at.is_some());
                    assert!(table.find_at(key).unwrap().is_some());
                }
            });
            assert_eq!(count, 0, "direct: {direct}");
        });
    }
}
