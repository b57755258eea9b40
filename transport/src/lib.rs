//! The contract between a table and the one-sided transports it runs over.
//!
//! A [`Transport`] is a single-threaded engine, one a thread. It owns every byte its device may
//! touch, in two kinds of memory fixed when it is opened: *slots*, private landing and staging
//! buffers aligned to 64 bytes, and a *window*, this process's part of the shared memory, which
//! every peer reads and changes with READ, WRITE, compare-and-swap and fetch-and-add. Addresses
//! are (owner, word index); a word is 8 bytes, so a misaligned atomic cannot be written down, and
//! keys and raw addresses never leave a backend.
//!
//! An [`Exchange`] is who takes part, and the collective calls made before and between phases of
//! one-sided work. Opening a backend is not part of the contract: each has a builder of its own
//! that takes an `Exchange`.
//!
//! Depend on this crate alone to write a backend; the suite that every backend passes is
//! `conformance`, behind the feature of that name.
#![cfg_attr(not(any(test, feature = "conformance")), no_std)]
#![deny(unsafe_code)]

mod address;
mod caps;
mod completion;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod exchange;
mod forward;
mod own;
mod post;
mod splitter;

pub use address::{Local, Owner, RemoteWord, Segment, Slot};
pub use caps::{AtomicScope, Caps, Geometry, Sizes};
pub use completion::{Completion, Token};
pub use error::{ExchangeError, Fault, OpError, PostError, SlotError};
pub use exchange::{Alone, Exchange};
pub use own::{OwnRead, read_own};
pub use splitter::{Channel, Pending, SplitError, Splitter, StableMemory};

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

/// A one-sided engine: posts operations on the windows of all owners and polls for their ends.
///
/// What every implementation promises, and `conformance` checks:
/// - every accepted operation completes exactly once, only in [`poll`](Self::poll), even if the
///   engine dies; a rejected post leaves no trace;
/// - operations in flight are unordered; to order two, wait for the first one's completion;
/// - a completed WRITE or atomic is seen by every operation that anyone posts afterwards, and by
///   the owner's own loads no later than the next [`Exchange::barrier`];
/// - a READ of many words is many single-word reads at unspecified times between its post and
///   its completion, not a snapshot. Whether each word is whole is [`Caps::word_reads_whole`];
/// - an operation that completed in error may have taken effect, or may still take effect later;
/// - an owner that closes its engine while peers still use it ends their engines with
///   [`Fault::OwnerLost`]: part after a barrier;
/// - no call allocates, blocks or panics.
pub trait Transport {
    /// What this engine can do; fixed when it was opened.
    fn caps(&self) -> &Caps;

    /// How many owners, words and slots there are; fixed when it was opened.
    fn geometry(&self) -> &Geometry;

    /// Operations accepted and not yet reported by [`poll`](Self::poll), at most [`Caps::depth`].
    fn in_flight(&self) -> u32;

    /// Posts a READ of `from` into the slot range `into` of the same length.
    ///
    /// Two READs in flight may land in one slot; that their ranges do not overlap is the
    /// caller's duty (overlap gives wrong data, nothing worse).
    ///
    /// # Errors
    /// [`PostError::Full`] if and only if `depth` operations are in flight; otherwise the reason
    /// that the request can never be accepted. Nothing was started.
    fn read(&mut self, token: Token, from: Segment, into: Local) -> Result<(), PostError>;

    /// Posts a WRITE of the slot range `from` to `to`, of the same length.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    fn write(&mut self, token: Token, from: Local, to: Segment) -> Result<(), PostError>;

    /// Posts a compare-and-swap: where the word at `at` equals `expected` it becomes `desired`. If
    /// the comparison fails, the word is not written, not even with its old value. The completion
    /// carries the old value in both cases.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    fn compare_and_swap(
        &mut self,
        token: Token,
        at: RemoteWord,
        expected: u64,
        desired: u64,
    ) -> Result<(), PostError>;

    /// Posts a fetch-and-add, wrapping at 2^64. The completion carries the word's old value.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    fn fetch_add(&mut self, token: Token, at: RemoteWord, addend: u64) -> Result<(), PostError>;

    /// Rings the doorbell for everything posted so far. [`poll`](Self::poll) implies it.
    fn kick(&mut self);

    /// Moves finished operations into `out` and says how many; 0 means nothing yet. Never blocks.
    ///
    /// # Errors
    /// [`Fault`] when the engine is dead, only after every accepted operation was reported; the
    /// same fault on every later call.
    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, Fault>;

    /// What READs have brought into a slot range.
    ///
    /// # Errors
    /// [`SlotError::Busy`] while any operation on the slot is in flight; out of range otherwise.
    fn landed(&self, at: Local) -> Result<&[u64], SlotError>;

    /// A slot range to fill before a [`write`](Self::write) is posted from it.
    ///
    /// # Errors
    /// As for [`landed`](Self::landed).
    fn staged(&mut self, at: Local) -> Result<&mut [u64], SlotError>;

    /// The part of the shared memory this process owns, zero when the engine is opened.
    ///
    /// Plain loads and stores are always allowed; the peers see a store no later than the next
    /// barrier. A load brings a word whole where [`Caps::word_reads_whole`] says so of READs. Read-modify-write on it only where [`Caps::atomics`] is [`AtomicScope::Cpu`].
    fn window(&self) -> &[AtomicU64];

    /// The words of `at` where the CPU reaches them by load and store, under the same rule as
    /// [`window`](Self::window); `None` where it does not.
    fn direct(&self, at: Segment) -> Option<&[AtomicU64]>;
}
