//! The transport of one client: a post takes effect and completes when the checker decides.

use std::rc::Rc;

use core::hash::{Hash, Hasher};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;

use probeline_transport::{
    AtomicScope, Caps, Completion, Fault, Geometry, Local, OpError, Owner, PostError, RemoteWord,
    Request, Segment, Slot, SlotError, Token, Transport,
};

use super::{MOST_BUCKETS, Memory};

const MOST_POSTED: usize = 8;
const MOST_SLOTS: usize = 4;
const MOST_CHUNK: usize = 8;
/// Words of the longest WRITE.
pub(super) const MAX_WRITTEN: usize = 2;

/// A one-sided operation in flight.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Posted {
    pub(super) token: Token,
    pub(super) action: Action,
    /// The request of the client that posted it.
    pub(super) request: u8,
}

#[derive(Clone, Copy, Debug, Hash)]
pub(super) enum Action {
    /// A READ; `occupied` has a bit for each bucket that was occupied at the post, and `first` the
    /// first words at the post.
    Read {
        from: Segment,
        into: Local,
        occupied: u16,
        first: [u64; MAX_WRITTEN],
    },
    /// A WRITE of the first `count` of these words.
    Write {
        at: usize,
        words: [u64; MAX_WRITTEN],
        count: usize,
    },
    CompareAndSwap {
        at: usize,
        desired: u64,
    },
    FetchAdd {
        at: usize,
        addend: u64,
    },
    /// An atomic that has taken effect, with the old word.
    Answer {
        old: u64,
    },
}

type OnPoll = Rc<dyn Fn(&mut Wire)>;

/// The transport. The owners' parts of the ring are concatenated in `memory`.
pub(super) struct Wire {
    caps: Caps,
    geometry: Geometry,
    /// Number of owners, from owner 0 on, whose parts the CPU can address.
    reaches: u32,
    /// The memory that the CPU sees; the checker sets it before a step and reads it back after.
    memory: [AtomicU64; MOST_BUCKETS],
    slots: [[u64; MOST_CHUNK]; MOST_SLOTS],
    /// Words of each slot that READs have written, one bit each.
    landed: [u8; MOST_SLOTS],
    posted: [Option<Posted>; MOST_POSTED],
    completed: Option<Completion>,
    /// The slot of the WRITE in flight; a client with storage for one operation has at most one.
    staged: Option<Slot>,
    pub(super) request: u8,
    /// Completes an operation at each poll, if no checker does so between polls.
    pub(super) on_poll: Option<OnPoll>,
}

impl Wire {
    /// Creates the wire of `owners` windows of `part` words each.
    pub(super) fn new(owners: u32, part: usize, slots: u32, reaches: u32, whole: bool) -> Self {
        Self {
            caps: Caps {
                depth: 5,
                atomics: AtomicScope::Cpu,
                words_per_op: MOST_CHUNK as u32,
                word_reads_whole: whole,
                needs_owner_progress: false,
                write_then_atomic: false,
                poll_may_wait: false,
            },
            geometry: Geometry {
                me: Owner(0),
                owners,
                window_words: part as u64,
                slots,
                slot_words: MOST_CHUNK as u32,
            },
            reaches,
            memory: [const { AtomicU64::new(0) }; MOST_BUCKETS],
            slots: [[0; MOST_CHUNK]; MOST_SLOTS],
            landed: [0; MOST_SLOTS],
            posted: [None; MOST_POSTED],
            completed: None,
            staged: None,
            request: 0,
            on_poll: None,
        }
    }

    pub(super) fn set_memory(&mut self, memory: &Memory) {
        for (word, value) in self.memory.iter_mut().zip(memory) {
            *word.get_mut() = *value;
        }
    }

    pub(super) fn memory(&self) -> Memory {
        core::array::from_fn(|at| self.memory[at].load(SeqCst))
    }

    pub(super) fn posted(&self) -> impl Iterator<Item = (usize, Posted)> + '_ {
        self.posted.iter().enumerate().filter_map(|(nth, posted)| Some((nth, (*posted)?)))
    }

    /// Returns the index of a word in `memory`.
    pub(super) fn index(&self, at: RemoteWord) -> usize {
        at.owner.0 as usize * self.geometry.window_words as usize + at.index as usize
    }

    /// Completes the READ posted as `nth` with these words.
    pub(super) fn bring(&mut self, nth: usize, words: &[u64]) {
        let Some(Posted { action: Action::Read { into, .. }, .. }) = self.posted[nth] else {
            panic!("no READ is posted as {nth}")
        };
        let slot = into.slot.0 as usize;
        for (at, word) in (into.start as usize..).zip(words) {
            self.slots[slot][at] = *word;
            self.landed[slot] |= 1 << at;
        }
        self.complete(nth, Ok(0));
    }

    /// Records that the atomic posted as `nth` has found this word.
    pub(super) fn set_answer(&mut self, nth: usize, old: u64) {
        if let Some(posted) = &mut self.posted[nth] {
            posted.action = Action::Answer { old };
        }
    }

    pub(super) fn complete(&mut self, nth: usize, result: Result<u64, OpError>) {
        let token = self.posted[nth].take().map(|posted| posted.token);
        self.completed = token.map(|token| Completion { token, result });
    }

    /// Clears idle slots, so that worlds do not differ in their content. A scan of such a slot is
    /// an error.
    pub(super) fn clear_idle_slots(&mut self) {
        for slot in 0..MOST_SLOTS {
            if !self.is_busy(Slot(slot as u32)) {
                self.slots[slot] = [0; MOST_CHUNK];
                self.landed[slot] = 0;
            }
        }
    }

    fn is_busy(&self, slot: Slot) -> bool {
        self.posted().any(|(_, posted)| match posted.action {
            Action::Read { into, .. } => into.slot == slot,
            Action::Write { .. } => Some(slot) == self.staged,
            _ => false,
        })
    }
}

impl Clone for Wire {
    fn clone(&self) -> Self {
        let memory = core::array::from_fn(|at| AtomicU64::new(self.memory[at].load(SeqCst)));
        Self { memory, on_poll: self.on_poll.clone(), ..*self }
    }
}

/// Leaves out the memory, which is part of the world.
impl Hash for Wire {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        for (nth, Posted { token, action, request }) in self.posted() {
            // The request distinguishes generations.
            (nth, token.0 as u32, action, request == self.request).hash(hasher);
        }
        for (slot, landed) in self.slots.iter().zip(self.landed).filter(|(_, landed)| *landed > 0) {
            let words = slot.iter().enumerate().filter(|(at, _)| landed >> at & 1 == 1);
            landed.hash(hasher);
            words.for_each(|(_, word)| word.hash(hasher));
        }
    }
}

impl Transport for Wire {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn in_flight(&self) -> u32 {
        (self.posted().count() + self.completed.iter().len()) as u32
    }

    fn post(&mut self, token: Token, request: Request) -> Result<(), PostError> {
        self.geometry.check(&self.caps, &request)?;
        let action = match request {
            Request::Read { from, into } => {
                let occupied = |at: &usize| self.memory[*at].load(SeqCst) != 0;
                let occupied = (0..MOST_BUCKETS).filter(occupied).map(|at| 1 << at).sum();
                for at in into.start..into.start + into.words {
                    self.landed[into.slot.0 as usize] &= !(1 << at);
                }
                let start = self.index(from.start);
                let first = core::array::from_fn(|nth| match self.memory.get(start + nth) {
                    Some(word) if nth < from.words as usize => word.load(SeqCst),
                    _ => 0,
                });
                Action::Read { from, into, occupied, first }
            }
            Request::Write { from, to } => {
                let slot = &self.slots[from.slot.0 as usize];
                let words = core::array::from_fn(|nth| {
                    if nth < from.words as usize { slot[from.start as usize + nth] } else { 0 }
                });
                self.staged = Some(from.slot);
                Action::Write { at: self.index(to.start), words, count: to.words as usize }
            }
            Request::CompareAndSwap { at, expected, desired } => {
                assert_eq!(expected, 0, "claims are on empty buckets");
                Action::CompareAndSwap { at: self.index(at), desired }
            }
            Request::FetchAdd { at, addend } => Action::FetchAdd { at: self.index(at), addend },
        };
        if self.in_flight() == self.caps.depth {
            return Err(PostError::Full);
        }
        let free = self.posted.iter_mut().find(|posted| posted.is_none());
        *free.ok_or(PostError::Full)? = Some(Posted { token, action, request: self.request });
        Ok(())
    }

    fn kick(&mut self) {}

    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, Fault> {
        if let Some(on_poll) = self.on_poll.clone() {
            on_poll(self);
        }
        let Some(completion) = self.completed.take() else { return Ok(0) };
        out[0] = completion;
        Ok(1)
    }

    fn landed(&self, at: Local) -> Result<&[u64], SlotError> {
        let range = at.start as usize..(at.start + at.words) as usize;
        if self.is_busy(at.slot) {
            return Err(SlotError::Busy);
        }
        let slot = at.slot.0 as usize;
        if range.clone().any(|word| self.landed[slot] >> word & 1 == 0) {
            return Err(SlotError::OutOfRange);
        }
        self.slots[slot].get(range).ok_or(SlotError::OutOfRange)
    }

    fn staged(&mut self, at: Local) -> Result<&mut [u64], SlotError> {
        let range = at.start as usize..(at.start + at.words) as usize;
        let slot = at.slot.0 as usize;
        range.clone().for_each(|word| self.landed[slot] |= 1 << word);
        self.slots[slot].get_mut(range).ok_or(SlotError::OutOfRange)
    }

    fn window(&self) -> &[AtomicU64] {
        &self.memory[..self.geometry.window_words as usize]
    }

    fn direct(&self, at: Segment) -> Option<&[AtomicU64]> {
        self.geometry.check_segment(at).ok()?;
        if at.start.owner.0 >= self.reaches {
            return None;
        }
        let start = self.index(at.start);
        self.memory.get(start..start + at.words as usize)
    }
}
