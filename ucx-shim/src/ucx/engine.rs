//! The engine: a post passes the operation to UCP, and a poll reports its completion.

use core::cell::Cell;
use core::fmt;
use core::mem::ManuallyDrop;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::fence;
use std::rc::Rc;

use probeline_engine::{
    Deadline, InFlightOrUntil, Kind, Ledger, Memory, Operation, Ring, Slots, own_words,
};
use probeline_transport::{
    Caps, Completion, Fault, Geometry, Local, OpError, Owner, PostError, RemoteWord, Request,
    Segment, SlotError, StableMemory, Token, Transport,
};
use probeline_ucx_sys::{
    UCP_ATOMIC_OP_ADD, UCP_ATOMIC_OP_CSWAP, UCS_OK, Ucp, ucs_status_ptr_t, ucs_status_t,
};

use super::Info;
use super::control::{CONTROL_OPERATIONS, ControlState};
use super::error::op_error;
use super::peer::{CONTROL_WORDS, EndpointState, Peer};
use super::request_pool::{Call, Posted, RequestPool};
use super::watch::Watch;
use super::window::{Mapping, Window};
use super::worker::{ProgressThread, Worker};

/// If all operations complete when they are posted, a poll progresses the worker and checks the
/// peers only after this number of completions: both cost as much as the rest of a poll. A power of
/// two.
const REPORTS_PER_PROGRESS: u64 = 16;

/// The objects of an engine. Dropped in this order: keys before the workers, and what workers and
/// their callbacks use after them.
pub(super) struct Parts {
    /// By owner, with this one.
    pub(super) peers: Vec<Peer>,
    /// Progresses `for_peers`.
    pub(super) progress_thread: Option<ProgressThread>,
    /// Progresses this owner's operations, and without `for_peers` those of its peers too.
    pub(super) worker: Worker,
    /// Progresses peers' operations.
    pub(super) for_peers: Option<Worker>,
    /// By owner, as `peers`.
    pub(super) endpoints: Rc<[EndpointState]>,
    /// An endpoint has failed.
    pub(super) any_failed: Rc<Cell<bool>>,
    pub(super) pool: RequestPool,
    pub(super) _registration: Mapping,
    pub(super) slots: Slots<Memory, InFlightOrUntil>,
    /// The control words and the window.
    pub(super) window: Window,
    pub(super) watch: Watch,
}

/// An operation that completed successfully when it was posted.
#[derive(Clone, Copy, Debug, Default)]
struct Ended {
    token: Token,
    /// The old value of an atomic, otherwise 0.
    value: u64,
}

/// An open engine of one owner, for the thread that opened it.
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<probeline_ucx_shim::ucx::Engine>();
/// ```
///
/// If an engine is dropped while peers still use theirs, those fail with [`Fault::OwnerLost`].
/// Dropping takes at most one second to notify the peers and half a second until the operations in
/// flight have completed, and then closes UCX. Operations that have not completed by then stay open
/// in UCX, with the memory that they use, until the process exits.
pub struct Engine {
    pub(super) caps: Caps,
    pub(super) geometry: Geometry,
    pub(super) info: Info,
    pub(super) ucp: Ucp,
    /// Taken only when the engine is dropped.
    pub(super) parts: ManuallyDrop<Parts>,
    /// All endpoints are connected, so that UCX can close them.
    pub(super) connected: bool,
    /// Puts are stores of this CPU, which have arrived when they complete.
    pub(super) stores_words: bool,
    /// Operations that completed when they were posted.
    ended: Ring<Ended>,
    /// Operations that did not. Both together have at most the depth.
    in_flight: Ledger,
    /// The number of operations that can be accepted; 0 after a fault.
    room: u32,
    /// A poll must progress the worker: an operation is in flight, or there is a fault.
    must_progress: bool,
    pub(super) control: [ControlState; CONTROL_OPERATIONS as usize],
    /// Set only by [`fail`](Self::fail).
    pub(super) fault: Option<Fault>,
    /// The time by which operations in flight must have completed after a fault.
    pub(super) drained_by: Option<Deadline>,
}

impl Engine {
    pub(super) fn new(caps: Caps, geometry: Geometry, info: Info, parts: Parts) -> Self {
        Self {
            caps,
            geometry,
            info,
            ucp: parts.worker.context.ucp,
            parts: ManuallyDrop::new(parts),
            connected: false,
            stores_words: false,
            ended: Ring::new(caps.depth),
            in_flight: Ledger::new(caps.depth),
            room: caps.depth,
            must_progress: false,
            control: [ControlState::Unused; CONTROL_OPERATIONS as usize],
            fault: None,
            drained_by: None,
        }
    }

    /// Returns the transports, devices and options of this engine.
    #[must_use]
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// The index of the next operation, unless `request` cannot be accepted now or ever.
    #[inline(always)]
    fn admit(&self, request: &Request) -> Result<u32, PostError> {
        if self.room == 0 {
            return Err(self.refusal(self.geometry.check(&self.caps, request)));
        }
        self.geometry.check(&self.caps, request)?;
        Ok(self.in_flight.next())
    }

    /// Posts a request, whose kind the caller knows.
    #[inline(always)]
    fn start(&mut self, token: Token, request: Request) -> Result<(), PostError> {
        let index = self.admit(&request)?;
        let Segment { start: RemoteWord { owner, index: word }, words } = request.remote();
        let peer = self.parts.peers.get(owner.0 as usize).ok_or(PostError::UnknownOwner)?;
        let Parts { slots, pool, .. } = &*self.parts;
        let words = words as usize;
        let call = match request {
            Request::Read { into, .. } => Call::Get(slots.address(into), words),
            Request::Write { from, .. } if self.stores_words => {
                Call::Put(slots.address(from), words)
            }
            Request::Write { from, .. } => Call::PutAndFlush(slots.address(from), words),
            Request::CompareAndSwap { expected, desired, .. } => {
                Call::Atomic { code: UCP_ATOMIC_OP_CSWAP, operand: expected, swap: desired }
            }
            Request::FetchAdd { addend, .. } => {
                Call::Atomic { code: UCP_ATOMIC_OP_ADD, operand: addend, swap: 0 }
            }
        };
        // SAFETY: the ledger's next index is of no operation in flight. Checked ranges; the slot
        // stays busy until the operation has ended, and lives until the worker is destroyed.
        let posted = unsafe { pool.post(&self.ucp, index, (peer, peer.word(word)), call) };
        self.posted(index, posted, Operation::new(token, &request));
        Ok(())
    }

    #[cold]
    fn refusal(&self, check: Result<(), PostError>) -> PostError {
        match (self.fault, check) {
            (Some(_), _) => PostError::Closed,
            (None, Err(error)) => error,
            (None, Ok(())) => PostError::Full,
        }
    }

    /// Processes the result of a post. Most operations over shared memory have completed.
    #[inline(always)]
    fn posted(&mut self, index: u32, posted: Posted, operation: Operation) {
        self.room -= 1;
        let value = match posted {
            Ok(value) => value,
            Err(request) => return self.enter_in_flight(index, request, operation),
        };
        if let Kind::Write(_) = operation.kind {
            publish();
        }
        if let Some(slot) = operation.kind.slot() {
            self.parts.slots.hold_until(slot, self.ended.pushed() + 1);
        }
        self.ended.push(Ended { token: operation.token, value });
    }

    /// Adds an operation that is in flight. Not inlined, so that the path of operations that
    /// complete immediately stays short.
    #[inline(never)]
    fn enter_in_flight(&mut self, index: u32, request: ucs_status_ptr_t, operation: Operation) {
        if let Some(slot) = operation.kind.slot() {
            self.parts.slots.hold(slot);
        }
        self.must_progress = true;
        let inserted = self.in_flight.insert(operation);
        debug_assert_eq!(inserted, Some(index), "there was room");
        self.parts.pool.track(index, request);
    }

    /// The completion of the operation in flight `index`; `None` for control operations, and for
    /// operations that were reported after [`Engine::is_overdue`].
    #[inline]
    fn completion(
        &mut self,
        (index, status, value): (u32, ucs_status_t, u64),
    ) -> Option<Completion> {
        if let Some(number) = index.checked_sub(self.caps.depth) {
            self.end_control(number, status);
            return None;
        }
        let Operation { token, owner, kind } = self.in_flight.remove(index)?;
        if let Some(slot) = kind.slot() {
            self.parts.slots.release(slot);
        }
        if let Kind::Write(_) = kind {
            publish();
        }
        let result = match (status, kind) {
            (UCS_OK, Kind::Atomic) => Ok(value),
            (UCS_OK, Kind::Read(_) | Kind::Write(_)) => Ok(0),
            (status, _) => Err(op_error(status)),
        };
        if let Err(error) = result {
            self.operation_failed(owner, error);
        }
        Some(Completion { token, result })
    }

    #[cold]
    fn operation_failed(&mut self, owner: Owner, error: OpError) {
        self.fail(match (self.first_lost(), error) {
            (Some(first), _) => Fault::OwnerLost(first),
            (None, OpError::RetryExceeded | OpError::Flushed) => Fault::OwnerLost(owner),
            (None, error) => Fault::Operation { owner, error },
        });
    }

    /// Sets the engine's fault, unless it already has one.
    #[cold]
    pub(super) fn fail(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
        self.room = 0;
        self.must_progress = true;
    }

    /// Progresses the worker and checks the peers.
    #[inline(never)]
    fn progress(&mut self) {
        self.parts.worker.progress();
        self.check_peers();
    }

    /// Reports operations that completed when they were posted.
    #[inline(always)]
    fn report_ended(&mut self, out: &mut [Completion]) -> u32 {
        let mut reported = 0;
        for place in out {
            let Some(&Ended { token, value }) = self.ended.first() else { break };
            self.ended.pop();
            *place = Completion { token, result: Ok(value) };
            reported += 1;
        }
        reported
    }

    /// A poll while operations are in flight or after a fault. Not inlined, as `enter_in_flight`.
    #[inline(never)]
    fn poll_in_flight(&mut self, out: &mut [Completion]) -> Result<usize, Fault> {
        self.progress();
        let mut reported = self.report_ended(out);
        reported += fill(rest(out, reported), || self.next_completion());
        let Some(fault) = self.fault else {
            self.room += reported;
            self.must_progress = !self.in_flight.is_empty();
            return Ok(reported as usize);
        };
        if self.is_overdue() {
            // UCX may still use the slots, so they stay busy.
            reported += fill(rest(out, reported), || {
                let token = self.in_flight.remove_any()?.token;
                Some(Completion { token, result: Err(OpError::Flushed) })
            });
        }
        if reported == 0 && self.in_flight() == 0 {
            return Err(fault);
        }
        Ok(reported as usize)
    }

    /// Returns the completion of the next operation in flight that has completed.
    fn next_completion(&mut self) -> Option<Completion> {
        loop {
            let completed = self.parts.pool.take()?;
            if let Some(completion) = self.completion(completed) {
                return Some(completion);
            }
        }
    }
}

/// Returns the part of `out` after the first `used` places.
fn rest(out: &mut [Completion], used: u32) -> &mut [Completion] {
    out.get_mut(used as usize..).unwrap_or_default()
}

/// Fills `out` while `next` returns completions; returns their number.
fn fill(out: &mut [Completion], mut next: impl FnMut() -> Option<Completion>) -> u32 {
    let mut filled = 0;
    for place in out {
        let Some(completion) = next() else { break };
        *place = completion;
        filled += 1;
    }
    filled
}

/// Orders a WRITE that UCX executed as stores of this CPU before all later loads.
#[inline]
fn publish() {
    fence(SeqCst);
}

// SAFETY: slots and window are allocations and mappings outside the engine, freed after it is
// dropped. UCX gets addresses; references are made to the words of `landed` and `staged`, and to
// the window's atomics.
unsafe impl StableMemory for Engine {}

impl Transport for Engine {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline]
    fn in_flight(&self) -> u32 {
        self.ended.len() + self.in_flight.len()
    }

    /// Each kind of request has code of its own, also if the caller is not compiled with this.
    #[inline(always)]
    fn post(&mut self, token: Token, request: Request) -> Result<(), PostError> {
        match request {
            Request::Read { from, into } => self.start(token, Request::Read { from, into }),
            Request::Write { from, to } => self.start(token, Request::Write { from, to }),
            Request::CompareAndSwap { at, expected, desired } => {
                self.start(token, Request::CompareAndSwap { at, expected, desired })
            }
            Request::FetchAdd { at, addend } => self.start(token, Request::FetchAdd { at, addend }),
        }
    }

    /// Progresses the worker once: UCP has no doorbell.
    #[inline]
    fn kick(&mut self) {
        self.parts.worker.progress();
    }

    // Inlined into the caller's loop: an operation that completes immediately takes a few dozen
    // instructions.
    #[inline(always)]
    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, Fault> {
        if self.must_progress || self.ended.is_empty() || out.is_empty() {
            return self.poll_in_flight(out);
        }
        let before = self.ended.popped();
        let reported = self.report_ended(out);
        self.room += reported;
        // Whether the count has passed a multiple of the power of two.
        if before ^ self.ended.popped() >= REPORTS_PER_PROGRESS {
            self.progress();
        }
        Ok(reported as usize)
    }

    #[inline]
    fn landed(&self, at: Local) -> Result<&[u64], SlotError> {
        self.parts.slots.landed(at, self.ended.popped())
    }

    #[inline]
    fn staged(&mut self, at: Local) -> Result<&mut [u64], SlotError> {
        self.parts.slots.staged(at, self.ended.popped())
    }

    #[inline]
    fn window(&self) -> &[AtomicU64] {
        self.parts.window.words().get(CONTROL_WORDS..).unwrap_or_default()
    }

    /// Returns this owner's words only. Even if peers' words could be loaded too, operations on
    /// them use UCX, because this transport exists to compare UCX.
    #[inline]
    fn direct(&self, at: Segment) -> Option<&[AtomicU64]> {
        own_words(&self.geometry, self.window(), at)
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("geometry", &self.geometry)
            .field("info", &self.info)
            .field("in_flight", &self.in_flight())
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}
