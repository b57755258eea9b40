//! The entries of a put-once map: what operations on a key decide on a bucket.

use core::marker::PhantomData;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;

use probeline_pipeline::{Distribution, Error, Placement, Plain, next_line};
use probeline_transport::line::Compare;

use super::Config;
use super::bucket::{MAX_BYTES, Shape, is_written};
use crate::element::{Begin, Bounded, Context, Element, bits, check_value};
#[cfg(test)]
use crate::model::{self, Mutant};
use crate::phase::Find;
use crate::probe::{Buckets, Decision, Probe};

/// The entries of a [`PutOnce`](super::PutOnce).
pub struct Entries<K, V>(PhantomData<(K, V)>);

/// Action of an operation on its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action<V> {
    /// Find its value.
    Find,
    /// Insert it with this value, unless it is present.
    Insert(V),
}

/// The outcome of an operation.
#[must_use = "a map may be full"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome<V> {
    /// The key has this value.
    Found(V),
    /// A find has not found the key.
    Absent,
    /// The key was inserted.
    Inserted,
    /// The key was not inserted: all buckets in which it may be hold other keys.
    Full,
    /// Another rank is inserting the key, and its value was not there at any of 64 READs. Find or insert it
    /// again later; if that rank is lost, the key has no value until the map is cleared.
    Unfinished,
}

impl<V> Outcome<V> {
    /// Returns the value of the key, if it has one.
    #[must_use]
    pub fn found(self) -> Option<V> {
        if let Self::Found(value) = self { Some(value) } else { None }
    }
}

/// A key with its home, and the action on it.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Query<K, V> {
    pub(super) key: K,
    /// The first word of the key's bucket, with a value of zeros.
    pub(super) home: u64,
    pub(super) action: Action<V>,
}

impl<K: Plain, V: Plain> Buckets<Query<K, V>> for Shape {
    type Outcome = Outcome<V>;

    fn bucket_words(&self) -> u32 {
        self.words
    }

    /// Ignores whether words are confirmed, because each byte says whether it was written.
    #[inline(always)]
    fn decide(
        &self,
        Query { key, home, action }: &Query<K, V>,
        _: u64,
        words: impl Iterator<Item = u64> + Clone,
        _: bool,
    ) -> Decision<Outcome<V>> {
        let first = words.clone().next().unwrap_or(0);
        if !is_written(first) {
            #[cfg(test)]
            if model::has(Mutant::PassesTornClaims) && first != 0 {
                return Decision::Pass;
            }
            return match action {
                _ if !self.may_match(first, *home) => Decision::Pass,
                Action::Find => Decision::Done(Outcome::Absent),
                Action::Insert(value) => {
                    let mut first = [0];
                    self.encode(key, value, &mut first);
                    Decision::Swap { expected: 0, new: first[0], outcome: Outcome::Inserted }
                }
            };
        }
        if !self.matches(first, *home) {
            return Decision::Pass;
        }
        match self.decode::<K, V>(words) {
            #[cfg(test)]
            None if model::has(Mutant::TrustsClaims) => {
                Decision::Done(Outcome::Found(V::zeroed(self.value_bytes)))
            }
            None => Decision::Wait(Outcome::Unfinished),
            Some((found, value)) if found.bytes() == key.bytes() => {
                Decision::Done(Outcome::Found(value))
            }
            Some(_) => Decision::Pass,
        }
    }

    /// Returns the first bucket that may have the key or be claimed for it.
    #[inline(always)]
    fn first<C: Compare>(&self, query: &Query<K, V>, _: u64, group: &[AtomicU64]) -> usize {
        let is_other = |first: u64| {
            let may_match = if is_written(first) { Self::matches } else { Self::may_match };
            !may_match(self, first, query.home)
        };
        let firsts = group.iter().step_by((self.words as usize).max(1));
        firsts.take_while(|first| is_other(first.load(Acquire))).count()
    }

    fn fill(&self, query: &Query<K, V>, words: &mut [u64]) {
        if let Action::Insert(value) = &query.action {
            self.encode(&query.key, value, words);
        }
    }

    fn end(query: &Query<K, V>) -> Outcome<V> {
        if let Action::Insert(_) = query.action { Outcome::Full } else { Outcome::Absent }
    }
}

impl<K: Plain, V: Plain> Element for Entries<K, V> {
    type Config = Config;
    type Key = K;
    type Home = u64;
    type Action = Action<V>;
    type Machine = Probe<Query<K, V>, Outcome<V>>;
    type Detail = Shape;
    const NAME: &'static str = "PutOnce";

    fn context(config: &Config, owners: u32) -> Context<Shape> {
        let shape = config.shape::<K, V>();
        let groups = config.buckets.div_ceil(shape.buckets().into());
        let (words, first_word) = (shape.group_words, next_line(config.first_word));
        let places = Placement::new(groups, words, first_word, Distribution::Block, owners);
        Context::new(places, shape, config.direct)
    }

    fn parameters(config: &Config) -> impl Iterator<Item = Bounded> + Clone {
        let Shape { key_bytes, value_bytes, .. } = config.shape::<K, V>();
        let most = V::CAPACITY.min(MAX_BYTES.saturating_sub(key_bytes)) as u64;
        [
            ("bytes of a key", key_bytes as u64, 1..=K::CAPACITY.min(MAX_BYTES) as u64),
            ("bytes of a value", value_bytes as u64, 0..=most),
        ]
        .into_iter()
    }

    #[inline(always)]
    fn home(key: &K, context: &Context<Shape>) -> (u64, u64) {
        context.detail.home(key, context.placement.len())
    }

    #[inline(always)]
    fn machine(begin: Begin<'_, Self>, context: &Context<Shape>) -> Result<Self::Machine, Error> {
        let Begin { key, home: (group, home), action, .. } = begin;
        let Shape { key_bytes, value_bytes, .. } = context.detail;
        if K::SIZE.is_none() && key.bytes().len() != key_bytes {
            return Err(Error::Key { bits: bits(key.bytes().len()), max: bits(key_bytes) });
        }
        if let Action::Insert(value) = &action {
            check_value(value, value_bytes)?;
        }
        Ok(Probe::new(group, Query { key: *key, home, action }))
    }

    /// Returns the number of keys.
    fn count(part: &[AtomicU64], context: &Context<Shape>) -> u64 {
        let is_claimed = |bucket: &&[AtomicU64]| {
            bucket.first().is_some_and(|word| is_written(word.load(Acquire)))
        };
        context.detail.split(part).filter(is_claimed).count() as u64
    }
}

impl<K: Plain, V: Plain> Find for Entries<K, V> {
    const FIND: Action<V> = Action::Find;
}
