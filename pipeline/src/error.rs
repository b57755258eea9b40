//! Errors of the pipeline and of its operations.

use core::error;
use core::fmt;

use probeline_transport::{Fault, OpError, PostError, SlotError};

/// The reason why an operation was refused or completed without an outcome. Unless it was refused,
/// it may or may not have taken effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Refused: all storage for operations is in use.
    Busy,
    /// One of its one-sided operations failed.
    Failed(OpError),
    /// The transport did not accept one of its one-sided operations.
    Post(PostError),
    /// The transport refused access to a slot that no operation in flight uses.
    Slot(SlotError),
    /// The transport is dead.
    Fault(Fault),
    /// The storage for operations has become shorter than when the pipeline was created. Operations
    /// in flight continue when it has its length again.
    Storage {
        /// Operations that it stores now.
        found: u32,
        /// Operations that it stored at first.
        expected: u32,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("all operations are in use: poll before the next"),
            Self::Failed(error) => {
                write!(f, "a one-sided operation failed, the outcome is unknown: {error}")
            }
            Self::Post(error) => write!(f, "cannot post a one-sided operation: {error}"),
            Self::Slot(error) => write!(f, "the transport refused access to an idle slot: {error}"),
            Self::Fault(fault) => write!(f, "the transport is dead: {fault}"),
            Self::Storage { found, expected } => write!(
                f,
                "the storage for {expected} operations has become one for {found}: \
                 it must keep its length"
            ),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Failed(error) => Some(error),
            Self::Post(error) => Some(error),
            Self::Slot(error) => Some(error),
            Self::Fault(fault) => Some(fault),
            Self::Busy | Self::Storage { .. } => None,
        }
    }
}

impl From<PostError> for Error {
    fn from(error: PostError) -> Self {
        Self::Post(error)
    }
}

impl From<SlotError> for Error {
    fn from(error: SlotError) -> Self {
        Self::Slot(error)
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// The number of operations is invalid: none, or more than the engine has slots for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationsError {
    /// Operations that the storage has.
    pub found: usize,
    /// The largest number that the engine's slots and the tokens allow.
    pub most: u32,
}

impl fmt::Display for OperationsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { found, most } = self;
        write!(f, "storage for {found} operations: the engine's slots allow 1 to {most}")
    }
}

impl error::Error for OperationsError {}
