//! The paper's experiments (W. Oortwijn, T. van Dijk and J. van de Pol, *A Distributed Hash Table
//! for Shared Memory*, PPAM 2015, section 4) on clusters of any size, in virtual time.
//!
//! The table is the real one, over the simulator's transport. Each rank has a table, and one thread
//! steps the rank that is due first. A cluster of a thousand ranks therefore needs no thousand
//! threads, and the same seed gives the same figures.
#![forbid(unsafe_code)]

mod bound;
mod cluster;
mod latency;
mod throughput;

pub use bound::Bound;
pub use cluster::Setup;
pub use latency::{LatencyPlan, LatencyRow, latency};
pub use throughput::{ThroughputPlan, ThroughputRow, throughput};

use core::num::NonZero;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use std::panic::resume_unwind;
use std::thread;

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

/// Maximum experiments at the same time, because each has a cluster in memory.
pub const MAX_AT_ONCE: usize = 2;

/// Runs each of `all`, at most `max` at the same time, and returns the results in their order.
/// Each has a separate cluster, so results do not depend on which experiments run at the same time.
///
/// # Errors
/// The error of an experiment that failed. Experiments that have not started by then do not start.
pub fn run_all<I: Sync, O: Send, E: Send>(
    all: &[I],
    max: usize,
    run: impl Fn(&I) -> Result<O, E> + Sync,
) -> Result<Vec<O>, E> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Relaxed);
            let Some(one) = all.get(at) else { return Ok(done) };
            match run(one) {
                Ok(result) => done.push((at, result)),
                Err(error) => {
                    next.store(all.len(), Relaxed);
                    return Err(error);
                }
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = threads.min(max.clamp(1, MAX_AT_ONCE)).min(all.len());
    let mut done: Vec<(usize, O)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ends =
            threads.into_iter().map(|t| t.join().unwrap_or_else(|panic| resume_unwind(panic)));
        ends.collect::<Result<Vec<_>, E>>().map(|ends| ends.into_iter().flatten().collect())
    })?;
    done.sort_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, one)| one).collect())
}
