//! The cost table of docs/guide/containers.md, counted.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;

use probeline_containers::aggregator::{self, Aggregator};
use probeline_containers::array::{self, Array};
use probeline_containers::counters::{self, Counters};
use probeline_containers::filter::{self, Filter};
use probeline_containers::objects::{self, Objects};
use probeline_containers::put_once::{self, PutOnce};
use probeline_containers::queue::{self, Queue};
use probeline_containers::small_map::{self, SmallMap};
use probeline_exchange::testing::{Posts, Watched, on_ranks};
use probeline_shm::{Builder, Engine};
use probeline_transport::{Alone, AtomicScope, Exchange, Owner, Sizes};

fn engine(sizes: Sizes) -> Watched<Engine> {
    Watched::new(Builder::new(sizes).open(&mut Alone).unwrap())
}

/// Returns the numbers of READs, WRITEs and atomics.
fn counts(posts: Posts) -> [u64; 3] {
    [posts.reads, posts.writes, posts.compare_and_swaps + posts.fetch_adds]
}

fn add_one(word: &AtomicU64) {
    word.fetch_add(1, SeqCst);
}

/// Returns what a call posts as [`cost`] does, of which the first compare-and-swap finds a word that this has changed.
macro_rules! contended {
    ($structure:ident, $change:expr, $call:expr) => {{
        $structure.transport_mut().unwrap().rival = Some($change);
        cost!($structure, $call)
    }};
}

/// Returns the READs, WRITEs and atomics that a call posts.
macro_rules! cost {
    ($structure:ident, $call:expr) => {{
        let before = $structure.transport().posts;
        let _ = $call.unwrap();
        counts($structure.transport().posts.since(&before))
    }};
}

#[test]
fn array_operations() {
    let config = array::Config { direct: false, ..array::Config::new(100) };
    let engine = engine(config.sizes::<u64>(1, 8));
    let mut array = Array::open(engine, config, [array::Operation::EMPTY; 8], &mut Alone).unwrap();
    assert_eq!(cost!(array, array.get(3)), [1, 0, 0]);
    assert_eq!(cost!(array, array.put(3, &5_u64)), [0, 1, 0]);
    assert_eq!(cost!(array, array.fetch_add(3, 5)), [0, 0, 1]);
    assert_eq!(cost!(array, array.compare_and_swap(3, 1, 2)), [0, 0, 1]);
    assert_eq!(cost!(array, array.fetch_max(3, 20)), [0, 0, 2]);
    assert_eq!(cost!(array, array.fetch_max(4, 20)), [0, 0, 1]);
    assert_eq!(cost!(array, array.update(4, |value| value + 1)), [1, 0, 1]);
    assert_eq!(contended!(array, add_one, array.fetch_max(5, 20)), [0, 0, 2]);
    assert_eq!(contended!(array, add_one, array.update(4, |value| value + 1)), [1, 0, 2]);
    assert_eq!(cost!(array, array.gather(&[1, 2, 3], &mut [0; 3])), [3, 0, 0]);
    assert_eq!(cost!(array, array.scatter(&[1, 2, 3], &[0; 3])), [0, 3, 0]);
}

#[test]
fn counter_operations() {
    let config = counters::Config { direct: false, ..counters::Config::for_keys(100, 40) };
    let engine = engine(config.sizes(1, 8));
    let mut counters =
        Counters::open(engine, config, [counters::Operation::EMPTY; 8], &mut Alone).unwrap();
    assert_eq!(cost!(counters, counters.add(7, 1)), [1, 0, 1]);
    assert_eq!(cost!(counters, counters.add(7, 1)), [1, 0, 1]);
    assert_eq!(cost!(counters, counters.get(7)), [1, 0, 0]);
    assert_eq!(cost!(counters, counters.get(8)), [1, 0, 0]);
    assert_eq!(contended!(counters, add_one, counters.add(7, 1)), [1, 0, 2]);
    let keys = [1, 2, 3, 7, 8];
    assert_eq!(cost!(counters, counters.get_batch(&keys, &mut [0; 5])), [5, 0, 0]);
    assert_eq!(cost!(counters, counters.add_batch(&keys)), [5, 0, 5]);
}

#[test]
fn small_map_operations() {
    let config = small_map::Config { direct: false, ..small_map::Config::for_keys(100, 40) };
    for (words_tear, hit) in [(false, [1, 0, 0]), (true, [1, 0, 1])] {
        let engine = Builder::new(config.sizes(1, 8)).open(&mut Alone).unwrap();
        let engine = Watched::declaring(engine, |caps| caps.word_reads_whole = !words_tear);
        let operations = [small_map::Operation::EMPTY; 8];
        let mut map = SmallMap::open(engine, config, operations, &mut Alone).unwrap();
        assert_eq!(cost!(map, map.get(7)), [1, 0, 0]);
        assert_eq!(cost!(map, map.put(7, 1)), [1, 0, 1]);
        assert_eq!(cost!(map, map.get(7)), hit);
        assert_eq!(cost!(map, map.update(7, |value| value.unwrap() + 1)), [2, 0, 1 + hit[2]]);
        assert_eq!(contended!(map, add_one, map.put(7, 1)), [1, 0, 2]);
        let update = |value: Option<u64>| value.unwrap() + 1;
        assert_eq!(contended!(map, add_one, map.update(7, update)), [3, 0, 2 + hit[2]]);
        // The phase itself posts nothing.
        let find = cost!(map, map.find_phase(&mut Alone, |finder| finder.find(&7).unwrap()));
        assert_eq!(find, [1, 0, 0]);
    }
}

#[test]
fn put_once_operations() {
    let config = put_once::Config { direct: false, ..put_once::Config::for_keys(100) };
    let engine = Builder::new(config.sizes::<u64, u64>(1, 8)).open(&mut Alone).unwrap();
    let engine = Watched::declaring(engine, |caps| caps.word_reads_whole = false);
    let operations = [put_once::Operation::EMPTY; 8];
    let mut map = PutOnce::open(engine, config, operations, &mut Alone).unwrap();
    assert_eq!(cost!(map, map.insert(&7_u64, &8_u64)), [1, 1, 1]);
    assert_eq!(cost!(map, map.insert(&7, &9)), [1, 0, 0]);
    assert_eq!(cost!(map, map.find(&7)), [1, 0, 0]);
    assert_eq!(cost!(map, map.find(&6)), [1, 0, 0]);
    // Another key claims the bucket first.
    assert_eq!(contended!(map, |word| word.store(u64::MAX, SeqCst), map.insert(&5, &8)), [1, 1, 2]);
    assert_eq!(
        cost!(map, map.find_phase(&mut Alone, |finder| finder.find(&7).unwrap())),
        [1, 0, 0]
    );
}

#[test]
fn object_operations() {
    let config = objects::Config::new(100);
    let engine = engine(config.sizes::<32>(8));
    let operations = [objects::Operation::EMPTY; 8];
    let mut objects = Objects::<_, _, 32>::open(engine, config, operations, &mut Alone).unwrap();
    assert_eq!(cost!(objects, objects.put(Owner(0), &[7; 20])), [0, 1, 1]);
    let pointer = objects.put(Owner(0), &[7; 20]).unwrap().unwrap();
    assert_eq!(cost!(objects, objects.get(pointer)), [1, 0, 0]);
    let puts = cost!(objects, objects.put_batch(Owner(0), &[&[7; 20][..]; 3], &mut [None; 3]));
    assert_eq!(puts, [0, 3, 3]);
    assert_eq!(cost!(objects, objects.get_batch(&[pointer; 3], |_, _| ())), [3, 0, 0]);
    while objects.put(Owner(0), &[7; 20]).unwrap().is_some() {}
    assert_eq!(cost!(objects, objects.put(Owner(0), &[7; 20])), [0, 0, 1]);
}

#[test]
fn queue_operations() {
    let config = queue::Config { in_flight: 8, ..queue::Config::new(20) };
    let engine = engine(config.sizes::<[u64; 3]>(1, 8));
    let mut queue = Queue::open(engine, config, [queue::Operation::EMPTY; 8], &mut Alone).unwrap();
    let (host, value) = (Owner(0), [7; 3]);
    // The first operations look at the counters.
    assert_eq!(cost!(queue, queue.push(host, &value)), [0, 1, 2]);
    assert_eq!(cost!(queue, queue.pop(host)), [1, 0, 2]);
    for _ in 0..8 {
        assert_eq!(cost!(queue, queue.push(host, &value)), [0, 1, 1]);
        assert_eq!(cost!(queue, queue.push_batch(host, &[value; 8])), [0, 8, 1]);
        assert_eq!(cost!(queue, queue.pop_batch(host, &mut [value; 8])), [8, 0, 1]);
        assert_eq!(cost!(queue, queue.pop(host)), [1, 0, 1]);
        assert_eq!(cost!(queue, queue.pop(host)), [1, 0, 1]);
    }
    // Another pop takes the first of two values.
    assert_eq!(queue.push_batch(host, &[value; 2]).unwrap(), 2);
    assert_eq!(contended!(queue, add_one, queue.pop(host)), [2, 0, 2]);
    // Full as far as the client knows, which has not looked at the head.
    while queue.push(host, &value).unwrap() {}
    assert_eq!(cost!(queue, queue.push(host, &value)), [0, 0, 1]);
}

#[test]
fn filter_operations() {
    let config = filter::Config { words: 1, bits: 4, first_word: 0, direct: false };
    let engine = engine(config.sizes(1, 8));
    let mut filter =
        Filter::open(engine, config, [filter::Operation::EMPTY; 8], &mut Alone).unwrap();
    assert_eq!(cost!(filter, filter.insert(1)), [0, 0, 1]);
    assert_eq!(cost!(filter, filter.insert(1)), [0, 0, 1]);
    assert_eq!(cost!(filter, filter.insert(2)), [0, 0, 2]);
    assert_eq!(cost!(filter, filter.contains(2)), [1, 0, 0]);
    assert_eq!(contended!(filter, |word| word.store(1 << 63, SeqCst), filter.insert(3)), [0, 0, 2]);
    assert_eq!(cost!(filter, filter.contains_batch(&[1, 2, 3], &mut [false; 3])), [3, 0, 0]);
}

#[test]
fn aggregated_messages() {
    let config = aggregator::Config { block: 100, blocks: 8, ..aggregator::Config::default() };
    let engine = engine(config.sizes::<u64>(1, 8));
    let operations = [aggregator::Operation::EMPTY; 8];
    let mut messages = Aggregator::open(engine, config, operations, &mut Alone).unwrap();
    let send = |messages: &mut Aggregator<_, _, u64>| {
        (0..99)
            .try_for_each(|number| messages.send(Owner(0), &number).map(|is_sent| assert!(is_sent)))
    };
    // At the turns of the lane, the sender looks how far the receiver is.
    for nth in 0..20 {
        let asked = u64::from(nth > 0 && nth % 8 == 0);
        assert_eq!(cost!(messages, send(&mut messages)), [0, 0, 0]);
        let send_last = |messages: &mut Aggregator<_, _, u64>| {
            assert_eq!(messages.send(Owner(0), &99), Ok(true));
            messages.progress(|_, _| ())
        };
        assert_eq!(cost!(messages, send_last(&mut messages)), [0, 1, asked], "block {nth}");
        // Where the CPU sees what peers write, a receiver posts nothing.
        assert_eq!(cost!(messages, messages.progress(|_, _| ())), [0, 0, 0]);
    }
    assert_eq!(cost!(messages, messages.flush(&mut Alone, |_, _| ())), [0, 1, 0]);
}

/// Two hops: a WRITE by the sender, and one by the rank between them. The flush ends each lane twice.
#[test]
fn aggregated_messages_by_two_hops() {
    let default = aggregator::Config::default();
    let config = aggregator::Config { block: 10, one_hop: 2, ..default };
    let posts = on_ranks(3, |mut job| {
        let engine = Builder::new(config.sizes::<u64>(3, 8)).open(&mut job).unwrap();
        let engine = Watched::new(engine);
        let operations = [aggregator::Operation::EMPTY; 8];
        let mut messages = Aggregator::open(engine, config, operations, &mut job).unwrap();
        let count = if job.me() == Owner(1) { 10_u64 } else { 0 };
        (0..count).for_each(|number| assert!(messages.send(Owner(2), &number).unwrap()));
        messages.flush(&mut job, |from, _| assert_eq!(from, Owner(1))).unwrap();
        let posts = counts(messages.transport().posts);
        job.barrier().unwrap();
        posts
    });
    // Lanes of rank 0 are from all ranks, of rank 1 and of rank 2 from itself and from rank 0. The block of rank 0 may
    // be the one that ends its lane, too.
    assert!(matches!(posts[0], [0, 6..=7, 0]), "{posts:?}");
    assert_eq!(posts[1..], [[0, 1 + 4, 0], [0, 4, 0]]);
}

/// Where the CPU sees late what peers write, a receiver looks by READs, and tells of a block by an atomic.
#[test]
fn aggregated_messages_without_cpu_atomics() {
    let config = aggregator::Config { block: 10, blocks: 8, ..aggregator::Config::default() };
    let engine = Builder::new(config.sizes::<u64>(1, 2)).open(&mut Alone).unwrap();
    let engine = Watched::declaring(engine, |caps| caps.atomics = AtomicScope::Device);
    let operations = [aggregator::Operation::EMPTY; 2];
    let mut messages = Aggregator::open(engine, config, operations, &mut Alone).unwrap();
    for _ in 0..5 {
        for number in 0..10_u64 {
            assert_eq!(messages.send(Owner(0), &number), Ok(true));
        }
        let (before, mut received, mut looks) = (messages.transport().posts, 0, 0);
        while received < 10 {
            messages.progress(|_, _| received += 1).unwrap();
            looks += 1;
            assert!(looks < 100);
        }
        let [reads, writes, atomics] = counts(messages.transport().posts.since(&before));
        assert_eq!([writes, atomics], [0, 1]);
        assert!((1..=looks).contains(&reads));
    }
}
