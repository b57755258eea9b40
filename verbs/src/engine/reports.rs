//! The ends of operations: what the device tells, and what it never will.

use probeline_transport::{Completion, Fault, OpError, Owner};

use super::deadline::now;
use super::lane::BATCH;
use super::ledger::Kind;
use super::{ASKING, Engine};
use crate::Status;

impl Engine {
    /// Moves what the device has told into `out`, and says how much, and whether that is all.
    #[inline]
    pub(super) fn reap(&mut self, out: &mut [Completion]) -> (usize, bool) {
        if self.ledger.len() == 0 {
            return (0, self.reap_own());
        }
        let mut reported = 0;
        while reported < out.len() && !self.silent {
            let room = (out.len() - reported).min(BATCH);
            let found = self.look(room);
            for place in 0..found {
                // At most as many as there is room for.
                let (Some(end), Some(free)) = (self.ends.get(place), out.get_mut(reported)) else {
                    self.broken("more completions than there was room for");
                    return (reported, false);
                };
                if let Some(ended) = self.ended(end.id(), end.result()) {
                    *free = ended;
                    reported += 1;
                }
            }
            if found < room {
                return (reported, true);
            }
        }
        (reported, false)
    }

    /// With nothing of the caller's in flight only an asking can have ended; whether none has.
    #[inline]
    fn reap_own(&mut self) -> bool {
        if self.asking.is_none() || self.silent || self.look(1) == 0 {
            return true;
        }
        if let Some(end) = self.ends.first() {
            let (id, result) = (end.id(), end.result());
            self.ended(id, result);
        }
        false
    }

    /// Looks for so many completions at most, and says how many there are.
    #[inline]
    fn look(&mut self, room: usize) -> usize {
        let ends = self.ends.get_mut(..room).unwrap_or_default();
        match self.parts.completions.poll(ends) {
            Ok(found) => found,
            Err(failed) => {
                self.fall_silent(Fault::System { errno: failed.errno });
                0
            }
        }
    }

    /// What a completion tells the caller; `None` for those of the engine's own requests.
    #[inline]
    fn ended(&mut self, id: u64, result: Result<(), Status>) -> Option<Completion> {
        let result = result.map_err(op_error);
        let Ok(index) = u32::try_from(id) else {
            self.own_ended(id, result);
            return None;
        };
        let Some(entry) = self.ledger.strike(index) else {
            // The device has reported a request twice, or one that was never posted: its other
            // reports may be wrong too.
            self.fall_silent(Fault::System { errno: libc::EBADMSG });
            return None;
        };
        let value = match entry.kind {
            Kind::Copy(slot) => {
                self.parts.private.release(slot);
                Ok(0)
            }
            Kind::Atomic => self.parts.private.landed_result(index).ok_or(OpError::NoResult),
        };
        let result = result.and(value);
        if let Err(error) = result {
            self.fail(entry.owner, error);
        }
        Some(Completion { token: entry.token, result })
    }

    #[cold]
    fn own_ended(&mut self, id: u64, result: Result<(), OpError>) {
        if id != ASKING {
            return;
        }
        self.asking = None;
        self.pace.answered(now());
        if let Err(error) = result {
            self.fail(Owner(self.turn), error);
        }
    }

    /// The device tells nothing any more. Whatever is in flight is reported by the engine itself;
    /// the device may still use the slots, so they stay busy.
    #[cold]
    pub(super) fn fall_silent(&mut self, fault: Fault) {
        self.silent = true;
        self.fault.get_or_insert(fault);
    }

    /// Operations that the device will never report.
    #[cold]
    pub(super) fn report_unheard(&mut self, out: &mut [Completion]) -> usize {
        let mut reported = 0;
        for place in out {
            let Some(ended) = self.refused_one().or_else(|| self.unheard_one()) else { break };
            *place = ended;
            reported += 1;
        }
        reported
    }

    /// An operation that the device did not take: its slot is free.
    fn refused_one(&mut self) -> Option<Completion> {
        let index = self.refused.pop()?;
        let entry = self.ledger.strike(index)?;
        if let Kind::Copy(slot) = entry.kind {
            self.parts.private.release(slot);
        }
        Some(Completion { token: entry.token, result: Err(self.refusal) })
    }

    /// An operation whose end is not told any more.
    fn unheard_one(&mut self) -> Option<Completion> {
        let entry = self.silent.then(|| self.ledger.strike_any())??;
        Some(Completion { token: entry.token, result: Err(OpError::Flushed) })
    }
}

/// A status as the contract names it.
#[cold]
fn op_error(status: Status) -> OpError {
    match status {
        Status::RemoteAccess => OpError::RemoteAccess,
        Status::RetryExceeded => OpError::RetryExceeded,
        Status::Flushed => OpError::Flushed,
        status => OpError::Device { code: status.code() },
    }
}
