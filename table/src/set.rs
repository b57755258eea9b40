//! The front of all three tables: find and find-or-put, growth, and iteration, on keys of any kind.

use core::borrow::Borrow;
use core::sync::atomic::AtomicU64;

use probeline_pipeline::{
    CollectiveError, ConfigError, Host, Kind, Machine, Open, OperationOf, Structure, Tag,
};
use probeline_transport::{Exchange, Transport};

use crate::batch::KeyBatch;
use crate::block::Undecided;
use crate::bucket::OCCUPIED;
use crate::collective::{Phase, grow};
use crate::config::Config;
use crate::layout::Layout;
use crate::outcome::{Answer, Ended, Intent, Outcome};
use crate::policy::Policy;
use crate::results::BatchResult;
use crate::stats::Stats;
use crate::{BatchError, OperationError};

/// Keys that an iteration reads at once.
pub(crate) const READ_AT_ONCE: usize = 16;

/// The result of a submitted operation.
pub type Finished = probeline_pipeline::Finished<Ended>;

/// A set of keys of kind `K` in the windows of all owners, over an engine `T`, with storage `S` (an
/// array, a slice, a `Vec`) for operations in flight: a [`Table`](crate::Table),
/// [`WideTable`](crate::WideTable) or [`TreeTable`](crate::TreeTable).
///
/// Every owner opens it with the same sizes, probe limit and probe order. It dereferences to
/// [`Structure`], which has `len`, `clear`, `poll_into` and the other common calls.
pub struct Set<T, S, K: Kind>(Structure<T, S, K>);

/// A [`Kind`] whose operations find or insert keys.
pub trait Keys:
    Kind<Action = Intent, Machine: Machine<Outcome = Ended>, Stats = Stats> + Sized
{
    /// A key as callers pass it.
    type Arg<'k>: Borrow<Self::Key>;

    /// Any key: the initial value of storage.
    const ANY: Self::Key;
    /// Whether [`read_part`](Self::read_part) posts READs.
    const READS: bool = true;

    /// Returns the layout of the buckets.
    fn layout(context: &Self::Context) -> &Layout;

    /// Returns the policy of the searches.
    fn policy(context: &mut Self::Context) -> &mut Policy;

    /// Returns whether the CPU runs operations, at least those whose lines it can address.
    fn is_direct(context: &Self::Context) -> bool;

    /// Runs keys from the front of a batch by the CPU, as far as that can, and stores their results.
    /// Returns the number of keys that it has taken; `undecided` gets those among them that the
    /// pipeline is to run.
    fn run_block<R: BatchResult>(
        keys: &[Self::Key],
        results: &mut [R],
        transport: &impl Transport,
        context: &mut Self::Context,
        undecided: &mut Undecided,
    ) -> usize;

    /// Reads up to 16 keys of this owner's buckets from index `next` on, and advances `next` past them.
    /// Returns their number, which is less than that of `keys` only at the end. `is_quiet` is whether no owner
    /// has an operation in flight.
    ///
    /// # Errors
    /// [`OperationError`] of a READ.
    fn read_part(
        phase: &mut Phase<'_, impl Transport>,
        context: &Self::Context,
        next: &mut u64,
        keys: &mut [Self::Key],
        is_quiet: bool,
    ) -> Result<usize, OperationError>;
}

probeline_pipeline::front!(deref [K: Kind] Set<K>, K);

impl<T, S, K> Set<T, S, K>
where
    T: Transport,
    S: AsMut<[OperationOf<K>]>,
    K: Keys + Open,
{
    /// Creates a table: see [`Structure::new`].
    ///
    /// # Errors
    /// [`ConfigError`] with the allowed range.
    pub fn new(transport: T, config: K::Config, operations: S) -> Result<Self, ConfigError> {
        Structure::new(transport, config, operations).map(Self)
    }

    /// Opens the table together with all other owners and checks that their parameters are equal.
    ///
    /// An owner that cannot open it does not block the others: they report
    /// [`CollectiveError::NotOpened`].
    ///
    /// # Errors
    /// [`CollectiveError`]: an invalid configuration, a failed exchange, or an owner without a table
    /// or with other parameters.
    pub fn open(
        transport: T,
        config: K::Config,
        operations: S,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<Self, CollectiveError> {
        Structure::open(transport, config, operations, exchange).map(Self)
    }
}

impl<T, S, K> Set<T, S, K>
where
    T: Transport,
    S: AsMut<[OperationOf<K>]>,
    K: Keys,
{
    /// Finds `key`, or inserts it into the first empty bucket of its probe order (paper
    /// Fig. 1).
    ///
    /// [`Outcome::Full`] means that no bucket within the probe limit was empty: in a wide table also
    /// that every entry was taken, counting those that other clients hold, and in a tree table that
    /// an inner node found no bucket.
    ///
    /// Blocks until the operation completes; the transport bounds the wait.
    ///
    /// # Errors
    /// [`OperationError`]: refused, or of unknown outcome.
    #[inline]
    pub fn find_or_put(&mut self, key: K::Arg<'_>) -> Result<Outcome, OperationError> {
        self.0.call(key.borrow(), Intent::FindOrPut).map(Outcome::from_ended)
    }

    /// Returns whether the table contains `key`. Blocks until the operation completes; the
    /// transport bounds the wait.
    ///
    /// # Errors
    /// As for [`find_or_put`](Self::find_or_put).
    #[inline]
    pub fn find(&mut self, key: K::Arg<'_>) -> Result<bool, OperationError> {
        self.0.call(key.borrow(), Intent::Find).map(bool::from_ended)
    }

    /// Starts an operation whose result [`poll_into`](Structure::poll_into) reports under `tag`.
    ///
    /// # Errors
    /// As for [`Structure::submit`].
    #[inline]
    pub fn submit(
        &mut self,
        tag: Tag,
        key: K::Arg<'_>,
        intent: Intent,
    ) -> Result<(), OperationError> {
        self.0.submit(tag, key.borrow(), intent)
    }

    /// Runs [`find_or_put`](Self::find_or_put) for each key of `keys` and stores its result at the
    /// same index of `results`: an [`Outcome`], which is one byte and fastest, or a [`Result`].
    ///
    /// As many operations are in flight as the storage and the transport's depth allow, in any
    /// order, with one doorbell for all operations that can be posted at once. The CPU interleaves
    /// the operations that it executes itself, so that their cache misses overlap.
    ///
    /// A key that occurs twice in the batch is inserted once. Operations submitted before continue,
    /// and [`poll_into`](Structure::poll_into) reports them. If their results take up all storage,
    /// keys that need storage get [`OperationError::Busy`]. Blocks until all operations complete; the
    /// transport bounds the wait.
    ///
    /// ```
    /// # use probeline_table::{BatchError, Operation, Outcome, Table};
    /// # fn example<T, S>(table: &mut Table<T, S>) -> Result<(), BatchError>
    /// # where T: probeline_transport::Transport, S: AsMut<[Operation]> {
    /// let mut outcomes = [Outcome::Full; 3];
    /// table.find_or_put_batch(&[1, 2, 3], &mut outcomes)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`BatchError`] if the lengths differ or, with outcomes as results, if keys fail.
    pub fn find_or_put_batch<R: BatchResult<Answer = Outcome>>(
        &mut self,
        keys: &[K::Key],
        results: &mut [R],
    ) -> Result<(), BatchError> {
        batch(self, keys, results)
    }

    /// Finds as [`find_or_put_batch`](Self::find_or_put_batch), for [`find`](Self::find): a result
    /// is a `bool` or a [`Result`] with one.
    ///
    /// # Errors
    /// As for [`find_or_put_batch`](Self::find_or_put_batch).
    pub fn find_batch<R: BatchResult<Answer = bool>>(
        &mut self,
        keys: &[K::Key],
        results: &mut [R],
    ) -> Result<(), BatchError> {
        batch(self, keys, results)
    }

    /// Waits until no operation of the table is in flight and returns the engine, even a dead one.
    /// Unreported results are lost.
    pub fn into_transport(self) -> T {
        self.0.into_transport()
    }

    /// Returns the number of occupied buckets in the whole table: one for each key and, in a tree
    /// table, for each inner node.
    ///
    /// # Errors
    /// [`CollectiveError`]: a rank is lost or in another call, or its part failed.
    pub fn occupied(
        &mut self,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<u64, CollectiveError> {
        self.0.sum_parts(exchange, "occupied", |_, context, window| {
            occupied(buckets(K::layout(context), window)?)
        })
    }

    /// Returns the load factor: the fraction of occupied buckets in the whole table, 0 to 1.
    ///
    /// # Errors
    /// [`CollectiveError`]: a rank is lost or in another call, or its part failed.
    #[allow(clippy::cast_precision_loss)]
    pub fn load_factor(
        &mut self,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<f64, CollectiveError> {
        let load_factor = self.occupied(exchange)? as f64 / self.layout().buckets() as f64;
        K::policy(self.0.pipeline().shared_mut()).set_load_factor(load_factor);
        Ok(load_factor)
    }

    /// Estimates the load factor from this owner's buckets and passes it to the policy.
    pub(crate) fn sample_load_factor(&mut self) {
        let (transport, context) = self.0.pipeline().parts();
        let load_factor = sampled_load_factor(K::layout(context), transport.window());
        K::policy(context).set_load_factor(load_factor);
    }

    /// Moves all keys of the whole table into `target`, a larger table that all owners have opened on
    /// another engine or on another channel of a splitter, and returns their number.
    ///
    /// The target may have any configuration; it should be empty. Each owner moves the keys of its
    /// own part, in batches, and all owners count the keys of the target at the end. This table stays
    /// as it is, with every key, even if the call fails or a process dies in it. After a success,
    /// drop it together with its engine. After an error, it can be used again or moved into another
    /// target, unless its own transport is dead.
    ///
    /// The call needs a few kilobytes of stack.
    ///
    /// # Errors
    /// [`CollectiveError`], after which the content of `target` is undefined. If the target is full, or the
    /// part of one owner fails, the call fails on every owner.
    pub fn grow_into<U, R, L>(
        &mut self,
        target: &mut Set<U, R, L>,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<u64, CollectiveError>
    where
        U: Transport,
        R: AsMut<[OperationOf<L>]>,
        L: Keys<Key = K::Key>,
    {
        self.grow_into_while(target, exchange, || true)
    }

    /// Grows as [`grow_into`](Self::grow_into), but asks each owner after every 65,536 keys of its part
    /// whether to go on. If `go_on` returns false on one owner, the call ends on all of them.
    ///
    /// # Errors
    /// As for [`grow_into`](Self::grow_into), and [`CollectiveError::Stopped`].
    pub fn grow_into_while<U, R, L>(
        &mut self,
        target: &mut Set<U, R, L>,
        exchange: &mut (impl Exchange + ?Sized),
        go_on: impl FnMut() -> bool,
    ) -> Result<u64, CollectiveError>
    where
        U: Transport,
        R: AsMut<[OperationOf<L>]>,
        L: Keys<Key = K::Key>,
    {
        self.move_into(target, exchange, "grow_into", |_| true, go_on)
    }

    /// Moves the keys that `keep` accepts into `target`.
    pub(crate) fn move_into<U, R, L>(
        &mut self,
        target: &mut Set<U, R, L>,
        exchange: &mut (impl Exchange + ?Sized),
        name: &str,
        keep: impl FnMut(&K::Key) -> bool,
        go_on: impl FnMut() -> bool,
    ) -> Result<u64, CollectiveError>
    where
        U: Transport,
        R: AsMut<[OperationOf<L>]>,
        L: Keys<Key = K::Key>,
    {
        let call = self.0.begin_collective(exchange, name);
        let keys = grow(self, target, call, keep, go_on)?;
        target.sample_load_factor();
        Ok(keys)
    }

    /// Calls `visit` with each key in this owner's part of the buckets. The result is exact between
    /// barriers. While other owners insert, it contains every key present before the call.
    ///
    /// The entries of wide keys and the inner nodes of trees are in any owner's part. READs fetch them,
    /// for 16 keys at a time.
    ///
    /// # Errors
    /// [`OperationError`] of a READ; then not all keys were visited.
    pub fn for_each_local(&mut self, mut visit: impl FnMut(&K::Key)) -> Result<(), OperationError> {
        if K::READS {
            self.0.pipeline().quiesce()?;
        }
        let (mut next, mut keys) = (0, [K::ANY; READ_AT_ONCE]);
        // Each call but the last reads all of `keys`.
        loop {
            let count = read_part(self, &mut next, &mut keys, false)?;
            keys.iter().take(count).for_each(&mut visit);
            if count < READ_AT_ONCE {
                return Ok(());
            }
        }
    }

    /// Returns the layout of the table's buckets.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        K::layout(self.0.context())
    }

    /// Turns the table into one whose context has another cache.
    pub(crate) fn map_context<L>(self, map: impl FnOnce(K::Context) -> L::Context) -> Set<T, S, L>
    where
        L: Kind<Config = K::Config, Machine = K::Machine>,
    {
        Set(self.0.map_context(map))
    }
}

/// Runs a batch, whose results say what it does with the keys.
pub(crate) fn batch<H: Host<Kind: Keys>, R: BatchResult>(
    table: &mut H,
    keys: &[<H::Kind as Kind>::Key],
    results: &mut [R],
) -> Result<(), BatchError> {
    BatchError::check_length(keys.len(), "results", results.len())?;
    let mut batch = KeyBatch::<H::Kind, R>::new(keys, results);
    table.structure().run_batch(&mut batch)?;
    batch.error().map_or(Ok(()), Err)
}

/// Reads as [`Keys::read_part`], for any number of keys.
pub(crate) fn read_part<H: Host<Kind: Keys>>(
    table: &mut H,
    next: &mut u64,
    keys: &mut [<H::Kind as Kind>::Key],
    is_quiet: bool,
) -> Result<usize, OperationError> {
    let (mut phase, context) = phase(table);
    let mut count = 0;
    for group in keys.chunks_mut(READ_AT_ONCE) {
        let read = H::Kind::read_part(&mut phase, context, next, group, is_quiet)?;
        count += read;
        if read < group.len() {
            break;
        }
    }
    Ok(count)
}

/// Returns the words between the barriers of a collective call.
pub(crate) fn phase<H: Host<Kind: Keys>>(
    table: &mut H,
) -> (Phase<'_, H::Transport>, &<H::Kind as Kind>::Context) {
    let pipeline = table.structure().pipeline();
    let slots = pipeline.slots();
    let (transport, context) = pipeline.parts_mut();
    (Phase { transport, slots, layout: *H::Kind::layout(context) }, context)
}

/// Returns this owner's buckets.
pub(crate) fn buckets<'w>(
    layout: &Layout,
    window: &'w [AtomicU64],
) -> Result<&'w [AtomicU64], OperationError> {
    probeline_pipeline::words(window, layout.first_word(), layout.buckets_per_owner())
}

/// Returns the number of occupied buckets.
pub(crate) fn occupied(buckets: &[AtomicU64]) -> Result<u64, OperationError> {
    Ok(buckets.iter().filter(|bucket| is_occupied(bucket)).count() as u64)
}

fn is_occupied(bucket: &AtomicU64) -> bool {
    bucket.load(core::sync::atomic::Ordering::Acquire) & OCCUPIED != 0
}

/// Estimates the load factor from a sample of an owner's buckets.
pub(crate) fn sampled_load_factor(layout: &Layout, window: &[AtomicU64]) -> f64 {
    const BUCKETS: usize = 256;
    let buckets = buckets(layout, window);
    debug_assert!(buckets.is_ok(), "the window has become shorter");
    let buckets = buckets.unwrap_or_default();
    let sample = buckets.iter().step_by(buckets.len().div_ceil(BUCKETS).max(1));
    let (mut occupied, mut all) = (0_u32, 0_u32);
    for bucket in sample {
        occupied += u32::from(is_occupied(bucket));
        all += 1;
    }
    f64::from(occupied) / f64::from(all.max(1))
}

/// Returns what all owners of a table of any kind have in common.
pub(crate) fn parameters(config: &Config) -> [probeline_pipeline::Parameter; 5] {
    [
        (probeline_pipeline::FINGERPRINT, crate::fingerprint::fingerprint()),
        ("buckets per owner", config.buckets_per_owner),
        ("probe limit (C times M)", u64::from(config.chunk_buckets) * u64::from(config.max_chunks)),
        ("first word", config.first_word),
        ("probe order (0 linear, 1 lines, 2 double-hash)", config.probing as u64),
    ]
}

impl<T: Transport, S: AsMut<[OperationOf<K>]>, K: Keys> Host for Set<T, S, K> {
    type Transport = T;
    type Storage = S;
    type Kind = K;

    #[inline(always)]
    fn structure(&mut self) -> &mut Structure<T, S, K> {
        &mut self.0
    }
}
