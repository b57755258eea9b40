//! Collective calls of the table: agree on its parameters, count, clear, and collect garbage.
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
//! An owner whose own part fails still makes all barriers of the call, so that owners stay in step.
//! It publishes the failure to the others in its header.

mod clusters;
mod rounds;
mod words;

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};

use probeline_transport::{Exchange, Owner, RemoteWord, Transport};

use crate::bucket::Bucket;
use crate::cache::CacheEntry;
use crate::config::Config;
use crate::error::{CollectiveError, OpenError, OperationError};
use crate::layout::Probing;
use crate::table::{Operation, Table, check};

/// "probelin" in ASCII, which marks a table's header.
const MAGIC: u64 = 0x7072_6f62_656c_696e;
/// Version of this layout of the header and the buckets.
const VERSION: u64 = 2;
/// Names of the header words that must be equal on all owners.
const AGREED: [&str; 7] = [
    "format",
    "version",
    "number of owners",
    "buckets per owner",
    "probe limit (C times M)",
    "first word",
    "probe order (0 linear, 1 lines, 2 jump)",
];
/// Index of the header word in which an owner publishes a number to the others.
const PUBLISHED: u64 = 7;
/// Value of that word when the owner's part failed: greater than any number of buckets.
const FAILED: u64 = u64::MAX;
/// Attempts of a READ whose result decides whether all owners go on. An owner without the result
/// would leave the others waiting at the next barrier. A transport that fails eight READs in a row
/// is about to report a fault.
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
            // Makes both barriers of `agree` with a header of zeros, because the window may still
            // contain the header of an earlier table.
            let first = usize::try_from(config.first_word).unwrap_or(usize::MAX);
            for word in transport.window().iter().skip(first).take(AGREED.len()) {
                word.store(0, Release);
            }
            exchange.barrier().and_then(|()| exchange.barrier()).ok();
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
        let quiet = self.quiesce();
        exchange.barrier()?;
        let compared = quiet.map_err(Into::into).and_then(|()| self.compare());
        // Also after a difference: an owner that left would make the READs of the others fail.
        let parted = exchange.barrier();
        compared?;
        Ok(parted?)
    }

    fn compare(&mut self) -> Result<(), CollectiveError> {
        let mine = self.agreed();
        for owner in 0..self.layout().owners() {
            for (at, (&what, &mine)) in (0..).zip(AGREED.iter().zip(&mine)) {
                let theirs = self.read_word(self.header(owner, at))?;
                if at == 0 && theirs == 0 {
                    return Err(CollectiveError::NotOpened { owner: Owner(owner) });
                }
                if theirs != mine {
                    return Err(CollectiveError::Differs {
                        owner: Owner(owner),
                        what,
                        mine,
                        theirs,
                    });
                }
            }
        }
        Ok(())
    }

    /// Returns the number of keys in the whole table.
    ///
    /// # Errors
    /// [`CollectiveError`].
    pub fn len(&mut self, exchange: &mut (impl Exchange + ?Sized)) -> Result<u64, CollectiveError> {
        let quiet = self.quiesce();
        exchange.barrier()?;
        let mine = quiet.and_then(|()| self.occupied());
        self.sum(mine, exchange)
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
        let quiet = self.quiesce();
        let config = self.config;
        self.context_mut().forget(&config);
        exchange.barrier()?;
        let emptied = self.part().map(|part| {
            part.iter().for_each(|bucket| bucket.store(0, Release));
        });
        exchange.barrier()?;
        Ok(quiet.and(emptied)?)
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
        keep: impl FnMut(u64) -> bool,
    ) -> Result<u64, CollectiveError> {
        let quiet = self.quiesce();
        let config = self.config;
        self.context_mut().forget(&config);
        exchange.barrier()?;
        let removed = if self.layout().probing() == Probing::Linear {
            self.retain_by_clusters(quiet, exchange, keep)
        } else {
            self.retain_by_rounds(quiet, exchange, keep)
        }?;
        self.sample_load_factor();
        Ok(removed)
    }

    /// Returns the sum of `mine` over all owners, or an error if the part of any owner failed. All
    /// owners make both barriers.
    fn sum<E: Into<CollectiveError>>(
        &mut self,
        mine: Result<u64, E>,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<u64, CollectiveError> {
        self.sum_trying(1, mine, exchange)
    }

    /// As `sum`, with up to `tries` attempts of each READ.
    fn sum_trying<E: Into<CollectiveError>>(
        &mut self,
        tries: u32,
        mine: Result<u64, E>,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<u64, CollectiveError> {
        let published = self.publish(PUBLISHED, *mine.as_ref().unwrap_or(&FAILED));
        exchange.barrier()?;
        let mine = mine.map_err(Into::into).and_then(|_| Ok(published?));
        let sum = mine.and_then(|()| self.add_up(tries));
        exchange.barrier()?;
        sum
    }

    fn add_up(&mut self, tries: u32) -> Result<u64, CollectiveError> {
        let mut sum: u64 = 0;
        for owner in 0..self.layout().owners() {
            let published = self.header(owner, PUBLISHED);
            let mut read = self.read_word(published);
            for _ in 1..tries {
                if !matches!(read, Err(OperationError::Failed(_))) {
                    break;
                }
                read = self.read_word(published);
            }
            match read? {
                FAILED => return Err(CollectiveError::PartFailed { owner: Owner(owner) }),
                theirs => sum = sum.saturating_add(theirs),
            }
        }
        Ok(sum)
    }

    fn agreed(&self) -> [u64; AGREED.len()] {
        let config = self.config();
        [
            MAGIC,
            VERSION,
            u64::from(self.layout().owners()),
            config.buckets_per_owner,
            u64::from(config.chunk_buckets) * u64::from(config.max_chunks),
            config.first_word,
            config.probing as u64,
        ]
    }

    pub(crate) fn write_header(&self) -> Result<(), OperationError> {
        (0..).zip(self.agreed()).try_for_each(|(at, value)| self.publish(at, value))
    }

    fn header(&self, owner: u32, at: u64) -> RemoteWord {
        RemoteWord { owner: Owner(owner), index: self.config().first_word + at }
    }

    fn publish(&self, at: u64, value: u64) -> Result<(), OperationError> {
        let index = usize::try_from(self.config().first_word + at).ok();
        let word = index.and_then(|index| self.transport().window().get(index));
        word.ok_or(OperationError::Window)?.store(value, Release);
        Ok(())
    }

    /// Returns the number of this owner's occupied buckets.
    fn occupied(&self) -> Result<u64, OperationError> {
        let occupied = |bucket: &&AtomicU64| Bucket::from_word(bucket.load(Acquire)).is_some();
        Ok(self.part()?.iter().filter(occupied).count() as u64)
    }

    fn me(&self) -> u32 {
        self.transport().geometry().me.0
    }

    fn quiesce(&mut self) -> Result<(), OperationError> {
        self.pipeline.quiesce()
    }
}
