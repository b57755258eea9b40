//! The operations that did not end when they were posted, and are not yet reported.

use probeline_transport::{Owner, Slot, Token};

/// An accepted operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) token: Token,
    pub(super) owner: Owner,
    pub(super) kind: Kind,
}

/// The kind of an operation, with the slot that it keeps busy.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Read(Slot),
    Write(Slot),
    Atomic,
}

/// The index of no operation.
const NONE: u32 = u32::MAX;

/// Operations by index, which is that of their request in the pool.
#[derive(Debug)]
pub(super) struct InFlight {
    entries: Box<[Entry]>,
    /// The first unused entry, or [`NONE`].
    unused: u32,
    len: u32,
}

#[derive(Clone, Copy, Debug)]
enum Entry {
    Used(Operation),
    /// With the index of the next unused entry, or [`NONE`].
    Unused(u32),
}

impl InFlight {
    /// Room for `depth` operations, at least one.
    pub(super) fn new(depth: u32) -> Self {
        let next = |index| if index + 1 < depth { index + 1 } else { NONE };
        let entries = (0..depth).map(|index| Entry::Unused(next(index))).collect();
        Self { entries, unused: 0, len: 0 }
    }

    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// The index that the next operation gets; that of no request if there is no room.
    #[inline]
    pub(super) fn next(&self) -> u32 {
        self.unused
    }

    /// Inserts an operation and returns its index; `None` if there is no room.
    pub(super) fn insert(&mut self, operation: Operation) -> Option<u32> {
        let index = self.unused;
        let entry = self.entries.get_mut(index as usize)?;
        let Entry::Unused(next) = *entry else { return None };
        *entry = Entry::Used(operation);
        self.unused = next;
        self.len += 1;
        Some(index)
    }

    /// Removes the operation `index`; `None` if it is not in flight.
    #[inline]
    pub(super) fn remove(&mut self, index: u32) -> Option<Operation> {
        let entry = self.entries.get_mut(index as usize)?;
        let Entry::Used(operation) = *entry else { return None };
        *entry = Entry::Unused(self.unused);
        self.unused = index;
        self.len -= 1;
        Some(operation)
    }

    /// Removes any operation.
    pub(super) fn remove_any(&mut self) -> Option<Operation> {
        let index = self.entries.iter().position(|entry| matches!(entry, Entry::Used(_)))?;
        self.remove(u32::try_from(index).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_removed_once() {
        let mut in_flight = InFlight::new(2);
        let operation =
            |token| Operation { token: Token(token), owner: Owner(0), kind: Kind::Atomic };
        let first = in_flight.insert(operation(7)).unwrap();
        let second = in_flight.insert(operation(8)).unwrap();
        assert!(in_flight.next() == NONE && in_flight.insert(operation(9)).is_none());
        assert_eq!(in_flight.remove(second).unwrap().token, Token(8));
        assert!(in_flight.remove(second).is_none() && in_flight.remove(77).is_none());
        assert_eq!((in_flight.len(), in_flight.insert(operation(9))), (1, Some(second)));
        assert_eq!(in_flight.remove(first).unwrap().token, Token(7));
        assert_eq!(in_flight.remove_any().unwrap().token, Token(9));
        assert!(in_flight.remove_any().is_none());
    }
}
