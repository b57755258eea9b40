//! The wide table, with blocking calls, batches, and submitted operations that the caller polls.

use probeline_pipeline::{Host, Pipeline, Tag};
use probeline_transport::Transport;

use super::batch::WideBatch;
use super::config::WideConfig;
use super::context::WideContext;
use super::direct;
use super::key::hash;
use super::machine::WideFindOrPut;
use super::stats::EntryStats;
use crate::error::{BatchError, ConfigError, OperationError, SubmitError};
use crate::layout::Layout;
use crate::line::Narrow;
use crate::outcome::{Answer, Ended, Intent, Outcome};
use crate::results::BatchResult;
use crate::stats::Stats;
use crate::table::{Finished, Polls, short_window};

/// Storage for one operation in flight on keys of `W` words, such as `[WideOperation::EMPTY; 8]`.
pub type WideOperation<const W: usize> = probeline_pipeline::Operation<WideFindOrPut<W>>;

/// A set of keys of `W` words in the windows of all owners, over an engine `T`, with storage `S`
/// for operations in flight.
///
/// The width is a constant of the type: a caller that knows it only at run time chooses among a few
/// widths and fills a shorter key with zeros. Every owner opens the table with the same sizes,
/// probe limit and probe order.
///
/// ```
/// use probeline_shm::Builder;
/// use probeline_table::{Outcome, WideConfig, WideOperation, WideTable};
/// use probeline_transport::Alone;
///
/// let config = WideConfig::<4>::for_keys(1_000, 1);
/// let engine = Builder::new(config.sizes(8)).open(&mut Alone)?;
/// let mut table = WideTable::new(engine, config, [WideOperation::EMPTY; 8])?;
/// let state = [1, 2, 3, 4];
/// assert_eq!(table.find_or_put(&state)?, Outcome::Inserted);
/// assert_eq!(table.find_or_put(&state)?, Outcome::Found);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct WideTable<T, S, const W: usize> {
    pub(crate) pipeline: Pipeline<T, S, WideContext, WideFindOrPut<W>>,
    pub(crate) config: WideConfig<W>,
    polls: Polls,
}

impl<T, S, const W: usize> WideTable<T, S, W>
where
    T: Transport,
    S: AsMut<[WideOperation<W>]>,
{
    /// Creates a table over `transport` without checking the parameters of the other owners;
    /// [`open`](Self::open) includes that check.
    ///
    /// The CPU runs no operation until [`agree`](Self::agree) has succeeded, because all owners use
    /// the direct path or none.
    ///
    /// The table uses four slots for each operation, from slot 0 on, and [`WideConfig::words`]
    /// words of the window, all 0 at first, as in a fresh window.
    ///
    /// # Errors
    /// [`ConfigError`] with the allowed range.
    pub fn new(
        transport: T,
        config: WideConfig<W>,
        mut operations: S,
    ) -> Result<Self, ConfigError> {
        check(&transport, &config, operations.as_mut().len())?;
        let context = WideContext::new(&transport, &config);
        let pipeline = Pipeline::new(transport, context, operations)?;
        Ok(Self { pipeline, config, polls: Polls::NEW })
    }

    /// Finds `key`, or inserts it into the first empty bucket of its probe order.
    ///
    /// [`Outcome::Full`] means that no bucket within the probe limit was empty, or that every entry
    /// was taken. Unused entries that other clients or other operations in flight hold count as
    /// taken.
    ///
    /// Blocks until the operation completes; the transport bounds the wait.
    ///
    /// # Errors
    /// [`OperationError`]: refused, or of unknown outcome. An operation of unknown outcome may cost
    /// an entry, until [`clear`](Self::clear) or [`retain`](Self::retain).
    pub fn find_or_put(&mut self, key: &[u64; W]) -> Result<Outcome, OperationError> {
        self.call(key)
    }

    /// Returns whether the table contains `key`. Blocks until the operation completes; the
    /// transport bounds the wait.
    ///
    /// # Errors
    /// As for [`find_or_put`](Self::find_or_put).
    pub fn find(&mut self, key: &[u64; W]) -> Result<bool, OperationError> {
        self.call(key)
    }

    fn call<A: Answer>(&mut self, key: &[u64; W]) -> Result<A, OperationError> {
        Ok(A::of(self.run(key, A::INTENT)?))
    }

    fn run(&mut self, key: &[u64; W], intent: Intent) -> Result<Ended, OperationError> {
        if self.pipeline.shared().is_direct {
            return self.run_by_cpu(key, intent);
        }
        let operation = WideFindOrPut::new(key, intent, self.pipeline.shared());
        self.pipeline.call(operation)
    }

    fn run_by_cpu(&mut self, key: &[u64; W], intent: Intent) -> Result<Ended, OperationError> {
        if self.polls.is_due() {
            self.pipeline.make_progress()?;
        }
        let fault = self.pipeline.fault();
        let (transport, context) = self.pipeline.parts();
        if let Some(fault) = fault {
            context.table.stats.failed += 1;
            return Err(fault.into());
        }
        let engine = direct::EngineAccess::new(transport, context);
        let tagged = context.entries.tagged(hash(key));
        direct::run::<Narrow, W>(&engine, context, key, tagged, intent)
            .ok_or(OperationError::Window)
    }

    /// Runs [`find_or_put`](Self::find_or_put) for each key of `keys` and stores its result at the
    /// same index of `results`, as [`Table::find_or_put_batch`](crate::Table::find_or_put_batch)
    /// does.
    ///
    /// # Errors
    /// [`BatchError`] if the lengths differ or, with outcomes as results, if keys fail.
    pub fn find_or_put_batch<R: BatchResult<Answer = Outcome>>(
        &mut self,
        keys: &[[u64; W]],
        results: &mut [R],
    ) -> Result<(), BatchError> {
        self.batch(keys, results)
    }

    /// As [`find_or_put_batch`](Self::find_or_put_batch), for [`find`](Self::find): a result
    /// is a `bool` or a [`Result`] with one.
    ///
    /// # Errors
    /// As for [`find_or_put_batch`](Self::find_or_put_batch).
    pub fn find_batch<R: BatchResult<Answer = bool>>(
        &mut self,
        keys: &[[u64; W]],
        results: &mut [R],
    ) -> Result<(), BatchError> {
        self.batch(keys, results)
    }

    fn batch<R: BatchResult>(
        &mut self,
        keys: &[[u64; W]],
        results: &mut [R],
    ) -> Result<(), BatchError> {
        if keys.len() != results.len() {
            return Err(BatchError::Lengths { keys: keys.len(), results: results.len() });
        }
        let mut batch = WideBatch::new(keys, results);
        self.pipeline.run_batch(&mut batch).map_err(BatchError::Operation)?;
        batch.error().map_or(Ok(()), Err)
    }

    /// Starts an operation whose result [`poll_into`](Self::poll_into) reports under `tag`.
    ///
    /// # Errors
    /// [`SubmitError::Busy`] while all storage is in use; [`SubmitError::Fault`] once the transport
    /// is known to be dead.
    pub fn submit(&mut self, tag: Tag, key: &[u64; W], intent: Intent) -> Result<(), SubmitError> {
        let operation = WideFindOrPut::new(key, intent, self.pipeline.shared());
        self.pipeline.submit(tag, operation).map_err(SubmitError::from_operation)
    }

    /// Polls the transport, advances all operations and moves the results of submitted ones into
    /// `out`. Returns the filled part of `out`. Never blocks.
    ///
    /// # Errors
    /// [`OperationError::Fault`] if the transport is dead and every result was reported.
    pub fn poll_into<'o>(
        &mut self,
        out: &'o mut [Finished],
    ) -> Result<&'o [Finished], OperationError> {
        self.pipeline.poll_into(out)
    }

    /// Returns whether an operation is free, so that [`submit`](Self::submit) does not return
    /// [`SubmitError::Busy`].
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.pipeline.has_room()
    }

    /// Returns the number of operations submitted and not yet reported.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.pipeline.in_flight()
    }

    /// Returns the engine, for reading.
    #[must_use]
    pub fn transport(&self) -> &T {
        self.pipeline.transport()
    }

    /// Waits until no operation of the table is in flight and returns the engine, for words outside
    /// the table. Everything posted on it must have completed before the table is used again.
    ///
    /// # Errors
    /// [`OperationError::Fault`] if the transport is dead.
    pub fn transport_mut(&mut self) -> Result<&mut T, OperationError> {
        self.pipeline.quiesce()?;
        Ok(self.pipeline.transport_mut())
    }

    /// Waits until no operation of the table is in flight and returns the engine, even a dead one.
    /// Unreported results are lost.
    pub fn into_transport(mut self) -> T {
        // A dead engine reports its fault to its next user.
        self.pipeline.quiesce().ok();
        self.pipeline.into_transport()
    }

    /// Returns the counters of the cost of operations on buckets.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.pipeline.shared().table.stats
    }

    /// Returns the counters of the cost of entries.
    #[must_use]
    pub fn entry_stats(&self) -> &EntryStats {
        &self.pipeline.shared().stats
    }

    /// Sets all counters to 0.
    pub fn reset_stats(&mut self) {
        let context = self.pipeline.shared_mut();
        context.table.stats = Stats::default();
        context.stats = EntryStats::default();
    }

    /// Returns the parameters of the table.
    #[must_use]
    pub fn config(&self) -> &WideConfig<W> {
        &self.config
    }

    /// Returns the layout of the table's buckets.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.pipeline.shared().table.layout
    }
}

/// Checks the parameters of a table on this engine.
pub(crate) fn check<const W: usize>(
    transport: &impl Transport,
    config: &WideConfig<W>,
    operations: usize,
) -> Result<(), ConfigError> {
    let geometry = transport.geometry();
    config.check(transport.caps(), geometry)?;
    WideOperation::<W>::check(operations, geometry)?;
    if (transport.window().len() as u64) < geometry.window_words {
        return Err(short_window(transport));
    }
    Ok(())
}

impl<T, S, const W: usize> Host for WideTable<T, S, W>
where
    T: Transport,
    S: AsMut<[WideOperation<W>]>,
{
    type Transport = T;
    type Storage = S;
    type Shared = WideContext;
    type Machine = WideFindOrPut<W>;
    type Arguments = ([u64; W], Intent);

    fn machine(
        (key, intent): ([u64; W], Intent),
        shared: &WideContext,
    ) -> Result<WideFindOrPut<W>, OperationError> {
        Ok(WideFindOrPut::new(&key, intent, shared))
    }

    fn pipeline(&mut self) -> &mut Pipeline<T, S, WideContext, WideFindOrPut<W>> {
        &mut self.pipeline
    }
}
