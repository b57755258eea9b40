//! The storage of one operation, and lists of them without allocation.

use core::hash::{Hash, Hasher};

use probeline_transport::Geometry;

use crate::error::{ConfigError, Error};
use crate::machine::Machine;
use crate::port::MAX_OPERATIONS;

/// A caller's identifier for a submitted operation, returned with its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// The result of a submitted operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished<O> {
    /// The tag of the operation.
    pub tag: Tag,
    /// The outcome or the error.
    pub result: Result<O, Error>,
}

impl<O> Default for Finished<O> {
    /// Returns a value that initializes the array for `poll_into`.
    fn default() -> Self {
        Self { tag: Tag(0), result: Err(Error::Busy) }
    }
}

/// Storage for one operation in flight; the caller of a pipeline provides an array of them.
///
/// For model checkers, its hash covers the state that determines how the operation continues. The
/// hash ignores the content of free storage, except for what its machine passes to the next one
/// ([`Machine::hash_passed_on`]). It also ignores generations: the hash of a transport
/// must distinguish the posts of an operation in flight from those of earlier operations in the
/// same storage.
#[derive(Clone, Debug)]
pub struct Operation<M: Machine> {
    pub(crate) machine: M,
    pub(crate) state: State<M::Outcome>,
    pub(crate) waiter: Waiter,
    /// Number of operations that used this storage, which identifies late completions.
    pub(crate) generation: u32,
    /// The next operation of its list.
    next: u32,
    /// One-sided operations in flight.
    pub(crate) in_flight: u16,
    /// Whether it is in the list of operations that wait for room or that have yielded.
    pub(crate) queued: bool,
}

/// The receiver of an operation's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Waiter {
    /// A future, which fetches the result by the operation's index.
    Future,
    /// The next `poll_into`, which reports the result under this tag.
    Tag(Tag),
    /// The call or batch of this number, which stores the result at this index.
    Batch { place: usize, batch: u32 },
    /// No receiver: the future was dropped.
    Abandoned,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum State<O> {
    Free,
    Running,
    /// The operation is done; its result was not taken yet.
    Done(Result<O, Error>),
    /// The result was taken; one-sided operations are still in flight.
    Draining,
}

impl<M: Machine> Operation<M> {
    /// Free storage.
    pub const EMPTY: Self = Self {
        machine: M::IDLE,
        state: State::Free,
        waiter: Waiter::Abandoned,
        generation: 0,
        next: NONE,
        in_flight: 0,
        queued: false,
    };

    /// Checks a number of operations against the slots of an engine, and returns it.
    ///
    /// # Errors
    /// [`ConfigError::Operations`]: none, or more than the engine has slots for.
    pub fn check(found: usize, geometry: &Geometry) -> Result<u32, ConfigError> {
        let most = geometry.slots.checked_div(M::SLOTS).unwrap_or(MAX_OPERATIONS);
        let most = most.min(MAX_OPERATIONS);
        let allowed = u32::try_from(found).ok().filter(|count| (1..=most).contains(count));
        allowed.ok_or(ConfigError::Operations { found, max: most })
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
        self.machine.hash_passed_on(hasher);
        match &self.state {
            State::Free => 0_u8.hash(hasher),
            State::Running => (1_u8, &self.machine, self.waiter).hash(hasher),
            State::Done(result) => (2_u8, result.as_ref().ok(), self.waiter).hash(hasher),
            State::Draining => 3_u8.hash(hasher),
        }
    }
}

pub(crate) const NONE: u32 = u32::MAX;

/// A list of operations, linked through their storage. An operation is in at most one list.
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
        self.remove_first(operations.get_mut(index as usize)?);
        Some(index)
    }

    /// Removes `first`, the operation at the front.
    #[inline]
    pub(crate) fn remove_first<M: Machine>(&mut self, first: &mut Operation<M>) {
        self.head = first.next;
        first.next = NONE;
        if self.head == NONE {
            self.tail = NONE;
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// Returns the operation at the front; no operation has this index if the list is empty.
    #[inline]
    pub(crate) fn first(&self) -> u32 {
        self.head
    }

    /// Returns the operation at the back.
    #[inline]
    pub(crate) fn last(&self) -> u32 {
        self.tail
    }
}

#[derive(Clone, Debug, Hash)]
pub(crate) struct Lists {
    /// Free operations, the one used last first.
    pub(crate) free: List,
    /// Operations that found the transport full, oldest first.
    pub(crate) waiting: List,
    /// Operations that continue in the next round.
    pub(crate) yielded: List,
    /// Submitted operations that are done and whose results were not reported.
    pub(crate) ended: List,
    /// Operations that a completion or a list can still change.
    pub(crate) active: u32,
    /// Operations that have started and whose results were not taken.
    pub(crate) in_flight: u32,
}

impl Lists {
    pub(crate) const EMPTY: Self = Self {
        free: List::EMPTY,
        waiting: List::EMPTY,
        yielded: List::EMPTY,
        ended: List::EMPTY,
        active: 0,
        in_flight: 0,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    struct Nothing;

    impl Machine for Nothing {
        type Outcome = ();
        const IDLE: Self = Self;
        const SLOTS: u32 = 2;
    }

    proptest! {
        #[test]
        fn list_keeps_order(moves in prop::collection::vec(0..3_u8, 1..200)) {
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
        let check = |found, slots| Operation::<Nothing>::check(found, &geometry(slots));
        for (slots, most) in [(0, 0), (1, 0), (2, 1), (9, 4), (u32::MAX, 1 << 24)] {
            for found in [0, most + 1, usize::MAX] {
                let refused = ConfigError::Operations { found, max: u32::try_from(most).unwrap() };
                assert_eq!(check(found, slots), Err(refused));
            }
            for found in [1, most] {
                assert_eq!(check(found, slots).is_ok(), found <= most && most > 0);
            }
        }
    }
}
