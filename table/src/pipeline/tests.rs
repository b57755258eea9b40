//! The pipeline over a transport that does what the test says, when it says so.

mod claims;
mod script;

use core::sync::atomic::Ordering::SeqCst;
use std::collections::BTreeSet;

use probeline_transport::{OpError, Owner, PostError};
use proptest::prelude::*;

use self::claims::claiming;
use self::script::{Scripted, pipeline};
use super::*;
use crate::error::SubmitError;
use crate::find_or_put::Intent;
use crate::table::Finished;

fn bucket(data: u64) -> Bucket {
    Bucket::new(data).unwrap()
}

/// The `nth` datum whose home is this bucket of owner 0.
fn at_home(pipeline: &Scripted, home: u64, nth: usize) -> u64 {
    let is_there = |data: &u64| {
        let position = pipeline.layout.home(bucket(*data));
        position.owner == 0 && position.index == home
    };
    (0..).filter(is_there).nth(nth).unwrap()
}

fn put(pipeline: &mut Scripted, tag: u64, data: u64) -> Result<(), SubmitError> {
    pipeline.submit(tag, bucket(data), Intent::FindOrPut)
}

fn poll(pipeline: &mut Scripted) -> Vec<(u64, Result<Outcome, OperationError>)> {
    let mut out = [Finished::default(); 4];
    let count = pipeline.poll(&mut out).unwrap();
    out[..count].iter().map(|end| (end.tag, end.result)).collect()
}

const INSERTED: Result<Outcome, OperationError> = Ok(Outcome::Inserted);
const FAILED: Result<Outcome, OperationError> = Err(OperationError::Failed(OpError::RetryExceeded));
const FAULT: Fault = Fault::OwnerLost(Owner(1));

#[test]
fn a_read_ahead_that_nobody_needs_delays_its_storage_only() {
    let mut pipeline = pipeline(1, 16, 2, 1, 8);
    put(&mut pipeline, 7, 1).unwrap();
    assert_eq!(pipeline.transport.posted.len(), 2, "the chunk and the one ahead");
    pipeline.transport.end(0);
    assert_eq!(poll(&mut pipeline), []);
    pipeline.transport.end(1);
    assert_eq!(poll(&mut pipeline), [(7, INSERTED)], "its claim has ended");

    assert_eq!(put(&mut pipeline, 8, 2), Err(SubmitError::Busy), "the READ ahead could land on it");
    assert_eq!(poll(&mut pipeline), []);
    pipeline.transport.end(0);
    assert_eq!(poll(&mut pipeline), [], "dropped");
    assert_eq!((pipeline.active, pipeline.stats.total().operations), (0, 1));
    put(&mut pipeline, 8, 2).unwrap();
}

#[test]
fn a_blocking_call_waits_for_the_read_ahead_of_another() {
    let mut pipeline = pipeline(1, 16, 2, 1, 8);
    put(&mut pipeline, 7, 1).unwrap();
    pipeline.transport.end(0);
    assert_eq!(poll(&mut pipeline), []);
    pipeline.transport.end(1);
    assert_eq!(poll(&mut pipeline), [(7, INSERTED)]);
    pipeline.transport.runs = true;
    assert_eq!(pipeline.run(bucket(1), Intent::Find), Ok(Outcome::Found));
    pipeline.quiesce().unwrap();
    assert_eq!((pipeline.active, pipeline.transport.in_flight()), (0, 0));
}

#[test]
fn a_blocking_call_refuses_where_only_the_caller_can_free_storage() {
    let mut pipeline = pipeline(1, 8, 1, 1, 8);
    pipeline.transport.runs = true;
    put(&mut pipeline, 7, 1).unwrap();
    let busy = Err(OperationError::Refused(SubmitError::Busy));
    assert_eq!(pipeline.run(bucket(2), Intent::Find), busy);
    assert_eq!(poll(&mut pipeline), [(7, INSERTED)], "unharmed");
    assert_eq!(pipeline.run(bucket(2), Intent::Find), Ok(Outcome::Absent));
}

/// The one read ahead brings an older view, of before the chunk in front of it was filled.
#[test]
fn a_stale_read_ahead_only_costs_a_claim() {
    let mut pipeline = pipeline(1, 16, 2, 2, 8);
    let wanted = at_home(&pipeline, 0, 8);
    put(&mut pipeline, 7, wanted).unwrap();
    pipeline.transport.end(1);
    assert_eq!(poll(&mut pipeline), [], "the second chunk has landed, empty");
    for place in 0..9 {
        let filler = bucket(at_home(&pipeline, 0, place));
        pipeline.transport.windows[0][place].store(filler.word(), SeqCst);
    }
    pipeline.transport.end(0);
    assert_eq!(poll(&mut pipeline), []);
    pipeline.transport.end(0);
    assert_eq!(poll(&mut pipeline), [(7, Ok(Outcome::Found))], "by the claim that it lost");
    let found = pipeline.stats.found;
    assert_eq!((found.claims, found.claims_lost, found.effective_roundtrips), (1, 1, 2));
}

#[test]
fn who_waits_for_room_is_not_overtaken_for_ever() {
    let mut pipeline = pipeline(1, 8, 1, 3, 2);
    pipeline.transport.windows[0][0].store(bucket(1).word(), SeqCst);
    for tag in 0..3 {
        put(&mut pipeline, tag, 1).unwrap();
    }
    assert_eq!(pipeline.transport.posted.len(), 2, "the third waits for room");
    let mut tags = Vec::new();
    for tag in 3..20 {
        pipeline.transport.end(0);
        tags.extend(poll(&mut pipeline).iter().map(|(tag, _)| *tag));
        // There may be no storage yet.
        let _ = put(&mut pipeline, tag, 1);
    }
    assert!(tags.contains(&2), "{tags:?}");
    assert!(tags.is_sorted(), "{tags:?}");
}

#[test]
fn an_operation_that_fails_while_it_waits_for_room_is_reported_once() {
    let mut pipeline = pipeline(1, 16, 2, 2, 3);
    let data = [0, 1].map(|nth| at_home(&pipeline, 0, nth));
    put(&mut pipeline, 7, data[0]).unwrap();
    put(&mut pipeline, 8, data[1]).unwrap();
    assert_eq!(pipeline.transport.posted.len(), 3, "no room for the second's READ ahead");
    pipeline.transport.fail(2, OpError::RetryExceeded);
    assert_eq!(poll(&mut pipeline), [], "it still stands in the queue");
    pipeline.transport.end(0);
    assert_eq!(poll(&mut pipeline), [], "the first claims");
    pipeline.transport.end(0);
    assert_eq!(poll(&mut pipeline), [(8, FAILED)]);
    pipeline.transport.end(0);
    assert_eq!(poll(&mut pipeline), [(7, INSERTED)]);
    assert_eq!((pipeline.active, pipeline.transport.in_flight()), (0, 0));
    assert_eq!(pipeline.stats.failed, 1);
}

#[test]
fn a_failed_read_ahead_ends_an_operation_whose_claim_is_in_flight() {
    let mut pipeline = pipeline(1, 16, 2, 1, 8);
    put(&mut pipeline, 7, 1).unwrap();
    pipeline.transport.end(0);
    assert_eq!(poll(&mut pipeline), []);
    pipeline.transport.fail(0, OpError::RetryExceeded);
    assert_eq!(poll(&mut pipeline), [(7, FAILED)], "its outcome is unknown");
    assert_eq!(put(&mut pipeline, 8, 1), Err(SubmitError::Busy));
    pipeline.transport.end(0);
    assert_eq!(poll(&mut pipeline), [], "the claim's end is dropped");
    pipeline.transport.runs = true;
    let found = Ok(Outcome::Found);
    assert_eq!(pipeline.run(bucket(1), Intent::FindOrPut), found, "but it took effect");
}

/// The second half of a chunk that straddles two owners is refused: the first is in flight.
#[test]
fn half_a_chunk_refused_ends_the_operation() {
    let mut pipeline = pipeline(2, 16, 1, 1, 8);
    let data = at_home(&pipeline, 12, 0);
    pipeline.transport.refuse = Some((1, PostError::OutOfRange));
    put(&mut pipeline, 7, data).unwrap();
    assert_eq!(pipeline.transport.posted.len(), 1);
    let refused = Err(OperationError::Post(PostError::OutOfRange));
    assert_eq!(poll(&mut pipeline), [(7, refused)]);
    assert_eq!(put(&mut pipeline, 8, data), Err(SubmitError::Busy), "half of it is in flight");
    pipeline.transport.end(0);
    assert_eq!(poll(&mut pipeline), []);
    put(&mut pipeline, 8, data).unwrap();
    assert_eq!(pipeline.transport.posted.len(), 2);
}

#[test]
fn half_a_chunk_posted_to_a_dying_transport_ends_by_the_fault() {
    let mut pipeline = pipeline(2, 16, 1, 1, 8);
    let data = at_home(&pipeline, 12, 0);
    pipeline.transport.refuse = Some((1, PostError::Closed));
    put(&mut pipeline, 7, data).unwrap();
    pipeline.transport.die(FAULT);
    assert_eq!(poll(&mut pipeline), [(7, Err(OperationError::Failed(OpError::Flushed)))]);
    assert_eq!(pipeline.poll(&mut [Finished::default()]), Err(FAULT));
}

#[test]
fn ends_of_an_earlier_generation_are_dropped() {
    let mut pipeline = pipeline(1, 8, 1, 1, 8);
    put(&mut pipeline, 7, 1).unwrap();
    let (token, action) = pipeline.transport.posted[0];
    let name = Name::from_token(token);
    let earlier = Name { generation: name.generation.wrapping_sub(1), ..name }.token();
    let stray = Completion { token: earlier, result: Err(OpError::RetryExceeded) };
    pipeline.transport.ended.push_back((stray, action));
    let nobody = Name { operation: 9, ..name }.token();
    pipeline.transport.ended.push_back((Completion { token: nobody, result: Ok(0) }, action));
    assert_eq!(poll(&mut pipeline), []);
    pipeline.transport.runs = true;
    assert_eq!(poll(&mut pipeline), []);
    assert_eq!(poll(&mut pipeline), [(7, INSERTED)]);
}

/// One operation of each kind when the transport dies: ended and not reported, reported with a
/// READ in flight, in flight, and waiting for room.
#[test]
fn every_end_is_reported_before_the_fault() {
    let mut pipeline = pipeline(1, 16, 2, 5, 4);
    put(&mut pipeline, 1, 1).unwrap();
    pipeline.transport.end(0);
    assert_eq!(poll(&mut pipeline), []);
    pipeline.transport.end(1);
    assert_eq!(poll(&mut pipeline), [(1, INSERTED)], "a READ ahead of it is in flight");
    put(&mut pipeline, 2, 1).unwrap();
    pipeline.transport.end(1);
    assert_eq!(pipeline.poll(&mut []), Ok(0), "the second is found and not reported");
    for tag in 3..6 {
        put(&mut pipeline, tag, tag).unwrap();
    }
    assert!(!pipeline.waiting.is_empty());
    assert_eq!(put(&mut pipeline, 6, 6), Err(SubmitError::Busy));

    pipeline.transport.die(FAULT);
    let mut ends = Vec::new();
    let mut out = [Finished::default()];
    while let Ok(count) = pipeline.poll(&mut out) {
        ends.extend(out[..count].iter().map(|end| (end.tag, end.result.is_ok())));
        assert!(ends.len() <= 4, "{ends:?}");
    }
    ends.sort_unstable();
    assert_eq!(ends, [(2, true), (3, false), (4, false), (5, false)]);
    assert_eq!(pipeline.poll(&mut out), Err(FAULT));
    assert_eq!((pipeline.active, pipeline.quiesce()), (0, Err(FAULT)));

    assert_eq!(pipeline.run(bucket(1), Intent::Find), Err(OperationError::Fault(FAULT)));
    for tag in 6..11 {
        put(&mut pipeline, tag, 1).unwrap();
    }
    let mut tags = BTreeSet::new();
    for _ in 6..11 {
        assert_eq!(pipeline.poll(&mut out), Ok(1));
        assert_eq!(out[0].result, Err(OperationError::Fault(FAULT)));
        tags.insert(out[0].tag);
    }
    assert_eq!(tags, (6..11).collect());
    assert_eq!(pipeline.poll(&mut out), Err(FAULT));
}

proptest! {
    /// However long an end is kept back while others come, failures among them: each operation is
    /// reported once, and storage comes back.
    #[test]
    fn any_order_of_ends_does(
        operations in 1_u32..6,
        depth in 2_u32..7,
        chunks in 1_u32..4,
        failures in prop_oneof![Just(0), Just(5_u8)],
        claims_first: bool,
        steps in prop::collection::vec((any::<u8>(), any::<prop::sample::Index>()), 1..400),
    ) {
        let mut pipeline = pipeline(2, 16, chunks, operations, depth);
        if claims_first {
            pipeline = claiming(pipeline);
        }
        let (mut running, mut inserted) = (BTreeSet::new(), BTreeSet::new());
        let mut check = |pipeline: &mut Scripted, running: &mut BTreeSet<(u64, u64)>| {
            for (tag, result) in poll(pipeline) {
                let data = tag % 40;
                prop_assert!(running.remove(&(tag, data)), "{} was reported twice", tag);
                if result == INSERTED {
                    prop_assert!(inserted.insert(data), "{} was inserted twice", data);
                }
                prop_assert!(result != Ok(Outcome::Found) || failures > 0 || inserted.contains(&data)
                    || running.iter().any(|&(_, other)| other == data));
            }
            Ok(())
        };
        for (tag, (what, which)) in (0..).map(|tag| tag * 7).zip(steps) {
            if what % 2 == 0 && put(&mut pipeline, tag, tag % 40).is_ok() {
                running.insert((tag, tag % 40));
            } else if !pipeline.transport.posted.is_empty() {
                let nth = which.index(pipeline.transport.posted.len());
                if what / 2 % 100 < failures {
                    pipeline.transport.fail(nth, OpError::RetryExceeded);
                } else {
                    pipeline.transport.end(nth);
                }
            }
            if what % 3 == 0 {
                check(&mut pipeline, &mut running)?;
            }
        }
        // Far more polls than there can be posts left.
        for _ in 0..10_000 {
            pipeline.transport.runs = true;
            check(&mut pipeline, &mut running)?;
        }
        prop_assert_eq!(running.len(), 0, "never reported");
        prop_assert_eq!((pipeline.active, pipeline.transport.in_flight()), (0, 0));
        for tag in 0..u64::from(operations) {
            prop_assert_eq!(put(&mut pipeline, tag, 1), Ok(()), "storage is lost");
        }
    }
}
