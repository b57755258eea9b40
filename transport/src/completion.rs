//! The token of an operation, and its completion.

use crate::OpError;

/// The caller's identifier of an operation. Its completion carries it unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// The completion of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The token that it was posted with.
    pub token: Token,
    /// The old value of the word for an atomic, 0 for READ and WRITE. After an error the effect is
    /// unknown.
    pub result: Result<u64, OpError>,
}

impl Default for Completion {
    /// Returns an initial value for the array that `poll` fills.
    fn default() -> Self {
        Self { token: Token(0), result: Ok(0) }
    }
}
