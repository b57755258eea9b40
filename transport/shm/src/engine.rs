//! The engine: the CPU executes operations when they are posted, and `poll` reports them.

use core::fmt;
use core::sync::atomic::Ordering::{Release, SeqCst};
use core::sync::atomic::{AtomicU64, fence};

use probeline_engine::{CpuMemory, Ring, Slots};
use probeline_pin::{Pages, PolicyRefused};
use probeline_transport::{
    Caps, Completion, Fault, Geometry, Local, Owner, PostError, Request, Segment, SlotError,
    StableMemory, Token, Transport,
};

use crate::window::Window;

/// The number of polls after which the engine checks whether the next owner is alive.
///
/// A lost owner is detected within 64 polls times the number of owners: 4096 polls for 64 owners.
/// If these share 2 cores, each runs for 1/32 of the time. It then detects the loss within one
/// second if a turn of its poll loop takes less than 7 us of CPU time. A check is one failed
/// compare-and-swap of some tens of nanoseconds: less than 1 ns for each poll.
const POLLS_PER_CHECK: u32 = 64;

/// An open engine of one owner.
///
/// It belongs to the thread that opened it and cannot be sent to another one. That thread holds a
/// robust lock, which the kernel marks however the thread ends, so that the peers detect that the
/// owner is lost. Dropping the engine while peers still use theirs also loses the owner.
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<probeline_shm::Engine>();
/// ```
pub struct Engine {
    caps: Caps,
    geometry: Geometry,
    pages: Pages,
    /// The windows by owner, including this owner's. All stay mapped until the engine is dropped,
    /// also those of lost owners.
    windows: Box<[Window]>,
    slots: Slots<CpuMemory>,
    /// Operations that are executed but not reported.
    done: Ring<Done>,
    polls: u32,
    /// The owner that was checked last.
    checked: u32,
    /// The lost owner that the engine's fault names.
    lost: Option<Owner>,
}

/// An executed operation.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    token: Token,
    /// The old value for atomics, otherwise 0.
    value: u64,
}

impl Engine {
    pub(crate) fn new(
        caps: Caps,
        geometry: Geometry,
        pages: Pages,
        windows: Box<[Window]>,
        slots: Slots<CpuMemory>,
    ) -> Self {
        let done = Ring::new(caps.depth);
        Self { caps, geometry, pages, windows, slots, done, polls: 0, checked: 0, lost: None }
    }

    /// The page size of this owner's window.
    #[must_use]
    pub fn pages(&self) -> Pages {
        self.pages
    }

    /// The NUMA policy that was requested for this owner's window and refused, by a container or by
    /// a kernel without NUMA support.
    #[must_use]
    pub fn policy_refused(&self) -> Option<PolicyRefused> {
        self.own_window()?.policy_refused()
    }

    #[inline]
    fn own_window(&self) -> Option<&Window> {
        self.windows.get(self.geometry.me.0 as usize)
    }

    /// Executes a checked request and returns the old value of an atomic's word, otherwise 0;
    /// `None` if its ranges do not exist.
    #[inline(always)]
    fn execute(&mut self, request: Request) -> Option<u64> {
        let words = words_of(&self.windows, request.remote())?;
        match request {
            Request::Read { into, .. } => {
                for (target, source) in self.slots.words_mut(into)?.iter_mut().zip(words) {
                    *target = source.load(SeqCst);
                }
                Some(0)
            }
            Request::Write { from, .. } => {
                for (target, source) in words.iter().zip(self.slots.words(from)?) {
                    target.store(*source, Release);
                }
                // Drains the store buffer before later operations load: see the crate's memory
                // order.
                fence(SeqCst);
                Some(0)
            }
            Request::CompareAndSwap { expected, desired, .. } => {
                let swapped = words.first()?.compare_exchange(expected, desired, SeqCst, SeqCst);
                let (Ok(value) | Err(value)) = swapped;
                Some(value)
            }
            Request::FetchAdd { addend, .. } => Some(words.first()?.fetch_add(addend, SeqCst)),
        }
    }

    /// Checks whether the next owner is alive. Checking this owner itself is harmless.
    #[cold]
    fn check_next_owner(&mut self) {
        self.checked = if self.checked + 1 < self.geometry.owners { self.checked + 1 } else { 0 };
        let Some(window) = self.windows.get(self.checked as usize) else { return };
        if self.lost.is_some() || window.is_alive() {
            return;
        }
        // If that owner left because another owner was lost, all owners report the latter.
        let lost = window.lost_to(self.geometry.owners).unwrap_or(Owner(self.checked));
        if let Some(own) = self.own_window() {
            own.set_lost_to(lost);
        }
        self.lost = Some(lost);
    }
}

/// The words of `at`; `None` if it is not within a window.
#[inline(always)]
fn words_of(windows: &[Window], at: Segment) -> Option<&[AtomicU64]> {
    let window = windows.get(at.start.owner.0 as usize)?;
    let start = usize::try_from(at.start.index).ok()?;
    window.words().get(start..start.checked_add(at.words as usize)?)
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
        self.done.len()
    }

    #[inline(always)]
    fn post(&mut self, token: Token, request: Request) -> Result<(), PostError> {
        if self.lost.is_some() {
            return Err(PostError::Closed);
        }
        self.geometry.check(&self.caps, &request)?;
        if self.done.len() >= self.caps.depth {
            return Err(PostError::Full);
        }
        let value = self.execute(request).ok_or(PostError::OutOfRange)?;
        if let Some(local) = request.local() {
            self.slots.hold_until(local.slot, self.done.pushed() + 1);
        }
        self.done.push(Done { token, value });
        Ok(())
    }

    /// Does nothing: there is no doorbell.
    #[inline]
    fn kick(&mut self) {}

    #[inline]
    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, Fault> {
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(POLLS_PER_CHECK) {
            self.check_next_owner();
        }
        let mut reported = 0;
        for place in out {
            let Some(&Done { token, value }) = self.done.first() else { break };
            self.done.pop();
            *place = Completion { token, result: Ok(value) };
            reported += 1;
        }
        match self.lost {
            Some(owner) if reported == 0 && self.done.is_empty() => Err(Fault::OwnerLost(owner)),
            _ => Ok(reported),
        }
    }

    #[inline]
    fn landed(&self, at: Local) -> Result<&[u64], SlotError> {
        self.slots.landed(at, self.done.popped())
    }

    #[inline]
    fn staged(&mut self, at: Local) -> Result<&mut [u64], SlotError> {
        self.slots.staged(at, self.done.popped())
    }

    #[inline]
    fn window(&self) -> &[AtomicU64] {
        self.own_window().map(Window::words).unwrap_or_default()
    }

    #[inline]
    fn direct(&self, at: Segment) -> Option<&[AtomicU64]> {
        self.geometry.check_segment(at).ok()?;
        words_of(&self.windows, at)
    }
}

// SAFETY: slots and windows are mappings and allocations outside the engine, freed when it is
// dropped. `Slots` creates references only to the range that a call names, `Window` only to
// atomics.
unsafe impl StableMemory for Engine {}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("geometry", &self.geometry)
            .field("in_flight", &self.in_flight())
            .field("lost", &self.lost)
            .finish_non_exhaustive()
    }
}
