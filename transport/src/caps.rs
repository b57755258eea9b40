//! The capabilities and sizes of an engine, fixed when it is opened.

use crate::{LINE_WORDS, Owner};

/// The atomic accesses with which the transport's are atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicScope {
    /// Coherent with the CPU's own atomic instructions. A store of the CPU to words that it addresses
    /// ([`Transport::direct`](crate::Transport::direct)) is visible to operations that are posted after a SeqCst fence
    /// that follows it, and a load after an acquire fence sees every WRITE or atomic that had completed before.
    Cpu,
    /// Atomic only with those posted through this transport, also by the owner itself.
    ///
    /// A compare-and-swap that fails must not write the word. If it wrote the old value back, it
    /// could undo a concurrent store by the owner's CPU; a table's `retain` makes such stores. See
    /// `firmware-notes/failed-compare-and-swap.md`.
    Device,
}

/// The capabilities of an engine. The conformance suite tests each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// The maximum number of operations in flight.
    pub depth: u32,
    /// The accesses with which the transport's atomics are atomic.
    pub atomics: AtomicScope,
    /// Words in the longest READ or WRITE.
    pub words_per_op: u32,
    /// A READ never returns a word that is half old, half new. Neither InfiniBand nor PCIe promises
    /// it.
    pub word_reads_whole: bool,
    /// An atomic takes effect after every WRITE that was posted before it to the same owner, if the
    /// WRITE succeeds: a reader of the atomic's effect also reads the WRITE. RC queue pairs promise it
    /// (InfiniBand specification, volume 1, 10.8.3.3); UCX and MPI do not without a flush.
    ///
    /// If it is false, wait for the WRITE's completion before posting the atomic.
    pub write_then_atomic: bool,
    /// If an owner dies or closes its engine, the engines of its peers notice it and end with
    /// [`Fault::OwnerLost`](crate::Fault::OwnerLost). Where it is false, operations on that owner may
    /// wait for as long as the transport states, and end the engine then, or may succeed.
    pub names_lost_owners: bool,
    /// Peers' operations stall unless the owner of the words polls.
    pub needs_owner_progress: bool,
    /// A poll may wait for the owner of the words (MPI atomics).
    pub poll_may_wait: bool,
}

/// The numbers of owners, words and slots. Windows and slots are of one size for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The owner that this process is.
    pub me: Owner,
    /// The number of owners.
    pub owners: u32,
    /// Words in each owner's window.
    pub window_words: u64,
    /// Private slots of this engine.
    pub slots: u32,
    /// Words in each slot, a multiple of 8.
    pub slot_words: u32,
}

/// The sizes that a structure needs of an engine; builders of engines take them. Several structures
/// on one engine need the [`sum`](Self::plus) of theirs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Words in each owner's window.
    pub window_words: u64,
    /// Private slots.
    pub slots: u32,
    /// Words in each slot, a multiple of 8.
    pub slot_words: u32,
    /// Operations in flight ([`Caps::depth`]).
    pub depth: u32,
}

impl Sizes {
    /// Creates sizes: a window of `window_words` words, 64 slots of 64 words and depth 64.
    #[must_use]
    pub const fn new(window_words: u64) -> Self {
        Self { window_words, slots: 64, slot_words: 64, depth: 64 }
    }

    /// Returns the same sizes with this number of private slots, of `words_each` words, a multiple of
    /// 8.
    #[must_use]
    pub const fn with_slots(self, slots: u32, words_each: u32) -> Self {
        Self { slots, slot_words: words_each, ..self }
    }

    /// Returns the same sizes with at most `depth` operations in flight.
    #[must_use]
    pub const fn with_depth(self, depth: u32) -> Self {
        Self { depth, ..self }
    }

    /// Returns the geometry of an engine of these sizes, which `me` opens in a job of `owners`.
    #[must_use]
    pub const fn geometry(&self, me: Owner, owners: u32) -> Geometry {
        let Self { window_words, slots, slot_words, .. } = *self;
        Geometry { me, owners, window_words, slots, slot_words }
    }

    /// Returns the sizes of an engine that serves both: windows, slots and depths added, the longer
    /// slots. The other's part of a window starts on a cache line.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        let slot_words =
            if self.slot_words > other.slot_words { self.slot_words } else { other.slot_words };
        Self {
            window_words: whole_lines(self.window_words).saturating_add(other.window_words),
            slots: self.slots.saturating_add(other.slots),
            slot_words,
            depth: self.depth.saturating_add(other.depth),
        }
    }
}

/// Returns `words`, rounded up to whole lines.
const fn whole_lines(words: u64) -> u64 {
    words.saturating_add(LINE_WORDS as u64 - 1) & !(LINE_WORDS as u64 - 1)
}
