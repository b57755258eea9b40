//! The errors of a simulation.

use core::error;
use core::fmt;

use probeline_sim::{ConfigError, OpenError};
use probeline_table::{OperationError, Outcome, SubmitError};
use probeline_transport::Fault;

/// The reason why an experiment has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The cluster cannot be created.
    Cluster(ConfigError),
    /// An engine cannot be opened.
    Engine(OpenError),
    /// The table cannot be created.
    Table(probeline_table::ConfigError),
    /// An operation could not be submitted.
    Submit(SubmitError),
    /// An operation failed; the simulator causes no such failure.
    Operation(OperationError),
    /// The simulated transport is dead; the simulator does not cause this.
    Fault(Fault),
    /// The outcome of an operation contradicts the contents of the table.
    Outcome {
        /// The key of the operation.
        datum: u64,
        /// The outcome.
        outcome: Outcome,
    },
    /// An operation of a throughput probed M chunks and found no empty bucket.
    Reach {
        /// M.
        max_chunks: u32,
        /// C.
        chunk_buckets: u32,
        /// The load factor of the table at the start, in percent.
        load_percent: u32,
    },
    /// The table is full.
    Full {
        /// The buckets of the table.
        buckets: u64,
        /// The number of these buckets that are occupied.
        held: u64,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster(error) => error.fmt(f),
            Self::Engine(error) => error.fmt(f),
            Self::Table(error) => error.fmt(f),
            Self::Submit(error) => error.fmt(f),
            Self::Operation(error) => error.fmt(f),
            Self::Fault(fault) => fault.fmt(f),
            Self::Outcome { datum, outcome } => {
                write!(f, "datum {datum:#x} was {outcome:?}, which the table's content rules out")
            }
            Self::Reach { max_chunks, chunk_buckets, load_percent } => write!(
                f,
                "M = {max_chunks} chunks of C = {chunk_buckets} do not reach an empty bucket on a \
                 table filled to {:.2}; give a larger M, -M, or a lower load factor, --filled",
                f64::from(*load_percent) / 100.0
            ),
            Self::Full { buckets, held } => write!(
                f,
                "the table is full with {held} of {buckets} buckets occupied; give a lower load \
                 factor, more buckets or more chunks"
            ),
        }
    }
}

impl error::Error for Error {}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        Self::Cluster(error)
    }
}

impl From<OpenError> for Error {
    fn from(error: OpenError) -> Self {
        Self::Engine(error)
    }
}

impl From<probeline_table::ConfigError> for Error {
    fn from(error: probeline_table::ConfigError) -> Self {
        Self::Table(error)
    }
}

impl From<SubmitError> for Error {
    fn from(error: SubmitError) -> Self {
        Self::Submit(error)
    }
}

impl From<OperationError> for Error {
    fn from(error: OperationError) -> Self {
        Self::Operation(error)
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}
