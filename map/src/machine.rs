//! A request on one key as a state machine.

mod claim;
mod locks;
mod probe;

use probeline_pipeline::{
    Completed, Error, Machine, Next as NextStep, Plain, Port, Run, Step, Stop,
};
use probeline_transport::{PostError, SlotRange, Transport};

use crate::context::Context;
use crate::control::Control;
use crate::direct::{self, EngineWords};
use crate::layout::{MAX_CANDIDATES, Place, hash};
use crate::mode::Mode;
use crate::outcome::{Outcome, Request, Written};
use crate::search::{Goal, Kind, Search, Target};

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
    pub(crate) progress: Progress,
}

/// Progress of a request.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Progress {
    hash: u64,
    search: Search,
    stage: Stage,
    /// The parts that the next decision waits for, one bit each.
    awaited: u32,
    /// The old word of the last atomic.
    old: Control,
    /// The bucket that is examined or claimed, and the control word of the claim.
    target: Target,
    ticket: Control,
    /// The control words of the candidates after the claim.
    compared: [u64; MAX_CANDIDATES as usize],
    /// Whether the claim replaced another key's entry that is not counted yet.
    has_evicted: bool,
    /// Whether the request has a lock of its part, or a get that of a bucket.
    holds_lock: bool,
    /// Whether a get has passed a claim of another key that a tear may have made of one of its own.
    is_doubtful: bool,
    /// The word of the lock that the request did not get.
    blocked_by: Control,
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
    Confirmed,
    /// Mark the target, whose entry is destroyed, as dropped.
    Clean,
    Cleaned,
    /// Claim the target; a remove marks it as dropped instead.
    Claim,
    Claimed,
    /// Write the entry to the claimed bucket.
    Write,
    /// The entry is written, but not published.
    Written,
    /// The entry is published.
    Published,
    /// The claimed bucket is given up.
    Released,
    /// An attempt to lock has completed; or a get has undone its failed attempt.
    LockPosted,
    LockUndone,
    /// Release the lock of the part; the request ends with this outcome.
    Leave(Outcome<()>),
    Left(Outcome<()>),
}

/// A defect that the model check must detect.
#[cfg(test)]
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
        Running { key, request, progress, context, port }.advance()
    }

    fn on_completion(
        &mut self,
        Completed { post_id, word }: Completed,
        context: &mut Context,
        port: &mut Port<'_, impl Transport>,
    ) -> NextStep<Outcome<V>> {
        self.progress.complete(post_id, word);
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

impl Progress {
    const fn new(hash: u64) -> Self {
        Self {
            hash,
            search: Search::START,
            stage: Stage::Probe,
            awaited: 0,
            old: Control::EMPTY,
            target: Target { nth: 0, seen: Control::EMPTY, kind: Kind::Empty },
            ticket: Control::EMPTY,
            compared: [0; MAX_CANDIDATES as usize],
            has_evicted: false,
            holds_lock: false,
            is_doubtful: false,
            blocked_by: Control::EMPTY,
            #[cfg(test)]
            mutant: Mutant::None,
        }
    }

    /// Takes the completion of a post.
    fn complete(&mut self, post_id: u8, word: u64) {
        self.awaited &= !(1 << post_id);
        if post_id == ATOMIC {
            self.old = Control(word);
        } else if let Some(nth) = post_id.checked_sub(COMPARE)
            && let Some(compared) = self.compared.get_mut(usize::from(nth))
        {
            *compared = word;
        }
    }
}

/// A request that advances, with all that it acts on.
struct Running<'r, 'p, T, K, V> {
    key: &'r K,
    request: &'r Request<V>,
    progress: &'r mut Progress,
    context: &'r mut Context,
    port: &'r mut Port<'p, T>,
}

impl<T: Transport, K: Plain, V: Plain> Running<'_, '_, T, K, V> {
    /// Advances the request as far as possible.
    fn advance(mut self) -> NextStep<Outcome<V>> {
        self.progress.search.set_max_retries(self.context.retries);
        // Each turn posts, and then waits, or decides; retries bound the decisions.
        while self.progress.awaited == 0 {
            let Some(outcome) = self.proceed()? else { continue };
            if self.progress.holds_lock {
                self.progress.stage = Stage::Leave(outcome);
                continue;
            }
            // Not before the lock is released, which may fail.
            self.context.stats.count_outcome(&outcome, matches!(self.request, Request::Remove));
            return Ok(Step::Done(match outcome {
                Outcome::Hit(()) => Outcome::Hit(V::from_bytes(self.landed_entry()?.2)),
                Outcome::Miss => Outcome::Miss,
                Outcome::Written(written) => Outcome::Written(written),
            }));
        }
        Ok(Step::Wait)
    }

    /// Takes one step: posts, or decides what follows the posts that have completed.
    fn proceed(&mut self) -> Result<Ended, Stop> {
        match self.progress.stage {
            Stage::Probe if self.must_lock() => self.enter()?,
            Stage::LockPosted => return self.entered(),
            Stage::LockUndone => return Ok(self.wait()),
            Stage::Leave(outcome) => {
                self.leave()?;
                self.progress.stage = Stage::Left(outcome);
            }
            Stage::Left(outcome) => return Ok(Some(outcome)),
            Stage::Probe => self.probe()?,
            // The words of the bucket have landed, and are examined after this.
            Stage::Probed { .. }
                if self.progress.holds_lock && self.context.mode == Mode::BucketLocks =>
            {
                self.leave()?;
            }
            Stage::Probed { claims } => return self.probed(claims),
            Stage::Confirm => self.confirm()?,
            Stage::Confirmed => return Ok(self.confirmed()),
            Stage::Clean => self.clean()?,
            Stage::Cleaned => return Ok(self.cleaned()),
            Stage::Claim => self.claim()?,
            Stage::Claimed => return Ok(self.claimed()),
            Stage::Write => self.write()?,
            Stage::Written => self.publish()?,
            Stage::Published => return Ok(Some(self.published())),
            Stage::Released => return Ok(self.released()),
        }
        Ok(None)
    }

    /// Ends a request that writes.
    #[inline(always)]
    fn end(&mut self, written: Written) -> Outcome<()> {
        let has_evicted = core::mem::take(&mut self.progress.has_evicted);
        self.context.stats.lost_entries += u64::from(has_evicted);
        Outcome::Written(written)
    }

    /// Posts a compare-and-swap of the target's control word.
    #[inline(always)]
    fn swap(&mut self, expected: Control, desired: Control) -> Result<(), Stop> {
        let at = self.context.layout.control(self.place(self.progress.target.nth));
        self.port.compare_and_swap(ATOMIC, at, expected.0, desired.0)?;
        self.progress.awaited |= 1 << ATOMIC;
        Ok(())
    }

    /// Returns the word that drops the entry or the claim of a control word.
    #[inline(always)]
    fn dropped(&self, control: Control) -> Control {
        #[cfg(test)]
        if self.progress.mutant == Mutant::KeepsDroppedCheck {
            return control.dropped(0);
        }
        self.context.mode.dropped(control)
    }

    /// Returns the control word, the key and the value in the landing slot.
    #[inline(always)]
    fn landed_entry(&self) -> Result<(Control, &[u8], &[u8]), Stop> {
        let landing = self.landing(self.context.layout.used_words);
        let (control, body) = self.port.landed(landing)?.split_first().unwrap_or((&0, &[]));
        let (key, value) = self.context.layout.bytes.of::<K, V>().split(body).unwrap_or_default();
        Ok((self.context.mode.control(*control), key, value))
    }

    /// Returns whether no READ tears a word.
    #[inline(always)]
    fn words_are_whole(&self) -> bool {
        #[cfg(test)]
        if self.progress.mutant == Mutant::TrustsTornClaims {
            return true;
        }
        self.port.caps().word_reads_whole
    }

    #[inline(always)]
    fn place(&self, nth: u32) -> Place {
        self.context.layout.candidate(self.progress.hash, nth)
    }

    #[inline(always)]
    fn goal(&self) -> Goal<'_> {
        self.context.goal(self.progress.hash, writes(self.request))
    }

    #[inline(always)]
    fn landing(&self, words: u32) -> SlotRange {
        SlotRange { slot: self.port.slot(LANDING), start: 0, words }
    }
}

/// Returns whether a request needs a bucket if the key has none.
pub(crate) fn writes<V>(request: &Request<V>) -> bool {
    matches!(request, Request::Put(_) | Request::PutIfAbsent(_))
}
