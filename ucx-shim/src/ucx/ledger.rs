//! The operations that went on when they were posted and are not yet reported.

use probeline_transport::{Owner, Slot, Token};

/// An accepted operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) token: Token,
    pub(super) owner: Owner,
    pub(super) kind: Kind,
}

/// What becomes of its result.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// READ, which keeps the slot busy.
    Read(Slot),
    /// WRITE, likewise.
    Write(Slot),
    /// The old value is the desk's to tell.
    Atomic,
}

/// No index.
const NONE: u32 = u32::MAX;

/// Entries by index, which is the operation's at the desk.
#[derive(Debug)]
pub(super) struct Ledger {
    places: Box<[Place]>,
    /// The first free place; [`NONE`] if there is none.
    free: u32,
    len: u32,
}

/// An entry, or the index of the next free place.
#[derive(Clone, Copy, Debug)]
enum Place {
    Taken(Entry),
    Free(u32),
}

impl Ledger {
    pub(super) fn new(depth: u32) -> Self {
        let next = |index| if index + 1 < depth { index + 1 } else { NONE };
        let places = (0..depth).map(|index| Place::Free(next(index))).collect();
        Self { places, free: if depth > 0 { 0 } else { NONE }, len: 0 }
    }

    /// Entries in it.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// The index of the next entry; one that no operation has if the ledger is full.
    #[inline]
    pub(super) fn next(&self) -> u32 {
        self.free
    }

    /// Enters an operation at [`next`](Self::next) and gives that; `None` if the ledger is full.
    pub(super) fn enter(&mut self, entry: Entry) -> Option<u32> {
        let index = self.free;
        let place = self.places.get_mut(index as usize)?;
        let Place::Free(next) = *place else { return None };
        *place = Place::Taken(entry);
        self.free = next;
        self.len += 1;
        Some(index)
    }

    /// Strikes out the operation `index`; `None` if there is none, or no longer.
    #[inline]
    pub(super) fn strike(&mut self, index: u32) -> Option<Entry> {
        let place = self.places.get_mut(index as usize)?;
        let Place::Taken(entry) = *place else { return None };
        *place = Place::Free(self.free);
        self.free = index;
        self.len -= 1;
        Some(entry)
    }

    /// Any operation that is left.
    pub(super) fn strike_any(&mut self) -> Option<Entry> {
        let index = self.places.iter().position(|place| matches!(place, Place::Taken(_)))?;
        self.strike(u32::try_from(index).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_struck_out_once() {
        let mut ledger = Ledger::new(2);
        let entry = |token| Entry { token: Token(token), owner: Owner(0), kind: Kind::Atomic };
        let first = ledger.enter(entry(7)).unwrap();
        let second = ledger.enter(entry(8)).unwrap();
        assert!(ledger.next() == NONE && ledger.enter(entry(9)).is_none());
        assert_eq!(ledger.strike(second).unwrap().token, Token(8));
        assert!(ledger.strike(second).is_none() && ledger.strike(77).is_none());
        assert_eq!((ledger.len(), ledger.enter(entry(9))), (1, Some(second)));
        assert_eq!(ledger.strike(first).unwrap().token, Token(7));
        assert_eq!(ledger.strike_any().unwrap().token, Token(9));
        assert!(ledger.strike_any().is_none());
    }
}
