//! The private memory of an engine: its slots, and the words that receive the old values of
//! atomics.
//!
//! The engine allocates it itself. [`Slots`] shows an idle slot as plain words, which is sound only
//! while no other code can access them: see [`Allocation`].

use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use probeline_transport::SetupError;
use probeline_transport::engine::setup::random;
use probeline_transport::engine::{InFlight, Memory as HeapMemory, PrivateMemory, Releases, Slots};
use probeline_transport::{LINE_BYTES, LINE_WORDS, Sizes, SlotRange};
use volatile::VolatilePtr;
use volatile::access::ReadOnly;

use super::OpenError;
use crate::memory::LocalBlocks;
use crate::{
    Access, INLINE_WORDS, LocalRange, Memory, MemoryRegion, ProtectionDomain, RemoteAddress,
    WorkRequest,
};

/// The words of the engine itself, which precede the results.
const OWN_WORDS: u64 = LINE_WORDS as u64;

/// Returns the words before slot 0: those of the engine itself, and a result for each operation in
/// flight.
fn words_before_slots(depth: u32) -> u64 {
    OWN_WORDS + u64::from(depth).next_multiple_of(LINE_WORDS.into())
}

/// A word of the engine itself.
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
pub(super) enum OwnWord {
    /// Receives the word that a keepalive reads.
    Keepalive = 0,
    /// Holds the word that a shutdown writes to the peers.
    Shutdown = 1,
    /// Receives the results of the self-test.
    SelfTest = 2,
}

/// Memory that an engine has allocated for itself. No other code holds a reference to it, and no
/// reference can be copied from it: while the device does not access a word, this value is the only
/// way to the word.
#[derive(Debug)]
pub(super) enum Allocation {
    Heap(HeapMemory),
    #[cfg(feature = "pin")]
    Mapped(probeline_pin::Mapping),
}

impl Allocation {
    pub(super) fn on_heap(words: usize) -> Result<Self, OpenError> {
        Ok(Self::Heap(HeapMemory::new(words).ok_or(SetupError::NO_SLOT_MEMORY)?))
    }
}

// SAFETY: moving the value moves its words in neither variant, and both return the same words each
// time.
unsafe impl Memory for Allocation {
    fn words(&self) -> &[AtomicU64] {
        match self {
            // SAFETY: initialised words of the allocation, which is as long-lived as the value. An
            // AtomicU64 has the layout of a u64.
            Self::Heap(memory) => unsafe {
                slice::from_raw_parts(memory.first().cast().as_ptr(), memory.len())
            },
            #[cfg(feature = "pin")]
            Self::Mapped(mapping) => mapping.words(),
        }
    }
}

// SAFETY: the region returns the same words each time, which stay in place while it lives. The
// engine has allocated them for itself; peers have no access rights, and only this engine has queue
// pairs in the region's protection domain.
unsafe impl PrivateMemory for MemoryRegion<Allocation> {
    fn words(&self) -> NonNull<[u64]> {
        let words = MemoryRegion::words(self);
        NonNull::slice_from_raw_parts(NonNull::from(words).cast(), words.len())
    }
}

/// The words that receive the old values of atomics, by operation.
pub(super) struct Results<'a> {
    words: &'a [AtomicU64],
    /// The index of the first of them.
    first: u64,
    /// The value of a word that has not received one.
    absent: u64,
}

impl Results<'_> {
    /// Takes the old value of the completed operation `index`; `None` if the device has not written
    /// it, as Soft-RoCE after some lost packets (`firmware-notes/soft-roce.md`).
    #[inline]
    pub(super) fn take(&self, index: u32) -> Option<u64> {
        let word = self.words.get(usize::try_from(self.first + u64::from(index)).ok()?)?;
        // SAFETY: only the device writes this word of the region besides this call, and it has
        // stopped: the operation has completed. The read is volatile, because the compiler does not
        // know of the device's writes.
        let old = unsafe { VolatilePtr::new_restricted(ReadOnly, NonNull::from(word).cast()) };
        let old: u64 = old.read();
        word.store(self.absent, Relaxed);
        (old != self.absent).then_some(old)
    }
}

/// The words of the engine itself, results and slots in one region that only this process may
/// access.
#[derive(Debug)]
pub(super) struct Private {
    pub(super) slots: Slots<MemoryRegion<Allocation>, InFlight>,
    /// The index of the first own word, on a cache line.
    base: u64,
    /// The index of the first word of slot 0.
    first_slot: u64,
    /// The results, by operation.
    results: LocalBlocks,
    /// The value of a result word before its result: random, so that a result equals it by a chance
    /// of 2^-64 only.
    absent: u64,
    /// The slots, for the device.
    slot_blocks: LocalBlocks,
}

impl Private {
    /// Returns the number of words that it needs, alignment included; `None` if they do not fit the
    /// address space.
    pub(super) fn words(sizes: &Sizes) -> Option<usize> {
        let slots = u64::from(sizes.slot_words).checked_mul(sizes.slots.into())?;
        let words = slots.checked_add(words_before_slots(sizes.depth) + u64::from(LINE_WORDS))?;
        usize::try_from(words).ok().filter(|words| words.checked_mul(8).is_some())
    }

    /// Registers `memory`, which has at least the number of words that [`words`](Self::words)
    /// returns.
    pub(super) fn register(
        domain: &ProtectionDomain,
        memory: Allocation,
        sizes: &Sizes,
    ) -> Result<Self, OpenError> {
        let region = MemoryRegion::register(domain, memory, Access::PRIVATE)?;
        let words = region.words();
        // Every page is backed by memory now, so that the data path takes no page fault.
        words.iter().for_each(|word| word.store(0, Relaxed));
        let (absent, skipped) = (random()?, words.as_ptr().align_offset(LINE_BYTES));
        let results = words.iter().skip(skipped + LINE_WORDS as usize).take(sizes.depth as usize);
        results.for_each(|word| word.store(absent, Relaxed));
        let base = skipped as u64;
        let before = words_before_slots(sizes.depth);
        let slots = usize::try_from(before)
            .ok()
            .and_then(|before| Slots::in_memory(region, before, sizes.slots, sizes.slot_words))
            .ok_or(SetupError::NO_SLOT_MEMORY)?;
        let region = slots.memory();
        let results = region.local_blocks(base + OWN_WORDS, sizes.depth, 1);
        let first_slot = base + before;
        let slot_blocks = region.local_blocks(first_slot, sizes.slots, sizes.slot_words);
        let (results, slot_blocks) = results.zip(slot_blocks).ok_or(SetupError::NO_SLOT_MEMORY)?;
        Ok(Self { slots, base, first_slot, results, absent, slot_blocks })
    }

    #[inline]
    fn region(&self) -> &MemoryRegion<Allocation> {
        self.slots.memory()
    }

    /// Returns an own word, for the device.
    pub(super) fn own_range(&self, word: OwnWord) -> Option<LocalRange> {
        self.region().local(self.base + word as u64, 1)
    }

    /// Returns an own word, for the CPU.
    pub(super) fn own_word(&self, word: OwnWord) -> Option<&AtomicU64> {
        self.region().words().get(usize::try_from(self.base + word as u64).ok()?)
    }

    /// Returns the word that receives the old value of operation `index`, which is less than the
    /// depth.
    #[inline]
    pub(super) fn result_range(&self, index: u32) -> LocalRange {
        self.results.range(index, 0, 1)
    }

    /// Returns the results of operations, and the slots to release.
    #[inline]
    pub(super) fn completing(&mut self) -> (Results<'_>, Releases<'_, InFlight>) {
        let (region, slots) = self.slots.releases();
        let (first, absent) = (self.base + OWN_WORDS, self.absent);
        (Results { words: region.words(), first, absent }, slots)
    }

    /// Returns the slot range `at` for an operation, which keeps its slot busy until the slot is
    /// [released](Slots::release); `None` if `at` is not a range of a slot.
    #[inline]
    pub(super) fn hold(&mut self, at: SlotRange) -> Option<LocalRange> {
        self.slots.hold_range(at).then(|| self.slot_blocks.range(at.slot.0, at.start, at.words))
    }

    /// Returns the work request of a WRITE, which carries its words if they are at most
    /// `max_inline`.
    #[inline]
    pub(super) fn write_request(
        &self,
        id: u64,
        (from, range): (SlotRange, LocalRange),
        to: RemoteAddress,
        max_inline: u32,
    ) -> WorkRequest {
        let copies = self.inline_words(from, max_inline);
        let words = copies.as_ref().and_then(|words| words.get(..from.words as usize));
        let inline = words.and_then(|words| WorkRequest::write_inline(id, words, to));
        inline.unwrap_or_else(|| WorkRequest::write(id, range, to))
    }

    /// Returns the words of the slot range `at`, if a WRITE can carry them inline.
    #[inline]
    fn inline_words(&self, at: SlotRange, max_words: u32) -> Option<[u64; INLINE_WORDS]> {
        if at.words > max_words {
            return None;
        }
        let start = self.first_slot + self.slots.offset(at) as u64;
        let words = self.region().words().get(usize::try_from(start).ok()?..)?;
        let words = words.get(..at.words as usize)?;
        let mut copies = [0; INLINE_WORDS];
        for (copy, word) in copies.iter_mut().zip(words) {
            *copy = word.load(Relaxed);
        }
        Some(copies)
    }
}
