//! The four operations, without their operands.

use core::fmt;

/// What an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Copies words of a window into a slot.
    Read,
    /// Copies words of a slot into a window.
    Write,
    /// Changes one word if it has the expected value.
    CompareAndSwap,
    /// Adds to one word.
    FetchAdd,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Read => "READ",
            Self::Write => "WRITE",
            Self::CompareAndSwap => "CAS",
            Self::FetchAdd => "FAA",
        })
    }
}
