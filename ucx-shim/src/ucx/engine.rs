//! The engine: a post passes the operation to UCP, and a poll reports its completion.

use core::fmt;
use core::mem::ManuallyDrop;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::fence;
use core::time::Duration;

use probeline_transport::engine::{
    Deadline, InFlightOrUntil, Kind, Ledger, Memory, Operation, Ring, Slots, own_words,
};
use probeline_transport::{
    Caps, Completion, Fault, Geometry, OpError, Owner, PostError, RemoteWord, Request, Segment,
    SlotRange, StableMemory, Token, Transport,
};
use probeline_ucx_sys::{
    UCP_ATOMIC_OP_ADD, UCP_ATOMIC_OP_CSWAP, UCS_OK, Ucp, ucs_status_ptr_t, ucs_status_t,
};

use super::Info;
use super::error::op_error;
use super::request_pool::{Call, Posted, RequestPool};
use super::window::{Mapping, Window};
use super::worker::{Peer, ProgressThread, Worker};

/// If all operations complete when they are posted, a poll progresses the worker only after this
/// number of completions: that costs as much as the rest of a poll. A power of two.
const REPORTS_PER_PROGRESS: u64 = 16;

/// The engine ends if an operation is in flight for the whole of such a period, hence within twice that time.
const WAIT_PERIOD: Duration = Duration::from_secs(30);
/// The time is read only at every such poll while operations are in flight, in which UCX makes system
/// calls: on some machines reading the time is one.
const POLLS_PER_CHECK: u32 = 1024;
/// The time that UCX has to complete the operations in flight after a fault or a shutdown.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// The objects of an engine. Dropped in this order: keys before the workers, and what workers and
/// their callbacks use after them.
pub(super) struct Parts {
    /// The peers by owner, including this owner.
    pub(super) peers: Vec<Peer>,
    /// Progresses `for_peers`.
    pub(super) progress_thread: Option<ProgressThread>,
    /// Progresses this owner's operations, and without `for_peers` those of its peers too.
    pub(super) worker: Worker,
    /// Progresses peers' operations.
    pub(super) for_peers: Option<Worker>,
    pub(super) pool: RequestPool,
    pub(super) _registration: Mapping,
    pub(super) slots: Slots<Memory, InFlightOrUntil>,
    pub(super) window: Window,
}

/// Finds operations that have been in flight for too long.
struct Waits {
    period: Duration,
    end: Deadline,
    /// Whether the last operation of each index was posted before the present period.
    old: Box<[bool]>,
    /// Polls since the time was read.
    polls: u32,
}

impl Waits {
    fn new(depth: u32, period: Duration) -> Self {
        let old = vec![false; depth as usize].into();
        Self { period, end: Deadline::after(period), old, polls: 0 }
    }

    fn begin(&mut self, index: u32) {
        if let Some(old) = self.old.get_mut(index as usize) {
            *old = false;
        }
    }

    /// Counts a poll. Returns whether the period has ended, so that operations must be checked.
    fn count_poll(&mut self) -> bool {
        self.polls = (self.polls + 1) % POLLS_PER_CHECK;
        self.polls == 0 && self.end.has_passed()
    }

    /// Starts the next period.
    fn begin_period(&mut self) {
        self.old.fill(true);
        self.end = Deadline::after(self.period);
    }
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
/// An operation that has been in flight for 30 to 60 s ends the engine with [`Fault::Operation`], which names
/// its owner. Dropping takes at most half a second until the operations in flight have completed, and
/// then closes UCX. Operations that have not completed by then stay open in UCX, with the memory that
/// they use, until the process exits.
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
    waits: Waits,
    /// Set only by [`fail`](Self::fail).
    fault: Option<Fault>,
    /// The time by which operations in flight must have completed after a fault.
    drained_by: Option<Deadline>,
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
            waits: Waits::new(caps.depth, WAIT_PERIOD),
            fault: None,
            drained_by: None,
        }
    }

    /// Returns the transports, devices and options of this engine.
    #[must_use]
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Returns the index of the next operation, unless `request` cannot be accepted now or ever.
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
        self.waits.begin(index);
        self.parts.pool.track(index, request);
    }

    /// Returns the completion of the operation in flight `index`; `None` if it was reported after
    /// [`Engine::is_drained`].
    #[inline]
    fn completion(
        &mut self,
        (index, status, value): (u32, ucs_status_t, u64),
    ) -> Option<Completion> {
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
        self.fail(Fault::Operation { owner, error });
    }

    /// Sets the engine's fault, unless it already has one.
    #[cold]
    fn fail(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
        self.room = 0;
        self.must_progress = true;
    }

    /// Fails if an operation was in flight for the whole period.
    #[cold]
    fn check_waits(&mut self) {
        let mut old = (0..).zip(&self.waits.old).filter(|(_, old)| **old);
        let overdue = old.find_map(|(index, _)| self.in_flight.get(index));
        if let Some(Operation { owner, .. }) = overdue {
            self.fail(Fault::Operation { owner, error: OpError::RetryExceeded });
        }
        self.waits.begin_period();
    }

    /// Returns whether UCX had time to complete the operations in flight; called after a fault.
    #[cold]
    fn is_drained(&mut self) -> bool {
        let new = || Deadline::after(DRAIN_TIMEOUT);
        self.drained_by.get_or_insert_with(new).has_passed()
    }

    /// Reports operations that completed when they were posted.
    #[inline(always)]
    fn report_ended(&mut self, out: &mut [Completion]) -> u32 {
        fill(out, 0, || {
            let Ended { token, value } = *self.ended.first()?;
            self.ended.pop();
            Some(Completion { token, result: Ok(value) })
        })
    }

    /// Polls while operations are in flight or after a fault. Not inlined, as `enter_in_flight`.
    #[inline(never)]
    fn poll_in_flight(&mut self, out: &mut [Completion]) -> Result<usize, Fault> {
        self.parts.worker.calls.progress();
        if !self.in_flight.is_empty() && self.waits.count_poll() {
            self.check_waits();
        }
        let mut reported = self.report_ended(out);
        reported = fill(out, reported, || self.next_completion());
        let Some(fault) = self.fault else {
            self.room += reported;
            self.must_progress = !self.in_flight.is_empty();
            return Ok(reported as usize);
        };
        if self.is_drained() {
            // UCX may still use the slots, so they stay busy.
            reported = fill(out, reported, || {
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

/// Fills `out` after the first `filled` places while `next` returns completions; returns the number of all.
#[inline(always)]
fn fill(
    out: &mut [Completion],
    mut filled: u32,
    mut next: impl FnMut() -> Option<Completion>,
) -> u32 {
    for place in out.iter_mut().skip(filled as usize) {
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

    /// Posts a request. Each kind of request has code of its own, even if the caller is compiled apart
    /// from it.
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
        self.parts.worker.calls.progress();
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
            self.parts.worker.calls.progress();
        }
        Ok(reported as usize)
    }

    #[inline]
    fn landed(&self, at: SlotRange) -> Result<&[u64], PostError> {
        self.parts.slots.landed(at, self.ended.popped())
    }

    #[inline]
    fn staged(&mut self, at: SlotRange) -> Result<&mut [u64], PostError> {
        self.parts.slots.staged(at, self.ended.popped())
    }

    #[inline]
    fn window(&self) -> &[AtomicU64] {
        self.parts.window.words()
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
        write!(f, "Engine({:?}, {}, fault {:?})", self.geometry, self.info, self.fault)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Instant;

    use probeline_transport::{Exchange, Sizes};

    use super::*;
    use crate::ucx::{Builder, Progress};

    const PERIOD: Duration = Duration::from_millis(300);
    /// Longer than a few periods on a busy machine.
    const LIMIT: Duration = Duration::from_secs(60);

    /// Over tcp owner 1 answers only when it polls.
    #[test]
    fn names_owner_after_timeout() {
        let [first, second]: [_; 2] = probeline_exchange::threads(2).try_into().ok().unwrap();
        let open = |mut member: probeline_exchange::Thread| {
            let builder = Builder::new(Sizes::new(64).with_depth(2)).tls(Some("tcp"));
            (builder.progress(Progress::Caller).open(&mut member).unwrap(), member.me())
        };
        // Owner 1 answers while it opens its engine.
        let (end, ended) = mpsc::channel::<()>();
        let (silence, is_silent) = mpsc::channel();
        let silent = thread::spawn(move || {
            let engine = open(second);
            silence.send(()).unwrap();
            ended.recv().unwrap_err();
            drop(engine);
        });
        let (mut engine, me) = open(first);
        is_silent.recv().unwrap();
        engine.waits = Waits::new(2, PERIOD);
        let start = Instant::now();
        let owner = Owner(1);
        engine.fetch_add(Token(7), RemoteWord { owner, index: 0 }, 1).unwrap();
        let (mut own, mut failed) = (0, Vec::new());
        let fault = loop {
            assert!(start.elapsed() < LIMIT, "the wait was not bounded");
            // Operations that complete do not hide one that waits.
            own += u32::from(
                engine.fetch_add(Token(8), RemoteWord { owner: me, index: 0 }, 1).is_ok(),
            );
            let mut out = [Completion::default()];
            match engine.poll(&mut out) {
                Ok(0) => {}
                Ok(_) => failed.extend(out[0].result.is_err().then_some(out[0])),
                Err(fault) => break fault,
            }
        };
        assert!(start.elapsed() >= PERIOD && own > 1, "{own} in {:?}", start.elapsed());
        assert_eq!(fault, Fault::Operation { owner, error: OpError::RetryExceeded });
        assert!(failed.contains(&Completion { token: Token(7), result: Err(OpError::Flushed) }));
        drop((engine, end));
        silent.join().unwrap();
    }
}
