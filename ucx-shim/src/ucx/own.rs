//! Operations of the engine's own, on control words: they connect, find out who acts, and part.

use std::thread;

use probeline_transport::Owner;
use probeline_ucx_sys::{
    UCP_ATOMIC_OP_ADD, UCP_ATOMIC_OP_CSWAP, UCS_ERR_NO_RESOURCE, UCS_OK, ucs_status_t,
};

use super::Engine;
use super::control::SCRATCH;
use super::deadline::Deadline;

/// Operations of the engine's own at once, behind the caller's at the desk. Two are under way where
/// it is tried who acts; should ends of theirs never come, two more tell the others of that.
pub(super) const OWN: u32 = 4;

/// Where an operation of the engine's own stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    Idle,
    Open,
    Ended(ucs_status_t),
}

/// What the engine does to a control word.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Read,
    Write {
        index: usize,
        value: u64,
    },
    Add(u64),
    /// Of 0 by 0: changes nothing.
    CompareAndSwap,
}

impl Engine {
    /// Posts an operation of the engine's own; which one it is, if one is free.
    pub(super) fn post_own(&mut self, owner: Owner, act: Act) -> Option<usize> {
        let which = self.own.iter().position(|stand| *stand != Stand::Open)?;
        let index = self.caps.depth + u32::try_from(which).ok()?;
        let lane = self.parts.lanes.get(owner.0 as usize)?;
        let (endpoint, key) = (lane.endpoint, lane.key.handle);
        let (ucp, desk) = (&self.ucp, &self.parts.desk);
        let scratch = desk.scratch(index)?.as_ptr();
        *self.own.get_mut(which)? = Stand::Open;
        // What makes the calls below sound: a live endpoint and a key unpacked for it; the word is of
        // this operation's own, which was not open; the address is of a control word.
        let answer = match act {
            Act::Read => desk.copy(index, |params| {
                // SAFETY: as said above.
                unsafe {
                    (ucp.ucp_get_nbx)(
                        endpoint,
                        scratch.cast(),
                        8,
                        lane.control(SCRATCH),
                        key,
                        params,
                    )
                }
            }),
            Act::Write { index: word, value } => {
                // SAFETY: as said above.
                unsafe { scratch.write(value) };
                let put = |params| {
                    let to = lane.control(word);
                    // SAFETY: as said above.
                    unsafe { (ucp.ucp_put_nbx)(endpoint, scratch.cast(), 8, to, key, params) }
                };
                // SAFETY: a live endpoint.
                let flush = |params| unsafe { (ucp.ucp_ep_flush_nbx)(endpoint, params) };
                desk.copy_and_flush(index, put, flush)
            }
            Act::Add(_) | Act::CompareAndSwap => {
                let (code, operand) = match act {
                    Act::Add(addend) => (UCP_ATOMIC_OP_ADD, addend),
                    _ => (UCP_ATOMIC_OP_CSWAP, 0),
                };
                let at = lane.control(SCRATCH);
                desk.atomic(index, operand, 0, |operand, params| {
                    // SAFETY: as said above.
                    unsafe { (ucp.ucp_atomic_op_nbx)(endpoint, code, operand, 1, at, key, params) }
                })
            }
        };
        if answer.is_null() {
            *self.own.get_mut(which)? = Stand::Ended(UCS_OK);
        } else {
            desk.go_on(index, answer);
        }
        Some(which)
    }

    /// Takes the end of an operation of the engine's own.
    #[cold]
    pub(super) fn own_ended(&mut self, which: u32, status: ucs_status_t) {
        if let Some(stand) = self.own.get_mut(which as usize) {
            *stand = Stand::Ended(status);
        }
    }

    /// Progresses until `which` has ended or the deadline has passed; its status, if it has ended.
    /// For when the caller has nothing in flight, or will never hear of it.
    pub(super) fn await_own(&mut self, which: usize, deadline: Deadline) -> Option<ucs_status_t> {
        loop {
            self.advance();
            if let Some(Stand::Ended(status)) = self.own.get(which) {
                return Some(*status);
            }
            if deadline.has_passed() {
                return None;
            }
            // Whom it waits for may want this CPU.
            thread::yield_now();
        }
    }

    /// Does one operation of the engine's own: its status, if it ended in time.
    pub(super) fn do_own(
        &mut self,
        owner: Owner,
        act: Act,
        deadline: Deadline,
    ) -> Option<ucs_status_t> {
        let Some(which) = self.post_own(owner, act) else { return Some(UCS_ERR_NO_RESOURCE) };
        self.await_own(which, deadline)
    }

    /// Progresses, and takes ends of the engine's own operations.
    pub(super) fn advance(&mut self) {
        self.parts.worker.progress();
        while let Some((index, status)) = self.parts.desk.take() {
            if let Some(which) = index.checked_sub(self.caps.depth) {
                self.own_ended(which, status);
            }
        }
    }

    /// Progresses until none of the engine's own operations is open; whether that was in time.
    pub(super) fn settle_own(&mut self, deadline: Deadline) -> bool {
        while self.own.contains(&Stand::Open) {
            if deadline.has_passed() {
                return false;
            }
            self.advance();
        }
        true
    }
}

/// Whether a status is of a good end.
pub(super) fn is_good(status: ucs_status_t) -> bool {
    status == UCS_OK
}
