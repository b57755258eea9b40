//! The engine: operations go to UCP when they are posted, and are reported when polled for.

use core::cell::Cell;
use core::fmt;
use core::mem::ManuallyDrop;
use core::sync::atomic::AtomicU64;
use std::rc::Rc;

use probeline_transport::{
    Caps, Completion, Fault, Geometry, Local, OpError, Owner, PostError, RemoteWord, Segment,
    SlotError, Token, Transport, WORD_BYTES,
};
use probeline_ucx_sys::{
    UCP_ATOMIC_OP_ADD, UCP_ATOMIC_OP_CSWAP, UCS_OK, Ucp, ucp_atomic_op_t, ucp_ep_h, ucp_rkey_h,
    ucs_status_ptr_t, ucs_status_t,
};

use super::Description;
use super::attendant::Attendant;
use super::control::CONTROL_WORDS;
use super::deadline::Deadline;
use super::desk::Desk;
use super::failed::op_error;
use super::lane::{Alarm, Lane};
use super::ledger::{Entry, Kind, Ledger};
use super::mapping::Mapping;
use super::memory::publish;
use super::own::{OWN, Stand};
use super::queue::{Done, Queue};
use super::slots::Slots;
use super::watch::Watch;
use super::worker::Worker;

/// Where every operation ends when it is posted, so many are reported without progress and without a
/// look at the others, which cost as much as the rest of a poll. A power of two.
const REPORTS_PER_TURN: u64 = 16;

/// What an engine is made of. Dropped in this order: keys before the workers, and what workers
/// and their callbacks use after them.
pub(super) struct Parts {
    /// By owner, this one's included.
    pub(super) lanes: Vec<Lane>,
    pub(super) attendant: Option<Attendant>,
    /// Progresses this owner's operations, and without an attendant the others' too.
    pub(super) worker: Worker,
    /// What the attendant progresses, for the others' operations.
    pub(super) _attended: Option<Worker>,
    pub(super) _alarms: Vec<Rc<Alarm>>,
    /// Some alarm has rung.
    pub(super) rung: Rc<Cell<bool>>,
    pub(super) desk: Desk,
    pub(super) slots: Slots,
    /// Control words, and behind them the window.
    pub(super) window: Mapping,
    pub(super) watch: Watch,
}

/// What a post needs of an owner's lane, in one place.
#[derive(Clone, Copy)]
struct Way {
    endpoint: ucp_ep_h,
    key: ucp_rkey_h,
    /// Of the first word of its window.
    window: u64,
}

impl Way {
    fn of(lane: &Lane) -> Self {
        Self { endpoint: lane.endpoint, key: lane.key.handle, window: lane.window() }
    }

    /// Where word `index` lies, which the caller has checked to be one of the window.
    #[inline]
    fn address(self, index: u64) -> u64 {
        self.window.wrapping_add(index.wrapping_mul(WORD_BYTES as u64))
    }
}

/// An open engine of one owner, for the thread that opened it.
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<probeline_ucx_shim::ucx::Engine>();
/// ```
///
/// Dropping it while peers still use theirs ends theirs with [`Fault::OwnerLost`]. Dropping waits
/// for at most one second in order to notify them, for half a second until the operations in flight
/// have ended, and then until UCX is closed. Operations that have not ended by then stay open at
/// UCX, with the memory that they use, until the process ends.
pub struct Engine {
    pub(super) caps: Caps,
    pub(super) geometry: Geometry,
    pub(super) description: Description,
    pub(super) ucp: Ucp,
    /// By owner, as the lanes.
    ways: Box<[Way]>,
    /// Taken only when the engine is dropped.
    pub(super) parts: ManuallyDrop<Parts>,
    /// What had ended when it was posted, and what had not: as many as the depth together.
    queue: Queue,
    ledger: Ledger,
    /// Operations that can be accepted now: none once there is a fault.
    room: u32,
    /// Something went on, or there is a fault.
    unsettled: bool,
    pub(super) own: [Stand; OWN as usize],
    /// Set by [`fail`](Self::fail) alone.
    pub(super) fault: Option<Fault>,
    /// When what is in flight has to have ended, once there is a fault.
    pub(super) closing: Option<Deadline>,
}

impl Engine {
    pub(super) fn new(
        caps: Caps,
        geometry: Geometry,
        description: Description,
        parts: Parts,
    ) -> Self {
        Self {
            caps,
            geometry,
            description,
            ucp: parts.worker.context.ucp,
            ways: parts.lanes.iter().map(Way::of).collect(),
            parts: ManuallyDrop::new(parts),
            queue: Queue::new(caps.depth),
            ledger: Ledger::new(caps.depth),
            room: caps.depth,
            unsettled: false,
            own: [Stand::Idle; OWN as usize],
            fault: None,
            closing: None,
        }
    }

    /// What this engine goes over, and who acts.
    #[must_use]
    pub fn describe(&self) -> &Description {
        &self.description
    }

    /// Refuses what cannot be accepted now or ever; `request` checks the request itself. The index
    /// of what is accepted.
    #[inline(always)]
    fn admit(&self, request: impl Fn(&Self) -> Result<(), PostError>) -> Result<u32, PostError> {
        if self.room == 0 {
            return Err(self.refusal(request(self)));
        }
        request(self)?;
        // There is one, as no more are entered than are in flight.
        Ok(self.ledger.next())
    }

    #[cold]
    fn refusal(&self, request: Result<(), PostError>) -> PostError {
        match (self.fault, request) {
            (Some(_), _) => PostError::Closed,
            (None, Err(error)) => error,
            (None, Ok(())) => PostError::Full,
        }
    }

    #[inline]
    fn way(&self, owner: Owner) -> Result<Way, PostError> {
        self.ways.get(owner.0 as usize).copied().ok_or(PostError::UnknownOwner)
    }

    /// Takes what the call of an operation has answered: mostly, over shared memory, its end.
    #[inline(always)]
    fn posted(
        &mut self,
        index: u32,
        answer: ucs_status_ptr_t,
        (token, owner): (Token, Owner),
        kind: Kind,
    ) {
        self.room -= 1;
        if !answer.is_null() {
            return self.went_on(index, answer, token, owner, kind);
        }
        let Some(value) = self.result(index, kind) else {
            return self.lose_result(token, owner, kind);
        };
        if let Kind::Write(_) = kind {
            publish();
        }
        if let Kind::Read(slot) | Kind::Write(slot) = kind {
            self.parts.slots.hold_until(slot, self.queue.pushed() + 1);
        }
        self.queue.push(Done { token, value });
    }

    /// The result of a successful operation; `None` if the result is missing.
    #[inline(always)]
    fn result(&self, index: u32, kind: Kind) -> Option<u64> {
        match kind {
            Kind::Read(_) | Kind::Write(_) => Some(0),
            Kind::Atomic => self.parts.desk.result(index),
        }
    }

    /// Handles an operation without a result, which should be impossible: the engine faults and
    /// completes the operation itself.
    #[cold]
    fn lose_result(&mut self, token: Token, owner: Owner, kind: Kind) {
        debug_assert!(false, "an operation has no word for its result");
        self.ledger.enter(Entry { token, owner, kind });
        self.fail(Fault::Operation { owner, error: OpError::NoResult });
    }

    /// Out of line, so that what ends at once stays short.
    #[inline(never)]
    fn went_on(
        &mut self,
        index: u32,
        answer: ucs_status_ptr_t,
        token: Token,
        owner: Owner,
        kind: Kind,
    ) {
        if let Kind::Read(slot) | Kind::Write(slot) = kind {
            self.parts.slots.hold(slot);
        }
        self.unsettled = true;
        let entered = self.ledger.enter(Entry { token, owner, kind });
        debug_assert_eq!(entered, Some(index), "there was room");
        self.parts.desk.go_on(index, answer);
    }

    #[inline(always)]
    fn atomic(
        &mut self,
        token: Token,
        at: RemoteWord,
        code: ucp_atomic_op_t,
        operand: u64,
        swap: u64,
    ) -> Result<(), PostError> {
        let index = self.admit(|this| this.geometry.check_word(at))?;
        let way = self.way(at.owner)?;
        let Way { endpoint, key, .. } = way;
        let (address, call) = (way.address(at.index), self.ucp.ucp_atomic_op_nbx);
        let answer = self.parts.desk.atomic(index, operand, swap, |operand, params| {
            // SAFETY: a live endpoint and a key unpacked for it; operand and result are the
            // desk's, which keeps them until the operation has ended or the worker is gone.
            unsafe { call(endpoint, code, operand, 1, address, key, params) }
        });
        self.posted(index, answer, (token, at.owner), Kind::Atomic);
        Ok(())
    }

    /// What the caller is told of an operation that has ended; `None` for those of the engine's
    /// own, and for late ones.
    #[inline]
    fn ended(&mut self, index: u32, status: ucs_status_t) -> Option<Completion> {
        if let Some(which) = index.checked_sub(self.caps.depth) {
            self.own_ended(which, status);
            return None;
        }
        let Entry { token, owner, kind } = self.ledger.strike(index)?;
        if let Kind::Read(slot) | Kind::Write(slot) = kind {
            self.parts.slots.release(slot);
        }
        if let Kind::Write(_) = kind {
            publish();
        }
        let result = match status {
            UCS_OK => self.result(index, kind).ok_or(OpError::NoResult),
            status => Err(op_error(status)),
        };
        if let Err(error) = result {
            self.operation_failed(owner, error);
        }
        Some(Completion { token, result })
    }

    /// An operation on the window of `owner` has failed.
    #[cold]
    fn operation_failed(&mut self, owner: Owner, error: OpError) {
        self.fail(match (self.first_lost(), error) {
            (Some(first), _) => Fault::OwnerLost(first),
            (None, OpError::RetryExceeded | OpError::Flushed) => Fault::OwnerLost(owner),
            (None, error) => Fault::Operation { owner, error },
        });
    }

    /// The engine is dead, if it was not yet.
    #[cold]
    pub(super) fn fail(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
        self.room = 0;
        self.unsettled = true;
    }

    /// Progresses, and looks after the others.
    #[inline(never)]
    fn turn(&mut self) {
        self.parts.worker.progress();
        self.watch();
    }

    /// Reports what had ended when it was posted, as far as there is room.
    #[inline(always)]
    fn report(&mut self, out: &mut [Completion]) -> u32 {
        let mut reported = 0;
        for place in out {
            let Some(&Done { token, value }) = self.queue.first() else { break };
            self.queue.pop();
            *place = Completion { token, result: Ok(value) };
            reported += 1;
        }
        reported
    }

    /// A poll of what did not end when it was posted, or of a dead engine. Out of line, as `went_on`.
    #[inline(never)]
    fn poll_on(&mut self, out: &mut [Completion]) -> Result<usize, Fault> {
        self.turn();
        let mut reported = self.report(out);
        reported += self.report_late(out.get_mut(reported as usize..).unwrap_or_default());
        if let Some(fault) = self.fault {
            return self.wind_up(fault, out, reported);
        }
        self.room += reported;
        self.unsettled = self.ledger.len() > 0;
        Ok(reported as usize)
    }

    /// Reports what went on and has ended since.
    fn report_late(&mut self, out: &mut [Completion]) -> u32 {
        let mut reported = 0;
        for place in out {
            let Some(ended) = self.next_ended() else { break };
            *place = ended;
            reported += 1;
        }
        reported
    }

    /// The end of one that went on.
    fn next_ended(&mut self) -> Option<Completion> {
        loop {
            let (index, status) = self.parts.desk.take()?;
            if let Some(ended) = self.ended(index, status) {
                return Some(ended);
            }
        }
    }

    /// Reports what UCX has not ended after a fault. It may still work on the slots, so they stay
    /// busy.
    #[cold]
    fn report_unheard(&mut self, out: &mut [Completion]) -> u32 {
        let mut reported = 0;
        for place in out {
            let Some(entry) = self.ledger.strike_any() else { break };
            *place = Completion { token: entry.token, result: Err(OpError::Flushed) };
            reported += 1;
        }
        reported
    }

    /// Ends a poll of a dead engine that has reported so many.
    #[cold]
    fn wind_up(
        &mut self,
        fault: Fault,
        out: &mut [Completion],
        mut reported: u32,
    ) -> Result<usize, Fault> {
        if self.is_overdue() {
            reported += self.report_unheard(out.get_mut(reported as usize..).unwrap_or_default());
        }
        if reported == 0 && self.in_flight() == 0 {
            return Err(fault);
        }
        Ok(reported as usize)
    }
}

impl Transport for Engine {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline]
    fn in_flight(&self) -> u32 {
        self.queue.len() + self.ledger.len()
    }

    #[inline(always)]
    fn read(&mut self, token: Token, from: Segment, into: Local) -> Result<(), PostError> {
        let index = self.admit(|this| this.geometry.check_copy(&this.caps, from, into))?;
        let way = self.way(from.start.owner)?;
        let (Way { endpoint, key, .. }, address) = (way, way.address(from.start.index));
        let landing = self.parts.slots.at(into).cast();
        let (call, bytes) = (self.ucp.ucp_get_nbx, from.words as usize * WORD_BYTES);
        let answer = self.parts.desk.copy(index, |params| {
            // SAFETY: a live endpoint and a key unpacked for it; so many bytes of a slot that is
            // busy until this ends, and lives until the worker is gone.
            unsafe { call(endpoint, landing, bytes, address, key, params) }
        });
        self.posted(index, answer, (token, from.start.owner), Kind::Read(into.slot));
        Ok(())
    }

    #[inline]
    fn write(&mut self, token: Token, from: Local, to: Segment) -> Result<(), PostError> {
        let index = self.admit(|this| this.geometry.check_copy(&this.caps, to, from))?;
        let way = self.way(to.start.owner)?;
        let (Way { endpoint, key, .. }, address) = (way, way.address(to.start.index));
        let staged = self.parts.slots.at(from).cast();
        let bytes = to.words as usize * WORD_BYTES;
        let (put, flush) = (self.ucp.ucp_put_nbx, self.ucp.ucp_ep_flush_nbx);
        // A put has ended when its slot can be used again; that it is there, a flush tells.
        let answer = self.parts.desk.copy_and_flush(
            index,
            // SAFETY: as in `read`.
            |params| unsafe { put(endpoint, staged, bytes, address, key, params) },
            // SAFETY: a live endpoint.
            |params| unsafe { flush(endpoint, params) },
        );
        self.posted(index, answer, (token, to.start.owner), Kind::Write(from.slot));
        Ok(())
    }

    #[inline(always)]
    fn compare_and_swap(
        &mut self,
        token: Token,
        at: RemoteWord,
        expected: u64,
        desired: u64,
    ) -> Result<(), PostError> {
        self.atomic(token, at, UCP_ATOMIC_OP_CSWAP, expected, desired)
    }

    #[inline(always)]
    fn fetch_add(&mut self, token: Token, at: RemoteWord, addend: u64) -> Result<(), PostError> {
        self.atomic(token, at, UCP_ATOMIC_OP_ADD, addend, 0)
    }

    /// Progresses once: UCP has no doorbell.
    #[inline]
    fn kick(&mut self) {
        self.parts.worker.progress();
    }

    // Part of the caller's loop: operations that end at once take as long as a few dozen instructions.
    #[inline(always)]
    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, Fault> {
        if self.unsettled || self.queue.is_empty() || out.is_empty() {
            return self.poll_on(out);
        }
        let before = self.queue.popped();
        let reported = self.report(out);
        self.room += reported;
        if self.queue.has_passed(before, REPORTS_PER_TURN) {
            self.turn();
        }
        Ok(reported as usize)
    }

    #[inline]
    fn landed(&self, at: Local) -> Result<&[u64], SlotError> {
        if !self.geometry.contains_local(at) {
            return Err(SlotError::OutOfRange);
        }
        self.parts.slots.landed(at, self.queue.popped())
    }

    #[inline]
    fn staged(&mut self, at: Local) -> Result<&mut [u64], SlotError> {
        if !self.geometry.contains_local(at) {
            return Err(SlotError::OutOfRange);
        }
        self.parts.slots.staged(at, self.queue.popped())
    }

    #[inline]
    fn window(&self) -> &[AtomicU64] {
        self.parts.window.words().get(CONTROL_WORDS..).unwrap_or_default()
    }

    /// This owner's own words. Those of others may be within reach of loads too, but what is
    /// compared are UCX's operations.
    #[inline]
    fn direct(&self, at: Segment) -> Option<&[AtomicU64]> {
        self.geometry.check_segment(at).ok()?;
        if at.start.owner != self.geometry.me {
            return None;
        }
        let start = usize::try_from(at.start.index).ok()?;
        self.window().get(start..)?.get(..at.words as usize)
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("geometry", &self.geometry)
            .field("description", &self.description)
            .field("in_flight", &self.in_flight())
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}
