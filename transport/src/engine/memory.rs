//! The private memory of an engine, and the slots in it.

use alloc::alloc::{alloc_zeroed, dealloc};
use alloc::boxed::Box;
use alloc::vec;
use core::alloc::Layout;
use core::ptr::NonNull;
use core::slice;

use crate::{LINE_BYTES, LINE_WORDS, PostError, Slot, SlotRange};

use crate::engine::PAGE_WORDS;
use crate::engine::busy::{Busy, InFlight, Until};
use crate::engine::operations::MAX_SLOTS;

/// Memory that belongs to one engine.
///
/// # Safety
/// `words` returns the same initialised words each time. They are readable and writable and keep
/// their address while the value lives, even if it is moved. No code accesses them except through
/// the engine that owns the value, and the device or library to which that engine has given their
/// address.
pub unsafe trait PrivateMemory {
    /// Returns the words of the memory.
    fn words(&self) -> NonNull<[u64]>;
}

/// Zeroed words on the heap, aligned to a cache line, for a device or a library.
#[derive(Debug)]
pub struct Memory {
    words: NonNull<[u64]>,
    layout: Layout,
    leaked: bool,
}

// SAFETY: the value owns its allocation, which any thread may free.
unsafe impl Send for Memory {}

// SAFETY: the allocation lives as long as the value and does not move with it; its address leaves
// this module only through `words` and `at`.
unsafe impl PrivateMemory for Memory {
    fn words(&self) -> NonNull<[u64]> {
        self.words
    }
}

impl Memory {
    /// Allocates zeroed words; `None` if memory is missing. It touches every page, so that the data
    /// path takes no page fault.
    #[must_use]
    pub fn new(words: usize) -> Option<Self> {
        let layout = Layout::array::<u64>(words.max(1)).ok()?.align_to(LINE_BYTES).ok()?;
        // SAFETY: the layout has at least one word.
        let first = NonNull::new(unsafe { alloc_zeroed(layout) })?.cast::<u64>();
        for index in (0..words).step_by(PAGE_WORDS) {
            // SAFETY: a word of the allocation. The write is volatile so that it is not optimised
            // out for writing 0 to zeroed memory.
            unsafe { first.add(index).write_volatile(0) };
        }
        Some(Self { words: NonNull::slice_from_raw_parts(first, words), layout, leaked: false })
    }

    /// Returns a pointer to the first word.
    #[must_use]
    pub fn first(&self) -> NonNull<u64> {
        self.words.cast()
    }

    /// Returns the number of words.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns a pointer to the words from `index` to `index + words`; `None` if not all are in the
    /// memory.
    #[inline]
    #[must_use]
    pub fn at(&self, index: usize, words: usize) -> Option<NonNull<u64>> {
        let end = index.checked_add(words)?;
        // SAFETY: within the allocation, or at its end.
        (end <= self.len()).then(|| unsafe { self.first().add(index) })
    }

    /// Keeps the memory until the process ends, because a library may still access it.
    pub fn leak(&mut self) {
        self.leaked = true;
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if !self.leaked {
            // SAFETY: allocated in `new` with this layout. The engine that gave pointers to a
            // library drops this after the library has stopped using them, or has called `leak`.
            unsafe { dealloc(self.first().as_ptr().cast(), self.layout) };
        }
    }
}

/// The memory of an engine whose operations the CPU executes; otherwise like [`Memory`].
#[derive(Debug)]
pub struct CpuMemory(Memory);

// SAFETY: as for `Memory`.
unsafe impl PrivateMemory for CpuMemory {
    fn words(&self) -> NonNull<[u64]> {
        self.0.words
    }
}

/// The slots of an engine, each aligned to a cache line.
///
/// A device or library accesses a slot while an operation on it is in flight; references are given
/// out only for idle slots. `B` is the engine's record of the operations that use a slot.
#[derive(Debug)]
pub struct Slots<M = Memory, B = Until> {
    memory: M,
    /// The first word of slot 0.
    first: NonNull<u64>,
    slot_words: usize,
    busy: Box<[B]>,
}

// SAFETY: the pointer is that of the memory, which moves to the other thread too.
unsafe impl<M: Send, B: Send> Send for Slots<M, B> {}

impl<B: Busy> Slots<Memory, B> {
    /// Allocates zeroed slots; `None` if memory is missing.
    #[must_use]
    pub fn new(slots: u32, slot_words: u32) -> Option<Self> {
        Self::in_memory(Memory::new(words(slots, slot_words)?)?, 0, slots, slot_words)
    }

    /// Keeps all slots busy and never frees their memory, because a library may still write to it.
    pub fn leak(&mut self) {
        self.memory.leak();
        self.busy.iter_mut().for_each(Busy::leak);
    }
}

impl<B: Busy> Slots<CpuMemory, B> {
    /// Allocates zeroed slots for an engine whose operations the CPU executes; `None` if memory is
    /// missing.
    #[must_use]
    pub fn for_cpu(slots: u32, slot_words: u32) -> Option<Self> {
        let memory = CpuMemory(Memory::new(words(slots, slot_words)?)?);
        Self::in_memory(memory, 0, slots, slot_words)
    }

    /// Returns the words of `at`, even while the slot is busy; `None` if `at` is not in a slot.
    #[inline]
    #[must_use]
    pub fn words(&self, at: SlotRange) -> Option<&[u64]> {
        self.contains(at).then_some(())?;
        // SAFETY: within the memory, which only this value accesses.
        Some(unsafe { slice::from_raw_parts(self.address(at), at.words as usize) })
    }

    /// Returns the words of `at` for writing; otherwise as [`words`](Self::words).
    #[inline]
    #[must_use]
    pub fn words_mut(&mut self, at: SlotRange) -> Option<&mut [u64]> {
        self.contains(at).then_some(())?;
        // SAFETY: as in `words`; `&mut self` excludes other references.
        Some(unsafe { slice::from_raw_parts_mut(self.address(at), at.words as usize) })
    }
}

impl<M: PrivateMemory, B: Busy> Slots<M, B> {
    /// Places slots in `memory` after `before` other words, both aligned to a cache line; `None` if
    /// they do not fit.
    #[must_use]
    pub fn in_memory(memory: M, before: usize, slots: u32, slot_words: u32) -> Option<Self> {
        let all = memory.words();
        let base = all.cast::<u64>().as_ptr().align_offset(LINE_BYTES);
        let start = base.checked_add(before.next_multiple_of(LINE_WORDS as usize))?;
        if slots > MAX_SLOTS || start.checked_add(words(slots, slot_words)?)? > all.len() {
            return None;
        }
        // SAFETY: at most one past the last word, by the check above.
        let first = unsafe { all.cast::<u64>().add(start) };
        let busy = vec![B::default(); slots as usize].into();
        Some(Self { memory, first, slot_words: slot_words as usize, busy })
    }

    /// Returns the memory of the slots.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Returns the address of `at`, a checked slot range, for the device or library. The engine keeps
    /// the slot busy while either of them accesses it.
    #[inline]
    pub fn address(&self, at: SlotRange) -> *mut u64 {
        self.first.as_ptr().wrapping_add(self.offset(at))
    }

    /// Returns the number of words from the start of slot 0 to the start of `at`.
    #[inline]
    pub fn offset(&self, at: SlotRange) -> usize {
        at.slot.0 as usize * self.slot_words + at.start as usize
    }

    /// Returns the words of `at`, for reading. `reported` is the number of operations reported so far,
    /// in order.
    ///
    /// # Errors
    /// [`PostError::Busy`] if an operation uses the slot, [`PostError::OutOfRange`] if `at` is not
    /// in a slot.
    #[inline(always)]
    pub fn landed(&self, at: SlotRange, reported: u64) -> Result<&[u64], PostError> {
        self.check(at, reported)?;
        // SAFETY: initialised words of the memory, by `check`. No operation uses the slot, so no
        // device writes to it, and the engine can post an operation only through `&mut self`.
        Ok(unsafe { slice::from_raw_parts(self.address(at), at.words as usize) })
    }

    /// Returns the words of `at` for writing; otherwise as [`landed`](Self::landed).
    ///
    /// # Errors
    /// As for [`landed`](Self::landed).
    #[inline]
    pub fn staged(&mut self, at: SlotRange, reported: u64) -> Result<&mut [u64], PostError> {
        self.check(at, reported)?;
        // SAFETY: as in `landed`; `&mut self` excludes other references.
        Ok(unsafe { slice::from_raw_parts_mut(self.address(at), at.words as usize) })
    }

    /// Fails unless `at` is a range of an idle slot.
    #[inline(always)]
    fn check(&self, at: SlotRange, reported: u64) -> Result<(), PostError> {
        match self.busy.get(at.slot.0 as usize) {
            Some(busy) if self.is_in_a_slot(at) => {
                if busy.is_idle(reported) {
                    Ok(())
                } else {
                    Err(PostError::Busy)
                }
            }
            _ => Err(PostError::OutOfRange),
        }
    }

    #[inline]
    fn is_in_a_slot(&self, at: SlotRange) -> bool {
        let end = u64::from(at.start) + u64::from(at.words);
        at.words > 0 && end <= self.slot_words as u64
    }

    /// Returns whether `at` is a range of a slot.
    #[inline]
    #[must_use]
    pub fn contains(&self, at: SlotRange) -> bool {
        (at.slot.0 as usize) < self.busy.len() && self.is_in_a_slot(at)
    }

    #[inline]
    fn busy(&mut self, slot: Slot) -> Option<&mut B> {
        let busy = self.busy.get_mut(slot.0 as usize);
        debug_assert!(busy.is_some(), "an operation uses {slot:?}, which does not exist");
        busy
    }
}

impl<M: PrivateMemory, B: Busy + AsMut<Until>> Slots<M, B> {
    /// Keeps `slot` busy until `reported` operations have been reported in order.
    #[inline]
    pub fn hold_until(&mut self, slot: Slot, reported: u64) {
        if let Some(busy) = self.busy(slot) {
            busy.as_mut().0 = reported;
        }
    }
}

impl<M: PrivateMemory, B: Busy + AsMut<InFlight>> Slots<M, B> {
    /// Keeps `slot` busy with one more operation, until [`release`](Self::release).
    #[inline]
    pub fn hold(&mut self, slot: Slot) {
        if let Some(busy) = self.busy(slot) {
            busy.as_mut().0 += 1;
        }
    }

    /// Keeps the slot of `at` busy with one more operation, until [`release`](Self::release);
    /// `false` if `at` is not a range of a slot.
    #[inline]
    pub fn hold_range(&mut self, at: SlotRange) -> bool {
        let fits = self.is_in_a_slot(at);
        let Some(busy) = self.busy.get_mut(at.slot.0 as usize).filter(|_| fits) else {
            return false;
        };
        busy.as_mut().0 += 1;
        true
    }

    /// Removes one operation from `slot`.
    #[inline]
    pub fn release(&mut self, slot: Slot) {
        self.releases().1.release(slot);
    }

    /// Returns the memory, and the slots to release many of them.
    #[inline]
    pub fn releases(&mut self) -> (&M, Releases<'_, B>) {
        (&self.memory, Releases { busy: &mut self.busy })
    }
}

/// Slots that operations leave, one after the other.
#[derive(Debug)]
pub struct Releases<'a, B> {
    busy: &'a mut [B],
}

impl<B: Busy + AsMut<InFlight>> Releases<'_, B> {
    /// Removes one operation from `slot`; `false` if there is no such slot.
    #[inline]
    pub fn release(&mut self, slot: Slot) -> bool {
        let busy = self.busy.get_mut(slot.0 as usize);
        debug_assert!(busy.is_some(), "an operation uses {slot:?}, which does not exist");
        busy.map(|busy| busy.as_mut().0 -= 1).is_some()
    }
}

fn words(slots: u32, slot_words: u32) -> Option<usize> {
    (slots as usize).checked_mul(slot_words as usize)
}

/// Miri can run these tests: `cargo +nightly miri test -p probeline-transport --features engine memory`.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::InFlightOrUntil;

    fn range(slot: u32, start: u32, words: u32) -> SlotRange {
        SlotRange { slot: Slot(slot), start, words }
    }

    #[test]
    fn allocates_aligned_bounded_memory() {
        let memory = Memory::new(20).unwrap();
        assert_eq!(memory.first().addr().get() % LINE_BYTES, 0);
        assert!(memory.at(0, 20).is_some() && memory.at(20, 0).is_some());
        assert!(memory.at(1, 20).is_none() && memory.at(usize::MAX, 2).is_none());
        assert!(Memory::new(usize::MAX / 8).is_none());
        assert!(Slots::<_, Until>::new(u32::MAX, u32::MAX - 7).is_none());
        assert!(Slots::<_, Until>::for_cpu(1 << 31, 1 << 24).is_none());
    }

    #[test]
    fn slots_start_disjoint_and_zero() {
        let mut slots = Slots::<_, Until>::new(3, 16).unwrap();
        for slot in 0..3 {
            assert_eq!(slots.address(range(slot, 0, 16)).addr() % LINE_BYTES, 0);
            let words = slots.staged(range(slot, 0, 16), 0).unwrap();
            assert_eq!(words, [0; 16]);
            words.fill(u64::from(slot) + 1);
        }
        for slot in 0..3 {
            let words = slots.landed(range(slot, 4, 12), 0);
            assert_eq!(words, Ok(&[u64::from(slot) + 1; 12][..]));
        }
        for (slot, start, words) in [(3, 0, 1), (0, 0, 0), (0, 16, 1), (0, u32::MAX, 2)] {
            let at = range(slot, start, words);
            assert_eq!(slots.landed(at, 0), Err(PostError::OutOfRange), "{at:?}");
        }
    }

    #[test]
    fn slots_follow_other_words() {
        let memory = || Memory::new(40).unwrap();
        let mut slots = Slots::<_, Until>::in_memory(memory(), 3, 2, 16).unwrap();
        let first = slots.memory().first().addr().get();
        assert_eq!(slots.address(range(0, 0, 1)).addr(), first + LINE_BYTES);
        slots.staged(range(1, 0, 16), 0).unwrap().fill(7);
        assert!(Slots::<_, Until>::in_memory(memory(), 9, 2, 16).is_none());
        assert!(Slots::<_, Until>::in_memory(memory(), 0, 3, 16).is_none());
    }

    #[test]
    fn device_writes_only_held_slots() {
        let mut slots = Slots::<_, InFlight>::new(3, 16).unwrap();
        let at = range(1, 0, 4);
        slots.staged(at, 0).unwrap().copy_from_slice(&[1, 2, 3, 4]);
        slots.hold(Slot(1));
        slots.hold(Slot(1));
        let device = slots.address(range(1, 2, 1));
        let other = slots.landed(range(2, 0, 16), 0).unwrap();
        // SAFETY: a word of a slot that is held.
        unsafe { device.write(7) };
        assert_eq!(other, [0; 16]);
        for _ in 0..2 {
            assert_eq!(slots.landed(at, u64::MAX), Err(PostError::Busy));
            assert_eq!(slots.staged(at, u64::MAX).err(), Some(PostError::Busy));
            slots.release(Slot(1));
        }
        assert_eq!(slots.landed(at, 0), Ok(&[1, 2, 7, 4][..]));
    }

    #[test]
    fn reported_operations_release_slots() {
        let mut slots = Slots::<_, InFlightOrUntil>::new(2, 8).unwrap();
        let at = range(1, 0, 8);
        slots.hold_until(Slot(1), 6);
        slots.hold_until(Slot(1), 7);
        assert_eq!(slots.landed(at, 6), Err(PostError::Busy));
        slots.hold(Slot(1));
        assert_eq!(slots.landed(at, 7), Err(PostError::Busy));
        slots.release(Slot(1));
        assert!(slots.landed(at, 7).is_ok());
    }

    #[test]
    fn cpu_accesses_held_slot() {
        let mut slots = Slots::<_, InFlight>::for_cpu(2, 8).unwrap();
        let at = range(1, 2, 3);
        slots.hold(Slot(1));
        slots.words_mut(at).unwrap().fill(5);
        assert_eq!(slots.words(at), Some(&[5; 3][..]));
        assert!(slots.words(range(1, 6, 3)).is_none() && slots.words_mut(range(2, 0, 1)).is_none());
        slots.release(Slot(1));
        assert_eq!(slots.landed(range(1, 1, 4), u64::MAX), Ok(&[0, 5, 5, 5][..]));
    }

    #[test]
    fn leaked_slots_stay_busy() {
        stays_busy(Slots::<_, InFlight>::new(1, 8).unwrap());
        stays_busy(Slots::<_, Until>::new(1, 8).unwrap());
        stays_busy(Slots::<_, InFlightOrUntil>::new(1, 8).unwrap());
    }

    fn stays_busy<B: Busy>(mut slots: Slots<Memory, B>) {
        slots.leak();
        assert_eq!(slots.staged(range(0, 0, 1), 1 << 60).err(), Some(PostError::Busy));
        // So that a leak checker reports nothing.
        slots.memory.leaked = false;
    }

    #[test]
    fn holds_only_ranges_within_slots() {
        let mut slots = Slots::<_, InFlight>::new(2, 8).unwrap();
        for (slot, start, words) in [(2, 0, 1), (0, 0, 0), (0, 8, 1), (1, u32::MAX, 2)] {
            assert!(!slots.hold_range(range(slot, start, words)));
        }
        assert!(slots.landed(range(0, 0, 8), 0).is_ok() && slots.landed(range(1, 0, 8), 0).is_ok());
        assert!(slots.hold_range(range(1, 7, 1)));
        assert_eq!(slots.landed(range(1, 0, 1), 0), Err(PostError::Busy));
        let (_, mut releases) = slots.releases();
        assert!(releases.release(Slot(1)));
        assert!(slots.landed(range(1, 0, 1), 0).is_ok());
    }
}
