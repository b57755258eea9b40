//! The operations that were accepted and not yet reported, by the owner whose flush ends them.

use transport::{OpError, Owner, Slot, Token};

/// No operation, or no owner.
const NONE: u32 = u32::MAX;

/// An accepted operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) token: Token,
    pub(super) kind: Kind,
}

/// What becomes of its result.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// READ or WRITE, which keeps the slot busy.
    Copy(Slot),
    /// The old value lands in the words of the operation's index.
    Atomic,
}

/// A place for an operation, in one list: of free places, of an owner's, or of those that ended.
#[derive(Clone, Copy, Debug)]
struct Place {
    entry: Entry,
    result: Result<(), OpError>,
    next: u32,
}

/// The first and the last of a list.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

impl List {
    const EMPTY: Self = Self { first: NONE, last: NONE };
}

/// Operations in flight to each owner, in the order in which owners got their first, and those
/// that ended, in the order in which they did.
#[derive(Debug)]
pub(super) struct Ledger {
    places: Box<[Place]>,
    free: List,
    ended: List,
    len: u32,
    owners: Box<[List]>,
    /// Owners with operations in flight, each once, as a ring.
    waiting: Box<[u32]>,
    head: u32,
    waits: u32,
}

impl Ledger {
    /// Room for `depth` operations on `owners` owners.
    pub(super) fn new(depth: u32, owners: u32) -> Self {
        let entry = Entry { token: Token(0), kind: Kind::Atomic };
        let next = |index| if index + 1 < depth { index + 1 } else { NONE };
        let places = (0..depth).map(|index| Place { entry, result: Ok(()), next: next(index) });
        Self {
            places: places.collect(),
            free: List { first: 0, last: depth - 1 },
            ended: List::EMPTY,
            len: 0,
            owners: vec![List::EMPTY; owners as usize].into(),
            waiting: vec![NONE; owners as usize].into(),
            head: 0,
            waits: 0,
        }
    }

    /// Operations in it.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.free.first == NONE
    }

    /// Enters an operation on `owner` and gives its index; `None` if the ledger is full.
    #[inline]
    pub(super) fn enter(&mut self, owner: Owner, entry: Entry) -> Option<u32> {
        let list = self.owners.get_mut(owner.0 as usize)?;
        let index = self.free.first;
        let place = self.places.get_mut(index as usize)?;
        self.free.first = place.next;
        *place = Place { entry, result: Ok(()), next: NONE };
        let last = list.last;
        list.last = index;
        if list.first == NONE {
            list.first = index;
            self.wait_for(owner);
        } else if let Some(last) = self.places.get_mut(last as usize) {
            last.next = index;
        }
        self.len += 1;
        Some(index)
    }

    /// Puts `owner`, which is not in it, at the end of the ring.
    #[inline]
    fn wait_for(&mut self, owner: Owner) {
        let owners = self.owners.len();
        let mut at = self.head as usize + self.waits as usize;
        at -= if at >= owners { owners } else { 0 };
        if let Some(place) = self.waiting.get_mut(at) {
            *place = owner.0;
            self.waits += 1;
        }
    }

    /// The owner that has had operations in flight for longest.
    #[inline]
    pub(super) fn longest_waiting(&self) -> Option<Owner> {
        let first = self.waiting.get(self.head as usize)?;
        (self.waits > 0).then_some(Owner(*first))
    }

    /// All operations on the owner that has waited longest have ended, with `result`.
    #[inline]
    pub(super) fn end_longest_waiting(&mut self, result: Result<(), OpError>) {
        let Some(owner) = self.longest_waiting() else { return };
        self.head = if self.head as usize + 1 < self.owners.len() { self.head + 1 } else { 0 };
        self.waits -= 1;
        let Some(list) = self.owners.get_mut(owner.0 as usize) else { return };
        let list = core::mem::replace(list, List::EMPTY);
        if result.is_err() {
            self.mark(list, result);
        }
        if let Some(last) = self.places.get_mut(self.ended.last as usize) {
            last.next = list.first;
        } else {
            self.ended.first = list.first;
        }
        self.ended.last = list.last;
    }

    #[cold]
    fn mark(&mut self, list: List, result: Result<(), OpError>) {
        let mut index = list.first;
        while let Some(place) = self.places.get_mut(index as usize) {
            place.result = result;
            index = place.next;
        }
    }

    /// Whether an operation has ended and was not taken.
    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        self.ended.first != NONE
    }

    /// Takes the first operation that ended: its index, which may be given again from now on, and
    /// how it ended.
    #[inline]
    pub(super) fn take_ended(&mut self) -> Option<(u32, Entry, Result<(), OpError>)> {
        let index = self.ended.first;
        let place = self.places.get_mut(index as usize)?;
        let Place { entry, result, next } = *place;
        place.next = self.free.first;
        self.free.first = index;
        self.ended.first = next;
        if next == NONE {
            self.ended.last = NONE;
        }
        self.len -= 1;
        Some((index, entry, result))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(token: u64) -> Entry {
        Entry { token: Token(token), kind: Kind::Atomic }
    }

    fn take_all(ledger: &mut Ledger) -> Vec<u64> {
        core::iter::from_fn(|| ledger.take_ended()).map(|(_, entry, _)| entry.token.0).collect()
    }

    #[test]
    fn an_owners_operations_end_together_and_once() {
        let mut ledger = Ledger::new(4, 3);
        for (owner, token) in [(2, 1), (0, 2), (2, 3), (0, 4)] {
            assert!(ledger.enter(Owner(owner), entry(token)).is_some());
        }
        assert!(ledger.is_full() && ledger.enter(Owner(1), entry(5)).is_none());
        assert_eq!(ledger.longest_waiting(), Some(Owner(2)));
        ledger.end_longest_waiting(Ok(()));
        assert_eq!(take_all(&mut ledger), [1, 3]);
        ledger.end_longest_waiting(Ok(()));
        assert_eq!(take_all(&mut ledger), [2, 4]);
        assert_eq!((ledger.longest_waiting(), ledger.len()), (None, 0));
        assert!(!ledger.has_ended());
    }

    #[test]
    fn owners_take_turns_for_ever() {
        let mut ledger = Ledger::new(3, 2);
        for round in 0..7_u64 {
            for owner in 0..2 {
                ledger.enter(Owner(owner), entry(2 * round + u64::from(owner))).unwrap();
            }
            for owner in 0..2 {
                assert_eq!(ledger.longest_waiting(), Some(Owner(owner)));
                ledger.end_longest_waiting(Ok(()));
            }
            assert_eq!(take_all(&mut ledger), [2 * round, 2 * round + 1]);
        }
    }

    #[test]
    fn a_failure_is_that_of_one_owners_operations() {
        let mut ledger = Ledger::new(3, 2);
        for (owner, token) in [(1, 1), (0, 2), (1, 3)] {
            ledger.enter(Owner(owner), entry(token)).unwrap();
        }
        ledger.end_longest_waiting(Err(OpError::Device { code: 5 }));
        ledger.end_longest_waiting(Ok(()));
        let ends: Vec<_> = core::iter::from_fn(|| ledger.take_ended())
            .map(|(_, entry, result)| (entry.token.0, result.is_ok()))
            .collect();
        assert_eq!(ends, [(1, false), (3, false), (2, true)]);
    }
}
