//! The engine: posts start operations, and polls complete them with flushes.

use core::ffi::c_int;
use core::fmt;
use core::mem::ManuallyDrop;
use core::sync::atomic::AtomicU64;
use std::rc::Rc;
use std::thread;

use probeline_transport::engine::{Kind, Operation, Slots, own_words};
use probeline_transport::{
    Caps, Completion, Fault, Geometry, OpError, Owner, PostError, RemoteWord, Request, Segment,
    SlotRange, StableMemory, Token, Transport,
};

use super::in_flight::{First, InFlight, Operands};
use super::info::Info;
use super::request::EndlessReceive;
use super::runtime::{Runtime, SUCCESS};
use super::window::{Call, Window};

/// While operations are in flight, only every such poll lets MPI progress peers' operations, which
/// flushes need not do. That costs as much as the rest of a poll, 60 ns at most, so that peers wait
/// for a microsecond.
const POLLS_PER_PROGRESS: u32 = 16;

/// An open engine of one owner.
///
/// It belongs to the thread that started MPI. Dropping it completes the operations in flight. The
/// other owners do not notice it: leave after a barrier. If a panic drops the engine, it waits for no
/// owner: the memory of operations in flight is kept, and the job is aborted.
pub struct Engine {
    caps: Caps,
    geometry: Geometry,
    info: Info,
    /// Taken only when the engine is dropped.
    window: ManuallyDrop<Window>,
    /// The number of the window.
    number: u64,
    runtime: Rc<Runtime>,
    slots: Slots,
    operands: Operands,
    in_flight: InFlight,
    /// Lets MPI progress, if peers need this owner's CPU.
    progress: Option<EndlessReceive>,
    polls: u32,
    fault: Option<Fault>,
}

impl Engine {
    pub(super) fn new(
        caps: Caps,
        geometry: Geometry,
        info: Info,
        (slots, operands): (Slots, Operands),
        (window, number, runtime): (Window, u64, Rc<Runtime>),
        progress: Option<EndlessReceive>,
    ) -> Self {
        Self {
            in_flight: InFlight::new(caps.depth, geometry.owners),
            caps,
            geometry,
            info,
            window: ManuallyDrop::new(window),
            number,
            runtime,
            slots,
            operands,
            progress,
            polls: 0,
            fault: None,
        }
    }

    /// Returns the library, the components and the options of this engine.
    #[must_use]
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Sets the engine's fault because MPI has failed in a call for `owner`. MPI may still access
    /// the engine's memory.
    #[cold]
    fn fail(&mut self, owner: Owner, code: c_int) -> OpError {
        let error = OpError::Device { code: code.unsigned_abs() };
        self.fault.get_or_insert(Fault::Operation { owner, error });
        self.in_flight.fail(owner, error);
        self.leak_memory();
        error
    }

    /// Keeps the private memory until the process exits, and makes the job end by `MPI_Abort`.
    fn leak_memory(&mut self) {
        self.slots.leak();
        self.operands.leak();
        self.runtime.fail();
    }

    /// Waits until all operations on `owner` have completed.
    #[inline(always)]
    fn flush(&mut self, owner: Owner) -> Result<(), OpError> {
        match self.window.flush(owner) {
            SUCCESS => {
                self.in_flight.end_all_of(owner);
                Ok(())
            }
            code => Err(self.fail(owner, code)),
        }
    }

    /// Lets MPI progress.
    #[inline(never)]
    fn progress(&mut self) {
        if let Some(progress) = &mut self.progress {
            progress.progress();
        }
    }

    /// Moves completions to `out`; if no operation has completed, waits for the owner of the first
    /// one.
    #[inline(always)]
    fn report(&mut self, out: &mut [Completion]) -> usize {
        let mut reported = 0;
        for completion in out {
            let Some(First { place, operation, ended }) = self.in_flight.first() else { break };
            let ended = match ended {
                Some(ended) => ended,
                None if reported > 0 => break,
                None => self.flush(operation.owner),
            };
            let result = ended.map(|()| match operation.kind {
                Kind::Read(_) | Kind::Write(_) => 0,
                Kind::Atomic => self.operands.result(place),
            });
            *completion = Completion { token: operation.token, result };
            self.in_flight.pop();
            reported += 1;
        }
        reported
    }
}

// SAFETY: slots and window are allocations of this process and of MPI outside the engine, freed
// after it is dropped. MPI gets addresses; references are made to the words of `landed` and
// `staged`, and to the window's atomics.
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
        self.in_flight.len()
    }

    #[inline(always)]
    fn post(&mut self, token: Token, request: Request) -> Result<(), PostError> {
        if self.fault.is_some() {
            return Err(PostError::Closed);
        }
        self.geometry.check(&self.caps, &request)?;
        if self.in_flight.len() >= self.caps.depth {
            return Err(PostError::Full);
        }
        let Segment { start: RemoteWord { owner, index }, words } = request.remote();
        let place = self.in_flight.next_place();
        let slots = &self.slots;
        // SAFETY: the last operation at the place has ended.
        let fill = |operands| unsafe { self.operands.fill(place, operands) };
        let call = match request {
            Request::Read { into, .. } => Call::Get(slots.address(into), words),
            Request::Write { from, .. } => Call::Put(slots.address(from), words),
            Request::CompareAndSwap { expected, desired, .. } => {
                Call::CompareAndSwap(fill([desired, expected]))
            }
            Request::FetchAdd { addend, .. } => Call::FetchAdd(fill([addend, 0])),
        };
        // SAFETY: the words of an atomic are its own, and a checked range of a slot stays busy,
        // until a flush of `owner` has ended the operation. The caller makes sure that no other
        // operation in flight uses the range; if one does, MPI writes the words of either.
        let code = unsafe { self.window.start(owner, index, call) };
        self.in_flight.push(Operation::new(token, &request));
        if let Some(local) = request.local() {
            self.slots.hold_until(local.slot, self.in_flight.posted());
        }
        if code != SUCCESS {
            self.fail(owner, code);
        }
        Ok(())
    }

    /// Does nothing: posts start operations.
    #[inline]
    fn kick(&mut self) {}

    /// Waits for one owner if operations are in flight and none has completed; see the
    /// [module](super).
    // Inlined into the caller's loop: some components take a few dozen instructions.
    #[inline(always)]
    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, Fault> {
        self.polls = self.polls.wrapping_add(1);
        if self.in_flight.len() == 0 || self.polls.is_multiple_of(POLLS_PER_PROGRESS) {
            self.progress();
        }
        let reported = self.report(out);
        match self.fault {
            Some(fault) if reported == 0 && self.in_flight.len() == 0 => Err(fault),
            _ => Ok(reported),
        }
    }

    #[inline]
    fn landed(&self, at: SlotRange) -> Result<&[u64], PostError> {
        self.slots.landed(at, self.in_flight.reported())
    }

    #[inline]
    fn staged(&mut self, at: SlotRange) -> Result<&mut [u64], PostError> {
        self.slots.staged(at, self.in_flight.reported())
    }

    #[inline]
    fn window(&self) -> &[AtomicU64] {
        let len = usize::try_from(self.geometry.window_words).unwrap_or(usize::MAX);
        self.window.own_words().get(..len).unwrap_or_default()
    }

    /// This owner's words, by the unified memory model. MPI gives no access to those of others.
    #[inline]
    fn direct(&self, at: Segment) -> Option<&[AtomicU64]> {
        own_words(&self.geometry, self.window(), at)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // In a panic MPI might wait for other owners to end operations. It may write to the memory of
        // operations in flight until the process ends.
        let is_busy = self.in_flight.len() > 0 && self.fault.is_none();
        if thread::panicking() || is_busy && self.window.flush_all() != SUCCESS {
            self.leak_memory();
        }
        // SAFETY: this is the only place that takes the window, and nothing uses it afterwards.
        let window = unsafe { ManuallyDrop::take(&mut self.window) };
        self.runtime.retire(self.number, window);
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Engine({:?}, {}, fault {:?})", self.geometry, self.info, self.fault)
    }
}
