//! Collective calls of the table: agree on its parameters, count, clear, collect garbage, and grow.
//!
//! Every owner makes each of these calls, in the same order, with no other operation in flight.
//! Between the barriers of a call, owners load and store their own buckets with the CPU and access
//! remote words through the transport. The only atomics are the transport's claims of empty
//! buckets.
//!
//! A CPU may store 0 into an occupied bucket while a claim of that bucket is in flight. The claim
//! then fails or succeeds. In either case the store is not lost, in any atomic scope, because a
//! failed claim does not write. The contract requires this (`AtomicScope::Device`): a device that
//! wrote the old value back would undo the store and leave a key in two buckets.
//!
//! An owner whose own part fails still takes the next step of the call
//! ([`Collective`](probeline_pipeline::Collective)), so that owners stay in step and all of them
//! report the failure.

mod clusters;
mod grow;
mod phase;
mod retain;
mod rounds;

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;

use probeline_pipeline::{Collective, CollectiveError, FINGERPRINT, Parameter};
use probeline_transport::{Exchange, Transport};

use crate::bucket::Bucket;
use crate::cache::CacheEntry;
use crate::config::Config;
use crate::error::{BatchError, GrowError, OpenError, OperationError};
use crate::fingerprint::fingerprint;
use crate::table::{Operation, Table, check};

pub(crate) use grow::{Grows, KeyResult, grow};
use phase::part;
pub(crate) use phase::{Phase, words};
use retain::Keys;
pub(crate) use retain::{Occupants, Retain};

/// The name of the call that opens a table.
const OPEN: &str = "Table::open";
/// Attempts to read or to put a key that is moved into a larger table. A transport that fails eight
/// READs in a row is about to report a fault.
const TRIES: u32 = 8;

impl<T: Transport, S: AsMut<[Operation]>> Table<T, S> {
    /// Opens the table together with all other owners and checks that their parameters are equal.
    ///
    /// An owner that cannot open it does not block the others: they report
    /// [`CollectiveError::NotOpened`].
    ///
    /// # Errors
    /// [`OpenError`]: an invalid configuration, a failed exchange, or an owner without a table
    /// or with other parameters.
    pub fn open(
        transport: T,
        config: Config,
        mut operations: S,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<Self, OpenError> {
        let count = operations.as_mut().len();
        if let Err(error) = check(&transport, &config, count) {
            Collective::new(exchange, OPEN, 0).fail();
            return Err(error.into());
        }
        let mut table = Self::new(transport, config, operations)?;
        table.agree(exchange)?;
        Ok(table)
    }
}

impl<T, S, C> Table<T, S, C>
where
    T: Transport,
    S: AsMut<[Operation]>,
    C: AsMut<[CacheEntry]>,
{
    /// Checks that all owners opened the same table.
    ///
    /// # Errors
    /// [`CollectiveError::Differs`] names the first owner whose parameters differ, and
    /// [`CollectiveError::NotOpened`] the first one without a table.
    pub fn agree(
        &mut self,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<(), CollectiveError> {
        let quiet = self.pipeline.quiesce().map_err(Into::into);
        let parameters = parameters(self.config());
        self.pipeline.agree(exchange, OPEN, quiet, &parameters, false).map(drop)
    }

    /// Returns the number of keys in the whole table.
    ///
    /// # Errors
    /// [`CollectiveError`].
    pub fn len(&mut self, exchange: &mut (impl Exchange + ?Sized)) -> Result<u64, CollectiveError> {
        let quiet = self.pipeline.quiesce().map_err(CollectiveError::from);
        let mut call = self.pipeline.collective(exchange, "Table::len");
        call.together(quiet)?;
        call.sum(self.phase().occupied().map_err(CollectiveError::from))
    }

    /// Returns the load factor: the fraction of occupied buckets in the whole table, 0 to 1.
    ///
    /// # Errors
    /// [`CollectiveError`].
    #[allow(clippy::cast_precision_loss)]
    pub fn load_factor(
        &mut self,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<f64, CollectiveError> {
        let len = self.len(exchange)?;
        let load_factor = len as f64 / self.layout().buckets() as f64;
        self.context_mut().policy.set_load_factor(load_factor);
        Ok(load_factor)
    }

    /// Removes all keys from the whole table.
    ///
    /// A claim that completed in error may still take effect later, and would then occupy a bucket
    /// that this call emptied. After an operation of unknown outcome, call this or
    /// [`retain`](Self::retain) only when the device has dropped everything that it had in flight.
    ///
    /// # Errors
    /// [`CollectiveError`], after which the content is undefined.
    pub fn clear(
        &mut self,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<(), CollectiveError> {
        let quiet = self.forget();
        let mut call = self.pipeline.collective(exchange, "Table::clear");
        call.together(quiet)?;
        call.together(self.phase().empty().map_err(CollectiveError::from))
    }

    /// Removes every key for which `keep` returns false, and returns the number of keys removed
    /// from the whole table. This is the stop-the-world garbage collection that the paper leaves
    /// out (section 1).
    ///
    /// `keep` must return the same result on every owner, and may be called more than once for a
    /// key. The collection runs in place and needs no memory. With linear probing each owner sweeps
    /// the clusters that begin in its part, including the buckets of the next part that such a
    /// cluster covers. A part without an empty bucket is swept by the owner before it, which reads
    /// it word by word. [`clear`](Self::clear) describes what to do about claims that completed in
    /// error.
    ///
    /// # Errors
    /// [`CollectiveError`], after which the content is undefined. If the part of one owner fails,
    /// the call fails on every owner.
    pub fn retain(
        &mut self,
        exchange: &mut (impl Exchange + ?Sized),
        mut keep: impl FnMut(u64) -> bool,
    ) -> Result<u64, CollectiveError> {
        let quiet = self.forget();
        let mut call = self.pipeline.collective(exchange, "Table::retain");
        call.together(quiet)?;
        let mut retain = Retain { phase: self.phase(), occupants: Keys };
        let removed = retain.run(&mut call, |key| keep(*key))?;
        self.sample_load_factor();
        Ok(removed)
    }

    /// Moves all keys of the whole table into `target`, a larger table that all owners have opened on
    /// another engine or on another channel of a splitter, and returns their number.
    ///
    /// The target may have any configuration; it should be empty. Each owner moves the keys of its
    /// own part, in batches, and all owners count the keys of the target at the end. This table stays
    /// as it is, with every key, also if the call fails or a process dies in it. After a success,
    /// drop it together with its engine. After an error, it can be used again or moved into another
    /// target, unless its own transport is dead.
    ///
    /// The call needs a few kilobytes of stack.
    ///
    /// # Errors
    /// [`GrowError`], after which the content of `target` is undefined. If the target is full, or the
    /// part of one owner fails, the call fails on every owner.
    pub fn grow_into<U, R, D>(
        &mut self,
        target: &mut Table<U, R, D>,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<u64, GrowError>
    where
        U: Transport,
        R: AsMut<[Operation]>,
        D: AsMut<[CacheEntry]>,
    {
        self.grow_into_while(target, exchange, || true)
    }

    /// As [`grow_into`](Self::grow_into), but asks each owner after every 65,536 keys of its part
    /// whether to go on. If `go_on` returns false on one owner, the call ends on all of them.
    ///
    /// # Errors
    /// As for [`grow_into`](Self::grow_into), and [`GrowError::Stopped`].
    pub fn grow_into_while<U, R, D>(
        &mut self,
        target: &mut Table<U, R, D>,
        exchange: &mut (impl Exchange + ?Sized),
        go_on: impl FnMut() -> bool,
    ) -> Result<u64, GrowError>
    where
        U: Transport,
        R: AsMut<[Operation]>,
        D: AsMut<[CacheEntry]>,
    {
        let call = self.pipeline.collective(exchange, "Table::grow_into");
        let keys = grow(self, target, call, |_| true, go_on)?;
        target.sample_load_factor();
        Ok(keys)
    }

    /// Waits until no operation is in flight and drops what was learnt of the table, because it
    /// changes.
    fn forget(&mut self) -> Result<(), CollectiveError> {
        let quiet = self.pipeline.quiesce();
        let config = self.config;
        self.context_mut().forget(&config);
        Ok(quiet?)
    }

    /// Returns this owner's buckets to functions that return no error: [`Table::new`] has checked
    /// the length of the window, which is fixed.
    pub(crate) fn buckets(&self) -> &[AtomicU64] {
        let part = part(self.transport(), self.layout());
        debug_assert!(part.is_ok(), "the window has become shorter");
        part.unwrap_or_default()
    }

    fn phase(&mut self) -> Phase<'_, T> {
        let (layout, slots) = (*self.layout(), self.pipeline.slots());
        Phase { transport: self.pipeline.transport_mut(), slots, layout }
    }
}

impl<T, S, C> Grows for Table<T, S, C>
where
    T: Transport,
    S: AsMut<[Operation]>,
    C: AsMut<[CacheEntry]>,
{
    type Transport = T;
    type Key = u64;
    const ANY: u64 = 0;

    fn phase(&mut self) -> Phase<'_, T> {
        Self::phase(self)
    }

    fn quiesce(&mut self) -> Result<(), OperationError> {
        self.pipeline.quiesce()
    }

    fn read_part(&mut self, next: &mut u64, keys: &mut [u64]) -> Result<usize, OperationError> {
        let phase = Self::phase(self);
        let words = phase.part()?.iter().skip(usize::try_from(*next).unwrap_or(usize::MAX));
        let mut count = 0;
        for word in words {
            let Some(key) = keys.get_mut(count) else { break };
            *next += 1;
            if let Some(bucket) = Bucket::from_word(word.load(Acquire)) {
                *key = bucket.key();
                count += 1;
            }
        }
        Ok(count)
    }

    fn put(&mut self, keys: &[u64], results: &mut [KeyResult]) -> Result<(), BatchError> {
        self.find_or_put_batch(keys, results)
    }
}

/// Returns what all owners of a table of any kind have in common.
pub(crate) fn parameters(config: &Config) -> [Parameter; 5] {
    [
        (FINGERPRINT, fingerprint()),
        ("buckets per owner", config.buckets_per_owner),
        ("probe limit (C times M)", u64::from(config.chunk_buckets) * u64::from(config.max_chunks)),
        ("first word", config.first_word),
        ("probe order (0 linear, 1 lines, 2 jump)", config.probing as u64),
    ]
}
