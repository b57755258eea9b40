//! Errors of programs.

use core::error::Error as CoreError;
use core::num::TryFromIntError;
use std::io;
use std::path::PathBuf;

use probeline::pipeline::{BatchError, CollectiveError, ConfigError, Error as OperationError};
use probeline::transport::{ExchangeError, Fault, OpError, PostError};
use thiserror::Error as ThisError;

use crate::explore::OutOfRoom;

/// The reason why a program has failed on this rank.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// The file; `-` is standard input.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file is missing, or has the wrong format.
    #[error("{}: {problem}", path.display())]
    Format {
        /// The file; `-` is standard input.
        path: PathBuf,
        /// The defect, and what to do.
        problem: String,
    },
    /// A file does not describe a Petri net.
    #[error("{}:{error}", path.display())]
    Pnml {
        /// The file.
        path: PathBuf,
        /// The line and its defect.
        error: crate::petri::PnmlError,
    },
    /// A file cannot be written.
    #[error("{} cannot be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Ranks have written their parts of a file to different places.
    #[error(
        "{} has {found} bytes, and all ranks have written {expected}: name a file in a directory that \
         all of them share",
        path.display()
    )]
    NotShared {
        /// The file.
        path: PathBuf,
        /// Its length on rank 0.
        found: u64,
        /// Bytes that all ranks have written.
        expected: u64,
    },
    /// The table has no room, and may not grow.
    #[error(
        "the table is full with {held} k-mers in {bytes} bytes, and with a larger one beside it would \
         exceed {max} bytes: give a larger --max-table-size, a --table-size as large, or more memory"
    )]
    Full {
        /// K-mers in the table.
        held: u64,
        /// Bytes of the table.
        bytes: u64,
        /// The largest number of bytes allowed, also while k-mers move to a larger table.
        max: u64,
    },
    /// A result is wrong.
    #[error("{0}: report this as a defect")]
    Wrong(String),
    /// A parameter is not possible.
    #[error("{0}")]
    Parameter(String),
    /// An exploration has no room for more states.
    #[error("{0}")]
    OutOfRoom(Box<OutOfRoom>),
    /// A rank was lost while the table of an exploration grew.
    #[error("{error}")]
    Growing {
        /// Bytes of the next table.
        bytes: u64,
        /// The loss.
        error: Box<Self>,
    },
    /// The caller could not open or measure an engine.
    #[error("{message}")]
    Engine {
        /// The cause.
        message: String,
        /// Whether a rank was lost.
        is_loss: bool,
    },
    /// The chemistry of a cell has no solution.
    #[error("{0}")]
    Unsolved(#[from] crate::reactive::Unsolved),
    /// A structure or its rounding cannot be configured in this way.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// A number is too large for this machine.
    #[error("{0}")]
    Number(#[from] TryFromIntError),
    /// An engine has refused an operation.
    #[error("{0}")]
    Post(#[from] PostError),
    /// An operation of an engine has failed.
    #[error("{0}")]
    Completion(#[from] OpError),
    /// An engine has failed.
    #[error("{0}")]
    Fault(#[from] Fault),
    /// The memory of the table cannot be opened.
    #[error("cannot open the memory of the table: {0}")]
    Open(#[from] probeline::shm::OpenError),
    /// A batch of operations has failed.
    #[error("{0}")]
    Batch(#[from] BatchError),
    /// An operation has failed.
    #[error("{0}")]
    Operation(#[from] OperationError),
    /// A collective call of a container has failed.
    #[error("{0}")]
    Collective(#[from] CollectiveError),
    /// A value cannot be converted to or from JSON, for example because a rank has another build.
    #[error("cannot gather a value of every rank: {0}")]
    Value(#[from] serde_json::Error),
    /// A collective call has failed.
    #[error("{0}")]
    Exchange(#[from] ExchangeError),
}

impl Error {
    /// Returns whether the cause is that a rank was lost.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        use ExchangeError::{OwnerExited, OwnerLost};
        if let Self::Engine { is_loss, .. } = self {
            return *is_loss;
        }
        core::iter::successors(self.source(), |error| (*error).source())
            .any(|cause| matches!(cause.downcast_ref(), Some(OwnerLost(_) | OwnerExited { .. })))
    }
}
