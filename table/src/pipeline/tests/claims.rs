//! The home bucket claimed along with the first READ.

use core::sync::atomic::Ordering::SeqCst;

use probeline_transport::OpError;

use super::script::{C, Scripted, pipeline};
use super::*;
use crate::find_or_put::Intent;
use crate::policy::FirstClaim;

/// The same, with the home bucket claimed along with the first READ.
pub(super) fn claiming(mut pipeline: Scripted) -> Scripted {
    let config = Config { first_claim: FirstClaim::On, chunk_buckets: C, ..Config::paper(16) };
    pipeline.policy = Policy::new(&config);
    pipeline
}

#[test]
fn an_insert_takes_one_roundtrip() {
    let mut pipeline = claiming(pipeline(1, 16, 1, 1, 8));
    put(&mut pipeline, 7, 1).unwrap();
    assert_eq!(pipeline.transport.posted.len(), 2, "the claim and the chunk");
    pipeline.transport.end(0);
    assert_eq!(poll(&mut pipeline), [(7, INSERTED)], "by the claim alone");
    assert_eq!(put(&mut pipeline, 8, 1), Err(SubmitError::Busy), "the chunk could land on it");
    pipeline.transport.end(0);
    assert_eq!(poll(&mut pipeline), []);
    let inserted = pipeline.stats.inserted;
    assert_eq!((inserted.first_claims, inserted.first_claims_decided), (1, 1));
    assert_eq!((inserted.claims, inserted.effective_roundtrips), (0, 0));
    put(&mut pipeline, 8, 1).unwrap();
}

/// The chunk lands after the claim took effect, or is read again then, and shows it.
#[test]
fn a_first_claim_is_not_found_by_its_own_read() {
    let mut pipeline = claiming(pipeline(1, 16, 1, 1, 8));
    put(&mut pipeline, 7, 1).unwrap();
    pipeline.transport.end(0);
    let claimed = pipeline.transport.ended.pop_back().unwrap();
    pipeline.transport.end(0);
    assert_eq!(poll(&mut pipeline), [], "only the claim's answer tells");
    pipeline.transport.ended.push_back(claimed);
    assert_eq!(poll(&mut pipeline), [(7, INSERTED)]);
}

#[test]
fn an_operation_that_has_failed_is_not_revived_by_its_first_claim() {
    let mut pipeline = claiming(pipeline(1, 16, 2, 1, 2));
    let [other, data] = [0, 1].map(|nth| at_home(&pipeline, 0, nth));
    pipeline.transport.windows[0][0].store(bucket(other).word(), SeqCst);
    put(&mut pipeline, 7, data).unwrap();
    assert_eq!(pipeline.transport.posted.len(), 2, "no room for the READ ahead");
    pipeline.transport.fail(1, OpError::RetryExceeded);
    pipeline.transport.end(0);
    assert_eq!(poll(&mut pipeline), [(7, FAILED)], "though its claim went on to the next bucket");
    assert_eq!((pipeline.active, pipeline.transport.in_flight()), (0, 0));
    pipeline.transport.runs = true;
    assert_eq!(pipeline.run(bucket(data), Intent::FindOrPut), INSERTED);
}

#[test]
fn what_a_first_claim_has_inserted_stays_so_when_the_read_fails() {
    let mut pipeline = claiming(pipeline(1, 16, 2, 1, 2));
    put(&mut pipeline, 7, 1).unwrap();
    pipeline.transport.end(0);
    pipeline.transport.fail(0, OpError::RetryExceeded);
    assert_eq!(poll(&mut pipeline), [(7, INSERTED)]);
    assert_eq!((pipeline.active, pipeline.stats.failed), (0, 0));
}
