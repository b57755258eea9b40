//! The private memory of an engine: slots, and what atomics carry and bring.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::alloc::{alloc_zeroed, dealloc};

use probeline_transport::{LINE_BYTES, Local, Slot, SlotError, WORD_BYTES};

/// Words of an atomic: the old value that it brings, and two that it carries.
const ATOMIC_WORDS: usize = 4;

/// Slots, one after another, then the words of each operation in flight; and how many operations
/// have to be reported until each slot is idle: they are reported in the order of their posts. MPI
/// writes to it between a post and the flush that ends it, so it is reached by pointers, and by
/// references only where no operation is in flight.
#[derive(Debug)]
pub(super) struct Private {
    base: NonNull<u64>,
    layout: Layout,
    slot_words: usize,
    /// The first word of the first operation.
    atomics: usize,
    busy_until: Box<[u64]>,
    /// MPI may still write to it.
    lost: bool,
}

impl Private {
    /// `slots` zeroed slots of `slot_words` words, a multiple of 8, and the words of so many
    /// operations; `None` if memory lacks.
    pub(super) fn new(slots: u32, slot_words: u32, operations: u32) -> Option<Self> {
        let (slots, slot_words) = (slots as usize, slot_words as usize);
        let atomics = slots.checked_mul(slot_words)?;
        let words = atomics.checked_add(ATOMIC_WORDS * operations as usize)?;
        let bytes = words.checked_mul(WORD_BYTES)?;
        let layout = Layout::from_size_align(bytes, LINE_BYTES).ok()?;
        // SAFETY: at least one operation's words.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) })?.cast();
        let busy_until = vec![0; slots].into();
        let mut private = Self { base, layout, slot_words, atomics, busy_until, lost: false };
        // Now, so that no first touch is left for the data path.
        private.words_mut(0..words).fill(0);
        Some(private)
    }

    /// MPI has failed, or nobody waits for it: it may write to any of this for ever. No slot is
    /// shown, and nothing is freed.
    pub(super) fn lose(&mut self) {
        self.lost = true;
    }

    /// The first word of the slot range `at`, which the caller has checked.
    #[inline]
    pub(super) fn slot(&self, at: Local) -> *mut u64 {
        self.word(self.first(at))
    }

    /// Where the operation at `place`, one of those there are, finds its old value, and the two
    /// words that it carries.
    #[inline]
    pub(super) fn atomic(&self, place: usize) -> [*mut u64; 3] {
        let first = self.atomics + ATOMIC_WORDS * place;
        [self.word(first), self.word(first + 1), self.word(first + 2)]
    }

    /// The old value of the operation at `place`, which has ended.
    #[inline]
    pub(super) fn old_value(&self, place: usize) -> u64 {
        let [old, ..] = self.atomic(place);
        // SAFETY: a word of this memory, and the flush that ended the operation has returned.
        unsafe { old.read() }
    }

    /// What READs have brought to the slot range `at`, which the caller has checked, where so many
    /// operations are reported.
    #[inline]
    pub(super) fn landed(&self, at: Local, reported: u64) -> Result<&[u64], SlotError> {
        self.idle(at.slot, reported)?;
        // SAFETY: words of an idle slot: MPI has done with what was reported, and gets them again
        // by a post only, which takes the engine as `&mut`.
        Ok(unsafe { core::slice::from_raw_parts(self.slot(at), at.words as usize) })
    }

    /// As [`landed`](Self::landed), to be filled.
    #[inline]
    pub(super) fn staged(&mut self, at: Local, reported: u64) -> Result<&mut [u64], SlotError> {
        self.idle(at.slot, reported)?;
        let first = self.first(at);
        Ok(self.words_mut(first..first + at.words as usize))
    }

    #[inline]
    fn first(&self, at: Local) -> usize {
        at.slot.0 as usize * self.slot_words + at.start as usize
    }

    #[inline]
    fn word(&self, index: usize) -> *mut u64 {
        // SAFETY: callers stay within the memory: they have checked the slot range, or take the
        // place from the ledger.
        unsafe { self.base.as_ptr().add(index) }
    }

    /// Words that MPI does not use now.
    #[inline]
    fn words_mut(&mut self, range: core::ops::Range<usize>) -> &mut [u64] {
        // SAFETY: `&mut self`, and callers give words of slots on which no operation is in flight,
        // or all before there is any; they lie within the memory, which is initialised.
        unsafe { core::slice::from_raw_parts_mut(self.word(range.start), range.len()) }
    }

    /// Keeps `slot` busy until so many operations are reported.
    #[inline]
    pub(super) fn hold_until(&mut self, slot: Slot, reported: u64) {
        match self.busy_until.get_mut(slot.0 as usize) {
            Some(until) => *until = reported,
            None => debug_assert!(false, "{slot:?} is used and is not there"),
        }
    }

    #[inline]
    fn idle(&self, slot: Slot, reported: u64) -> Result<(), SlotError> {
        match self.busy_until.get(slot.0 as usize) {
            Some(until) if *until <= reported && !self.lost => Ok(()),
            Some(_) => Err(SlotError::Busy),
            None => Err(SlotError::OutOfRange),
        }
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        if !self.lost {
            // SAFETY: allocated with this layout. Nothing is in flight: the engine has ended it, or
            // has said that this is lost.
            unsafe { dealloc(self.base.as_ptr().cast(), self.layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_and_atomics_are_apart_and_zero() {
        let mut private = Private::new(3, 16, 2).unwrap();
        let at = |slot| Local { slot: Slot(slot), start: 0, words: 16 };
        for slot in 0..3 {
            assert_eq!(private.slot(at(slot)).addr() % 64, 0);
            let words = private.staged(at(slot), 0).unwrap();
            assert_eq!(words, [0; 16]);
            words.fill(7);
        }
        assert_eq!([0, 1].map(|index| private.old_value(index)), [0, 0]);
        assert!(private.atomic(0)[2] < private.atomic(1)[0]);
    }

    #[test]
    fn a_held_slot_is_not_shown() {
        let mut private = Private::new(2, 8, 1).unwrap();
        let at = Local { slot: Slot(1), start: 0, words: 8 };
        private.hold_until(Slot(1), 6);
        private.hold_until(Slot(1), 7);
        assert_eq!(private.landed(at, 6).err(), Some(SlotError::Busy));
        assert!(private.landed(at, 7).is_ok());
        private.lose();
        assert_eq!(private.staged(at, 7).err(), Some(SlotError::Busy));
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        assert!(Private::new(u32::MAX, u32::MAX - 7, 1).is_none());
    }
}
