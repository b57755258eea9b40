//! Tests of claims of the home bucket along with the first READ.

use core::sync::atomic::Ordering::SeqCst;

use super::script::C;
use super::*;
use crate::config::Config;
use crate::options::OneRoundtrip;
use crate::policy::Policy;

/// Makes the operations of `pipeline` claim the home bucket along with the first READ.
pub(super) fn claiming(mut pipeline: Scripted) -> Scripted {
    let config = Config { one_roundtrip: OneRoundtrip::On, chunk_buckets: C, ..Config::paper(16) };
    pipeline.shared_mut().policy = Policy::new(&config);
    pipeline
}

#[test]
fn an_insert_takes_one_roundtrip() {
    let mut pipeline = claiming(pipeline(1, 16, 1, 1, 8));
    put(&mut pipeline, 7, 1).unwrap();
    assert_eq!(pipeline.transport_mut().posted.len(), 2, "the claim and the chunk");
    pipeline.transport_mut().end(0);
    assert_eq!(poll(&mut pipeline), [(7, INSERTED)], "by the claim alone");
    assert_eq!(put(&mut pipeline, 8, 1), Err(OperationError::Busy), "the chunk could land on it");
    pipeline.transport_mut().end(0);
    assert_eq!(poll(&mut pipeline), []);
    let inserted = pipeline.shared().stats.inserted;
    assert_eq!((inserted.one_roundtrip_claims, inserted.one_roundtrip_claims_decided), (1, 1));
    assert_eq!((inserted.claims, inserted.effective_roundtrips), (0, 0));
    put(&mut pipeline, 8, 1).unwrap();
}

/// The READ executes after the claim took effect, or executes twice, and shows the claimed bucket.
#[test]
fn an_insert_in_one_roundtrip_is_not_found_by_its_own_read() {
    let mut pipeline = claiming(pipeline(1, 16, 1, 1, 8));
    put(&mut pipeline, 7, 1).unwrap();
    pipeline.transport_mut().end(0);
    let claimed = pipeline.transport_mut().ended.pop_back().unwrap();
    pipeline.transport_mut().end(0);
    assert_eq!(poll(&mut pipeline), [], "only the completion of the claim decides");
    pipeline.transport_mut().ended.push_back(claimed);
    assert_eq!(poll(&mut pipeline), [(7, INSERTED)]);
}

#[test]
fn an_operation_that_has_failed_is_not_revived_by_its_claim() {
    let mut pipeline = claiming(pipeline(1, 16, 2, 1, 2));
    let [other, key] = [0, 1].map(|nth| at_home(&pipeline, 0, nth));
    pipeline.transport_mut().windows[0][0].store(bucket(other).word(), SeqCst);
    put(&mut pipeline, 7, key).unwrap();
    assert_eq!(pipeline.transport_mut().posted.len(), 2, "no room for the READ ahead");
    pipeline.transport_mut().fail(1, OpError::RetryExceeded);
    pipeline.transport_mut().end(0);
    assert_eq!(poll(&mut pipeline), [(7, FAILED)], "though its claim went on to the next bucket");
    assert_idle(&mut pipeline);
    pipeline.transport_mut().runs = true;
    assert_eq!(call(&mut pipeline, key, Intent::FindOrPut), INSERTED);
}

#[test]
fn an_insert_in_one_roundtrip_stands_when_the_read_fails() {
    let mut pipeline = claiming(pipeline(1, 16, 2, 1, 2));
    put(&mut pipeline, 7, 1).unwrap();
    pipeline.transport_mut().end(0);
    pipeline.transport_mut().fail(0, OpError::RetryExceeded);
    assert_eq!(poll(&mut pipeline), [(7, INSERTED)]);
    assert_idle(&mut pipeline);
    assert_eq!(pipeline.shared().stats.failed, 0);
}
