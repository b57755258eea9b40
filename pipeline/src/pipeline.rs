//! The pipeline: operations in flight, started with tags, by blocking calls, in batches or by
//! futures.

use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use core::ops::Range;

use probeline_transport::{Completion, Fault, Transport};

use crate::error::{ConfigError, Error};
use crate::machine::{Machine, Run};
use crate::operation::{Finished, Lists, Operation, State, Tag, Waiter};
use crate::sink::{Batch, Call, Parts, Polled, Pull, ResultOf, Running};

/// Completions taken from the transport in one poll. The array stays in cache; further completions
/// follow with the next poll.
pub(crate) const POLL_BATCH: usize = 16;

/// Polls of the transport in one poll of a future, as long as each brings [`POLL_BATCH`]
/// completions.
const FULL_POLLS: u32 = 4;

/// Runs operations of machine `M` over the engine `T`, in the storage `S`, with a shared context
/// `X`.
///
/// It uses the engine's slots from 0 on, [`Machine::SLOTS`] for each operation. Every blocking call
/// returns, because every one-sided operation that a transport accepts completes.
///
/// A model checker clones and hashes it to explore its behaviour: the hash covers everything that
/// determines it.
#[derive(Clone, Debug)]
pub struct Pipeline<T, S, X, M: Machine> {
    pub(crate) transport: T,
    pub(crate) shared: X,
    pub(crate) operations: S,
    /// Operations that the storage held at first.
    pub(crate) capacity: u32,
    /// Whether a completion was lost because the storage became shorter during a poll.
    pub(crate) is_broken: bool,
    pub(crate) lists: Lists,
    pub(crate) fault: Option<Fault>,
    /// Number of calls and batches; wraps.
    batches: u32,
    /// Number of polls of the transport; wraps.
    pub(crate) rounds: u32,
    /// The number of the job's collective call in which all owners agreed on the structure; 0
    /// before.
    pub(crate) opened: u64,
    pub(crate) completions: [Completion; POLL_BATCH],
    /// The range of `completions` that were polled and are not handled yet.
    pub(crate) unhandled: Range<usize>,
    machine: PhantomData<M>,
}

type FinishedOf<M> = Finished<<M as Machine>::Outcome>;

impl<T, S, X, M> Pipeline<T, S, X, M>
where
    T: Transport,
    S: AsMut<[Operation<M>]>,
    M: Run<X>,
{
    /// Creates a pipeline without operations in flight. Operations left in the storage are
    /// discarded. First [drains](Transport::drain) the engine: an earlier pipeline that was dropped may have left
    /// operations in flight.
    ///
    /// # Errors
    /// [`ConfigError::Operations`]: no storage, or more than the engine has slots for.
    pub fn new(mut transport: T, shared: X, mut operations: S) -> Result<Self, ConfigError> {
        let storage = operations.as_mut();
        let capacity = Operation::<M>::check(storage.len(), transport.geometry())?;
        storage.fill_with(|| Operation::EMPTY);
        transport.drain();
        let mut lists = Lists::EMPTY;
        for index in (0..capacity).rev() {
            lists.free.push_front(storage, index);
        }
        Ok(Self {
            transport,
            shared,
            operations,
            capacity,
            is_broken: false,
            lists,
            fault: None,
            batches: 0,
            rounds: 0,
            opened: 0,
            completions: [Completion::default(); POLL_BATCH],
            unhandled: 0..0,
            machine: PhantomData,
        })
    }

    /// Starts an operation whose result [`poll_into`](Self::poll_into) reports under `tag`.
    ///
    /// # Errors
    /// [`Error::Busy`] while all storage is in use; [`Error::Fault`] once the transport is known to
    /// be dead; [`Error::Storage`].
    // Inlined so that the machine is written where it is stored: a copy of it would wait for all
    // earlier stores.
    #[inline(always)]
    pub fn submit(&mut self, tag: Tag, machine: M) -> Result<(), Error> {
        self.start_kept(machine, Waiter::Tag(tag)).map(drop)
    }

    /// Starts an operation whose result stays in its storage, and returns its index.
    #[inline(always)]
    pub(crate) fn start_kept(&mut self, machine: M, waiter: Waiter) -> Result<u32, Error> {
        self.check_storage()?;
        if let Some(fault) = self.fault {
            return Err(Error::Fault(fault));
        }
        let operations = self.operations.as_mut();
        let index = self.lists.free.first();
        let operation = operations.get_mut(index as usize).ok_or(Error::Busy)?;
        operation.machine.replace_with(machine);
        self.start(index, waiter, &mut Polled::new(&mut []));
        Ok(index)
    }

    /// Polls the transport once and moves the results of submitted operations into `out`. Returns
    /// the filled part of `out`. Never blocks.
    ///
    /// # Errors
    /// [`Error::Fault`] if the transport is dead and every result was reported; [`Error::Storage`].
    #[inline]
    pub fn poll_into<'o>(
        &mut self,
        out: &'o mut [FinishedOf<M>],
    ) -> Result<&'o [FinishedOf<M>], Error> {
        self.check_storage()?;
        let mut polled = Polled::new(out);
        self.report(&mut polled);
        self.progress(&mut polled)?;
        let Polled { out, count } = polled;
        match self.fault {
            Some(fault) if count == 0 && self.lists.ended.is_empty() => Err(Error::Fault(fault)),
            _ => Ok(out.get(..count).unwrap_or_default()),
        }
    }

    /// Runs one operation and blocks until it completes.
    ///
    /// # Errors
    /// [`Error::Busy`] if all storage holds unreported results; otherwise the error of the
    /// operation.
    #[inline(always)]
    pub fn call(&mut self, machine: M) -> ResultOf<M> {
        let mut call = Call::<M, false>::new(machine);
        self.run_batch(&mut call)?;
        call.result
    }

    /// Calls as [`call`](Self::call), and returns the machine as it ended.
    ///
    /// # Errors
    /// As for [`call`](Self::call).
    pub fn call_machine(&mut self, machine: M) -> Result<(M::Outcome, M), Error> {
        let mut call = Call::<M, true>::new(machine);
        self.run_batch(&mut call)?;
        let ended = call.ended;
        debug_assert!(ended.is_some(), "an operation has an outcome, and its machine was not seen");
        Ok((call.result?, ended.unwrap_or(M::IDLE)))
    }

    /// Runs the operations that `batch` writes to the storage that it receives, as many at once as
    /// the storage allows, and passes it their results.
    ///
    /// Operations submitted before continue. If their results hold all storage, operations of the
    /// batch fail with [`Error::Busy`].
    ///
    /// # Errors
    /// [`Error::Storage`], which leaves operations without a result.
    #[inline]
    pub fn run_batch<B: Batch<T, X, M>>(&mut self, batch: &mut B) -> Result<(), Error> {
        self.batches = self.batches.wrapping_add(1);
        let mut running = Running { batch, number: self.batches, count: 0, over: PhantomData };
        loop {
            self.check_storage()?;
            let has_more = self.start_pulled(&mut running);
            if running.count == 0 && !has_more {
                return Ok(());
            }
            self.progress(&mut running)?;
        }
    }

    /// Starts operations of a batch while there is storage. Returns whether the batch may have more
    /// after a poll.
    #[inline(always)]
    fn start_pulled<B: Batch<T, X, M>>(&mut self, running: &mut Running<'_, B, T, X>) -> bool {
        loop {
            let index = self.lists.free.first();
            let (transport, shared) = (&self.transport, &mut self.shared);
            let (pull, is_refused) =
                match (self.operations.as_mut().get_mut(index as usize), self.fault) {
                    (Some(operation), None) => {
                        let mut parts = Parts { transport, shared, is_dead: false };
                        (running.batch.pull(&mut parts, &mut operation.machine), false)
                    }
                    (Some(_), Some(fault)) => {
                        (self.refuse_pulled(running, Error::Fault(fault)), true)
                    }
                    (None, _) if self.lists.active > 0 => return true,
                    // Only polls by the caller can free storage.
                    (None, _) => (self.refuse_pulled(running, Error::Busy), true),
                };
            match pull {
                Pull::Start(place) if !is_refused => {
                    running.count += 1;
                    let waiter = Waiter::Batch { place, batch: running.number };
                    self.start(index, waiter, running);
                }
                Pull::Start(_) => {}
                Pull::Poll => return true,
                Pull::End => return false,
            }
        }
    }

    /// Fails the next operation of a batch.
    #[cold]
    fn refuse_pulled<B: Batch<T, X, M>>(
        &mut self,
        running: &mut Running<'_, B, T, X>,
        error: Error,
    ) -> Pull {
        let is_dead = self.fault.is_some();
        let mut parts = Parts { transport: &self.transport, shared: &mut self.shared, is_dead };
        let pull = running.batch.pull(&mut parts, &mut { M::IDLE });
        if let Pull::Start(place) = pull {
            let error = if error == Error::Busy { error } else { self.refuse(error) };
            running.batch.take(place, Err(error));
        }
        pull
    }

    /// Counts an operation that fails before it starts, and returns the error.
    #[cold]
    pub(crate) fn refuse(&mut self, error: Error) -> Error {
        let mut unused = M::IDLE;
        unused.on_error(&mut self.shared);
        error
    }

    /// Polls the transport once, for callers that wait for no operation.
    #[inline]
    pub fn make_progress(&mut self) -> Result<(), Error> {
        self.progress(&mut Polled::new(&mut [])).map(drop)
    }

    /// Polls until no operation is in flight. Results of submitted operations remain to be
    /// reported.
    ///
    /// # Errors
    /// [`Error::Fault`] if the transport is dead; [`Error::Storage`].
    pub fn quiesce(&mut self) -> Result<(), Error> {
        while self.lists.active > 0 {
            self.progress(&mut Polled::new(&mut []))?;
        }
        self.fault.map_or(Ok(()), |fault| Err(Error::Fault(fault)))
    }

    /// Polls the transport until it has no more completions now, at most [`FULL_POLLS`] times: a
    /// round of an executor can then take all available results.
    pub(crate) fn progress_all(&mut self) -> Result<(), Error> {
        for _ in 0..FULL_POLLS {
            if self.progress(&mut Polled::new(&mut []))? < POLL_BATCH {
                break;
            }
        }
        Ok(())
    }

    /// Returns whether no storage is free now but active operations or other futures will free some.
    #[inline]
    pub(crate) fn is_full(&mut self) -> bool {
        self.lists.free.is_empty() && (self.lists.active > 0 || self.keeps_results_of_futures())
    }

    /// Returns whether a future is done whose task did not take its result yet.
    #[cold]
    fn keeps_results_of_futures(&mut self) -> bool {
        let is_kept = |operation: &Operation<M>| {
            matches!((operation.state, operation.waiter), (State::Done(_), Waiter::Future))
        };
        self.operations.as_mut().iter().any(is_kept)
    }

    /// Starts an operation for a future and returns its index.
    #[inline(always)]
    pub(crate) fn start_for_future(&mut self, machine: M) -> Result<u32, Error> {
        self.start_kept(machine, Waiter::Future)
    }

    /// Takes the result of an operation that was started for a future, and releases its storage.
    #[inline(always)]
    pub(crate) fn take(&mut self, index: u32) -> Result<Option<ResultOf<M>>, Error> {
        self.check_storage()?;
        match self.operations.as_mut().get(index as usize) {
            Some(Operation { state: State::Done(result), queued: false, .. }) => {
                let result = *result;
                self.release(index);
                Ok(Some(result))
            }
            _ => Ok(None),
        }
    }

    /// Abandons an operation whose future was dropped before it completed.
    pub(crate) fn abandon(&mut self, index: u32) {
        if !matches!(self.take(index), Ok(Some(_)))
            && let Some(operation) = self.operations.as_mut().get_mut(index as usize)
        {
            operation.waiter = Waiter::Abandoned;
        }
    }

    /// Returns the number of operations that have started and whose result was not taken.
    #[inline]
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.lists.in_flight
    }

    /// Returns whether an operation is free, so that the next `submit` is not refused for lack of
    /// storage.
    #[inline]
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.lists.free.is_empty()
    }

    /// Returns the fault of the transport, if it is dead.
    #[inline]
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }
}

impl<T, S, X, M: Machine> Pipeline<T, S, X, M> {
    /// Returns the number of the engine's slots that the operations use, from slot 0 on.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.capacity.saturating_mul(M::SLOTS)
    }

    /// Returns the transport, for reading.
    #[inline]
    #[must_use]
    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// Returns the transport, for posts of the caller while no operation is in flight here
    /// ([`quiesce`](Self::quiesce)). They must have completed before the pipeline is used again.
    #[inline]
    #[must_use]
    pub fn transport_mut(&mut self) -> &mut T {
        &mut self.transport
    }

    /// Returns the transport. Operations in flight are discarded.
    #[must_use]
    pub fn into_transport(self) -> T {
        self.transport
    }

    /// Returns the shared context.
    #[inline]
    #[must_use]
    pub fn shared(&self) -> &X {
        &self.shared
    }

    /// Returns the shared context, for changes.
    #[inline]
    #[must_use]
    pub fn shared_mut(&mut self) -> &mut X {
        &mut self.shared
    }

    /// Returns the transport, for reading, and the shared context.
    #[inline]
    #[must_use]
    pub fn parts(&mut self) -> (&T, &mut X) {
        (&self.transport, &mut self.shared)
    }

    /// Returns the transport, as [`transport_mut`](Self::transport_mut) does, and the shared context.
    #[inline]
    #[must_use]
    pub fn parts_mut(&mut self) -> (&mut T, &X) {
        (&mut self.transport, &self.shared)
    }

    /// Replaces the shared context.
    #[must_use]
    pub fn map_shared<Y>(self, map: impl FnOnce(X) -> Y) -> Pipeline<T, S, Y, M> {
        Pipeline {
            transport: self.transport,
            shared: map(self.shared),
            operations: self.operations,
            capacity: self.capacity,
            is_broken: self.is_broken,
            lists: self.lists,
            fault: self.fault,
            batches: self.batches,
            rounds: self.rounds,
            opened: self.opened,
            completions: self.completions,
            unhandled: self.unhandled,
            machine: self.machine,
        }
    }
}

impl<T: Hash, S: Hash, X: Hash, M: Machine> Hash for Pipeline<T, S, X, M> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.transport.hash(hasher);
        self.shared.hash(hasher);
        self.operations.hash(hasher);
        self.lists.hash(hasher);
        (self.fault.is_some(), self.is_broken).hash(hasher);
    }
}
