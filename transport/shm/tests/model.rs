//! Random calls on one engine, compared with a model in plain memory.

use std::collections::VecDeque;

use probeline_shm::Builder;
use probeline_transport::{
    Alone, Completion, Local, Owner, PostError, RemoteWord, Segment, Sizes, Slot, SlotError, Token,
    Transport,
};
use proptest::prelude::*;

const WINDOW: usize = 24;
const SLOTS: u32 = 3;
const SLOT: u32 = 16;
const DEPTH: u32 = 5;

#[derive(Clone, Debug)]
enum Call {
    Read(Segment, Local),
    Write(Local, Segment),
    CompareAndSwap(RemoteWord, u64, u64),
    FetchAdd(RemoteWord, u64),
    Kick,
    Poll(usize),
    Stage(Local, u64),
    Land(Local),
}

/// Indices inside and slightly beyond the sizes, and few values, so that some swaps succeed.
fn call() -> impl Strategy<Value = Call> {
    let word = (prop_oneof![9 => Just(0), 1 => Just(1)], 0..26_u64)
        .prop_map(|(owner, index)| RemoteWord { owner: Owner(owner), index });
    let run = (word.clone(), 0..4_u32, 0..15_u32, 0..10_u32);
    let copy = run.prop_map(|(start, slot, at, words)| {
        let local = Local { slot: Slot(slot), start: at, words };
        (Segment { start, words }, local)
    });
    let value = || 0..3_u64;
    prop_oneof![
        copy.clone().prop_map(|(remote, local)| Call::Read(remote, local)),
        copy.clone().prop_map(|(remote, local)| Call::Write(local, remote)),
        (word.clone(), value(), value()).prop_map(|(at, a, b)| Call::CompareAndSwap(at, a, b)),
        (word, prop_oneof![value(), Just(u64::MAX)]).prop_map(|(at, a)| Call::FetchAdd(at, a)),
        Just(Call::Kick),
        (0..4_usize).prop_map(Call::Poll),
        (copy.clone(), value()).prop_map(|((_, local), value)| Call::Stage(local, value)),
        copy.prop_map(|(_, local)| Call::Land(local)),
    ]
}

struct Model {
    window: [u64; WINDOW],
    slots: [[u64; SLOT as usize]; SLOTS as usize],
    done: VecDeque<(Token, u64, Option<u32>)>,
}

impl Model {
    fn local(&mut self, at: Local) -> Result<&mut [u64], SlotError> {
        let slot = self.slots.get_mut(at.slot.0 as usize).ok_or(SlotError::OutOfRange)?;
        let start = at.start as usize;
        let words = slot.get_mut(start..start + at.words as usize);
        words.filter(|words| !words.is_empty()).ok_or(SlotError::OutOfRange)
    }

    /// The words of a range, whose slot must not be busy.
    fn idle(&mut self, at: Local) -> Result<&mut [u64], SlotError> {
        let busy = self.done.iter().any(|(_, _, slot)| *slot == Some(at.slot.0));
        match self.local(at) {
            Ok(_) if busy => Err(SlotError::Busy),
            other => other,
        }
    }

    fn remote(&mut self, at: Segment) -> Result<&mut [u64], PostError> {
        if at.start.owner != Owner(0) {
            return Err(PostError::UnknownOwner);
        }
        let start = usize::try_from(at.start.index).unwrap();
        let words = self.window.get_mut(start..start + at.words as usize);
        words.filter(|words| !words.is_empty()).ok_or(PostError::OutOfRange)
    }

    fn copy(
        &mut self,
        token: Token,
        remote: Segment,
        local: Local,
        read: bool,
    ) -> Result<(), PostError> {
        let there = self.remote(remote)?.to_vec();
        let here = self.local(local).map_err(|_| PostError::OutOfRange)?.to_vec();
        self.room()?;
        if read {
            self.local(local).unwrap().copy_from_slice(&there);
        } else {
            self.remote(remote)?.copy_from_slice(&here);
        }
        self.done.push_back((token, 0, Some(local.slot.0)));
        Ok(())
    }

    fn atomic(
        &mut self,
        token: Token,
        at: RemoteWord,
        new: impl Fn(u64) -> u64,
    ) -> Result<(), PostError> {
        let at = Segment { start: at, words: 1 };
        self.remote(at)?;
        self.room()?;
        let word = &mut self.remote(at)?[0];
        let old = core::mem::replace(word, new(*word));
        self.done.push_back((token, old, None));
        Ok(())
    }

    fn room(&self) -> Result<(), PostError> {
        if self.done.len() == DEPTH as usize { Err(PostError::Full) } else { Ok(()) }
    }
}

proptest! {
    #[test]
    fn the_engine_equals_its_model(calls in proptest::collection::vec(call(), 1..200)) {
        let mut engine = Builder::new(Sizes::new(WINDOW as u64).with_slots(SLOTS, SLOT).with_depth(DEPTH))
            .open(&mut Alone)
            .unwrap();
        let mut model = Model {
            window: [0; WINDOW],
            slots: [[0; SLOT as usize]; SLOTS as usize],
            done: VecDeque::new(),
        };
        for (token, call) in (0..).map(Token).zip(calls) {
            match call {
                Call::Read(from, into) => prop_assert_eq!(
                    engine.read(token, from, into),
                    model.copy(token, from, into, true)
                ),
                Call::Write(from, to) => prop_assert_eq!(
                    engine.write(token, from, to),
                    model.copy(token, to, from, false)
                ),
                Call::CompareAndSwap(at, expected, desired) => prop_assert_eq!(
                    engine.compare_and_swap(token, at, expected, desired),
                    model.atomic(token, at, |old| if old == expected { desired } else { old })
                ),
                Call::FetchAdd(at, addend) => prop_assert_eq!(
                    engine.fetch_add(token, at, addend),
                    model.atomic(token, at, |old| old.wrapping_add(addend))
                ),
                // Executes operations earlier, with the same results.
                Call::Kick => engine.kick(),
                Call::Poll(room) => {
                    let mut out = vec![Completion::default(); room];
                    let count = engine.poll(&mut out).unwrap();
                    prop_assert_eq!(count, room.min(model.done.len()));
                    for completion in &out[..count] {
                        let (token, old, _) = model.done.pop_front().unwrap();
                        prop_assert_eq!(*completion, Completion { token, result: Ok(old) });
                    }
                }
                Call::Stage(at, value) => {
                    let mine = model.idle(at).map(|words| words.fill(value));
                    prop_assert_eq!(engine.staged(at).map(|words| words.fill(value)), mine);
                }
                Call::Land(at) => {
                    prop_assert_eq!(engine.landed(at), model.idle(at).map(|words| &*words));
                }
            }
            prop_assert_eq!(engine.in_flight() as usize, model.done.len());
        }
        // Executes the operations that are not reported.
        engine.kick();
        let window = engine.window().iter().map(|word| word.load(core::sync::atomic::Ordering::SeqCst));
        prop_assert!(window.eq(model.window));
    }
}
