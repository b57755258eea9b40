//! The embedder's own transport: one owner whose window is an array.
//!
//! `transport/tests/loopback.rs` runs the conformance suite on it.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use probeline_transport::{
    AtomicScope, Caps, Completion, Fault, Geometry, Local, Owner, PostError, RemoteWord, Segment,
    Slot, SlotError, Token, Transport,
};

const WINDOW_WORDS: usize = 4096 + 8;
const SLOTS: usize = 16;
const SLOT_WORDS: usize = 64;
const DEPTH: usize = 16;

/// A slot, aligned to a cache line as the contract requires.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct SlotWords([u64; SLOT_WORDS]);

/// A transport that executes an operation when it is posted and reports it at the next poll.
pub(crate) struct Memory {
    caps: Caps,
    geometry: Geometry,
    window: [AtomicU64; WINDOW_WORDS],
    slots: [SlotWords; SLOTS],
    /// The completions not yet reported, in the order of their posts, each with the slot of its
    /// operation.
    completions: [(Completion, Option<Slot>); DEPTH],
    first: usize,
    count: usize,
}

impl Memory {
    pub(crate) fn new() -> Self {
        Self {
            caps: Caps {
                depth: DEPTH as u32,
                atomics: AtomicScope::Cpu,
                words_per_op: SLOT_WORDS as u32,
                word_reads_whole: true,
                write_then_atomic: true,
                needs_owner_progress: false,
                poll_may_wait: false,
            },
            geometry: Geometry {
                me: Owner(0),
                owners: 1,
                window_words: WINDOW_WORDS as u64,
                slots: SLOTS as u32,
                slot_words: SLOT_WORDS as u32,
            },
            window: [const { AtomicU64::new(0) }; WINDOW_WORDS],
            slots: [SlotWords([0; SLOT_WORDS]); SLOTS],
            completions: [(Completion { token: Token(0), result: Ok(0) }, None); DEPTH],
            first: 0,
            count: 0,
        }
    }

    fn slot_range(at: Local) -> core::ops::Range<usize> {
        at.start as usize..at.start as usize + at.words as usize
    }

    fn has_room(&self) -> Result<(), PostError> {
        if self.count < DEPTH { Ok(()) } else { Err(PostError::Full) }
    }

    fn complete(&mut self, token: Token, old: u64, slot: Option<Slot>) {
        if let Some(place) = self.completions.get_mut((self.first + self.count) % DEPTH) {
            *place = (Completion { token, result: Ok(old) }, slot);
            self.count += 1;
        }
    }

    fn check_slot(&self, at: Local) -> Result<(), SlotError> {
        if !self.geometry.contains_local(at) {
            return Err(SlotError::OutOfRange);
        }
        let mut unreported = self.completions.iter().cycle().skip(self.first).take(self.count);
        if unreported.any(|(_, slot)| *slot == Some(at.slot)) {
            return Err(SlotError::Busy);
        }
        Ok(())
    }
}

/// Returns the words of `at`; an empty slice unless `at` lies in the window.
fn words_of(window: &[AtomicU64], at: Segment) -> &[AtomicU64] {
    let start = usize::try_from(at.start.index).unwrap_or(usize::MAX);
    let words = at.words as usize;
    window.get(start..).and_then(|rest| rest.get(..words)).unwrap_or(&[])
}

impl Transport for Memory {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn in_flight(&self) -> u32 {
        self.count as u32
    }

    fn read(&mut self, token: Token, from: Segment, into: Local) -> Result<(), PostError> {
        self.has_room()?;
        self.geometry.check_copy(&self.caps, from, into)?;
        let slot = self.slots.get_mut(into.slot.0 as usize);
        let landing = slot.and_then(|slot| slot.0.get_mut(Self::slot_range(into)));
        for (word, bucket) in landing.into_iter().flatten().zip(words_of(&self.window, from)) {
            *word = bucket.load(Acquire);
        }
        self.complete(token, 0, Some(into.slot));
        Ok(())
    }

    fn write(&mut self, token: Token, from: Local, to: Segment) -> Result<(), PostError> {
        self.has_room()?;
        self.geometry.check_copy(&self.caps, to, from)?;
        let slot = self.slots.get(from.slot.0 as usize);
        let staged = slot.and_then(|slot| slot.0.get(Self::slot_range(from)));
        for (word, bucket) in staged.into_iter().flatten().zip(words_of(&self.window, to)) {
            bucket.store(*word, Release);
        }
        self.complete(token, 0, Some(from.slot));
        Ok(())
    }

    fn compare_and_swap(
        &mut self,
        token: Token,
        at: RemoteWord,
        expected: u64,
        desired: u64,
    ) -> Result<(), PostError> {
        self.has_room()?;
        self.geometry.check_word(at)?;
        if let [word] = words_of(&self.window, Segment { start: at, words: 1 }) {
            let (Ok(old) | Err(old)) = word.compare_exchange(expected, desired, AcqRel, Acquire);
            self.complete(token, old, None);
        }
        Ok(())
    }

    fn fetch_add(&mut self, token: Token, at: RemoteWord, addend: u64) -> Result<(), PostError> {
        self.has_room()?;
        self.geometry.check_word(at)?;
        if let [word] = words_of(&self.window, Segment { start: at, words: 1 }) {
            let old = word.fetch_add(addend, AcqRel);
            self.complete(token, old, None);
        }
        Ok(())
    }

    fn kick(&mut self) {}

    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, Fault> {
        let mut reported = 0;
        for place in out.iter_mut().take(self.count) {
            if let Some((completion, _)) = self.completions.get(self.first % DEPTH) {
                *place = *completion;
            }
            self.first = (self.first + 1) % DEPTH;
            reported += 1;
        }
        self.count -= reported;
        Ok(reported)
    }

    fn landed(&self, at: Local) -> Result<&[u64], SlotError> {
        self.check_slot(at)?;
        let slot = self.slots.get(at.slot.0 as usize);
        slot.and_then(|slot| slot.0.get(Self::slot_range(at))).ok_or(SlotError::OutOfRange)
    }

    fn staged(&mut self, at: Local) -> Result<&mut [u64], SlotError> {
        self.check_slot(at)?;
        let slot = self.slots.get_mut(at.slot.0 as usize);
        slot.and_then(|slot| slot.0.get_mut(Self::slot_range(at))).ok_or(SlotError::OutOfRange)
    }

    fn window(&self) -> &[AtomicU64] {
        &self.window
    }

    fn direct(&self, at: Segment) -> Option<&[AtomicU64]> {
        self.geometry.check_segment(at).ok()?;
        Some(words_of(&self.window, at))
    }
}
