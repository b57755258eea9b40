//! The operations that were accepted and not yet reported.

use alloc::vec;
use alloc::vec::Vec;

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
    /// READ or WRITE, which keeps the slot busy.
    Copy(Slot),
    /// The old value lands in the result word of the entry's index.
    Atomic,
}

/// Entries by index, which is the name a work request is posted under.
#[derive(Debug)]
pub(super) struct Ledger {
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
}

impl Ledger {
    pub(super) fn new(depth: u32) -> Self {
        Self { entries: vec![None; depth as usize], free: (0..depth).rev().collect() }
    }

    /// Entries in it.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        // As many as the depth at most, which is a u32.
        #[allow(clippy::cast_possible_truncation)]
        let len = (self.entries.len() - self.free.len()) as u32;
        len
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Enters an operation and gives its index; `None` if the ledger is full.
    #[inline]
    pub(super) fn enter(&mut self, entry: Entry) -> Option<u32> {
        let index = self.free.pop()?;
        *self.entries.get_mut(index as usize)? = Some(entry);
        Some(index)
    }

    /// Strikes out the operation `index`; `None` if there is none, or no longer.
    #[inline]
    pub(super) fn strike(&mut self, index: u32) -> Option<Entry> {
        let entry = self.entries.get_mut(index as usize)?.take()?;
        // As large as it was once: nothing is allocated.
        self.free.push(index);
        Some(entry)
    }

    /// Any operation that is left.
    pub(super) fn strike_any(&mut self) -> Option<Entry> {
        let index = self.entries.iter().position(Option::is_some)?;
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
        assert!(ledger.is_full() && ledger.enter(entry(9)).is_none());
        assert_eq!(ledger.strike(second).unwrap().token, Token(8));
        assert!(ledger.strike(second).is_none() && ledger.strike(77).is_none());
        assert_eq!(ledger.len(), 1);
        assert_eq!(ledger.enter(entry(9)), Some(second));
        assert_eq!(ledger.strike(first).unwrap().token, Token(7));
        assert_eq!(ledger.strike_any().unwrap().token, Token(9));
        assert!(ledger.strike_any().is_none());
        assert_eq!(ledger.len(), 0);
    }
}
