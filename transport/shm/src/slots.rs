//! The private landing and staging buffers of one engine.

use probeline_transport::{LINE_BYTES, LINE_WORDS, Local, Slot, SlotError};

/// All slots, one after another, and how many unreported operations keep each of them busy.
#[derive(Debug)]
pub(crate) struct Slots {
    /// The slots and what aligning them leaves over.
    memory: Box<[u64]>,
    /// The first word of slot 0.
    first: usize,
    slot_words: usize,
    busy: Box<[u32]>,
}

impl Slots {
    /// `slots` zeroed slots of `slot_words` words, a multiple of 8; `None` if memory lacks.
    pub(crate) fn new(slots: u32, slot_words: u32) -> Option<Self> {
        let (slots, slot_words) = (slots as usize, slot_words as usize);
        let words = slots.checked_mul(slot_words)?.checked_add(LINE_WORDS as usize)?;
        let mut memory = Vec::new();
        memory.try_reserve_exact(words).ok()?;
        // Writes every word, so that no first touch is left for the data path.
        memory.resize(words, 0_u64);
        let memory = memory.into_boxed_slice();
        let first = memory.as_ptr().align_offset(LINE_BYTES);
        Some(Self { memory, first, slot_words, busy: vec![0; slots].into() })
    }

    /// The words of `at`, whether busy or not.
    #[inline]
    pub(crate) fn words(&self, at: Local) -> Option<&[u64]> {
        self.memory.get(self.range(at))
    }

    /// As [`words`](Self::words), to change them.
    #[inline]
    pub(crate) fn words_mut(&mut self, at: Local) -> Option<&mut [u64]> {
        let range = self.range(at);
        self.memory.get_mut(range)
    }

    /// Where `at`, which the caller has checked, lies.
    #[inline]
    fn range(&self, at: Local) -> core::ops::Range<usize> {
        let start = self.first + at.slot.0 as usize * self.slot_words + at.start as usize;
        start..start + at.words as usize
    }

    /// One more operation keeps `slot` busy.
    #[inline]
    pub(crate) fn hold(&mut self, slot: Slot) {
        match self.busy.get_mut(slot.0 as usize) {
            Some(busy) => *busy += 1,
            None => debug_assert!(false, "{slot:?} is used and is not there"),
        }
    }

    /// One of them was reported.
    #[inline]
    pub(crate) fn release(&mut self, slot: Slot) {
        match self.busy.get_mut(slot.0 as usize) {
            Some(busy) => *busy -= 1,
            None => debug_assert!(false, "{slot:?} was held and is not there"),
        }
    }

    /// Fails while any operation keeps `slot` busy.
    #[inline]
    pub(crate) fn idle(&self, slot: Slot) -> Result<(), SlotError> {
        match self.busy.get(slot.0 as usize) {
            Some(0) => Ok(()),
            Some(_) => Err(SlotError::Busy),
            None => Err(SlotError::OutOfRange),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_aligned_zero_and_apart() {
        let mut slots = Slots::new(5, 24).unwrap();
        let at = |slot| Local { slot: Slot(slot), start: 0, words: 24 };
        for slot in 0..5 {
            let words = slots.words_mut(at(slot)).unwrap();
            assert_eq!(words.as_ptr().addr() % 64, 0);
            assert_eq!(words, [0; 24]);
            words.fill(u64::from(slot));
        }
        for slot in 0..5 {
            assert_eq!(slots.words(at(slot)).unwrap(), [u64::from(slot); 24]);
        }
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        assert!(Slots::new(u32::MAX, u32::MAX - 7).is_none());
        assert!(Slots::new(1 << 31, 1 << 24).is_none());
    }
}
