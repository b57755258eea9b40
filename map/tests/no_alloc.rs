//! Tests that no call allocates after opening: blocking calls, batches, `submit` and `poll_into`,
//! futures, and the collective calls.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Waker};

use crate::common::{AnyMap, Key, Value, key, on_shm, value};
use probeline_map::{Config, Finished, OperationError, Request, Shared, Tag, Written};
use probeline_transport::Alone;
use probeline_transport::conformance::allocations_in;

/// More keys than buckets, so that some are evicted.
const KEYS: u64 = 600;

fn blocking(map: &mut AnyMap<Key, Value>) {
    for number in 0..KEYS {
        map.put(&key(number), &value(number, 1)).unwrap();
        map.put_if_absent(&key(number / 2), &value(number, 2)).unwrap();
        map.get(&key(number / 3)).unwrap();
        map.get_or_compute(&key(number + 7), |_| value(number + 7, 3)).unwrap();
        map.remove(&key(number / 4)).unwrap();
    }
}

fn batches(map: &mut AnyMap<Key, Value>) {
    let keys: [Key; 50] = core::array::from_fn(|nth| key(nth as u64));
    let values: [Value; 50] = core::array::from_fn(|nth| value(nth as u64, 4));
    let mut written = [Written::Absent; 50];
    map.put_batch(&keys, &values, &mut written).unwrap();
    map.put_if_absent_batch(&keys, &values, &mut written).unwrap();
    map.get_batch(&keys, &mut [None; 50]).unwrap();
    map.remove_batch(&keys, &mut written).unwrap();
}

fn poll_form(map: &mut AnyMap<Key, Value>) {
    let (mut out, mut ended) = ([Finished::default(); 3], 0);
    for tag in 0..KEYS {
        let request = if tag % 2 == 0 { Request::Get } else { Request::Put(value(tag, 5)) };
        while map.submit(Tag(tag), &key(tag), request) == Err(OperationError::Busy) {
            ended += map.poll_into(&mut out).unwrap().len() as u64;
        }
    }
    while ended < KEYS {
        ended += map.poll_into(&mut out).unwrap().len() as u64;
    }
}

fn futures(map: &Shared<AnyMap<Key, Value>>) {
    let mut context = Context::from_waker(Waker::noop());
    let mut futures: [_; 16] = core::array::from_fn(|nth| Some(map.get(&key(nth as u64))));
    while futures.iter().any(Option::is_some) {
        for future in &mut futures {
            if let Some(here) = future
                && Pin::new(here).poll(&mut context).is_ready()
            {
                *future = None;
            }
        }
    }
}

#[test]
fn nothing_allocates() {
    for direct in [true, false] {
        let config = Config { direct, ..Config::new(300) };
        let mut map = on_shm::<Key, Value>(config, 8);
        let mut counts =
            vec![allocations_in(|| blocking(&mut map)), allocations_in(|| batches(&mut map))];
        counts.push(allocations_in(|| poll_form(&mut map)));
        assert!(map.stats().evictions > 0);
        let shared = Shared::new(map);
        counts.push(allocations_in(|| futures(&shared)));
        let mut map = shared.into_map();
        counts.push(allocations_in(|| {
            map.agree(&mut Alone).unwrap();
            map.len(&mut Alone).unwrap();
            map.clear(&mut Alone).unwrap();
        }));
        assert_eq!(counts, [0; 5], "direct: {direct}");
    }
}
