//! Operations that an engine has accepted and not yet reported.

use alloc::boxed::Box;
use alloc::vec;

use crate::{Owner, Request, Slot, Token};

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
    /// Creates the operation that `request` starts.
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
    /// Returns the slot that the operation keeps busy.
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
    /// Creates a ring for at least `capacity` items.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        let items = vec![T::default(); capacity.next_power_of_two() as usize].into();
        Self { items, pushed: 0, popped: 0 }
    }

    /// Returns the number of items. The caller keeps at most the capacity in the ring.
    #[inline]
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "at most the capacity, a u32")]
    pub fn len(&self) -> u32 {
        (self.pushed - self.popped) as u32
    }

    /// Returns whether there is no item.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pushed == self.popped
    }

    /// Returns the place of item number `count`, counted from the first item ever pushed. Items in
    /// the ring have different places.
    #[inline]
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "the masked value is an index")]
    pub fn place(&self, count: u64) -> usize {
        count as usize & (self.items.len() - 1)
    }

    /// Returns item number `count`, which was pushed and not popped.
    #[inline]
    #[must_use]
    pub fn get(&self, count: u64) -> Option<&T> {
        self.items.get(self.place(count))
    }

    /// Returns item number `count` for changes; otherwise as [`get`](Self::get).
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

    /// Returns the oldest item.
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

    /// Returns the number of items that were ever pushed.
    #[inline]
    #[must_use]
    pub fn pushed(&self) -> u64 {
        self.pushed
    }

    /// Returns the number of items that were ever popped.
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

/// A place of the ledger, in two words.
#[derive(Clone, Copy, Debug)]
struct Place {
    token: Token,
    /// The slot of a copy, [`ATOMIC`] or [`FREE`].
    slot: u32,
    /// The owner, with [`WRITE`] for a WRITE. In a free place: the next free one, or the number of
    /// places if this is the last one.
    link: u32,
}

/// The maximum number of slots.
pub(crate) const MAX_SLOTS: u32 = 1 << 31;
/// Marks, in place of a slot, a place without an operation.
const FREE: u32 = MAX_SLOTS;
/// Marks, in place of a slot, an atomic.
const ATOMIC: u32 = MAX_SLOTS + 1;
/// A bit above those of owners.
const WRITE: u32 = 1 << 31;
const _: () = assert!(crate::MAX_OWNERS < WRITE);

impl Place {
    #[inline]
    fn free(next: u32) -> Self {
        Self { token: Token(0), slot: FREE, link: next }
    }

    #[inline]
    fn taken(Operation { token, owner: Owner(owner), kind }: Operation) -> Self {
        let (slot, link) = match kind {
            Kind::Read(Slot(slot)) => (slot, owner),
            Kind::Write(Slot(slot)) => (slot, owner | WRITE),
            Kind::Atomic => (ATOMIC, owner),
        };
        debug_assert!(slot == ATOMIC || slot < MAX_SLOTS, "{kind:?}");
        Self { token, slot, link }
    }

    /// Returns the kind of the operation; `None` if there is none.
    #[inline]
    fn kind(&self) -> Option<Kind> {
        if self.slot >= MAX_SLOTS {
            return (self.slot == ATOMIC).then_some(Kind::Atomic);
        }
        let slot = Slot(self.slot);
        Some(if self.link & WRITE == 0 { Kind::Read(slot) } else { Kind::Write(slot) })
    }
}

/// An operation in a [`Ledger`].
#[derive(Debug)]
pub struct Taken<'a> {
    place: &'a Place,
    /// The index of the operation.
    pub index: u32,
    /// The kind of the operation.
    pub kind: Kind,
}

impl Taken<'_> {
    /// Returns the caller's token.
    #[inline]
    #[must_use]
    pub fn token(&self) -> Token {
        self.place.token
    }

    /// Returns the operation with its token, owner and kind.
    #[inline]
    #[must_use]
    pub fn operation(&self) -> Operation {
        Operation { token: self.token(), owner: Owner(self.place.link & !WRITE), kind: self.kind }
    }
}

impl Ledger {
    /// Creates a ledger for `depth` operations.
    #[must_use]
    pub fn new(depth: u32) -> Self {
        Self { places: (1..=depth).map(Place::free).collect(), free: 0, len: 0 }
    }

    /// Returns the number of operations.
    #[inline]
    #[must_use]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns whether there is no operation.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether there is no room.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.free as usize >= self.places.len()
    }

    /// Returns the index of the next operation to be inserted, or the depth if the ledger is full.
    #[inline]
    #[must_use]
    pub fn next(&self) -> u32 {
        self.free
    }

    /// Returns the place for the next operation; `None` if the ledger is full.
    #[inline]
    pub fn vacant(&mut self) -> Option<Vacant<'_>> {
        let Self { places, free, len } = self;
        let place = places.get_mut(*free as usize)?;
        Some(Vacant { place, index: *free, free, len })
    }

    /// Inserts an operation at [`next`](Self::next) and returns that index; `None` if the ledger is
    /// full.
    #[inline]
    pub fn insert(&mut self, operation: Operation) -> Option<u32> {
        let place = self.vacant()?;
        let index = place.index();
        place.insert(operation);
        Some(index)
    }

    /// Returns the operation `index`; `None` if there is none.
    #[must_use]
    pub fn get(&self, index: u32) -> Option<Operation> {
        let place = self.places.get(index as usize)?;
        Some(Taken { place, index, kind: place.kind()? }.operation())
    }

    /// Removes the operation `index`; `None` if there is none.
    #[inline]
    pub fn remove(&mut self, index: u32) -> Option<Operation> {
        let mut removed = None;
        self.remove_while([(u64::from(index), ())], |taken, ()| {
            removed = Some(taken.operation());
            true
        });
        removed
    }

    /// Removes operations by their indices, each with an item of the caller, while `complete`
    /// accepts them. Returns their number. It stops before an index that has no operation; any
    /// number that a device returns may be passed.
    #[inline(always)]
    pub fn remove_while<I>(
        &mut self,
        indices: impl IntoIterator<Item = (u64, I)>,
        mut complete: impl FnMut(Taken, I) -> bool,
    ) -> u32 {
        let places = &mut *self.places;
        let (mut free, mut removed) = (self.free, 0);
        for (index, item) in indices {
            let Ok(place) = usize::try_from(index) else { break };
            let Some(place) = places.get_mut(place) else { break };
            let Some(kind) = place.kind() else { break };
            #[allow(clippy::cast_possible_truncation, reason = "less than the depth, a u32")]
            let index = index as u32;
            if !complete(Taken { place, index, kind }, item) {
                break;
            }
            (place.slot, place.link) = (FREE, free);
            free = index;
            removed += 1;
        }
        self.free = free;
        self.len -= removed;
        removed
    }

    /// Removes any operation; `None` if there is none.
    pub fn remove_any(&mut self) -> Option<Operation> {
        let index = self.places.iter().position(|place| place.slot != FREE)?;
        self.remove(u32::try_from(index).ok()?)
    }
}

/// A free place of a [`Ledger`].
#[derive(Debug)]
pub struct Vacant<'a> {
    place: &'a mut Place,
    index: u32,
    free: &'a mut u32,
    len: &'a mut u32,
}

impl Vacant<'_> {
    /// Returns the index that the operation will have.
    #[inline]
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Inserts the operation.
    #[inline]
    pub fn insert(self, operation: Operation) {
        *self.free = self.place.link;
        *self.place = Place::taken(operation);
        *self.len += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_keeps_order_when_wrapping() {
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
    fn ring_items_have_different_places() {
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
    fn insert_then_remove() {
        let slots = [0, 7, MAX_SLOTS - 1].map(Slot);
        let kinds = slots.into_iter().flat_map(|slot| [Kind::Read(slot), Kind::Write(slot)]);
        let mut ledger = Ledger::new(1);
        for kind in kinds.chain([Kind::Atomic]) {
            let owner = Owner(crate::MAX_OWNERS - 1);
            let index = ledger.insert(Operation { token: Token(5), owner, kind }).unwrap();
            let Operation { token, owner: removed, kind: removed_kind } =
                ledger.remove(index).unwrap();
            assert_eq!((token, removed, removed_kind), (Token(5), owner, kind));
        }
    }

    /// Every sequence of insertions and of removals of any index, with and without an operation, on
    /// a ledger for three operations, beside an array of tokens.
    #[test]
    fn ledger_matches_model() {
        const STEPS: u32 = 7;
        for sequence in 0..5_u32.pow(STEPS) {
            let (mut ledger, mut model) = (Ledger::new(3), [None; 3]);
            for step in 0..STEPS {
                let token = Token(step.into());
                match sequence / 5_u32.pow(step) % 5 {
                    4 => {
                        let index = ledger.insert(Operation { token, ..Operation::default() });
                        assert_eq!(index.is_none(), model.iter().all(Option::is_some));
                        if let Some(index) = index {
                            assert_eq!(model[index as usize].replace(token), None);
                        }
                    }
                    index => {
                        let removed = ledger.remove(index).map(|removed| removed.token);
                        assert_eq!(removed, model.get_mut(index as usize).and_then(Option::take));
                    }
                }
                assert_eq!(ledger.len() as usize, model.iter().flatten().count());
                assert_eq!(ledger.is_full(), ledger.len() == 3);
            }
            while let Some(removed) = ledger.remove_any() {
                assert!(model.iter_mut().any(|it| it.take_if(|it| *it == removed.token).is_some()));
            }
            assert!(ledger.is_empty() && model == [None; 3]);
        }
    }

    #[test]
    fn removal_stops_at_missing_operation() {
        let operation = |token| Operation { token: Token(token), ..Operation::default() };
        for missing in [1, 4, 1 << 32, u64::MAX] {
            let mut ledger = Ledger::new(4);
            (0..4).for_each(|token| assert!(ledger.insert(operation(token)).is_some()));
            assert!(ledger.remove(1).is_some());
            let mut seen = std::vec::Vec::new();
            let indices = [(2, 'a'), (0, 'b'), (missing, 'c'), (3, 'd')];
            let removed = ledger.remove_while(indices, |taken, item| {
                seen.push((taken.index, taken.token(), item));
                true
            });
            assert_eq!(seen, [(2, Token(2), 'a'), (0, Token(0), 'b')]);
            assert_eq!((removed, ledger.len()), (2, 1));
            // An operation that is not accepted stays.
            assert_eq!(ledger.remove_while([(3, ())], |_, ()| false), 0);
            assert_eq!(ledger.remove(3).unwrap().token, Token(3));
            assert!(ledger.is_empty());
        }
    }
}
