//! Why a simulation failed.

use core::error;
use core::fmt;

use probeline_sim::{ConfigError, OpenError};
use probeline_table::{OperationError, Outcome, SubmitError};
use probeline_transport::Fault;

/// Why an experiment has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The cluster cannot be made.
    Cluster(ConfigError),
    /// An engine cannot be had.
    Engine(OpenError),
    /// The table cannot be made.
    Table(probeline_table::ConfigError),
    /// An operation was not begun.
    Submit(SubmitError),
    /// An operation failed, which none does here.
    Operation(OperationError),
    /// The simulated transport is dead, which none is here.
    Fault(Fault),
    /// An operation ended otherwise than what the table holds lets it.
    Outcome {
        /// What was found or put.
        datum: u64,
        /// How it ended.
        outcome: Outcome,
    },
    /// An operation of a throughput looked at as many chunks as it may and found no empty bucket.
    Reach {
        /// M.
        max_chunks: u32,
        /// C.
        chunk_buckets: u32,
        /// How full the table was in the beginning, in hundredths.
        load_percent: u32,
    },
    /// The table is full.
    Full {
        /// Buckets of the table.
        buckets: u64,
        /// Of them, occupied.
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
