//! Machines that break the rules of the pipeline get an error and harm no other operation.

use core::cell::Cell;
use std::rc::Rc;

use probeline_pipeline::{
    Completed, Error, Finished, Machine, Next, Operation, Pipeline, Port, Run, Step, Tag,
};
use probeline_sim::{Cluster, Config, Engine};
use probeline_transport::{
    Completion, Fault, Local, Owner, PostError, RemoteWord, Segment, Transport, forward_transport,
};

#[derive(Clone, Copy, Debug)]
enum Faulty {
    /// Waits without a post.
    Waits,
    /// Reads a word into a slot, and waits.
    Reads { slot: u32 },
}

impl Machine for Faulty {
    type Outcome = u64;
    const IDLE: Self = Self::Waits;
    const SLOTS: u32 = 1;
}

impl Run<()> for Faulty {
    fn advance(&mut self, (): &mut (), port: &mut Port<'_, impl Transport>) -> Next<u64> {
        if let Self::Reads { slot } = *self {
            let into = Local { slot: port.slot(slot), start: 0, words: 1 };
            let word = RemoteWord { owner: Owner(1), index: 0 };
            port.read(0, Segment { start: word, words: 1 }, into)?;
        }
        Ok(Step::Wait)
    }

    fn on_completion(
        &mut self,
        completed: Completed,
        (): &mut (),
        _: &mut Port<'_, impl Transport>,
    ) -> Next<u64> {
        Ok(Step::Done(completed.word))
    }
}

fn pipeline() -> Pipeline<Engine, [Operation<Faulty>; 4], (), Faulty> {
    let cluster = Cluster::new(Config::default()).unwrap();
    let engine = cluster.engine(Owner(0)).unwrap();
    Pipeline::new(engine, (), [const { Operation::EMPTY }; 4]).unwrap()
}

#[test]
fn fails_an_operation_that_waits_for_nothing() {
    let mut pipeline = pipeline();
    assert_eq!(pipeline.call(Faulty::Waits), Err(Error::Idle));
    assert_eq!(pipeline.call(Faulty::Reads { slot: 0 }), Ok(0));
    assert_eq!(pipeline.in_flight(), 0);
}

#[test]
fn refuses_slots_of_other_operations() {
    let mut pipeline = pipeline();
    for slot in [1, 3, u32::MAX] {
        let refused = pipeline.call(Faulty::Reads { slot });
        let Err(Error::Post(error)) = refused else { panic!("slot {slot}: {refused:?}") };
        assert_ne!(error, PostError::Full);
    }
    assert_eq!(pipeline.call(Faulty::Reads { slot: 0 }), Ok(0));
}

/// Storage that shows only as many operations as the test sets.
struct Shrinking(Vec<Operation<Faulty>>, Rc<Cell<usize>>);

impl AsMut<[Operation<Faulty>]> for Shrinking {
    fn as_mut(&mut self) -> &mut [Operation<Faulty>] {
        &mut self.0[..self.1.get()]
    }
}

/// An engine that shows no storage any more when it is polled, if the test says so.
struct Hiding(Engine, Rc<Cell<usize>>, bool);

impl Transport for Hiding {
    forward_transport!(0: caps, geometry, in_flight, post, kick, landed, staged, window, direct);

    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, Fault> {
        if self.2 {
            self.1.set(0);
        }
        self.0.poll(out)
    }
}

fn shrinking() -> (Pipeline<Hiding, Shrinking, (), Faulty>, Rc<Cell<usize>>) {
    let shown = Rc::new(Cell::new(2));
    let engine = Cluster::new(Config::default()).unwrap().engine(Owner(0)).unwrap();
    let storage = Shrinking(vec![Operation::EMPTY; 2], Rc::clone(&shown));
    let engine = Hiding(engine, Rc::clone(&shown), false);
    (Pipeline::new(engine, (), storage).unwrap(), shown)
}

#[test]
fn loses_nothing_in_storage_that_shrinks_for_a_while() {
    let (mut pipeline, shown) = shrinking();
    let reads = Faulty::Reads { slot: 0 };
    (0..2).for_each(|tag| pipeline.submit(Tag(tag), reads).unwrap());
    shown.set(1);
    let short = Error::Storage { found: 1, expected: 2 };
    let mut out = [Finished::default(); 4];
    assert_eq!(pipeline.poll_into(&mut out), Err(short));
    assert_eq!(pipeline.submit(Tag(9), reads), Err(short));
    assert_eq!(pipeline.call(reads), Err(short));
    assert_eq!(pipeline.quiesce(), Err(short));
    assert!(short.to_string().contains("keep its length"), "{short}");
    shown.set(2);
    let mut tags = Vec::new();
    while pipeline.in_flight() > 0 {
        tags.extend(pipeline.poll_into(&mut out).unwrap().iter().map(|end| end.tag.0));
    }
    tags.sort_unstable();
    assert_eq!(tags, [0, 1]);
}

/// Storage that becomes shorter during a poll loses a completion: the call and all later ones
/// return an error instead of waiting for it.
#[test]
fn refuses_all_calls_after_storage_was_lost_during_a_poll() {
    let (mut pipeline, shown) = shrinking();
    let reads = Faulty::Reads { slot: 0 };
    pipeline.transport_mut().2 = true;
    assert!(pipeline.call(reads).is_err());
    pipeline.transport_mut().2 = false;
    shown.set(2);
    let short = Error::Storage { found: 2, expected: 2 };
    assert_eq!(pipeline.call(reads), Err(short));
    assert_eq!(pipeline.submit(Tag(1), reads), Err(short));
    assert_eq!(pipeline.quiesce(), Err(short));
}
