//! Calls that every structure has from its front: operations, batches, futures, and results that no call
//! loses.

use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::task::Wake;

use probeline_exchange::testing::Watched;
use probeline_pipeline::{
    BatchError, CollectiveError, Error, Finished, Operation, OperationFuture, Structure, Tag,
};
use probeline_sim::Engine;
use probeline_transport::{Alone, Fault, Owner, Transport};

use crate::counters::{Array, OPERATIONS, SHAPE, Shape, alone, cluster, open};

/// Calls by the CPU within which the transport is polled.
const CALLS: u64 = 6_400;

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A second structure on an engine must not receive completions of the first one.
#[test]
fn returns_idle_engine() {
    let mut engine = cluster(1).engine(Owner(0)).unwrap();
    for _ in 0..20 {
        let mut array = open(&mut engine, SHAPE, OPERATIONS, &mut Alone).unwrap();
        (0..4).for_each(|tag| array.submit(Tag(tag), &tag, 1).unwrap());
        assert_eq!(array.into_transport().in_flight(), 0);
    }
}

#[test]
fn refuses_calls_without_free_storage() {
    for ended in [false, true] {
        let mut array = alone();
        (0..4).for_each(|tag| {
            assert!(array.has_room());
            array.submit(Tag(tag), &tag, 1).unwrap();
        });
        assert!(!array.has_room());
        if ended {
            array.transport_mut().unwrap();
        }
        let mut results = [Ok(9); 2];
        array.call_all(&[(5, 1), (6, 1)], &mut results).unwrap();
        assert_eq!(results, [Err(Error::Busy); 2]);
        assert_eq!(array.call(&7, 1), Err(Error::Busy));
        let shared = RefCell::new(array);
        {
            let mut future = OperationFuture::new(&shared, &7, 1);
            assert!((0..100).any(|_| poll(&mut future) == Poll::Ready(Err(Error::Busy))));
        }
        let mut array = shared.into_inner();
        let mut ends = 0;
        while ends < 4 {
            ends += array.poll_into(&mut [Finished::default(); 4]).unwrap().len();
        }
        assert_eq!(array.call(&7, 1), Ok(0));
    }
}

#[test]
fn stores_each_batch_result() {
    let mut array = alone();
    let requests: Vec<_> = (0..40).map(|nth| (nth % 8, 1)).collect();
    let mut results = vec![Err(Error::Window); 40];
    array.call_all(&requests, &mut results).unwrap();
    let sum: u64 = results.into_iter().map(Result::unwrap).sum();
    assert_eq!(sum, 8 * (1 + 2 + 3 + 4));
    let mut results = [Ok(9); 3];
    array.call_all(&[(1, 1), (u64::MAX, 1), (2, 1)], &mut results).unwrap();
    assert_eq!(results, [Ok(5), Err(Error::Window), Ok(5)]);
    let refused = array.call_all(&[(1, 1)], &mut results).unwrap_err();
    assert!(matches!(refused, BatchError::Lengths { keys: 1, found: 3, .. }), "{refused:?}");
    assert_eq!(array.call(&1, 0), Ok(6));
}

/// Only a poll detects lost owners, so calls, batches and futures that the CPU runs poll now and then.
#[test]
fn polls_among_cpu_calls() {
    type Direct = Array<Watched<Engine>>;
    let forms: [fn(&RefCell<Direct>); 3] = [
        |array| (0..CALLS).for_each(|nth| assert_eq!(array.borrow_mut().call(&3, 1), Ok(nth))),
        |array| {
            let mut results = [Ok(0); 64];
            let batches = CALLS / results.len() as u64;
            (0..batches)
                .for_each(|_| array.borrow_mut().call_all(&[(3, 1); 64], &mut results).unwrap());
        },
        |array| {
            for _ in 0..CALLS {
                let mut future = OperationFuture::new(array, &3, 1);
                while poll(&mut future).is_pending() {}
            }
        },
    ];
    // Operations of a batch that the pipeline runs, and each poll of a future, poll more often.
    for (form, most) in forms.into_iter().zip([200, 2_000, 4 * CALLS]) {
        let engine = Watched::new(cluster(1).engine(Owner(0)).unwrap());
        let shape = Shape { direct: true, ..SHAPE };
        let array = RefCell::new(open(engine, shape, OPERATIONS, &mut Alone).unwrap());
        let before = array.borrow().transport().polls;
        form(&array);
        let mut array = array.into_inner();
        let polls = array.transport().polls - before;
        assert!((100..most).contains(&polls), "{polls} polls, at most {most}");
        assert_eq!(array.call(&3, 0), Ok(CALLS));
    }
}

/// A lost owner ends operations in flight with its fault, and every later call.
#[test]
fn reports_results_before_fault() {
    let cluster = cluster(2);
    let engine = cluster.engine(Owner(0)).unwrap();
    let mut array: Array<_> =
        Structure::new(engine, SHAPE, vec![Operation::EMPTY; OPERATIONS]).unwrap();
    (0..4).for_each(|tag| array.submit(Tag(tag), &tag, 1).unwrap());
    cluster.kill(Owner(1));
    let (mut tags, mut out) = (Vec::new(), [Finished::default()]);
    let fault = loop {
        match array.poll_into(&mut out) {
            Ok(ended) => tags.extend(ended.iter().map(|end| end.tag.0)),
            Err(error) => break error,
        }
    };
    tags.sort_unstable();
    assert_eq!((tags, fault), (vec![0, 1, 2, 3], Fault::OwnerLost(Owner(1)).into()));
    assert_eq!(array.call(&0, 1), Err(fault));
    assert_eq!(array.submit(Tag(9), &0, 1), Err(fault));
    let mut results = [Ok(0)];
    array.call_all(&[(0, 1)], &mut results).unwrap();
    assert_eq!(results, [Err(fault)]);
    assert_eq!(array.len(&mut Alone), Err(CollectiveError::Operation(fault)));
}

/// An operation of a dropped future continues, and frees its storage.
#[test]
fn frees_storage_of_dropped_futures() {
    let shared = RefCell::new(alone());
    for nth in 0..20 {
        let mut futures: Vec<_> = (0..4).map(|_| OperationFuture::new(&shared, &5, 1)).collect();
        assert!(futures.iter_mut().all(|future| poll(future).is_pending()), "{nth}");
        futures.clear();
        let mut last = OperationFuture::new(&shared, &5, 0);
        assert!((0..100).any(|_| poll(&mut last) == Poll::Ready(Ok(4 * (nth + 1)))), "{nth}");
    }
    drop(OperationFuture::new(&shared, &5, 1));
    assert_eq!(shared.into_inner().call(&5, 0), Ok(80), "one that was not polled does nothing");
}

/// All storage holds results that their tasks have not taken: a further future waits for them.
#[test]
fn waits_for_untaken_results() {
    let shared = RefCell::new(alone());
    let mut running: Vec<_> = (0..4).map(|_| OperationFuture::new(&shared, &5, 1)).collect();
    assert!(running.iter_mut().all(|future| poll(future).is_pending()));
    let mut last = OperationFuture::new(&shared, &5, 1);
    assert!((0..200).all(|_| poll(&mut last).is_pending()));
    for future in &mut running {
        assert!((0..100).any(|_| poll(future).is_ready()));
    }
    assert!((0..100).any(|_| poll(&mut last) == Poll::Ready(Ok(4))));
}

/// An executor that polls only woken tasks ends all of them, whose operations overlap: in as many
/// tasks, they take little more time than one.
#[test]
fn wakes_overlapping_tasks() {
    #[derive(Default)]
    struct Woken(AtomicU64);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Release);
        }
    }

    let run_ns = |tasks: usize| {
        let shared = &RefCell::new(alone());
        let start_ns = shared.borrow().transport().now_ns();
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let task = |_| {
            Box::pin(async move {
                for _ in 0..16 / tasks {
                    OperationFuture::new(shared, &5, 1).await.unwrap();
                }
            })
        };
        let mut running: Vec<_> = (0..tasks).map(task).collect();
        while !running.is_empty() {
            let before = woken.0.load(Acquire);
            let mut context = Context::from_waker(&waker);
            running.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
            let wakes = woken.0.load(Acquire) - before;
            assert!(wakes >= running.len() as u64, "{wakes} wakes of {} tasks", running.len());
        }
        shared.borrow().transport().now_ns() - start_ns
    };
    let (alone_ns, together_ns) = (run_ns(1), run_ns(4));
    assert!(together_ns * 3 < alone_ns, "{together_ns} ns in 4 tasks, {alone_ns} ns in one");
}
