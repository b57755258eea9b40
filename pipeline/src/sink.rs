//! Where results go (polls, calls, batches), and where the operations of a batch come from.

use core::marker::PhantomData;

use crate::error::Error;
use crate::machine::Machine;
use crate::operation::{Finished, Waiter};

pub(crate) type ResultOf<M> = Result<<M as Machine>::Outcome, Error>;

/// The receiver of results that are delivered at once. Other results stay in their operations.
pub(crate) trait Sink<M: Machine> {
    /// Takes the result of an operation, whose machine is `ended`.
    fn take(&mut self, waiter: Waiter, result: ResultOf<M>, ended: &M) -> bool;
}

/// The results that one poll reports. Those without a place stay in their operations.
pub(crate) struct Polled<'o, O> {
    pub(crate) out: &'o mut [Finished<O>],
    pub(crate) count: usize,
}

impl<'o, O> Polled<'o, O> {
    #[inline]
    pub(crate) fn new(out: &'o mut [Finished<O>]) -> Self {
        Self { out, count: 0 }
    }
}

impl<M: Machine> Sink<M> for Polled<'_, M::Outcome> {
    #[inline]
    fn take(&mut self, waiter: Waiter, result: ResultOf<M>, _: &M) -> bool {
        let Waiter::Tag(tag) = waiter else { return false };
        let Some(place) = self.out.get_mut(self.count) else { return false };
        *place = Finished { tag, result };
        self.count += 1;
        true
    }
}

/// The source of a batch's operations, and the receiver of their results.
pub trait Batch<T, X, M: Machine> {
    /// Writes the next operation to `into`, which has the last machine of that storage: see
    /// [`Machine::replace_with`].
    fn pull(&mut self, parts: &mut Parts<'_, T, X>, into: &mut M) -> Pull;

    /// Looks at the machine of an operation that has ended, before [`take`](Self::take) receives its
    /// result.
    #[inline(always)]
    fn see_machine(&mut self, _place: usize, _ended: &M) {}

    /// Stores the result of the operation that [`pull`](Self::pull) started with this index.
    fn take(&mut self, place: usize, result: Result<M::Outcome, Error>);
}

/// The parts of the pipeline that a batch uses to find its next operation.
#[derive(Debug)]
pub struct Parts<'p, T, X> {
    /// The engine that operations post to.
    pub transport: &'p T,
    /// The context that all operations share.
    pub shared: &'p mut X,
    /// Whether the transport is dead: every operation that is started then fails.
    pub is_dead: bool,
}

/// The next action of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pull {
    /// Start the operation that was written; the batch takes its result with this index.
    Start(usize),
    /// Poll the transport, then pull again.
    Poll,
    /// No operation is left to start.
    End,
}

/// A call: a batch of one operation. It keeps the machine as it ended, if `KEEPS`.
pub(crate) struct Call<M: Machine, const KEEPS: bool> {
    pub(crate) machine: Option<M>,
    pub(crate) ended: Option<M>,
    pub(crate) result: ResultOf<M>,
}

impl<M: Machine, const KEEPS: bool> Call<M, KEEPS> {
    #[inline(always)]
    pub(crate) fn new(machine: M) -> Self {
        Self { machine: Some(machine), ended: None, result: Err(Error::Busy) }
    }
}

impl<T, X, M: Machine, const KEEPS: bool> Batch<T, X, M> for Call<M, KEEPS> {
    #[inline(always)]
    fn pull(&mut self, _: &mut Parts<'_, T, X>, into: &mut M) -> Pull {
        let Some(machine) = self.machine.take() else { return Pull::End };
        into.replace_with(machine);
        Pull::Start(0)
    }

    #[inline(always)]
    fn see_machine(&mut self, _: usize, ended: &M) {
        if KEEPS {
            self.ended = Some(*ended);
        }
    }

    #[inline(always)]
    fn take(&mut self, _: usize, result: ResultOf<M>) {
        self.result = result;
    }
}

/// A batch in progress, as the receiver of results.
pub(crate) struct Running<'b, B, T, X> {
    pub(crate) batch: &'b mut B,
    /// The number of the batch, which distinguishes it from batches that returned an error.
    pub(crate) number: u32,
    /// Operations without a result so far.
    pub(crate) count: usize,
    pub(crate) over: PhantomData<fn(T, X)>,
}

impl<T, X, M: Machine, B: Batch<T, X, M>> Sink<M> for Running<'_, B, T, X> {
    #[inline]
    fn take(&mut self, waiter: Waiter, result: ResultOf<M>, ended: &M) -> bool {
        let Waiter::Batch { place, batch } = waiter else { return false };
        if batch != self.number {
            return false;
        }
        self.batch.see_machine(place, ended);
        self.batch.take(place, result);
        self.count -= 1;
        true
    }
}
