//! Private memory that a communication library reads and writes, and the slots in it.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::slice;
use std::alloc::{alloc_zeroed, dealloc};

use probeline_transport::{LINE_BYTES, Local, Slot, SlotError};

/// Words in a base page.
const PAGE_WORDS: usize = 512;

/// Zeroed words at a fixed address, aligned to a cache line and accessed through pointers only.
#[derive(Debug)]
pub(crate) struct Memory {
    first: NonNull<u64>,
    words: usize,
    layout: Layout,
    leaked: bool,
}

impl Memory {
    /// `None` if memory is missing. Every page is backed by memory afterwards, so that the data path
    /// takes no page fault.
    pub(crate) fn new(words: usize) -> Option<Self> {
        let layout = Layout::array::<u64>(words.max(1)).ok()?.align_to(LINE_BYTES).ok()?;
        // SAFETY: the layout has at least one word.
        let first = NonNull::new(unsafe { alloc_zeroed(layout) })?.cast::<u64>();
        for index in (0..words).step_by(PAGE_WORDS) {
            // SAFETY: a word of the allocation. The write is volatile so that it is not optimised
            // out for writing 0 to zeroed memory.
            unsafe { first.add(index).write_volatile(0) };
        }
        Some(Self { first, words, layout, leaked: false })
    }

    pub(crate) fn first(&self) -> NonNull<u64> {
        self.first
    }

    pub(crate) fn len(&self) -> usize {
        self.words
    }

    /// A pointer to the words from `index` to `index + words`; `None` if not all are in the memory.
    #[inline]
    pub(crate) fn at(&self, index: usize, words: usize) -> Option<NonNull<u64>> {
        let end = index.checked_add(words)?;
        // SAFETY: within the allocation, or at its end.
        (end <= self.words).then(|| unsafe { self.first.add(index) })
    }

    /// Keeps the memory until the process ends, because the library may still access it.
    pub(crate) fn leak(&mut self) {
        self.leaked = true;
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if !self.leaked {
            // SAFETY: allocated in `new` with this layout. The engine that gave pointers to a
            // library drops this after the library has stopped using them, or has called `leak`.
            unsafe { dealloc(self.first.as_ptr().cast(), self.layout) };
        }
    }
}

/// The operations that keep a slot busy.
#[derive(Clone, Copy, Debug, Default)]
struct Busy {
    /// Operations that are reported in order: the slot is idle when this number has been reported.
    until: u64,
    /// The number of operations in flight that are reported in any order.
    operations: u32,
}

/// The slots of an engine, one behind the other. The library accesses a slot while an operation on it
/// is in flight; references are given out only for idle slots.
#[derive(Debug)]
pub(crate) struct Slots {
    memory: Memory,
    slot_words: usize,
    busy: Box<[Busy]>,
}

impl Slots {
    /// Zeroed slots; `None` if memory is missing.
    pub(crate) fn new(slots: u32, slot_words: u32) -> Option<Self> {
        let (slots, slot_words) = (slots as usize, slot_words as usize);
        let memory = Memory::new(slots.checked_mul(slot_words)?)?;
        Some(Self { memory, slot_words, busy: vec![Busy::default(); slots].into() })
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The address of `at`, a checked slot range, for the library.
    #[inline]
    pub(crate) fn address(&self, at: Local) -> *mut u64 {
        let index = at.slot.0 as usize * self.slot_words + at.start as usize;
        self.memory.first.as_ptr().wrapping_add(index)
    }

    /// The words of `at`. `reported` is the number of operations reported in order.
    #[inline]
    pub(crate) fn landed(&self, at: Local, reported: u64) -> Result<&[u64], SlotError> {
        self.check(at, reported)?;
        // SAFETY: zeroed words of this allocation, by `check`. No operation on the slot is in flight,
        // so that the library does not access it, and posting one needs the engine as `&mut`.
        Ok(unsafe { slice::from_raw_parts(self.address(at), at.words as usize) })
    }

    /// As [`landed`](Self::landed), to change the words.
    #[inline]
    pub(crate) fn staged(&mut self, at: Local, reported: u64) -> Result<&mut [u64], SlotError> {
        self.check(at, reported)?;
        // SAFETY: as in `landed`; `&mut self` excludes other references.
        Ok(unsafe { slice::from_raw_parts_mut(self.address(at), at.words as usize) })
    }

    /// Fails unless `at` is a range of an idle slot.
    #[inline]
    fn check(&self, at: Local, reported: u64) -> Result<(), SlotError> {
        let end = at.start as usize + at.words as usize;
        match self.busy.get(at.slot.0 as usize) {
            Some(busy) if at.words > 0 && end <= self.slot_words => {
                let idle = busy.operations == 0 && busy.until <= reported;
                if idle { Ok(()) } else { Err(SlotError::Busy) }
            }
            _ => Err(SlotError::OutOfRange),
        }
    }

    /// Keeps `slot` busy until `reported` operations have been reported in order.
    #[inline]
    pub(crate) fn hold_until(&mut self, slot: Slot, reported: u64) {
        if let Some(busy) = self.busy(slot) {
            busy.until = reported;
        }
    }

    /// Keeps `slot` busy until [`release`](Self::release).
    pub(crate) fn hold(&mut self, slot: Slot) {
        if let Some(busy) = self.busy(slot) {
            busy.operations += 1;
        }
    }

    pub(crate) fn release(&mut self, slot: Slot) {
        if let Some(busy) = self.busy(slot) {
            busy.operations -= 1;
        }
    }

    #[inline]
    fn busy(&mut self, slot: Slot) -> Option<&mut Busy> {
        let busy = self.busy.get_mut(slot.0 as usize);
        debug_assert!(busy.is_some(), "an operation uses {slot:?}, which does not exist");
        busy
    }

    /// Keeps all slots busy, and their memory until the process ends: the library may still write to
    /// it.
    #[cfg_attr(not(feature = "mpi"), expect(dead_code, reason = "UCX leaks whole engines"))]
    pub(crate) fn leak(&mut self) {
        self.memory.leak();
        self.busy.iter_mut().for_each(|busy| busy.operations += 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_bounded() {
        let memory = Memory::new(20).unwrap();
        assert_eq!(memory.first().addr().get() % 64, 0);
        assert!(memory.at(0, 20).is_some() && memory.at(20, 0).is_some());
        assert!(memory.at(1, 20).is_none() && memory.at(usize::MAX, 2).is_none());
        assert!(Memory::new(usize::MAX / 8).is_none());
        assert!(Slots::new(u32::MAX, u32::MAX - 7).is_none());
    }

    #[test]
    fn slots_are_apart_and_zero() {
        let mut slots = Slots::new(3, 16).unwrap();
        for slot in 0..3 {
            let at = Local { slot: Slot(slot), start: 0, words: 16 };
            assert_eq!(slots.address(at).addr() % 64, 0);
            let words = slots.staged(at, 0).unwrap();
            assert_eq!(words, [0; 16]);
            words.fill(7);
        }
        for (slot, start, words) in [(3, 0, 1), (0, 0, 0), (0, 16, 1), (0, u32::MAX, 2)] {
            let at = Local { slot: Slot(slot), start, words };
            assert_eq!(slots.landed(at, 0), Err(SlotError::OutOfRange), "{at:?}");
        }
    }

    #[test]
    fn a_busy_slot_is_not_shown() {
        let mut slots = Slots::new(2, 8).unwrap();
        let at = Local { slot: Slot(1), start: 0, words: 8 };
        slots.hold_until(Slot(1), 6);
        slots.hold_until(Slot(1), 7);
        assert_eq!(slots.landed(at, 6), Err(SlotError::Busy));
        slots.hold(Slot(1));
        assert_eq!(slots.landed(at, 7), Err(SlotError::Busy));
        slots.release(Slot(1));
        assert!(slots.landed(at, 7).is_ok());
    }

    #[test]
    #[cfg(feature = "mpi")]
    fn leaked_slots_stay_busy() {
        let mut slots = Slots::new(1, 8).unwrap();
        slots.leak();
        let at = Local { slot: Slot(0), start: 0, words: 1 };
        assert_eq!(slots.staged(at, u64::MAX).err(), Some(SlotError::Busy));
        slots.memory.leaked = false;
    }
}
