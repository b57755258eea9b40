//! Operations that an engine has accepted and not yet reported.

use alloc::boxed::Box;
use alloc::vec;

use probeline_transport::{Owner, Request, Slot, Token};

/// An accepted operation.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// The caller's token.
    pub token: Token,
    /// The owner of the words.
    pub owner: Owner,
    /// The kind, with the slot that a copy keeps busy.
    pub kind: Kind,
}

impl Operation {
    /// The operation that `request` starts.
    #[inline]
    #[must_use]
    pub fn new(token: Token, request: &Request) -> Self {
        let kind = match *request {
            Request::Read { into, .. } => Kind::Read(into.slot),
            Request::Write { from, .. } => Kind::Write(from.slot),
            Request::CompareAndSwap { .. } | Request::FetchAdd { .. } => Kind::Atomic,
        };
        Self { token, owner: request.owner(), kind }
    }
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A READ into this slot.
    Read(Slot),
    /// A WRITE from this slot.
    Write(Slot),
    /// A compare-and-swap or fetch-and-add, whose result is the word's old value.
    Atomic,
}

impl Kind {
    /// The slot that the operation keeps busy.
    #[inline]
    #[must_use]
    pub fn slot(self) -> Option<Slot> {
        match self {
            Self::Read(slot) | Self::Write(slot) => Some(slot),
            Self::Atomic => None,
        }
    }
}

impl Default for Operation {
    fn default() -> Self {
        Self { token: Token(0), owner: Owner(0), kind: Kind::Atomic }
    }
}

/// A first-in, first-out queue in memory that is allocated once.
#[derive(Debug)]
pub struct Ring<T> {
    /// The number of items is a power of two, so that positions can be masked.
    items: Box<[T]>,
    pushed: u64,
    popped: u64,
}

impl<T: Copy + Default> Ring<T> {
    /// A ring for at least `capacity` items.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        let items = vec![T::default(); capacity.next_power_of_two() as usize].into();
        Self { items, pushed: 0, popped: 0 }
    }

    /// The number of items. The caller keeps at most the capacity in the ring.
    #[inline]
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "at most the capacity, a u32")]
    pub fn len(&self) -> u32 {
        (self.pushed - self.popped) as u32
    }

    /// Whether there is no item.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pushed == self.popped
    }

    /// The place of item number `count`, counted from the first item ever pushed. Items in the ring
    /// have different places.
    #[inline]
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "the masked value is an index")]
    pub fn place(&self, count: u64) -> usize {
        count as usize & (self.items.len() - 1)
    }

    /// Item number `count`, which was pushed and not popped.
    #[inline]
    #[must_use]
    pub fn get(&self, count: u64) -> Option<&T> {
        self.items.get(self.place(count))
    }

    /// Item number `count` for changes; otherwise as [`get`](Self::get).
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self, count: u64) -> Option<&mut T> {
        let place = self.place(count);
        self.items.get_mut(place)
    }

    /// Appends `item`; the caller has checked that there is room.
    #[inline]
    pub fn push(&mut self, item: T) {
        let place = self.place(self.pushed);
        match self.items.get_mut(place) {
            Some(place) => {
                *place = item;
                self.pushed += 1;
            }
            None => debug_assert!(false, "the mask leaves a place of the ring"),
        }
    }

    /// The oldest item.
    #[inline]
    #[must_use]
    pub fn first(&self) -> Option<&T> {
        if self.is_empty() { None } else { self.get(self.popped) }
    }

    /// Removes the oldest item, which exists.
    #[inline]
    pub fn pop(&mut self) {
        debug_assert!(!self.is_empty(), "nothing to pop");
        self.popped += 1;
    }

    /// The number of items that were ever pushed.
    #[inline]
    #[must_use]
    pub fn pushed(&self) -> u64 {
        self.pushed
    }

    /// The number of items that were ever popped.
    #[inline]
    #[must_use]
    pub fn popped(&self) -> u64 {
        self.popped
    }
}

/// Operations by index. An engine posts an operation with its index, and finds it by the index in
/// the completion.
#[derive(Debug)]
pub struct Ledger {
    places: Box<[Place]>,
    /// The first free place, or the number of places if all are taken.
    free: u32,
    len: u32,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Taken(Operation),
    /// The next free place, or the number of places if this is the last one.
    Free(u32),
}

impl Ledger {
    /// A ledger for `depth` operations.
    #[must_use]
    pub fn new(depth: u32) -> Self {
        let places = (1..=depth).map(Place::Free).collect();
        Self { places, free: 0, len: 0 }
    }

    /// The number of operations.
    #[inline]
    #[must_use]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there is no operation.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether there is no room.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.free as usize >= self.places.len()
    }

    /// The index of the next operation to be inserted, or the depth if the ledger is full.
    #[inline]
    #[must_use]
    pub fn next(&self) -> u32 {
        self.free
    }

    /// Inserts an operation at [`next`](Self::next) and returns that index; `None` if the ledger is
    /// full.
    #[inline]
    pub fn insert(&mut self, operation: Operation) -> Option<u32> {
        let index = self.free;
        let place = self.places.get_mut(index as usize)?;
        let Place::Free(next) = *place else { return None };
        *place = Place::Taken(operation);
        self.free = next;
        self.len += 1;
        Some(index)
    }

    /// Removes the operation `index`; `None` if there is none.
    #[inline]
    pub fn remove(&mut self, index: u32) -> Option<Operation> {
        let place = self.places.get_mut(index as usize)?;
        let Place::Taken(operation) = *place else { return None };
        *place = Place::Free(self.free);
        self.free = index;
        self.len -= 1;
        Some(operation)
    }

    /// Removes any operation; `None` if there is none.
    pub fn remove_any(&mut self) -> Option<Operation> {
        let index = self.places.iter().position(|place| matches!(place, Place::Taken(_)))?;
        self.remove(u32::try_from(index).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_keep_their_order_when_the_ring_wraps() {
        let mut ring = Ring::new(3);
        for round in 0..4 {
            (0..3).for_each(|item| ring.push(3 * round + item));
            assert_eq!(ring.len(), 3);
            for item in 0..3 {
                assert_eq!(ring.first(), Some(&(3 * round + item)));
                ring.pop();
            }
            assert_eq!((ring.first(), ring.is_empty()), (None, true));
        }
        assert_eq!((ring.pushed(), ring.popped()), (12, 12));
    }

    #[test]
    fn items_in_a_ring_have_different_places() {
        let mut ring = Ring::new(3);
        for round in 0..9 {
            ring.push(2 * round);
            ring.push(2 * round + 1);
            assert_ne!(ring.place(2 * round), ring.place(2 * round + 1));
            assert_eq!(ring.get(2 * round + 1), Some(&(2 * round + 1)));
            ring.pop();
            ring.pop();
        }
    }

    #[test]
    fn an_operation_is_removed_once() {
        let mut ledger = Ledger::new(2);
        let operation = |token| Operation { token: Token(token), ..Operation::default() };
        assert!(ledger.is_empty() && ledger.next() == 0);
        let first = ledger.insert(operation(7)).unwrap();
        let second = ledger.insert(operation(8)).unwrap();
        assert!(ledger.is_full() && ledger.insert(operation(9)).is_none());
        assert_eq!(ledger.remove(second).unwrap().token, Token(8));
        assert!(ledger.remove(second).is_none() && ledger.remove(77).is_none());
        assert_eq!((ledger.len(), ledger.insert(operation(9))), (1, Some(second)));
        assert_eq!(ledger.remove(first).unwrap().token, Token(7));
        assert_eq!(ledger.remove_any().unwrap().token, Token(9));
        assert!(ledger.remove_any().is_none() && ledger.is_empty());
    }
}
