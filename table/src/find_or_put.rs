//! Find and find-or-put as a state machine (paper Fig. 1).
//!
//! An operation first examines the lines that the CPU can address. It then reads chunks with READs
//! and claims buckets by compare-and-swap. It has two landing slots: one for the chunk that it
//! scans and one for the chunk read ahead.

mod account;
mod chunks;
mod tagged;

use probeline_pipeline::{Completed, Machine, Next, Port, Run, Step, Stop};
use probeline_transport::Transport;

use crate::bucket::{Bucket, Wanted};
use crate::cache::CacheEntry;
use crate::context::Context;
use crate::direct::{Direct, LineOutcome};
use crate::layout::{LINE_BUCKETS, Layout, Position};
use crate::outcome::{Ended, Intent};
use crate::stats::Cost;
use crate::walk::Walk;

/// One find or find-or-put.
///
/// The parts of its posts are 0 and 1 for the READs of the chunk in that landing slot, and `CLAIM`,
/// `CONFIRM` and `ONE_ROUNDTRIP` for its atomics.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(Hash))]
pub struct FindOrPut<B: Wanted = Bucket> {
    /// The wanted bucket, and the start of the chunk requested last.
    walk: Walk<B>,
    /// The part of the matching word that the walk keeps, once there is one.
    seen: B::Seen,
    stage: Stage,
    one_roundtrip: OneRoundtripState,
    /// C of this operation.
    chunk_buckets: u32,
    /// The first chunk, counted from 0, at which the next one is requested before this one is
    /// scanned.
    ahead_from: u32,
    /// The chunk that the operation waits for or scans, counted from 0, and its start.
    chunk: u32,
    start: Position,
    /// Buckets of that chunk already examined.
    cursor: u32,
    /// Number of chunks requested so far.
    requested: u32,
    /// Number of READs in flight into each landing slot.
    landing: [u8; 2],
    /// Whether the CPU copied the chunk in the slot and the operation has not scanned it yet.
    by_cpu: [bool; 2],
    cost: Cost,
}

/// The post id of a claim of a bucket seen empty.
const CLAIM: u8 = 2;
/// The post id of a fetch-and-add of 0 on a possibly torn word.
const CONFIRM: u8 = 3;
/// The post id of a claim of the home bucket along with the first READ.
const ONE_ROUNDTRIP: u8 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Looks next at the line or, if the CPU cannot address it, looks up the cache.
    Lookup,
    /// Looks next at the line, which was prefetched.
    Walk,
    /// Claims the home bucket next, along with the first READ.
    OneRoundtrip,
    /// Requests chunks and scans them.
    Scan,
    /// Claims the bucket at the cursor next.
    Claim,
    /// Confirms the bucket at the cursor next, with a fetch-and-add of 0.
    Confirm,
    /// Waits for the result of a claim or confirmation in flight.
    Answer,
}

/// The claim posted along with the first READ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum OneRoundtripState {
    None,
    InFlight,
    /// The bucket holds another key.
    Lost,
    /// The result of the claim decided the outcome.
    Decided,
}

/// The decision after a scan or after the result of an atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    /// Scan the next chunk when it has landed.
    NextChunk,
    /// Scan the same chunk again: the cursor has advanced.
    Rescan,
    /// Wait for the result of the one-roundtrip claim.
    AwaitOneRoundtrip,
    Claim,
    Confirm,
    Done(Ended),
}

impl<B: Wanted> Machine for FindOrPut<B> {
    type Outcome = Ended;
    const IDLE: Self = Self::at(Walk::idle(B::ANY), B::UNSEEN, Stage::Lookup);
    const SLOTS: u32 = 2;
}

impl<B: Wanted, C: AsMut<[CacheEntry]>> Run<Context<C>> for FindOrPut<B> {
    // Inlined into the driver up to the post of the first READ, which most operations need. The
    // other stages are a call.
    #[inline(always)]
    fn advance(
        &mut self,
        context: &mut Context<C>,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Ended> {
        let posts_first =
            self.stage == Stage::Lookup && context.direct == Direct::Off && !context.cache.is_on();
        if posts_first {
            self.search(context, port.transport());
            if self.stage == Stage::OneRoundtrip {
                self.claim_home(context, port)?;
            }
            self.request(0, context, port)?;
            if self.due().is_none() {
                return Ok(Step::Wait);
            }
        }
        self.proceed(context, port)
    }

    #[inline(always)]
    fn on_completion(
        &mut self,
        Completed { post_id, word }: Completed,
        context: &mut Context<C>,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Ended> {
        let decision = match post_id {
            CLAIM => Some(self.on_claim(word)),
            CONFIRM => Some(self.on_confirm(word)),
            ONE_ROUNDTRIP => self.on_one_roundtrip(word),
            slot => {
                let landing = &mut self.landing[usize::from(slot & 1)];
                *landing = landing.saturating_sub(1);
                let is_due = self.stage == Stage::Scan
                    && self.landing[self.parity()] == 0
                    && self.due().is_none();
                return if is_due {
                    self.scan_first(context, port)
                } else {
                    self.proceed(context, port)
                };
            }
        };
        if let Some(decision) = decision {
            if context.cache.is_on() {
                self.learn_answer(word, decision, context);
            }
            if let Some(outcome) = self.take(decision) {
                return Ok(Step::Done(self.end(outcome, context)));
            }
        }
        self.proceed(context, port)
    }

    fn on_error(&mut self, context: &mut Context<C>) {
        context.stats.failed += 1;
    }
}

impl<B: Wanted> FindOrPut<B> {
    /// Scans the chunk whose last READ has landed, and continues.
    #[inline(always)]
    fn scan_first<C: AsMut<[CacheEntry]>>(
        &mut self,
        context: &mut Context<C>,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Ended> {
        match self.scan_landed(context, port)? {
            Decision::Done(outcome) => Ok(Step::Done(self.end(outcome, context))),
            Decision::AwaitOneRoundtrip => Ok(Step::Wait),
            Decision::Claim => {
                self.stage = Stage::Claim;
                self.claim(context, port)?;
                Ok(Step::Wait)
            }
            decision => {
                self.take(decision);
                self.proceed(context, port)
            }
        }
    }

    /// Claims the bucket at the cursor.
    #[inline(always)]
    fn claim<C>(
        &mut self,
        context: &Context<C>,
        port: &mut Port<'_, impl Transport>,
    ) -> Result<(), Stop> {
        let at = self.at_cursor(&context.layout);
        port.compare_and_swap(CLAIM, at, 0, self.walk.bucket.word())?;
        self.stage = Stage::Answer;
        Ok(())
    }

    /// Claims the home bucket, along with the first READ, which it leaves to the caller.
    #[inline(always)]
    fn claim_home<C>(
        &mut self,
        context: &Context<C>,
        port: &mut Port<'_, impl Transport>,
    ) -> Result<(), Stop> {
        // Reserve room for the READ as well, which is posted with it.
        port.reserve(2)?;
        let at = self.at_cursor(&context.layout);
        port.compare_and_swap(ONE_ROUNDTRIP, at, 0, self.walk.bucket.word())?;
        self.stage = Stage::Scan;
        Ok(())
    }

    /// Advances an operation in any stage, as far as possible.
    #[inline(never)]
    fn proceed<C: AsMut<[CacheEntry]>>(
        &mut self,
        context: &mut Context<C>,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Ended> {
        // Each iteration advances through the at most M chunks.
        loop {
            match self.stage {
                Stage::Scan => {
                    while let Some(chunk) = self.due() {
                        self.request(chunk, context, port)?;
                    }
                    if self.landing[self.parity()] > 0 {
                        return Ok(Step::Wait);
                    }
                    match self.scan_landed(context, port)? {
                        Decision::AwaitOneRoundtrip => return Ok(Step::Wait),
                        decision => {
                            if let Some(outcome) = self.take(decision) {
                                return Ok(Step::Done(self.end(outcome, context)));
                            }
                        }
                    }
                }
                Stage::Lookup => {
                    if context.direct == Direct::Claims
                        && self.walk.line(port.transport(), &context.layout).is_some()
                    {
                        self.stage = Stage::Walk;
                        return Ok(Step::Yield);
                    }
                    if context.follow_cache(&mut self.walk) {
                        return Ok(Step::Done(Ended::Found));
                    }
                    self.search(context, port.transport());
                }
                Stage::Walk => match self.walk.line(port.transport(), &context.layout) {
                    None => self.stage = Stage::Lookup,
                    Some(line) => match context.scan_line(&mut self.walk, line) {
                        LineOutcome::Done(outcome) => return Ok(Step::Done(outcome)),
                        LineOutcome::Passed => {
                            // Prefetch the next line.
                            let _ = self.walk.line(port.transport(), &context.layout);
                            return Ok(Step::Yield);
                        }
                    },
                },
                Stage::OneRoundtrip => self.claim_home(context, port)?,
                Stage::Claim => self.claim(context, port)?,
                Stage::Confirm => {
                    port.fetch_add(CONFIRM, self.at_cursor(&context.layout), 0)?;
                    self.stage = Stage::Answer;
                }
                Stage::Answer => return Ok(Step::Wait),
            }
        }
    }

    /// Creates an operation at the home of `bucket`.
    #[inline(always)]
    pub(crate) fn new<C: AsMut<[CacheEntry]>>(
        bucket: B,
        intent: Intent,
        context: &Context<C>,
    ) -> Self {
        Self::starting_at(context.walk(bucket, intent))
    }

    /// Creates an operation that starts at `walk`, even if that is not the home of its bucket.
    #[inline]
    pub(crate) fn starting_at(walk: Walk<B>) -> Self {
        Self::at(walk, B::UNSEEN, Stage::Lookup)
    }

    /// Creates a mutant for the model check: it trusts what the first READ shows of the bucket that the
    /// one-roundtrip claim is on.
    #[cfg(test)]
    pub(crate) fn believing_its_read<C>(mut self, context: &Context<C>) -> Self {
        self.start_search(context, true);
        (self.stage, self.one_roundtrip) = (Stage::OneRoundtrip, OneRoundtripState::Lost);
        self
    }

    #[inline(always)]
    const fn at(walk: Walk<B>, seen: B::Seen, stage: Stage) -> Self {
        Self {
            walk,
            seen,
            stage,
            one_roundtrip: OneRoundtripState::None,
            chunk_buckets: LINE_BUCKETS,
            ahead_from: u32::MAX,
            chunk: 0,
            start: Position { owner: 0, index: 0 },
            cursor: 0,
            requested: 0,
            landing: [0; 2],
            by_cpu: [false; 2],
            cost: Cost {
                chunks_copied: 0,
                copies_scanned: 0,
                lines: 0,
                claims: 0,
                claims_lost: 0,
                confirms: 0,
            },
        }
    }

    /// Starts at the position of the walk; `is_alone` if no other operation is in flight.
    #[inline(always)]
    fn start_search<C>(&mut self, context: &Context<C>, is_alone: bool) {
        // Copied field by field: they were stored separately just before, and the store buffer
        // cannot forward them to one load of both.
        self.start.owner = self.walk.probe.at.owner;
        self.start.index = self.walk.probe.at.index;
        self.cursor = self.walk.passed;
        (self.chunk_buckets, self.ahead_from) = context.policy.chooser.chunks(is_alone);
    }

    /// Continues with READs from the position of the walk.
    #[inline(always)]
    fn search<C: AsMut<[CacheEntry]>>(&mut self, context: &Context<C>, transport: &impl Transport) {
        self.start_search(context, transport.in_flight() == 0);
        // A CPU load returns at once, so a claim beside it saves nothing.
        let claims = self.walk.intent == Intent::FindOrPut
            && context.policy.claims_in_one_roundtrip()
            && (context.direct == Direct::Off
                || self.walk.line(transport, &context.layout).is_none());
        (self.stage, self.one_roundtrip) = if claims {
            (Stage::OneRoundtrip, OneRoundtripState::InFlight)
        } else {
            (Stage::Scan, OneRoundtripState::None)
        };
    }

    /// Returns whether the cursor is at the bucket of a one-roundtrip claim. The READ may show
    /// the effect of that claim, so only the claim's result decides.
    #[inline]
    fn awaits_one_roundtrip(&self) -> bool {
        self.one_roundtrip == OneRoundtripState::InFlight
            && self.chunk == 0
            && self.cursor == self.walk.passed
    }

    /// Handles what the one-roundtrip claim found. Returns `None` if a READ has already shown
    /// another key in that bucket: the claim failed, and its result changes nothing.
    ///
    /// A key lives in the first bucket of its probe order that was empty when it was inserted. A
    /// claim of the home bucket therefore inserts the key or returns the occupant.
    #[inline]
    fn on_one_roundtrip(&mut self, old: u64) -> Option<Decision> {
        let awaited = self.awaits_one_roundtrip();
        self.one_roundtrip = OneRoundtripState::Lost;
        if !awaited {
            return None;
        }
        if old == 0 || self.walk.bucket.matches(old) {
            self.one_roundtrip = OneRoundtripState::Decided;
        }
        Some(if old == 0 { Decision::Done(Ended::Inserted) } else { self.on_occupant(old) })
    }

    /// Handles the word that a claim found (lines 12-16).
    #[inline]
    fn on_claim(&mut self, old: u64) -> Decision {
        if old == 0 {
            return Decision::Done(Ended::Inserted);
        }
        self.cost.claims_lost += 1;
        self.on_occupant(old)
    }

    /// Handles the word that a confirmation found.
    #[inline]
    fn on_confirm(&mut self, word: u64) -> Decision {
        if word == 0 { self.on_empty() } else { self.on_occupant(word) }
    }

    #[inline]
    fn on_empty(&mut self) -> Decision {
        match self.walk.intent {
            Intent::Find => Decision::Done(Ended::Absent),
            Intent::FindOrPut => {
                self.cost.claims += 1;
                Decision::Claim
            }
        }
    }

    #[inline]
    fn on_occupant(&mut self, word: u64) -> Decision {
        if self.walk.bucket.matches(word) {
            return self.on_match(word);
        }
        self.cursor += 1;
        Decision::Rescan
    }

    /// Handles a word that matches: the key is found, or its tag is.
    #[inline(always)]
    fn on_match(&mut self, word: u64) -> Decision {
        self.seen = B::see(word);
        Decision::Done(Ended::Found)
    }

    /// Sets the stage for a decision, and returns the outcome if the operation is done.
    #[inline]
    fn take(&mut self, decision: Decision) -> Option<Ended> {
        self.stage = match decision {
            Decision::NextChunk | Decision::Rescan | Decision::AwaitOneRoundtrip => Stage::Scan,
            Decision::Claim => Stage::Claim,
            Decision::Confirm => Stage::Confirm,
            Decision::Done(outcome) => return Some(outcome),
        };
        None
    }

    /// Counts an operation that completes with READs and atomics.
    #[inline(always)]
    fn end<C>(&mut self, outcome: Ended, context: &mut Context<C>) -> Ended {
        // A match of tags is not the end: the operation is counted when its key was compared.
        if !B::TAGGED {
            self.count(outcome, context);
        }
        outcome
    }

    /// Returns the position of the key's bucket, after the outcome `Found` or `Inserted`. Returns
    /// `None` if the CPU cannot address the line at which the operation ended: a defect of the
    /// transport.
    pub(crate) fn position(&self, layout: &Layout, transport: &impl Transport) -> Option<Position> {
        match self.stage {
            Stage::Lookup => Some(self.walk.position(layout)),
            Stage::Walk => Some(self.walk.position_in(self.walk.line(transport, layout)?, layout)),
            _ => Some(self.cursor_position(layout)),
        }
    }
}
