//! The engine: operations are started when they are posted, and ended by flushes when polled for.

use core::ffi::c_int;
use core::fmt;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;
use std::rc::Rc;
use std::thread;

use probeline_transport::{
    Caps, Completion, Fault, Geometry, Local, OpError, Owner, PostError, RemoteWord, Segment,
    SlotError, Token, Transport,
};

use super::control::Control;
use super::error::SUCCESS;
use super::facts::Facts;
use super::ledger::{Entry, First, Kind, Ledger};
use super::private::Private;
use super::progress::Progress;
use super::window::Window;
use super::world::{Name, Runtime};

/// Every so many polls look for farewells and let MPI go on with peers' operations, which the
/// flushes of this owner's own need not; each poll does while none are in flight. Looking and going
/// on cost as much as the rest of a poll, 60 ns at most: peers wait a microsecond.
const POLLS_PER_TURN: u32 = 16;

/// An open engine of one owner.
///
/// It belongs to the thread that started MPI. Dropping it ends what is in flight and tells the
/// others, whose engines then end with [`Fault::OwnerLost`]: part after a barrier. Where peers'
/// operations need an owner in MPI, dropping waits for those that are told. A panic that drops it
/// waits for nobody: it keeps the memory of what is in flight, and the job is ended.
pub struct Engine {
    caps: Caps,
    geometry: Geometry,
    control: Control,
    /// `None` only while it is dropped.
    window: Option<Window>,
    private: Private,
    ledger: Ledger,
    facts: Facts,
    runtime: Rc<Runtime>,
    name: Name,
    /// Where others need this owner.
    progress: Option<Progress>,
    polls: u32,
    /// Whose farewell was looked for last.
    asked: u32,
    fault: Option<Fault>,
}

impl Engine {
    pub(super) fn new(
        caps: Caps,
        geometry: Geometry,
        facts: Facts,
        (window, private): (Window, Private),
        (runtime, name): (Rc<Runtime>, Name),
        progress: Option<Progress>,
    ) -> Self {
        Self {
            ledger: Ledger::new(caps.depth, geometry.owners),
            control: Control::new(geometry.window_words, geometry.owners),
            caps,
            geometry,
            window: Some(window),
            private,
            facts,
            runtime,
            name,
            progress,
            polls: 0,
            asked: 0,
            fault: None,
        }
    }

    /// What it runs over.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Refuses what cannot be accepted now or ever; `request` checks the request itself.
    #[inline(always)]
    fn admit(
        &self,
        request: impl FnOnce(&Self) -> Result<(), PostError>,
    ) -> Result<&Window, PostError> {
        if self.fault.is_some() {
            return Err(PostError::Closed);
        }
        request(self)?;
        if self.ledger.is_full() {
            return Err(PostError::Full);
        }
        self.window.as_ref().ok_or(PostError::Closed)
    }

    /// Enters a READ or WRITE between two ranges, which `start` starts.
    #[inline]
    fn copy(
        &mut self,
        token: Token,
        remote: Segment,
        local: Local,
        start: impl FnOnce(&Window, *mut u64) -> c_int,
    ) -> Result<(), PostError> {
        let window = self.admit(|this| this.geometry.check_copy(&this.caps, remote, local))?;
        let code = start(window, self.private.slot(local));
        let owner = remote.start.owner;
        self.ledger.enter(Entry { token, owner, kind: Kind::Copy });
        self.private.hold_until(local.slot, self.ledger.entered());
        self.judge(owner, code);
        Ok(())
    }

    /// Enters an atomic that carries up to two words, which `start` starts.
    #[inline]
    fn atomic(
        &mut self,
        token: Token,
        at: RemoteWord,
        carried: [u64; 2],
        start: impl FnOnce(&Window, *mut u64, [*const u64; 2]) -> c_int,
    ) -> Result<(), PostError> {
        let window = self.admit(|this| this.geometry.check_word(at))?;
        let [old, first, second] = self.private.atomic(self.ledger.next_place());
        // SAFETY: words of the operation that had this place before, which has ended.
        unsafe {
            first.write(carried[0]);
            second.write(carried[1]);
        }
        let code = start(window, old, [first.cast_const(), second.cast_const()]);
        self.ledger.enter(Entry { token, owner: at.owner, kind: Kind::Atomic });
        self.judge(at.owner, code);
        Ok(())
    }

    #[inline]
    fn judge(&mut self, owner: Owner, code: c_int) {
        if code != SUCCESS {
            self.fail(owner, code);
        }
    }

    /// MPI has failed in a call for `owner`: the engine is dead, and its memory not its own.
    #[cold]
    fn fail(&mut self, owner: Owner, code: c_int) -> OpError {
        let error = OpError::Device { code: code.unsigned_abs() };
        self.fault.get_or_insert(Fault::Operation { owner, error });
        self.ledger.fail(owner, error);
        self.private.lose();
        self.runtime.fail();
        error
    }

    /// Waits until all operations on `owner` have ended: how.
    #[inline(always)]
    fn end_all_of(&mut self, owner: Owner) -> Result<(), OpError> {
        let Some(window) = &self.window else { return Err(OpError::Flushed) };
        match window.flush(owner) {
            SUCCESS => {
                self.ledger.end_all_of(owner);
                Ok(())
            }
            code => Err(self.fail(owner, code)),
        }
    }

    /// Looks whether the next owner has said farewell, all in turn, and lets MPI go on.
    #[inline(never)]
    fn turn(&mut self) {
        self.look_for_farewell();
        if let Some(progress) = &mut self.progress {
            progress.make();
        }
    }

    #[inline]
    fn look_for_farewell(&mut self) {
        self.asked = if self.asked + 1 < self.geometry.owners { self.asked + 1 } else { 0 };
        if let Some(lost) = self.farewell_of(Owner(self.asked)) {
            self.lose(lost);
        }
    }

    /// Who was lost, if `owner` has said farewell.
    #[inline]
    fn farewell_of(&self, owner: Owner) -> Option<Owner> {
        let at = usize::try_from(self.control.farewell(owner)).ok()?;
        let said = self.window.as_ref()?.own_words().get(at)?.load(Acquire);
        let lost = u32::try_from(said.checked_sub(1)?).ok()?;
        (lost < self.geometry.owners).then_some(Owner(lost))
    }

    #[cold]
    fn lose(&mut self, owner: Owner) {
        self.fault.get_or_insert(Fault::OwnerLost(owner));
    }

    /// Moves what has ended to `out`; waits for the first one's owner if nothing has.
    #[inline(always)]
    fn report(&mut self, out: &mut [Completion]) -> usize {
        let mut reported = 0;
        for place in out {
            let Some(First { place: at, entry, ended }) = self.ledger.first() else { break };
            let ended = match ended {
                Some(ended) => ended,
                None if reported > 0 => break,
                None => self.end_all_of(entry.owner),
            };
            let result = ended.map(|()| match entry.kind {
                Kind::Copy => 0,
                Kind::Atomic => self.private.old_value(at),
            });
            *place = Completion { token: entry.token, result };
            self.ledger.take_first();
            reported += 1;
        }
        reported
    }

    /// Waits until nothing is in flight, and tells the others that this owner leaves.
    fn end_all(&mut self) {
        while let Some(owner) = self.ledger.any_awaited() {
            // If it fails, nothing is awaited any more.
            let _ = self.end_all_of(owner);
        }
        if !self.ledger.has_failed() {
            self.say_farewell();
        }
    }

    /// Tells all who have not left themselves that this owner leaves, and for whose sake.
    fn say_farewell(&mut self) {
        let first = match self.fault {
            Some(Fault::OwnerLost(owner)) => owner,
            _ => self.geometry.me,
        };
        let (Some(window), [_, said, _]) = (&self.window, self.private.atomic(0)) else { return };
        // SAFETY: a word of an operation, and none is in flight.
        unsafe { said.write(u64::from(first.0) + 1) };
        let at = self.control.farewell(self.geometry.me);
        let stays =
            |owner: &Owner| *owner != self.geometry.me && self.farewell_of(*owner).is_none();
        for owner in (0..self.geometry.owners).map(Owner).filter(stays) {
            // SAFETY: as above; it stays as it is until the flush.
            let codes = unsafe { [window.put(said, 1, owner, at), window.flush(owner)] };
            if codes != [SUCCESS; 2] {
                self.private.lose();
                self.runtime.fail();
                return;
            }
        }
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
        self.ledger.len()
    }

    #[inline]
    fn read(&mut self, token: Token, from: Segment, into: Local) -> Result<(), PostError> {
        let RemoteWord { owner, index } = from.start;
        self.copy(token, from, into, |window, to| {
            // SAFETY: a checked range of a slot, which is shown to nobody while it is held, until a
            // flush of `owner` has ended the operation. That no other operation in flight uses it
            // is the caller's duty; MPI then brings one or the other.
            unsafe { window.get(to, from.words, owner, index) }
        })
    }

    #[inline]
    fn write(&mut self, token: Token, from: Local, to: Segment) -> Result<(), PostError> {
        let RemoteWord { owner, index } = to.start;
        self.copy(token, to, from, |window, words| {
            // SAFETY: as for `read`.
            unsafe { window.put(words, from.words, owner, index) }
        })
    }

    #[inline]
    fn compare_and_swap(
        &mut self,
        token: Token,
        at: RemoteWord,
        expected: u64,
        desired: u64,
    ) -> Result<(), PostError> {
        self.atomic(token, at, [desired, expected], |window, old, carried| {
            // SAFETY: words of this operation alone, until a flush of its owner has ended it.
            unsafe { window.compare_and_swap(old, carried, at.owner, at.index) }
        })
    }

    #[inline]
    fn fetch_add(&mut self, token: Token, at: RemoteWord, addend: u64) -> Result<(), PostError> {
        self.atomic(token, at, [addend, 0], |window, old, [addend, _]| {
            // SAFETY: as for `compare_and_swap`.
            unsafe { window.fetch_add(old, addend, at.owner, at.index) }
        })
    }

    /// Does nothing: posts start operations.
    #[inline]
    fn kick(&mut self) {}

    /// Waits for one owner, if anything is in flight and nothing has ended; see the
    /// [module](super).
    // Part of the caller's loop: some components take as long as a few dozen instructions.
    #[inline(always)]
    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, Fault> {
        self.polls = self.polls.wrapping_add(1);
        if self.ledger.len() == 0 || self.polls.is_multiple_of(POLLS_PER_TURN) {
            self.turn();
        }
        let reported = self.report(out);
        if reported > 0 {
            return Ok(reported);
        }
        match self.fault {
            Some(fault) if self.ledger.len() == 0 => Err(fault),
            _ => Ok(0),
        }
    }

    #[inline]
    fn landed(&self, at: Local) -> Result<&[u64], SlotError> {
        if !self.geometry.contains_local(at) {
            return Err(SlotError::OutOfRange);
        }
        self.private.landed(at, self.ledger.taken())
    }

    #[inline]
    fn staged(&mut self, at: Local) -> Result<&mut [u64], SlotError> {
        if !self.geometry.contains_local(at) {
            return Err(SlotError::OutOfRange);
        }
        self.private.staged(at, self.ledger.taken())
    }

    #[inline]
    fn window(&self) -> &[AtomicU64] {
        let words = self.window.as_ref().map(Window::own_words).unwrap_or_default();
        let len = usize::try_from(self.geometry.window_words).unwrap_or(usize::MAX);
        words.get(..len).unwrap_or_default()
    }

    /// This owner's own words, of the unified memory model; those of others are beyond its loads.
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

impl Drop for Engine {
    fn drop(&mut self) {
        if thread::panicking() {
            // Others are not told but ended: to tell them, and to end what is in flight, MPI may
            // wait for them. Until this process ends MPI may write to what is in flight: nothing of
            // it is freed.
            self.runtime.fail();
            self.private.lose();
        } else {
            self.end_all();
        }
        if let Some(window) = self.window.take() {
            self.runtime.retire(self.name, window);
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("geometry", &self.geometry)
            .field("facts", &self.facts)
            .field("in_flight", &self.in_flight())
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}
