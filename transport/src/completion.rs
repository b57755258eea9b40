//! How an operation is named and how it ends.

use crate::OpError;

/// A caller's name for an operation, given back in its completion and not looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// The end of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The name it was posted under.
    pub token: Token,
    /// The word's old value for atomics, 0 for READ and WRITE; or why it failed, in which case
    /// its effect is unknown.
    pub result: Result<u64, OpError>,
}

impl Default for Completion {
    /// A value to fill the array that is handed to `poll`.
    fn default() -> Self {
        Self { token: Token(0), result: Ok(0) }
    }
}
