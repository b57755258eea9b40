//! The private memory of an engine: slots, and where the old values of atomics land.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use transport::{Geometry, Local, Slot, SlotError};
use volatile::VolatilePtr;
use volatile::access::ReadOnly;

use super::OpenError;
use crate::{Access, INLINE_WORDS, LocalRange, Memory, MemoryRegion, ProtectionDomain};

/// Words in a cache line, to which slots are aligned.
const LINE_WORDS: u64 = 8;
/// Bytes in one.
const LINE_BYTES: usize = 64;
/// The engine's own words before the results: where its asking after owners lands, what it tells
/// on leaving, and where its self-test lands.
const OWN_WORDS: u64 = LINE_WORDS;

/// Words before slot 0: the own ones, and a result for each operation in flight.
fn before_slots(depth: u32) -> u64 {
    OWN_WORDS + u64::from(depth).next_multiple_of(LINE_WORDS)
}

/// The engine's own words, by what they are for.
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
pub(super) enum Own {
    /// Where a READ that asks after an owner lands.
    Asked = 0,
    /// What others are told when this owner leaves.
    Parting = 1,
    /// Where the self-test's operations land.
    Tested = 2,
}

/// Own words, results and slots in one region that this side alone may use, and how many
/// unreported operations keep each slot busy.
#[derive(Debug)]
pub(super) struct Private {
    region: MemoryRegion<Box<dyn Memory + Send>>,
    /// The word where the own words start: on a cache line.
    base: u64,
    /// The first word of slot 0.
    slots: u64,
    slot_words: u64,
    busy: Vec<u32>,
}

impl Private {
    /// Words that it takes, with what aligning them may leave over; `None` for more than there can
    /// be.
    pub(super) fn words(geometry: &Geometry, depth: u32) -> Option<usize> {
        let slots = u64::from(geometry.slot_words).checked_mul(geometry.slots.into())?;
        let words = slots.checked_add(before_slots(depth) + LINE_WORDS)?;
        usize::try_from(words).ok().filter(|words| words.checked_mul(8).is_some())
    }

    /// Registers `memory`, of at least as many words as [`words`](Self::words) says.
    pub(super) fn register(
        domain: &ProtectionDomain,
        memory: Box<dyn Memory + Send>,
        geometry: &Geometry,
        depth: u32,
    ) -> Result<Self, OpenError> {
        let words = memory.words();
        if Self::words(geometry, depth).is_none_or(|needed| words.len() < needed) {
            return Err(OpenError::Sizes("the memory given for the slots is too short"));
        }
        // Now, so that no first touch is left for the data path.
        words.iter().for_each(|word| word.store(0, Relaxed));
        let base = words.as_ptr().align_offset(LINE_BYTES) as u64;
        let region = MemoryRegion::register(domain, memory, Access::PRIVATE)?;
        let busy = vec![0; geometry.slots as usize];
        let slots = base + before_slots(depth);
        Ok(Self { region, base, slots, slot_words: geometry.slot_words.into(), busy })
    }

    /// The own word `which`, for the device to use.
    pub(super) fn own(&self, which: Own) -> Option<LocalRange> {
        self.region.local(self.base + which as u64, 1)
    }

    /// The own word `which`, for this side.
    pub(super) fn own_word(&self, which: Own) -> Option<&AtomicU64> {
        self.region.words().get(usize::try_from(self.base + which as u64).ok()?)
    }

    /// Where the old value of operation `index` lands.
    #[inline]
    pub(super) fn result(&self, index: u32) -> Option<LocalRange> {
        self.region.local(self.base + OWN_WORDS + u64::from(index), 1)
    }

    /// What landed for operation `index`, which has completed.
    #[inline]
    pub(super) fn landed_result(&self, index: u32) -> u64 {
        let at = usize::try_from(self.base + OWN_WORDS).unwrap_or(usize::MAX);
        let word = self.region.words().get(at.saturating_add(index as usize));
        let Some(word) = word else { return 0 };
        let word = NonNull::from(word).cast::<u64>();
        // SAFETY: a word of the region, which the device alone writes, and no longer: its operation
        // has completed. Volatile, for nothing here tells the compiler of the device's writes.
        unsafe { VolatilePtr::new_restricted(ReadOnly, word) }.read()
    }

    /// The slot range `at`, which the caller has checked, for the device to use.
    #[inline]
    pub(super) fn slot(&self, at: Local) -> Option<LocalRange> {
        self.region.local(self.first(at), at.words)
    }

    /// The words of the slot range `at`, if a WRITE can carry them inline.
    #[inline]
    pub(super) fn carried(&self, at: Local, inline_words: u32) -> Option<[u64; INLINE_WORDS]> {
        if at.words > inline_words {
            return None;
        }
        let mut carried = [0; INLINE_WORDS];
        for (carried, word) in carried.iter_mut().zip(self.atomics(at).ok()?) {
            *carried = word.load(Relaxed);
        }
        Some(carried)
    }

    #[inline]
    fn first(&self, at: Local) -> u64 {
        self.slots + u64::from(at.slot.0) * self.slot_words + u64::from(at.start)
    }

    #[inline]
    fn atomics(&self, at: Local) -> Result<&[AtomicU64], SlotError> {
        let first = usize::try_from(self.first(at)).map_err(|_| SlotError::OutOfRange)?;
        let words = self.region.words().get(first..).and_then(|from| from.get(..at.words as usize));
        words.ok_or(SlotError::OutOfRange)
    }

    /// What landed in the slot range `at`, which the caller has checked.
    #[inline]
    pub(super) fn landed(&self, at: Local) -> Result<&[u64], SlotError> {
        self.idle(at.slot)?;
        let words = self.atomics(at)?;
        // SAFETY: an AtomicU64 has the layout of a u64. No operation on the slot is in flight, by
        // the count, so the device does not write it: the region's key has no rights for peers,
        // and nobody but this engine has a queue pair in its domain. This side writes by `staged`
        // alone, which takes `&mut self`.
        Ok(unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), words.len()) })
    }

    /// The slot range `at`, which the caller has checked, to be filled.
    #[inline]
    pub(super) fn staged(&mut self, at: Local) -> Result<&mut [u64], SlotError> {
        self.idle(at.slot)?;
        let words = self.atomics(at)?;
        let first = words.as_ptr().cast_mut().cast();
        // SAFETY: as for `landed`; `&mut self` makes it the only reference. The words are interior
        // mutable, so that writing through a pointer from a shared slice is allowed.
        Ok(unsafe { core::slice::from_raw_parts_mut(first, words.len()) })
    }

    /// One more operation keeps `slot` busy.
    #[inline]
    pub(super) fn hold(&mut self, slot: Slot) {
        if let Some(busy) = self.busy.get_mut(slot.0 as usize) {
            *busy += 1;
        }
    }

    /// One of them was reported, and the device has done with it.
    #[inline]
    pub(super) fn release(&mut self, slot: Slot) {
        if let Some(busy) = self.busy.get_mut(slot.0 as usize) {
            *busy -= 1;
        }
    }

    #[inline]
    fn idle(&self, slot: Slot) -> Result<(), SlotError> {
        match self.busy.get(slot.0 as usize) {
            Some(0) => Ok(()),
            Some(_) => Err(SlotError::Busy),
            None => Err(SlotError::OutOfRange),
        }
    }
}
