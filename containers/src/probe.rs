//! Operations on a key in an open-addressing table of buckets: the machine, and what the CPU does.
//!
//! A key is in its home group of buckets or, if that was full, in one of those behind it, in the first bucket
//! of this order that was empty when it was inserted. Operations read a group, pass buckets of other keys, and
//! change a bucket by a compare-and-swap of its first word. What they decide on a bucket is the table's own.

use core::fmt::Debug;
use core::hash::Hash;
use core::hint::spin_loop;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release, SeqCst};

use probeline_pipeline::{Completed, Error, Machine, Next, Port, Run, Step};
use probeline_transport::line::{Compare, Narrow};
use probeline_transport::{RemoteWord, Segment, SlotRange, Transport};

use crate::element::{Context, Direct, MAX_ATTEMPTS};
#[cfg(test)]
use crate::model::{self, Mutant};

/// Groups in which a key may be.
pub(crate) const MAX_GROUPS: u64 = 64;
/// Compare-and-swaps of one operation of a CPU on one word: another CPU's that wins is as short.
const MAX_SWAPS: u32 = 1 << 16;
/// READs of a bucket that another client is writing.
const MAX_READS: u16 = if cfg!(test) { 2 } else { 64 };
/// Loads of a bucket that another client is writing: some 50 ms, if that client waits for a CPU.
const MAX_LOADS: u32 = 1 << 20;
/// The most words of a bucket.
pub(crate) const MAX_WORDS: usize = 64;

/// A table of buckets, as operations on it need it. A query is a key with its home group, and an action on it.
pub trait Buckets<Q>: Copy + Debug + Hash {
    /// The outcome of an operation.
    type Outcome: Copy;

    /// Returns the words of a bucket.
    fn bucket_words(&self) -> u32;

    /// Decides what an operation does with a bucket in the group at a distance from the home, from its words;
    /// `is_confirmed` says that no READ can have torn them.
    fn decide(
        &self,
        query: &Q,
        distance: u64,
        words: impl Iterator<Item = u64> + Clone,
        is_confirmed: bool,
    ) -> Decision<Self::Outcome>;

    /// Returns the first bucket of a group from which on the CPU decides; those before are of other keys.
    #[inline(always)]
    fn first<C: Compare>(&self, _query: &Q, _distance: u64, _group: &[AtomicU64]) -> usize {
        0
    }

    /// Stores the words of the bucket that an operation claims behind the first one, at the same places.
    fn fill(&self, _query: &Q, _words: &mut [u64]) {}

    /// Returns the outcome if all buckets are of other keys.
    fn end(query: &Q) -> Self::Outcome;

    /// Runs an operation on a bucket of the home group by the CPU. Returns `None` if that takes another attempt or
    /// another bucket; then it has changed nothing.
    #[inline(always)]
    fn attempt(&self, query: &Q, bucket: &[AtomicU64]) -> Option<Self::Outcome> {
        let words = bucket.iter().map(|word| word.load(Acquire));
        match self.decide(query, 0, words, true) {
            Decision::Done(outcome) => Some(outcome),
            Decision::Swap { expected, new, outcome } => {
                swap(bucket, self, query, expected, new).then_some(outcome)
            }
            _ => None,
        }
    }

    /// Runs an operation on a bucket by the CPU. Returns `None` if the bucket is of another key.
    ///
    /// # Errors
    /// [`Error::Contended`]: the first word changed before each of 65,536 compare-and-swaps.
    #[inline(always)]
    fn run(
        &self,
        query: &Q,
        distance: u64,
        bucket: &[AtomicU64],
    ) -> Result<Option<Self::Outcome>, Error> {
        let words = bucket.iter().map(|word| word.load(Acquire));
        let (mut swaps, mut end) = (0, None);
        // Each iteration but the first one lost to another client, or waits for one.
        for _ in 0..MAX_LOADS {
            match self.decide(query, distance, words.clone(), true) {
                Decision::Pass => return Ok(None),
                Decision::Done(outcome) => return Ok(Some(outcome)),
                Decision::Swap { expected, new, outcome } => {
                    if swap(bucket, self, query, expected, new) {
                        return Ok(Some(outcome));
                    }
                    swaps += 1;
                    if swaps == MAX_SWAPS {
                        return Err(Error::Contended { attempts: MAX_SWAPS });
                    }
                }
                Decision::Wait(outcome) => {
                    end = Some(outcome);
                    spin_loop();
                }
                // Loads do not tear.
                Decision::Confirm => return Err(Error::Window),
            }
        }
        Ok(end)
    }
}

/// Step of an operation on a bucket, and what is due then.
#[derive(Clone, Copy, Debug, Hash)]
pub enum Decision<O> {
    /// The bucket is of another key. Behind the last one of a group, read the next group.
    Pass,
    /// The operation is done, once the words after the first one of a claimed bucket are written.
    Done(O),
    /// Replace this first word by `new`, and be done.
    Swap {
        /// The word to replace; 0 claims the bucket.
        expected: u64,
        /// The word to store.
        new: u64,
        /// The outcome if the word was the expected one.
        outcome: O,
    },
    /// Read the true first word.
    Confirm,
    /// Read the bucket again, which another client is writing; in the end, this is the outcome.
    Wait(O),
}

/// An operation on a key of a table.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Probe<Q, O> {
    /// `None` in idle storage.
    query: Option<Q>,
    /// The home group of its key.
    home: u64,
    /// Groups passed.
    distance: u64,
    /// Buckets of the group passed.
    passed: u32,
    due: Decision<O>,
    /// READs of the bucket that another client is writing.
    waits: u16,
    /// Compare-and-swaps of the bucket that were lost.
    swaps: u16,
}

impl<Q: Copy, O: Copy> Probe<Q, O> {
    /// Creates the operation of a query on a key with this home group.
    #[inline(always)]
    pub(crate) fn new(home: u64, query: Q) -> Self {
        Self { query: Some(query), home, ..Self::IDLE }
    }

    /// Lets the operation begin with a compare-and-swap from 0 to `new`, a guess, instead of a READ.
    #[inline(always)]
    pub(crate) fn guess(self, new: u64, outcome: O) -> Self {
        Self { due: Decision::Swap { expected: 0, new, outcome }, ..self }
    }

    fn group<D>(&self, context: &Context<D>) -> Result<Segment, Error> {
        context.placement.element(group(self.home, self.distance, context.placement.len()))
    }

    /// Returns the words of the bucket from `first` on, in the window and in the slot.
    fn bucket<B: Buckets<Q>>(
        &self,
        first: u32,
        context: &Context<B>,
        port: &Port<'_, impl Transport>,
    ) -> Result<(Segment, SlotRange), Error> {
        let words = context.detail.bucket_words();
        let (start, words) = (self.passed * words + first, words - first);
        let RemoteWord { owner, index } = self.group(context)?.start;
        let at = RemoteWord { owner, index: index + u64::from(start) };
        Ok((Segment { start: at, words }, SlotRange { slot: port.slot(0), start, words }))
    }

    /// Decides what follows, from the true first word of the bucket or from what was read of it, and from the
    /// buckets behind it.
    fn decide<B: Buckets<Q, Outcome = O>>(
        &mut self,
        query: &Q,
        mut truth: Option<u64>,
        context: &Context<B>,
        port: &Port<'_, impl Transport>,
    ) -> Result<Step<O>, Error> {
        let table = &context.detail;
        let is_whole = port.caps().word_reads_whole || context.is_still;
        #[cfg(test)]
        let is_whole = is_whole || model::has(Mutant::TrustsTornWords);
        // Each iteration passes a bucket.
        while self.passed < context.placement.words() / table.bucket_words().max(1) {
            let (_, slot) = self.bucket(truth.is_some().into(), context, port)?;
            let read = if slot.words > 0 { port.landed(slot)? } else { &[] };
            let words = truth.into_iter().chain(read.iter().copied());
            let is_confirmed = truth.take().is_some() || is_whole;
            self.due = table.decide(query, self.distance, words, is_confirmed);
            match self.due {
                Decision::Pass => {
                    self.passed += 1;
                    (self.waits, self.swaps) = (0, 0);
                    continue;
                }
                Decision::Done(outcome) => return Ok(Step::Done(outcome)),
                Decision::Wait(outcome) if self.waits >= MAX_READS => {
                    return Ok(Step::Done(outcome));
                }
                Decision::Wait(_) => self.waits += 1,
                Decision::Swap { .. } | Decision::Confirm => {}
            }
            return Ok(Step::Wait);
        }
        (self.passed, self.due) = (0, Decision::Pass);
        self.distance += 1;
        let is_last = self.distance == MAX_GROUPS.min(context.placement.len());
        Ok(if is_last { Step::Done(B::end(query)) } else { Step::Wait })
    }
}

/// Returns the group at a distance from a home, which is less than the number of groups.
#[inline(always)]
fn group(home: u64, distance: u64, groups: u64) -> u64 {
    let group = home + distance;
    group.checked_sub(groups).unwrap_or(group)
}

impl<Q: Copy, O: Copy> Machine for Probe<Q, O> {
    type Outcome = O;
    const IDLE: Self = Self {
        query: None,
        home: 0,
        distance: 0,
        passed: 0,
        due: Decision::Pass,
        waits: 0,
        swaps: 0,
    };
    const SLOTS: u32 = 1;
}

impl<B, Q: Copy, O: Copy> Run<Context<B>> for Probe<Q, O>
where
    B: Buckets<Q, Outcome = O>,
{
    fn advance(
        &mut self,
        context: &mut Context<B>,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<O> {
        let Some(query) = &self.query else { return Err(Error::Idle.into()) };
        let (at, slot) = self.bucket(0, context, port)?;
        match self.due {
            Decision::Pass => {
                let group = self.group(context)?;
                port.read(0, group, SlotRange { start: 0, words: group.words, ..slot })?;
            }
            Decision::Wait(_) => port.read(0, at, slot)?,
            Decision::Swap { expected, new, .. } => {
                port.compare_and_swap(0, at.start, expected, new)?;
            }
            Decision::Done(_) => {
                port.reserve(1)?;
                context.detail.fill(query, port.staged(slot)?);
                let (at, slot) = self.bucket(1, context, port)?;
                port.write(0, slot, at)?;
            }
            Decision::Confirm => port.fetch_add(0, at.start, 0)?,
        }
        Ok(Step::Wait)
    }

    fn on_error(&mut self, context: &mut Context<B>) {
        // An operation that gave up after MAX_ATTEMPTS compare-and-swaps has changed nothing.
        context.has_failed |= u32::from(self.swaps) < MAX_ATTEMPTS;
    }

    fn on_completion(
        &mut self,
        Completed { word, .. }: Completed,
        context: &mut Context<B>,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<O> {
        let Some(query) = self.query else { return Err(Error::Idle.into()) };
        #[cfg(test)]
        let word = match self.due {
            Decision::Swap { expected, .. } if model::has(Mutant::IgnoresLostSwaps) => expected,
            _ => word,
        };
        let truth = match self.due {
            #[cfg(test)]
            Decision::Swap { expected, .. }
                if word != expected && model::has(Mutant::PassesLostSwaps) =>
            {
                self.passed += 1;
                None
            }
            Decision::Done(outcome) => return Ok(Step::Done(outcome)),
            Decision::Swap { expected, outcome, .. } if word == expected => {
                if expected > 0 || context.detail.bucket_words() == 1 {
                    return Ok(Step::Done(outcome));
                }
                self.due = Decision::Done(outcome);
                return self.advance(context, port);
            }
            Decision::Swap { .. } => {
                self.swaps += 1;
                if u32::from(self.swaps) >= MAX_ATTEMPTS {
                    return Err(Error::Contended { attempts: MAX_ATTEMPTS }.into());
                }
                Some(word)
            }
            Decision::Confirm => Some(word),
            Decision::Pass | Decision::Wait(_) => None,
        };
        let step = self.decide(&query, truth, context, port)?;
        if let Step::Wait = step { self.advance(context, port) } else { Ok(step) }
    }
}

/// Replaces the first word of a bucket, and writes the others of one that it claims. Returns false if the first
/// word is another one.
#[inline(always)]
fn swap<B: Buckets<Q>, Q>(
    bucket: &[AtomicU64],
    table: &B,
    query: &Q,
    expected: u64,
    new: u64,
) -> bool {
    let Some((first, rest)) = bucket.split_first() else { return false };
    let is_swapped = first.compare_exchange(expected, new, SeqCst, SeqCst).is_ok();
    if is_swapped && expected == 0 && !rest.is_empty() {
        let mut words = [0; MAX_WORDS];
        table.fill(query, words.get_mut(..bucket.len()).unwrap_or_default());
        rest.iter().zip(&words[1..]).for_each(|(to, word)| to.store(*word, Release));
    }
    is_swapped
}

impl<B, Q: Copy, O: Copy> Direct<B> for Probe<Q, O>
where
    B: Buckets<Q, Outcome = O>,
{
    #[inline(always)]
    fn run<'t, C: Compare>(
        &self,
        words: &'t [AtomicU64],
        elements: impl Fn(u64) -> Option<&'t [AtomicU64]>,
        context: &Context<B>,
    ) -> Result<O, Error> {
        let Self { query: Some(query), home, .. } = *self else { return Err(Error::Idle) };
        let table = &context.detail;
        let len = (table.bucket_words() as usize).max(1);
        let first = table.first::<C>(&query, 0, words) * len;
        // Nearly all operations end here. The loops of the others would take registers from a batch.
        if let Some(bucket) = words.get(first..first + len)
            && let Some(outcome) = table.attempt(&query, bucket)
        {
            return Ok(outcome);
        }
        search(home, query, words, elements, context)
    }
}

/// Runs an operation by the CPU on the groups in which its key may be, from its home on, whose words are `words`.
#[cold]
#[inline(never)]
fn search<'t, B: Buckets<Q>, Q>(
    home: u64,
    query: Q,
    mut words: &'t [AtomicU64],
    elements: impl Fn(u64) -> Option<&'t [AtomicU64]>,
    context: &Context<B>,
) -> Result<B::Outcome, Error> {
    let (table, groups) = (&context.detail, context.placement.len());
    for distance in 0..MAX_GROUPS.min(groups) {
        if distance > 0 {
            words = elements(group(home, distance, groups)).ok_or(Error::Window)?;
        }
        let len = (table.bucket_words() as usize).max(1);
        let mut next = table.first::<Narrow>(&query, distance, words) * len;
        while let Some(bucket) = words.get(next..next + len) {
            next += len;
            if let Some(outcome) = table.run(&query, distance, bucket)? {
                return Ok(outcome);
            }
        }
    }
    Ok(B::end(&query))
}
