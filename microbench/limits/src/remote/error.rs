//! Why a transport was not measured.

use core::error::Error;
use core::fmt;
use core::ops::Range;

use probeline_transport::{Fault, OpError, PostError, SlotError};

/// Why a transport was not measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemoteError {
    /// Nobody's windows were given.
    NoOwners,
    /// No words were given, or such as no window has.
    Words {
        /// Those given.
        words: Range<u64>,
        /// Words in each window.
        window_words: u64,
    },
    /// So many operations of others are in flight.
    InFlight(u32),
    /// Fewer than one in flight, or more than the engine takes or has slots for.
    Depth {
        /// Asked for.
        depth: u32,
        /// The most.
        deepest: u32,
    },
    /// The engine refused an operation.
    Post(PostError),
    /// An operation failed.
    Operation(OpError),
    /// What a READ brought was not to be seen.
    Slot(SlotError),
    /// The engine is dead.
    Fault(Fault),
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoOwners => f.write_str("no owner was given to measure: give one or more"),
            Self::Words { words, window_words } => write!(
                f,
                "words {} to {} are not some of a window's {window_words}: give such as are",
                words.start, words.end
            ),
            Self::InFlight(count) => {
                write!(f, "{count} operations are in flight already: poll for them first")
            }
            Self::Depth { depth, deepest } => write!(
                f,
                "{depth} operations in flight cannot be measured: take 1 to {deepest}, or open the \
                 engine with a larger depth and as many slots"
            ),
            Self::Post(_) => f.write_str("the transport refused an operation"),
            Self::Operation(_) => f.write_str("an operation failed"),
            Self::Slot(_) => f.write_str("what a READ brought cannot be seen"),
            Self::Fault(_) => f.write_str("the transport is dead: start the job again"),
        }
    }
}

impl Error for RemoteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Post(error) => Some(error),
            Self::Operation(error) => Some(error),
            Self::Slot(error) => Some(error),
            Self::Fault(fault) => Some(fault),
            _ => None,
        }
    }
}

impl From<PostError> for RemoteError {
    fn from(error: PostError) -> Self {
        Self::Post(error)
    }
}

impl From<OpError> for RemoteError {
    fn from(error: OpError) -> Self {
        Self::Operation(error)
    }
}

impl From<SlotError> for RemoteError {
    fn from(error: SlotError) -> Self {
        Self::Slot(error)
    }
}

impl From<Fault> for RemoteError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}
