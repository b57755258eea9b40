//! Operations as futures, for runtimes that poll futures.

use core::cell::RefCell;

use probeline_pipeline::OperationFuture;
use probeline_transport::Transport;

use crate::cache::CacheEntry;
use crate::outcome::Intent;
use crate::table::{Operation, Table};
use crate::tree::{PairCacheLine, TreeOperation, TreeTable};
use crate::wide::{WideOperation, WideTable};

/// A [`Table`], [`WideTable`] or [`TreeTable`] whose operations are futures, for the tasks of one
/// thread. As many run at once as the table has storage for; the others wait for storage.
///
/// [`OperationFuture`] describes who polls the transport and when wakers are called. A future fails
/// with [`SubmitError::Busy`](crate::SubmitError::Busy) if unreported results of [`Table::submit`]
/// hold all storage.
///
/// ```
/// # use probeline_table::{CacheEntry, Operation, OperationError, Shared, Table};
/// # use probeline_transport::Transport;
/// # async fn example<T, S, C>(table: Shared<Table<T, S, C>>) -> Result<(), OperationError>
/// # where T: Transport, S: AsMut<[Operation]>, C: AsMut<[CacheEntry]> {
/// let first = table.find_or_put(1);
/// let second = table.find_or_put(2);
/// // A runtime would poll both together.
/// println!("{:?} {:?}", first.await?, second.await?);
/// # Ok(()) }
/// ```
pub struct Shared<H>(RefCell<H>);

/// The future of a find or find-or-put.
pub type TableFuture<'t, T, S, C> = OperationFuture<'t, Table<T, S, C>>;

/// The future of a find or find-or-put of a wide key.
pub type WideTableFuture<'t, T, S, const W: usize> = OperationFuture<'t, WideTable<T, S, W>>;

/// The future of a find or find-or-put of a key as a tree.
pub type TreeTableFuture<'t, T, S, const W: usize, C> = OperationFuture<'t, TreeTable<T, S, W, C>>;

impl<H> Shared<H> {
    /// Shares `table` between futures.
    pub fn new(table: H) -> Self {
        Self(RefCell::new(table))
    }

    /// Returns the table, when no future borrows it. Operations of dropped futures are still in
    /// flight.
    pub fn into_table(self) -> H {
        self.0.into_inner()
    }

    /// Returns the table, when no future borrows it.
    pub fn table(&mut self) -> &mut H {
        self.0.get_mut()
    }
}

impl<T, S, C> Shared<Table<T, S, C>>
where
    T: Transport,
    S: AsMut<[Operation]>,
    C: AsMut<[CacheEntry]>,
{
    /// As [`Table::find_or_put`]. The operation starts at the first poll.
    pub fn find_or_put(&self, key: u64) -> TableFuture<'_, T, S, C> {
        self.run(key, Intent::FindOrPut)
    }

    /// As [`Table::find`]: the outcome is [`Outcome::Found`](crate::Outcome::Found) or
    /// [`Outcome::Absent`](crate::Outcome::Absent).
    pub fn find(&self, key: u64) -> TableFuture<'_, T, S, C> {
        self.run(key, Intent::Find)
    }

    #[inline]
    fn run(&self, key: u64, intent: Intent) -> TableFuture<'_, T, S, C> {
        OperationFuture::new(&self.0, (key, intent))
    }
}

impl<T, S, const W: usize> Shared<WideTable<T, S, W>>
where
    T: Transport,
    S: AsMut<[WideOperation<W>]>,
{
    /// As [`WideTable::find_or_put`]. The operation starts at the first poll.
    pub fn find_or_put(&self, key: &[u64; W]) -> WideTableFuture<'_, T, S, W> {
        OperationFuture::new(&self.0, (*key, Intent::FindOrPut))
    }

    /// As [`WideTable::find`]: the outcome is [`Outcome::Found`](crate::Outcome::Found) or
    /// [`Outcome::Absent`](crate::Outcome::Absent).
    pub fn find(&self, key: &[u64; W]) -> WideTableFuture<'_, T, S, W> {
        OperationFuture::new(&self.0, (*key, Intent::Find))
    }
}

impl<T, S, C, const W: usize> Shared<TreeTable<T, S, W, C>>
where
    T: Transport,
    S: AsMut<[TreeOperation<W>]>,
    C: AsMut<[PairCacheLine]>,
{
    /// As [`TreeTable::find_or_put`]. The operation starts at the first poll.
    pub fn find_or_put(&self, key: &[u64; W]) -> TreeTableFuture<'_, T, S, W, C> {
        OperationFuture::new(&self.0, (*key, Intent::FindOrPut))
    }

    /// As [`TreeTable::find`]: the outcome is [`Outcome::Found`](crate::Outcome::Found) or
    /// [`Outcome::Absent`](crate::Outcome::Absent).
    pub fn find(&self, key: &[u64; W]) -> TreeTableFuture<'_, T, S, W, C> {
        OperationFuture::new(&self.0, (*key, Intent::Find))
    }
}
