//! Tests of storage whose length changes: the caller gets an error, and no operation is lost.

use core::cell::Cell;

use super::script::{self, Script};
use super::*;
use crate::cache::CacheEntry;
use crate::context::Context;
use crate::narrow::Operation;
use probeline_pipeline::Pipeline;
use std::rc::Rc;

/// Storage that shows only as many operations as the test sets.
struct Shrinking(Vec<Operation>, Rc<Cell<usize>>);

impl AsMut<[Operation]> for Shrinking {
    fn as_mut(&mut self) -> &mut [Operation] {
        &mut self.0[..self.1.get()]
    }
}

#[test]
fn storage_that_shrinks_for_a_while_loses_nothing() {
    let shown = Rc::new(Cell::new(2));
    let storage = Shrinking(vec![Operation::EMPTY; 2], Rc::clone(&shown));
    let (script, context) = script::parts(1, 8, 1, 2, 8);
    let mut pipeline: Pipeline<Script, _, Context<[CacheEntry; 0]>, FindOrPut> =
        Pipeline::new(script, context, storage).unwrap();
    let operation =
        |key| FindOrPut::new(bucket(key), Intent::FindOrPut, &script::parts(1, 8, 1, 2, 8).1);
    for tag in 0..2 {
        pipeline.submit(Tag(tag), operation(tag)).unwrap();
    }

    shown.set(1);
    let short = OperationError::Storage { found: 1, expected: 2 };
    pipeline.transport_mut().end(0);
    pipeline.transport_mut().end(0);
    let mut out = [Finished::default(); 4];
    assert_eq!(pipeline.poll_into(&mut out), Err(short));
    assert_eq!(pipeline.submit(Tag(9), operation(9)), Err(short));
    assert_eq!(pipeline.call(operation(9)), Err(short));
    assert_eq!(pipeline.quiesce(), Err(short));
    assert!(short.to_string().contains("keep its length"), "{short}");

    shown.set(2);
    pipeline.transport_mut().runs = true;
    let mut inserted = BTreeSet::new();
    while pipeline.in_flight() > 0 {
        for end in pipeline.poll_into(&mut out).unwrap() {
            assert_eq!(end.result, INSERTED);
            assert!(inserted.insert(end.tag.0));
        }
    }
    assert_eq!(inserted, BTreeSet::from([0, 1]));
}

/// Storage that becomes shorter during a poll loses a completion: the call and all later ones
/// return an error instead of waiting for it.
#[test]
fn a_pipeline_that_lost_storage_during_a_poll_refuses_all_calls() {
    let shown = Rc::new(Cell::new(1));
    let storage = Shrinking(vec![Operation::EMPTY; 1], Rc::clone(&shown));
    let (script, context) = script::parts(1, 8, 1, 1, 8);
    let mut pipeline: Pipeline<Script, _, Context<[CacheEntry; 0]>, FindOrPut> =
        Pipeline::new(script, context, storage).unwrap();
    let operation =
        |key| FindOrPut::new(bucket(key), Intent::FindOrPut, &script::parts(1, 8, 1, 1, 8).1);
    pipeline.transport_mut().on_poll = Some(Box::new({
        let shown = Rc::clone(&shown);
        move || shown.set(0)
    }));
    pipeline.transport_mut().runs = true;
    assert!(pipeline.call(operation(1)).is_err());
    pipeline.transport_mut().on_poll = None;
    shown.set(1);
    let short = OperationError::Storage { found: 1, expected: 1 };
    assert_eq!(pipeline.call(operation(2)), Err(short));
    assert_eq!(pipeline.submit(Tag(1), operation(2)), Err(short));
    assert_eq!(pipeline.quiesce(), Err(short));
}
