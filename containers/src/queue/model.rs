//! The model check of queues: pushes and pops are linearizable.

use std::collections::VecDeque;

use probeline_pipeline::model::{Explored, Network, Scripts, Sequential, Stopped, check_linear};
use probeline_pipeline::{Plain, Step};
use probeline_transport::Owner;

use super::access::Post;
use super::ring::Context;
use super::{Access, Action, Config, Outcome};
use crate::element::Each;
use crate::model::{Mutant, has, with};

type Ring = Each<super::Ring<u64>>;

/// One ring, which a push may find full from its capacity on.
#[derive(Clone, Default)]
struct Values {
    values: VecDeque<u64>,
    pushes: u64,
}

const CAPACITY: usize = 1;
/// Counters on two lines, and slots of two words.
const WORDS: usize = 16 + 2 * 3;

impl Sequential<Ring> for Values {
    fn run(&mut self, _: &Owner, action: Action<u64>) -> Outcome<u64> {
        match action {
            Action::Push(value) => {
                self.values.push_back(value);
                self.pushes += 1;
                Outcome::Pushed(self.pushes - 1)
            }
            _ => self.values.pop_front().map_or(Outcome::Empty, Outcome::Popped),
        }
    }

    fn explains(&mut self, host: &Owner, action: Action<u64>, outcome: &Outcome<u64>) -> bool {
        if *outcome == Outcome::Full {
            return self.values.len() >= CAPACITY;
        }
        self.run(host, action) == *outcome
    }
}

impl<V: Plain> Access<V> {
    /// Gives a ticket back if the ring was full, and ends the operation when that is done.
    pub(super) fn undo(&mut self, word: u64, context: &mut Context) -> Option<Step<Outcome<V>>> {
        if !has(Mutant::UndoesTickets) || self.post != Post::Ticket {
            return None;
        }
        if let Action::Take(u64::MAX) = self.action {
            return Some(Step::Done(Outcome::Full));
        }
        context.saw(self.host, (Some(word + 1), None));
        let head = context.view(self.host).head.unwrap_or_default();
        (word >= head + context.detail.capacity).then(|| {
            self.action = Action::Take(u64::MAX);
            Step::Wait
        })
    }
}

const HOST: Owner = Owner(0);
const POP: (Owner, Action<u64>) = (HOST, Action::Pop);

const fn push(value: u64) -> (Owner, Action<u64>) {
    (HOST, Action::Push(value))
}

const TWO_AND_TWO: Scripts<Ring> = &[&[push(5), push(6)], &[POP, POP]];
const ALL_DO_BOTH: Scripts<Ring> = &[&[push(5), POP], &[push(6), POP]];
const FILLED: Scripts<Ring> = &[&[push(5), push(6), push(7), POP], &[POP]];
const TWO_POP: Scripts<Ring> = &[&[push(5), push(6)], &[POP], &[POP]];

fn check(scripts: Scripts<Ring>, in_flight: u32, failures: u8) -> Result<Explored, Stopped> {
    let config = Config { capacity: CAPACITY as u64, in_flight, first_word: 0, value_bytes: 0 };
    check_linear::<Ring, Values, WORDS>(config, Network { failures, ..Network::ONE }, scripts)
}

/// Also with no spare slot for pushes in flight, which then wait for one.
#[test]
fn pushes_and_pops_are_linearizable() {
    let few = [(TWO_AND_TWO, 1), (FILLED, 1), (ALL_DO_BOTH, 0), (TWO_POP, 0)];
    for ((scripts, failures), in_flight) in few.into_iter().flat_map(|of| [(of, 0), (of, 1)]) {
        let checked = check(scripts, in_flight, failures);
        let (worlds, _) = checked.expect("every history has an order");
        assert!(worlds > 100, "{worlds}");
    }
}

/// Checks three ranks that push to and pop from one ring, with and without a failure.
#[test]
fn three_ranks_are_linearizable() {
    const TWO_PUSH: Scripts<Ring> = &[&[push(5)], &[push(6)], &[POP, POP]];
    const ALL: Scripts<Ring> = &[&[push(5), POP], &[push(6)], &[POP]];
    for (scripts, failures, in_flight) in
        [(TWO_PUSH, 0, 1), (TWO_PUSH, 1, 1), (ALL, 0, 1), (TWO_POP, 1, 1)]
    {
        let (worlds, _) = check(scripts, in_flight, failures).expect("every history has an order");
        assert!(worlds > 100, "{worlds}");
    }
}

/// A ring of the parts of batches: values by ticket, and the head.
#[derive(Clone, Default)]
struct Tickets {
    values: Vec<Option<u64>>,
    head: u64,
}

const PARTS_CAPACITY: u64 = 2;
const PARTS_WORDS: usize = 16 + 2 * 4;

impl Tickets {
    fn value(&self, ticket: u64) -> Option<u64> {
        *self.values.get(usize::try_from(ticket).ok()?)?
    }
}

impl Sequential<Ring> for Tickets {
    fn run(&mut self, _: &Owner, action: Action<u64>) -> Outcome<u64> {
        let tail = self.values.len() as u64;
        match action {
            Action::Push(value) => self.values.push(Some(value)),
            Action::Take(count) => self.values.extend((0..count).map(|_| None)),
            Action::Store(ticket, value) => {
                self.values[usize::try_from(ticket).unwrap()] = Some(value);
                return Outcome::Pushed(ticket);
            }
            Action::Load(ticket) => {
                return self.value(ticket).map_or(Outcome::Empty, Outcome::Popped);
            }
            Action::Advance(first, count) => {
                let head = self.head;
                self.head += if head == first { count } else { 0 };
                return Outcome::Pushed(head);
            }
            Action::Pop => {
                let value = self.value(self.head);
                self.head += u64::from(value.is_some());
                return value.map_or(Outcome::Empty, Outcome::Popped);
            }
        }
        Outcome::Pushed(tail)
    }

    fn explains(&mut self, host: &Owner, action: Action<u64>, outcome: &Outcome<u64>) -> bool {
        let used = self.values.len() as u64 - self.head;
        match (action, outcome) {
            (Action::Push(_), Outcome::Full) => used >= PARTS_CAPACITY,
            (Action::Take(count), Outcome::Full) => used + count > PARTS_CAPACITY,
            // A ticket without its value is not an empty ring.
            (Action::Pop, Outcome::Empty) => used == 0,
            // The slot may have a newer value.
            (Action::Load(ticket), Outcome::Empty) if ticket < self.head => true,
            _ => self.run(host, action) == *outcome,
        }
    }
}

const fn part(action: Action<u64>) -> (Owner, Action<u64>) {
    (HOST, action)
}

/// Clients store only tickets that they have taken, and the head passes only taken tickets. No client loads the ticket
/// of another client's push, which may be taken and not written.
const BATCHES: [Scripts<Ring>; 3] = [
    &[
        &[part(Action::Take(2)), part(Action::Store(0, 5)), part(Action::Store(1, 6)), POP],
        &[part(Action::Load(1)), part(Action::Load(0))],
    ],
    &[&[push(5), push(6), part(Action::Load(0)), part(Action::Advance(0, 1)), POP], &[POP]],
    &[&[push(5), push(6), part(Action::Load(1)), part(Action::Advance(0, 2))], &[POP, POP]],
];

#[test]
fn batches_are_linearizable() {
    let config = Config { capacity: PARTS_CAPACITY, in_flight: 1, first_word: 0, value_bytes: 0 };
    for scripts in BATCHES {
        let checked = check_linear::<Ring, Tickets, PARTS_WORDS>(config, Network::ONE, scripts);
        let (worlds, _) = checked.expect("every history has an order");
        assert!(worlds > 50, "{worlds}");
    }
}

#[test]
fn detects_mutants() {
    const REFILLED: Scripts<Ring> = &[&[push(5), push(6)], &[POP, push(7)]];
    for (mutant, in_flight, scripts) in [
        (Mutant::ReadyBeforeData, 1, TWO_AND_TWO),
        (Mutant::Overrun, 0, ALL_DO_BOTH),
        (Mutant::UndoesTickets, 1, REFILLED),
        (Mutant::EmptyFromStaleWords, 1, ALL_DO_BOTH),
    ] {
        let checked = with(mutant, || check(scripts, in_flight, 0));
        assert!(matches!(checked, Err(Stopped::Violation(_))), "{mutant:?}: {checked:?}");
    }
}
