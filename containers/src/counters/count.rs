//! The counts of keys: what operations on a key decide on its word.

use core::marker::PhantomData;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;

use probeline_pipeline::{ConfigError, Distribution, Error, Placement, next_line};
use probeline_transport::line::{Compare, Work, with_widest};
use probeline_transport::{LINE_WORDS, Transport};

use super::Config;
use super::word::{Home, Key, Layout, OCCUPIED};
use crate::element::{Begin, Bounded, Context, Element};
#[cfg(test)]
use crate::model::{self, Mutant};
use crate::phase::Find;
use crate::probe::{Buckets, Decision, Probe};

/// The words of [`Counters`](super::Counters), or of a [`SmallMap`](crate::SmallMap).
pub struct Counts<K = u64, const IS_MAP: bool = false>(PhantomData<K>);

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
    fn change<K: Key>(&self, word: u64, wanted: u64, layout: &Layout<K>) -> Option<u64> {
        match *self {
            Self::Get => None,
            Self::Add(addend) if word & OCCUPIED == 0 => Some(layout.plus(wanted, addend)),
            Self::Add(addend) => Some(layout.plus(word, addend)),
            Self::Put(new) => Some(wanted | new),
            Self::CompareAndSwap { expected, new } => {
                (Outcome::from_word(word, layout).number() == expected).then_some(wanted | new)
            }
        }
    }

    /// Checks that a word has room for the number that the operation stores.
    fn check<K: Key>(&self, layout: &Layout<K>) -> Result<(), Error> {
        match *self {
            Self::Put(new) | Self::CompareAndSwap { new, .. } if new > layout.max_count() => {
                let (value, most) = (new.leading_zeros(), layout.max_count().leading_zeros());
                Err(Error::Value { bits: u64::BITS - value, max: u64::BITS - most })
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
    /// Of a wide key only: another rank is inserting a key of the same first word, and the second word was not
    /// there at any of 64 READs. Nothing has changed; if that rank is lost, it stays so until the structure is
    /// cleared.
    Unfinished,
}

impl Outcome {
    /// Returns the number of a word with the key, or of an empty one.
    #[inline(always)]
    fn from_word<K: Key>(word: u64, layout: &Layout<K>) -> Self {
        if word & OCCUPIED == 0 { Self::New } else { Self::Was(layout.count(word)) }
    }

    /// Returns the number; `None` if the key had none.
    #[inline(always)]
    #[must_use]
    pub fn number(self) -> Option<u64> {
        match self {
            Self::Was(number) => Some(number),
            Self::New | Self::Full | Self::Unfinished => None,
        }
    }

    /// Returns whether the operation could not be done.
    #[inline(always)]
    #[must_use]
    pub fn is_refused(self) -> bool {
        matches!(self, Self::Full | Self::Unfinished)
    }

    /// Returns whether a compare-and-swap of this outcome has stored its number.
    #[must_use]
    pub fn is_swapped(self, expected: Option<u64>) -> bool {
        !self.is_refused() && self.number() == expected
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

impl<K: Key> Buckets<Query> for Layout<K> {
    type Outcome = Outcome;

    #[inline(always)]
    fn bucket_words(&self) -> u32 {
        K::WORDS
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
        // The second word is written once, after the claim.
        if K::WORDS > 1 && !is_empty {
            match words.next() {
                Some(second) if second == home.second => {}
                #[cfg(test)]
                Some(0) if model::has(Mutant::TrustsClaims) => {}
                #[cfg(test)]
                Some(0) if model::has(Mutant::PassesTornClaims) => return Decision::Pass,
                Some(0) | None => return Decision::Wait(Outcome::Unfinished),
                Some(_) => return Decision::Pass,
            }
        }
        let outcome = Outcome::from_word(word, self);
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
        // The first words of buckets.
        let firsts = if K::WORDS == 1 { u8::MAX } else { 0x55 };
        (((seen.wanted | !seen.occupied) & firsts).trailing_zeros() / K::WORDS) as usize
    }

    fn fill(&self, query: &Query, words: &mut [u64]) {
        if let Some(second) = words.get_mut(1) {
            *second = query.home.second;
        }
    }

    fn end(_: &Query) -> Outcome {
        Outcome::Full
    }
}

const TORN_WORDS: &str = "keys of two words need READs that show each word whole, which this transport does not \
     promise: use a put-once map, or counters in the memory of each rank";

impl<K: Key, const IS_MAP: bool> Element for Counts<K, IS_MAP> {
    type Config = Config;
    type Key = K;
    type Home = Home;
    type Action = Action;
    type Machine = Probe<Query, Outcome>;
    type Detail = Layout<K>;
    const NAME: &'static str = if IS_MAP { "SmallMap" } else { "Counters" };

    fn context(config: &Config, owners: u32) -> Context<Layout<K>> {
        let first_word = next_line(config.first_word);
        let places =
            Placement::new(config.lines, LINE_WORDS, first_word, Distribution::Block, owners);
        Context::new(places, Layout::new(config.lines, config.key_bits), config.direct)
    }

    fn parameters(config: &Config) -> impl Iterator<Item = Bounded> + Clone {
        let count = match IS_MAP {
            true => "the largest value, by the number of lines and key_bits,",
            false => "the largest count, by the number of lines and key_bits,",
        };
        [
            ("key_bits", config.key_bits.into(), K::MIN_BITS.into()..=K::MAX_BITS.into()),
            (count, config.max_count(), 1..=u64::MAX),
        ]
        .into_iter()
    }

    fn check(_: &Config, transport: &impl Transport, _: usize) -> Result<(), ConfigError> {
        let is_torn = K::WORDS > 1 && !transport.caps().word_reads_whole;
        if is_torn { Err(ConfigError::Invalid(TORN_WORDS)) } else { Ok(()) }
    }

    #[inline(always)]
    fn home(key: &K, context: &Context<Layout<K>>) -> (u64, Home) {
        context.detail.home(*key)
    }

    #[inline(always)]
    fn machine(
        begin: Begin<'_, Self>,
        context: &Context<Layout<K>>,
    ) -> Result<Self::Machine, Error> {
        let Begin { key, home: (line, home), action, .. } = begin;
        context.detail.check(*key)?;
        action.check(&context.detail)?;
        Ok(Probe::new(line, Query { home, action }))
    }

    #[inline(always)]
    fn with_comparison<W: Work>(work: W) -> W::Output {
        with_widest(work)
    }

    /// Returns the number of keys.
    fn count(part: &[AtomicU64], _: &Context<Layout<K>>) -> u64 {
        part.iter()
            .step_by(K::WORDS as usize)
            .filter(|word| word.load(Acquire) & OCCUPIED != 0)
            .count() as u64
    }
}

impl<K: Key, const IS_MAP: bool> Find for Counts<K, IS_MAP> {
    const FIND: Action = Action::Get;
}
