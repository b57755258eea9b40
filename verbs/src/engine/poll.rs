//! Completions: those of the device, and those that the engine creates itself after the device has
//! stopped reporting.

use core::ops::Range;

use probeline_transport::engine::{Kind, monotonic_now};
use probeline_transport::{Completion, Fault, OpError, Owner};

use super::connection::{BATCH, Connection};
use super::{Engine, KEEPALIVE_WR_ID};
use crate::Status;

impl Engine {
    /// Moves completions of the device into `out`. Returns their number, and whether the completion
    /// queue is empty.
    #[inline]
    pub(super) fn poll_device(&mut self, out: &mut [Completion]) -> (usize, bool) {
        if self.ledger.is_empty() {
            return (0, self.poll_keepalive());
        }
        let mut reported = 0;
        while reported < out.len() && !self.device_silent {
            let room = (out.len() - reported).min(BATCH);
            let found = self.poll_queue(room);
            reported += self.complete(found, out.get_mut(reported..).unwrap_or_default());
            if found < room {
                return (reported, true);
            }
        }
        (reported, false)
    }

    /// Fills `out` with the completions of the caller among the first `found` ones of the device.
    /// Returns their number. `out` has room for all.
    #[inline]
    fn complete(&mut self, found: usize, out: &mut [Completion]) -> usize {
        let (mut taken, mut reported) = (0, 0);
        loop {
            let room = out.get_mut(reported..).unwrap_or_default();
            let succeeded = self.complete_successes(taken..found, room);
            (taken, reported) = (taken + succeeded, reported + succeeded);
            if taken >= found {
                return reported;
            }
            let (Some(end), Some(place)) = (self.polled.get(taken), out.get_mut(reported)) else {
                self.broken("more completions than there was room for");
                return reported;
            };
            let (id, result) = (end.id(), end.result());
            if let Some(completion) = self.completion(id, result) {
                *place = completion;
                reported += 1;
            }
            taken += 1;
        }
    }

    /// Fills `out` with the completions in a range of [`polled`](Engine::polled), up to the first
    /// one that is an error or has no operation in the ledger. Returns their number.
    // Not inlined, because the loop uses all registers.
    #[inline(never)]
    fn complete_successes(&mut self, range: Range<usize>, out: &mut [Completion]) -> usize {
        let (results, mut slots) = self.parts.private.completing();
        let ends = self.polled.get(range).unwrap_or_default().iter().zip(out);
        let successes =
            ends.map_while(|(end, place)| end.result().ok().map(|()| (end.id(), place)));
        let succeeded = self.ledger.remove_while(successes, |operation, place| {
            place.token = operation.token();
            place.result = Ok(0);
            match operation.kind {
                Kind::Read(slot) | Kind::Write(slot) => slots.release(slot),
                Kind::Atomic => {
                    let Some(value) = results.take(operation.index) else { return false };
                    place.result = Ok(value);
                    true
                }
            }
        });
        succeeded as usize
    }

    /// Polls while no operation of the caller is in flight, so that only a keepalive can complete.
    /// Returns whether none has.
    #[inline]
    fn poll_keepalive(&mut self) -> bool {
        if !self.keepalive.is_in_flight() || self.device_silent || self.poll_queue(1) == 0 {
            return true;
        }
        if let Some(end) = self.polled.first() {
            let (id, result) = (end.id(), end.result());
            self.completion(id, result);
        }
        false
    }

    /// Polls for at most `room` completions and returns their number.
    #[inline]
    fn poll_queue(&mut self, room: usize) -> usize {
        let places = self.polled.get_mut(..room).unwrap_or_default();
        match self.parts.completions.poll(places) {
            Ok(found) => found,
            Err(failed) => {
                self.give_up_device(Fault::System { errno: failed.errno });
                0
            }
        }
    }

    /// Returns the caller's completion of the work request `id`; `None` for the engine's own
    /// requests.
    #[cold]
    fn completion(&mut self, id: u64, result: Result<(), Status>) -> Option<Completion> {
        let result = result.map_err(op_error);
        let Ok(index) = u32::try_from(id) else {
            self.own_completion(id, result);
            return None;
        };
        let Some(operation) = self.ledger.remove(index) else {
            // The device has reported a request twice, or one that was never posted: its other
            // reports may be wrong too.
            self.give_up_device(Fault::System { errno: libc::EBADMSG });
            return None;
        };
        let value = match operation.kind {
            Kind::Read(slot) | Kind::Write(slot) => {
                self.parts.private.slots.release(slot);
                Ok(0)
            }
            Kind::Atomic => self.parts.private.completing().0.take(index).ok_or(OpError::NoResult),
        };
        let result = result.and(value);
        if let Err(error) = result {
            self.fail(operation.owner, error);
        }
        Some(Completion { token: operation.token, result })
    }

    #[cold]
    fn own_completion(&mut self, id: u64, result: Result<(), OpError>) {
        if id != KEEPALIVE_WR_ID {
            return;
        }
        let owner = self.keepalive.completed(monotonic_now());
        if let Err(error) = result {
            self.fail(owner, error);
        }
    }

    /// Completes the operations that the device will never report.
    #[cold]
    pub(super) fn report_lost(&mut self, out: &mut [Completion]) -> usize {
        let mut reported = 0;
        for place in out {
            let lost = self.not_posted_completion().or_else(|| self.flushed_completion());
            let Some(completion) = lost else { break };
            *place = completion;
            reported += 1;
        }
        reported
    }

    /// Returns the completion of an operation that the device did not take, whose slot is idle.
    fn not_posted_completion(&mut self) -> Option<Completion> {
        let operation = self.ledger.remove(self.not_posted.pop()?)?;
        if let Some(slot) = operation.kind.slot() {
            self.parts.private.slots.release(slot);
        }
        Some(Completion { token: operation.token, result: Err(self.post_error) })
    }

    /// Returns the completion of an operation after the device has gone silent. The device may
    /// still use its slot, which stays busy.
    fn flushed_completion(&mut self) -> Option<Completion> {
        let operation = self.device_silent.then(|| self.ledger.remove_any())??;
        Some(Completion { token: operation.token, result: Err(OpError::Flushed) })
    }

    /// Records that an operation on the window of `owner` has failed: the engine is dead.
    #[cold]
    pub(super) fn fail(&mut self, owner: Owner, error: OpError) {
        if let Some(connection) = self.parts.connections.get_mut(owner.0 as usize) {
            connection.dead = true;
        }
        self.set_fault(match error {
            OpError::RetryExceeded => Fault::OwnerLost(owner),
            error => Fault::Operation { owner, error },
        });
    }

    /// Sets the engine's fault, unless it already has one, and refuses posts from now on.
    #[cold]
    pub(super) fn set_fault(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
        self.parts.connections.iter_mut().for_each(Connection::close);
    }

    /// Handles an impossible state, in which the operations in flight are no longer known. The
    /// engine faults and completes all of them itself.
    #[cold]
    pub(super) fn broken(&mut self, what: &'static str) {
        debug_assert!(false, "{what}");
        self.give_up_device(Fault::System { errno: libc::ENOTRECOVERABLE });
    }

    /// Stops polling the device. The engine completes the operations in flight itself.
    #[cold]
    pub(super) fn give_up_device(&mut self, fault: Fault) {
        self.device_silent = true;
        self.set_fault(fault);
    }
}

/// Returns the contract's name for a status.
#[cold]
fn op_error(status: Status) -> OpError {
    match status {
        Status::REMOTE_ACCESS => OpError::RemoteAccess,
        Status::RETRY_EXCEEDED => OpError::RetryExceeded,
        Status::FLUSHED => OpError::Flushed,
        status => OpError::Device { code: status.code() },
    }
}
