//! Errors of programs.

use std::io;
use std::path::PathBuf;

use probeline::containers::{BatchError, CollectiveError, OperationError};
use probeline::transport::ExchangeError;
use thiserror::Error as ThisError;

/// The reason why a program has failed on this rank.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// The file; `-` is standard input.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file has no sequences that can be read.
    #[error("{}: {problem}", path.display())]
    Format {
        /// The file; `-` is standard input.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// A file cannot be written.
    #[error("{} cannot be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
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
         exceed {most}: allow more memory"
    )]
    Full {
        /// K-mers in the table.
        held: u64,
        /// Bytes of the table.
        bytes: u64,
        /// The most bytes allowed, also while k-mers move to a larger table.
        most: u64,
    },
    /// A result is wrong.
    #[error("{0}: report this as a defect")]
    Wrong(String),
    /// A parameter is not possible.
    #[error("{0}")]
    Parameter(String),
    /// The memory of the table cannot be opened.
    #[error("cannot open the memory of the table: {0}")]
    Open(#[from] probeline::shm::OpenError),
    /// A batch of operations has failed.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// An operation has failed.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// A collective call of a container has failed.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
    /// A collective call has failed.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
}
