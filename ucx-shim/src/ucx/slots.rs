//! The private landing and staging buffers of one engine.

use core::slice;
use std::rc::Rc;

use probeline_transport::{Local, Slot, SlotError};

use super::OpenError;
use super::context::Context;
use super::mapping::Registration;
use super::memory::Memory;

/// What keeps a slot busy.
#[derive(Clone, Copy, Debug, Default)]
struct Busy {
    /// Until so many operations of the queue are reported.
    until: u64,
    /// Operations that went on and are not reported.
    late: u32,
}

/// All slots, one after another, and what keeps each of them busy.
#[derive(Debug)]
pub(super) struct Slots {
    // Ended before the memory goes.
    _registration: Registration,
    memory: Memory,
    slot_words: usize,
    busy: Box<[Busy]>,
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
        let busy = vec![Busy::default(); slots as usize].into();
        Ok(Self { _registration: registration, memory, slot_words: slot_words as usize, busy })
    }

    /// Where `at` lies, for the library to work on. Within the memory if `at` is of the slots, which
    /// the caller has checked.
    #[inline]
    pub(super) fn at(&self, at: Local) -> *mut u64 {
        let index = at.slot.0 as usize * self.slot_words + at.start as usize;
        self.memory.first().as_ptr().wrapping_add(index)
    }

    /// The words of `at`, which the caller has checked, unless its slot is busy where so many
    /// operations of the queue are reported.
    #[inline]
    pub(super) fn landed(&self, at: Local, reported: u64) -> Result<&[u64], SlotError> {
        self.idle(at.slot, reported)?;
        // SAFETY: zeroed words of this allocation. No operation on the slot is in flight, so that
        // the library does not touch them, and none can be posted while the engine is borrowed.
        Ok(unsafe { slice::from_raw_parts(self.at(at), at.words as usize) })
    }

    /// As [`landed`](Self::landed), to change them.
    #[inline]
    pub(super) fn staged(&mut self, at: Local, reported: u64) -> Result<&mut [u64], SlotError> {
        self.idle(at.slot, reported)?;
        // SAFETY: as in `landed`; `&mut self` keeps everybody else away.
        Ok(unsafe { slice::from_raw_parts_mut(self.at(at), at.words as usize) })
    }

    /// Keeps `slot` busy until so many operations of the queue are reported.
    #[inline]
    pub(super) fn hold_until(&mut self, slot: Slot, reported: u64) {
        match self.busy.get_mut(slot.0 as usize) {
            Some(busy) => busy.until = reported,
            None => debug_assert!(false, "{slot:?} is used and is not there"),
        }
    }

    /// One more operation that goes on keeps `slot` busy.
    pub(super) fn hold(&mut self, slot: Slot) {
        match self.busy.get_mut(slot.0 as usize) {
            Some(busy) => busy.late += 1,
            None => debug_assert!(false, "{slot:?} is used and is not there"),
        }
    }

    /// One of them was reported.
    pub(super) fn release(&mut self, slot: Slot) {
        match self.busy.get_mut(slot.0 as usize) {
            Some(busy) => busy.late -= 1,
            None => debug_assert!(false, "{slot:?} was held and is not there"),
        }
    }

    /// Fails while any operation keeps `slot` busy.
    #[inline]
    fn idle(&self, slot: Slot, reported: u64) -> Result<(), SlotError> {
        match self.busy.get(slot.0 as usize) {
            Some(busy) if busy.late == 0 && busy.until <= reported => Ok(()),
            Some(_) => Err(SlotError::Busy),
            None => Err(SlotError::OutOfRange),
        }
    }
}
