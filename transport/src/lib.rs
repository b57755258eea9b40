//! The contract between distributed structures and the one-sided transports that they run over.
//!
//! A [`Transport`] is a single-threaded engine. It owns all memory that its device may access, in
//! two kinds that are fixed when it is opened: *slots*, private landing and staging buffers, and a
//! *window*, this process's part of the shared memory, which every peer reads and changes with
//! READ, WRITE, compare-and-swap and fetch-and-add. An address is an owner and a word index. A word
//! has 8 bytes, so no address of an atomic is misaligned. Keys and raw addresses stay in a backend.
//!
//! An [`Exchange`] says who takes part, and makes the collective calls before and between phases of
//! one-sided work. Each backend has a builder of its own, which opens an engine with an exchange. A
//! [`Splitter`] divides an engine among several structures.
//!
//! A backend depends on this crate alone. The feature `conformance` has the suite that it must
//! pass, the feature `engine` code that backends share, the feature `dylib` loads their C libraries.
#![cfg_attr(not(any(test, feature = "conformance")), no_std)]
#![deny(unsafe_code)]

#[cfg(feature = "engine")]
extern crate alloc;
#[cfg(all(test, feature = "engine"))]
extern crate std;

mod address;
mod call;
mod caps;
#[cfg(feature = "conformance")]
pub mod conformance;
mod copy;
#[cfg(feature = "dylib")]
#[allow(unsafe_code, reason = "dlopen and dlsym")]
pub mod dylib;
#[cfg(feature = "engine")]
#[allow(unsafe_code, reason = "private memory and the clock of libc")]
pub mod engine;
mod error;
mod exchange;
mod fingerprint;
mod forward;
pub mod line;
mod own;
mod prefetch;
mod request;
mod splitter;

pub use address::{Owner, RemoteWord, Segment, Slot, SlotRange};
pub use call::{Call, Term};
pub use caps::{AtomicScope, Caps, Geometry, Sizes};
pub use copy::{begin_with, load_bytes, load_words, store_bytes, store_words};
pub use error::{ExchangeError, Exit, Fault, OpError, PostError, SetupError};
pub use exchange::{Alone, Exchange};
pub use fingerprint::Fingerprint;
pub use own::{OwnRead, read_own_window};
pub use prefetch::{prefetch, prefetch_far};
pub use request::{Completion, Request, Token};
pub use splitter::{Channel, Pending, Splitter, StableMemory};

use core::marker::PhantomData;
use core::sync::atomic::AtomicU64;

/// Bytes in a word, the unit of every address and length here.
pub const WORD_BYTES: usize = 8;
/// Words in a cache line. Slots start on one.
pub const LINE_WORDS: u32 = 8;
/// Bytes in a cache line, the alignment of slots.
pub const LINE_BYTES: usize = LINE_WORDS as usize * WORD_BYTES;
/// The maximum number of owners, which are the ranks of a job.
///
/// An owner keeps a connection to each other one: a queue pair, an endpoint or a mapping, and
/// rank 0 a socket to each. A backend may support fewer, and says so when it is opened.
pub const MAX_OWNERS: u32 = 4096;

/// Makes the type that contains it neither `Send` nor `Sync`: an engine stays on the thread that
/// opened it, where locks and libraries depend on the thread.
#[derive(Clone, Copy, Debug)]
pub struct OneThread(PhantomData<*const ()>);

impl OneThread {
    /// The only value.
    pub const NEW: Self = Self(PhantomData);
}

/// A one-sided engine: posts operations on the windows of all owners, and reports completions.
///
/// Every implementation guarantees the following, and `conformance` checks it:
/// - Each accepted operation completes exactly once, and only in [`poll`](Self::poll), even if the
///   engine dies. A refused post has no effect.
/// - Operations in flight are unordered. To order two, wait for the first one's completion, or rely
///   on [`Caps::write_then_atomic`].
/// - A completed WRITE or atomic is visible to every operation that any owner posts afterwards, and
///   to the owner's own loads no later than the next [`Exchange::barrier`]. To see it earlier there,
///   use [`read_own_window`].
/// - A READ of many words is many single-word reads at unspecified times between its post and its
///   completion, not a snapshot. [`Caps::word_reads_whole`] says whether each word is whole.
/// - Each word of a WRITE takes effect once: after an operation has seen it, it does not overwrite what another
///   operation stores in its place. The conformance suite cannot test this.
/// - An operation that completed in error may have taken effect, or may still take effect later.
/// - If an owner dies, or closes its engine while peers use theirs, the peers' engines die with
///   [`Fault::OwnerLost`], if [`Caps::names_lost_owners`]. An engine that is polled then notices the
///   loss within one second, also under traffic. A dead engine refuses posts with
///   [`PostError::Closed`]. To close without a fault, drop engines after a barrier.
/// - No call allocates or panics. None but [`drain`](Self::drain) blocks.
///
/// [`Request`] has an example of a post and its completion.
pub trait Transport {
    /// Returns the capabilities of this engine, which are fixed when it is opened.
    fn caps(&self) -> &Caps;

    /// Returns the numbers of owners, words and slots, which are fixed when it is opened.
    fn geometry(&self) -> &Geometry;

    /// Returns the number of operations accepted and not yet reported by [`poll`](Self::poll), at
    /// most [`Caps::depth`].
    fn in_flight(&self) -> u32;

    /// Posts an operation, which completes with `token`. The four methods below call it, and
    /// callers may call it directly: an implementation writes only this one.
    ///
    /// An engine refuses a request that [`Geometry::check`] refuses. Inline this method into its
    /// callers: the kind of the request is almost always a constant there.
    ///
    /// # Errors
    /// [`PostError::Full`] only if `depth` operations are in flight; an acceptable request is
    /// refused for no other reason while the engine lives. [`PostError::OutOfRange`] or
    /// [`PostError::UnknownOwner`] if the request can never be accepted; an engine at its depth may
    /// answer [`PostError::Full`] to that, too. [`PostError::Closed`] if the engine is dead.
    fn post(&mut self, token: Token, request: Request) -> Result<(), PostError>;

    /// Posts a [`Request::Read`].
    ///
    /// # Errors
    /// As for [`post`](Self::post).
    #[inline]
    fn read(&mut self, token: Token, from: Segment, into: SlotRange) -> Result<(), PostError> {
        self.post(token, Request::Read { from, into })
    }

    /// Posts a [`Request::Write`].
    ///
    /// # Errors
    /// As for [`post`](Self::post).
    #[inline]
    fn write(&mut self, token: Token, from: SlotRange, to: Segment) -> Result<(), PostError> {
        self.post(token, Request::Write { from, to })
    }

    /// Posts a [`Request::CompareAndSwap`].
    ///
    /// # Errors
    /// As for [`post`](Self::post).
    #[inline]
    fn compare_and_swap(
        &mut self,
        token: Token,
        at: RemoteWord,
        expected: u64,
        desired: u64,
    ) -> Result<(), PostError> {
        self.post(token, Request::CompareAndSwap { at, expected, desired })
    }

    /// Posts a [`Request::FetchAdd`].
    ///
    /// # Errors
    /// As for [`post`](Self::post).
    #[inline]
    fn fetch_add(&mut self, token: Token, at: RemoteWord, addend: u64) -> Result<(), PostError> {
        self.post(token, Request::FetchAdd { at, addend })
    }

    /// Rings the doorbell for everything posted so far; an engine without a device may execute the
    /// operations here. Polls do the same: the first one may start some of the operations, and the
    /// following ones the others.
    fn kick(&mut self);

    /// Moves completions into `out` and returns their number, 0 if there are none yet. Never
    /// blocks.
    ///
    /// # Errors
    /// [`Fault`] if the engine is dead and every accepted operation has been reported; the same
    /// fault on every later call.
    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, Fault>;

    /// Polls until nothing is in flight or the engine is dead, and drops the completions: they may have the tokens
    /// of the engine's next user. It waits as long as the operations take to complete, or to fail.
    fn drain(&mut self) {
        let mut dropped = [Completion::default(); 16];
        // A dead engine reports its fault to the next poll too.
        while self.in_flight() > 0 && self.poll(&mut dropped).is_ok() {}
    }

    /// Returns the words that READs have brought into a slot range. A slot starts on a cache line
    /// ([`LINE_BYTES`]).
    ///
    /// # Errors
    /// [`PostError::Busy`] while an operation on the slot is in flight, [`PostError::OutOfRange`]
    /// if the range is empty or not in a slot.
    fn landed(&self, at: SlotRange) -> Result<&[u64], PostError>;

    /// Returns a slot range to fill before a [`write`](Self::write) is posted from it. A slot starts
    /// on a cache line ([`LINE_BYTES`]).
    ///
    /// # Errors
    /// As for [`landed`](Self::landed).
    fn staged(&mut self, at: SlotRange) -> Result<&mut [u64], PostError>;

    /// Returns the part of the shared memory that this process owns, zero when the engine is opened.
    ///
    /// Loads and stores are always allowed. Peers see a store no later than the next barrier. A
    /// load returns a whole word if [`Caps::word_reads_whole`] promises it of READs.
    /// Read-modify-write instructions are allowed only if [`Caps::atomics`] is
    /// [`AtomicScope::Cpu`].
    fn window(&self) -> &[AtomicU64];

    /// Returns the words of `at` if the CPU can load and store them, under the rules of
    /// [`window`](Self::window); `None` if it cannot.
    fn direct(&self, at: Segment) -> Option<&[AtomicU64]>;
}
