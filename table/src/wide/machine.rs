//! Find and find-or-put of a wide key as a state machine: a search by tags, and beside it the
//! key's entry.
//!
//! The search ([`FindOrPut`]) stops at a bucket with the wanted tag, whose entry is then read and
//! compared, and at the first bucket that looks empty, which it claims when the WRITE of the key to
//! a spare entry has completed. The WRITE goes out with the first READ.

use core::hash::{Hash, Hasher};

use probeline_pipeline::{Completed, Machine, Next, Port, Run, Step, Stop};
use probeline_transport::{Owner, PostError, RemoteWord, SlotRange, Transport};

use super::context::WideContext;
use super::direct;
use super::key::{Entry, Tagged, hash};
use super::spares::Fetch;
use crate::find_or_put::FindOrPut;
use crate::outcome::{Ended, Intent};
use probeline_transport::line::Narrow;

/// Parts of the posts beyond those of the search: the WRITE of the key, the READ of an entry, and
/// the fetch-and-add that takes entries.
const WRITE: u8 = 5;
const READ: u8 = 6;
const FETCH: u8 = 7;
/// The parts of the search's READs are below this one.
const SEARCH_READS: u8 = 2;
/// The slots from which the key is written, and in which an entry lands. The search has 0 and 1.
const STAGED: u32 = 2;
const LANDING: u32 = 3;

/// One find or find-or-put of a key of `W` words.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(Hash))]
pub struct WideFindOrPut<const W: usize> {
    search: FindOrPut<Tagged>,
    key: [u64; W],
    intent: Intent,
    stage: Stage,
    spare: Spare,
    kept: Kept,
    /// The fetch-and-add in flight.
    fetch: Option<Fetch>,
    #[cfg(test)]
    pub(crate) mutant: Mutant,
}

/// The event that the search waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Nothing: it continues.
    Search,
    /// The entry that the matching word refers to is read next.
    Match,
    /// The READ of that entry is in flight.
    Compare,
    /// The search stopped at an empty bucket and waits for the key's entry.
    Empty,
    /// The search claims buckets.
    Claims,
    /// The outcome is decided. Posts of the spare entry may be in flight.
    Ended(Ended),
}

/// The entry for the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Spare {
    /// None is needed: a find, or the entry is in use.
    Unneeded,
    /// One is needed.
    Lacking,
    /// The key is written next.
    Taken(Entry),
    /// The WRITE is in flight.
    Writing(Entry),
    /// The WRITE has completed.
    Written(Entry),
    /// Every part is exhausted, and no run is being fetched.
    Exhausted,
}

/// An entry that another operation may use after this one: no WRITE of it is in flight or has
/// failed, and no claim of unknown outcome refers to it. It goes back to the client's
/// [`Spares`](super::spares::Spares); without room there it stays for the next operation of the
/// same storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Kept {
    entry: Option<Entry>,
    /// [`Spares::epoch`](super::spares::Spares::epoch) when it was taken.
    epoch: u32,
}

/// A defect that the model check must detect.
#[cfg_attr(not(test), allow(dead_code))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mutant {
    None,
    /// Claims a bucket while the WRITE of the key is in flight.
    ClaimsEarly,
    /// Takes a matching tag for the key.
    TrustsTags,
    /// Keeps an entry for the next key although the outcome of a WRITE to it is unknown.
    KeepsEarly,
    /// Keeps an entry for the next key although the outcome of a claim with it is unknown.
    KeepsClaimed,
}

impl<const W: usize> Machine for WideFindOrPut<W> {
    type Outcome = Ended;
    const IDLE: Self = Self {
        search: FindOrPut::IDLE,
        key: [0; W],
        intent: Intent::Find,
        stage: Stage::Search,
        spare: Spare::Unneeded,
        kept: Kept { entry: None, epoch: 0 },
        fetch: None,
        #[cfg(test)]
        mutant: Mutant::None,
    };
    const SLOTS: u32 = 4;

    #[inline(always)]
    fn replace_with(&mut self, next: Self) {
        let kept = self.kept;
        *self = next;
        self.kept = kept;
    }

    fn hash_passed_on<H: Hasher>(&self, hasher: &mut H) {
        self.kept.entry.map(|entry| (entry, self.kept.epoch)).hash(hasher);
    }
}

impl<const W: usize> Run<WideContext> for WideFindOrPut<W> {
    fn advance(
        &mut self,
        context: &mut WideContext,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Ended> {
        if context.is_direct {
            return self.run_by_cpu(context, port);
        }
        if self.stage == Stage::Search || self.stage == Stage::Claims {
            let step = self.search.advance(&mut context.table, port)?;
            if let Some(step) = self.take(step) {
                // The search yields only between lines that the CPU examines.
                self.prepare(context, port)?;
                return Ok(step);
            }
        }
        self.proceed(context, port)
    }

    fn on_completion(
        &mut self,
        completed: Completed,
        context: &mut WideContext,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Ended> {
        let Completed { post_id, word } = completed;
        match post_id {
            WRITE => {
                if let Spare::Writing(entry) = self.spare {
                    self.spare = Spare::Written(entry);
                    self.kept.entry = Some(entry);
                }
            }
            FETCH => self.on_fetched(word, context),
            READ => self.on_entry(context, port)?,
            _ if self.stage == Stage::Search || self.stage == Stage::Claims => {
                let step = self.search.on_completion(completed, &mut context.table, port)?;
                if let Some(step) = self.take(step) {
                    self.prepare(context, port)?;
                    return Ok(step);
                }
            }
            post_id if post_id < SEARCH_READS => self.search.on_landed(post_id),
            _ => debug_assert!(false, "an atomic of a search that waits: post {post_id}"),
        }
        self.advance_waiting(context, port)
    }

    fn on_error(&mut self, context: &mut WideContext) {
        context.table.stats.failed += 1;
        if let Some(fetch) = self.fetch.take() {
            context.spares.fetch_failed(fetch);
        }
        self.give_back(context);
    }
}

impl<const W: usize> WideFindOrPut<W> {
    #[inline]
    pub(crate) fn new(key: &[u64; W], intent: Intent, context: &WideContext) -> Self {
        Self::from_hash(key, hash(key), intent, context)
    }

    /// Creates the operation of a key with this hash.
    #[inline]
    pub(crate) fn from_hash(
        key: &[u64; W],
        hash: u64,
        intent: Intent,
        context: &WideContext,
    ) -> Self {
        let tagged = context.entries.tagged(hash);
        let spare = if intent == Intent::Find { Spare::Unneeded } else { Spare::Lacking };
        Self {
            search: FindOrPut::from_tag(tagged, &context.table),
            key: *key,
            intent,
            spare,
            ..Self::IDLE
        }
    }

    fn run_by_cpu(
        &self,
        context: &mut WideContext,
        port: &Port<'_, impl Transport>,
    ) -> Next<Ended> {
        let engine = direct::EngineAccess::new(port.transport(), context);
        let tagged = self.search.tagged();
        let outcome = direct::run::<Narrow, W>(&engine, context, &self.key, tagged, self.intent);
        outcome.map(Step::Done).ok_or_else(|| PostError::OutOfRange.into())
    }

    /// Continues after a completion. The search continues only if no other post is awaited.
    fn advance_waiting(
        &mut self,
        context: &mut WideContext,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Ended> {
        if self.stage == Stage::Search || self.stage == Stage::Claims {
            return self.advance(context, port);
        }
        self.proceed(context, port)
    }

    /// Takes the step of the search. Returns the operation's step, unless the search has stopped.
    fn take(&mut self, step: Step<Ended>) -> Option<Step<Ended>> {
        let Step::Done(outcome) = step else { return Some(step) };
        let may_claim = self.stage == Stage::Claims;
        // The search has no claim in flight when it stops.
        if let (true, Spare::Written(entry)) = (may_claim, self.spare) {
            self.kept.entry = Some(entry);
        }
        self.stage = match outcome {
            Ended::Found => Stage::Match,
            Ended::Inserted => {
                (self.spare, self.kept.entry) = (Spare::Unneeded, None);
                Stage::Ended(outcome)
            }
            _ if !self.search.is_at_empty() => Stage::Ended(self.intent.ended_at_limit()),
            _ if self.intent == Intent::Find => Stage::Ended(Ended::Absent),
            _ => Stage::Empty,
        };
        None
    }

    /// Advances an operation whose search has stopped.
    fn proceed(
        &mut self,
        context: &mut WideContext,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Ended> {
        // Each iteration ends the operation, waits, or examines at least one bucket more.
        loop {
            match self.stage {
                Stage::Search | Stage::Claims => {
                    let step = self.search.advance(&mut context.table, port)?;
                    if let Some(step) = self.take(step) {
                        self.prepare(context, port)?;
                        return Ok(step);
                    }
                }
                Stage::Match => {
                    let entry = context.entries.entry_of(self.search.matched());
                    port.read(READ, context.entries.segment(entry), self.local(LANDING, port))?;
                    context.stats.entry_reads += 1;
                    self.stage = Stage::Compare;
                }
                Stage::Empty => {
                    self.prepare(context, port)?;
                    match self.entry_to_claim_with() {
                        Some(entry) => {
                            self.risk(Mutant::KeepsClaimed);
                            let tagged = context.entries.refer(self.search.tagged(), entry);
                            self.search.claim_empty(tagged);
                            self.stage = Stage::Claims;
                        }
                        None if self.spare == Spare::Exhausted => {
                            self.stage = Stage::Ended(Ended::Full);
                        }
                        // Another operation fetches a run, and this one has no post in flight.
                        None if self.spare == Spare::Lacking && self.fetch.is_none() => {
                            return Ok(Step::Yield);
                        }
                        None => return Ok(Step::Wait),
                    }
                }
                Stage::Compare => {
                    self.prepare(context, port)?;
                    return Ok(Step::Wait);
                }
                Stage::Ended(outcome) => return Ok(self.end(outcome, context)),
            }
        }
    }

    /// Returns the entry that holds the key, once its WRITE has completed.
    fn entry_to_claim_with(&self) -> Option<Entry> {
        match self.spare {
            Spare::Written(entry) => Some(entry),
            #[cfg(test)]
            Spare::Writing(entry) if self.mutant == Mutant::ClaimsEarly => Some(entry),
            _ => None,
        }
    }

    /// Ends the operation once its WRITE and its fetch-and-add have completed. Their results decide
    /// which entry it gives back.
    fn end(&mut self, outcome: Ended, context: &mut WideContext) -> Step<Ended> {
        if self.fetch.is_some() || self.is_writing() {
            return Step::Wait;
        }
        self.give_back(context);
        self.search.count(outcome, &mut context.table);
        Step::Done(outcome)
    }

    /// Gives the kept entry to the client's other operations, unless it has become free for all
    /// clients or there is no room.
    fn give_back(&mut self, context: &mut WideContext) {
        let entry = self.kept.entry.filter(|_| self.kept.epoch == context.spares.epoch);
        self.kept.entry = entry.and_then(|entry| context.spares.give_back(entry));
    }

    /// Drops the kept entry while the outcome of a WRITE to it or of a claim with it is unknown: a
    /// WRITE or a claim that failed may still take effect.
    fn risk(&mut self, _unless: Mutant) {
        #[cfg(test)]
        if self.mutant == _unless {
            return;
        }
        self.kept.entry = None;
    }

    fn is_writing(&self) -> bool {
        matches!(self.spare, Spare::Writing(_))
    }

    /// Takes a spare entry and posts the WRITE of the key to it, as far as both are due.
    fn prepare(
        &mut self,
        context: &mut WideContext,
        port: &mut Port<'_, impl Transport>,
    ) -> Result<(), Stop> {
        if self.spare == Spare::Lacking {
            self.take_spare(context, port)?;
        }
        let Spare::Taken(entry) = self.spare else { return Ok(()) };
        port.reserve(1)?;
        let staged = self.local(STAGED, port);
        for (to, word) in port.staged(staged)?.iter_mut().zip(&self.key) {
            *to = *word;
        }
        port.write(WRITE, staged, context.entries.segment(entry))?;
        self.risk(Mutant::KeepsEarly);
        self.spare = Spare::Writing(entry);
        Ok(())
    }

    /// Takes the entry that the storage kept, or one that the client holds, and requests more of
    /// them in time.
    fn take_spare(
        &mut self,
        context: &mut WideContext,
        port: &mut Port<'_, impl Transport>,
    ) -> Result<(), Stop> {
        if self.fetch.is_some() {
            return Ok(());
        }
        port.reserve(1)?;
        let epoch = context.spares.epoch;
        let kept = self.kept.entry.filter(|_| self.kept.epoch == epoch);
        let entry = kept.or_else(|| context.spares.pop(&context.entries));
        if let Some(entry) = entry {
            self.kept = Kept { entry: Some(entry), epoch };
            self.spare = Spare::Taken(entry);
        }
        match context.spares.fetch(entry.is_none()) {
            Some(fetch) => {
                let at = RemoteWord { owner: Owner(fetch.owner), index: context.counter };
                self.fetch = Some(fetch);
                port.fetch_add(FETCH, at, fetch.count)?;
            }
            None if entry.is_none() && !context.spares.is_fetching() => {
                self.spare = Spare::Exhausted;
            }
            None => {}
        }
        Ok(())
    }

    fn on_fetched(&mut self, before: u64, context: &mut WideContext) {
        let Some(fetch) = self.fetch.take() else { return };
        let lacks = self.spare == Spare::Lacking;
        if let Some(entry) = context.fetched(fetch, before, lacks) {
            self.kept = Kept { entry: Some(entry), epoch: context.spares.epoch };
            self.spare = Spare::Taken(entry);
        }
    }

    /// Compares the entry that has landed with the key.
    fn on_entry(
        &mut self,
        context: &mut WideContext,
        port: &Port<'_, impl Transport>,
    ) -> Result<(), Stop> {
        if self.stage != Stage::Compare {
            debug_assert!(false, "an entry landed without a READ in progress");
            return Ok(());
        }
        let is_equal = port.landed(self.local(LANDING, port))? == self.key;
        #[cfg(test)]
        let is_equal = is_equal || self.mutant == Mutant::TrustsTags;
        if is_equal {
            self.stage = Stage::Ended(Ended::Found);
            return Ok(());
        }
        context.stats.false_entry_reads += 1;
        self.search.pass_match();
        self.stage = Stage::Search;
        if self.search.may_claim() {
            self.risk(Mutant::KeepsClaimed);
            self.stage = Stage::Claims;
        }
        Ok(())
    }

    fn local(&self, slot: u32, port: &Port<'_, impl Transport>) -> SlotRange {
        // A slot has at least `W` words, which the configuration checked.
        let words = u32::try_from(W).unwrap_or(u32::MAX);
        SlotRange { slot: port.slot(slot), start: 0, words }
    }
}
