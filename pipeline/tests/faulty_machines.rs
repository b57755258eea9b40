//! Machines that break the rules of the pipeline get an error and harm no other operation.

use probeline_pipeline::{
    Completed, Error, Finished, Machine, Next, Operation, Pipeline, Port, Run, Step, Tag,
};
use probeline_sim::{Cluster, Config, Engine};
use probeline_transport::{Local, Owner, PostError, RemoteWord, Segment, Transport};

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
fn an_operation_that_waits_for_nothing_fails() {
    let mut pipeline = pipeline();
    assert_eq!(pipeline.call(Faulty::Waits), Err(Error::Idle));
    assert_eq!(pipeline.call(Faulty::Reads { slot: 0 }), Ok(0));
    assert_eq!(pipeline.in_flight(), 0);
}

#[test]
fn the_slots_of_other_operations_are_refused() {
    let mut pipeline = pipeline();
    for slot in [1, 3, u32::MAX] {
        let refused = pipeline.call(Faulty::Reads { slot });
        let Err(Error::Post(error)) = refused else { panic!("slot {slot}: {refused:?}") };
        assert_ne!(error, PostError::Full);
    }
    assert_eq!(pipeline.call(Faulty::Reads { slot: 0 }), Ok(0));
}

#[test]
fn a_pipeline_has_room_until_its_storage_is_in_use() {
    let mut pipeline = pipeline();
    let mut submitted = 0;
    while pipeline.has_room() {
        pipeline.submit(Tag(submitted), Faulty::Reads { slot: 0 }).unwrap();
        submitted += 1;
    }
    assert_eq!(submitted, 4);
    assert_eq!(pipeline.submit(Tag(4), Faulty::Reads { slot: 0 }), Err(Error::Busy));
    let mut finished = [Finished::default(); 4];
    while pipeline.in_flight() > 0 {
        pipeline.poll_into(&mut finished).unwrap();
    }
    assert!(pipeline.has_room());
}
