//! The table: blocking calls, and the poll form underneath with many operations in flight.

use core::sync::atomic::Ordering::Acquire;

use transport::{Fault, Transport};

use crate::bucket::Bucket;
use crate::config::Config;
use crate::error::{ConfigError, OperationError, SubmitError};
use crate::find_or_put::{Intent, Outcome};
use crate::layout::{HEADER_WORDS, Layout};
use crate::operation::Operation;
use crate::pipeline::Pipeline;
use crate::stats::Stats;

/// The end of an operation that was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The tag it was submitted under.
    pub tag: u64,
    /// How it ended.
    pub result: Result<Outcome, OperationError>,
}

impl Default for Finished {
    /// A value to fill the array that is handed to `poll`.
    fn default() -> Self {
        Self { tag: 0, result: Ok(Outcome::Absent) }
    }
}

/// A set of 63-bit numbers spread over the windows of all owners, on an engine `T`, with room
/// for as many operations in flight as `S` stores (an array, a slice, a `Vec`).
///
/// Every owner opens one with the same [`Config`]. The table owns its engine; whoever needs the
/// engine for words outside the table borrows it by [`transport`](Self::transport).
pub struct Table<T, S> {
    pub(crate) pipeline: Pipeline<T, S>,
    pub(crate) config: Config,
}

impl<T: Transport, S: AsMut<[Operation]>> Table<T, S> {
    /// A table over `transport`, without asking the other owners; [`open`](Self::open) is this
    /// and the check that all of them have the same.
    ///
    /// Uses two slots for each operation, from slot 0 on, and the window's words that
    /// [`Config::words`] says. Buckets must be 0 at first, as in a fresh window.
    ///
    /// # Errors
    /// [`ConfigError`] with the allowed range.
    pub fn new(transport: T, config: Config, mut operations: S) -> Result<Self, ConfigError> {
        let geometry = *transport.geometry();
        config.check(transport.caps(), &geometry, operations.as_mut().len())?;
        let first_bucket = config.first_word + HEADER_WORDS;
        let layout = Layout::new(geometry.owners, config.buckets_per_owner, first_bucket);
        let max_chunks = config.chunks_to_probe(geometry.owners);
        let pipeline =
            Pipeline::new(transport, layout, config.chunk_buckets, max_chunks, operations);
        let table = Self { pipeline, config };
        table.write_header();
        Ok(table)
    }

    /// Finds `data`, or puts it in the first bucket of its probe order that is empty (paper
    /// Fig. 1). Waits for the end; the transport bounds the wait.
    ///
    /// # Errors
    /// [`OperationError`]: refused, or of unknown outcome.
    #[inline]
    pub fn find_or_put(&mut self, data: u64) -> Result<Outcome, OperationError> {
        let bucket = Bucket::new(data).map_err(SubmitError::Data)?;
        self.pipeline.run(bucket, Intent::FindOrPut)
    }

    /// Whether `data` is in the table. Waits for the end; the transport bounds the wait.
    ///
    /// # Errors
    /// As for [`find_or_put`](Self::find_or_put).
    #[inline]
    pub fn find(&mut self, data: u64) -> Result<bool, OperationError> {
        let bucket = Bucket::new(data).map_err(SubmitError::Data)?;
        Ok(self.pipeline.run(bucket, Intent::Find)? == Outcome::Found)
    }

    /// Begins an operation whose end [`poll`](Self::poll) reports under `tag`.
    ///
    /// # Errors
    /// [`SubmitError::Busy`] while all storage is in use; data beyond 63 bits.
    #[inline]
    pub fn submit(&mut self, tag: u64, data: u64, intent: Intent) -> Result<(), SubmitError> {
        let bucket = Bucket::new(data)?;
        self.pipeline.submit(tag, bucket, intent)
    }

    /// Moves the ends of submitted operations into `out` and says how many. Never blocks.
    ///
    /// # Errors
    /// [`Fault`] when the transport is dead, only after the end of every operation was reported.
    #[inline]
    pub fn poll(&mut self, out: &mut [Finished]) -> Result<usize, Fault> {
        self.pipeline.poll(out)
    }

    /// The engine, once nothing of the table's is in flight: for words outside the table. Let
    /// everything that is posted on it end before the table is used again.
    ///
    /// # Errors
    /// [`Fault`] when the transport is dead.
    pub fn transport(&mut self) -> Result<&mut T, Fault> {
        self.pipeline.quiesce()?;
        Ok(&mut self.pipeline.transport)
    }

    /// The engine, to look at.
    #[inline]
    #[must_use]
    pub fn engine(&self) -> &T {
        &self.pipeline.transport
    }

    /// Gives the engine back, dead or alive, once nothing of the table's is in flight. Ends that
    /// were not reported are lost.
    pub fn into_transport(mut self) -> T {
        // A dead engine says so itself.
        self.pipeline.quiesce().ok();
        self.pipeline.transport
    }

    /// What operations have cost so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.pipeline.stats
    }

    /// Sets all counters to 0.
    pub fn reset_stats(&mut self) {
        self.pipeline.stats = Stats::default();
    }

    /// The parameters it was opened with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where its buckets are.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.pipeline.layout
    }

    /// The data in this owner's part. Exact between barriers; while others insert, each datum
    /// that was there before the call is seen.
    pub fn local(&self) -> impl Iterator<Item = u64> + '_ {
        let words = self.buckets().iter().map(|bucket| bucket.load(Acquire));
        words.filter_map(Bucket::from_word).map(Bucket::data)
    }
}
