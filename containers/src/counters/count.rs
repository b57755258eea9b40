//! The counts of keys: what operations on a key decide on its word.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;

use probeline_pipeline::Error;
use probeline_transport::line::Compare;
use probeline_transport::{LINE_WORDS, Segment};

use super::word::{Home, Layout, OCCUPIED};
use super::{Config, MAX_KEY_BITS};
use crate::element::{Bounded, Context, Element};
use crate::phase::Find;
use crate::placement::Placement;
use crate::probe::{self, Buckets, Decision, Probe};

/// The words of [`Counters`](super::Counters), or of a [`SmallMap`](crate::SmallMap).
pub struct Counts<const IS_MAP: bool = false>;

/// Action of an operation on the number of its key: a count, or a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Read the number.
    Get,
    /// Add to the number, which is 0 at first, up to the largest.
    Add(u64),
    /// Replace the number.
    Put(u64),
    /// Replace the number if it is the expected one; of `None`, if the key has none.
    CompareAndSwap {
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
            Self::CompareAndSwap { expected, new } => {
                (Outcome::of(word, layout).number() == expected).then_some(wanted | new)
            }
        }
    }

    /// Checks that a word has room for the number that the operation stores.
    fn check(&self, layout: &Layout) -> Result<(), Error> {
        match *self {
            Self::Put(new) | Self::CompareAndSwap { new, .. } if new > layout.max_count() => {
                let (value, most) = (new.leading_zeros(), layout.max_count().leading_zeros());
                Err(Error::Value { bits: u64::BITS - value, most: u64::BITS - most })
            }
            _ => Ok(()),
        }
    }
}

/// The outcome of an operation: the number before it.
#[must_use = "all words of the key's lines may be in use"]
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

    /// Returns whether a compare-and-swap of this outcome has stored its number.
    #[must_use]
    pub fn is_swapped(self, expected: Option<u64>) -> bool {
        self != Self::Full && self.number() == expected
    }

    /// Returns the count; 0 if the key had none.
    #[inline(always)]
    #[must_use]
    pub fn count(self) -> u64 {
        self.number().unwrap_or(0)
    }
}

/// A key, as its home tells it, and the action on its number.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Query {
    home: Home,
    action: Action,
}

impl Query {
    #[inline(always)]
    fn new((key, home): (&u64, Home), action: Action, layout: &Layout) -> Result<Self, Error> {
        layout.check(*key)?;
        action.check(layout)?;
        Ok(Self { home, action })
    }
}

impl Buckets<Query> for Layout {
    type Outcome = Outcome;

    fn bucket_words(&self) -> u32 {
        1
    }

    fn group_words(&self) -> u32 {
        LINE_WORDS
    }

    fn home(query: &Query) -> u64 {
        query.home.line
    }

    #[inline(always)]
    fn decide(
        &self,
        Query { home, action }: &Query,
        distance: u64,
        mut words: impl Iterator<Item = u64> + Clone,
        is_confirmed: bool,
    ) -> Decision<Outcome> {
        let (wanted, word) = (self.word(*home, distance), words.next().unwrap_or(0));
        let is_empty = word & OCCUPIED == 0;
        if !is_empty && !self.matches(word, wanted) {
            let may_match = !is_confirmed && self.may_match_torn(word, wanted);
            return if may_match { Decision::Confirm } else { Decision::Pass };
        }
        let outcome = Outcome::of(word, self);
        match action.change(word, wanted, self) {
            Some(new) => Decision::Swap { expected: if is_empty { 0 } else { word }, new, outcome },
            None if is_confirmed || is_empty => Decision::Done(outcome),
            None => Decision::Confirm,
        }
    }

    /// Returns the first word that matches or is empty.
    #[inline(always)]
    fn first<C: Compare>(&self, query: &Query, distance: u64, line: &[AtomicU64]) -> usize {
        let Some(line) = line.first_chunk() else { return 0 };
        let seen = C::see(line, !self.max_count(), self.word(query.home, distance));
        (seen.wanted | !seen.occupied).trailing_zeros() as usize
    }

    fn end(_: &Query) -> Outcome {
        Outcome::Full
    }
}

impl<const IS_MAP: bool> Element for Counts<IS_MAP> {
    type Config = Config;
    type Key = u64;
    type Home = Home;
    type Action = Action;
    type Machine = Probe<Query, Outcome>;
    type Detail = Layout;
    const NAME: &'static str = if IS_MAP { "SmallMap" } else { "Counters" };

    fn placement(config: &Config, owners: u32) -> Placement {
        config.placement(owners)
    }

    fn parameters(config: &Config) -> impl Iterator<Item = Bounded> + Clone {
        let count = "the largest count, by the number of lines and key_bits,";
        [
            ("key_bits", config.key_bits.into(), 1..=MAX_KEY_BITS.into()),
            (count, config.max_count(), 1..=u64::MAX),
        ]
        .into_iter()
    }

    fn detail(config: &Config) -> Layout {
        Layout::new(config.lines, config.key_bits)
    }

    fn allows_direct(config: &Config) -> bool {
        config.direct
    }

    #[inline(always)]
    fn home(key: &u64, context: &Context<Layout>) -> Home {
        context.detail.home(*key)
    }

    #[inline(always)]
    fn index(home: &Home) -> u64 {
        home.line
    }

    #[inline(always)]
    fn machine(
        _: Segment,
        key: (&u64, Home),
        action: Action,
        context: &Context<Layout>,
    ) -> Result<Self::Machine, Error> {
        Ok(Probe::new(Query::new(key, action, &context.detail)?))
    }

    #[inline(always)]
    fn run<'t, C: Compare>(
        line: &'t [AtomicU64],
        lines: impl Fn(u64) -> Option<&'t [AtomicU64]>,
        key: (&u64, Home),
        action: &Action,
        context: &Context<Layout>,
    ) -> Result<Outcome, Error> {
        probe::run::<C, _, _>(line, lines, &Query::new(key, *action, &context.detail)?, context)
    }

    /// Returns the number of keys.
    fn count(part: &[AtomicU64], _: &Context<Layout>) -> u64 {
        part.iter().filter(|word| word.load(Acquire) & OCCUPIED != 0).count() as u64
    }
}

impl<const IS_MAP: bool> Find for Counts<IS_MAP> {
    const FIND: Action = Action::Get;
}
