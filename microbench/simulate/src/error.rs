//! The errors of a simulation.

use probeline_table::{OperationError, Outcome};
use probeline_transport::Fault;

/// The reason why an experiment has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The cluster cannot be created, or an engine not be opened.
    #[error(transparent)]
    Cluster(#[from] probeline_transport::SetupError),
    /// The table cannot be created.
    #[error(transparent)]
    Table(#[from] probeline_table::ConfigError),
    /// An operation failed; the simulator causes no such failure.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// The simulated transport is dead; the simulator does not cause this.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The outcome of an operation contradicts the contents of the table.
    #[error("key {key:#x} was {outcome:?}, which the table's content rules out")]
    Outcome {
        /// The key of the operation.
        key: u64,
        /// The outcome that it reported.
        outcome: Outcome,
    },
    /// An operation of a throughput probed M chunks and found no empty bucket.
    #[error(
        "M = {max_chunks} chunks of C = {chunk_buckets} do not reach an empty bucket on a table \
         filled to {:.2}; give a larger M, -M, or a lower load factor, --throughput-load-factor",
        f64::from(*.load_percent) / 100.0
    )]
    NoRoom {
        /// M: the most chunks that an operation probes.
        max_chunks: u32,
        /// C: the buckets of a chunk.
        chunk_buckets: u32,
        /// The load factor of the table at the start, in percent.
        load_percent: u32,
    },
    /// The table is full.
    #[error(
        "the table is full with {held} of {buckets} buckets occupied; give a lower load factor, more \
         buckets or more chunks"
    )]
    Full {
        /// The buckets of the table.
        buckets: u64,
        /// The number of these buckets that are occupied.
        held: u64,
    },
}
