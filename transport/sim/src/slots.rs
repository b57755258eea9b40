//! An engine's private slots: lines of 64 bytes, each slot hidden while an operation uses it.

use alloc::vec;
use alloc::vec::Vec;

use probeline_transport::{Geometry, LINE_BYTES, LINE_WORDS, Local, SlotError};

/// What a landing range holds from the post of a READ until its completion, and for ever if that
/// is an error: no canonical address, no small number, no text.
pub const POISON: u64 = 0xdead_beef_dead_beef;

/// What aligning the first slot leaves over.
const SPARE_WORDS: usize = LINE_WORDS as usize - 1;

pub(crate) struct Slots {
    geometry: Geometry,
    words: Vec<u64>,
    /// Words before the first line.
    skip: usize,
    /// Operations in flight on each slot.
    busy: Vec<u32>,
}

impl Slots {
    pub(crate) fn new(geometry: Geometry) -> Self {
        let len = geometry.slots as usize * geometry.slot_words as usize;
        let words = vec![0; len + SPARE_WORDS];
        let skip = words.as_ptr().align_offset(LINE_BYTES).min(SPARE_WORDS);
        Self { geometry, words, skip, busy: vec![0; geometry.slots as usize] }
    }

    /// The words of a range, which the caller has checked to lie within a slot.
    pub(crate) fn words(&self, at: Local) -> &[u64] {
        let (start, len) = self.place(at);
        &self.words[start..start + len]
    }

    pub(crate) fn words_mut(&mut self, at: Local) -> &mut [u64] {
        let (start, len) = self.place(at);
        &mut self.words[start..start + len]
    }

    fn place(&self, at: Local) -> (usize, usize) {
        let slot = at.slot.0 as usize * self.geometry.slot_words as usize;
        (self.skip + slot + at.start as usize, at.words as usize)
    }

    /// An operation on the slot of `at` begins.
    pub(crate) fn hold(&mut self, at: Local) {
        self.busy[at.slot.0 as usize] += 1;
    }

    /// An operation on the slot of `at` has ended.
    pub(crate) fn release(&mut self, at: Local) {
        self.busy[at.slot.0 as usize] -= 1;
    }

    /// # Errors
    /// As [`Transport::landed`](probeline_transport::Transport::landed).
    pub(crate) fn check(&self, at: Local) -> Result<(), SlotError> {
        if !self.geometry.contains_local(at) {
            return Err(SlotError::OutOfRange);
        }
        if self.busy[at.slot.0 as usize] > 0 {
            return Err(SlotError::Busy);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use probeline_transport::{Owner, Slot};

    use super::*;

    #[test]
    fn slots_are_lines_that_do_not_overlap() {
        let geometry =
            Geometry { me: Owner(0), owners: 1, window_words: 8, slots: 3, slot_words: 16 };
        let mut slots = Slots::new(geometry);
        let whole = |slot| Local { slot: Slot(slot), start: 0, words: 16 };
        for slot in 0..3 {
            slots.words_mut(whole(slot)).fill(slot.into());
        }
        for slot in 0..3 {
            let words = slots.words(whole(slot));
            assert_eq!(words.as_ptr() as usize % LINE_BYTES, 0);
            assert_eq!(words, [u64::from(slot); 16]);
        }
    }
}
