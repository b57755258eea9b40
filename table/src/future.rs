//! Operations as futures, for runtimes that poll futures.

use core::borrow::Borrow;
use core::cell::RefCell;
use core::future::Future;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll};

use probeline_pipeline::{Host, OperationFuture, OperationOf};
use probeline_transport::Transport;

use crate::OperationError;
use crate::outcome::{Answer, Outcome};
use crate::set::{Keys, Set};

/// A [`Set`] whose operations are futures, for the tasks of one
/// thread. As many run at once as the table has storage for; the others wait for storage.
///
/// [`OperationFuture`] describes who polls the transport and when wakers are called. A future fails
/// with [`OperationError::Busy`] if unreported results of [`Set::submit`]
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

impl<H: Host<Kind: Keys>, A: Answer> Future for TableFuture<'_, H, A> {
    type Output = Result<A, OperationError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.operation).poll(context).map_ok(A::from_ended)
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

impl<T: Transport, S: AsMut<[OperationOf<K>]>, K: Keys> Shared<Set<T, S, K>> {
    /// Finds or puts as [`Set::find_or_put`]. The operation starts at the first poll.
    pub fn find_or_put(&self, key: K::Arg<'_>) -> TableFuture<'_, Set<T, S, K>, Outcome> {
        self.run(key)
    }

    /// Finds as [`Set::find`]. The operation starts at the first poll.
    pub fn find(&self, key: K::Arg<'_>) -> TableFuture<'_, Set<T, S, K>, bool> {
        self.run(key)
    }

    #[inline]
    fn run<A: Answer>(&self, key: K::Arg<'_>) -> TableFuture<'_, Set<T, S, K>, A> {
        let operation = OperationFuture::new(&self.0, key.borrow(), A::INTENT);
        TableFuture { operation, answer: PhantomData }
    }
}
