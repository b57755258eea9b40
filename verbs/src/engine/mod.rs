//! The transport over verbs: an engine with a queue pair to every owner, its own included.
//!
//! Atomics of a device may be atomic only with each other, so an owner's operations on its own
//! window go through the device as all others do, over a queue pair that is connected to another
//! one of the same engine.
//!
//! # Threads
//! An engine may be sent to another thread and is used by one thread at a time, which the compiler
//! checks. Several threads of a process each open an engine, as members of the exchange.
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
//! An owner that shuts down notifies its peers by a WRITE, which they see at their next poll. If an
//! owner is killed or disconnected, an operation on its window fails within
//! [`Retry::bound`](crate::Retry::bound), or up to four times that on slow devices. An engine that
//! has posted nothing to an owner since that owner's last turn sends it a keepalive, a READ of one
//! word, so that it notices the loss too. Owners have turns at intervals of 1 ms, or longer ones if
//! keepalives would take more than 1/64 of the time; the intervals of one round add up to at most
//! 1/8 of the bound, or to 1 ms for each owner. An idle lost owner is thus noticed two rounds later
//! than one in use. The engine reads the clock every 256 polls. If a device does not complete a
//! keepalive, or after a fault the operations in flight, within four times the bound and 5 s, the
//! device itself has failed: [`Fault::System`].

mod builder;
mod connection;
mod connection_info;
mod error;
mod keepalive;
mod open;
mod poll;
mod private;
mod self_test;
mod shutdown;

pub use builder::Builder;
pub use error::OpenError;
pub use open::MAX_DEPTH;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::AtomicU64;
use core::time::Duration;

use probeline_transport::engine::{Deadline, Ledger, Operation, monotonic_now, own_words};
use probeline_transport::{
    Caps, Completion, Fault, Geometry, OpError, Owner, PostError, RemoteWord, Request, Segment,
    SlotRange, StableMemory, Token, Transport,
};

use crate::{AtomicCapability, GidEntry, LinkLayer, Path, PostFailed, WorkCompletion, WorkRequest};
use connection::{BATCH, control_words};
use keepalive::Keepalive;
use open::Parts;

/// The number of work requests that the engine itself has outstanding on a queue pair at most: a
/// keepalive, and two of a shutdown.
const OWN_REQUESTS: u32 = 3;
/// The ID of a keepalive's work request, above the indices of operations.
const KEEPALIVE_WR_ID: u64 = 1 << 32;
/// The time for which the engine waits for a device beyond its timers, because the machine may be
/// busy.
const DEVICE_PATIENCE: Duration = Duration::from_secs(5);

/// An open engine of one owner.
///
/// Landed words can be read until the next call that may change them:
///
/// ```compile_fail,E0502
/// use probeline_transport::{Segment, SlotRange, Token, Transport};
/// fn first_word(engine: &mut probeline_verbs::Engine, from: Segment, into: SlotRange) -> Option<u64> {
///     let words = engine.landed(into).ok()?;
///     engine.read(Token(0), from, into).ok()?;
///     words.first().copied()
/// }
/// ```
///
/// If an engine is dropped while peers still use theirs, those fail with [`Fault::OwnerLost`].
/// Dropping waits at most one second to notify the peers, and then for the kernel to destroy the
/// device's objects.
pub struct Engine {
    caps: Caps,
    geometry: Geometry,
    link: Link,
    parts: Parts,
    control_words: usize,
    ledger: Ledger,
    /// Owners whose connections have requests for the next doorbell, each once.
    pending: Vec<u32>,
    /// Operations that the device has not taken, and the error of the last one.
    not_posted: Vec<u32>,
    post_error: OpError,
    /// The buffer for polling the device.
    polled: [WorkCompletion; BATCH],
    keepalive: Keepalive,
    fault: Option<Fault>,
    /// The deadline for the device to complete the operations in flight after a fault.
    drain_deadline: Option<Deadline>,
    /// Whether the device has stopped reporting completions.
    device_silent: bool,
    #[cfg(feature = "pin")]
    policy_refused: Option<probeline_pin::Error>,
}

impl Engine {
    fn new(caps: Caps, geometry: Geometry, link: Link, parts: Parts) -> Self {
        let (owners, depth) = (geometry.owners as usize, caps.depth as usize);
        Self {
            control_words: usize::try_from(control_words(geometry.owners)).unwrap_or(usize::MAX),
            ledger: Ledger::new(caps.depth),
            pending: Vec::with_capacity(owners),
            not_posted: Vec::with_capacity(depth),
            post_error: OpError::Flushed,
            polled: [WorkCompletion::default(); BATCH],
            keepalive: Keepalive::new(geometry, link.path.retry.bound(), monotonic_now()),
            fault: None,
            drain_deadline: None,
            device_silent: false,
            #[cfg(feature = "pin")]
            policy_refused: None,
            caps,
            geometry,
            link,
            parts,
        }
    }

    /// Returns the connection parameters of this owner.
    #[must_use]
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Returns the NUMA policy that was requested for this owner's memory and refused, by a
    /// container or by a kernel without NUMA.
    #[cfg(feature = "pin")]
    #[must_use]
    pub fn policy_refused(&self) -> Option<&probeline_pin::Error> {
        self.policy_refused.as_ref()
    }

    /// Posts the operation. `None` if it is refused, which has no effect.
    #[inline(always)]
    fn try_post(&mut self, token: Token, request: &Request) -> Option<()> {
        let Segment { start: RemoteWord { owner, index }, words } = request.remote();
        let mut connection = self.parts.connections.get_mut(owner.0 as usize)?;
        // After a fault the window has no words.
        connection.window.contains(index, words).then_some(())?;
        let place = self.ledger.vacant()?;
        let private = &mut self.parts.private;
        let local = match request.local() {
            Some(local) if local.words != words => return None,
            Some(local) => private.hold(local)?,
            None => private.result_range(place.index()),
        };
        let id = place.index().into();
        place.insert(Operation::new(token, request));
        if !connection.has_room() {
            self.make_room(owner);
            // Looked up again, because `make_room` borrows the whole engine.
            connection = self.parts.connections.get_mut(owner.0 as usize)?;
        }
        let (private, remote) = (&self.parts.private, connection.window.address(index));
        let pushed = connection.push(&match *request {
            Request::Read { .. } => WorkRequest::read(id, remote, local),
            Request::Write { from, .. } => {
                private.write_request(id, (from, local), remote, self.link.inline_words)
            }
            Request::CompareAndSwap { expected, desired, .. } => {
                WorkRequest::compare_and_swap(id, remote, expected, desired, local)
            }
            Request::FetchAdd { addend, .. } => WorkRequest::fetch_add(id, remote, addend, local),
        });
        if !pushed {
            self.broken("a request found no room behind a doorbell");
        }
        Some(())
    }

    /// Returns the reason why [`try_post`](Self::try_post) has refused a request, of which `check`
    /// is the result of [`Geometry::check`].
    #[cold]
    #[inline(never)]
    fn refusal(&self, check: Result<(), PostError>) -> PostError {
        match check {
            _ if self.fault.is_some() => PostError::Closed,
            Err(error) => error,
            Ok(()) if self.ledger.is_full() => PostError::Full,
            // A peer's window is shorter than the peer has said.
            Ok(()) => PostError::OutOfRange,
        }
    }

    /// Makes room in the list of the connection to `owner`, which has no request or is full.
    #[inline(never)]
    fn make_room(&mut self, owner: Owner) {
        match self.parts.connections.get(owner.0 as usize) {
            // Each owner is in `pending` at most once, so the capacity suffices.
            Some(connection) if connection.is_idle() => self.pending.push(owner.0),
            _ => self.ring_doorbell(owner),
        }
        if let Some(connection) = self.parts.connections.get_mut(owner.0 as usize) {
            connection.make_room();
        }
    }

    /// Rings the doorbell of the connection to `owner`.
    #[inline]
    fn ring_doorbell(&mut self, owner: Owner) {
        let Some(connection) = self.parts.connections.get_mut(owner.0 as usize) else {
            return self.broken("a doorbell has no connection");
        };
        let not_posted = &mut self.not_posted;
        let rung = connection.ring_doorbell(|id| match u32::try_from(id) {
            // Each operation in the ledger is in it at most once, so the capacity suffices.
            Ok(index) => not_posted.push(index),
            Err(_) => debug_assert!(false, "only operations of the ledger are in lists: {id}"),
        });
        if let Err(failed) = rung {
            self.post_failed(owner, failed);
        }
    }

    /// Records that the device has refused requests to `owner`.
    #[cold]
    fn post_failed(&mut self, owner: Owner, failed: PostFailed) {
        let errno = failed.errno;
        self.post_error = OpError::NotPosted { errno };
        self.fail(owner, self.post_error);
        if failed.in_doubt {
            // The device may execute these requests nevertheless, and never report them.
            self.give_up_device(Fault::System { errno });
        }
    }
}

// SAFETY: slots and window are registered memory outside the engine, which keeps its address until
// it is deregistered. The engine refers to its words by address or as atomics, and to a slot's as
// plain words in `landed` and `staged` alone.
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
        self.ledger.len()
    }

    #[inline(always)]
    fn post(&mut self, token: Token, request: Request) -> Result<(), PostError> {
        // The check is inlined: a call would keep the request in memory.
        match self.try_post(token, &request) {
            Some(()) => Ok(()),
            None => Err(self.refusal(self.geometry.check(&self.caps, &request))),
        }
    }

    #[inline]
    fn kick(&mut self) {
        while let Some(owner) = self.pending.pop() {
            self.ring_doorbell(Owner(owner));
        }
    }

    #[inline]
    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, Fault> {
        self.kick();
        let (mut reported, drained) = self.poll_device(out);
        self.watch(drained);
        if let Some(fault) = self.fault {
            self.drain(drained);
            reported += self.report_lost(out.get_mut(reported..).unwrap_or_default());
            if reported == 0 && self.ledger.is_empty() {
                return Err(fault);
            }
        }
        Ok(reported)
    }

    #[inline]
    fn landed(&self, at: SlotRange) -> Result<&[u64], PostError> {
        self.parts.private.slots.landed(at, u64::MAX)
    }

    #[inline]
    fn staged(&mut self, at: SlotRange) -> Result<&mut [u64], PostError> {
        self.parts.private.slots.staged(at, u64::MAX)
    }

    #[inline]
    fn window(&self) -> &[AtomicU64] {
        let words = self.parts.window.words().get(self.control_words..).unwrap_or_default();
        let len = usize::try_from(self.geometry.window_words).unwrap_or(usize::MAX);
        words.get(..len).unwrap_or_default()
    }

    #[inline]
    fn direct(&self, at: Segment) -> Option<&[AtomicU64]> {
        own_words(&self.geometry, self.window(), at)
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

/// The connection parameters of this owner: the options of its builder, and the values that the
/// owners have negotiated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The name of the device.
    pub device: String,
    /// The link layer of the port.
    pub link_layer: LinkLayer,
    /// The address of the port.
    pub gid: GidEntry,
    /// The index of the partition key in the port's table.
    pub pkey_index: u16,
    /// The parameters of all connections: the options, and the lowest MTU and number of outstanding
    /// READs and atomics of all owners.
    pub path: Path,
    /// The scope of the device's atomics.
    pub atomics: AtomicCapability,
    /// The maximum number of words that a WRITE carries inline.
    pub inline_words: u32,
    /// The number of queue pairs of this owner.
    pub queue_pairs: u32,
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GidEntry { index, gid, kind } = self.gid;
        write!(
            f,
            "{}, port {}, {}, GID {index} {gid}",
            self.device, self.path.port, self.link_layer
        )?;
        if self.link_layer == LinkLayer::Ethernet {
            write!(f, " ({kind})")?;
        }
        let extras = [
            ("partition key", u32::from(self.pkey_index)),
            ("service level", self.path.service_level.into()),
            ("traffic class", self.path.traffic_class.into()),
        ];
        for (what, value) in extras.into_iter().filter(|(_, value)| *value != 0) {
            write!(f, ", {what} {value}")?;
        }
        write!(
            f,
            ", MTU {}, {} READs or atomics outstanding on each of {} queue pairs, {}, WRITE \
             inline up to {} B, atomics with {}",
            self.path.mtu,
            self.path.rd_atomic,
            self.queue_pairs,
            self.path.retry,
            self.inline_words * 8,
            match self.atomics {
                AtomicCapability::Global => "the CPU too",
                AtomicCapability::Device | AtomicCapability::None => "this device's own only",
            }
        )
    }
}
