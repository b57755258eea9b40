//! Edge cases: an engine used by two structures in turn, calls beside submitted operations, and panics.

use core::panic::AssertUnwindSafe;
use core::sync::atomic::Ordering::SeqCst;
use std::panic::catch_unwind;

use probeline_containers::array::{self, Array};
use probeline_containers::counters::{self, Counts, WideCounters};
use probeline_containers::put_once::{self, PutOnce};
use probeline_containers::queue::{self, Queue};
use probeline_containers::{Bytes, Each, OperationError, Tag};
use probeline_pipeline::{Finished, Operation, Structure};
use probeline_shm::Builder;
use probeline_sim::Cluster;
use probeline_transport::{Alone, AtomicScope, Owner, Pending, Splitter, Transport};

/// Without agreement of all owners no CPU runs an operation, which may be beside atomics of a NIC.
#[test]
fn posts_without_agreement() {
    let config = counters::Config { lines: 4, key_bits: 40, first_word: 0, direct: true };
    let sim = probeline_sim::Config {
        atomics: AtomicScope::Device,
        ..probeline_sim::Config::new(1, config.sizes(1, 4))
    };
    let cluster = Cluster::new(sim).unwrap();
    let engine = cluster.engine(Owner(0)).unwrap();
    let operations = [Operation::EMPTY; 4];
    let mut counters = Structure::<_, _, Each<Counts>>::new(engine, config, operations).unwrap();
    let _ = counters.call(&7, counters::Action::Add(1)).unwrap();
    assert!(cluster.counters().atomics > 0);
}

#[test]
fn refuses_values_of_other_size() {
    let too_short = Bytes::<32>::new(b"x").unwrap();
    let refused = OperationError::Value { bits: 8, max: 256 };
    for direct in [false, true] {
        let config = array::Config { element_bytes: 32, direct, ..array::Config::new(4) };
        let sizes = config.sizes::<Bytes<32>>(1, 1);
        let mut array = on_shm!(Array::open, config, sizes, 1, &mut Alone).unwrap();
        assert_eq!(array.put(1, &too_short), Err(refused));
        assert!(array.fill(&too_short, &mut Alone).is_err());
    }
    let config = queue::Config { value_bytes: 32, ..queue::Config::new(4) };
    let sizes = config.sizes::<Bytes<32>>(1, 1);
    let mut queue = on_shm!(Queue::open, config, sizes, 1, &mut Alone).unwrap();
    assert_eq!(queue.push(Owner(0), &too_short), Err(refused));
    assert_eq!(queue.pop(Owner(0)), Ok(None), "a refused push takes no ticket");
}

#[test]
fn accepts_any_ticket_and_count() {
    let config = queue::Config::new(4);
    let sizes = config.sizes::<u64>(1, 1);
    let mut queue = on_shm!(Queue::open, config, sizes, 1, &mut Alone).unwrap();
    assert_eq!(queue.skip(Owner(0), u64::MAX), Ok(false));
    assert!(queue.push(Owner(0), &5_u64).unwrap());
    assert_eq!(queue.call(&Owner(0), queue::Action::Take(u64::MAX)), Ok(queue::Outcome::Full));
    assert_eq!(queue.pop(Owner(0)), Ok(Some(5)));
    assert!(queue.call(&Owner(0), queue::Action::Advance(1, u64::MAX)).is_err());
}

/// A call first completes an insert of this client that is in flight.
#[test]
fn finds_beside_own_insert() {
    let config = put_once::Config::for_keys(100);
    let sizes = config.sizes::<[u64; 2], u32>(1, 1);
    let mut map = on_shm!(PutOnce::open, config, sizes, 1, &mut Alone).unwrap();
    map.submit(Tag(1), &[1_u64, 2], put_once::Action::Insert(7_u32)).unwrap();
    let mut out = [Finished::default(); 1];
    // The READ, then the compare-and-swap that claims the bucket.
    for _ in 0..2 {
        assert!(map.poll_into(&mut out).unwrap().is_empty());
    }
    assert_eq!(map.find(&[1, 2]), Ok(put_once::Outcome::Found(7)));
    assert_eq!(map.poll_into(&mut out).unwrap().len(), 1, "the result of the insert remains");
}

/// Completions of a structure that was dropped have the tokens of the next one.
#[test]
fn ignores_operations_of_dropped_structure() {
    let config = array::Config { direct: false, ..array::Config::new(8) };
    let mut engine = Builder::new(config.sizes::<u64>(1, 4)).open(&mut Alone).unwrap();
    let operations = [Operation::EMPTY; 4];
    let mut array = Array::<_, _, u64>::open(&mut engine, config, operations, &mut Alone).unwrap();
    array.submit(Tag(0), &0, array::Action::Add(100)).unwrap();
    let operations = [Operation::EMPTY; 4];
    let mut array = Array::<_, _, u64>::open(&mut engine, config, operations, &mut Alone).unwrap();
    assert_eq!([array.fetch_add(0, 1), array.fetch_add(0, 1)], [Ok(100), Ok(101)]);
    array.submit(Tag(0), &0, array::Action::Add(100)).unwrap();
    let mut storage = [Pending::EMPTY; 4];
    let splitter = Splitter::new(&mut engine, [config.sizes::<u64>(1, 4)], &mut storage).unwrap();
    let [channel] = splitter.channels().unwrap();
    let operations = [Operation::EMPTY; 4];
    let mut array = Array::<_, _, u64>::open(channel, config, operations, &mut Alone).unwrap();
    assert_eq!([array.fetch_add(0, 1), array.fetch_add(0, 1)], [Ok(202), Ok(203)]);
}

#[test]
fn completes_operations_after_panic() {
    let config = array::Config { direct: false, ..array::Config::new(64) };
    let open = Array::<_, _, u64>::open;
    let mut array = on_shm!(open, config, config.sizes::<u64>(1, 16), 16, &mut Alone).unwrap();
    let indices: Vec<u64> = (0..64).collect();
    for _ in 0..3 {
        let batch = AssertUnwindSafe(|| {
            array.run_all(&indices, |_| Some(array::Action::Get), |_, _| panic!("in a closure"))
        });
        catch_unwind(batch).unwrap_err();
    }
    let mut out = [Finished::default(); 16];
    for _ in 0..100 {
        array.poll_into(&mut out).unwrap();
    }
    assert_eq!((array.in_flight(), array.transport().in_flight()), (0, 0));
    assert_eq!(array.put(3, &4), Ok(()));
}

/// READs of a claimed bucket do not reduce the compare-and-swaps that an add may lose.
#[test]
fn counts_waits_apart_from_swaps() {
    let config = counters::Config { lines: 1, key_bits: 100, first_word: 0, direct: false };
    let cluster = Cluster::new(probeline_sim::Config::new(1, config.sizes(1, 1))).unwrap();
    let engine = cluster.engine(Owner(0)).unwrap();
    let mut counters = WideCounters::open(engine, config, [Operation::EMPTY], &mut Alone).unwrap();
    let _ = counters.add(7, 1).unwrap();
    let at = (0..8).find(|nth| counters.transport().window()[*nth].load(SeqCst) != 0).unwrap();
    let second = counters.transport().window()[at + 1].swap(0, SeqCst);
    counters.submit(Tag(0), &7, counters::Action::Add(1)).unwrap();
    let before = cluster.counters();
    let mut out = [counters::Finished::default(); 1];
    // The READ of the line, and 63 of the bucket.
    while cluster.counters().reads < before.reads + 64 {
        assert!(counters.poll_into(&mut out).unwrap().is_empty());
    }
    counters.transport().window()[at + 1].store(second, SeqCst);
    // Another client counts before each compare-and-swap until the first one.
    while cluster.counters().atomics == before.atomics {
        counters.transport().window()[at].fetch_add(1, SeqCst);
        assert!(counters.poll_into(&mut out).unwrap().is_empty());
    }
    let ended = (0..20).find_map(|_| counters.poll_into(&mut out).unwrap().first().copied());
    assert!(ended.expect("two more compare-and-swaps").result.is_ok());
}
