//! Operations as futures, for runtimes that poll futures.

use core::cell::RefCell;
use core::future::Future;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll};

use probeline_pipeline::{Host, Machine, OperationFuture};
use probeline_transport::Transport;

use crate::cache::CacheEntry;
use crate::error::OperationError;
use crate::outcome::{Answer, Ended, Intent, Outcome};
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

/// The future of an operation of a table `H`: of [`Shared::find_or_put`] if `A` is [`Outcome`], of
/// [`Shared::find`] if it is `bool`.
#[must_use = "the operation starts with the first poll"]
pub struct TableFuture<'t, H: Host, A> {
    operation: OperationFuture<'t, H>,
    answer: PhantomData<fn() -> A>,
}

impl<'t, H: Host, A: Answer> TableFuture<'t, H, A> {
    #[inline]
    fn new<K>(table: &'t Shared<H>, key: K) -> Self
    where
        H: Host<Arguments = (K, Intent)>,
    {
        let operation = OperationFuture::new(&table.0, (key, A::INTENT));
        Self { operation, answer: PhantomData }
    }
}

impl<H: Host, A: Answer> Future for TableFuture<'_, H, A>
where
    H::Machine: Machine<Outcome = Ended, Error = OperationError>,
{
    type Output = Result<A, OperationError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.operation).poll(context).map_ok(A::of)
    }
}

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
    pub fn find_or_put(&self, key: u64) -> TableFuture<'_, Table<T, S, C>, Outcome> {
        TableFuture::new(self, key)
    }

    /// As [`Table::find`]. The operation starts at the first poll.
    pub fn find(&self, key: u64) -> TableFuture<'_, Table<T, S, C>, bool> {
        TableFuture::new(self, key)
    }
}

impl<T, S, const W: usize> Shared<WideTable<T, S, W>>
where
    T: Transport,
    S: AsMut<[WideOperation<W>]>,
{
    /// As [`WideTable::find_or_put`]. The operation starts at the first poll.
    pub fn find_or_put(&self, key: &[u64; W]) -> TableFuture<'_, WideTable<T, S, W>, Outcome> {
        TableFuture::new(self, *key)
    }

    /// As [`WideTable::find`]. The operation starts at the first poll.
    pub fn find(&self, key: &[u64; W]) -> TableFuture<'_, WideTable<T, S, W>, bool> {
        TableFuture::new(self, *key)
    }
}

impl<T, S, C, const W: usize> Shared<TreeTable<T, S, W, C>>
where
    T: Transport,
    S: AsMut<[TreeOperation<W>]>,
    C: AsMut<[PairCacheLine]>,
{
    /// As [`TreeTable::find_or_put`]. The operation starts at the first poll.
    pub fn find_or_put(&self, key: &[u64; W]) -> TableFuture<'_, TreeTable<T, S, W, C>, Outcome> {
        TableFuture::new(self, *key)
    }

    /// As [`TreeTable::find`]. The operation starts at the first poll.
    pub fn find(&self, key: &[u64; W]) -> TableFuture<'_, TreeTable<T, S, W, C>, bool> {
        TableFuture::new(self, *key)
    }
}
