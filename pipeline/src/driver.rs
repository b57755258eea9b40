//! The driver: starts operations, routes completions to them, and delivers their results.

use core::ops::Range;

use probeline_transport::{Completion, Fault, PostError, Transport};

use crate::error::{Error, Stop};
use crate::machine::{Completed, Run, Step};
use crate::operation::{List, NONE, Operation, State, Waiter};
use crate::pipeline::{POLL_BATCH, Pipeline};
use crate::port::{Port, TokenFields};
use crate::sink::{Polled, ResultOf, Sink};

/// Whether the transport had room for the posts of a machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Enough,
    Lacking,
}

// Everything accesses the pipeline's fields in place. A struct of references to them would go
// through memory, where storing halves and loading the whole stalls a core.
impl<T, S, X, M> Pipeline<T, S, X, M>
where
    T: Transport,
    S: AsMut<[Operation<M>]>,
    M: Run<X>,
{
    /// Checks that the storage has not become shorter.
    #[inline]
    pub(crate) fn check_storage(&mut self) -> Result<(), Error> {
        let found = self.operations.as_mut().len();
        if found < self.capacity as usize || self.is_broken {
            let found = u32::try_from(found).unwrap_or(u32::MAX);
            return Err(Error::Storage { found, expected: self.capacity });
        }
        Ok(())
    }

    /// Polls the transport once, handles the completions and returns their number. After a panic in the
    /// sink's code, handles the completions that it left instead of polling.
    #[inline]
    pub(crate) fn progress(&mut self, sink: &mut impl Sink<M>) -> Result<usize, Error> {
        self.check_storage()?;
        self.rounds = self.rounds.wrapping_add(1);
        let polled = match self.unhandled.is_empty() {
            true => self.transport.poll(&mut self.completions).map(|count| 0..count),
            false => Ok(core::mem::take(&mut self.unhandled)),
        };
        match polled {
            Ok(Range { start, end: count }) => {
                self.unhandled = start..count;
                for nth in start..count.min(POLL_BATCH) {
                    self.unhandled.start = nth + 1;
                    self.on_completion(self.completions[nth], sink);
                }
                self.unhandled = 0..0;
                self.serve_waiting(sink);
                self.serve_yielded(sink);
                Ok(count)
            }
            Err(fault) => {
                self.on_fault(fault, sink);
                Ok(0)
            }
        }
    }

    /// Starts the first free operation, whose machine was written.
    #[inline(always)]
    pub(crate) fn start(&mut self, index: u32, waiter: Waiter, sink: &mut impl Sink<M>) {
        let Some(operation) = self.operations.as_mut().get_mut(index as usize) else { return };
        self.lists.free.remove_first(operation);
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
        let Some(operation) = self.operations.as_mut().get_mut(index as usize) else {
            debug_assert!(false, "the storage has no operation {index}");
            return Room::Enough;
        };
        let fields = TokenFields { index, generation: operation.generation, post_id: 0 };
        let mut port = Port {
            transport: &mut self.transport,
            token: fields.pack().0,
            first_slot: index * M::SLOTS,
            slots: M::SLOTS,
            // An operation in a queue posts only when its turn comes.
            room: if operation.queued { 0 } else { room },
            posted: 0,
        };
        let next = match completed {
            None => operation.machine.advance(&mut self.shared, &mut port),
            Some(completed) => {
                operation.machine.on_completion(completed, &mut self.shared, &mut port)
            }
        };
        operation.in_flight += port.posted;
        let can_complete = operation.in_flight > 0 || operation.queued;
        match next {
            Ok(Step::Wait) if can_complete => {}
            Ok(Step::Wait) => self.fail(index, Error::Idle, sink),
            Ok(Step::Done(outcome)) => self.end(index, Ok(outcome), sink),
            Ok(Step::Yield) => {
                if !operation.queued {
                    operation.queued = true;
                    self.lists.yielded.push_back(self.operations.as_mut(), index);
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
        let operations = self.operations.as_mut();
        if let Some(operation) = operations.get_mut(index as usize)
            && !operation.queued
        {
            operation.queued = true;
            self.lists.waiting.push_back(operations, index);
        }
    }

    #[inline(always)]
    fn on_completion(&mut self, completion: Completion, sink: &mut impl Sink<M>) {
        let TokenFields { index, generation, post_id } = TokenFields::unpack(completion.token);
        let Some(operation) = self.operations.as_mut().get_mut(index as usize) else {
            // Otherwise the completion belongs to an earlier user of the transport.
            self.is_broken |= index < self.capacity;
            return;
        };
        if operation.generation != generation || operation.in_flight == 0 {
            return;
        }
        operation.in_flight -= 1;
        if !operation.is_running() {
            if operation.in_flight == 0 && !operation.queued {
                self.finish_drained(index);
            }
            return;
        }
        match completion.result {
            Ok(word) => {
                if self.step(index, Some(Completed { post_id, word }), sink) == Room::Lacking {
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
            let Some(index) = self.lists.waiting.pop(self.operations.as_mut()) else { return };
            if self.dequeue(index, sink) == Room::Lacking {
                let operations = self.operations.as_mut();
                if let Some(operation) = operations.get_mut(index as usize) {
                    operation.queued = true;
                }
                return self.lists.waiting.push_front(operations, index);
            }
        }
    }

    /// Advances each operation that yielded before this round.
    #[inline]
    fn serve_yielded(&mut self, sink: &mut impl Sink<M>) {
        let last = self.lists.yielded.last();
        while let Some(index) = self.lists.yielded.pop(self.operations.as_mut()) {
            if self.dequeue(index, sink) == Room::Lacking {
                self.wait(index);
            }
            if index == last {
                return;
            }
        }
    }

    /// Handles an operation that was removed from its list.
    #[inline(never)]
    fn dequeue(&mut self, index: u32, sink: &mut impl Sink<M>) -> Room {
        let Some(operation) = self.operations.as_mut().get_mut(index as usize) else {
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
        if let Some(operation) = self.operations.as_mut().get_mut(index as usize) {
            operation.machine.on_error(&mut self.shared);
        }
        self.end(index, Err(error), sink);
    }

    /// Delivers the result of an operation, or stores it until it is taken. One-sided operations of
    /// it may still be in flight.
    // Inlined so that the result stays in registers.
    #[inline(always)]
    fn end(&mut self, index: u32, result: ResultOf<M>, sink: &mut impl Sink<M>) {
        let operations = self.operations.as_mut();
        let Some(operation) = operations.get_mut(index as usize) else { return };
        // A queued operation is handled when its list is served.
        if operation.queued {
            operation.state = State::Done(result);
            return;
        }
        if operation.in_flight == 0 {
            self.lists.active -= 1;
        }
        let waiter = operation.waiter;
        match waiter {
            // Released before `take`, because the code of the batch may panic. A batch that has returned an error
            // receives no more results.
            Waiter::Abandoned | Waiter::Batch { .. } => {
                self.release(index);
                match self.operations.as_mut().get(index as usize) {
                    Some(operation) => _ = sink.take(waiter, result, &operation.machine),
                    None => self.is_broken = true,
                }
            }
            Waiter::Future => operation.state = State::Done(result),
            Waiter::Tag(_) if sink.take(waiter, result, &operation.machine) => self.release(index),
            Waiter::Tag(_) => {
                operation.state = State::Done(result);
                self.lists.ended.push_back(operations, index);
            }
        }
    }

    /// Delivers the results that are already available.
    #[inline]
    pub(crate) fn report(&mut self, sink: &mut Polled<'_, M::Outcome>) {
        while sink.count < sink.out.len()
            && let Some(index) = self.lists.ended.pop(self.operations.as_mut())
        {
            let Some(operation) = self.operations.as_mut().get(index as usize) else { return };
            if let State::Done(result) = operation.state {
                Sink::<M>::take(sink, operation.waiter, result, &operation.machine);
            } else {
                debug_assert!(false, "operation {index} is listed as ended and has not");
            }
            self.release(index);
        }
    }

    /// Releases the storage of an operation whose result was taken.
    #[inline(always)]
    pub(crate) fn release(&mut self, index: u32) {
        let operations = self.operations.as_mut();
        let Some(operation) = operations.get_mut(index as usize) else { return };
        self.lists.in_flight -= 1;
        if operation.in_flight > 0 {
            operation.state = State::Draining;
        } else {
            operation.state = State::Free;
            self.lists.free.push_front(operations, index);
        }
    }

    /// Handles the last completion of an operation that is already done.
    #[inline]
    fn finish_drained(&mut self, index: u32) {
        self.lists.active -= 1;
        let operations = self.operations.as_mut();
        if let Some(operation) = operations.get_mut(index as usize)
            && matches!(operation.state, State::Draining)
        {
            operation.state = State::Free;
            self.lists.free.push_front(operations, index);
        }
    }

    /// Fails all running operations: the transport is dead and has reported every completion.
    #[cold]
    pub(crate) fn on_fault(&mut self, fault: Fault, sink: &mut impl Sink<M>) {
        self.fault = Some(fault);
        self.lists.waiting = List::EMPTY;
        self.lists.yielded = List::EMPTY;
        for index in 0..u32::try_from(self.operations.as_mut().len()).unwrap_or(NONE) {
            let Some(operation) = self.operations.as_mut().get_mut(index as usize) else { return };
            let was_queued = core::mem::take(&mut operation.queued);
            let was_in_flight = core::mem::take(&mut operation.in_flight) > 0;
            match operation.state {
                State::Running => self.fail(index, Error::Fault(fault), sink),
                State::Done(result) if was_queued => self.end(index, result, sink),
                _ if was_in_flight => self.finish_drained(index),
                _ => {}
            }
        }
    }
}
