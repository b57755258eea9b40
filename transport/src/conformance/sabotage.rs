//! A wrapper that breaks one rule of the contract, to prove that the suite detects it.

use core::sync::atomic::Ordering::{Acquire, Release};
use std::collections::VecDeque;

use crate::{
    Completion, Fault, PostError, RemoteWord, Request, Segment, SlotRange, Token, Transport,
    forward_transport,
};

/// A rule of the contract that the wrapper breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// No rule: the control, which must pass every case.
    Nothing,
    /// CAS exchanges its expected and its desired value.
    SwapExpectedAndDesired,
    /// A failed CAS returns the expected value as the old one.
    CasReportsExpected,
    /// FAA returns the sum instead of the old value.
    FaaReportsSum,
    /// FAA adds twice.
    FaaAddsTwice,
    /// FAA is a load and a store; the load is executed as early as the store of the previous FAA.
    FaaIsSplit,
    /// An atomic takes effect before the WRITE posted before it.
    AtomicOvertakesWrite,
    /// WRITE completes without writing.
    WriteIsLost,
    /// READ omits its last word.
    ReadStopsShort,
    /// READ completes before its words have landed.
    ReadCompletesEarly,
    /// A word lands torn: half old, half new.
    TearWord,
    /// Some completions are never reported.
    LoseCompletion,
    /// Some completions are reported twice.
    DeliverTwice,
    /// A completion carries only half of the token.
    CutToken,
    /// A poll into an empty buffer drops a completion.
    EmptyPollEats,
    /// A post returns `Full` one operation early.
    FullTooEarly,
    /// A refused post completes nevertheless.
    RefusalCompletes,
    /// An owner that does not exist is mapped to one that does.
    OwnerWraps,
    /// `landed` returns a slot with an operation in flight.
    ShowBusySlot,
    /// Nothing completes until the caller kicks.
    NeedKick,
    /// A poll allocates.
    AllocateInPoll,
    /// The fault of a lost owner is not reported.
    HideFault,
    /// The fault is reported before all completions.
    FaultBeforeEnds,
}

impl Rule {
    /// Each rule, with a case that must fail if the rule is broken.
    pub const ALL: &[(Rule, &str)] = &[
        (Rule::SwapExpectedAndDesired, "a_random_mix_ends_once_each"),
        (Rule::CasReportsExpected, "cas_chain_has_one_winner"),
        (Rule::CasReportsExpected, "cas_compares_all_64_bits"),
        (Rule::FaaReportsSum, "a_random_mix_ends_once_each"),
        (Rule::FaaAddsTwice, "faa_sums_exactly"),
        (Rule::FaaIsSplit, "faa_sums_exactly"),
        (Rule::FaaIsSplit, "atomic_with_the_cpu"),
        (Rule::AtomicOvertakesWrite, "an_atomic_follows_the_write_before_it"),
        (Rule::WriteIsLost, "write_at_every_offset"),
        (Rule::WriteIsLost, "completed_write_is_seen"),
        (Rule::ReadStopsShort, "read_at_every_offset"),
        (Rule::ReadCompletesEarly, "straddle_lands_in_one_slot"),
        (Rule::TearWord, "words_are_whole_under_a_writer"),
        (Rule::LoseCompletion, "a_random_mix_ends_once_each"),
        (Rule::DeliverTwice, "a_random_mix_ends_once_each"),
        (Rule::CutToken, "tokens_come_back_as_given"),
        (Rule::EmptyPollEats, "small_poll_buffers"),
        (Rule::FullTooEarly, "full_exactly_at_depth"),
        (Rule::RefusalCompletes, "full_exactly_at_depth"),
        (Rule::RefusalCompletes, "bad_ranges_are_refused"),
        (Rule::OwnerWraps, "bad_ranges_are_refused"),
        (Rule::ShowBusySlot, "a_busy_slot_is_not_shown"),
        (Rule::NeedKick, "progress_without_kick"),
        (Rule::AllocateInPoll, "nothing_is_allocated"),
        (Rule::HideFault, "a_lost_owner_is_named"),
        (Rule::FaultBeforeEnds, "a_lost_owner_is_named"),
    ];
}

/// An engine that breaks one [`Rule`] of the contract. Landing slots are copies, so that the words
/// of a READ can be falsified too.
pub struct Sabotage<T> {
    inner: T,
    rule: Rule,
    /// The operations in flight, needed to falsify their completions.
    posted: Vec<(Token, Request)>,
    /// The landing ranges of completed READs whose slot is still busy, so their words are not
    /// copied.
    landing: Vec<SlotRange>,
    slots: Vec<u64>,
    first_word: usize,
    slot_words: usize,
    /// Completions that the wrapper has added.
    extra: VecDeque<Completion>,
    held: Option<Completion>,
    /// The WRITE to be posted after the next atomic.
    delayed: Option<(Token, Request)>,
    /// The word of the last FAA, and its value after that FAA.
    loaded: Option<(RemoteWord, u64)>,
    completed: u64,
    kicked: bool,
}

impl<T: Transport> Sabotage<T> {
    /// Wraps `inner`.
    pub fn new(inner: T, rule: Rule) -> Self {
        let geometry = *inner.geometry();
        let depth = inner.caps().depth as usize;
        let slot_words = geometry.slot_words as usize;
        // One line more, so that the slots can be aligned to a line.
        let slots = vec![0_u64; slot_words * geometry.slots as usize + 8];
        Self {
            rule,
            posted: Vec::with_capacity(depth),
            landing: Vec::with_capacity(depth),
            first_word: slots.as_ptr().align_offset(64),
            slots,
            slot_words,
            extra: VecDeque::with_capacity(depth),
            held: None,
            delayed: None,
            loaded: None,
            completed: 0,
            kicked: true,
            inner,
        }
    }

    fn broken(&self, rule: Rule) -> bool {
        self.rule == rule
    }

    fn range(&self, at: SlotRange) -> core::ops::Range<usize> {
        let start = self.first_word + at.slot.0 as usize * self.slot_words + at.start as usize;
        start..start + at.words as usize
    }

    /// Returns whether to refuse the post although the engine has room.
    fn full_early(&self) -> bool {
        self.broken(Rule::FullTooEarly) && self.inner.in_flight() + 1 == self.inner.caps().depth
    }

    /// Posts `request`, falsified if the rule requires it.
    fn post_falsified(&mut self, token: Token, request: Request) -> Result<(), PostError> {
        let posted = match (self.rule, request) {
            (Rule::OwnerWraps, Request::Read { mut from, into }) => {
                from.start.owner.0 %= self.inner.geometry().owners;
                Request::Read { from, into }
            }
            (Rule::WriteIsLost, Request::Write { to, .. }) => {
                Request::FetchAdd { at: to.start, addend: 0 }
            }
            (Rule::SwapExpectedAndDesired, Request::CompareAndSwap { at, expected, desired }) => {
                Request::CompareAndSwap { at, expected: desired, desired: expected }
            }
            (Rule::FaaAddsTwice, Request::FetchAdd { at, addend }) => {
                Request::FetchAdd { at, addend: addend.wrapping_mul(2) }
            }
            (Rule::FaaIsSplit, Request::FetchAdd { at, addend }) => self.split(at, addend),
            _ => request,
        };
        self.inner.post(token, posted)
    }

    /// Loads early and stores now what a FAA adds, if the CPU can, and returns a FAA of the rest.
    fn split(&mut self, at: RemoteWord, addend: u64) -> Request {
        let Some([word]) = self.inner.direct(Segment { start: at, words: 1 }) else {
            return Request::FetchAdd { at, addend };
        };
        let early = self.loaded.filter(|(loaded, _)| *loaded == at).map(|(_, old)| old);
        let sum = early.unwrap_or_else(|| word.load(Acquire)).wrapping_add(addend);
        word.store(sum, Release);
        self.loaded = Some((at, sum));
        Request::FetchAdd { at, addend: 0 }
    }

    fn falsify(&mut self, mut completion: Completion) -> Option<Completion> {
        self.completed += 1;
        let known = self.posted.iter().position(|(token, _)| *token == completion.token);
        let what = known.map(|at| self.posted.remove(at).1);
        if let Some(Request::Read { into, .. }) = what {
            self.landing.push(into);
        }
        match (self.rule, what) {
            (Rule::CasReportsExpected, Some(Request::CompareAndSwap { expected, .. })) => {
                completion.result = Ok(expected);
            }
            (Rule::FaaReportsSum, Some(Request::FetchAdd { addend, .. })) => {
                completion.result = completion.result.map(|old| old.wrapping_add(addend));
            }
            (Rule::CutToken, _) => completion.token.0 &= 0xffff_ffff,
            (Rule::LoseCompletion, _) if self.completed.is_multiple_of(7) => return None,
            (Rule::DeliverTwice, _) if self.completed.is_multiple_of(5) => {
                self.extra.push_back(completion);
            }
            // Holds the newest completion back until the next, so that a fault comes before it.
            (Rule::FaultBeforeEnds, _) => return self.held.replace(completion),
            _ => {}
        }
        Some(completion)
    }

    /// Polls the engine once; returns whether it reported a completion.
    fn take_one(&mut self, one: &mut [Completion; 1]) -> Result<bool, Fault> {
        match self.inner.poll(one) {
            Err(_) if self.broken(Rule::HideFault) => Ok(false),
            completed => Ok(completed? == 1),
        }
    }

    /// Copies the landed words to the wrapper's slots, falsified if the rule requires it.
    fn land(&mut self) {
        let mut next = 0;
        while let Some(&at) = self.landing.get(next) {
            let range = self.range(at);
            let Ok(words) = self.inner.landed(at) else {
                next += 1;
                continue;
            };
            self.landing.swap_remove(next);
            let skip = match self.rule {
                Rule::ReadStopsShort => words.len() - 1,
                Rule::ReadCompletesEarly => 0,
                _ => words.len(),
            };
            for (slot, word) in self.slots[range].iter_mut().zip(words).take(skip) {
                *slot = match self.rule {
                    Rule::TearWord => *slot & 0xffff_ffff | *word & !0xffff_ffff,
                    _ => *word,
                };
            }
        }
    }
}

impl<T: Transport> Transport for Sabotage<T> {
    forward_transport!(inner: caps, geometry, in_flight, staged, window, direct);

    fn post(&mut self, token: Token, request: Request) -> Result<(), PostError> {
        if self.full_early() {
            return Err(PostError::Full);
        }
        if self.broken(Rule::AtomicOvertakesWrite) && matches!(request, Request::Write { .. }) {
            self.delayed = Some((token, request));
            return Ok(());
        }
        let outcome = self.post_falsified(token, request);
        let delayed = self.delayed.take_if(|_| matches!(request, Request::FetchAdd { .. }));
        if let Some((token, write)) = delayed {
            self.inner.post(token, write)?;
        }
        match outcome {
            Ok(()) => self.posted.push((token, request)),
            Err(_) if self.broken(Rule::RefusalCompletes) && self.extra.is_empty() => {
                self.extra.push_back(Completion { token, result: Ok(0) });
            }
            Err(_) => {}
        }
        self.kicked = false;
        outcome
    }

    fn kick(&mut self) {
        self.kicked = true;
        self.inner.kick();
    }

    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, Fault> {
        if self.broken(Rule::NeedKick) && !self.kicked {
            return Ok(0);
        }
        if self.broken(Rule::AllocateInPoll) {
            drop(core::hint::black_box(vec![0_u64; 4]));
        }
        if self.broken(Rule::EmptyPollEats) && out.is_empty() {
            self.inner.poll(&mut [Completion::default()])?;
        }
        let mut one = [Completion::default()];
        let mut count = 0;
        while count < out.len() {
            let completion = match self.extra.pop_front() {
                Some(completion) => Some(completion),
                None => match self.take_one(&mut one) {
                    Ok(true) => self.falsify(one[0]),
                    Err(fault) if count == 0 => return Err(fault),
                    Ok(false) | Err(_) => break,
                },
            };
            if let Some(completion) = completion {
                out[count] = completion;
                count += 1;
            }
        }
        self.land();
        Ok(count)
    }

    fn landed(&self, at: SlotRange) -> Result<&[u64], PostError> {
        match self.inner.landed(at) {
            Err(PostError::Busy) if self.broken(Rule::ShowBusySlot) => {}
            other => drop(other?),
        }
        Ok(&self.slots[self.range(at)])
    }
}
