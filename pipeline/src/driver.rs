//! The driver: starts operations, routes completions to them, and delivers their results.

use core::hash::{Hash, Hasher};

use probeline_transport::{Completion, Fault, PostError, Token, Transport};

use crate::error::{Error, OperationsError};
use crate::machine::{Completed, Machine, Run, Step, Stop};
use crate::operation::{Finished, List, NONE, Operation, State, Tag, Waiter};
use crate::port::{Port, TokenFields};

/// Completions taken from the transport in one poll. The array stays in cache; further completions
/// follow with the next poll.
const POLL_BATCH: usize = 16;

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
    transport: T,
    shared: X,
    operations: S,
    /// Operations that the storage held at first.
    capacity: u32,
    lists: Lists,
    fault: Option<Fault>,
    /// A call or a batch returned before its operations completed, because the storage was too
    /// short.
    has_orphans: bool,
    /// Number of polls of the transport; wraps.
    rounds: u32,
    completions: [Completion; POLL_BATCH],
    machine: core::marker::PhantomData<M>,
}

#[derive(Clone, Debug, Hash)]
struct Lists {
    /// Free operations, the one used last first.
    free: List,
    /// Operations that found the transport full, oldest first.
    waiting: List,
    /// Operations that continue in the next round.
    yielded: List,
    /// Submitted operations that are done and whose results were not reported.
    ended: List,
    /// Operations that a completion or a list can still change.
    active: u32,
    /// Operations that have started and whose results were not taken.
    in_flight: u32,
}

/// The parts of the pipeline that a batch uses to find the next operation to start.
#[derive(Debug)]
pub struct Batch<'b, T, X, M: Machine> {
    /// The transport.
    pub transport: &'b T,
    /// The context that all operations share.
    pub shared: &'b mut X,
    /// The results, for operations that complete without being started.
    pub results: &'b mut [Result<M::Outcome, M::Error>],
    /// Whether the transport is dead: every operation that is started then fails.
    pub is_dead: bool,
}

/// The next action of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pull {
    /// Start the operation that was written, and store its result at this index.
    Start(usize),
    /// Poll the transport, then pull again.
    Poll,
    /// No operation is left to start.
    End,
}

type ResultOf<M> = Result<<M as Machine>::Outcome, <M as Machine>::Error>;
type FinishedOf<M> = Finished<<M as Machine>::Outcome, <M as Machine>::Error>;

impl<T, S, X, M> Pipeline<T, S, X, M>
where
    T: Transport,
    S: AsMut<[Operation<M>]>,
    M: Run<X>,
{
    /// Creates a pipeline without operations in flight. Operations left in the storage are
    /// discarded.
    ///
    /// # Errors
    /// [`OperationsError`]: no storage, or more than the engine has slots for.
    pub fn new(transport: T, shared: X, mut operations: S) -> Result<Self, OperationsError> {
        let storage = operations.as_mut();
        let (found, most) = (storage.len(), Operation::<M>::most(transport.geometry()));
        let Some(capacity @ 1..) = u32::try_from(found).ok().filter(|count| *count <= most) else {
            return Err(OperationsError { found, most });
        };
        let mut free = List::EMPTY;
        for index in (0..capacity).rev() {
            if let Some(operation) = storage.get_mut(index as usize) {
                *operation = Operation::EMPTY;
            }
            free.push_front(storage, index);
        }
        let lists = Lists {
            free,
            waiting: List::EMPTY,
            yielded: List::EMPTY,
            ended: List::EMPTY,
            active: 0,
            in_flight: 0,
        };
        Ok(Self {
            transport,
            shared,
            operations,
            capacity,
            lists,
            fault: None,
            has_orphans: false,
            rounds: 0,
            completions: [Completion { token: Token(0), result: Ok(0) }; POLL_BATCH],
            machine: core::marker::PhantomData,
        })
    }

    /// Starts an operation whose result [`poll_into`](Self::poll_into) reports under `tag`.
    ///
    /// # Errors
    /// [`Error::Busy`] while all storage is in use.
    #[inline]
    pub fn submit(&mut self, tag: Tag, machine: M) -> Result<(), M::Error> {
        self.start(machine, Waiter::Tag(tag)).map(drop)
    }

    #[inline]
    fn start(&mut self, machine: M, waiter: Waiter) -> Result<u32, M::Error> {
        let (mut driver, ..) = self.driver()?;
        let index = driver.lists.free.pop(driver.operations).ok_or(Error::Busy)?;
        if let Some(operation) = driver.operations.get_mut(index as usize) {
            operation.machine = machine;
        }
        driver.start(index, waiter, &mut Keep);
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
    ) -> Result<&'o [FinishedOf<M>], M::Error> {
        let mut polled = Polled { out, count: 0 };
        self.driver()?.0.report(&mut polled);
        self.progress(&mut polled)?;
        let Polled { out, count } = polled;
        match self.fault {
            Some(fault) if count == 0 && self.lists.ended.is_empty() => {
                Err(Error::Fault(fault).into())
            }
            _ => Ok(out.get(..count).unwrap_or_default()),
        }
    }

    /// Runs one operation and blocks until it completes.
    ///
    /// # Errors
    /// [`Error::Busy`] if all storage holds unreported results; otherwise the error of the
    /// operation.
    #[inline]
    pub fn call(&mut self, machine: M) -> ResultOf<M> {
        // Wait for free storage, which may need a READ of a completed operation to land.
        while self.lists.free.is_empty() && self.lists.active > 0 {
            self.progress(&mut Keep)?;
        }
        let index = self.start(machine, Waiter::Call)?;
        self.await_result(index).unwrap_or_else(|error| {
            self.has_orphans = true;
            Err(error)
        })
    }

    #[inline]
    fn await_result(&mut self, index: u32) -> Result<ResultOf<M>, M::Error> {
        loop {
            if let Some(result) = self.take(index)? {
                return Ok(result);
            }
            self.progress(&mut Keep)?;
        }
    }

    /// Runs the operations that `pull` writes to the storage that it receives, as many at once as
    /// the storage allows. Stores each result at its index of `results`; `pull` may also store
    /// results itself.
    ///
    /// Operations submitted before continue. If their results hold all storage, operations of the
    /// batch fail with [`Error::Busy`].
    ///
    /// # Errors
    /// [`Error::Storage`], which leaves operations without a result.
    #[inline]
    pub fn run_batch(
        &mut self,
        results: &mut [ResultOf<M>],
        pull: impl FnMut(&mut Batch<'_, T, X, M>, &mut M) -> Pull,
    ) -> Result<(), M::Error> {
        let run = self.run_pulled(results, pull);
        self.has_orphans |= run.is_err();
        run
    }

    #[inline]
    fn run_pulled(
        &mut self,
        results: &mut [ResultOf<M>],
        mut pull: impl FnMut(&mut Batch<'_, T, X, M>, &mut M) -> Pull,
    ) -> Result<(), M::Error> {
        let mut running = 0_usize;
        loop {
            let more = loop {
                let is_dead = self.fault.is_some();
                let fault = self.fault;
                let (mut driver, ..) = self.driver()?;
                let Some(index) = driver.lists.free.pop(driver.operations) else {
                    if driver.lists.active > 0 {
                        break true;
                    }
                    // Only polls by the caller can free storage.
                    let Driver { transport, shared, .. } = driver;
                    let mut refused = M::IDLE;
                    let mut batch = Batch { transport, shared, results, is_dead };
                    match pull(&mut batch, &mut refused) {
                        Pull::Start(place) => put(results, place, Err(Error::Busy.into())),
                        other => break matches!(other, Pull::Poll),
                    }
                    continue;
                };
                let Some(operation) = driver.operations.get_mut(index as usize) else {
                    return Err(Error::Busy.into());
                };
                let mut batch =
                    Batch { transport: driver.transport, shared: driver.shared, results, is_dead };
                let pulled = pull(&mut batch, &mut operation.machine);
                match (pulled, fault) {
                    (Pull::Start(place), None) => {
                        running += 1;
                        let mut sink = BatchResults { results, running: &mut running };
                        driver.start(index, Waiter::Batch(place), &mut sink);
                    }
                    (Pull::Start(place), Some(fault)) => {
                        driver.lists.free.push_front(driver.operations, index);
                        M::on_error(driver.shared);
                        put(results, place, Err(Error::Fault(fault).into()));
                    }
                    (other, _) => {
                        driver.lists.free.push_front(driver.operations, index);
                        break matches!(other, Pull::Poll);
                    }
                }
            };
            if running == 0 && !more {
                return Ok(());
            }
            self.progress(&mut BatchResults { results, running: &mut running })?;
        }
    }

    /// Polls the transport once, for callers that wait for no operation.
    #[inline]
    pub fn make_progress(&mut self) -> Result<(), M::Error> {
        self.progress(&mut Keep)
    }

    /// Polls until no operation is in flight. Results of submitted operations remain to be
    /// reported.
    ///
    /// # Errors
    /// [`Error::Fault`] if the transport is dead; [`Error::Storage`].
    pub fn quiesce(&mut self) -> Result<(), M::Error> {
        while self.lists.active > 0 {
            self.progress(&mut Keep)?;
        }
        self.fault.map_or(Ok(()), |fault| Err(Error::Fault(fault).into()))
    }

    /// Polls the transport once and handles the completions.
    #[inline]
    fn progress(&mut self, sink: &mut impl Sink<M>) -> Result<(), M::Error> {
        self.rounds = self.rounds.wrapping_add(1);
        let (mut driver, completions, fault) = self.driver()?;
        match driver.transport.poll(completions) {
            Ok(count) => {
                for completion in completions.iter().take(count) {
                    driver.on_completion(completion, sink);
                }
                driver.serve_waiting(sink);
                driver.serve_yielded(sink);
            }
            Err(found) => {
                *fault = Some(found);
                driver.on_fault(found, sink);
            }
        }
        Ok(())
    }

    /// Returns the pipeline's parts after checking the length of the storage.
    #[inline]
    #[allow(clippy::type_complexity)]
    fn driver(
        &mut self,
    ) -> Result<(Driver<'_, T, X, M>, &mut [Completion; POLL_BATCH], &mut Option<Fault>), Error>
    {
        let operations = self.operations.as_mut();
        if operations.len() < self.capacity as usize {
            // Less than the capacity, which is a u32.
            #[allow(clippy::cast_possible_truncation)]
            let found = operations.len() as u32;
            return Err(Error::Storage { found, expected: self.capacity });
        }
        let Self { transport, shared, lists, completions, fault, .. } = self;
        let mut driver = Driver { transport, shared, operations, lists };
        if self.has_orphans {
            self.has_orphans = false;
            driver.abandon_orphans();
        }
        Ok((driver, completions, fault))
    }

    /// Takes the result of an operation that was started for a call or a future, and releases its
    /// storage.
    #[inline]
    pub(crate) fn take(&mut self, index: u32) -> Result<Option<ResultOf<M>>, M::Error> {
        let (mut driver, ..) = self.driver()?;
        match driver.operations.get(index as usize) {
            Some(Operation { state: State::Done(result), queued: false, .. }) => {
                let result = *result;
                driver.release(index);
                Ok(Some(result))
            }
            _ => Ok(None),
        }
    }

    /// Starts an operation for a future and returns its index or an error. Returns `None` if no
    /// storage is free now but an active operation will free some.
    pub(crate) fn start_for_future(&mut self, machine: M) -> Option<Result<u32, M::Error>> {
        let stuck = self.lists.active == 0;
        if self.lists.free.is_empty() && !stuck {
            return None;
        }
        Some(self.start(machine, Waiter::Future))
    }

    /// Abandons an operation whose future was dropped before it completed.
    pub(crate) fn abandon(&mut self, index: u32) {
        if !matches!(self.take(index), Ok(Some(_)))
            && let Some(operation) = self.operations.as_mut().get_mut(index as usize)
        {
            operation.waiter = Waiter::Abandoned;
        }
    }

    /// Returns the number of polls of the transport so far; wraps.
    pub(crate) fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Returns the number of operations that have started and whose result was not taken.
    #[inline]
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.lists.in_flight
    }

    /// Returns the fault of the transport, if it is dead.
    #[inline]
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }
}

impl<T, S, X, M: Machine> Pipeline<T, S, X, M> {
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

    /// Returns the transport and the shared context.
    #[inline]
    #[must_use]
    pub fn parts(&mut self) -> (&T, &mut X) {
        (&self.transport, &mut self.shared)
    }

    /// Replaces the shared context.
    #[must_use]
    pub fn map_shared<Y>(self, map: impl FnOnce(X) -> Y) -> Pipeline<T, S, Y, M> {
        Pipeline {
            transport: self.transport,
            shared: map(self.shared),
            operations: self.operations,
            capacity: self.capacity,
            lists: self.lists,
            fault: self.fault,
            has_orphans: self.has_orphans,
            rounds: self.rounds,
            completions: self.completions,
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
        self.fault.is_some().hash(hasher);
    }
}

/// The mutable parts of a pipeline while it runs.
struct Driver<'p, T, X, M: Machine> {
    transport: &'p mut T,
    shared: &'p mut X,
    operations: &'p mut [Operation<M>],
    lists: &'p mut Lists,
}

/// Whether the transport had room for the posts of a machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Enough,
    Lacking,
}

impl<T: Transport, X, M: Run<X>> Driver<'_, T, X, M> {
    /// Starts the operation whose machine was written to storage `index`, which is in no list.
    #[inline(always)]
    fn start(&mut self, index: u32, waiter: Waiter, sink: &mut impl Sink<M>) {
        let Some(operation) = self.operations.get_mut(index as usize) else { return };
        operation.waiter = waiter;
        operation.state = State::Running;
        operation.generation = operation.generation.wrapping_add(1);
        self.lists.active += 1;
        self.lists.in_flight += 1;
        // Queue behind the operations that wait for room: a steady stream of new operations would
        // starve them.
        if !self.lists.waiting.is_empty() || self.step(index, None, sink) == Room::Lacking {
            self.wait(index);
        }
    }

    /// Advances a running operation, with a completion of its own or without.
    #[inline(always)]
    fn step(&mut self, index: u32, completed: Option<Completed>, sink: &mut impl Sink<M>) -> Room {
        let depth = self.transport.caps().depth;
        let room = depth.saturating_sub(self.transport.in_flight());
        let Some(operation) = self.operations.get_mut(index as usize) else {
            debug_assert!(false, "the storage has no operation {index}");
            return Room::Enough;
        };
        let fields = TokenFields { index, generation: operation.generation, part: 0 };
        let mut port = Port {
            transport: &mut *self.transport,
            token: fields.pack().0,
            first_slot: index * M::SLOTS,
            // An operation in a queue posts only when its turn comes.
            room: if operation.queued { 0 } else { room },
            posted: 0,
        };
        let next = match completed {
            None => operation.machine.advance(self.shared, &mut port),
            Some(completed) => operation.machine.on_completion(completed, self.shared, &mut port),
        };
        operation.in_flight += port.posted;
        match next {
            Ok(Step::Wait) => {}
            Ok(Step::Done(outcome)) => self.end(index, Ok(outcome), sink),
            Ok(Step::Yield) => {
                if !operation.queued {
                    operation.queued = true;
                    self.lists.yielded.push_back(self.operations, index);
                }
            }
            Err(Stop::NoRoom) => return Room::Lacking,
            // The next poll returns the fault and fails the operation.
            Err(Stop::Failed(Error::Post(PostError::Closed))) => {}
            Err(Stop::Failed(error)) => self.fail(index, error, sink),
        }
        Room::Enough
    }

    /// Queues an operation for room in the transport.
    #[cold]
    fn wait(&mut self, index: u32) {
        if let Some(operation) = self.operations.get_mut(index as usize)
            && !operation.queued
        {
            operation.queued = true;
            self.lists.waiting.push_back(self.operations, index);
        }
    }

    #[inline]
    fn on_completion(&mut self, completion: &Completion, sink: &mut impl Sink<M>) {
        let TokenFields { index, generation, part } = TokenFields::unpack(completion.token);
        // The completion may belong to an earlier user of the transport.
        let Some(operation) = self.operations.get_mut(index as usize) else { return };
        if operation.generation != generation || operation.in_flight == 0 {
            return;
        }
        operation.in_flight -= 1;
        if !operation.is_running() {
            if operation.in_flight == 0 && !operation.queued {
                self.settle(index);
            }
            return;
        }
        match completion.result {
            Ok(word) => {
                if self.step(index, Some(Completed { part, word }), sink) == Room::Lacking {
                    self.wait(index);
                }
            }
            Err(error) => self.fail(index, Error::Failed(error), sink),
        }
    }

    /// Advances the operations that found the transport full, in order, while there is room.
    #[inline]
    fn serve_waiting(&mut self, sink: &mut impl Sink<M>) {
        while !self.lists.waiting.is_empty() {
            if self.transport.in_flight() >= self.transport.caps().depth {
                return;
            }
            let Some(index) = self.lists.waiting.pop(self.operations) else { return };
            if self.dequeue(index, sink) == Room::Lacking {
                if let Some(operation) = self.operations.get_mut(index as usize) {
                    operation.queued = true;
                }
                return self.lists.waiting.push_front(self.operations, index);
            }
        }
    }

    /// Advances each operation that yielded before this round.
    #[inline]
    fn serve_yielded(&mut self, sink: &mut impl Sink<M>) {
        let last = self.lists.yielded.last();
        while let Some(index) = self.lists.yielded.pop(self.operations) {
            if self.dequeue(index, sink) == Room::Lacking {
                self.wait(index);
            }
            if index == last {
                return;
            }
        }
    }

    /// Handles an operation that was removed from its list.
    #[inline]
    fn dequeue(&mut self, index: u32, sink: &mut impl Sink<M>) -> Room {
        let Some(operation) = self.operations.get_mut(index as usize) else {
            return Room::Enough;
        };
        operation.queued = false;
        match operation.state {
            State::Running => return self.step(index, None, sink),
            State::Done(result) => self.end(index, result, sink),
            State::Free | State::Draining => {}
        }
        Room::Enough
    }

    #[cold]
    fn fail(&mut self, index: u32, error: Error, sink: &mut impl Sink<M>) {
        M::on_error(self.shared);
        self.end(index, Err(error.into()), sink);
    }

    /// Stores and delivers the result of an operation. One-sided operations of it may still be in
    /// flight.
    #[inline]
    fn end(&mut self, index: u32, result: ResultOf<M>, sink: &mut impl Sink<M>) {
        let Some(operation) = self.operations.get_mut(index as usize) else { return };
        operation.state = State::Done(result);
        // A queued operation is handled when its list is served.
        if operation.queued {
            return;
        }
        if operation.in_flight == 0 {
            self.lists.active -= 1;
        }
        match operation.waiter {
            Waiter::Abandoned => self.release(index),
            waiter if sink.take(waiter, result) => self.release(index),
            Waiter::Tag(_) => self.lists.ended.push_back(self.operations, index),
            Waiter::Call | Waiter::Batch(_) | Waiter::Future => {}
        }
    }

    /// Delivers the results that are already available.
    #[inline]
    fn report(&mut self, sink: &mut impl Sink<M>) {
        while sink.has_room()
            && let Some(index) = self.lists.ended.pop(self.operations)
        {
            let Some(operation) = self.operations.get(index as usize) else { return };
            if let State::Done(result) = operation.state {
                sink.take(operation.waiter, result);
            } else {
                debug_assert!(false, "operation {index} is listed as ended and has not");
            }
            self.release(index);
        }
    }

    /// Releases the storage of an operation whose result was taken.
    #[inline]
    fn release(&mut self, index: u32) {
        let Some(operation) = self.operations.get_mut(index as usize) else { return };
        self.lists.in_flight -= 1;
        if operation.in_flight > 0 {
            operation.state = State::Draining;
        } else {
            operation.state = State::Free;
            self.lists.free.push_front(self.operations, index);
        }
    }

    /// Discards the results of operations that an interrupted call or batch left behind.
    #[cold]
    fn abandon_orphans(&mut self) {
        for index in 0..u32::try_from(self.operations.len()).unwrap_or(NONE) {
            let Some(operation) = self.operations.get_mut(index as usize) else { return };
            if !matches!(operation.waiter, Waiter::Call | Waiter::Batch(_)) {
                continue;
            }
            operation.waiter = Waiter::Abandoned;
            if matches!(operation.state, State::Done(_)) && !operation.queued {
                self.release(index);
            }
        }
    }

    /// Handles the last completion of an operation that is already done.
    #[inline]
    fn settle(&mut self, index: u32) {
        self.lists.active -= 1;
        if let Some(operation) = self.operations.get_mut(index as usize)
            && matches!(operation.state, State::Draining)
        {
            operation.state = State::Free;
            self.lists.free.push_front(self.operations, index);
        }
    }

    /// Fails all running operations: the transport is dead and has reported every completion.
    #[cold]
    fn on_fault(&mut self, fault: Fault, sink: &mut impl Sink<M>) {
        self.lists.waiting = List::EMPTY;
        self.lists.yielded = List::EMPTY;
        for index in 0..u32::try_from(self.operations.len()).unwrap_or(NONE) {
            let Some(operation) = self.operations.get_mut(index as usize) else { return };
            let was_queued = core::mem::take(&mut operation.queued);
            let was_in_flight = core::mem::take(&mut operation.in_flight) > 0;
            match operation.state {
                State::Running => self.fail(index, Error::Fault(fault), sink),
                State::Done(result) if was_queued => self.end(index, result, sink),
                _ if was_in_flight => self.settle(index),
                _ => {}
            }
        }
    }
}

/// The receiver of results that are delivered at once. Other results stay in their operations.
trait Sink<M: Machine> {
    fn take(&mut self, waiter: Waiter, result: ResultOf<M>) -> bool;

    fn has_room(&self) -> bool {
        false
    }
}

struct Keep;

impl<M: Machine> Sink<M> for Keep {
    #[inline]
    fn take(&mut self, _: Waiter, _: ResultOf<M>) -> bool {
        false
    }
}

/// The results that one poll reports.
struct Polled<'o, O, E> {
    out: &'o mut [Finished<O, E>],
    count: usize,
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

    #[inline]
    fn has_room(&self) -> bool {
        self.count < self.out.len()
    }
}

/// The results of a batch.
struct BatchResults<'b, M: Machine> {
    results: &'b mut [ResultOf<M>],
    /// Operations without a result so far.
    running: &'b mut usize,
}

#[inline]
fn put<R>(results: &mut [R], place: usize, result: R) {
    match results.get_mut(place) {
        Some(place) => *place = result,
        None => debug_assert!(false, "the batch has no place {place}"),
    }
}

impl<M: Machine> Sink<M> for BatchResults<'_, M> {
    #[inline]
    fn take(&mut self, waiter: Waiter, result: ResultOf<M>) -> bool {
        let Waiter::Batch(place) = waiter else { return false };
        put(self.results, place, result);
        *self.running -= 1;
        true
    }
}
