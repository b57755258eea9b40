//! The engine: operations are done when they are posted, and reported when polled for.

use core::fmt;
use core::sync::atomic::Ordering::{Release, SeqCst};
use core::sync::atomic::{AtomicU64, fence};

use probeline_pin::{Pages, PolicyRefused};
use probeline_transport::{
    Caps, Completion, Fault, Geometry, Local, Owner, PostError, RemoteWord, Segment, SlotError,
    Token, Transport,
};

use crate::queue::{Done, Queue};
use crate::slots::Slots;
use crate::window::Window;

/// Every so many polls one owner is asked whether it lives, all in turn.
///
/// A lost owner is then noticed within 64 polls times the number of owners: 4096 for 64 owners.
/// Where those share 2 cores, each runs for 1/32 of the time, and notices within one second while
/// a turn of its poll loop takes less than 7 us of CPU time. Asking is one failed
/// compare-and-swap, some tens of nanoseconds: less than 1 ns a poll.
const POLLS_PER_CHECK: u32 = 64;

/// An open engine of one owner.
///
/// It belongs to the thread that opened it and cannot be sent to another: that thread holds a lock
/// whose release by the kernel, when the thread ends by whatever means, tells the peers that the
/// owner is lost. Dropping it while peers still use theirs tells them the same.
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<probeline_shm::Engine>();
/// ```
pub struct Engine {
    caps: Caps,
    geometry: Geometry,
    pages: Pages,
    policy_refused: Option<PolicyRefused>,
    /// By owner, this one's included. They stay mapped until the engine is dropped, whatever
    /// becomes of their owners.
    windows: Box<[Window]>,
    slots: Slots,
    queue: Queue,
    polls: u32,
    /// Whom the last check asked.
    asked: u32,
    /// The engine is dead since this owner was found lost.
    lost: Option<Owner>,
}

impl Engine {
    pub(crate) fn new(
        caps: Caps,
        geometry: Geometry,
        (pages, policy_refused): (Pages, Option<PolicyRefused>),
        windows: Box<[Window]>,
        slots: Slots,
        queue: Queue,
    ) -> Self {
        Self {
            caps,
            geometry,
            pages,
            policy_refused,
            windows,
            slots,
            queue,
            polls: 0,
            asked: 0,
            lost: None,
        }
    }

    /// The pages that this owner's window got.
    #[must_use]
    pub fn pages(&self) -> Pages {
        self.pages
    }

    /// The NUMA policy that was requested for this owner's window and refused, by a container or by
    /// a kernel without NUMA.
    #[must_use]
    pub fn policy_refused(&self) -> Option<PolicyRefused> {
        self.policy_refused
    }

    /// Refuses what cannot be accepted now or ever; `request` is the check of the request itself.
    #[inline]
    fn admit(&self, request: Result<(), PostError>) -> Result<(), PostError> {
        if self.lost.is_some() {
            return Err(PostError::Closed);
        }
        request?;
        if self.queue.is_full() { Err(PostError::Full) } else { Ok(()) }
    }

    #[inline]
    fn admit_copy(&self, remote: Segment, local: Local) -> Result<(), PostError> {
        self.admit(self.geometry.check_copy(&self.caps, remote, local))
    }

    /// The word at `at`, if an atomic on it is accepted.
    #[inline]
    fn admit_atomic(&self, at: RemoteWord) -> Result<&AtomicU64, PostError> {
        self.admit(self.geometry.check_word(at))?;
        let segment = words_of(&self.windows, Segment { start: at, words: 1 });
        segment.and_then(<[_]>::first).ok_or(PostError::OutOfRange)
    }

    /// Asks the next owner whether it lives; asking oneself does no harm.
    #[cold]
    fn check_next_owner(&mut self) {
        self.asked = if self.asked + 1 < self.geometry.owners { self.asked + 1 } else { 0 };
        let Some(window) = self.windows.get(self.asked as usize) else { return };
        if self.lost.is_some() || window.is_alive() {
            return;
        }
        // It may have left because of another's loss: then everybody names that one.
        let first = window.lost_to().filter(|first| first.0 < self.geometry.owners);
        let lost = first.unwrap_or(Owner(self.asked));
        if let Some(own) = self.windows.get(self.geometry.me.0 as usize) {
            own.set_lost_to(lost);
        }
        self.lost = Some(lost);
    }
}

/// The words of `at`, `None` unless it lies in a window.
#[inline]
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
        self.queue.len()
    }

    #[inline]
    fn read(&mut self, token: Token, from: Segment, into: Local) -> Result<(), PostError> {
        self.admit_copy(from, into)?;
        let source = words_of(&self.windows, from).ok_or(PostError::OutOfRange)?;
        let target = self.slots.words_mut(into).ok_or(PostError::OutOfRange)?;
        for (target, source) in target.iter_mut().zip(source) {
            *target = source.load(SeqCst);
        }
        self.slots.hold(into.slot);
        self.queue.push(Done { token, value: 0, slot: Some(into.slot) });
        Ok(())
    }

    #[inline]
    fn write(&mut self, token: Token, from: Local, to: Segment) -> Result<(), PostError> {
        self.admit_copy(to, from)?;
        let source = self.slots.words(from).ok_or(PostError::OutOfRange)?;
        let target = words_of(&self.windows, to).ok_or(PostError::OutOfRange)?;
        for (target, source) in target.iter().zip(source) {
            target.store(*source, Release);
        }
        // Out of the store buffer before anything posted later loads: see the crate's memory order.
        fence(SeqCst);
        self.slots.hold(from.slot);
        self.queue.push(Done { token, value: 0, slot: Some(from.slot) });
        Ok(())
    }

    #[inline]
    fn compare_and_swap(
        &mut self,
        token: Token,
        at: RemoteWord,
        expected: u64,
        desired: u64,
    ) -> Result<(), PostError> {
        let word = self.admit_atomic(at)?;
        let (Ok(value) | Err(value)) = word.compare_exchange(expected, desired, SeqCst, SeqCst);
        self.queue.push(Done { token, value, slot: None });
        Ok(())
    }

    #[inline]
    fn fetch_add(&mut self, token: Token, at: RemoteWord, addend: u64) -> Result<(), PostError> {
        let value = self.admit_atomic(at)?.fetch_add(addend, SeqCst);
        self.queue.push(Done { token, value, slot: None });
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
            let Some(done) = self.queue.pop() else { break };
            if let Some(slot) = done.slot {
                self.slots.release(slot);
            }
            *place = Completion { token: done.token, result: Ok(done.value) };
            reported += 1;
        }
        match self.lost {
            Some(owner) if reported == 0 && self.queue.len() == 0 => Err(Fault::OwnerLost(owner)),
            _ => Ok(reported),
        }
    }

    #[inline]
    fn landed(&self, at: Local) -> Result<&[u64], SlotError> {
        if !self.geometry.contains_local(at) {
            return Err(SlotError::OutOfRange);
        }
        self.slots.idle(at.slot)?;
        self.slots.words(at).ok_or(SlotError::OutOfRange)
    }

    #[inline]
    fn staged(&mut self, at: Local) -> Result<&mut [u64], SlotError> {
        if !self.geometry.contains_local(at) {
            return Err(SlotError::OutOfRange);
        }
        self.slots.idle(at.slot)?;
        self.slots.words_mut(at).ok_or(SlotError::OutOfRange)
    }

    #[inline]
    fn window(&self) -> &[AtomicU64] {
        self.windows.get(self.geometry.me.0 as usize).map(Window::words).unwrap_or_default()
    }

    #[inline]
    fn direct(&self, at: Segment) -> Option<&[AtomicU64]> {
        self.geometry.check_segment(at).ok()?;
        words_of(&self.windows, at)
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("geometry", &self.geometry)
            .field("in_flight", &self.in_flight())
            .field("lost", &self.lost)
            .finish_non_exhaustive()
    }
}
