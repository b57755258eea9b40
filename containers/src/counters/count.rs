//! The machine of an operation on a counter, and what the CPU does.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, SeqCst};

use probeline_pipeline::{Completed, Error, Machine, Next, Port, Run, Step};
use probeline_transport::{LINE_WORDS, Local, RemoteWord, Segment, Transport};

use super::word::{Home, Layout, MAX_LINES, OCCUPIED};
use super::{Config, MAX_KEY_BITS};
use crate::element::{Context, Element};
use crate::phase::Find;
use crate::placement::Placement;

/// Compare-and-swaps of one operation on one word.
pub(crate) const MAX_ATTEMPTS: u32 = 64;

/// The words of [`Counters`](super::Counters), or of a [`SmallMap`](crate::SmallMap).
pub struct Counts<const IS_MAP: bool = false>;

/// What an operation does with the number of its key: a count, or a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Read the number.
    Get,
    /// Add to the number, which is 0 at first, up to the largest.
    Add(u64),
    /// Replace the number.
    Put(u64),
    /// Replace the number if it is the expected one; of `None`, if the key has none.
    Exchange {
        /// The number to replace.
        expected: Option<u64>,
        /// The number to store.
        new: u64,
    },
}

impl Action {
    /// Returns the word that the operation makes of a word with its key, or of an empty one; `None` if
    /// it changes nothing. `wanted` is the key's word with a number of 0.
    #[inline(always)]
    fn change(&self, word: u64, wanted: u64, layout: &Layout) -> Option<u64> {
        match *self {
            Self::Get => None,
            Self::Add(addend) if word & OCCUPIED == 0 => Some(layout.plus(wanted, addend)),
            Self::Add(addend) => Some(layout.plus(word, addend)),
            Self::Put(new) => Some(wanted | new),
            Self::Exchange { expected, new } => {
                (Outcome::of(word, layout).number() == expected).then_some(wanted | new)
            }
        }
    }

    /// Checks that a word has room for the number that the operation stores.
    fn check(&self, layout: &Layout) -> Result<(), Error> {
        match *self {
            Self::Put(new) | Self::Exchange { new, .. } if new > layout.max_count() => {
                let (value, most) = (new.leading_zeros(), layout.max_count().leading_zeros());
                Err(Error::Value { bits: u64::BITS - value, most: u64::BITS - most })
            }
            _ => Ok(()),
        }
    }
}

/// The outcome of an operation: the number before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The key had this number.
    Was(u64),
    /// The key had none.
    New,
    /// The key had none, and has none now: all words of its lines are in use.
    Full,
}

impl Outcome {
    /// Returns the number of a word with the key, or of an empty one.
    #[inline(always)]
    fn of(word: u64, layout: &Layout) -> Self {
        if word & OCCUPIED == 0 { Self::New } else { Self::Was(layout.count(word)) }
    }

    /// Returns the number; `None` if the key had none.
    #[inline(always)]
    #[must_use]
    pub fn number(self) -> Option<u64> {
        match self {
            Self::Was(number) => Some(number),
            Self::New | Self::Full => None,
        }
    }

    /// Returns the count; 0 if the key had none.
    #[inline(always)]
    #[must_use]
    pub fn count(self) -> u64 {
        self.number().unwrap_or(0)
    }
}

/// The one-sided operation that is due, or in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Post {
    /// Read the line.
    Line,
    /// Replace this word, 0 if it is empty.
    Change(u64),
    /// Read the true word, because a READ may have torn it.
    Confirm,
}

/// An operation on the counter of a key.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Lookup {
    home: Home,
    /// Lines passed.
    distance: u64,
    /// Words of the line passed.
    passed: u32,
    post: Post,
    action: Action,
    attempts: u32,
}

impl Machine for Lookup {
    type Outcome = Outcome;
    const IDLE: Self = Self {
        home: Home::ANY,
        distance: 0,
        passed: 0,
        post: Post::Line,
        action: Action::Get,
        attempts: 0,
    };
    const SLOTS: u32 = 1;
}

#[cfg(test)]
std::thread_local! {
    /// The mutant of the model check: an add does not look at what its compare-and-swap returned.
    pub(super) static ADDS_BLINDLY: core::cell::Cell<bool> = const { core::cell::Cell::new(false) };
    /// Another: what a READ shows is taken for true.
    pub(super) static TRUSTS_TORN_WORDS: core::cell::Cell<bool> = const { core::cell::Cell::new(false) };
}

/// What follows a completion.
enum After {
    Post(Post),
    Done(Outcome),
}

impl Lookup {
    fn slot(port: &Port<'_, impl Transport>) -> Local {
        Local { slot: port.slot(0), start: 0, words: LINE_WORDS }
    }

    fn line(&self, context: &Context<Layout>) -> Result<Segment, Error> {
        context.placement.element(context.detail.line(self.home, self.distance))
    }

    fn word(&self, context: &Context<Layout>) -> Result<RemoteWord, Error> {
        let RemoteWord { owner, index } = self.line(context)?.start;
        Ok(RemoteWord { owner, index: index + u64::from(self.passed) })
    }

    /// Decides what follows from a word of the line, and from those behind it.
    fn decide(
        &mut self,
        truth: Option<u64>,
        context: &Context<Layout>,
        port: &Port<'_, impl Transport>,
    ) -> Result<After, Error> {
        let (layout, mut truth) = (&context.detail, truth);
        let wanted = layout.word(self.home, self.distance);
        // Each iteration passes a word.
        loop {
            let read = port.landed(Self::slot(port))?.get(self.passed as usize).copied();
            let Some(word) = truth.or(read) else {
                self.passed = 0;
                self.distance += 1;
                let is_last = self.distance == MAX_LINES.min(context.placement.len());
                return Ok(if is_last {
                    After::Done(Outcome::Full)
                } else {
                    After::Post(Post::Line)
                });
            };
            let is_true =
                truth.take().is_some() || port.caps().word_reads_whole || context.is_still;
            #[cfg(test)]
            let is_true = is_true || TRUSTS_TORN_WORDS.get();
            let is_empty = word & OCCUPIED == 0;
            if !is_empty && !layout.matches(word, wanted) {
                if !is_true && layout.may_match_torn(word, wanted) {
                    return Ok(After::Post(Post::Confirm));
                }
                self.passed += 1;
                continue;
            }
            return Ok(match self.action.change(word, wanted, layout) {
                Some(_) => After::Post(Post::Change(if is_empty { 0 } else { word })),
                None if is_true || is_empty => After::Done(Outcome::of(word, layout)),
                None => After::Post(Post::Confirm),
            });
        }
    }
}

impl Run<Context<Layout>> for Lookup {
    fn advance(
        &mut self,
        context: &mut Context<Layout>,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Outcome> {
        let layout = &context.detail;
        match self.post {
            Post::Line => port.read(0, self.line(context)?, Self::slot(port))?,
            Post::Change(word) => {
                let wanted = layout.word(self.home, self.distance);
                let new = self.action.change(word, wanted, layout).unwrap_or(word);
                port.compare_and_swap(0, self.word(context)?, word, new)?;
            }
            Post::Confirm => port.fetch_add(0, self.word(context)?, 0)?,
        }
        Ok(Step::Wait)
    }

    fn on_completion(
        &mut self,
        Completed { word, .. }: Completed,
        context: &mut Context<Layout>,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Outcome> {
        let truth = match self.post {
            Post::Line => None,
            Post::Confirm => Some(word),
            #[cfg(test)]
            Post::Change(_) if ADDS_BLINDLY.get() => return Ok(Step::Done(Outcome::New)),
            Post::Change(expected) if word == expected => {
                return Ok(Step::Done(Outcome::of(word, &context.detail)));
            }
            Post::Change(_) => {
                self.attempts += 1;
                if self.attempts == MAX_ATTEMPTS {
                    return Err(Error::Contended { attempts: MAX_ATTEMPTS }.into());
                }
                Some(word)
            }
        };
        match self.decide(truth, context, port)? {
            After::Done(outcome) => Ok(Step::Done(outcome)),
            After::Post(post) => {
                self.post = post;
                self.advance(context, port)
            }
        }
    }
}

/// The words of a line that match and those that are empty, one bit each.
#[inline(always)]
fn see(line: &[AtomicU64; 8], layout: &Layout, wanted: u64) -> (u32, u32) {
    let (mut matches, mut empty) = (0, 0);
    for (nth, word) in line.iter().enumerate() {
        let word = word.load(Acquire);
        matches |= u32::from(layout.matches(word, wanted)) << nth;
        empty |= u32::from(word & OCCUPIED == 0) << nth;
    }
    (matches, empty)
}

/// Runs an action on a word that holds the key.
#[inline(always)]
fn run_word(
    word: &AtomicU64,
    layout: &Layout,
    wanted: u64,
    action: &Action,
) -> Result<Outcome, Error> {
    let mut found = word.load(Acquire);
    for _ in 0..MAX_ATTEMPTS {
        let Some(new) = action.change(found, wanted, layout) else {
            return Ok(Outcome::of(found, layout));
        };
        match word.compare_exchange(found, new, SeqCst, SeqCst) {
            Ok(old) => return Ok(Outcome::of(old, layout)),
            Err(other) => found = other,
        }
    }
    Err(Error::Contended { attempts: MAX_ATTEMPTS })
}

/// Runs an action on a line. Returns `None` if all of its words hold other keys.
#[inline(always)]
fn run_line(
    line: &[AtomicU64; 8],
    layout: &Layout,
    wanted: u64,
    action: &Action,
) -> Result<Option<Outcome>, Error> {
    let (matches, mut empty) = see(line, layout, wanted);
    if let (Some(word), true) = (line.get(matches.trailing_zeros() as usize), matches != 0) {
        return run_word(word, layout, wanted, action).map(Some);
    }
    let Some(new) = action.change(0, wanted, layout) else {
        return Ok((empty != 0).then_some(Outcome::New));
    };
    // Each iteration claims a word, or finds it taken.
    while let Some(word) = line.get(empty.trailing_zeros() as usize) {
        match word.compare_exchange(0, new, SeqCst, SeqCst) {
            Ok(_) => return Ok(Some(Outcome::New)),
            Err(other) if layout.matches(other, wanted) => {
                return run_word(word, layout, wanted, action).map(Some);
            }
            Err(_) => empty &= empty - 1,
        }
    }
    Ok(None)
}

impl<const IS_MAP: bool> Element for Counts<IS_MAP> {
    type Config = Config;
    type Key = u64;
    type Action = Action;
    type Machine = Lookup;
    type Detail = Layout;
    const NAME: &'static str = if IS_MAP { "SmallMap" } else { "Counters" };
    const PARAMETER: &'static str = "key_bits";

    fn placement(config: &Config, owners: u32) -> Placement {
        config.placement(owners)
    }

    fn parameter(config: &Config) -> (u64, u64) {
        // Of fewer lines a word would have no bits for counts.
        let most = if config.max_count() > 0 { MAX_KEY_BITS.into() } else { 0 };
        (config.key_bits.into(), most)
    }

    fn detail(config: &Config) -> Layout {
        Layout::new(config.lines, config.key_bits)
    }

    fn allows_direct(config: &Config) -> bool {
        config.direct
    }

    #[inline(always)]
    fn index(key: &u64, context: &Context<Layout>) -> u64 {
        context.detail.home(*key).line
    }

    #[inline(always)]
    fn machine(
        _: Segment,
        key: &u64,
        action: Action,
        context: &Context<Layout>,
    ) -> Result<Lookup, Error> {
        context.detail.check(*key)?;
        action.check(&context.detail)?;
        Ok(Lookup { home: context.detail.home(*key), action, ..Lookup::IDLE })
    }

    #[inline(always)]
    fn run<'t>(
        element: &'t [AtomicU64],
        elements: impl Fn(u64) -> Option<&'t [AtomicU64]>,
        key: &u64,
        action: &Action,
        context: &Context<Layout>,
    ) -> Result<Outcome, Error> {
        let layout = &context.detail;
        layout.check(*key)?;
        action.check(layout)?;
        let (home, mut line) = (layout.home(*key), element);
        for distance in 0..MAX_LINES.min(context.placement.len()) {
            if distance > 0 {
                line = elements(layout.line(home, distance)).ok_or(Error::Window)?;
            }
            let words = line.first_chunk().ok_or(Error::Window)?;
            if let Some(outcome) = run_line(words, layout, layout.word(home, distance), action)? {
                return Ok(outcome);
            }
        }
        Ok(Outcome::Full)
    }

    /// Returns the number of keys.
    fn count(part: &[AtomicU64], _: &Context<Layout>) -> u64 {
        part.iter().filter(|word| word.load(Acquire) & OCCUPIED != 0).count() as u64
    }
}

impl<const IS_MAP: bool> Find for Counts<IS_MAP> {
    const FIND: Action = Action::Get;
}
