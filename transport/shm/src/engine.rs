//! The engine: a post queues an operation, and the CPU executes it at the kick or the poll.

use core::fmt;
use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicU64, fence};

use probeline_pin::Pages;
use probeline_transport::engine::{CpuMemory, Ring, Slots};
use probeline_transport::{
    Caps, Completion, Fault, Geometry, Owner, PostError, RemoteWord, Request, Segment, SlotRange,
    StableMemory, Token, Transport,
};

use crate::pending::Pending;
use crate::window::Window;

/// The number of polls after which the engine checks whether the next owner is alive.
///
/// While operations are in flight at every poll, a lost owner is detected within 64 polls times the
/// number of owners: 4096 polls for 64 owners. If these share 2 cores, each runs for 1/32 of the
/// time. It then detects the loss within one second if a turn of its poll loop takes less than 7 us
/// of CPU time. A check is one failed compare-and-swap of some tens of nanoseconds: less than 1 ns
/// for each poll.
const POLLS_PER_CHECK: u32 = 64;

/// The milliseconds between two checks whether the other owners are alive by polls without an operation
/// to execute, such as those that a structure makes beside the accesses of its CPU. They have the time
/// for a clock, others do not.
const IDLE_CHECK_INTERVAL_MS: u64 = 100;

/// The most operations that one poll executes and reports. While the caller handles these,
/// the lines of the remaining ones arrive.
const MAX_REPORTS: usize = 16;

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
    /// The first word of each window.
    firsts: Box<[NonNull<AtomicU64>]>,
    slots: Slots<CpuMemory>,
    /// Operations that are posted and not reported. `post` checked their ranges and took their
    /// addresses from `windows` and `slots`. A slot is busy until its operations are reported, so
    /// that no other reference to its words exists when they are executed.
    pending: Ring<Pending>,
    /// Operations, counted from the first one ever posted, that the last kick has executed.
    kicked: u64,
    polls: u32,
    /// The owner that was checked last.
    checked: u32,
    /// The time of the last check of all owners.
    checked_at_ms: u64,
    /// The lost owner that the engine's fault names.
    lost: Option<Owner>,
}

impl Engine {
    pub(crate) fn new(
        caps: Caps,
        geometry: Geometry,
        pages: Pages,
        windows: Box<[Window]>,
        slots: Slots<CpuMemory>,
    ) -> Self {
        let firsts = windows.iter().map(Window::first).collect();
        let pending = Ring::new(caps.depth);
        Self {
            caps,
            geometry,
            pages,
            windows,
            firsts,
            slots,
            pending,
            kicked: 0,
            polls: 0,
            checked: 0,
            checked_at_ms: now_ms(),
            lost: None,
        }
    }

    /// Returns the page size of this owner's window.
    #[must_use]
    pub fn pages(&self) -> Pages {
        self.pages
    }

    /// Returns the NUMA policy that was requested for this owner's window and refused, by a container
    /// or by a kernel without NUMA support.
    #[must_use]
    pub fn policy_refused(&self) -> Option<&probeline_pin::Error> {
        self.own_window()?.policy_refused()
    }

    #[inline]
    fn own_window(&self) -> Option<&Window> {
        self.windows.get(self.geometry.me.0 as usize)
    }

    /// Checks whether all owners are alive, unless they were checked a moment ago.
    fn check_all_owners(&mut self) {
        let now_ms = now_ms();
        if now_ms.saturating_sub(self.checked_at_ms) >= IDLE_CHECK_INTERVAL_MS {
            self.checked_at_ms = now_ms;
            (0..self.geometry.owners).for_each(|_| self.check_next_owner());
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

impl Transport for Engine {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline]
    fn in_flight(&self) -> u32 {
        self.pending.len()
    }

    #[inline(always)]
    fn post(&mut self, token: Token, request: Request) -> Result<(), PostError> {
        if self.lost.is_some() {
            return Err(PostError::Closed);
        }
        self.geometry.check(&self.caps, &request)?;
        if self.pending.len() >= self.caps.depth {
            return Err(PostError::Full);
        }
        let RemoteWord { owner, index } = request.remote().start;
        let first = self.firsts.get(owner.0 as usize).ok_or(PostError::UnknownOwner)?;
        #[allow(clippy::cast_possible_truncation, reason = "a checked index of mapped words")]
        // SAFETY: the check above found the word in the window.
        let remote = unsafe { first.add(index as usize) };
        let local = request.local().and_then(|local| {
            self.slots.hold_until(local.slot, self.pending.pushed() + 1);
            NonNull::new(self.slots.address(local))
        });
        let local = local.unwrap_or(NonNull::dangling());
        self.pending.push(Pending::request(token, request, remote, local));
        Ok(())
    }

    /// Executes the operations that were posted since the last kick.
    fn kick(&mut self) {
        let mut has_written = false;
        for count in self.kicked.max(self.pending.popped())..self.pending.pushed() {
            let Some(pending) = self.pending.get_mut(count) else { continue };
            has_written |= pending.is_write();
            // SAFETY: an operation of this engine that is in flight.
            unsafe { pending.finish() };
        }
        self.kicked = self.pending.pushed();
        if has_written {
            fence(SeqCst);
        }
    }

    #[inline]
    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, Fault> {
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(POLLS_PER_CHECK) {
            self.check_next_owner();
        }
        if self.pending.is_empty() {
            self.check_all_owners();
        }
        let mut reported = 0;
        let mut has_written = false;
        for place in out.iter_mut().take(MAX_REPORTS) {
            let Some(pending) = self.pending.first() else { break };
            has_written |= pending.is_write();
            // SAFETY: an operation of this engine that is in flight.
            let value = unsafe { pending.execute() };
            *place = Completion { token: pending.token, result: Ok(value) };
            self.pending.pop();
            reported += 1;
        }
        if has_written {
            // Drains the store buffer before later operations load: see the crate's memory order.
            fence(SeqCst);
        }
        match self.lost {
            Some(owner) if reported == 0 && self.pending.is_empty() => Err(Fault::OwnerLost(owner)),
            _ => Ok(reported),
        }
    }

    #[inline(always)]
    fn landed(&self, at: SlotRange) -> Result<&[u64], PostError> {
        self.slots.landed(at, self.pending.popped())
    }

    #[inline]
    fn staged(&mut self, at: SlotRange) -> Result<&mut [u64], PostError> {
        self.slots.staged(at, self.pending.popped())
    }

    #[inline]
    fn window(&self) -> &[AtomicU64] {
        self.own_window().map(Window::words).unwrap_or_default()
    }

    #[inline]
    fn direct(&self, at: Segment) -> Option<&[AtomicU64]> {
        self.geometry.check_segment(at).ok()?;
        let first = self.firsts.get(at.start.owner.0 as usize)?;
        #[allow(clippy::cast_possible_truncation, reason = "a checked index of mapped words")]
        // SAFETY: the check above found the words in the window, which stays mapped while `self` lives.
        Some(unsafe {
            slice::from_raw_parts(first.add(at.start.index as usize).as_ptr(), at.words as usize)
        })
    }
}

/// Returns the time of the coarse monotonic clock, which needs no system call.
fn now_ms() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime(2): a live structure. Linux has this clock, so it does not fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut now) };
    let [seconds, ns] = [now.tv_sec, now.tv_nsec].map(i64::cast_unsigned);
    seconds * 1_000 + ns / 1_000_000
}

// SAFETY: slots and windows are mappings and allocations outside the engine, freed when it is
// dropped. Operations access them only in `kick` and `poll`. `Slots` creates references only to the
// range that a call names, `Window` only to atomics.
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
