//! The bits of a filter as a container: those of a key in a word, and what operations decide on it.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, SeqCst};

use probeline_pipeline::{Distribution, Error, Placement};

use super::{Config, MAX_BITS};
use crate::element::{Begin, Bounded, Context, Element};
use crate::hash::mix;
use crate::probe::{Buckets, Decision, Probe};

/// The bits of a [`Filter`](super::Filter).
pub struct Bits;

/// Action of an operation on its key. Its result is whether the key was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Look for the key.
    Find,
    /// Insert the key.
    Insert,
}

/// Returns the bits of a key in its word. They come from another hash than the word.
#[inline(always)]
fn mask(key: u64, bits: u32) -> u64 {
    let hash = mix(key ^ 0x9e37_79b9_7f4a_7c15);
    (0..bits).fold(0, |mask, nth| mask | 1 << (hash >> (6 * nth) & 63))
}

/// The bits of a key in its word, and the action on them.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Query {
    mask: u64,
    action: Action,
}

/// The words of a filter, each a group of one bucket, whose keys set this many bits.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Words {
    bits: u32,
}

impl Buckets<Query> for Words {
    type Outcome = bool;

    #[inline(always)]
    fn bucket_words(&self) -> u32 {
        1
    }

    /// A find ignores whether the word is confirmed, because a torn one shows no bit that is not set.
    #[inline(always)]
    fn decide(
        &self,
        Query { mask, action }: &Query,
        _: u64,
        mut words: impl Iterator<Item = u64>,
        _: bool,
    ) -> Decision<bool> {
        let word = words.next().unwrap_or(0);
        match action {
            _ if word & mask == *mask => Decision::Done(true),
            Action::Find => Decision::Done(false),
            Action::Insert => Decision::Swap { expected: word, new: word | mask, outcome: false },
        }
    }

    #[inline(always)]
    fn end(_: &Query) -> bool {
        false
    }

    /// An insert takes one atomic, whatever other CPUs do.
    #[inline(always)]
    fn run(
        &self,
        Query { mask, action }: &Query,
        _: u64,
        bucket: &[AtomicU64],
    ) -> Result<Option<bool>, Error> {
        let word = bucket.first().ok_or(Error::Window)?;
        let found = word.load(Acquire) & mask == *mask;
        let is_done = found || *action == Action::Find;
        Ok(Some(if is_done { found } else { word.fetch_or(*mask, SeqCst) & mask == *mask }))
    }
}

impl Element for Bits {
    type Config = Config;
    type Key = u64;
    type Home = ();
    type Action = Action;
    type Machine = Probe<Query, bool>;
    type Detail = Words;
    const NAME: &'static str = "Filter";

    fn context(config: &Config, owners: u32) -> Context<Words> {
        let &Config { words, bits, first_word, direct } = config;
        let places = Placement::new(words, 1, first_word, Distribution::Block, owners);
        Context::new(places, Words { bits }, direct)
    }

    fn parameters(config: &Config) -> impl Iterator<Item = Bounded> + Clone {
        [("bits of a key", config.bits.into(), 1..=MAX_BITS.into())].into_iter()
    }

    /// Returns the hash of the key as a fraction of the words.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)]
    fn home(key: &u64, context: &Context<Words>) -> (u64, ()) {
        (((u128::from(mix(*key)) * u128::from(context.placement.len())) >> 64) as u64, ())
    }

    /// The first guess of an insert is an empty word.
    #[inline(always)]
    fn machine(begin: Begin<'_, Self>, context: &Context<Words>) -> Result<Self::Machine, Error> {
        let Begin { key, home: (word, ()), action, .. } = begin;
        let mask = mask(*key, context.detail.bits);
        let probe = Probe::new(word, Query { mask, action });
        Ok(if action == Action::Insert { probe.guess(mask, false) } else { probe })
    }

    /// Returns the number of bits that are set.
    fn count(part: &[AtomicU64], _: &Context<Words>) -> u64 {
        part.iter().map(|word| u64::from(word.load(Acquire).count_ones())).sum()
    }
}
