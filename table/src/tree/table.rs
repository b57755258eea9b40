//! The tree table, with blocking calls, batches, and submitted operations that the caller polls.

use probeline_pipeline::{Host, Pipeline, Tag};
use probeline_transport::Transport;

use super::batch::TreeBatch;
use super::cache::PairCacheLine;
use super::config::TreeConfig;
use super::context::TreeContext;
use super::machine::TreeFindOrPut;
use super::stats::TreeStats;
use crate::direct::Direct;
use crate::error::{BatchError, ConfigError, OperationError, SubmitError};
use crate::layout::Layout;
use crate::outcome::{Answer, Ended, Intent, Outcome};
use crate::results::BatchResult;
use crate::stats::Stats;
use crate::table::{Finished, Polls, short_window};

/// Storage for one operation in flight on keys of `W` words, such as `[TreeOperation::EMPTY; 8]`.
pub type TreeOperation<const W: usize> = probeline_pipeline::Operation<TreeFindOrPut<W>>;

/// A set of keys of up to `64 * W` bits in the windows of all owners, compressed as trees of pairs,
/// over an engine `T`, with storage `S` for operations in flight and a cache `C` of inner nodes.
///
/// It holds keys that resemble each other, such as the states of a model, in little more than 8
/// bytes each, whatever their width; a [`WideTable`](crate::WideTable) needs 8 bytes and the key. An
/// operation looks up one inner node for each 31 bits beyond the first 62, one after the other. The
/// cache answers most of them ([`with_cache`](Self::with_cache)): give it one where operations
/// are posted. Every owner opens the table with the same sizes, probe limit and probe order.
///
/// ```
/// use probeline_shm::Builder;
/// use probeline_table::{Outcome, PairCacheLine, TreeConfig, TreeOperation, TreeTable};
/// use probeline_transport::Alone;
///
/// let config = TreeConfig::new(4_096, 200);
/// let engine = Builder::new(config.sizes(8)).open(&mut Alone)?;
/// let table = TreeTable::new(engine, config, [TreeOperation::EMPTY; 8])?;
/// let mut table = table.with_cache([PairCacheLine::EMPTY; 64]);
/// // 1,000 keys of 200 bits with few different parts.
/// for state in (0..1_000).map(|n| [n % 10, 7 << 40, n / 10, 3]) {
///     assert_eq!(table.find_or_put(&state)?, Outcome::Inserted);
///     assert_eq!(table.find_or_put(&state)?, Outcome::Found);
/// }
/// assert!(table.tree_stats().bytes_per_key() < 10.0);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct TreeTable<T, S, const W: usize, C = [PairCacheLine; 0]> {
    pub(crate) pipeline: Pipeline<T, S, TreeContext<C>, TreeFindOrPut<W>>,
    pub(crate) config: TreeConfig,
    polls: Polls,
}

impl<T, S, const W: usize> TreeTable<T, S, W>
where
    T: Transport,
    S: AsMut<[TreeOperation<W>]>,
{
    /// Creates a table over `transport` without checking the parameters of the other owners;
    /// [`open`](Self::open) includes that check.
    ///
    /// The table uses two slots for each operation, from slot 0 on, and [`TreeConfig::words`] words
    /// of the window, all 0 at first, as in a fresh window.
    ///
    /// # Errors
    /// [`ConfigError`] with the allowed range.
    pub fn new(transport: T, config: TreeConfig, mut operations: S) -> Result<Self, ConfigError> {
        check::<W>(&transport, &config, operations.as_mut().len())?;
        let context = TreeContext::new(&transport, &config, []);
        let pipeline = Pipeline::new(transport, context, operations)?;
        Ok(Self { pipeline, config, polls: Polls::NEW })
    }
}

impl<T, S, const W: usize, C> TreeTable<T, S, W, C>
where
    T: Transport,
    S: AsMut<[TreeOperation<W>]>,
    C: AsMut<[PairCacheLine]>,
{
    /// Adds a cache of inner nodes that this owner has seen, 5 in each of the first lines of
    /// `lines`. It uses the largest power of two that fits.
    ///
    /// It needs no coherence protocol, because an occupied bucket never changes.
    /// [`clear`](Self::clear) drops its content.
    pub fn with_cache<D: AsMut<[PairCacheLine]>>(self, lines: D) -> TreeTable<T, S, W, D> {
        let pipeline = self.pipeline.map_shared(|context| context.with_cache(lines));
        TreeTable { pipeline, config: self.config, polls: self.polls }
    }

    /// Finds `key`, or inserts it together with the inner nodes that it needs.
    ///
    /// [`Outcome::Full`] means that no bucket within the probe limit was empty for the key or for
    /// one of its inner nodes. Inner nodes inserted before stay.
    ///
    /// Blocks until the operation completes; the transport bounds the wait.
    ///
    /// # Errors
    /// [`OperationError`]: refused, or of unknown outcome.
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
        let operation = self.operation(key, intent)?;
        if self.pipeline.shared().table.direct == Direct::Claims {
            if self.polls.is_due() {
                self.pipeline.make_progress()?;
            }
            let fault = self.pipeline.fault();
            let (transport, context) = self.pipeline.parts();
            if let Some(fault) = fault {
                context.table.stats.failed += 1;
                return Err(fault.into());
            }
            if let Some(outcome) = context.run_by_cpu(transport, key, intent) {
                return Ok(outcome);
            }
        }
        self.pipeline.call(operation)
    }

    #[inline(always)]
    fn operation(&self, key: &[u64; W], intent: Intent) -> Result<TreeFindOrPut<W>, SubmitError> {
        machine(key, intent, self.pipeline.shared())
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
        let mut batch = TreeBatch::new(keys, results);
        self.pipeline.run_batch(&mut batch).map_err(BatchError::Operation)?;
        batch.error().map_or(Ok(()), Err)
    }

    /// Starts an operation whose result [`poll_into`](Self::poll_into) reports under `tag`.
    ///
    /// # Errors
    /// [`SubmitError::Busy`] while all storage is in use; [`SubmitError::KeyBits`] if `key` has more
    /// bits than [`TreeConfig::key_bits`]; [`SubmitError::Fault`] once the transport is known to be
    /// dead.
    pub fn submit(&mut self, tag: Tag, key: &[u64; W], intent: Intent) -> Result<(), SubmitError> {
        let operation = self.operation(key, intent)?;
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

    /// Returns the counters of the cost of operations on buckets, one for each node that was looked
    /// up there.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.pipeline.shared().table.stats
    }

    /// Returns the counters of the inner nodes.
    #[must_use]
    pub fn tree_stats(&self) -> &TreeStats {
        &self.pipeline.shared().stats
    }

    /// Sets all counters to 0.
    pub fn reset_stats(&mut self) {
        let context = self.pipeline.shared_mut();
        context.table.stats = Stats::default();
        context.stats = TreeStats::default();
    }

    /// Returns the parameters of the table.
    #[must_use]
    pub fn config(&self) -> &TreeConfig {
        &self.config
    }

    /// Returns the layout of the table's buckets.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.pipeline.shared().table.layout
    }
}

/// Creates the operation of a key, unless the key has too many bits.
#[inline(always)]
fn machine<C, const W: usize>(
    key: &[u64; W],
    intent: Intent,
    context: &TreeContext<C>,
) -> Result<TreeFindOrPut<W>, SubmitError> {
    if !context.shape.fits(key) {
        return Err(SubmitError::KeyBits { most: context.shape.key_bits() });
    }
    Ok(TreeFindOrPut::new(key, intent, context))
}

/// Checks the parameters of a table of keys of `W` words on this engine.
pub(crate) fn check<const W: usize>(
    transport: &impl Transport,
    config: &TreeConfig,
    operations: usize,
) -> Result<(), ConfigError> {
    let geometry = transport.geometry();
    config.check(W, transport.caps(), geometry)?;
    TreeOperation::<W>::check(operations, geometry)?;
    if (transport.window().len() as u64) < geometry.window_words {
        return Err(short_window(transport));
    }
    Ok(())
}

impl<T, S, const W: usize, C> Host for TreeTable<T, S, W, C>
where
    T: Transport,
    S: AsMut<[TreeOperation<W>]>,
    C: AsMut<[PairCacheLine]>,
{
    type Transport = T;
    type Storage = S;
    type Shared = TreeContext<C>;
    type Machine = TreeFindOrPut<W>;
    type Arguments = ([u64; W], Intent);

    fn machine(
        (key, intent): ([u64; W], Intent),
        shared: &TreeContext<C>,
    ) -> Result<TreeFindOrPut<W>, OperationError> {
        Ok(machine(&key, intent, shared)?)
    }

    fn pipeline(&mut self) -> &mut Pipeline<T, S, TreeContext<C>, TreeFindOrPut<W>> {
        &mut self.pipeline
    }
}
