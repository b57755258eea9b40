//! A request on one key as a state machine.

mod locks;

use core::marker::PhantomData;

use probeline_pipeline::{
    Completed, Error, Machine, Next as NextStep, Plain, Port, Run, Step, Stop,
};
use probeline_transport::{PostError, RemoteWord, Segment, SlotRange, Transport};

use crate::context::Context;
use crate::control::{Control, State};
use crate::direct::{self, EngineWords};
use crate::hash::hash_of_bytes;
use crate::layout::{MAX_CANDIDATES, Place, hash, store_entry};
use crate::mode::Mode;
use crate::outcome::{Outcome, Request, ValueHash, Written};
use crate::search::{Goal, Kind, Next, Search, Seen, Target};

/// Parts of the posts.
const READ: u8 = 0;
const WRITE: u8 = 1;
/// Any atomic; at most one is in flight.
const ATOMIC: u8 = 2;
/// The READ or fetch-and-add of 0 of the first candidate's control word for a comparison; those of the
/// others follow.
const COMPARE: u8 = 8;

/// The slot in which buckets land, and the one from which entries are written.
pub(crate) const LANDING: u32 = 0;
pub(crate) const STAGED: u32 = 1;

/// One request on a key.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(Hash))]
pub struct Access<K, V> {
    /// `None` in free storage.
    request: Option<(K, Request<V>)>,
    pub(crate) progress: Progress<K, V>,
}

/// Progress of a request.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Progress<K, V> {
    hash: u64,
    search: Search,
    stage: Stage,
    /// The parts that the next decision waits for, one bit each.
    awaited: u32,
    /// The old word of the last atomic.
    old: Control,
    /// The bucket that is claimed, and the control word of the claim.
    target: Target,
    ticket: Control,
    /// The control words of the candidates after the claim.
    compared: [Control; MAX_CANDIDATES as usize],
    /// Whether the claim replaced another key's entry that is not counted yet.
    has_evicted: bool,
    /// Whether the request has a lock of its part, or a get that of a bucket.
    is_inside: bool,
    /// Whether a get has passed a claim of another key that a tear may have made of one of its own.
    is_doubtful: bool,
    /// The word of the lock that the request did not get.
    blocked_by: Control,
    /// The outcome, while the request leaves the part.
    kept: Outcome<()>,
    types: PhantomData<(K, V)>,
    #[cfg(test)]
    pub(crate) mutant: Mutant,
}

/// The next post, or the meaning of the completion of the awaited posts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Read the present candidate.
    Probe,
    /// The candidate has landed; with `claims` also the result of a claim of it as an empty bucket.
    Probed {
        claims: bool,
    },
    /// Read the control word again with a fetch-and-add of 0, because a READ may have torn it.
    Confirm,
    Confirmed {
        seen: Control,
    },
    /// Mark the present candidate, whose entry is destroyed, as dropped.
    Clean,
    Cleaned,
    /// Claim the target.
    Claim,
    Claimed,
    /// Write the entry to the claimed bucket.
    Write,
    /// The entry is written; with `publishes` also published.
    Written {
        publishes: bool,
    },
    Publish,
    Published,
    /// Give the claimed bucket up.
    Release,
    Released,
    /// Remove the key from its bucket.
    Remove,
    Removed,
    /// An attempt to lock has completed; or a get has undone its failed attempt.
    Entered,
    Retreated,
    /// Release the lock of the part.
    Leave,
    Left,
}

/// A defect that the model check must detect.
#[cfg_attr(not(test), allow(dead_code))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mutant {
    None,
    /// Takes a bucket with the key for its entry, whatever the check says.
    TrustsKeys,
    /// Does not compare the other candidates after a claim.
    ComparesNothing,
    /// Takes a bucket whose check does not match for another key's.
    PassesMixed,
    /// Believes a torn control word that shows the claim of another key.
    TrustsTornClaims,
    /// Takes every attempt to lock for a success.
    EntersWithoutLock,
    /// Publishes along with the WRITE although the transport may reorder them.
    PublishesEarly,
    /// Replaces any value.
    ReplacesAll,
    /// Leaves the check of an entry in the word that drops it.
    KeepsDroppedCheck,
}

impl<K: Plain, V: Plain> Machine for Access<K, V> {
    type Outcome = Outcome<V>;
    const IDLE: Self = Self { request: None, progress: Progress::new(0) };
    const SLOTS: u32 = 2;
}

/// The outcome of a request that has ended; the landing slot has the value of a hit.
type Ended = Option<Outcome<()>>;

impl<K: Plain, V: Plain> Run<Context> for Access<K, V> {
    fn advance(
        &mut self,
        context: &mut Context,
        port: &mut Port<'_, impl Transport>,
    ) -> NextStep<Outcome<V>> {
        let Self { request, progress } = self;
        let Some((key, request)) = request else { return Err(Error::Idle.into()) };
        if context.is_direct {
            let words = EngineWords { transport: port.transport(), layout: context.layout };
            let outcome = direct::run(words, context, key, progress.hash, request);
            return outcome.map(Step::Done).ok_or_else(|| PostError::OutOfRange.into());
        }
        progress.advance(key, request, context, port)
    }

    fn on_completion(
        &mut self,
        Completed { part, word }: Completed,
        context: &mut Context,
        port: &mut Port<'_, impl Transport>,
    ) -> NextStep<Outcome<V>> {
        self.progress.complete(part, word);
        self.advance(context, port)
    }

    fn on_error(&mut self, context: &mut Context) {
        context.stats.failed += 1;
    }
}

impl<K: Plain, V: Plain> Access<K, V> {
    /// Refuses a key or a value of another size than the map's.
    #[inline]
    pub(crate) fn for_map(key: &K, request: Request<V>, context: &Context) -> Result<Self, Error> {
        if !context.layout.bytes.fit(key, request.value()) {
            return Err(Error::Post(PostError::OutOfRange));
        }
        Ok(Self::new(key, request))
    }

    #[inline]
    pub(crate) fn new(key: &K, request: Request<V>) -> Self {
        Self { request: Some((*key, request)), progress: Progress::new(hash(key)) }
    }
}

impl<K: Plain, V: Plain> Progress<K, V> {
    const fn new(hash: u64) -> Self {
        Self {
            hash,
            search: Search::START,
            stage: Stage::Probe,
            awaited: 0,
            old: Control::EMPTY,
            target: Target { nth: 0, seen: Control::EMPTY, kind: Kind::Empty },
            ticket: Control::EMPTY,
            compared: [Control::EMPTY; MAX_CANDIDATES as usize],
            has_evicted: false,
            is_inside: false,
            is_doubtful: false,
            blocked_by: Control::EMPTY,
            kept: Outcome::Miss,
            types: PhantomData,
            #[cfg(test)]
            mutant: Mutant::None,
        }
    }

    /// Takes the completion of a post.
    fn complete(&mut self, part: u8, word: u64) {
        self.awaited &= !(1 << part);
        if part == ATOMIC {
            self.old = Control(word);
        } else if let Some(nth) = part.checked_sub(COMPARE)
            && let Some(control) = self.compared.get_mut(usize::from(nth))
        {
            *control = Control(word);
        }
    }

    /// Advances the request as far as possible.
    fn advance(
        &mut self,
        key: &K,
        request: &Request<V>,
        context: &mut Context,
        port: &mut Port<'_, impl Transport>,
    ) -> NextStep<Outcome<V>> {
        self.search.set_max_retries(context.retries);
        // Each turn posts, and then waits, or decides; retries bound the decisions.
        while self.awaited == 0 {
            let Some(outcome) = self.proceed(key, request, context, port)? else { continue };
            if self.is_inside {
                (self.kept, self.stage) = (outcome, Stage::Leave);
                continue;
            }
            // Not before the lock is released, which may fail.
            context.stats.count_outcome(&outcome, matches!(request, Request::Remove));
            return Ok(Step::Done(match outcome {
                Outcome::Hit(()) => {
                    let landing = self.landing(port, context.layout.used_words);
                    let body = port.landed(landing)?.get(1..).unwrap_or_default();
                    let entry = context.layout.bytes.of::<K, V>().split(body);
                    Outcome::Hit(V::from_bytes(entry.unwrap_or_default().1))
                }
                Outcome::Miss => Outcome::Miss,
                Outcome::Written(written) => Outcome::Written(written),
            }));
        }
        Ok(Step::Wait)
    }

    /// Takes one step: posts, or decides what follows the posts that have completed.
    fn proceed(
        &mut self,
        key: &K,
        request: &Request<V>,
        context: &mut Context,
        port: &mut Port<'_, impl Transport>,
    ) -> Result<Ended, Stop> {
        match self.stage {
            Stage::Probe if self.must_enter(request, context.mode) => {
                self.enter(request, context, port)?;
            }
            Stage::Entered => return self.entered(request, context, port),
            Stage::Retreated => return Ok(self.wait(request, context)),
            Stage::Leave => {
                self.leave(request, context, port)?;
                self.stage = Stage::Left;
            }
            Stage::Left => return Ok(Some(self.kept)),
            Stage::Probe => self.probe(request, context, port)?,
            // The words of the bucket have landed, and are examined after this.
            Stage::Probed { .. } if self.is_inside && context.mode == Mode::BucketLocks => {
                self.leave(request, context, port)?;
            }
            Stage::Probed { claims } => return self.on_looked(claims, key, request, context, port),
            Stage::Confirm => {
                let at = context.layout.control(self.place(context, self.search.nth()));
                port.fetch_add(ATOMIC, at, 0)?;
                self.awaited = 1 << ATOMIC;
                self.stage = Stage::Confirmed { seen: self.target.seen };
            }
            Stage::Confirmed { seen } => {
                let next = if context.mode.control(self.old.0) == seen {
                    let shown = self.claimed_for(seen);
                    self.search.see(seen, shown, self.goal(request, context))
                } else {
                    self.search.again()
                };
                return Ok(self.follow(next, request, context));
            }
            // A WRITE would not tell whether another client has changed the bucket.
            Stage::Clean if context.mode.overwrites() => {
                self.old = self.target.seen;
                self.stage = Stage::Cleaned;
            }
            Stage::Clean => {
                self.target.nth = self.search.nth();
                self.swap(
                    self.target.seen,
                    self.dropped(self.target.seen, context),
                    context,
                    port,
                )?;
                self.stage = Stage::Cleaned;
            }
            Stage::Cleaned => {
                let seen = self.target.seen;
                let next = if self.old == seen {
                    // Without an atomic the entry stays, and is counted by none of those who see it.
                    context.stats.lost_entries += u64::from(!context.mode.overwrites());
                    let dropped = self.dropped(seen, context);
                    self.search.see(dropped, Seen::Dropped, self.goal(request, context))
                } else {
                    context.follow_writer(seen, self.old);
                    self.search.again()
                };
                return Ok(self.follow(next, request, context));
            }
            Stage::Claim if context.mode.overwrites() => {
                self.overwrite(key, request, context, port)?;
            }
            Stage::Claim => {
                self.ticket = context.ticket(self.hash);
                self.swap(self.target.seen, self.ticket, context, port)?;
                self.stage = Stage::Claimed;
            }
            Stage::Claimed if self.old == self.target.seen => self.claimed(context),
            Stage::Claimed => {
                self.blocked_by = self.old;
                context.follow_writer(self.target.seen, self.old);
                context.stats.lost_claims += 1;
                // Only the count of readers differs: they still hold the bucket's lock.
                if context.mode.control(self.old.0) == self.target.seen {
                    let next = self.search.again();
                    let ended = self.follow(next, request, context);
                    if ended.is_none() {
                        self.stage = Stage::Claim;
                    }
                    return Ok(ended);
                }
                let next = match self.target.kind {
                    Kind::Empty => self.search.again(),
                    _ => self.search.restart(),
                };
                return Ok(self.follow(next, request, context));
            }
            Stage::Write => self.write(key, request, context, port)?,
            Stage::Written { publishes: true } | Stage::Published => {
                return Ok(Some(self.published(context)));
            }
            Stage::Written { publishes: false } => {
                self.stage = Stage::Publish;
                if self.target.needs_comparison() && self.has_conflict(request, context, port)? {
                    self.stage = Stage::Release;
                }
            }
            Stage::Publish => {
                let full = self.entry_control(request, context);
                self.replace_ticket(full, context, port)?;
                self.stage = Stage::Published;
            }
            Stage::Release => {
                self.replace_ticket(self.dropped(self.ticket, context), context, port)?;
                self.stage = Stage::Released;
            }
            Stage::Released => {
                context.stats.given_up += 1;
                let next = self.search.restart();
                return Ok(self.follow(next, request, context));
            }
            Stage::Remove if context.mode.overwrites() => {
                self.overwrite_as_dropped(context, port)?;
            }
            Stage::Remove => {
                self.swap(
                    self.target.seen,
                    self.dropped(self.target.seen, context),
                    context,
                    port,
                )?;
                self.stage = Stage::Removed;
            }
            Stage::Removed if self.old == self.target.seen => {
                return Ok(Some(self.end(Written::Removed, context)));
            }
            Stage::Removed => {
                context.follow_writer(self.target.seen, self.old);
                context.stats.lost_claims += 1;
                let next = self.search.restart();
                return Ok(self.follow(next, request, context));
            }
        }
        Ok(None)
    }

    /// Reads the present candidate, and claims the first one as if it were empty.
    fn probe(
        &mut self,
        request: &Request<V>,
        context: &mut Context,
        port: &mut Port<'_, impl Transport>,
    ) -> Result<(), Stop> {
        let claims = context.claims_with_read && writes(request) && self.search.is_at_start();
        port.reserve(1 + u32::from(claims))?;
        let place = self.place(context, self.search.nth());
        let bucket = context.layout.segment(place);
        port.read(READ, bucket, self.landing(port, bucket.words))?;
        self.awaited |= 1 << READ;
        context.stats.bucket_reads += 1;
        if claims {
            self.target = Target { nth: 0, seen: Control::EMPTY, kind: Kind::Empty };
            self.ticket = context.ticket(self.hash);
            self.swap(Control::EMPTY, self.ticket, context, port)?;
        }
        self.stage = Stage::Probed { claims };
        Ok(())
    }

    /// Examines the candidate that has landed.
    fn on_looked(
        &mut self,
        claims: bool,
        key: &K,
        request: &Request<V>,
        context: &mut Context,
        port: &mut Port<'_, impl Transport>,
    ) -> Result<Ended, Stop> {
        // The compare-and-swap decides: the READ posted with it may show an older word.
        if claims && self.old == Control::EMPTY {
            self.claimed(context);
            return Ok(None);
        }
        let landing = self.landing(port, context.layout.used_words);
        let (control, body) = port.landed(landing)?.split_first().unwrap_or((&0, &[]));
        let control = context.mode.control(*control);
        if claims && control.state() == State::Empty {
            context.follow_writer(control, self.old);
            let next = self.search.again();
            return Ok(self.follow(next, request, context));
        }
        let place = self.place(context, self.search.nth());
        let entry = context.layout.bytes.of::<K, V>().split(body);
        let (there, value) = entry.unwrap_or_default();
        let is_key = there == key.bytes();
        let seen = Seen::unless_full(control, self.hash).unwrap_or_else(|| {
            #[cfg(test)]
            match self.mutant {
                Mutant::TrustsKeys if is_key => return Seen::Key,
                Mutant::PassesMixed if !is_key => return Seen::Other,
                _ => {}
            }
            let matches = |hash| control.has_check(context.check(hash, value, place));
            Seen::from_full(
                is_key,
                match is_key {
                    true => matches(self.hash),
                    false => !writes(request) || matches(hash_of_bytes(there, 0)),
                },
            )
        });
        context.stats.failed_checks += u64::from(seen == Seen::Mixed);
        if seen == Seen::Key
            && let Request::Get = request
        {
            return Ok(Some(Outcome::Hit(())));
        }
        if seen == Seen::Key
            && let Request::Replace(_, old) = request
            && !self.may_replace(ValueHash::from_bytes(value), *old)
        {
            return Ok(Some(self.end(Written::Present, context)));
        }
        let is_claim = matches!(seen, Seen::ClaimedForKey | Seen::ClaimedForOther);
        if is_claim {
            self.blocked_by = control;
        }
        if is_claim && !self.words_are_whole(port) {
            // A get may pass any claim: a miss is right.
            if !matches!(request, Request::Get) {
                self.target.seen = control;
                self.stage = Stage::Confirm;
                return Ok(None);
            }
            self.is_doubtful = true;
        }
        self.target.seen = control;
        let next = self.search.see(control, seen, self.goal(request, context));
        Ok(self.follow(next, request, context))
    }

    fn may_replace(&self, there: ValueHash, expected: ValueHash) -> bool {
        #[cfg(test)]
        if self.mutant == Mutant::ReplacesAll {
            return true;
        }
        there == expected
    }

    fn words_are_whole(&self, port: &Port<'_, impl Transport>) -> bool {
        #[cfg(test)]
        if self.mutant == Mutant::TrustsTornClaims {
            return true;
        }
        port.caps().word_reads_whole
    }

    fn claimed_for(&self, control: Control) -> Seen {
        if control.is_claim_for(self.hash) { Seen::ClaimedForKey } else { Seen::ClaimedForOther }
    }

    /// Turns a decision of the search into the next stage, or the outcome.
    fn follow(&mut self, next: Next, request: &Request<V>, context: &mut Context) -> Ended {
        if locks::is_blocked(next, context.mode) {
            self.note_held_lock(context);
        }
        self.stage = match (next, request) {
            (Next::Probe(_) | Next::ProbeAgain, _) => Stage::Probe,
            (Next::Clean, _) => Stage::Clean,
            (Next::Key, Request::PutIfAbsent(_)) => {
                return Some(self.end(Written::Present, context));
            }
            (Next::Key, Request::Remove) => Stage::Remove,
            (Next::Key, _) => {
                let (nth, seen) = (self.search.nth(), self.target.seen);
                self.target = Target { nth, seen, kind: Kind::Key };
                Stage::Claim
            }
            (Next::Absent(Some(target)), _) => {
                self.target = target;
                Stage::Claim
            }
            (Next::Absent(None) | Next::Busy, Request::Get) => {
                context.stats.busy += u64::from(next == Next::Busy || self.is_doubtful);
                return Some(Outcome::Miss);
            }
            (Next::Absent(None), _) => return Some(self.end(Written::Absent, context)),
            (Next::Busy, _) => return Some(self.end(Written::Dropped, context)),
        };
        if self.stage == Stage::Remove {
            self.target.nth = self.search.nth();
        }
        None
    }

    /// Continues after the target was claimed.
    fn claimed(&mut self, context: &mut Context) {
        if self.target.kind == Kind::Oldest {
            context.stats.lost_entries += u64::from(self.has_evicted);
            self.has_evicted = true;
        }
        self.stage = Stage::Write;
    }

    /// Writes the entry to the claimed bucket. Along with it, publishes it or reads the control
    /// words of the other candidates.
    fn write(
        &mut self,
        key: &K,
        request: &Request<V>,
        context: &mut Context,
        port: &mut Port<'_, impl Transport>,
    ) -> Result<(), Stop> {
        let compares = self.target.needs_comparison();
        let publishes = !compares && self.may_publish_early(port);
        let compared = if compares { self.search.compared(self.goal(request, context)) } else { 0 };
        port.reserve(1 + u32::from(publishes) + compared)?;
        let Some(value) = request.value() else { return Err(Error::Idle.into()) };
        let place = self.place(context, self.target.nth);
        let body = context.layout.body(place);
        let staged = SlotRange { slot: port.slot(STAGED), start: 0, words: body.words };
        store_entry(key.bytes(), value.bytes(), port.staged(staged)?);
        port.write(WRITE, staged, body)?;
        self.awaited |= 1 << WRITE;
        if publishes {
            let full = self.entry_control(request, context);
            self.replace_ticket(full, context, port)?;
        }
        for nth in 0..compared {
            self.compare(nth, context, port)?;
        }
        self.stage = Stage::Written { publishes };
        Ok(())
    }

    /// Posts a READ of a candidate's control word, or a fetch-and-add of 0 if a READ could tear it.
    fn compare(
        &mut self,
        nth: u32,
        context: &Context,
        port: &mut Port<'_, impl Transport>,
    ) -> Result<(), Stop> {
        let start = context.layout.control(self.place(context, nth));
        // At most MAX_CANDIDATES.
        #[allow(clippy::cast_possible_truncation)]
        let part = COMPARE + nth as u8;
        if self.words_are_whole(port) {
            let into = SlotRange { start: nth, ..self.landing(port, 1) };
            port.read(part, Segment { start, words: 1 }, into)?;
        } else {
            port.fetch_add(part, start, 0)?;
        }
        self.awaited |= 1 << part;
        Ok(())
    }

    fn may_publish_early(&self, port: &Port<'_, impl Transport>) -> bool {
        #[cfg(test)]
        if self.mutant == Mutant::PublishesEarly {
            return true;
        }
        port.caps().write_then_atomic
    }

    /// Returns whether another candidate may have an entry or a claim of the same key.
    fn has_conflict(
        &mut self,
        request: &Request<V>,
        context: &Context,
        port: &Port<'_, impl Transport>,
    ) -> Result<bool, Stop> {
        #[cfg(test)]
        if self.mutant == Mutant::ComparesNothing {
            return Ok(false);
        }
        let count = self.search.compared(self.goal(request, context));
        if self.words_are_whole(port) {
            let words = port.landed(self.landing(port, count))?;
            for (control, word) in self.compared.iter_mut().zip(words) {
                *control = Control(*word);
            }
        }
        let claimed = self.place(context, self.target.nth);
        Ok((0..count).zip(self.compared).any(|(nth, now)| {
            // In a small map two candidates may be the same bucket.
            let now = context.mode.control(now.0);
            self.place(context, nth) != claimed && self.search.is_conflict(nth, now, self.hash)
        }))
    }

    /// Ends a write whose entry was published, unless another client has taken the bucket.
    fn published(&mut self, context: &mut Context) -> Outcome<()> {
        if context.mode.control(self.old.0) != self.ticket {
            context.follow_writer(self.ticket, self.old);
            context.stats.stolen_claims += 1;
            context.stats.lost_entries += u64::from(self.target.kind == Kind::Key);
            return self.end(Written::Dropped, context);
        }
        context.clock.count();
        context.last_put = Some((self.place(context, self.target.nth), self.target.nth));
        let written = match self.target.kind {
            Kind::Key => Written::Updated,
            _ if core::mem::take(&mut self.has_evicted) => Written::Evicted,
            _ => Written::Inserted,
        };
        self.end(written, context)
    }

    fn end(&mut self, written: Written, context: &mut Context) -> Outcome<()> {
        context.stats.lost_entries += u64::from(core::mem::take(&mut self.has_evicted));
        Outcome::Written(written)
    }

    /// Returns the word that drops the entry or the claim of a control word.
    fn dropped(&self, control: Control, context: &Context) -> Control {
        #[cfg(test)]
        if self.mutant == Mutant::KeepsDroppedCheck {
            return control.dropped(0);
        }
        context.mode.dropped(control)
    }

    /// Posts a compare-and-swap of the target's control word.
    fn swap(
        &mut self,
        expected: Control,
        desired: Control,
        context: &Context,
        port: &mut Port<'_, impl Transport>,
    ) -> Result<(), Stop> {
        let at: RemoteWord = context.layout.control(self.place(context, self.target.nth));
        port.compare_and_swap(ATOMIC, at, expected.0, desired.0)?;
        self.awaited |= 1 << ATOMIC;
        Ok(())
    }

    /// Posts the atomic that replaces the ticket. A lock's word also counts the clients that read and
    /// have not noticed the ticket yet, so nothing but an addition is sure to succeed.
    fn replace_ticket(
        &mut self,
        desired: Control,
        context: &Context,
        port: &mut Port<'_, impl Transport>,
    ) -> Result<(), Stop> {
        if context.mode != Mode::BucketLocks {
            return self.swap(self.ticket, desired, context, port);
        }
        let at = context.layout.control(self.place(context, self.target.nth));
        self.add(at, desired.0.wrapping_sub(self.ticket.0), port)
    }

    /// Returns the control word that publishes the entry.
    fn entry_control(&self, request: &Request<V>, context: &Context) -> Control {
        let place = self.place(context, self.target.nth);
        let check =
            request.value().map_or(0, |value| context.check(self.hash, value.bytes(), place));
        Control::full(context.clock.age(), check)
    }

    fn place(&self, context: &Context, nth: u32) -> Place {
        context.layout.candidate(self.hash, nth)
    }

    fn goal<'c>(&self, request: &Request<V>, context: &'c Context) -> Goal<'c> {
        context.goal(self.hash, writes(request))
    }

    fn landing(&self, port: &Port<'_, impl Transport>, words: u32) -> SlotRange {
        SlotRange { slot: port.slot(LANDING), start: 0, words }
    }
}

/// Returns whether a request needs a bucket if the key has none.
pub(crate) fn writes<V>(request: &Request<V>) -> bool {
    matches!(request, Request::Put(_) | Request::PutIfAbsent(_))
}
