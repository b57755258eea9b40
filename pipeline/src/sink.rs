//! The receivers of results: a poll, and a call or batch.

use crate::machine::Machine;
use crate::operation::{Finished, Waiter};

pub(crate) type ResultOf<M> = Result<<M as Machine>::Outcome, <M as Machine>::Error>;

/// The receiver of results that are delivered at once. Other results stay in their operations.
pub(crate) trait Sink<M: Machine> {
    fn take(&mut self, waiter: Waiter, result: ResultOf<M>) -> bool;
}

/// Leaves all results in their operations.
pub(crate) struct Keep;

impl<M: Machine> Sink<M> for Keep {
    #[inline]
    fn take(&mut self, _: Waiter, _: ResultOf<M>) -> bool {
        false
    }
}

/// The results that one poll reports.
pub(crate) struct Polled<'o, O, E> {
    pub(crate) out: &'o mut [Finished<O, E>],
    pub(crate) count: usize,
}

impl<M: Machine> Sink<M> for Polled<'_, M::Outcome, M::Error> {
    #[inline]
    fn take(&mut self, waiter: Waiter, result: ResultOf<M>) -> bool {
        let Waiter::Tag(tag) = waiter else { return false };
        let Some(place) = self.out.get_mut(self.count) else { return false };
        *place = Finished { tag, result };
        self.count += 1;
        true
    }
}

/// The results of a call or a batch.
pub(crate) struct BatchResults<'b, M: Machine> {
    pub(crate) results: &'b mut [ResultOf<M>],
    /// The number of the batch, which distinguishes it from batches that returned an error.
    pub(crate) batch: u32,
    /// Operations without a result so far.
    pub(crate) running: usize,
}

impl<M: Machine> Sink<M> for BatchResults<'_, M> {
    #[inline]
    fn take(&mut self, waiter: Waiter, result: ResultOf<M>) -> bool {
        let Waiter::Batch { place, batch } = waiter else { return false };
        if batch != self.batch {
            return false;
        }
        put(self.results, place, result);
        self.running -= 1;
        true
    }
}

#[inline]
pub(crate) fn put<R>(results: &mut [R], place: usize, result: R) {
    match results.get_mut(place) {
        Some(place) => *place = result,
        None => debug_assert!(false, "the batch has no place {place}"),
    }
}
