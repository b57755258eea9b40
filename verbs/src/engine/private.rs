//! The private memory of an engine: slots, and where the old values of atomics land.

use alloc::vec;
use alloc::vec::Vec;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;

use transport::{Geometry, Local, Slot, SlotError};
use volatile::VolatilePtr;
use volatile::access::ReadOnly;

use crate::{Access, LocalRange, MemoryRegion, ProtectionDomain, VerbFailed};

/// Words in a cache line, to which slots are aligned.
const LINE_WORDS: u64 = 8;
/// Bytes in one.
const LINE_BYTES: usize = 64;
/// The engine's own words before the results: where its asking after owners lands, what it tells
/// on leaving, and where its self-test lands.
const OWN_WORDS: u64 = LINE_WORDS;

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
    region: MemoryRegion<Vec<AtomicU64>>,
    /// The word where the own words start: on a cache line.
    base: u64,
    /// The first word of slot 0.
    slots: u64,
    slot_words: u64,
    busy: Vec<u32>,
}

impl Private {
    /// Zeroed memory for the slots of `geometry` and `depth` results.
    pub(super) fn register(
        domain: &ProtectionDomain,
        geometry: &Geometry,
        depth: u32,
    ) -> Result<Self, VerbFailed> {
        let no_memory = VerbFailed { verb: "allocating the slots", errno: libc::ENOMEM };
        let results = OWN_WORDS + u64::from(depth).next_multiple_of(LINE_WORDS);
        let slot_words = u64::from(geometry.slot_words);
        let words = (slot_words.checked_mul(geometry.slots.into()))
            .and_then(|words| words.checked_add(results + LINE_WORDS))
            .and_then(|words| usize::try_from(words).ok())
            .ok_or(no_memory)?;
        let mut memory = Vec::new();
        memory.try_reserve_exact(words).map_err(|_| no_memory)?;
        memory.resize_with(words, AtomicU64::default);
        let base = memory.as_ptr().align_offset(LINE_BYTES);
        let region = MemoryRegion::register(domain, memory, Access::PRIVATE)?;
        let base = base as u64;
        let busy = vec![0; geometry.slots as usize];
        Ok(Self { region, base, slots: base + results, slot_words, busy })
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
        // the count, so the device does not write it; this side does so by `staged` alone, which
        // takes `&mut self`.
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
