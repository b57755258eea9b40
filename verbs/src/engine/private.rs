//! The private memory of an engine: slots, and where the old values of atomics land.
//!
//! The engine allocates it itself. A slot that no operation uses is shown as plain words, which is
//! sound only while no other code can access them: see [`PrivateMemory`].

use alloc::vec;
use alloc::vec::Vec;
use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use probeline_transport::{Geometry, LINE_BYTES, LINE_WORDS, Local, Slot, SlotError};
use volatile::VolatilePtr;
use volatile::access::ReadOnly;

use super::OpenError;
use crate::{Access, INLINE_WORDS, LocalRange, Memory, MemoryRegion, ProtectionDomain};

/// The engine's own words before the results: where its asking after owners lands, what it tells
/// on leaving, and where its self-test lands.
const OWN_WORDS: u64 = LINE_WORDS as u64;

const TOO_SHORT: OpenError = OpenError::Sizes("the memory for the slots is too short");

/// Words before slot 0: the own ones, and a result for each operation in flight.
fn before_slots(depth: u32) -> u64 {
    OWN_WORDS + u64::from(depth).next_multiple_of(LINE_WORDS as u64)
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

/// Memory that an engine has allocated for itself. No other code holds a reference to it, and no
/// reference can be copied from it: while the device does not access a word, this value is the only
/// way to the word.
#[derive(Debug)]
pub(super) enum PrivateMemory {
    Heap(Vec<AtomicU64>),
    #[cfg(feature = "pin")]
    Mapped(probeline_pin::Mapping),
}

impl PrivateMemory {
    /// Allocates `words` on the heap.
    pub(super) fn on_heap(words: usize) -> Result<Self, OpenError> {
        let mut memory = Vec::new();
        let lacking = OpenError::Sizes("no memory for the slots: choose fewer or shorter ones");
        memory.try_reserve_exact(words).map_err(|_| lacking)?;
        memory.resize_with(words, AtomicU64::default);
        Ok(Self::Heap(memory))
    }
}

// SAFETY: moving the value moves its words in neither variant, and both return the same words each
// time.
unsafe impl Memory for PrivateMemory {
    fn words(&self) -> &[AtomicU64] {
        match self {
            Self::Heap(memory) => memory,
            #[cfg(feature = "pin")]
            Self::Mapped(mapping) => mapping.words(),
        }
    }
}

/// Where the slots lie in the private memory, and how many unreported operations keep each busy.
#[derive(Debug)]
struct Slots {
    /// The first word of slot 0.
    first: u64,
    slot_words: u64,
    busy: Vec<u32>,
}

impl Slots {
    fn new(first: u64, geometry: &Geometry) -> Self {
        let busy = vec![0; geometry.slots as usize];
        Self { first, slot_words: geometry.slot_words.into(), busy }
    }

    /// The first word of the slot range `at`.
    #[inline]
    fn start(&self, at: Local) -> u64 {
        self.first + u64::from(at.slot.0) * self.slot_words + u64::from(at.start)
    }

    /// The words of the slot range `at`.
    #[inline]
    fn words<'m>(&self, memory: &'m [AtomicU64], at: Local) -> Option<&'m [AtomicU64]> {
        let start = usize::try_from(self.start(at)).ok()?;
        memory.get(start..)?.get(..at.words as usize)
    }

    /// The words that landed in the slot range `at`, if no operation keeps the slot busy.
    ///
    /// # Safety
    /// `memory` must be that of these slots. Only its single owner, which borrows it together with
    /// these slots, and a device, which writes to busy slots only, may access it.
    #[inline]
    unsafe fn landed<'m>(
        &'m self,
        memory: &'m [AtomicU64],
        at: Local,
    ) -> Result<&'m [u64], SlotError> {
        self.idle(at.slot)?;
        let words = self.words(memory, at).ok_or(SlotError::OutOfRange)?;
        // SAFETY: an AtomicU64 has the layout of a u64. The slot is idle, so the device does not
        // write to it; this side writes to it only through `staged`, which takes `&mut self`.
        Ok(unsafe { slice::from_raw_parts(words.as_ptr().cast(), words.len()) })
    }

    /// The slot range `at` for writing, if no operation keeps the slot busy.
    ///
    /// # Safety
    /// As for [`landed`](Self::landed).
    #[inline]
    unsafe fn staged<'m>(
        &'m mut self,
        memory: &'m [AtomicU64],
        at: Local,
    ) -> Result<&'m mut [u64], SlotError> {
        self.idle(at.slot)?;
        let words = self.words(memory, at).ok_or(SlotError::OutOfRange)?;
        // SAFETY: as in `landed`; `&mut self` makes it the only reference. Atomics may be changed
        // through a pointer that comes from a shared reference.
        Ok(unsafe { slice::from_raw_parts_mut(words.as_ptr().cast_mut().cast(), words.len()) })
    }

    /// Keeps `slot` busy with one more operation. Returns false if there is no such slot.
    #[inline]
    #[must_use]
    fn hold(&mut self, slot: Slot) -> bool {
        let busy = self.busy.get_mut(slot.0 as usize);
        busy.map(|busy| *busy += 1).is_some()
    }

    /// Releases the slot for one operation, which was reported and no longer used by the device.
    #[inline]
    fn release(&mut self, slot: Slot) {
        match self.busy.get_mut(slot.0 as usize) {
            Some(busy) => *busy -= 1,
            None => debug_assert!(false, "{slot:?} was held and is not there"),
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

/// Own words, results and slots in one region that only this side may access.
#[derive(Debug)]
pub(super) struct Private {
    region: MemoryRegion<PrivateMemory>,
    /// The index of the first own word, on a cache line.
    base: u64,
    slots: Slots,
}

impl Private {
    /// Words that it takes, with what aligning them may leave over; `None` for more than there can
    /// be.
    pub(super) fn words(geometry: &Geometry, depth: u32) -> Option<usize> {
        let slots = u64::from(geometry.slot_words).checked_mul(geometry.slots.into())?;
        let words = slots.checked_add(before_slots(depth) + LINE_WORDS as u64)?;
        usize::try_from(words).ok().filter(|words| words.checked_mul(8).is_some())
    }

    /// Registers `memory`, of at least as many words as [`words`](Self::words) says.
    pub(super) fn register(
        domain: &ProtectionDomain,
        memory: PrivateMemory,
        geometry: &Geometry,
        depth: u32,
    ) -> Result<Self, OpenError> {
        let region = MemoryRegion::register(domain, memory, Access::PRIVATE)?;
        let words = region.words();
        if Self::words(geometry, depth).is_none_or(|needed| words.len() < needed) {
            return Err(TOO_SHORT);
        }
        // Now, so that no first touch is left for the data path.
        words.iter().for_each(|word| word.store(0, Relaxed));
        let base = words.as_ptr().align_offset(LINE_BYTES) as u64;
        let slots = Slots::new(base + before_slots(depth), geometry);
        Ok(Self { region, base, slots })
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

    /// The result that landed for the completed operation `index`; `None` if it has no result word.
    #[inline]
    pub(super) fn landed_result(&self, index: u32) -> Option<u64> {
        let at = usize::try_from(self.base + OWN_WORDS + u64::from(index)).ok()?;
        let word = NonNull::from(self.region.words().get(at)?).cast::<u64>();
        // SAFETY: a word of the region, which the device alone writes, and no longer: its operation
        // has completed. Volatile, for nothing here tells the compiler of the device's writes.
        Some(unsafe { VolatilePtr::new_restricted(ReadOnly, word) }.read())
    }

    /// Keeps the slot of `at` busy with one more operation, and returns the range for the device;
    /// `None` if `at` is not a slot range.
    #[inline]
    pub(super) fn hold(&mut self, at: Local) -> Option<LocalRange> {
        let range = self.region.local(self.slots.start(at), at.words)?;
        self.slots.hold(at.slot).then_some(range)
    }

    /// Releases `slot` for one operation, which was reported and no longer used by the device.
    #[inline]
    pub(super) fn release(&mut self, slot: Slot) {
        self.slots.release(slot);
    }

    /// The words of the slot range `at`, if a WRITE can carry them inline.
    #[inline]
    pub(super) fn carried(&self, at: Local, inline_words: u32) -> Option<[u64; INLINE_WORDS]> {
        if at.words > inline_words {
            return None;
        }
        let mut carried = [0; INLINE_WORDS];
        let words = self.slots.words(self.region.words(), at)?;
        for (carried, word) in carried.iter_mut().zip(words) {
            *carried = word.load(Relaxed);
        }
        Some(carried)
    }

    /// What landed in the slot range `at`, which the caller has checked.
    #[inline]
    pub(super) fn landed(&self, at: Local) -> Result<&[u64], SlotError> {
        // SAFETY: the region owns its memory, which the engine has allocated for itself, and is
        // borrowed together with the slots. Its key gives peers no access rights, and only this
        // engine has queue pairs in its protection domain.
        unsafe { self.slots.landed(self.region.words(), at) }
    }

    /// The slot range `at`, which the caller has checked, to be filled.
    #[inline]
    pub(super) fn staged(&mut self, at: Local) -> Result<&mut [u64], SlotError> {
        // SAFETY: as for `landed`.
        unsafe { self.slots.staged(self.region.words(), at) }
    }
}

/// These tests call no library, so Miri can run them: `cargo +nightly miri test -p probeline-verbs
/// --lib private`.
#[cfg(test)]
mod tests {
    use probeline_transport::Owner;

    use super::*;

    const GEOMETRY: Geometry =
        Geometry { me: Owner(0), owners: 1, window_words: 8, slots: 3, slot_words: 16 };

    fn memory() -> (PrivateMemory, Slots) {
        let memory = PrivateMemory::on_heap(Private::words(&GEOMETRY, 4).unwrap()).unwrap();
        let base = memory.words().as_ptr().align_offset(LINE_BYTES) as u64;
        (memory, Slots::new(base + before_slots(4), &GEOMETRY))
    }

    fn range(slot: u32, start: u32, words: u32) -> Local {
        Local { slot: Slot(slot), start, words }
    }

    #[test]
    fn slots_are_aligned_zero_and_apart() {
        let (memory, mut slots) = memory();
        for slot in 0..3 {
            // SAFETY: only this test accesses the memory, and no device writes to it.
            let words = unsafe { slots.staged(memory.words(), range(slot, 0, 16)) }.unwrap();
            assert_eq!((words.as_ptr().addr() % LINE_BYTES, &words[..]), (0, &[0; 16][..]));
            words.fill(u64::from(slot) + 1);
        }
        for slot in 0..3 {
            // SAFETY: as above.
            let words = unsafe { slots.landed(memory.words(), range(slot, 4, 12)) };
            assert_eq!(words, Ok(&[u64::from(slot) + 1; 12][..]));
        }
    }

    #[test]
    fn a_device_writes_to_a_slot_only_while_it_is_hidden() {
        let (memory, mut slots) = memory();
        let at = range(1, 0, 4);
        // SAFETY: only this test accesses the memory; the code that simulates the device stores
        // while the slot is held, and to another slot.
        unsafe {
            slots.staged(memory.words(), at).unwrap().copy_from_slice(&[1, 2, 3, 4]);
            for operations in 1..3 {
                assert!(slots.hold(Slot(1)), "{operations}");
            }
            let other = slots.landed(memory.words(), range(2, 0, 16)).unwrap();
            let first = usize::try_from(slots.start(at)).unwrap();
            memory.words()[first + 2].store(7, Relaxed);
            assert_eq!(other, [0; 16]);
            for _ in 0..2 {
                assert_eq!(slots.landed(memory.words(), at), Err(SlotError::Busy));
                assert_eq!(slots.staged(memory.words(), at).err(), Some(SlotError::Busy));
                slots.release(Slot(1));
            }
            assert_eq!(slots.landed(memory.words(), at), Ok(&[1, 2, 7, 4][..]));
        }
    }

    #[test]
    fn an_invalid_slot_is_neither_held_nor_shown() {
        let (memory, mut slots) = memory();
        assert!(!slots.hold(Slot(3)));
        // SAFETY: as above.
        unsafe {
            let none = slots.landed(memory.words(), range(3, 0, 1));
            assert_eq!(none, Err(SlotError::OutOfRange));
            let far = slots.staged(memory.words(), range(2, 0, 1 << 20));
            assert_eq!(far.err(), Some(SlotError::OutOfRange));
        }
    }
}
