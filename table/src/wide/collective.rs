//! Collective calls of the wide table, and iteration over its keys.
//!
//! As in a narrow table, every owner makes each of these calls, in the same order, with no other
//! operation in flight. They also free the entries that no key has: those of removed keys, those
//! that clients hold, and those that dead clients held.

use probeline_pipeline::{Collective, CollectiveError};
use probeline_transport::{Exchange, Transport};

use super::compaction::Compaction;
use super::config::WideConfig;
use super::direct;
use super::key::{Entries, Tagged, hash};
use super::local::{LocalReader, MAX_READS, key_of};
use super::table::{WideOperation, WideTable, check};
use crate::bucket::OCCUPIED;
use crate::collective::{Grows, KeyResult, Occupants, Phase, Retain, grow, parameters};
use crate::error::{BatchError, GrowError, OpenError, OperationError};

/// The name of the call that opens a wide table.
const OPEN: &str = "WideTable::open";

/// Buckets that refer to entries of `W` words.
pub(crate) struct EntryKeys<const W: usize> {
    pub(crate) entries: Entries,
}

impl<const W: usize> Occupants for EntryKeys<W> {
    type Wanted = Tagged;
    type Key = [u64; W];

    fn of<T: Transport>(
        &self,
        word: u64,
        phase: &mut Phase<'_, T>,
    ) -> Result<Option<(Tagged, [u64; W])>, OperationError> {
        if word & OCCUPIED == 0 {
            return Ok(None);
        }
        let read = phase.read(self.entries.segment(self.entries.entry_of(word)))?;
        let key = key_of(read)?;
        Ok(Some((self.entries.tagged(hash(&key)), key)))
    }
}

impl<T, S, const W: usize> WideTable<T, S, W>
where
    T: Transport,
    S: AsMut<[WideOperation<W>]>,
{
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
        config: WideConfig<W>,
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

    /// Checks that all owners opened the same table. The CPU then runs all operations if every
    /// owner's CPU reaches all words and may ([`Config::direct`](crate::Config::direct)).
    ///
    /// # Errors
    /// As for [`Table::agree`](crate::Table::agree).
    pub fn agree(
        &mut self,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<(), CollectiveError> {
        let quiet = self.pipeline.quiesce().map_err(Into::into);
        let may = self.config.buckets.direct
            && direct::is_possible::<W>(self.pipeline.transport(), self.pipeline.shared());
        let [a, b, c, d, e] = parameters(&self.config.buckets);
        let entries = ("entries per owner", self.config.entries_per_owner);
        let parameters = [a, b, c, d, e, entries, ("words of a key", W as u64)];
        let is_direct = self.pipeline.agree(exchange, OPEN, quiet, &parameters, may)?;
        self.pipeline.shared_mut().is_direct = is_direct;
        Ok(())
    }

    /// Returns the number of keys in the whole table.
    ///
    /// # Errors
    /// [`CollectiveError`].
    pub fn len(&mut self, exchange: &mut (impl Exchange + ?Sized)) -> Result<u64, CollectiveError> {
        let quiet = self.pipeline.quiesce().map_err(CollectiveError::from);
        let mut call = self.pipeline.collective(exchange, "WideTable::len");
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
        self.pipeline.shared_mut().table.policy.set_load_factor(load_factor);
        Ok(load_factor)
    }

    /// Removes all keys from the whole table, and frees all entries.
    ///
    /// After an operation of unknown outcome, call this or [`retain`](Self::retain) only when the
    /// device has dropped everything that it had in flight: a claim or a WRITE that takes effect
    /// late would occupy a bucket or change an entry that another key has by then.
    ///
    /// # Errors
    /// [`CollectiveError`], after which the content is undefined.
    pub fn clear(
        &mut self,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<(), CollectiveError> {
        let (quiet, counter) = (self.forget(), self.config.counter());
        let mut call = self.pipeline.collective(exchange, "WideTable::clear");
        call.together(quiet)?;
        let phase = self.phase();
        let emptied = phase.empty().and_then(|()| phase.set_own(counter, 0));
        call.together(emptied.map_err(CollectiveError::from))
    }

    /// Removes every key for which `keep` returns false, and returns the number of keys removed
    /// from the whole table. Afterwards every entry without a key is free again, also those that
    /// dead clients or operations of unknown outcome have left.
    ///
    /// `keep` must return the same result on every owner, and may be called more than once for a
    /// key. The collection runs in place: it reads the entry of each key, moves buckets as
    /// [`Table::retain`](crate::Table::retain) does, and then moves the entries at the end of each
    /// part into its gaps, with a few one-sided operations a key.
    ///
    /// # Errors
    /// [`CollectiveError`], after which the content is undefined. If the part of one owner fails,
    /// the call fails on every owner.
    pub fn retain(
        &mut self,
        exchange: &mut (impl Exchange + ?Sized),
        keep: impl FnMut(&[u64; W]) -> bool,
    ) -> Result<u64, CollectiveError> {
        let quiet = self.forget();
        let (entries, first_mark) = (self.pipeline.shared().entries, self.config.first_mark());
        let counter = self.config.counter();
        let mut call = self.pipeline.collective(exchange, "WideTable::retain");
        call.together(quiet)?;
        let occupants = EntryKeys::<W> { entries };
        let mut retain = Retain { phase: self.phase(), occupants };
        let removed = retain.run(&mut call, keep)?;
        let mut compaction = Compaction { phase: retain.phase, entries, first_mark, counter };
        compaction.run(&mut call)?;
        Ok(removed)
    }

    /// Moves all keys of the whole table into `target`, a larger table of keys of the same width, as
    /// [`Table::grow_into`](crate::Table::grow_into) does, and returns their number.
    ///
    /// The CPU loads the entries in this owner's part. The others are read, up to 16 at once.
    ///
    /// # Errors
    /// As for [`Table::grow_into`](crate::Table::grow_into).
    pub fn grow_into<U, R>(
        &mut self,
        target: &mut WideTable<U, R, W>,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<u64, GrowError>
    where
        U: Transport,
        R: AsMut<[WideOperation<W>]>,
    {
        self.grow_into_while(target, exchange, || true)
    }

    /// As [`Table::grow_into_while`](crate::Table::grow_into_while).
    ///
    /// # Errors
    /// As for [`Table::grow_into_while`](crate::Table::grow_into_while).
    #[allow(clippy::cast_precision_loss)]
    pub fn grow_into_while<U, R>(
        &mut self,
        target: &mut WideTable<U, R, W>,
        exchange: &mut (impl Exchange + ?Sized),
        go_on: impl FnMut() -> bool,
    ) -> Result<u64, GrowError>
    where
        U: Transport,
        R: AsMut<[WideOperation<W>]>,
    {
        let call = self.pipeline.collective(exchange, "WideTable::grow_into");
        let keys = grow(self, target, call, |_| true, go_on)?;
        let load_factor = keys as f64 / target.layout().buckets() as f64;
        target.pipeline.shared_mut().table.policy.set_load_factor(load_factor);
        Ok(keys)
    }

    /// Calls `visit` with each key in this owner's part of the buckets. The result is exact between
    /// barriers. While other owners insert, it contains every key that was there before the call.
    ///
    /// It reads the keys' entries, which are in any owner's part, up to 16 at once.
    ///
    /// # Errors
    /// [`OperationError`] of a READ; then not all keys were visited.
    pub fn for_each_local(
        &mut self,
        mut visit: impl FnMut(&[u64; W]),
    ) -> Result<(), OperationError> {
        self.pipeline.quiesce()?;
        let (mut next, mut keys) = (0, [[0; W]; MAX_READS]);
        loop {
            let count = self.read_local(&mut next, &mut keys, false)?;
            keys.iter().take(count).for_each(&mut visit);
            if count < MAX_READS {
                return Ok(());
            }
        }
    }

    /// Reads the keys of this owner's buckets from index `next` on, and advances `next` past them.
    /// Returns their number, which is less than that of `keys` only at the end. If `by_cpu`, which
    /// is for the time between barriers, the CPU loads the entries in this owner's part.
    fn read_local(
        &mut self,
        next: &mut u64,
        keys: &mut [[u64; W]],
        by_cpu: bool,
    ) -> Result<usize, OperationError> {
        let entries = self.pipeline.shared().entries;
        let mut reader = LocalReader { phase: self.phase(), entries, by_cpu };
        let mut count = 0;
        while let Some(keys) = keys.get_mut(count..).filter(|keys| !keys.is_empty()) {
            match reader.read(next, keys)? {
                0 => break,
                read => count += read,
            }
        }
        Ok(count)
    }

    /// Waits until no operation is in flight and drops what was learnt of the table, because it
    /// changes.
    fn forget(&mut self) -> Result<(), CollectiveError> {
        let quiet = self.pipeline.quiesce();
        let buckets = self.config.buckets;
        let context = self.pipeline.shared_mut();
        context.table.forget(&buckets);
        context.spares.forget(&context.entries);
        Ok(quiet?)
    }

    fn phase(&mut self) -> Phase<'_, T> {
        let (layout, slots) = (*self.layout(), self.pipeline.slots());
        Phase { transport: self.pipeline.transport_mut(), slots, layout }
    }
}

impl<T, S, const W: usize> Grows for WideTable<T, S, W>
where
    T: Transport,
    S: AsMut<[WideOperation<W>]>,
{
    type Transport = T;
    type Key = [u64; W];
    const ANY: [u64; W] = [0; W];

    fn phase(&mut self) -> Phase<'_, T> {
        Self::phase(self)
    }

    fn quiesce(&mut self) -> Result<(), OperationError> {
        self.pipeline.quiesce()
    }

    fn read_part(
        &mut self,
        next: &mut u64,
        keys: &mut [[u64; W]],
    ) -> Result<usize, OperationError> {
        self.read_local(next, keys, true)
    }

    fn put(&mut self, keys: &[[u64; W]], results: &mut [KeyResult]) -> Result<(), BatchError> {
        self.find_or_put_batch(keys, results)
    }
}
