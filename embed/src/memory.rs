//! The embedder's own transport: one owner whose window is an array.
//!
//! `transport/tests/loopback.rs` runs the conformance suite on it.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use probeline_transport::{
    AtomicScope, Caps, Completion, Fault, Geometry, Owner, PostError, Request, Segment, Slot,
    SlotRange, Token, Transport,
};

const WINDOW_WORDS: usize = 4096 + 8;
const SLOTS: usize = 16;
const SLOT_WORDS: usize = 64;
const DEPTH: usize = 16;

/// A slot, aligned to a cache line as the contract requires.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct SlotWords([u64; SLOT_WORDS]);

struct Slots([SlotWords; SLOTS]);

impl Slots {
    /// Returns the words of `at`; an empty slice unless `at` lies in a slot.
    fn get(&self, at: SlotRange) -> &[u64] {
        let slot = self.0.get(at.slot.0 as usize);
        slot.and_then(|slot| slot.0.get(Self::range(at))).unwrap_or_default()
    }

    fn get_mut(&mut self, at: SlotRange) -> &mut [u64] {
        let slot = self.0.get_mut(at.slot.0 as usize);
        slot.and_then(|slot| slot.0.get_mut(Self::range(at))).unwrap_or_default()
    }

    fn range(at: SlotRange) -> core::ops::Range<usize> {
        at.start as usize..at.start as usize + at.words as usize
    }
}

/// A transport that executes an operation when it is posted and reports it at the next poll.
pub(crate) struct Memory {
    caps: Caps,
    geometry: Geometry,
    window: [AtomicU64; WINDOW_WORDS],
    slots: Slots,
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
                names_lost_owners: true,
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
            slots: Slots([SlotWords([0; SLOT_WORDS]); SLOTS]),
            completions: [(Completion { token: Token(0), result: Ok(0) }, None); DEPTH],
            first: 0,
            count: 0,
        }
    }

    fn complete(&mut self, token: Token, old: u64, slot: Option<Slot>) {
        if let Some(place) = self.completions.get_mut((self.first + self.count) % DEPTH) {
            *place = (Completion { token, result: Ok(old) }, slot);
            self.count += 1;
        }
    }

    fn check_slot(&self, at: SlotRange) -> Result<(), PostError> {
        if !self.geometry.contains_local(at) {
            return Err(PostError::OutOfRange);
        }
        let mut unreported = self.completions.iter().cycle().skip(self.first).take(self.count);
        if unreported.any(|(_, slot)| *slot == Some(at.slot)) {
            return Err(PostError::Busy);
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

    fn post(&mut self, token: Token, request: Request) -> Result<(), PostError> {
        self.geometry.check(&self.caps, &request)?;
        if self.count == DEPTH {
            return Err(PostError::Full);
        }
        let words = words_of(&self.window, request.remote());
        let old = match request {
            Request::Read { into, .. } => {
                for (landing, word) in self.slots.get_mut(into).iter_mut().zip(words) {
                    *landing = word.load(Acquire);
                }
                0
            }
            Request::Write { from, .. } => {
                for (staged, word) in self.slots.get(from).iter().zip(words) {
                    word.store(*staged, Release);
                }
                0
            }
            Request::CompareAndSwap { expected, desired, .. } => words.first().map_or(0, |word| {
                let (Ok(old) | Err(old)) =
                    word.compare_exchange(expected, desired, AcqRel, Acquire);
                old
            }),
            Request::FetchAdd { addend, .. } => {
                words.first().map_or(0, |word| word.fetch_add(addend, AcqRel))
            }
        };
        self.complete(token, old, request.local().map(|local| local.slot));
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

    fn landed(&self, at: SlotRange) -> Result<&[u64], PostError> {
        self.check_slot(at)?;
        Ok(self.slots.get(at))
    }

    fn staged(&mut self, at: SlotRange) -> Result<&mut [u64], PostError> {
        self.check_slot(at)?;
        Ok(self.slots.get_mut(at))
    }

    fn window(&self) -> &[AtomicU64] {
        &self.window
    }

    fn direct(&self, at: Segment) -> Option<&[AtomicU64]> {
        self.geometry.check_segment(at).ok()?;
        Some(words_of(&self.window, at))
    }
}
