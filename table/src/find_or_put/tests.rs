//! Tests of operations in the pipeline, over a transport on which they complete when the test
//! decides.

mod claims;
mod script;

use core::sync::atomic::Ordering::SeqCst;
use std::collections::BTreeSet;

use probeline_pipeline::Tag;
use probeline_transport::{Completion, Fault, OpError, Owner, PostError, Token, Transport};
use proptest::prelude::*;

use self::claims::claiming;
use self::script::{Scripted, pipeline};
use crate::bucket::Bucket;
use crate::error::OperationError;
use crate::find_or_put::FindOrPut;
use crate::outcome::{Ended, Intent};
use crate::set::Finished;

fn bucket(key: u64) -> Bucket {
    Bucket::new(key).unwrap()
}

/// Returns the `nth` key whose home is this bucket of owner 0.
fn at_home(pipeline: &Scripted, home: u64, nth: usize) -> u64 {
    let is_there = |key: &u64| {
        let position = pipeline.shared().layout.home(bucket(*key));
        position.owner == 0 && position.index == home
    };
    (0..).filter(is_there).nth(nth).unwrap()
}

fn operation(pipeline: &Scripted, key: u64, intent: Intent) -> FindOrPut {
    FindOrPut::new(bucket(key), intent, pipeline.shared())
}

fn put(pipeline: &mut Scripted, tag: u64, key: u64) -> Result<(), OperationError> {
    let operation = operation(pipeline, key, Intent::FindOrPut);
    pipeline.submit(Tag(tag), operation)
}

fn call(pipeline: &mut Scripted, key: u64, intent: Intent) -> Result<Ended, OperationError> {
    let operation = operation(pipeline, key, intent);
    pipeline.call(operation)
}

fn poll(pipeline: &mut Scripted) -> Vec<(u64, Result<Ended, OperationError>)> {
    let mut out = [Finished::default(); 4];
    let ended = pipeline.poll_into(&mut out).unwrap();
    ended.iter().map(|end| (end.tag.0, end.result)).collect()
}

/// Asserts that the pipeline and its transport are idle. A pipeline that waits for a completion
/// that never comes hangs here.
fn assert_idle(pipeline: &mut Scripted) {
    pipeline.quiesce().unwrap();
    assert_eq!((pipeline.in_flight(), pipeline.transport().in_flight()), (0, 0));
}

const INSERTED: Result<Ended, OperationError> = Ok(Ended::Inserted);
const FAILED: Result<Ended, OperationError> = Err(OperationError::Failed(OpError::RetryExceeded));
const FAULT: Fault = Fault::OwnerLost(Owner(1));
const DEAD: OperationError = OperationError::Fault(FAULT);

#[test]
fn an_unneeded_read_ahead_delays_only_its_storage() {
    let mut pipeline = pipeline(1, 16, 2, 1, 8);
    put(&mut pipeline, 7, 1).unwrap();
    assert_eq!(pipeline.transport_mut().posted.len(), 2, "the chunk and the one ahead");
    pipeline.transport_mut().end(0);
    assert_eq!(poll(&mut pipeline), []);
    pipeline.transport_mut().end(1);
    assert_eq!(poll(&mut pipeline), [(7, INSERTED)], "its claim has ended");

    assert_eq!(
        put(&mut pipeline, 8, 2),
        Err(OperationError::Busy),
        "the READ ahead could land on it"
    );
    assert_eq!(poll(&mut pipeline), []);
    pipeline.transport_mut().end(0);
    assert_eq!(poll(&mut pipeline), [], "dropped");
    assert_idle(&mut pipeline);
    assert_eq!(pipeline.shared().stats.total().operations, 1);
    put(&mut pipeline, 8, 2).unwrap();
}

#[test]
fn a_blocking_call_waits_for_the_read_ahead_of_another() {
    let mut pipeline = pipeline(1, 16, 2, 1, 8);
    put(&mut pipeline, 7, 1).unwrap();
    pipeline.transport_mut().end(0);
    assert_eq!(poll(&mut pipeline), []);
    pipeline.transport_mut().end(1);
    assert_eq!(poll(&mut pipeline), [(7, INSERTED)]);
    pipeline.transport_mut().runs = true;
    assert_eq!(call(&mut pipeline, 1, Intent::Find), Ok(Ended::Found));
    pipeline.quiesce().unwrap();
    assert_idle(&mut pipeline);
}

/// The chunk read ahead shows an older state, from before the first chunk was filled.
#[test]
fn a_stale_read_ahead_only_costs_a_claim() {
    let mut pipeline = pipeline(1, 16, 2, 2, 8);
    let wanted = at_home(&pipeline, 0, 8);
    put(&mut pipeline, 7, wanted).unwrap();
    pipeline.transport_mut().end(1);
    assert_eq!(poll(&mut pipeline), [], "the second chunk has landed, empty");
    for place in 0..9 {
        let filler = bucket(at_home(&pipeline, 0, place));
        pipeline.transport_mut().windows[0][place].store(filler.word(), SeqCst);
    }
    pipeline.transport_mut().end(0);
    assert_eq!(poll(&mut pipeline), []);
    pipeline.transport_mut().end(0);
    assert_eq!(poll(&mut pipeline), [(7, Ok(Ended::Found))], "by the claim that it lost");
    let found = pipeline.shared().stats.found;
    assert_eq!((found.claims, found.claims_lost, found.effective_roundtrips), (1, 1, 2));
}

#[test]
fn operations_that_wait_for_room_are_not_starved() {
    let mut pipeline = pipeline(1, 8, 1, 3, 2);
    pipeline.transport_mut().windows[0][0].store(bucket(1).word(), SeqCst);
    for tag in 0..3 {
        put(&mut pipeline, tag, 1).unwrap();
    }
    assert_eq!(pipeline.transport_mut().posted.len(), 2, "the third waits for room");
    let mut tags = Vec::new();
    for tag in 3..20 {
        pipeline.transport_mut().end(0);
        tags.extend(poll(&mut pipeline).iter().map(|(tag, _)| *tag));
        // Storage may not be free yet.
        let _ = put(&mut pipeline, tag, 1);
    }
    assert!(tags.contains(&2), "{tags:?}");
    assert!(tags.is_sorted(), "{tags:?}");
}

#[test]
fn an_operation_that_fails_while_it_waits_for_room_is_reported_once() {
    let mut pipeline = pipeline(1, 16, 2, 2, 3);
    let keys = [0, 1].map(|nth| at_home(&pipeline, 0, nth));
    put(&mut pipeline, 7, keys[0]).unwrap();
    put(&mut pipeline, 8, keys[1]).unwrap();
    assert_eq!(pipeline.transport_mut().posted.len(), 3, "no room for the second's READ ahead");
    pipeline.transport_mut().fail(2, OpError::RetryExceeded);
    assert_eq!(poll(&mut pipeline), [(8, FAILED)], "though it waited for room");
    pipeline.transport_mut().end(0);
    assert_eq!(poll(&mut pipeline), [], "the one-roundtrip claims");
    pipeline.transport_mut().end(0);
    assert_eq!(poll(&mut pipeline), []);
    pipeline.transport_mut().end(0);
    assert_eq!(poll(&mut pipeline), [(7, INSERTED)]);
    assert_idle(&mut pipeline);
    assert_eq!(pipeline.shared().stats.failed, 1);
}

#[test]
fn a_failed_read_ahead_fails_an_operation_whose_claim_is_in_flight() {
    let mut pipeline = pipeline(1, 16, 2, 1, 8);
    put(&mut pipeline, 7, 1).unwrap();
    pipeline.transport_mut().end(0);
    assert_eq!(poll(&mut pipeline), []);
    pipeline.transport_mut().fail(0, OpError::RetryExceeded);
    assert_eq!(poll(&mut pipeline), [(7, FAILED)], "its outcome is unknown");
    assert_eq!(put(&mut pipeline, 8, 1), Err(OperationError::Busy));
    pipeline.transport_mut().end(0);
    assert_eq!(poll(&mut pipeline), [], "the claim's end is dropped");
    pipeline.transport_mut().runs = true;
    let found = Ok(Ended::Found);
    assert_eq!(call(&mut pipeline, 1, Intent::FindOrPut), found, "but it took effect");
}

/// The second READ of a chunk that straddles two owners is refused while the first is in flight.
#[test]
fn a_refused_half_chunk_fails_the_operation() {
    let mut pipeline = pipeline(2, 16, 1, 1, 8);
    let key = at_home(&pipeline, 12, 0);
    pipeline.transport_mut().refuse = Some((1, PostError::OutOfRange));
    put(&mut pipeline, 7, key).unwrap();
    assert_eq!(pipeline.transport_mut().posted.len(), 1);
    let refused = Err(OperationError::Post(PostError::OutOfRange));
    assert_eq!(poll(&mut pipeline), [(7, refused)]);
    assert_eq!(put(&mut pipeline, 8, key), Err(OperationError::Busy), "half of it is in flight");
    pipeline.transport_mut().end(0);
    assert_eq!(poll(&mut pipeline), []);
    put(&mut pipeline, 8, key).unwrap();
    assert_eq!(pipeline.transport_mut().posted.len(), 2);
}

#[test]
fn a_half_chunk_posted_to_a_dying_transport_fails() {
    let mut pipeline = pipeline(2, 16, 1, 1, 8);
    let key = at_home(&pipeline, 12, 0);
    pipeline.transport_mut().refuse = Some((1, PostError::Closed));
    put(&mut pipeline, 7, key).unwrap();
    pipeline.transport_mut().die(FAULT);
    assert_eq!(poll(&mut pipeline), [(7, Err(OperationError::Failed(OpError::Flushed)))]);
    assert_eq!(pipeline.poll_into(&mut [Finished::default()]), Err(DEAD));
}

#[test]
fn completions_of_an_earlier_generation_are_dropped() {
    let mut pipeline = pipeline(1, 8, 1, 1, 8);
    put(&mut pipeline, 7, 1).unwrap();
    let (token, action) = pipeline.transport_mut().posted[0];
    // The generation is in the upper 32 bits, the operation's index above the lowest 8 bits.
    let earlier = Token(token.0.wrapping_sub(1 << 32));
    let stray = Completion { token: earlier, result: Err(OpError::RetryExceeded) };
    pipeline.transport_mut().ended.push_back((stray, action));
    let stray_index = Token(token.0 | 9 << 8);
    pipeline
        .transport_mut()
        .ended
        .push_back((Completion { token: stray_index, result: Ok(0) }, action));
    assert_eq!(poll(&mut pipeline), []);
    pipeline.transport_mut().runs = true;
    assert_eq!(poll(&mut pipeline), []);
    assert_eq!(poll(&mut pipeline), [(7, INSERTED)]);
}

/// When the transport dies, one operation is done and not reported, one is reported with a READ in
/// flight, one is in flight, and one waits for room.
#[test]
fn every_result_is_reported_before_the_fault() {
    let mut pipeline = pipeline(1, 16, 2, 5, 4);
    put(&mut pipeline, 1, 1).unwrap();
    pipeline.transport_mut().end(0);
    assert_eq!(poll(&mut pipeline), []);
    pipeline.transport_mut().end(1);
    assert_eq!(poll(&mut pipeline), [(1, INSERTED)], "a READ ahead of it is in flight");
    put(&mut pipeline, 2, 1).unwrap();
    pipeline.transport_mut().end(1);
    assert_eq!(pipeline.poll_into(&mut []), Ok(&[][..]), "the second is found and not reported");
    for tag in 3..6 {
        put(&mut pipeline, tag, tag).unwrap();
    }
    assert_eq!(pipeline.transport().posted.len(), 4, "others wait for room");
    assert_eq!(put(&mut pipeline, 6, 6), Err(OperationError::Busy));

    pipeline.transport_mut().die(FAULT);
    let mut results = Vec::new();
    let mut out = [Finished::default()];
    while let Ok(ended) = pipeline.poll_into(&mut out) {
        results.extend(ended.iter().map(|end| (end.tag.0, end.result.is_ok())));
        assert!(results.len() <= 4, "{results:?}");
    }
    results.sort_unstable();
    assert_eq!(results, [(2, true), (3, false), (4, false), (5, false)]);
    assert_eq!(pipeline.poll_into(&mut out), Err(DEAD));
    assert_eq!((pipeline.in_flight(), pipeline.quiesce()), (0, Err(DEAD)));

    assert_eq!(call(&mut pipeline, 1, Intent::Find), Err(DEAD));
    assert_eq!(put(&mut pipeline, 6, 1), Err(OperationError::Fault(FAULT)));
    assert_eq!(pipeline.in_flight(), 0);
    assert_eq!(pipeline.poll_into(&mut out), Err(DEAD));
}

proptest! {
    /// In any order of completions, with failures among them, each operation is reported once and
    /// its storage is freed.
    #[test]
    fn every_order_of_completions_works(
        operations in 1_u32..6,
        depth in 2_u32..7,
        chunks in 1_u32..4,
        failures in prop_oneof![Just(0), Just(5_u8)],
        claims_in_one_roundtrip: bool,
        steps in prop::collection::vec((any::<u8>(), any::<prop::sample::Index>()), 1..400),
    ) {
        let mut pipeline = pipeline(2, 16, chunks, operations, depth);
        if claims_in_one_roundtrip {
            pipeline = claiming(pipeline);
        }
        let (mut running, mut inserted) = (BTreeSet::new(), BTreeSet::new());
        let mut check = |pipeline: &mut Scripted, running: &mut BTreeSet<(u64, u64)>| {
            for (tag, result) in poll(pipeline) {
                let key = tag % 40;
                prop_assert!(running.remove(&(tag, key)), "{} was reported twice", tag);
                if result == INSERTED {
                    prop_assert!(inserted.insert(key), "{} was inserted twice", key);
                }
                prop_assert!(result != Ok(Ended::Found) || failures > 0 || inserted.contains(&key)
                    || running.iter().any(|&(_, other)| other == key));
            }
            Ok(())
        };
        for (tag, (what, which)) in (0..).map(|tag| tag * 7).zip(steps) {
            if what % 2 == 0 && put(&mut pipeline, tag, tag % 40).is_ok() {
                running.insert((tag, tag % 40));
            } else if !pipeline.transport_mut().posted.is_empty() {
                let nth = which.index(pipeline.transport_mut().posted.len());
                if what / 2 % 100 < failures {
                    pipeline.transport_mut().fail(nth, OpError::RetryExceeded);
                } else {
                    pipeline.transport_mut().end(nth);
                }
            }
            if what % 3 == 0 {
                check(&mut pipeline, &mut running)?;
            }
        }
        // Far more polls than posts can be left.
        for _ in 0..10_000 {
            pipeline.transport_mut().runs = true;
            check(&mut pipeline, &mut running)?;
        }
        prop_assert_eq!(running.len(), 0, "never reported");
        assert_idle(&mut pipeline);
        for tag in 0..u64::from(operations) {
            prop_assert_eq!(put(&mut pipeline, tag, 1), Ok(()), "storage is lost");
        }
    }
}
