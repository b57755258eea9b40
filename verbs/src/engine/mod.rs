//! The transport over verbs: an engine with a queue pair to every owner, its own included.
//!
//! Atomics of a device are atomic with its own only, so an owner's operations on its own window go
//! through the device as all others do, over a queue pair that is connected to another one here.
//!
//! # Thread rules
//! An engine may be sent to another thread and is used by one at a time, which the compiler sees
//! to. Several threads of a process each open an engine of their own, as members of the exchange.
//!
//! ```
//! fn send<T: Send>() {}
//! send::<probeline_verbs::Engine>();
//! ```
//! ```compile_fail,E0277
//! fn sync<T: Sync>() {}
//! sync::<probeline_verbs::Engine>();
//! ```
//!
//! # Losing an owner
//! An owner that leaves tells the others by a WRITE, which they see with their next poll. One that
//! is killed or cut off answers no more: an operation on its window fails within
//! [`Retry::bound`](crate::Retry::bound), up to four times as long where the device takes its time.
//! An engine that has posted nothing there asks after it by a READ, so that it hears of it too. All
//! owners have their turn, one a millisecond, or less often where askings would take more than a
//! 64th of the time; but the pauses of a round of turns add up to an eighth of the bound at most, or
//! to a millisecond for each owner. One to whom something was posted since its last turn is passed
//! over. Hence an owner that is lost while nothing goes there is noticed two rounds later than one
//! in use. The engine looks at the clock every 256 polls. A device that leaves an asking, or after a
//! fault what is in flight, unanswered for four times the bound and 5 s is taken for dead itself:
//! [`Fault::System`].

mod builder;
mod control;
mod deadline;
mod farewell;
mod hello;
mod lane;
mod ledger;
mod link;
mod open_error;
mod opening;
mod pace;
mod private;
mod reports;
mod self_test;
mod watch;

pub use builder::Builder;
pub use link::Link;
pub use open_error::OpenError;
pub use self_test::SelfTestFailed;

use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::AtomicU64;

use probeline_transport::{
    Caps, Completion, Fault, Geometry, Local, OpError, Owner, PostError, RemoteWord, Segment,
    SlotError, Token, Transport,
};

use crate::{LocalRange, PostFailed, RemoteAddress, WorkCompletion, WorkRequest};
use control::control_words;
use deadline::{Deadline, now};
use lane::BATCH;
use ledger::{Entry, Kind, Ledger};
use opening::Parts;
use pace::Pace;

/// Requests of the engine itself on one queue pair: one that asks after the owner, two on leaving.
const SPARE_REQUESTS: u32 = 3;
/// The name of the request that asks after an owner, beyond every index of the ledger.
const ASKING: u64 = 1 << 32;

/// An open engine of one owner.
///
/// What has landed can be looked at until the next call that may change it:
///
/// ```compile_fail,E0502
/// use probeline_transport::{Local, Segment, Token, Transport};
/// fn look(engine: &mut probeline_verbs::Engine, from: Segment, into: Local) -> Option<u64> {
///     let words = engine.landed(into).ok()?;
///     engine.read(Token(0), from, into).ok()?;
///     words.first().copied()
/// }
/// ```
///
/// Dropping it while peers still use theirs ends theirs with [`Fault::OwnerLost`]. Dropping waits
/// for one second at most in order to tell them, and then for the kernel to destroy what was made.
pub struct Engine {
    caps: Caps,
    geometry: Geometry,
    link: Link,
    parts: Parts,
    control_words: usize,
    ledger: Ledger,
    /// Owners whose lanes have collected requests, each once.
    waiting: Vec<u32>,
    /// Operations that the device refused to take, and why it did the last time.
    refused: Vec<u32>,
    refusal: OpError,
    /// Completions on their way to the caller.
    ends: [WorkCompletion; BATCH],
    polls: u32,
    /// Whose turn was the last to be asked after, when the next is, and by when an answer has to
    /// come.
    turn: u32,
    pace: Pace,
    asking: Option<Deadline>,
    fault: Option<Fault>,
    /// When what is in flight has to have ended, once there is a fault.
    closing: Option<Deadline>,
    /// The completion queue tells nothing any more.
    silent: bool,
    #[cfg(feature = "pin")]
    policy_refused: Option<probeline_pin::PolicyRefused>,
}

impl Engine {
    fn new(caps: Caps, geometry: Geometry, link: Link, parts: Parts) -> Self {
        let (owners, depth) = (geometry.owners as usize, caps.depth as usize);
        Self {
            control_words: usize::try_from(control_words(geometry.owners)).unwrap_or(usize::MAX),
            ledger: Ledger::new(caps.depth),
            waiting: Vec::with_capacity(owners),
            refused: Vec::with_capacity(depth),
            refusal: OpError::Flushed,
            ends: [WorkCompletion::default(); BATCH],
            polls: 0,
            turn: geometry.me.0,
            pace: Pace::new(geometry.owners, link.retry.bound(), now()),
            asking: None,
            fault: None,
            closing: None,
            silent: false,
            #[cfg(feature = "pin")]
            policy_refused: None,
            caps,
            geometry,
            link,
            parts,
        }
    }

    /// How this owner is connected.
    #[must_use]
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// The NUMA policy that was requested for this owner's memory and refused, by a container or by
    /// a kernel without NUMA.
    #[cfg(feature = "pin")]
    #[must_use]
    pub fn policy_refused(&self) -> Option<probeline_pin::PolicyRefused> {
        self.policy_refused
    }

    /// Refuses what cannot be accepted now or ever; `request` is the check of the request itself.
    #[inline]
    fn admit(&self, request: Result<(), PostError>) -> Result<(), PostError> {
        if self.fault.is_some() {
            return Err(PostError::Closed);
        }
        request?;
        if self.ledger.is_full() { Err(PostError::Full) } else { Ok(()) }
    }

    /// Enters a READ or WRITE between two checked ranges and collects its request.
    #[inline]
    fn copy(
        &mut self,
        token: Token,
        remote: Segment,
        local: Local,
        request: impl FnOnce(&Self, u64, RemoteAddress, LocalRange) -> WorkRequest,
    ) -> Result<(), PostError> {
        self.admit(self.geometry.check_copy(&self.caps, remote, local))?;
        let owner = remote.start.owner;
        let at = self.window_of(owner, remote.start.index, remote.words)?;
        let range = self.parts.private.hold(local).ok_or(PostError::OutOfRange)?;
        let kind = Kind::Copy(local.slot);
        let Some(index) = self.ledger.enter(Entry { token, owner, kind }) else {
            self.parts.private.release(local.slot);
            return Err(PostError::Full);
        };
        let request = request(self, index.into(), at, range);
        self.collect(owner, &request);
        Ok(())
    }

    /// Enters an atomic and collects its request.
    #[inline]
    fn atomic(
        &mut self,
        token: Token,
        at: RemoteWord,
        request: impl FnOnce(u64, RemoteAddress, LocalRange) -> WorkRequest,
    ) -> Result<(), PostError> {
        self.admit(self.geometry.check_word(at))?;
        let address = self.window_of(at.owner, at.index, 1)?;
        let entry = Entry { token, owner: at.owner, kind: Kind::Atomic };
        let index = self.ledger.enter(entry).ok_or(PostError::Full)?;
        let Some(into) = self.parts.private.result(index) else {
            self.ledger.strike(index);
            return Err(PostError::Full);
        };
        self.collect(at.owner, &request(index.into(), address, into));
        Ok(())
    }

    #[inline]
    fn window_of(&self, owner: Owner, index: u64, words: u32) -> Result<RemoteAddress, PostError> {
        let lane = self.parts.lanes.get(owner.0 as usize).ok_or(PostError::UnknownOwner)?;
        lane.window(index, words).ok_or(PostError::OutOfRange)
    }

    /// Collects a request for the next doorbell, or rings it first where the list is full.
    #[inline]
    fn collect(&mut self, owner: Owner, request: &WorkRequest) {
        let Some(lane) = self.parts.lanes.get_mut(owner.0 as usize) else {
            return self.broken("a request has no lane");
        };
        if lane.collected() == 0 {
            // As many as there are lanes at most, for which there is room.
            self.waiting.push(owner.0);
        }
        if lane.push(request) {
            return;
        }
        self.ring(owner);
        let lane = self.parts.lanes.get_mut(owner.0 as usize);
        if !lane.is_some_and(|lane| lane.push(request)) {
            self.broken("a request found no room behind a doorbell");
        }
    }

    /// Rings the doorbell of one lane.
    #[inline]
    fn ring(&mut self, owner: Owner) {
        let Some(lane) = self.parts.lanes.get_mut(owner.0 as usize) else {
            return self.broken("a doorbell has no lane");
        };
        let refused = &mut self.refused;
        let rung = lane.ring(|id| match u32::try_from(id) {
            // At most the number of entries, for which there is room.
            Ok(index) => refused.push(index),
            Err(_) => debug_assert!(false, "only operations of the ledger are collected: {id}"),
        });
        if let Err(failed) = rung {
            self.not_posted(owner, failed);
        }
    }

    /// The device has refused requests on their way to `owner`.
    #[cold]
    fn not_posted(&mut self, owner: Owner, failed: PostFailed) {
        let errno = failed.errno;
        self.refusal = OpError::NotPosted { errno };
        self.fail(owner, self.refusal);
        if failed.in_doubt {
            // It may carry them out all the same and never say so.
            self.fall_silent(Fault::System { errno });
        }
    }

    /// Handles an impossible state, in which the operations in flight are no longer known. The
    /// engine faults and completes all of them itself.
    #[cold]
    fn broken(&mut self, what: &'static str) {
        debug_assert!(false, "{what}");
        self.fall_silent(Fault::System { errno: libc::ENOTRECOVERABLE });
    }

    /// An operation on the window of `owner` has failed: the engine is dead.
    #[cold]
    fn fail(&mut self, owner: Owner, error: OpError) {
        if let Some(lane) = self.parts.lanes.get_mut(owner.0 as usize) {
            lane.dead = true;
        }
        self.fault.get_or_insert(match error {
            OpError::RetryExceeded => Fault::OwnerLost(owner),
            error => Fault::Operation { owner, error },
        });
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
        self.copy(token, from, into, |_, id, from, into| WorkRequest::read(id, from, into))
    }

    #[inline]
    fn write(&mut self, token: Token, from: Local, to: Segment) -> Result<(), PostError> {
        self.copy(token, to, from, |engine, id, to, range| {
            let carried = engine.parts.private.carried(from, engine.link.inline_words);
            let words = carried.as_ref().and_then(|words| words.get(..from.words as usize));
            let inline = words.and_then(|words| WorkRequest::write_inline(id, words, to));
            inline.unwrap_or_else(|| WorkRequest::write(id, range, to))
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
        self.atomic(token, at, |id, at, into| {
            WorkRequest::compare_and_swap(id, at, expected, desired, into)
        })
    }

    #[inline]
    fn fetch_add(&mut self, token: Token, at: RemoteWord, addend: u64) -> Result<(), PostError> {
        self.atomic(token, at, |id, at, into| WorkRequest::fetch_add(id, at, addend, into))
    }

    #[inline]
    fn kick(&mut self) {
        while let Some(owner) = self.waiting.pop() {
            self.ring(Owner(owner));
        }
    }

    #[inline]
    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, Fault> {
        self.kick();
        let (mut reported, all) = self.reap(out);
        self.watch(all);
        if let Some(fault) = self.fault {
            self.close(all);
            reported += self.report_unheard(out.get_mut(reported..).unwrap_or_default());
            if reported == 0 && self.ledger.len() == 0 {
                return Err(fault);
            }
        }
        Ok(reported)
    }

    #[inline]
    fn landed(&self, at: Local) -> Result<&[u64], SlotError> {
        if !self.geometry.contains_local(at) {
            return Err(SlotError::OutOfRange);
        }
        self.parts.private.landed(at)
    }

    #[inline]
    fn staged(&mut self, at: Local) -> Result<&mut [u64], SlotError> {
        if !self.geometry.contains_local(at) {
            return Err(SlotError::OutOfRange);
        }
        self.parts.private.staged(at)
    }

    #[inline]
    fn window(&self) -> &[AtomicU64] {
        let words = self.parts.window.words().get(self.control_words..).unwrap_or_default();
        let len = usize::try_from(self.geometry.window_words).unwrap_or(usize::MAX);
        words.get(..len).unwrap_or_default()
    }

    /// This owner's own words; those of others are beyond its loads.
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
        self.kick();
        self.notify_shutdown();
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("geometry", &self.geometry)
            .field("link", &self.link)
            .field("in_flight", &self.in_flight())
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}
