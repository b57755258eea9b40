//! The control words before every window, and the engine's own operations on them. These operations
//! connect owners, measure whether the owner's CPU is needed, and notify a shutdown.

use core::time::Duration;
use std::thread;

use probeline_engine::Deadline;
use probeline_transport::Owner;
use probeline_ucx_sys::{
    UCP_ATOMIC_OP_ADD, UCP_ATOMIC_OP_CSWAP, UCS_ERR_NO_RESOURCE, UCS_OK, ucs_status_t,
};

use super::Engine;
use super::request_pool::Call;

/// The control word to which every owner adds 1 when engines are opened, and which measurements
/// read.
pub(super) const SCRATCH: usize = 0;
/// The control word that names the owner that was lost first (see `lost_word`). An owner that shuts
/// down writes it to all others: its own number, or that of the lost owner because of which it
/// shuts down.
pub(super) const LOST: usize = 8;

/// The maximum number of control operations in flight, whose requests follow the caller's in the
/// pool. Measurements use two. If these never complete, two others notify the shutdown.
pub(super) const CONTROL_OPERATIONS: u32 = 4;

/// The time for which opening waits for the first operations on each owner's window, which connect
/// to it.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// The time for which an engine that shuts down tries to notify the others.
pub(super) const NOTIFY_TIMEOUT: Duration = Duration::from_secs(1);
/// The time that UCX has to complete the operations in flight after a fault or a shutdown.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// The state of a control operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ControlState {
    Unused,
    InFlight,
    Ended(ucs_status_t),
}

/// An operation on a control word.
#[derive(Clone, Copy, Debug)]
pub(super) enum ControlOperation {
    /// READ of [`SCRATCH`].
    Read,
    /// WRITE of `value` to the word `index`.
    Write { index: usize, value: u64 },
    /// Fetch-and-add of 1 on [`SCRATCH`].
    Add,
    /// Compare-and-swap of 0 by 0 on [`SCRATCH`], which changes nothing.
    CompareAndSwap,
}

impl Engine {
    /// Posts a control operation and returns its number; `None` if too many are in flight.
    pub(super) fn post_control(
        &mut self,
        owner: Owner,
        operation: ControlOperation,
    ) -> Option<usize> {
        let number = self.control.iter().position(|state| *state != ControlState::InFlight)?;
        let index = self.caps.depth + u32::try_from(number).ok()?;
        let pool = &self.parts.pool;
        let peer = self.parts.peers.get(owner.0 as usize)?;
        let word = pool.scratch(index)?;
        let (at, call) = match operation {
            ControlOperation::Read => (SCRATCH, Call::Get(word.as_ptr(), 1)),
            ControlOperation::Write { index, value } => {
                word.set(value);
                (index, Call::PutAndFlush(word.as_ptr(), 1))
            }
            ControlOperation::Add => {
                (SCRATCH, Call::Atomic { code: UCP_ATOMIC_OP_ADD, operand: 1, swap: 0 })
            }
            ControlOperation::CompareAndSwap => {
                (SCRATCH, Call::Atomic { code: UCP_ATOMIC_OP_CSWAP, operand: 0, swap: 0 })
            }
        };
        // SAFETY: `word` belongs to this operation, which is not in flight, until the operation has
        // ended; the address is that of a control word.
        let posted = unsafe { pool.post(&self.ucp, index, (peer, peer.control_word(at)), call) };
        let state = match posted {
            Ok(_) => ControlState::Ended(UCS_OK),
            Err(request) => {
                pool.track(index, request);
                ControlState::InFlight
            }
        };
        *self.control.get_mut(number)? = state;
        Some(number)
    }

    #[cold]
    pub(super) fn end_control(&mut self, number: u32, status: ucs_status_t) {
        if let Some(state) = self.control.get_mut(number as usize) {
            *state = ControlState::Ended(status);
        }
    }

    /// Progresses until control operation `number` has completed. Returns its status, or `None`
    /// after the deadline. Drops completions of the caller, who has none in flight or will not poll
    /// again.
    pub(super) fn await_control(
        &mut self,
        number: usize,
        deadline: Deadline,
    ) -> Option<ucs_status_t> {
        loop {
            self.progress_control();
            if let Some(ControlState::Ended(status)) = self.control.get(number) {
                return Some(*status);
            }
            if deadline.has_passed() {
                return None;
            }
            // The owner that this loop waits for may need this CPU.
            thread::yield_now();
        }
    }

    /// Posts a control operation and waits for its completion.
    pub(super) fn run_control(
        &mut self,
        owner: Owner,
        operation: ControlOperation,
        deadline: Deadline,
    ) -> Option<ucs_status_t> {
        match self.post_control(owner, operation) {
            Some(number) => self.await_control(number, deadline),
            None => Some(UCS_ERR_NO_RESOURCE),
        }
    }

    /// Progresses until no control operation is in flight; false after the deadline.
    pub(super) fn drain_control(&mut self, deadline: Deadline) -> bool {
        while self.control.contains(&ControlState::InFlight) {
            if deadline.has_passed() {
                return false;
            }
            self.progress_control();
        }
        true
    }

    pub(super) fn progress_control(&mut self) {
        self.parts.worker.progress();
        while let Some((index, status, _)) = self.parts.pool.take() {
            if let Some(number) = index.checked_sub(self.caps.depth) {
                self.end_control(number, status);
            }
        }
    }
}
