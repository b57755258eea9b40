//! Addresses: owners, words of their windows, and ranges of private slots.

use core::fmt;

/// A process that holds a part of the shared memory, counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(pub u32);

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "owner {}", self.0)
    }
}

/// One word of one owner's window; `index` counts words from the window's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RemoteWord {
    /// The owner of the window.
    pub owner: Owner,
    /// The word.
    pub index: u64,
}

/// A run of `words` words that lies within one owner's window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Segment {
    /// The first word.
    pub start: RemoteWord,
    /// The number of words, at least 1.
    pub words: u32,
}

/// A private landing or staging buffer, counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

/// A run of `words` words of a slot, from its word `start` on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SlotRange {
    /// The slot, of this process.
    pub slot: Slot,
    /// The index of the first word in the slot.
    pub start: u32,
    /// The number of words, at least 1.
    pub words: u32,
}
