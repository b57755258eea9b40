//! The table: blocking calls, and the poll form underneath with many operations in flight.

use core::sync::atomic::Ordering::Acquire;

use probeline_transport::{Fault, Transport};

use crate::bucket::Bucket;
use crate::cache::CacheEntry;
use crate::config::Config;
use crate::error::{BatchError, ConfigError, OperationError, SubmitError};
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
/// Every owner opens one with the same sizes, reach and probe order. The table owns its engine; whoever needs the
/// engine for words outside the table borrows it by [`transport`](Self::transport).
pub struct Table<T, S, C = [CacheEntry; 0]> {
    pub(crate) pipeline: Pipeline<T, S, C>,
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
        if (transport.window().len() as u64) < geometry.window_words {
            return Err(short_window(&transport));
        }
        let first_bucket = config.first_word + HEADER_WORDS;
        let buckets = config.buckets_per_owner;
        let layout = Layout::new(geometry.owners, buckets, first_bucket, config.probing);
        let pipeline = Pipeline::new(transport, layout, &config, operations, []);
        let mut table = Self { pipeline, config };
        table.pipeline.policy.set_load_factor(table.sample());
        table.write_header().map_err(|_| short_window(&table.pipeline.transport))?;
        Ok(table)
    }
}

/// The error for a window that is shorter than the geometry says: counting, clearing and collecting
/// garbage would skip the missing words.
fn short_window(transport: &impl Transport) -> ConfigError {
    let (found, expected) = (transport.window().len() as u64, transport.geometry().window_words);
    ConfigError::Window { found, expected }
}

impl<T, S, C> Table<T, S, C>
where
    T: Transport,
    S: AsMut<[Operation]>,
    C: AsMut<[CacheEntry]>,
{
    /// The same table with a cache of occupied buckets that this owner has seen, in the first
    /// entries of `entries`, as many as are a power of two.
    ///
    /// It answers finds without a roundtrip, and takes an operation past buckets that are known
    /// to hold other data. It needs no coherence protocol, as an occupied bucket never changes;
    /// [`clear`](Self::clear) and [`retain`](Self::retain) drop it.
    pub fn with_cache<D: AsMut<[CacheEntry]>>(self, entries: D) -> Table<T, S, D> {
        Table { pipeline: self.pipeline.with_cache(entries), config: self.config }
    }

    /// The share of occupied buckets among some of this owner's, 0 to 1.
    pub(crate) fn sample(&self) -> f64 {
        const BUCKETS: usize = 256;
        let buckets = self.buckets();
        let sample = buckets.iter().step_by(buckets.len().div_ceil(BUCKETS).max(1));
        let (mut occupied, mut all) = (0_u32, 0_u32);
        for bucket in sample {
            occupied += u32::from(Bucket::from_word(bucket.load(Acquire)).is_some());
            all += 1;
        }
        f64::from(occupied) / f64::from(all.max(1))
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

    /// [`find_or_put`](Self::find_or_put) of each of `data`; each end is left at the same place
    /// of `outcomes`. As many are in flight as the storage and the transport's depth allow, in
    /// any order, with a doorbell for all that could be posted at once. What the CPU does itself
    /// is interleaved, so that cache misses overlap.
    ///
    /// Data that is in the batch twice is inserted once. Operations submitted before go on
    /// meanwhile, and are reported by [`poll`](Self::poll); where their ends take up all storage,
    /// data that needs some ends [`SubmitError::Busy`]. Waits for the end; the transport bounds
    /// the wait.
    ///
    /// # Errors
    /// [`BatchError`] where the lengths differ. What becomes of each datum is in its outcome.
    pub fn find_or_put_batch(
        &mut self,
        data: &[u64],
        outcomes: &mut [Result<Outcome, OperationError>],
    ) -> Result<(), BatchError> {
        self.batch(data, Intent::FindOrPut, outcomes)
    }

    /// As [`find_or_put_batch`](Self::find_or_put_batch), for [`find`](Self::find): outcomes are
    /// [`Outcome::Found`] and [`Outcome::Absent`].
    ///
    /// # Errors
    /// As for [`find_or_put_batch`](Self::find_or_put_batch).
    pub fn find_batch(
        &mut self,
        data: &[u64],
        outcomes: &mut [Result<Outcome, OperationError>],
    ) -> Result<(), BatchError> {
        self.batch(data, Intent::Find, outcomes)
    }

    fn batch(
        &mut self,
        data: &[u64],
        intent: Intent,
        outcomes: &mut [Result<Outcome, OperationError>],
    ) -> Result<(), BatchError> {
        if data.len() != outcomes.len() {
            return Err(BatchError::Lengths { data: data.len(), outcomes: outcomes.len() });
        }
        self.pipeline.run_batch(data, intent, outcomes);
        Ok(())
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
