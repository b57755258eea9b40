//! Several structures on one engine: a [`Splitter`] gives each a [`Channel`], which is a
//! [`Transport`] on its own part of the windows, slots and depth.
#![allow(unsafe_code)]

use core::cell::Cell;
use core::sync::atomic::AtomicU64;

use crate::{
    Caps, Completion, Fault, Geometry, OpError, PostError, RemoteWord, Request, Segment,
    SetupError, Sizes, Slot, SlotRange, Token, Transport,
};

/// An engine whose memory can be seen by one channel while another channel posts and polls.
///
/// # Safety
/// - The slices that [`landed`](Transport::landed), [`staged`](Transport::staged),
///   [`window`](Transport::window) and [`direct`](Transport::direct) return lie outside the engine
///   value. They keep their address until the engine is dropped, even if it is moved.
/// - A call that does not name a slot accesses the slot's words only for an operation in flight on
///   it. Otherwise it makes no references to them, except references to atomics that it does not
///   use.
/// - No call makes a `&mut` to words of a window.
pub unsafe trait StableMemory: Transport {}

// SAFETY: all calls are those of the borrowed engine, whose memory is outside the reference too.
unsafe impl<T: StableMemory + ?Sized> StableMemory for &mut T {}

/// Divides an engine into `N` channels.
///
/// All owners split their engines by the same plan. The sum of the parts must fit the engine:
/// [`Sizes::plus`] adds them, with each part of the window starting on a cache line. The engine
/// belongs to the splitter until all channels are dropped. A part's depth is its channel's alone,
/// so no channel waits for room that another one uses.
///
/// A poll of one channel may find completions of others; it keeps them in `storage` until those
/// channels poll. A fault of the engine reaches each channel after its last completion. Nothing is
/// allocated.
///
/// ```
/// use probeline_transport::{
///     Completion, Pending, RemoteWord, Sizes, Splitter, StableMemory, Token, Transport,
/// };
///
/// const COUNTERS: Sizes = Sizes { window_words: 8, slots: 1, slot_words: 8, depth: 4 };
/// const QUEUE: Sizes = Sizes { window_words: 64, slots: 4, slot_words: 64, depth: 4 };
///
/// /// `engine` was opened with `COUNTERS.plus(QUEUE)`.
/// fn run(engine: &mut impl StableMemory) -> Result<(), Box<dyn std::error::Error>> {
///     let mut storage = [Pending::EMPTY; 8];
///     let splitter = Splitter::new(engine, [COUNTERS, QUEUE], &mut storage)?;
///     let [mut counters, mut queue] = splitter.channels().ok_or("called twice")?;
///
///     // Each channel has its own words and its own tokens.
///     let first = RemoteWord::default();
///     counters.fetch_add(Token(7), first, 1)?;
///     queue.fetch_add(Token(7), first, 10)?;
///     let mut done = [Completion::default(); 4];
///     while counters.poll(&mut done)? == 0 {}
///     while queue.poll(&mut done)? == 0 {}
///     Ok(())
/// }
/// ```
pub struct Splitter<'e, T, const N: usize> {
    shared: Shared<'e, T>,
    parts: [Part; N],
    taken: Cell<bool>,
}

/// State that all channels use.
struct Shared<'e, T> {
    /// Taken for the time of a call, so that no call finds the engine borrowed.
    engine: Cell<Option<&'e mut T>>,
    pending: &'e [Cell<Pending>],
    fault: Cell<Option<Fault>>,
}

/// One channel's part of the engine, and its lists of entries in the shared storage.
#[derive(Debug)]
struct Part {
    caps: Caps,
    geometry: Geometry,
    first_word: u64,
    first_slot: u32,
    in_flight: Cell<u32>,
    /// Entries without an operation, last freed first.
    free: Cell<u32>,
    /// Completions that other channels' polls have found, oldest first.
    found: Cell<u32>,
    last_found: Cell<u32>,
}

/// Storage for one operation in flight on a channel.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    completion: Completion,
    /// The next entry of the list that this one is in.
    next: u32,
}

/// No entry.
const NONE: u32 = u32::MAX;
/// The part of an engine's token that is the entry; the channel is above it.
const ENTRY_BITS: u32 = 32;

impl Pending {
    /// Unused storage.
    pub const EMPTY: Self =
        Self { completion: Completion { token: Token(0), result: Ok(0) }, next: NONE };
}

impl<'e, T: StableMemory, const N: usize> Splitter<'e, T, N> {
    /// Divides `engine` by `plan`. `storage` has an entry for each operation in flight: the sum of
    /// the depths. First [drains](Transport::drain) the engine.
    ///
    /// # Errors
    /// [`SetupError`] if the engine or the storage is too small for the plan.
    pub fn new(
        engine: &'e mut T,
        plan: [Sizes; N],
        storage: &'e mut [Pending],
    ) -> Result<Self, SetupError> {
        let (caps, geometry) = (*engine.caps(), *engine.geometry());
        let total = plan.iter().fold(Sizes::default(), |sum, part| sum.plus(*part));
        check("window words", total.window_words, geometry.window_words)?;
        check("slots", total.slots.into(), geometry.slots.into())?;
        check("words in a slot", total.slot_words.into(), geometry.slot_words.into())?;
        check("operations in flight (depth)", total.depth.into(), caps.depth.into())?;
        check(STORAGE, total.depth.into(), storage.len() as u64)?;
        engine.drain();
        let pending = Cell::from_mut(storage).as_slice_of_cells();
        let mut before = Sizes::default();
        let parts = plan.map(|sizes| {
            let start = before.plus(Sizes::default());
            before = before.plus(sizes);
            Part::new(caps, geometry, sizes, start, pending)
        });
        let shared = Shared { engine: Cell::new(Some(engine)), pending, fault: Cell::new(None) };
        Ok(Self { shared, parts, taken: Cell::new(false) })
    }

    /// Returns the channels, in the order of the plan; `None` after the first call, because
    /// operations of the first channels may still be in flight.
    pub fn channels(&self) -> Option<[Channel<'_, 'e, T>; N]> {
        if self.taken.replace(true) {
            return None;
        }
        let mut index = 0;
        Some(self.parts.each_ref().map(|part| {
            index += 1;
            Channel {
                shared: &self.shared,
                parts: &self.parts,
                part,
                tag: (index - 1) << ENTRY_BITS,
            }
        }))
    }
}

impl Part {
    fn new(
        caps: Caps,
        geometry: Geometry,
        sizes: Sizes,
        start: Sizes,
        pending: &[Cell<Pending>],
    ) -> Self {
        let entries = start.depth..start.depth.saturating_add(sizes.depth);
        let mut free = NONE;
        for (index, entry) in
            entries.clone().rev().zip(pending[..entries.end as usize].iter().rev())
        {
            entry.set(Pending { next: free, ..Pending::EMPTY });
            free = index;
        }
        Self {
            caps: Caps { depth: sizes.depth, ..caps },
            geometry: Geometry {
                window_words: sizes.window_words,
                slots: sizes.slots,
                slot_words: sizes.slot_words,
                ..geometry
            },
            first_word: start.window_words,
            first_slot: start.slots,
            in_flight: Cell::new(0),
            free: Cell::new(free),
            found: Cell::new(NONE),
            last_found: Cell::new(NONE),
        }
    }
}

impl<'e, T> Shared<'e, T> {
    /// Takes the engine for a call; `None` only after a call of the engine panicked.
    #[inline]
    fn take(&self) -> Option<&'e mut T> {
        let engine = self.engine.take();
        debug_assert!(engine.is_some(), "the engine panicked in an earlier call");
        engine
    }

    /// Calls the engine; `None` only after a call of the engine panicked.
    #[inline]
    fn with<R>(&self, call: impl FnOnce(&mut T) -> R) -> Option<R> {
        let engine = self.take()?;
        let result = call(engine);
        self.engine.set(Some(engine));
        Some(result)
    }

    #[inline]
    fn entry(&self, index: u32) -> Option<&Cell<Pending>> {
        let entry = self.pending.get(index as usize);
        debug_assert!(entry.is_some(), "entry {index} of {}", self.pending.len());
        entry
    }

    /// Frees an entry of `part` and returns its completion under the caller's token.
    #[inline]
    fn finish(&self, part: &Part, index: u32) -> Option<Completion> {
        let entry = self.entry(index)?;
        let completion = entry.get().completion;
        entry.set(Pending { next: part.free.replace(index), ..Pending::EMPTY });
        part.in_flight.set(part.in_flight.get().saturating_sub(1));
        Some(completion)
    }

    /// Keeps a completion for the channel of `part`.
    fn keep(&self, part: &Part, index: u32, result: Result<u64, OpError>) {
        let Some(entry) = self.entry(index) else { return };
        let token = entry.get().completion.token;
        entry.set(Pending { completion: Completion { token, result }, next: NONE });
        match self.pending.get(part.last_found.replace(index) as usize) {
            Some(last) => last.set(Pending { next: index, ..last.get() }),
            None => part.found.set(index),
        }
    }

    /// Takes the oldest completion that was kept for the channel of `part`.
    #[inline]
    fn take_kept(&self, part: &Part) -> Option<Completion> {
        let index = part.found.get();
        if index == NONE {
            return None;
        }
        let next = self.entry(index)?.get().next;
        part.found.set(next);
        if next == NONE {
            part.last_found.set(NONE);
        }
        self.finish(part, index)
    }
}

/// One part of an engine, which is a [`Transport`] itself and can be split again.
///
/// It belongs to the thread of its engine. Dropping it leaves the engine and the other channels as
/// they are: its operations in flight take effect, and their completions are not reported. Peers
/// learn of a loss only when the engine is dropped.
pub struct Channel<'s, 'e, T> {
    shared: &'s Shared<'e, T>,
    parts: &'s [Part],
    part: &'s Part,
    /// This channel in an engine's token.
    tag: u64,
}

impl<T: StableMemory> Channel<'_, '_, T> {
    /// Translates a checked segment of this channel's windows to the engine's windows.
    #[inline]
    fn segment(&self, at: Segment) -> Segment {
        Segment { start: self.word(at.start), ..at }
    }

    #[inline]
    fn word(&self, at: RemoteWord) -> RemoteWord {
        RemoteWord { index: at.index + self.part.first_word, ..at }
    }

    /// Translates a checked slot range of this channel to the engine's slots.
    #[inline]
    fn local(&self, at: SlotRange) -> SlotRange {
        SlotRange { slot: Slot(at.slot.0 + self.part.first_slot), ..at }
    }

    /// Translates a checked request to the engine's addresses.
    #[inline(always)]
    fn engine_request(&self, request: Request) -> Request {
        match request {
            Request::Read { from, into } => {
                Request::Read { from: self.segment(from), into: self.local(into) }
            }
            Request::Write { from, to } => {
                Request::Write { from: self.local(from), to: self.segment(to) }
            }
            Request::CompareAndSwap { at, expected, desired } => {
                Request::CompareAndSwap { at: self.word(at), expected, desired }
            }
            Request::FetchAdd { at, addend } => Request::FetchAdd { at: self.word(at), addend },
        }
    }

    #[inline]
    fn checked_local(&self, at: SlotRange) -> Result<SlotRange, PostError> {
        if self.part.geometry.contains_local(at) {
            Ok(self.local(at))
        } else {
            Err(PostError::OutOfRange)
        }
    }

    /// Reports a completion of the engine: returns one of this channel's, keeps another's.
    #[inline]
    fn route(&self, Completion { token, result }: Completion) -> Option<Completion> {
        #[allow(clippy::cast_possible_truncation, reason = "the low half is the entry")]
        let index = token.0 as u32;
        if token.0 & !u64::from(u32::MAX) == self.tag {
            let own = self.shared.finish(self.part, index)?;
            return Some(Completion { result, ..own });
        }
        let part = usize::try_from(token.0 >> ENTRY_BITS).ok().and_then(|at| self.parts.get(at));
        debug_assert!(part.is_some(), "{token:?} belongs to no channel");
        self.shared.keep(part?, index, result);
        None
    }
}

impl<T: StableMemory> Transport for Channel<'_, '_, T> {
    #[inline]
    fn caps(&self) -> &Caps {
        &self.part.caps
    }

    #[inline]
    fn geometry(&self) -> &Geometry {
        &self.part.geometry
    }

    #[inline]
    fn in_flight(&self) -> u32 {
        self.part.in_flight.get()
    }

    #[inline(always)]
    fn post(&mut self, token: Token, request: Request) -> Result<(), PostError> {
        let part = self.part;
        part.geometry.check(&part.caps, &request)?;
        let index = part.free.get();
        if index == NONE {
            return Err(PostError::Full);
        }
        let entry = self.shared.entry(index).ok_or(PostError::Closed)?;
        let engine_token = Token(self.tag | u64::from(index));
        let request = self.engine_request(request);
        // Not by `with`: a closure would not be inlined, and the request's kind not known in it.
        let engine = self.shared.take().ok_or(PostError::Closed)?;
        let posted = engine.post(engine_token, request);
        self.shared.engine.set(Some(engine));
        posted?;
        let Pending { next, .. } = entry.get();
        part.free.set(next);
        part.in_flight.set(part.in_flight.get() + 1);
        entry.set(Pending { completion: Completion { token, result: Ok(0) }, next: NONE });
        Ok(())
    }

    #[inline]
    fn kick(&mut self) {
        self.shared.with(T::kick);
    }

    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, Fault> {
        let mut reported = 0;
        for place in out.iter_mut() {
            let Some(kept) = self.shared.take_kept(self.part) else { break };
            *place = kept;
            reported += 1;
        }
        // Each turn but the last takes a completion of the engine, which has no more than its depth.
        while let Some(room) = out.get_mut(reported..) {
            let polled = match self.shared.with(|engine| engine.poll(room)) {
                Some(Ok(polled)) => polled,
                Some(Err(fault)) => {
                    self.shared.fault.set(Some(fault));
                    break;
                }
                None => break,
            };
            let is_last = polled < room.len();
            let room = Cell::from_mut(room).as_slice_of_cells();
            let mut places = room.iter();
            for completion in room.iter().take(polled) {
                let Some(own) = self.route(completion.get()) else { continue };
                if let Some(place) = places.next() {
                    place.set(own);
                    reported += 1;
                }
            }
            if is_last || reported == out.len() {
                break;
            }
        }
        match self.shared.fault.get() {
            Some(fault) if reported == 0 && self.in_flight() == 0 => Err(fault),
            _ => Ok(reported),
        }
    }

    #[inline]
    fn landed(&self, at: SlotRange) -> Result<&[u64], PostError> {
        let at = self.checked_local(at)?;
        let words = self.shared.with(|engine| engine.landed(at).map(core::ptr::from_ref));
        // SAFETY: the words outlive the engine's borrow, which outlives `self`, by `StableMemory`.
        // The slot is this channel's alone. A call that changes its words, or starts an operation
        // that does, wants `&mut self`; the engine makes no other access while the slot is idle.
        words.unwrap_or(Err(PostError::Busy)).map(|words| unsafe { &*words })
    }

    #[inline]
    fn staged(&mut self, at: SlotRange) -> Result<&mut [u64], PostError> {
        let at = self.checked_local(at)?;
        let words = self.shared.with(|engine| engine.staged(at).map(core::ptr::from_mut));
        // SAFETY: as in `landed`; `&mut self` also excludes other references to the slot.
        words.unwrap_or(Err(PostError::Busy)).map(|words| unsafe { &mut *words })
    }

    #[inline]
    fn window(&self) -> &[AtomicU64] {
        let (first, words) = (self.part.first_word, self.part.geometry.window_words);
        let range = |window: &[AtomicU64]| {
            let first = usize::try_from(first).ok()?;
            let words = window.get(first..)?.get(..usize::try_from(words).ok()?)?;
            Some(core::ptr::from_ref(words))
        };
        let words = self.shared.with(|engine| range(engine.window())).flatten();
        debug_assert!(words.is_some(), "the plan fits the window");
        // SAFETY: by `StableMemory` the words outlive the engine's borrow, and no `&mut` to them
        // exists.
        words.map_or(&[], |words| unsafe { &*words })
    }

    #[inline]
    fn direct(&self, at: Segment) -> Option<&[AtomicU64]> {
        self.part.geometry.check_segment(at).ok()?;
        let at = self.segment(at);
        let words = self.shared.with(|engine| engine.direct(at).map(core::ptr::from_ref));
        // SAFETY: as in `window`.
        words.flatten().map(|words| unsafe { &*words })
    }
}

// SAFETY: the slices are the engine's, whose memory is outside the channel and lives at least as
// long. A channel accesses them only by calls of the engine, for which the same holds.
unsafe impl<T: StableMemory> StableMemory for Channel<'_, '_, T> {}

/// Checks that the engine or the storage has as much as the parts of a plan need.
fn check(size: &'static str, needed: u64, found: u64) -> Result<(), SetupError> {
    if needed <= found {
        return Ok(());
    }
    let advice = match size {
        STORAGE => "pass longer storage",
        _ => "open a larger engine, or plan smaller parts",
    };
    Err(SetupError::TooSmall { size, needed, found, advice })
}

const STORAGE: &str = "entries of storage";
