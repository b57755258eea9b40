//! The transport of one client: a post takes effect and completes when the checker decides.

use std::rc::Rc;

use core::hash::{Hash, Hasher};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;

use probeline_transport::{
    AtomicScope, Caps, Completion, Fault, Geometry, OpError, Owner, PostError, RemoteWord, Request,
    Segment, Slot, SlotRange, Token, Transport,
};

const MAX_POSTED: usize = 8;
const MAX_SLOTS: usize = 4;
/// Words of a slot, and of the longest READ.
pub const MAX_READ: usize = 8;
/// Words of the longest WRITE.
pub const MAX_WRITTEN: usize = MAX_READ;

/// A one-sided operation in flight.
#[derive(Clone, Debug, Hash)]
pub struct Posted {
    /// The token that the operation was posted with.
    pub token: Token,
    /// The operation.
    pub action: Action,
    /// The request of the client that posted it.
    pub request: u8,
    /// Values that words of a READ have had since its post, except the first and the present one, as
    /// far as the checker [notes] them, each with the index of its word in the READ.
    ///
    /// [notes]: Wire::note
    pub later: Vec<(u8, u64)>,
}

/// The kind of an operation in flight. Words have the indices of the memory.
#[derive(Clone, Copy, Debug, Hash)]
#[allow(missing_docs, reason = "the fields are those of the requests")]
pub enum Action {
    /// A READ; `first` are the words at the post.
    Read { from: Segment, into: SlotRange, first: [u64; MAX_READ] },
    /// A WRITE of the first `count` of these words.
    Write { at: usize, words: [u64; MAX_WRITTEN], count: usize },
    /// A compare-and-swap that has not taken effect.
    CompareAndSwap { at: usize, expected: u64, desired: u64 },
    /// A fetch-and-add that has not taken effect.
    FetchAdd { at: usize, addend: u64 },
    /// An atomic that has taken effect, with the old word.
    Answer { old: u64 },
}

type OnPoll<const N: usize> = Rc<dyn Fn(&mut Wire<N>)>;

/// The transport of one client of a memory of `N` words, in which the owners' windows are
/// concatenated. The memory is the checker's, which sets it before each step and reads it back
/// after.
pub struct Wire<const N: usize> {
    caps: Caps,
    geometry: Geometry,
    /// Number of owners, from owner 0 on, whose parts the CPU can address.
    reaches: u32,
    /// The memory that the CPU sees; the checker sets it before a step and reads it back after.
    memory: [AtomicU64; N],
    slots: [[u64; MAX_READ]; MAX_SLOTS],
    /// Words of each slot that READs have written, one bit each.
    landed: [u8; MAX_SLOTS],
    /// Shared with clones until they change.
    posted: [Option<Rc<Posted>>; MAX_POSTED],
    completed: Option<Completion>,
    /// The slot of the WRITE in flight; a client with storage for one operation has at most one.
    staged: Option<Slot>,
    /// The number of the client's present request; posts carry it.
    pub request: u8,
    /// Acts before each poll.
    pub on_poll: Option<OnPoll<N>>,
    /// Whether polls return a fault.
    pub is_stopped: bool,
}

impl<const N: usize> Wire<N> {
    /// Creates the wire of `owners` windows of `part` words each. The CPU can address the parts of
    /// owners below `reaches`; `whole` says whether READs return whole words.
    #[must_use]
    pub fn new(owners: u32, part: usize, slots: u32, reaches: u32, whole: bool) -> Self {
        assert!(slots as usize <= MAX_SLOTS, "an operation has at most {MAX_SLOTS} slots here");
        Self {
            caps: Caps {
                depth: 5,
                atomics: AtomicScope::Cpu,
                words_per_op: MAX_READ as u32,
                word_reads_whole: whole,
                needs_owner_progress: false,
                write_then_atomic: false,
                names_lost_owners: true,
                poll_may_wait: false,
            },
            geometry: Geometry {
                me: Owner(0),
                owners,
                window_words: part as u64,
                slots,
                slot_words: MAX_READ as u32,
            },
            reaches,
            memory: [const { AtomicU64::new(0) }; N],
            slots: [[0; MAX_READ]; MAX_SLOTS],
            landed: [0; MAX_SLOTS],
            posted: [const { None }; MAX_POSTED],
            completed: None,
            staged: None,
            request: 0,
            on_poll: None,
            is_stopped: false,
        }
    }

    /// Promises that atomics take effect after earlier WRITEs ([`Caps::write_then_atomic`]). The
    /// checker has to keep the promise.
    #[must_use]
    pub fn with_ordered_writes(mut self) -> Self {
        self.caps.write_then_atomic = true;
        self
    }

    /// Returns the wire of a client at this owner, instead of owner 0.
    #[must_use]
    pub fn at_owner(mut self, me: Owner) -> Self {
        self.geometry.me = me;
        self
    }

    /// Sets the memory that the client sees.
    pub fn set_memory(&mut self, memory: &[u64; N]) {
        for (word, value) in self.memory.iter_mut().zip(memory) {
            *word.get_mut() = *value;
        }
    }

    /// Returns the memory, with what the client's CPU has stored.
    #[must_use]
    pub fn memory(&self) -> [u64; N] {
        core::array::from_fn(|at| self.memory[at].load(SeqCst))
    }

    /// Returns the words that the CPU can address, as the client sees them.
    #[must_use]
    pub fn reached(&self) -> Vec<u64> {
        let words = self.reaches as usize * self.geometry.window_words as usize;
        self.memory[..words].iter().map(|word| word.load(SeqCst)).collect()
    }

    /// Returns the operations in flight, each with its number.
    pub fn posted(&self) -> impl Iterator<Item = (usize, &Posted)> {
        self.posted.iter().enumerate().filter_map(|(nth, posted)| Some((nth, posted.as_deref()?)))
    }

    /// Returns whether [`note`](Self::note) changes something.
    #[must_use]
    pub fn must_note(&self, at: usize, old: u64, new: u64) -> bool {
        self.posted.iter().flatten().any(|posted| self.noted(posted, at, old, new).is_some())
    }

    /// Notes that a word has changed, for the READs in flight that may still return its old value.
    pub fn note(&mut self, at: usize, old: u64, new: u64) {
        for nth in 0..MAX_POSTED {
            let noted = self.posted[nth].as_ref().and_then(|it| self.noted(it, at, old, new));
            if let (Some(posted), Some(later)) = (&mut self.posted[nth], noted) {
                Rc::make_mut(posted).later = later;
            }
        }
    }

    /// Returns what a READ in flight has to note of a change, if it covers the word.
    fn noted(&self, posted: &Posted, at: usize, old: u64, new: u64) -> Option<Vec<(u8, u64)>> {
        let Action::Read { from, first, .. } = posted.action else { return None };
        let nth = at.checked_sub(self.index(from.start))?;
        if nth >= from.words as usize || old == new {
            return None;
        }
        let (mut later, nth) = (posted.later.clone(), nth as u8);
        later.retain(|noted| *noted != (nth, new));
        if first[usize::from(nth)] != old {
            later.push((nth, old));
            later.sort_unstable();
        }
        (later != posted.later).then_some(later)
    }

    /// Returns the index of a word in the memory.
    #[must_use]
    pub fn index(&self, at: RemoteWord) -> usize {
        at.owner.0 as usize * self.geometry.window_words as usize + at.index as usize
    }

    /// Completes the READ posted as `nth` with these words.
    ///
    /// # Panics
    /// If no READ is posted as `nth`.
    pub fn bring(&mut self, nth: usize, words: &[u64]) {
        let Some(Posted { action: Action::Read { into, .. }, .. }) = self.posted[nth].as_deref()
        else {
            panic!("no READ is posted as {nth}")
        };
        let (slot, start) = (into.slot.0 as usize, into.start as usize);
        for (at, word) in (start..).zip(words) {
            self.slots[slot][at] = *word;
            self.landed[slot] |= 1 << at;
        }
        self.complete(nth, Ok(0));
    }

    /// Records that the atomic posted as `nth` has found this word.
    pub fn set_answer(&mut self, nth: usize, old: u64) {
        if let Some(posted) = &mut self.posted[nth] {
            Rc::make_mut(posted).action = Action::Answer { old };
        }
    }

    /// Completes the operation posted as `nth`.
    pub fn complete(&mut self, nth: usize, result: Result<u64, OpError>) {
        let token = self.posted[nth].take().map(|posted| posted.token);
        self.completed = token.map(|token| Completion { token, result });
    }

    /// Clears idle slots, so that worlds do not differ in their content. A scan of such a slot is
    /// an error.
    pub fn clear_idle_slots(&mut self) {
        for slot in 0..MAX_SLOTS {
            if !self.is_busy(Slot(slot as u32)) {
                self.slots[slot] = [0; MAX_READ];
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

impl<const N: usize> Clone for Wire<N> {
    fn clone(&self) -> Self {
        let memory = core::array::from_fn(|at| AtomicU64::new(self.memory[at].load(SeqCst)));
        let posted = self.posted.clone();
        Self { memory, posted, on_poll: self.on_poll.clone(), ..*self }
    }
}

/// Leaves out the memory, which is part of the world.
impl<const N: usize> Hash for Wire<N> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        for (nth, Posted { token, action, request, later }) in self.posted() {
            // The request distinguishes generations.
            (nth, token.0 as u32, action, *request == self.request, later).hash(hasher);
        }
        for (slot, landed) in self.slots.iter().zip(self.landed).filter(|(_, landed)| *landed > 0) {
            let words = slot.iter().enumerate().filter(|(at, _)| landed >> at & 1 == 1);
            landed.hash(hasher);
            words.for_each(|(_, word)| word.hash(hasher));
        }
        let completed = self.completed.map(|it| (it.token.0 as u32, it.result.ok()));
        completed.hash(hasher);
    }
}

impl<const N: usize> Transport for Wire<N> {
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
                for at in into.start..into.start + into.words {
                    self.landed[into.slot.0 as usize] &= !(1 << at);
                }
                let start = self.index(from.start);
                let first = core::array::from_fn(|nth| match self.memory.get(start + nth) {
                    Some(word) if nth < from.words as usize => word.load(SeqCst),
                    _ => 0,
                });
                Action::Read { from, into, first }
            }
            Request::Write { from, to } => {
                let count = to.words as usize;
                assert!(count <= MAX_WRITTEN, "a WRITE has at most {MAX_WRITTEN} words here");
                let slot = &self.slots[from.slot.0 as usize];
                let words = core::array::from_fn(|nth| {
                    if nth < from.words as usize { slot[from.start as usize + nth] } else { 0 }
                });
                self.staged = Some(from.slot);
                Action::Write { at: self.index(to.start), words, count }
            }
            Request::CompareAndSwap { at, expected, desired } => {
                Action::CompareAndSwap { at: self.index(at), expected, desired }
            }
            Request::FetchAdd { at, addend } => Action::FetchAdd { at: self.index(at), addend },
        };
        if self.in_flight() == self.caps.depth {
            return Err(PostError::Full);
        }
        let free = self.posted.iter_mut().find(|posted| posted.is_none());
        *free.ok_or(PostError::Full)? =
            Some(Rc::new(Posted { token, action, request: self.request, later: Vec::new() }));
        Ok(())
    }

    fn kick(&mut self) {}

    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, Fault> {
        if let Some(on_poll) = self.on_poll.clone() {
            on_poll(self);
        }
        if self.is_stopped {
            return Err(Fault::Device { code: 0 });
        }
        let Some(completion) = self.completed.take() else { return Ok(0) };
        out[0] = completion;
        Ok(1)
    }

    fn landed(&self, at: SlotRange) -> Result<&[u64], PostError> {
        let range = at.start as usize..(at.start + at.words) as usize;
        if self.is_busy(at.slot) {
            return Err(PostError::Busy);
        }
        let slot = at.slot.0 as usize;
        if slot >= MAX_SLOTS || range.end > MAX_READ {
            return Err(PostError::OutOfRange);
        }
        if range.clone().any(|word| self.landed[slot] >> word & 1 == 0) {
            return Err(PostError::OutOfRange);
        }
        self.slots[slot].get(range).ok_or(PostError::OutOfRange)
    }

    fn staged(&mut self, at: SlotRange) -> Result<&mut [u64], PostError> {
        let range = at.start as usize..(at.start + at.words) as usize;
        let slot = at.slot.0 as usize;
        if slot >= MAX_SLOTS || range.end > MAX_READ {
            return Err(PostError::OutOfRange);
        }
        range.clone().for_each(|word| self.landed[slot] |= 1 << word);
        self.slots[slot].get_mut(range).ok_or(PostError::OutOfRange)
    }

    fn window(&self) -> &[AtomicU64] {
        let part = self.geometry.window_words as usize;
        &self.memory[self.geometry.me.0 as usize * part..][..part]
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
