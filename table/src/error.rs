//! Errors of keys, configurations, operations and collective calls.

use core::error::Error;
use core::fmt;

use probeline_pipeline::{Error as Pipeline, OperationsError};
use probeline_transport::{ExchangeError, Fault, OpError, Owner, PostError, SlotError};

use crate::bucket::MAX_DATA;

/// A key that does not fit in the 63 bits of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataOutOfRange {
    /// Low and high half. A single u64 would make an operation's result half as large again, and a
    /// batch writes one result for each key.
    halves: [u32; 2],
}

impl DataOutOfRange {
    /// Creates the error for `data`.
    #[must_use]
    pub const fn new(data: u64) -> Self {
        // Each half is 32 bits.
        #[allow(clippy::cast_possible_truncation)]
        let halves = [data as u32, (data >> 32) as u32];
        Self { halves }
    }

    /// Returns the key.
    #[must_use]
    pub fn data(&self) -> u64 {
        let [low, high] = self.halves.map(u64::from);
        high << 32 | low
    }
}

impl fmt::Display for DataOutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "data {} has more than 63 bits: 0 to {MAX_DATA} is allowed", self.data())
    }
}

impl Error for DataOutOfRange {}

/// An invalid configuration, with the allowed range. The call changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// C is not a multiple of 8, or exceeds a part, a slot or the largest READ.
    ChunkBuckets {
        /// C as given.
        found: u32,
        /// The largest C here.
        most: u32,
    },
    /// `Probing::Jump` needs a C of 8, the buckets of one line.
    JumpChunk {
        /// C as given.
        found: u32,
    },
    /// M is 0 or too large.
    MaxChunks {
        /// M as given.
        found: u32,
        /// The largest M.
        most: u32,
    },
    /// The table does not start on a cache line.
    FirstWord {
        /// The word as given.
        found: u64,
    },
    /// The transport's window is shorter than its geometry states: a defect of the transport.
    Window {
        /// Words of the window.
        found: u64,
        /// Words of the window according to the geometry.
        expected: u64,
    },
    /// The table does not fit the windows.
    Buckets {
        /// Buckets in each part, as given.
        found: u64,
        /// The largest number that fits behind the first word and the header.
        most: u64,
    },
    /// No storage for operations, or more than the transport has slots for (two each).
    Operations {
        /// Operations given.
        found: usize,
        /// The largest number that the transport's slots allow.
        most: u32,
    },
    /// The transport's depth is too small for the two READs of a chunk that straddles two parts.
    Depth {
        /// The transport's depth.
        found: u32,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ChunkBuckets { found, most } => write!(
                f,
                "C is {found} buckets a chunk: a multiple of 8 from 8 to {most} is allowed here"
            ),
            Self::JumpChunk { found } => {
                write!(
                    f,
                    "C is {found} buckets a chunk, but probing jumps from line to line: give 8"
                )
            }
            Self::MaxChunks { found, most } => {
                write!(f, "M is {found} chunks: 1 to {most} is allowed")
            }
            Self::FirstWord { found } => {
                write!(f, "the table's first word is {found}: a multiple of 8 is needed")
            }
            Self::Window { found, expected } => write!(
                f,
                "the transport has a window of {found} words, but its geometry says {expected}: this is a defect of the transport"
            ),
            Self::Buckets { found, most } => write!(
                f,
                "{found} buckets for each owner do not fit: 8 to {most}, a multiple of 8, do"
            ),
            Self::Operations { found, most } => write!(
                f,
                "storage for {found} operations: 1 to {most} is allowed, two slots for each"
            ),
            Self::Depth { found } => {
                write!(f, "the transport's depth is {found}: at least 2 is needed")
            }
        }
    }
}

impl Error for ConfigError {}

/// The reason why an operation was not started. The call changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitError {
    /// All storage for operations is in use: poll, then submit again.
    Busy,
    /// The key does not fit in a bucket.
    Data(DataOutOfRange),
    /// The storage for operations has become shorter than when the table was opened.
    Storage {
        /// Operations that it stores now.
        found: u32,
        /// Operations that it stored at first.
        expected: u32,
    },
}

impl SubmitError {
    /// Converts the error with which the pipeline refused an operation.
    pub(crate) fn from_operation(error: OperationError) -> Self {
        match error {
            OperationError::Refused(refused) => refused,
            other => {
                debug_assert!(false, "a submit was refused: {other}");
                Self::Busy
            }
        }
    }
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Busy => Pipeline::Busy.fmt(f),
            Self::Data(error) => error.fmt(f),
            Self::Storage { found, expected } => Pipeline::Storage { found, expected }.fmt(f),
        }
    }
}

impl Error for SubmitError {}

impl From<DataOutOfRange> for SubmitError {
    fn from(error: DataOutOfRange) -> Self {
        Self::Data(error)
    }
}

/// The reason why a batch did not run to completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchError {
    /// The number of outcomes differs from the number of keys. The call changed nothing.
    Lengths {
        /// Number of keys.
        data: usize,
        /// Number of outcomes.
        outcomes: usize,
    },
    /// The batch stopped; outcomes that were not stored are unknown.
    Operation(OperationError),
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lengths { data, outcomes } => write!(
                f,
                "a batch of {data} data has room for {outcomes} outcomes: give as many outcomes"
            ),
            Self::Operation(error) => write!(f, "the batch has stopped: {error}"),
        }
    }
}

impl Error for BatchError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Lengths { .. } => None,
            Self::Operation(error) => Some(error),
        }
    }
}

/// The reason why an operation completed without an outcome.
///
/// Unless the operation was refused, it may or may not have taken effect. Repeating it is safe; the
/// repetition may find what the first attempt inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperationError {
    /// The operation was not started.
    Refused(SubmitError),
    /// One of its one-sided operations failed.
    Failed(OpError),
    /// The transport did not accept one of its one-sided operations.
    Post(PostError),
    /// The transport refused access to a slot that no operation in flight uses.
    Slot(SlotError),
    /// The transport's window is shorter than when the table was opened.
    Window,
    /// The transport died.
    Fault(Fault),
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::Failed(error) => Pipeline::Failed(*error).fmt(f),
            Self::Post(error) => Pipeline::Post(*error).fmt(f),
            Self::Slot(error) => Pipeline::Slot(*error).fmt(f),
            Self::Window => f.write_str("the transport's window has become shorter"),
            Self::Fault(fault) => Pipeline::Fault(*fault).fmt(f),
        }
    }
}

impl Error for OperationError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Refused(error) => Some(error),
            Self::Failed(error) => Some(error),
            Self::Post(error) => Some(error),
            Self::Slot(error) => Some(error),
            Self::Window => None,
            Self::Fault(error) => Some(error),
        }
    }
}

impl From<Pipeline> for OperationError {
    fn from(error: Pipeline) -> Self {
        match error {
            Pipeline::Failed(error) => Self::Failed(error),
            Pipeline::Post(error) => Self::Post(error),
            Pipeline::Slot(error) => Self::Slot(error),
            Pipeline::Fault(fault) => Self::Fault(fault),
            Pipeline::Storage { found, expected } => {
                Self::Refused(SubmitError::Storage { found, expected })
            }
            _ => Self::Refused(SubmitError::Busy),
        }
    }
}

impl From<OperationsError> for ConfigError {
    fn from(OperationsError { found, most }: OperationsError) -> Self {
        Self::Operations { found, most }
    }
}

impl From<Fault> for OperationError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<SlotError> for OperationError {
    fn from(error: SlotError) -> Self {
        Self::Slot(error)
    }
}

impl From<SubmitError> for OperationError {
    fn from(error: SubmitError) -> Self {
        Self::Refused(error)
    }
}

/// The reason why a collective call returned no result.
///
/// After an error in `clear` or `retain` the table's content is undefined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CollectiveError {
    /// The exchange failed.
    Exchange(ExchangeError),
    /// A one-sided operation of the call failed.
    Operation(OperationError),
    /// An owner failed in its part of the call; its own error gives the reason.
    PartFailed {
        /// The owner that failed.
        owner: Owner,
    },
    /// An owner opened the table with different parameters.
    Differs {
        /// The owner whose parameters differ.
        owner: Owner,
        /// The name of the parameter that differs.
        what: &'static str,
        /// The value on this owner.
        mine: u64,
        /// The value on the other owner.
        theirs: u64,
    },
}

impl fmt::Display for CollectiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exchange(error) => write!(f, "a collective call failed: {error}"),
            Self::Operation(error) => {
                write!(f, "an operation of a collective call failed: {error}")
            }
            Self::PartFailed { owner } => {
                write!(f, "{owner} could not do its part of a collective call; it says why itself")
            }
            Self::Differs { owner, what, mine, theirs } => write!(
                f,
                "{owner} opened another table: its {what} is {theirs}, here it is {mine}; \
                 start all of them with the same parameters"
            ),
        }
    }
}

impl Error for CollectiveError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Exchange(error) => Some(error),
            Self::Operation(error) => Some(error),
            Self::PartFailed { .. } | Self::Differs { .. } => None,
        }
    }
}

impl From<ExchangeError> for CollectiveError {
    fn from(error: ExchangeError) -> Self {
        Self::Exchange(error)
    }
}

impl From<OperationError> for CollectiveError {
    fn from(error: OperationError) -> Self {
        Self::Operation(error)
    }
}

/// The reason why a table was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The configuration is invalid on this engine.
    Config(ConfigError),
    /// The owners did not agree, or the collective call failed.
    Collective(CollectiveError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => write!(f, "cannot open the table: {error}"),
            Self::Collective(error) => write!(f, "cannot open the table: {error}"),
        }
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Config(error) => Some(error),
            Self::Collective(error) => Some(error),
        }
    }
}

impl From<ConfigError> for OpenError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<CollectiveError> for OpenError {
    fn from(error: CollectiveError) -> Self {
        Self::Collective(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find_or_put::Outcome;

    #[test]
    fn a_result_is_two_words() {
        assert!(size_of::<Result<Outcome, OperationError>>() <= 16);
        assert_eq!(DataOutOfRange::new(u64::MAX - 1).data(), u64::MAX - 1);
    }
}
