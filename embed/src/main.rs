//! The structures embedded without std and without an allocator, with its own transport and
//! panic handler.
//!
//! The program fills a table through blocking calls, `submit` and batches, then queries it, also
//! with futures. Then it does the same with a map, and uses the containers and a region of pages. It exits with
//! 0 if every result is correct. Linking it proves that `table`, `map`, `containers`, `dsm` and `transport`
//! need neither std nor alloc. With the feature
//! `prove-no-panic` it links only if the optimizer has proved that no code in it can panic.
#![no_std]
#![no_main]

mod memory;

use core::ffi::c_int;
use core::future::Future;
use core::panic::PanicInfo;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use memory::Memory;
use probeline_containers::{
    Aggregator, Array, Counters, Filter, Objects, Plain, PutOnce, Queue, SmallMap, aggregator,
    array, counters, filter, objects, put_once, queue, small_map,
};
use probeline_dsm::{self as region, Region};
use probeline_map::{Map, Request, Written};
use probeline_pipeline::{Operation, OperationOf, Structure};
use probeline_table::{
    CacheEntry, ChunkChoice, Config, Ended, Finished, Intent, Keys, OneRoundtrip, Outcome,
    PairCacheLine, Probing, ReadAhead, ReadCost, Set, Shared, Table, Tag, TreeConfig, TreeTable,
    WideConfig, WideTable,
};
use probeline_transport::{Alone, Owner};

// The C library provides the program's entry point and `abort`; Rust's std is not linked.
#[link(name = "c")]
unsafe extern "C" {
    #[cfg(not(feature = "prove-no-panic"))]
    safe fn abort() -> !;
    #[cfg(feature = "prove-no-panic")]
    safe fn probeline_can_panic() -> !;
}

#[cfg(not(feature = "prove-no-panic"))]
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    abort()
}

/// Calls a symbol that does not exist, so that a panic left in the program fails the link.
#[cfg(feature = "prove-no-panic")]
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    probeline_can_panic()
}

// SAFETY: the prebuilt libcore refers to this symbol, and the program defines it only once. It is
// never called, because no panic unwinds with panic = "abort".
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

const BUCKETS: u64 = 4096;
/// Number of keys: 90 % of the buckets, so that probing crosses chunks and wraps around.
const KEYS: u64 = BUCKETS * 9 / 10;

// SAFETY: this is the only `main` in the program, with the signature that the C runtime calls.
#[unsafe(no_mangle)]
extern "C" fn main(_: c_int, _: *const *const u8) -> c_int {
    match run() {
        Some(()) => 0,
        None => 1,
    }
}

/// Opens a structure of one owner, with storage for four operations.
macro_rules! open {
    ($open:expr, $config:expr) => {
        $open(Memory::new(), $config, [Operation::EMPTY; 4], &mut Alone).ok()?
    };
}

/// Runs the paper's algorithm, then each extension of it.
fn run() -> Option<()> {
    let chunks = Config { chunk_buckets: 8, max_chunks: 512, ..Config::paper(BUCKETS) };
    fill_and_query(chunks)?;
    let choice = ChunkChoice::Adaptive(ReadCost { base_ps: 2_000_000, bucket_ps: 5_000 });
    let (ahead, claim) = (ReadAhead::Likely, OneRoundtrip::Auto);
    let overlapped = Config {
        chunk_choice: choice,
        chunk_buckets: 32,
        read_ahead: ahead,
        one_roundtrip: claim,
        ..chunks
    };
    fill_and_query(overlapped)?;
    fill_and_query(Config { direct: true, ..chunks })?;
    fill_and_query(Config { direct: true, probing: Probing::DoubleHash, ..chunks })?;
    for direct in [false, true] {
        fill_and_query_tree(direct)?;
        fill_and_query_wide(direct)?;
        fill_and_query_map(direct)?;
        use_containers(direct)?;
    }
    use_region()
}

/// Edits a region by pages, with and without polls, under a lock and around a barrier.
fn use_region() -> Option<()> {
    let config =
        region::Config { page_words: 64, edited_pages: 3, notices: 31, ..region::Config::new(500) };
    let mut memory = [0; 1_024];
    let memory = &mut memory[..];
    let region = Region::open(Memory::new(), config, [Operation::EMPTY; 4], memory, &mut Alone);
    let mut region = region.ok()?;
    region.edit(10..200).ok()?.fill(7_u32);
    region.acquire(3).ok()?;
    let (view, edit) = (100..110, 300..310);
    let ([view], [edit]) = region.access([view], [edit]).ok()?;
    edit.iter_mut().zip(view).for_each(|(to, from)| *to = *from);
    region.start_release(3).ok()?;
    while !region.poll().ok()? {}
    region.barrier(&mut Alone).ok()?;
    expect(region.view(200..301).ok()?.iter().sum::<u32>() == 7)
}

/// Inserts keys through blocking calls and in batches, then finds them through `submit`.
fn fill<S, K>(table: &mut Set<Memory, S, K>, keys: u64, key: impl Fn(u64) -> K::Key) -> Option<()>
where
    S: AsMut<[OperationOf<K>]>,
    K: Keys,
{
    const BATCH: u64 = 64;
    for number in 0..keys / 2 {
        expect(table.call(&key(number), Intent::FindOrPut) == Ok(Ended::Inserted))?;
    }
    let mut next = keys / 2;
    while next < keys {
        let size = BATCH.min(keys - next);
        let batch: [_; BATCH as usize] = core::array::from_fn(|nth| key(next + nth as u64));
        let mut outcomes = [Outcome::Full; BATCH as usize];
        let outcomes = outcomes.get_mut(..size as usize)?;
        table.find_or_put_batch(batch.get(..size as usize)?, outcomes).ok()?;
        expect(outcomes.iter().all(|outcome| *outcome == Outcome::Inserted))?;
        next += size;
    }
    let (mut next, mut found) = (0, 0);
    while found < keys {
        while next < keys
            && Structure::submit(table, Tag(next), &key(next), Intent::FindOrPut).is_ok()
        {
            next += 1;
        }
        let mut out = [Finished::default(); 4];
        for finished in table.poll_into(&mut out).ok()? {
            expect(finished.result == Ok(Ended::Found))?;
            found += 1;
        }
    }
    expect(table.len(&mut Alone) == Ok(keys))
}

fn fill_and_query(config: Config) -> Option<()> {
    let mut entries = [CacheEntry::EMPTY; 64];
    let mut table = open!(Table::open, config).with_cache(&mut entries[..]);
    fill(&mut table, KEYS, |number| number)?;
    expect(table.find(KEYS - 1) == Ok(true) && table.find(KEYS) == Ok(false))?;
    expect(table.find_or_put(u64::MAX).is_err())?;
    let mut target = open!(Table::open, config);
    expect(table.grow_into(&mut target, &mut Alone) == Ok(KEYS))?;
    expect(table.retain(&mut Alone, |key| key % 3 == 0) == Ok(KEYS - KEYS.div_ceil(3)))?;
    expect(table.find(3) == Ok(true) && table.find(4) == Ok(false))?;
    #[cfg(feature = "canary")]
    assert!(table.find(5) != Ok(true), "a panic that the proof must notice");
    let mut shared = Shared::new(table);
    expect(!block_on(shared.find(4))?)?;
    expect(block_on(shared.find_or_put(4))? == Outcome::Inserted)?;
    shared.table().clear(&mut Alone).ok()
}

/// Returns a key of four words.
fn long_key(number: u64) -> [u64; 4] {
    [number, 0, number % 7, 1]
}

/// Does the same with keys as trees of pairs.
fn fill_and_query_tree(direct: bool) -> Option<()> {
    const TREE_KEYS: u64 = 200;
    let buckets = Config { chunk_buckets: 8, max_chunks: 64, direct, ..Config::paper(1_024) };
    let config = TreeConfig { buckets, key_bits: 200 };
    let mut lines = [PairCacheLine::EMPTY; 16];
    let mut table = open!(TreeTable::open, config).with_cache(&mut lines[..]);
    fill(&mut table, TREE_KEYS, long_key)?;
    expect(table.find_or_put(&long_key(0)) == Ok(Outcome::Found))?;
    let mut left = 0;
    table.for_each_local(|key| left += u64::from(key[3] == 1)).ok()?;
    expect(left == TREE_KEYS)?;
    table.clear(&mut Alone).ok()
}

/// Does the same with keys of four words.
fn fill_and_query_wide(direct: bool) -> Option<()> {
    const WIDE_KEYS: u64 = 450;
    let buckets = Config { chunk_buckets: 8, max_chunks: 64, direct, ..Config::paper(512) };
    let config = WideConfig::<4> { buckets, entries_per_owner: 500 };
    let mut table = open!(WideTable::open, config);
    fill(&mut table, WIDE_KEYS, long_key)?;
    expect(table.find_or_put(&long_key(0)) == Ok(Outcome::Found))?;
    let mut target = open!(WideTable::open, config);
    expect(table.grow_into(&mut target, &mut Alone) == Ok(WIDE_KEYS))?;
    let removed = table.retain(&mut Alone, |key| key[0] % 3 == 0);
    expect(removed == Ok(WIDE_KEYS - WIDE_KEYS.div_ceil(3)))?;
    let mut shared = Shared::new(table);
    expect(!block_on(shared.find(&long_key(4)))?)?;
    expect(block_on(shared.find_or_put(&long_key(4)))? == Outcome::Inserted)?;
    shared.table().clear(&mut Alone).ok()
}

/// Runs each container, by the CPU and over the transport.
fn use_containers(direct: bool) -> Option<()> {
    let config = array::Config { direct, ..array::Config::new(100) };
    let mut array = open!(Array::open, config);
    array.put(7, &40_u64).ok()?;
    expect(array.fetch_add(7, 2) == Ok(40))?;
    array.add_batch(&[1, 7, 99, 7], &[1, 2, 3, 4]).ok()?;
    let mut values = [0; 3];
    array.gather(&[7, 99, 0], &mut values).ok()?;
    expect(values == [48, 3, 0] && array.get(100).is_err())?;
    expect(array.fetch_max(0, 9) == Ok(0) && array.sum(&mut Alone) == Ok(61))?;

    let config = put_once::Config { direct, ..put_once::Config::for_keys(100) };
    let mut map = open!(PutOnce::open, config);
    expect(map.insert(&[1_u64, 2], &3_u32) == Ok(put_once::Outcome::Inserted))?;
    let found = map.find_phase(&mut Alone, |finder| finder.find(&[1, 2]));
    expect(found == Ok(Ok(put_once::Outcome::Found(3))) && map.local().count() == 1)?;

    let config = small_map::Config { direct, ..small_map::Config::for_keys(100, 30) };
    let mut map = open!(SmallMap::open, config);
    expect(map.put(7, 20) == Ok(small_map::Outcome::New))?;
    expect(map.update(7, |value| value.unwrap_or(0) / 2) == Ok(small_map::Outcome::Was(20)))?;
    expect(
        map.find_phase(&mut Alone, |finder| finder.find(&7)) == Ok(Ok(small_map::Outcome::Was(10))),
    )?;

    let config = objects::Config::new(50);
    let mut objects = open!(Objects::<_, _, 40>::open, config);
    let pointer = objects.put(Owner(0), b"any bytes").ok()??;
    expect(objects.get(pointer).ok()??.bytes() == b"any bytes")?;

    let config = queue::Config { in_flight: 8, ..queue::Config::new(50) };
    let (mut queue, host) = (open!(Queue::open, config), Owner(0));
    expect(queue.push(host, &[1_u64; 3]) == Ok(true))?;
    expect(queue.push_batch(host, &[[2; 3]; 60]) == Ok(49))?;
    expect(queue.pop(host) == Ok(Some([1; 3])))?;
    expect(queue.pop_batch(host, &mut [[0; 3]; 60]) == Ok(49) && queue.pop(host) == Ok(None))?;

    let config = aggregator::Config { block: 4, blocks: 2, ..aggregator::Config::default() };
    let (mut messages, mut sum) = (open!(Aggregator::open, config), 0);
    for number in 0..30_u64 {
        while messages.send(host, &number) == Ok(false) {
            messages.progress(|_, number| sum += number).ok()?;
        }
    }
    messages.flush(&mut Alone, |_, number| sum += number).ok()?;
    expect(sum == 29 * 15)?;

    let config = counters::Config { direct, ..counters::Config::for_keys(100, 40) };
    let mut counters = open!(Counters::open, config);
    expect(counters.add_batch(&[1, 2, 1, 3, 1]) == Ok(0) && counters.get(1) == Ok(3))?;
    expect(counters.local().count() == 3)?;

    let config = filter::Config { direct, ..filter::Config::for_items(100, 0.001) };
    let mut filter = open!(Filter::open, config);
    expect(filter.insert(3) == Ok(false) && filter.insert(3) == Ok(true))?;
    let mut found = [false; 3];
    filter.contains_batch(&[3, 4, 3], &mut found).ok()?;
    expect(found == [true, false, true])
}

/// Does the same with a map of keys of 80 bytes and values of 104.
fn fill_and_query_map(direct: bool) -> Option<()> {
    const ENTRIES: u64 = 80;
    const BATCH: usize = 16;
    // Byte arrays of these lengths are `Plain` only if `probeline-map` itself enables a feature of
    // bytemuck: this package does not.
    let key = |number: u64| [u8::try_from(number).unwrap_or(u8::MAX); 80];
    let value = |number: u64| [u8::try_from(number ^ 3).unwrap_or(u8::MAX); 104];
    let config = probeline_map::Config { direct, ..probeline_map::Config::new(2 * ENTRIES) };
    let mut map = open!(Map::open, config);
    for number in 0..ENTRIES / 2 {
        expect(map.put(&key(number), &value(number)) == Ok(Written::Inserted))?;
    }
    expect(map.put_if_absent(&key(1), &value(7)) == Ok(Written::Present))?;
    expect(map.get_or_compute(&key(1), |_| value(7)) == Ok(value(1)))?;
    let keys: [_; BATCH] = core::array::from_fn(|nth| key(ENTRIES / 2 + nth as u64));
    let values: [_; BATCH] = core::array::from_fn(|nth| value(ENTRIES / 2 + nth as u64));
    let mut written = [Written::Dropped; BATCH];
    map.put_batch(&keys, &values, &mut written).ok()?;
    let mut found = [None; BATCH];
    map.get_batch(&keys, &mut found).ok()?;
    for ((found, written), value) in found.iter().zip(&written).zip(&values) {
        expect(*written == Written::Inserted && *found == Some(*value))?;
    }
    let mut out = [probeline_map::Finished::default(); 4];
    for number in 0..ENTRIES {
        while map.submit(Tag(number), &key(number), Request::Put(value(number))).is_err() {
            map.poll_into(&mut out).ok()?;
        }
    }
    while map.in_flight() > 0 {
        map.poll_into(&mut out).ok()?;
    }
    let evicted = map.stats().evictions;
    expect(map.len(&mut Alone) == Ok(ENTRIES - evicted))?;
    expect(map.remove(&key(ENTRIES - 1)) == Ok(Written::Removed))?;
    let mut local = 0;
    map.for_each_local(|_, _| local += 1).ok()?;
    expect(local == ENTRIES - evicted - 1)?;
    let mut shared = probeline_map::Shared::new(map);
    expect(block_on(shared.get(&key(ENTRIES - 1)))? == probeline_map::Outcome::Miss)?;
    shared.map().clear(&mut Alone).ok()
}

/// Polls a future until it is ready. The number of polls is bounded, because each operation of the
/// transport completes at its next poll.
fn block_on<O, E>(future: impl Future<Output = Result<O, E>>) -> Option<O> {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return result.ok();
        }
    }
}

fn expect(holds: bool) -> Option<()> {
    holds.then_some(())
}
