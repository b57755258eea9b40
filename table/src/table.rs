//! The table, with blocking calls, batches, and submitted operations that the caller polls.

use core::sync::atomic::Ordering::Acquire;

use probeline_pipeline::{Host, Pipeline, Tag};
use probeline_transport::Transport;

use crate::batch::Batch;
use crate::bucket::Bucket;
use crate::cache::CacheEntry;
use crate::config::Config;
use crate::context::Context;
use crate::direct::Direct;
use crate::error::{BatchError, ConfigError, OperationError, SubmitError};
use crate::find_or_put::FindOrPut;
use crate::layout::{Layout, Position};
use crate::outcome::{Ended, Intent, Located, Outcome, Returned};
use crate::results::BatchResult;
use crate::stats::Stats;

/// Storage for one operation in flight; the caller of a table provides an array of them, such as
/// `[Operation::EMPTY; 8]`.
pub type Operation = probeline_pipeline::Operation<FindOrPut>;
/// The result of a submitted operation.
pub type Finished = probeline_pipeline::Finished<Ended, OperationError>;

/// Maximum blocking calls without transport operations between two polls of the transport. Only a
/// poll detects lost owners. At this interval a poll costs each call well under a nanosecond.
const CALLS_PER_POLL: u32 = 64;

/// A set of 63-bit keys in the windows of all owners, over an engine `T`, with storage `S` (an
/// array, a slice, a `Vec`) for operations in flight.
///
/// Every owner opens it with the same sizes, probe limit and probe order. The table owns its
/// engine; [`transport_mut`](Self::transport_mut) lends it for words outside the table.
pub struct Table<T, S, C = [CacheEntry; 0]> {
    pub(crate) pipeline: Pipeline<T, S, Context<C>, FindOrPut>,
    pub(crate) config: Config,
    polls: Polls,
}

/// Counts the blocking calls that the CPU runs, so that it polls the transport now and then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Polls {
    /// Calls since the last poll.
    unpolled: u32,
}

impl Polls {
    pub(crate) const NEW: Self = Self { unpolled: 0 };

    /// Counts a call. Returns whether to poll the transport.
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        self.unpolled += 1;
        let is_due = self.unpolled >= CALLS_PER_POLL;
        if is_due {
            self.unpolled = 0;
        }
        is_due
    }
}

impl<T: Transport, S: AsMut<[Operation]>> Table<T, S> {
    /// Creates a table over `transport` without checking the parameters of the other owners;
    /// [`open`](Self::open) includes that check.
    ///
    /// The table uses two slots for each operation, from slot 0 on, and [`Config::words`] words of
    /// the window. All buckets must be 0 at first, as in a fresh window.
    ///
    /// # Errors
    /// [`ConfigError`] with the allowed range.
    pub fn new(transport: T, config: Config, mut operations: S) -> Result<Self, ConfigError> {
        check(&transport, &config, operations.as_mut().len())?;
        let owners = transport.geometry().owners;
        let Config { first_word, buckets_per_owner, probing, .. } = config;
        let layout = Layout::new(owners, buckets_per_owner, first_word, probing);
        let context = Context::new(&transport, layout, &config, []);
        let pipeline = Pipeline::new(transport, context, operations)?;
        let mut table = Self { pipeline, config, polls: Polls::NEW };
        table.sample_load_factor();
        Ok(table)
    }
}

/// Checks the parameters of a table on this engine.
pub(crate) fn check(
    transport: &impl Transport,
    config: &Config,
    operations: usize,
) -> Result<(), ConfigError> {
    let geometry = transport.geometry();
    config.check(transport.caps(), geometry)?;
    Operation::check(operations, geometry)?;
    if (transport.window().len() as u64) < geometry.window_words {
        return Err(short_window(transport));
    }
    Ok(())
}

/// Returns the error for a window that is shorter than its geometry states. Counting, clearing and
/// collecting garbage would skip the missing words.
pub(crate) fn short_window(transport: &impl Transport) -> ConfigError {
    let (found, expected) = (transport.window().len() as u64, transport.geometry().window_words);
    ConfigError::Window { found, expected }
}

impl<T, S, C> Table<T, S, C>
where
    T: Transport,
    S: AsMut<[Operation]>,
    C: AsMut<[CacheEntry]>,
{
    /// Adds a cache of occupied buckets that this owner has seen, stored in the first entries of
    /// `entries`. It uses the largest power of two that fits.
    ///
    /// The cache answers finds without a roundtrip and lets an operation skip buckets known to hold
    /// other keys. It needs no coherence protocol, because an occupied bucket never changes.
    /// [`clear`](Self::clear) and [`retain`](Self::retain) drop its content. Lines that the CPU
    /// examines itself do not use it: a look at a line costs no more than one at the cache.
    pub fn with_cache<D: AsMut<[CacheEntry]>>(self, entries: D) -> Table<T, S, D> {
        let pipeline = self.pipeline.map_shared(|context| context.with_cache(entries));
        Table { pipeline, config: self.config, polls: self.polls }
    }

    /// Estimates the load factor from a sample of this owner's buckets and passes it to the policy.
    pub(crate) fn sample_load_factor(&mut self) {
        const BUCKETS: usize = 256;
        let buckets = self.buckets();
        let sample = buckets.iter().step_by(buckets.len().div_ceil(BUCKETS).max(1));
        let (mut occupied, mut all) = (0_u32, 0_u32);
        for bucket in sample {
            occupied += u32::from(Bucket::from_word(bucket.load(Acquire)).is_some());
            all += 1;
        }
        let load_factor = f64::from(occupied) / f64::from(all.max(1));
        self.context_mut().policy.set_load_factor(load_factor);
    }

    pub(crate) fn context_mut(&mut self) -> &mut Context<C> {
        self.pipeline.shared_mut()
    }

    /// Finds `key`, or inserts it into the first empty bucket of its probe order (paper
    /// Fig. 1).
    ///
    /// Blocks until the operation completes; the transport bounds the wait.
    ///
    /// # Errors
    /// [`OperationError`]: refused, or of unknown outcome.
    #[inline]
    pub fn find_or_put(&mut self, key: u64) -> Result<Outcome, OperationError> {
        self.call(key)
    }

    /// Returns whether the table contains `key`. Blocks until the operation completes; the
    /// transport bounds the wait.
    ///
    /// # Errors
    /// As for [`find_or_put`](Self::find_or_put).
    #[inline]
    pub fn find(&mut self, key: u64) -> Result<bool, OperationError> {
        self.call(key)
    }

    /// As [`find_or_put`](Self::find_or_put), and returns the position of the key's bucket too.
    ///
    /// ```
    /// # use probeline_shm::Builder;
    /// # use probeline_table::{Config, Operation, Table};
    /// # use probeline_transport::Alone;
    /// # let config = Config::new(64);
    /// # let engine = Builder::new(config.sizes(1)).open(&mut Alone)?;
    /// # let mut table = Table::new(engine, config, [Operation::EMPTY])?;
    /// let inserted = table.find_or_put_at(7)?;
    /// assert_eq!(table.find_at(7)?, inserted.at);
    /// assert_eq!(table.find_at(8)?, None);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`find_or_put`](Self::find_or_put).
    pub fn find_or_put_at(&mut self, key: u64) -> Result<Located, OperationError> {
        self.call(key)
    }

    /// As [`find`](Self::find), but returns the position of the key's bucket.
    ///
    /// # Errors
    /// As for [`find_or_put`](Self::find_or_put).
    pub fn find_at(&mut self, key: u64) -> Result<Option<Position>, OperationError> {
        self.call(key)
    }

    #[inline]
    fn call<R: Returned>(&mut self, key: u64) -> Result<R, OperationError> {
        let bucket = Bucket::new(key).map_err(SubmitError::Key)?;
        let mut walk = self.pipeline.shared().walk(bucket, R::INTENT);
        if self.pipeline.shared().direct == Direct::Claims {
            self.poll_sometimes()?;
            if let Some(fault) = self.pipeline.fault() {
                self.context_mut().stats.failed += 1;
                return Err(fault.into());
            }
            let (transport, context) = self.pipeline.parts();
            if let Some((ended, line)) = context.look_along(&mut walk, transport) {
                return Ok(R::of_ended(ended, || walk.position_in(line, &context.layout)));
            }
        } else if self.context_mut().follow_cache(&mut walk) {
            self.poll_sometimes()?;
            return Ok(R::of_ended(Ended::Found, || walk.position(self.layout())));
        }
        let operation = FindOrPut::starting_at(walk);
        if !R::LOCATED {
            let ended = self.pipeline.call(operation)?;
            return Ok(R::of_ended(ended, Position::default));
        }
        let (ended, machine) = self.pipeline.call_machine(operation)?;
        if !ended.has_bucket() {
            return Ok(R::of_ended(ended, Position::default));
        }
        let at = machine.position(self.layout(), self.transport()).ok_or(OperationError::Window)?;
        Ok(R::of_ended(ended, || at))
    }

    #[inline]
    fn poll_sometimes(&mut self) -> Result<(), OperationError> {
        if self.polls.is_due() { self.pipeline.make_progress() } else { Ok(()) }
    }

    /// Runs [`find_or_put`](Self::find_or_put) for each key of `keys` and stores its result at the
    /// same index of `results`: an [`Outcome`], which is one byte and fastest, or a [`Result`].
    ///
    /// As many operations are in flight as the storage and the transport's depth allow, in any
    /// order, with one doorbell for all operations that can be posted at once. The CPU interleaves
    /// the operations that it executes itself, so that their cache misses overlap.
    ///
    /// A key that occurs twice in the batch is inserted once. Operations submitted before continue,
    /// and [`poll_into`](Self::poll_into) reports them. If their results take up all storage, keys
    /// that need storage get [`SubmitError::Busy`]. Blocks until all operations complete; the
    /// transport bounds the wait.
    ///
    /// ```
    /// # use probeline_table::{BatchError, Operation, Outcome, Table};
    /// # fn example<T, S>(table: &mut Table<T, S>) -> Result<(), BatchError>
    /// # where T: probeline_transport::Transport, S: AsMut<[Operation]> {
    /// let mut outcomes = [Outcome::Full; 3];
    /// table.find_or_put_batch(&[1, 2, 3], &mut outcomes)?;
    /// let inserted = outcomes.iter().filter(|outcome| **outcome == Outcome::Inserted).count();
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`BatchError`] if the lengths differ or, with outcomes as results, if keys fail: it is the
    /// error of the first of them, and the outcomes of all of them stay as they were.
    pub fn find_or_put_batch<R: BatchResult<Answer = Outcome>>(
        &mut self,
        keys: &[u64],
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
        keys: &[u64],
        results: &mut [R],
    ) -> Result<(), BatchError> {
        self.batch(keys, results)
    }

    fn batch<R: BatchResult>(&mut self, keys: &[u64], results: &mut [R]) -> Result<(), BatchError> {
        if keys.len() != results.len() {
            return Err(BatchError::Lengths { keys: keys.len(), results: results.len() });
        }
        let mut batch = Batch::new(keys, results);
        self.pipeline.run_batch(&mut batch).map_err(BatchError::Operation)?;
        batch.error().map_or(Ok(()), Err)
    }

    /// Starts an operation whose result [`poll_into`](Self::poll_into) reports under `tag`.
    ///
    /// # Errors
    /// [`SubmitError::Busy`] while all storage is in use; [`SubmitError::Key`] if `key` exceeds 63
    /// bits; [`SubmitError::Fault`] once the transport is known to be dead.
    #[inline]
    pub fn submit(&mut self, tag: Tag, key: u64, intent: Intent) -> Result<(), SubmitError> {
        let operation = FindOrPut::new(Bucket::new(key)?, intent, self.pipeline.shared());
        self.pipeline.submit(tag, operation).map_err(SubmitError::from_operation)
    }

    /// Polls the transport, advances all operations and moves the results of submitted ones into
    /// `out`. Returns the filled part of `out`. Never blocks.
    ///
    /// ```
    /// # use probeline_table::{Finished, OperationError, Table, Operation};
    /// # fn example<T, S>(table: &mut Table<T, S>) -> Result<(), OperationError>
    /// # where T: probeline_transport::Transport, S: AsMut<[Operation]> {
    /// let mut out = [Finished::default(); 16];
    /// for finished in table.poll_into(&mut out)? {
    ///     println!("{:?}: {:?}", finished.tag, finished.result);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`OperationError::Fault`] if the transport is dead and every result was reported.
    #[inline]
    pub fn poll_into<'o>(
        &mut self,
        out: &'o mut [Finished],
    ) -> Result<&'o [Finished], OperationError> {
        self.pipeline.poll_into(out)
    }

    /// Returns whether an operation is free, so that [`submit`](Self::submit) does not return
    /// [`SubmitError::Busy`].
    #[inline]
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.pipeline.has_room()
    }

    /// Returns the number of operations submitted and not yet reported.
    #[inline]
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.pipeline.in_flight()
    }

    /// Returns the engine, for reading.
    #[inline]
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

    /// Returns the counters of the cost of operations.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.pipeline.shared().stats
    }

    /// Sets all counters to 0.
    pub fn reset_stats(&mut self) {
        self.context_mut().stats = Stats::default();
    }

    /// Returns the parameters of the table.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the layout of the table's buckets.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.pipeline.shared().layout
    }

    /// Returns the keys in this owner's part. The result is exact between barriers. While other
    /// owners insert, it contains every key that was there before the call.
    pub fn local(&self) -> impl Iterator<Item = u64> + '_ {
        let words = self.buckets().iter().map(|bucket| bucket.load(Acquire));
        words.filter_map(Bucket::from_word).map(Bucket::key)
    }
}

impl<T, S, C> Host for Table<T, S, C>
where
    T: Transport,
    S: AsMut<[Operation]>,
    C: AsMut<[CacheEntry]>,
{
    type Transport = T;
    type Storage = S;
    type Shared = Context<C>;
    type Machine = FindOrPut;
    type Arguments = (u64, Intent);

    #[inline(always)]
    fn machine(
        (key, intent): (u64, Intent),
        shared: &Context<C>,
    ) -> Result<FindOrPut, OperationError> {
        let bucket = Bucket::new(key).map_err(SubmitError::Key)?;
        Ok(FindOrPut::new(bucket, intent, shared))
    }

    fn pipeline(&mut self) -> &mut Pipeline<T, S, Context<C>, FindOrPut> {
        &mut self.pipeline
    }
}
