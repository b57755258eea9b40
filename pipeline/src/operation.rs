//! The storage of one operation, and lists of them without allocation.

use core::hash::{Hash, Hasher};

use probeline_transport::Geometry;

use crate::machine::Machine;
use crate::port::MAX_OPERATIONS;

/// A caller's name for an operation that it submits; the operation's result comes with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// The result of an operation that was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished<O, E> {
    /// The tag it was submitted under.
    pub tag: Tag,
    /// Its outcome, or why it has none.
    pub result: Result<O, E>,
}

impl<O: Default, E> Default for Finished<O, E> {
    /// A value to fill the array that is handed to `poll_into`.
    fn default() -> Self {
        Self { tag: Tag(0), result: Ok(O::default()) }
    }
}

/// Storage for one operation in flight; the caller of a pipeline provides an array of them.
///
/// Its hash covers what decides how the operation goes on, for model checkers. What free storage
/// still holds is left out, and so are generations: a transport's hash must tell the posts of an
/// operation in flight from those of earlier ones in the same storage.
#[derive(Clone, Debug)]
pub struct Operation<M: Machine> {
    pub(crate) machine: M,
    pub(crate) state: State<M::Outcome, M::Error>,
    pub(crate) waiter: Waiter,
    /// Counts the operations that used this storage, so that a late completion is recognised.
    pub(crate) generation: u32,
    /// The next one in its list.
    next: u32,
    /// One-sided operations in flight.
    pub(crate) in_flight: u16,
    /// It is in the list of those that need room, or of those that have yielded.
    pub(crate) queued: bool,
}

/// Where the result of an operation goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Waiter {
    /// To the blocking call under way, which asks for it by the operation's index.
    Call,
    /// To a future, which asks for it in the same way.
    Future,
    /// To the next poll.
    Tag(Tag),
    /// To this place of the results of the batch under way.
    Batch(usize),
    /// Nowhere: its future was dropped.
    Abandoned,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum State<O, E> {
    Free,
    Running,
    /// It has ended, and its result was not taken yet.
    Done(Result<O, E>),
    /// Its result was taken, but one-sided operations of it are in flight.
    Draining,
}

impl<M: Machine> Operation<M> {
    /// Storage that is free.
    pub const EMPTY: Self = Self {
        machine: M::IDLE,
        state: State::Free,
        waiter: Waiter::Abandoned,
        generation: 0,
        next: NONE,
        in_flight: 0,
        queued: false,
    };

    /// The most operations that the slots of an engine allow.
    #[must_use]
    pub fn most(geometry: &Geometry) -> u32 {
        geometry.slots.checked_div(M::SLOTS).map_or(MAX_OPERATIONS, |most| most.min(MAX_OPERATIONS))
    }

    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.state, State::Running)
    }
}

impl<M: Machine + Hash> Hash for Operation<M>
where
    M::Outcome: Hash,
{
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (self.next, self.in_flight, self.queued).hash(hasher);
        match &self.state {
            State::Free => 0_u8.hash(hasher),
            State::Running => (1_u8, &self.machine, self.waiter).hash(hasher),
            State::Done(result) => (2_u8, result.as_ref().ok(), self.waiter).hash(hasher),
            State::Draining => 3_u8.hash(hasher),
        }
    }
}

pub(crate) const NONE: u32 = u32::MAX;

/// A list of operations, linked through their storage. An operation is in one list at most.
#[derive(Clone, Debug, Hash)]
pub(crate) struct List {
    head: u32,
    tail: u32,
}

impl List {
    pub(crate) const EMPTY: Self = Self { head: NONE, tail: NONE };

    #[inline]
    pub(crate) fn push_back<M: Machine>(&mut self, operations: &mut [Operation<M>], index: u32) {
        match operations.get_mut(self.tail as usize) {
            Some(last) => last.next = index,
            None => self.head = index,
        }
        self.tail = index;
        if let Some(operation) = operations.get_mut(index as usize) {
            operation.next = NONE;
        }
    }

    #[inline]
    pub(crate) fn push_front<M: Machine>(&mut self, operations: &mut [Operation<M>], index: u32) {
        if let Some(operation) = operations.get_mut(index as usize) {
            operation.next = self.head;
        }
        if self.head == NONE {
            self.tail = index;
        }
        self.head = index;
    }

    #[inline]
    pub(crate) fn pop<M: Machine>(&mut self, operations: &mut [Operation<M>]) -> Option<u32> {
        let index = self.head;
        let operation = operations.get_mut(index as usize)?;
        self.head = operation.next;
        operation.next = NONE;
        if self.head == NONE {
            self.tail = NONE;
        }
        Some(index)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// The one pushed back last.
    #[inline]
    pub(crate) fn last(&self) -> u32 {
        self.tail
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    struct Nothing;

    impl Machine for Nothing {
        type Outcome = ();
        type Error = crate::Error;
        const IDLE: Self = Self;
        const SLOTS: u32 = 2;
    }

    proptest! {
        #[test]
        fn a_list_keeps_order(moves in prop::collection::vec(0..3_u8, 1..200)) {
            let mut operations = [const { Operation::<Nothing>::EMPTY }; 8];
            let (mut list, mut model) = (List::EMPTY, std::collections::VecDeque::new());
            let mut free: Vec<u32> = (0..8).collect();
            for what in moves {
                match (what, free.pop()) {
                    (1, Some(index)) => {
                        list.push_back(&mut operations, index);
                        model.push_back(index);
                    }
                    (2, Some(index)) => {
                        list.push_front(&mut operations, index);
                        model.push_front(index);
                    }
                    (_, unused) => {
                        free.extend(unused);
                        let popped = list.pop(&mut operations);
                        prop_assert_eq!(popped, model.pop_front());
                        free.extend(popped);
                    }
                }
                prop_assert_eq!(list.is_empty(), model.is_empty());
            }
        }
    }

    #[test]
    fn slots_and_tokens_limit_operations() {
        let geometry = |slots| Geometry {
            me: probeline_transport::Owner(0),
            owners: 1,
            window_words: 8,
            slots,
            slot_words: 8,
        };
        for (slots, most) in [(0, 0), (1, 0), (2, 1), (9, 4), (u32::MAX, 1 << 24)] {
            assert_eq!(Operation::<Nothing>::most(&geometry(slots)), most);
        }
    }
}
