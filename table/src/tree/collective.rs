//! Collective calls of the tree table, and iteration over its keys.
//!
//! As in a narrow table, every owner makes each of these calls, in the same order, with no other
//! operation in flight. Instead of `retain` in place, which would move buckets to which others refer,
//! `retain_into` moves the keys to keep into another table.

use probeline_pipeline::{Collective, CollectiveError};
use probeline_transport::{Exchange, Transport};

use super::cache::PairCacheLine;
use super::config::TreeConfig;
use super::local::{GROUP, LocalReader, roots};
use super::table::{TreeOperation, TreeTable, check};
use crate::collective::{Grows, KeyResult, Phase, grow, parameters};
use crate::direct::Direct;
use crate::error::{BatchError, GrowError, OpenError, OperationError};

/// The name of the call that opens a tree table.
const OPEN: &str = "TreeTable::open";

impl<T, S, const W: usize> TreeTable<T, S, W>
where
    T: Transport,
    S: AsMut<[TreeOperation<W>]>,
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
        config: TreeConfig,
        mut operations: S,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<Self, OpenError> {
        let count = operations.as_mut().len();
        if let Err(error) = check::<W>(&transport, &config, count) {
            Collective::new(exchange, OPEN, 0).fail();
            return Err(error.into());
        }
        let mut table = Self::new(transport, config, operations)?;
        table.agree(exchange)?;
        Ok(table)
    }
}

impl<T, S, const W: usize, C> TreeTable<T, S, W, C>
where
    T: Transport,
    S: AsMut<[TreeOperation<W>]>,
    C: AsMut<[PairCacheLine]>,
{
    /// Checks that all owners opened the same table.
    ///
    /// # Errors
    /// As for [`Table::agree`](crate::Table::agree).
    pub fn agree(
        &mut self,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<(), CollectiveError> {
        let quiet = self.pipeline.quiesce().map_err(Into::into);
        let [a, b, c, d, e] = parameters(&self.config.buckets);
        let parameters = [a, b, c, d, e, ("bits of a key", self.config.key_bits.into())];
        self.pipeline.agree(exchange, OPEN, quiet, &parameters, false).map(drop)
    }

    /// Returns the number of keys in the whole table: occupied buckets that hold a root.
    ///
    /// # Errors
    /// [`CollectiveError`].
    pub fn len(&mut self, exchange: &mut (impl Exchange + ?Sized)) -> Result<u64, CollectiveError> {
        let quiet = self.pipeline.quiesce().map_err(CollectiveError::from);
        let mut call = self.pipeline.collective(exchange, "TreeTable::len");
        call.together(quiet)?;
        call.sum(roots(&self.phase()).map_err(CollectiveError::from))
    }

    /// Returns the number of occupied buckets in the whole table: those of keys and of inner nodes.
    ///
    /// # Errors
    /// [`CollectiveError`].
    pub fn occupied(
        &mut self,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<u64, CollectiveError> {
        let quiet = self.pipeline.quiesce().map_err(CollectiveError::from);
        let mut call = self.pipeline.collective(exchange, "TreeTable::occupied");
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
        let load_factor = self.occupied(exchange)? as f64 / self.layout().buckets() as f64;
        self.pipeline.shared_mut().table.policy.set_load_factor(load_factor);
        Ok(load_factor)
    }

    /// Removes all keys and nodes from the whole table. [`Table::clear`](crate::Table::clear)
    /// describes what to do about operations of unknown outcome.
    ///
    /// # Errors
    /// [`CollectiveError`], after which the content is undefined.
    pub fn clear(
        &mut self,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<(), CollectiveError> {
        let quiet = self.pipeline.quiesce().map_err(CollectiveError::from);
        let buckets = self.config.buckets;
        let context = self.pipeline.shared_mut();
        context.table.forget(&buckets);
        context.cache.forget();
        let mut call = self.pipeline.collective(exchange, "TreeTable::clear");
        call.together(quiet)?;
        call.together(self.phase().empty().map_err(CollectiveError::from))
    }

    /// Calls `visit` with each key whose root is in this owner's part. The result is exact between
    /// barriers. While other owners insert, it contains every key that was there before the call.
    ///
    /// It reads the inner nodes of each key, which are in any owner's part, those of 16 keys at once.
    ///
    /// # Errors
    /// [`OperationError`] of a READ; then not all keys were visited.
    pub fn for_each_local(
        &mut self,
        mut visit: impl FnMut(&[u64; W]),
    ) -> Result<(), OperationError> {
        self.pipeline.quiesce()?;
        let (mut next, mut keys) = (0, [[0; W]; GROUP]);
        // Each call but the last reads GROUP keys of the part.
        loop {
            let count = self.read_local(&mut next, &mut keys)?;
            keys.iter().take(count).for_each(&mut visit);
            if count < GROUP {
                return Ok(());
            }
        }
    }

    /// Moves all keys of the whole table into `target`, a larger table of keys of as many bits, as
    /// [`Table::grow_into`](crate::Table::grow_into) does, and returns their number.
    ///
    /// Keys are read node by node, 16 at once, and put into the target, which creates their nodes.
    ///
    /// # Errors
    /// As for [`Table::grow_into`](crate::Table::grow_into).
    pub fn grow_into<U, R, D>(
        &mut self,
        target: &mut TreeTable<U, R, W, D>,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<u64, GrowError>
    where
        U: Transport,
        R: AsMut<[TreeOperation<W>]>,
        D: AsMut<[PairCacheLine]>,
    {
        self.grow_into_while(target, exchange, || true)
    }

    /// As [`Table::grow_into_while`](crate::Table::grow_into_while).
    ///
    /// # Errors
    /// As for [`Table::grow_into_while`](crate::Table::grow_into_while).
    pub fn grow_into_while<U, R, D>(
        &mut self,
        target: &mut TreeTable<U, R, W, D>,
        exchange: &mut (impl Exchange + ?Sized),
        go_on: impl FnMut() -> bool,
    ) -> Result<u64, GrowError>
    where
        U: Transport,
        R: AsMut<[TreeOperation<W>]>,
        D: AsMut<[PairCacheLine]>,
    {
        let call = self.pipeline.collective(exchange, "TreeTable::grow_into");
        grow(self, target, call, |_| true, go_on)
    }

    /// Moves the keys for which `keep` returns true into `target`, as [`grow_into`](Self::grow_into)
    /// does, and returns their number. The target may be as large as this table, or smaller.
    ///
    /// This is the garbage collection of a tree table. One in place, as
    /// [`Table::retain`](crate::Table::retain) is, would have to find out which inner nodes no
    /// remaining key uses, and to move the others together with all references to them. The nodes
    /// that operations of unknown outcome have left stay behind too.
    ///
    /// # Errors
    /// As for [`Table::grow_into`](crate::Table::grow_into).
    pub fn retain_into<U, R, D>(
        &mut self,
        target: &mut TreeTable<U, R, W, D>,
        exchange: &mut (impl Exchange + ?Sized),
        keep: impl FnMut(&[u64; W]) -> bool,
    ) -> Result<u64, GrowError>
    where
        U: Transport,
        R: AsMut<[TreeOperation<W>]>,
        D: AsMut<[PairCacheLine]>,
    {
        let call = self.pipeline.collective(exchange, "TreeTable::retain_into");
        grow(self, target, call, keep, || true)
    }

    /// Reads the keys whose roots are in this owner's buckets from index `next` on, and advances
    /// `next` past them. Returns their number, which is less than that of `keys` only at the end.
    fn read_local(
        &mut self,
        next: &mut u64,
        keys: &mut [[u64; W]],
    ) -> Result<usize, OperationError> {
        let shape = self.pipeline.shared().shape;
        let may_load = self.pipeline.shared().table.direct == Direct::Claims;
        let mut reader = LocalReader { phase: self.phase(), shape, may_load };
        let mut count = 0;
        for group in keys.chunks_mut(GROUP) {
            let read = reader.read(next, group)?;
            count += read;
            if read < group.len() {
                break;
            }
        }
        Ok(count)
    }

    fn phase(&mut self) -> Phase<'_, T> {
        let (layout, slots) = (*self.layout(), self.pipeline.slots());
        Phase { transport: self.pipeline.transport_mut(), slots, layout }
    }
}

impl<T, S, const W: usize, C> Grows for TreeTable<T, S, W, C>
where
    T: Transport,
    S: AsMut<[TreeOperation<W>]>,
    C: AsMut<[PairCacheLine]>,
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

    fn keys_in(phase: &Phase<'_, T>) -> Result<u64, OperationError> {
        roots(phase)
    }

    fn read_part(
        &mut self,
        next: &mut u64,
        keys: &mut [[u64; W]],
    ) -> Result<usize, OperationError> {
        self.read_local(next, keys)
    }

    fn put(&mut self, keys: &[[u64; W]], results: &mut [KeyResult]) -> Result<(), BatchError> {
        self.find_or_put_batch(keys, results)
    }
}
