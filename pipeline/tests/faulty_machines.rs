//! Machines that break the rules of the pipeline get an error and harm no other operation.

use core::cell::Cell;
use std::rc::Rc;

use probeline_pipeline::{
    Completed, Error, Finished, Machine, Next, Operation, Pipeline, Port, Run, Step, Tag,
};
use probeline_sim::{Cluster, Config, Engine, Model};
use probeline_transport::{
    Completion, Fault, OpError, Owner, PostError, RemoteWord, Request, Segment, SlotRange, Token,
    Transport, forward_transport,
};

#[derive(Clone, Copy, Debug)]
enum Faulty {
    /// Waits without a post.
    Waits,
    /// Reads a word into a slot, and waits.
    Reads { slot: u32 },
    /// Reads two words into its slot, and waits.
    ReadsTwice,
}

impl Machine for Faulty {
    type Outcome = u64;
    const IDLE: Self = Self::Waits;
    const SLOTS: u32 = 1;
}

impl Run<()> for Faulty {
    fn advance(&mut self, (): &mut (), port: &mut Port<'_, impl Transport>) -> Next<u64> {
        let (slot, reads) = match *self {
            Self::Waits => (0, 0),
            Self::Reads { slot } => (slot, 1),
            Self::ReadsTwice => (0, 2),
        };
        for nth in 0..reads {
            let into = SlotRange { slot: port.slot(slot), start: nth.into(), words: 1 };
            let word = RemoteWord { owner: Owner(1), index: 0 };
            port.read(nth, Segment { start: word, words: 1 }, into)?;
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

#[test]
fn fails_idle_operation() {
    let mut pipeline = odd::<4>(16);
    assert_eq!(pipeline.call(Faulty::Waits), Err(Error::Idle));
    assert_eq!(pipeline.call(Faulty::Reads { slot: 0 }), Ok(0));
    assert_eq!(pipeline.in_flight(), 0);
}

#[test]
fn refuses_slots_of_other_operations() {
    let mut pipeline = odd::<4>(16);
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

fn shrinking() -> (Pipeline<Odd, Shrinking, (), Faulty>, Rc<Cell<usize>>) {
    let shown = Rc::new(Cell::new(2));
    let storage = Shrinking(vec![Operation::EMPTY; 2], Rc::clone(&shown));
    (Pipeline::new(Odd::new(Config::default()), (), storage).unwrap(), shown)
}

#[test]
fn survives_temporarily_short_storage() {
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
fn refuses_calls_after_lost_storage() {
    let (mut pipeline, shown) = shrinking();
    let reads = Faulty::Reads { slot: 0 };
    pipeline.transport_mut().hides = Some(Rc::clone(&shown));
    assert!(pipeline.call(reads).is_err());
    pipeline.transport_mut().hides = None;
    shown.set(2);
    let short = Error::Storage { found: 2, expected: 2 };
    assert_eq!(pipeline.call(reads), Err(short));
    assert_eq!(pipeline.submit(Tag(1), reads), Err(short));
    assert_eq!(pipeline.quiesce(), Err(short));
}

/// An engine that refuses one post, or reports completions of its own.
struct Odd {
    engine: Engine,
    posted: Vec<Token>,
    /// The number of further posts to accept, and the error that refuses the next one.
    refuse: Option<(usize, PostError)>,
    strays: Vec<Completion>,
    /// Whether polls bring nothing.
    holds: bool,
    /// The number of operations that a storage shows, of which a poll hides all.
    hides: Option<Rc<Cell<usize>>>,
}

impl Odd {
    fn new(config: Config) -> Self {
        let engine = Cluster::new(config).unwrap().engine(Owner(0)).unwrap();
        Self { engine, posted: vec![], refuse: None, strays: vec![], holds: false, hides: None }
    }
}

impl Transport for Odd {
    forward_transport!(engine: caps, geometry, in_flight, kick, landed, staged, window, direct);

    fn post(&mut self, token: Token, request: Request) -> Result<(), PostError> {
        if let Some((_, error)) = self.refuse.take_if(|(at, _)| *at == self.posted.len()) {
            return Err(error);
        }
        self.posted.push(token);
        self.engine.post(token, request)
    }

    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, Fault> {
        self.hides.iter().for_each(|shown| shown.set(0));
        match (self.strays.pop(), out) {
            (Some(stray), [first, ..]) => *first = stray,
            _ if self.holds => return Ok(0),
            (_, out) => return self.engine.poll(out),
        }
        Ok(1)
    }
}

/// Creates a pipeline of `N` operations over an engine of this depth, whose operations take 1 us.
fn odd<const N: usize>(depth: u32) -> Pipeline<Odd, [Operation<Faulty>; N], (), Faulty> {
    let config = Config { depth, model: Model::simple(1_000), ..Config::default() };
    Pipeline::new(Odd::new(config), (), [const { Operation::EMPTY }; N]).unwrap()
}

fn poll<const N: usize>(
    pipeline: &mut Pipeline<Odd, [Operation<Faulty>; N], (), Faulty>,
) -> Vec<(u64, Result<u64, Error>)> {
    let mut out = [Finished::default(); 4];
    pipeline.poll_into(&mut out).unwrap().iter().map(|end| (end.tag.0, end.result)).collect()
}

/// The first post of an operation is in flight when the second one is refused: its storage is free
/// only when the first one has completed.
#[test]
fn fails_operation_with_refused_post() {
    let mut pipeline = odd::<1>(16);
    pipeline.transport_mut().refuse = Some((1, PostError::OutOfRange));
    pipeline.transport_mut().holds = true;
    pipeline.submit(Tag(7), Faulty::ReadsTwice).unwrap();
    let mut ended = poll(&mut pipeline);
    assert_eq!(ended, [(7, Err(Error::Post(PostError::OutOfRange)))]);
    let reads = Faulty::Reads { slot: 0 };
    assert_eq!(pipeline.submit(Tag(8), reads), Err(Error::Busy), "half of it is in flight");
    pipeline.transport_mut().holds = false;
    pipeline.quiesce().unwrap();
    pipeline.submit(Tag(8), reads).unwrap();
    while ended.len() < 2 {
        ended.extend(poll(&mut pipeline));
    }
    assert_eq!(ended[1], (8, Ok(0)));
}

/// Completions with a token of an earlier operation in the same storage, and of none.
#[test]
fn drops_stray_completions() {
    let mut pipeline = odd::<1>(16);
    pipeline.submit(Tag(7), Faulty::Reads { slot: 0 }).unwrap();
    let token = pipeline.transport().posted[0];
    // The generation is in the upper 32 bits, the operation's index above the lowest 8 bits.
    let earlier = Token(token.0.wrapping_sub(1 << 32));
    pipeline.transport_mut().strays = vec![
        Completion { token: earlier, result: Err(OpError::RetryExceeded) },
        Completion { token: Token(token.0 | 9 << 8), result: Ok(0) },
    ];
    let mut ended = Vec::new();
    for _ in 0..2_000 {
        ended.extend(poll(&mut pipeline));
    }
    assert_eq!((ended, pipeline.in_flight()), (vec![(7, Ok(0))], 0));
    assert_eq!(pipeline.transport().strays, []);
}

/// The engine has room for two posts. Operations that wait for room come before later ones.
#[test]
fn starves_no_waiting_operation() {
    let mut pipeline = odd::<3>(2);
    let (mut next, mut tags) = (0, Vec::new());
    while tags.len() < 30 {
        while pipeline.submit(Tag(next), Faulty::Reads { slot: 0 }).is_ok() {
            next += 1;
        }
        tags.extend(poll(&mut pipeline).iter().map(|(tag, _)| *tag));
    }
    assert!(tags.iter().copied().eq(0..tags.len() as u64), "{tags:?}");
}
