//! The private landing and staging buffers of one engine.

use core::ptr::NonNull;
use core::slice;
use std::rc::Rc;

use transport::{Local, Slot, SlotError};

use super::OpenError;
use super::context::Context;
use super::mapping::Registration;
use super::memory::Memory;

/// All slots, one after another, and how many unreported operations keep each of them busy.
#[derive(Debug)]
pub(super) struct Slots {
    // Ended before the memory goes.
    _registration: Registration,
    memory: Memory,
    slot_words: usize,
    busy: Box<[u32]>,
}

impl Slots {
    pub(super) fn new(
        context: &Rc<Context>,
        slots: u32,
        slot_words: u32,
    ) -> Result<Self, OpenError> {
        let lacking = OpenError::Sizes("no memory for the slots: choose fewer or shorter ones");
        let words = (slots as usize).checked_mul(slot_words as usize);
        let Some(memory) = words.and_then(Memory::new) else { return Err(lacking) };
        // SAFETY: the fields are dropped in their order, the memory last.
        let registration = unsafe { Registration::of(context, memory.first(), memory.len()) }?;
        let busy = vec![0; slots as usize].into();
        Ok(Self { _registration: registration, memory, slot_words: slot_words as usize, busy })
    }

    /// Where `at`, which the caller has checked, lies, for the library to work on.
    #[inline]
    pub(super) fn at(&self, at: Local) -> Option<NonNull<u64>> {
        let index = at.slot.0 as usize * self.slot_words + at.start as usize;
        self.memory.at(index, at.words as usize)
    }

    /// The words of `at`, which the caller has checked, unless its slot is busy.
    #[inline]
    pub(super) fn landed(&self, at: Local) -> Result<&[u64], SlotError> {
        self.idle(at.slot)?;
        let first = self.at(at).ok_or(SlotError::OutOfRange)?;
        // SAFETY: zeroed words of this allocation. No operation on the slot is in flight, so that
        // the library does not touch them, and none can be posted while the engine is borrowed.
        Ok(unsafe { slice::from_raw_parts(first.as_ptr(), at.words as usize) })
    }

    /// As [`landed`](Self::landed), to change them.
    #[inline]
    pub(super) fn staged(&mut self, at: Local) -> Result<&mut [u64], SlotError> {
        self.idle(at.slot)?;
        let first = self.at(at).ok_or(SlotError::OutOfRange)?;
        // SAFETY: as in `landed`; `&mut self` keeps everybody else away.
        Ok(unsafe { slice::from_raw_parts_mut(first.as_ptr(), at.words as usize) })
    }

    /// One more operation keeps `slot` busy.
    #[inline]
    pub(super) fn hold(&mut self, slot: Slot) {
        if let Some(busy) = self.busy.get_mut(slot.0 as usize) {
            *busy += 1;
        }
    }

    /// One of them was reported.
    #[inline]
    pub(super) fn release(&mut self, slot: Slot) {
        if let Some(busy) = self.busy.get_mut(slot.0 as usize) {
            *busy -= 1;
        }
    }

    /// Fails while any operation keeps `slot` busy.
    #[inline]
    fn idle(&self, slot: Slot) -> Result<(), SlotError> {
        match self.busy.get(slot.0 as usize) {
            Some(0) => Ok(()),
            Some(_) => Err(SlotError::Busy),
            None => Err(SlotError::OutOfRange),
        }
    }
}
