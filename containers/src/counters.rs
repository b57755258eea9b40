//! Counters by key: an open-addressing table of words that hold a key and its count.
//!
//! A key has a home line of eight words, and is in that line or, if it was full, in one of the 63 lines
//! behind it. A word holds the occupied bit, what the home line does not tell of the key, the distance
//! from the home line, and the count, which saturates.
//!
//! # What a READ may show
//!
//! A word goes from empty to occupied once, by a compare-and-swap, and keeps its key until the counters are
//! cleared; only its count changes. A key is in the first word of its order that was empty when it was
//! inserted. So a stale READ shows an older count, or an empty word for an occupied one, which the
//! compare-and-swap that would claim it finds out. An add is a compare-and-swap of the whole word: it
//! succeeds only on this key, never wraps into it, and counts once. Where words may tear, a word that may
//! be a mixture decides nothing: a fetch-and-add of 0 returns the true word.
//!
//! An add that failed has an unknown outcome, and counts twice if it is repeated after it took effect.

mod count;
#[cfg(test)]
mod model;
mod word;

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;

use probeline_pipeline::{BatchError, Error};
use probeline_transport::{LINE_WORDS, Sizes, Transport};

use self::count::Query;
pub use self::count::{Action, Counts, Outcome};
pub use self::word::{Key, Shuffled};
use self::word::{Layout, OCCUPIED};
use crate::element::{Container, sizes};
use crate::phase::Finder;
use crate::probe::Probe;

/// The most bits of a key.
pub const MAX_KEY_BITS: u32 = 62;
/// The most bits of a wide key.
pub const MAX_WIDE_KEY_BITS: u32 = 126;

/// Storage for one operation in flight, such as `[Operation::EMPTY; 32]`.
pub type Operation = probeline_pipeline::Operation<Probe<Query, Outcome>>;
/// The result of a submitted operation.
pub type Finished = probeline_pipeline::Finished<Outcome>;

/// The parameters of counters. All owners give the same, but for `direct`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Lines of eight counters, of all owners together.
    pub lines: u64,
    /// Bits of a key: 1 to [`MAX_KEY_BITS`], of [`WideCounters`] 64 to [`MAX_WIDE_KEY_BITS`].
    pub key_bits: u32,
    /// The first word of each window that the counters use; the next line begins them.
    pub first_word: u64,
    /// Whether this owner's CPU may access words itself. It does if all owners allow it and reach all
    /// words.
    pub direct: bool,
}

impl Config {
    /// Returns the configuration for this many keys of at most `key_bits` bits: at this number three
    /// quarters of the words are in use.
    #[must_use]
    pub const fn for_keys(keys: u64, key_bits: u32) -> Self {
        let buckets = keys.saturating_add(keys / 3);
        let words = if key_bits > MAX_KEY_BITS { buckets.saturating_mul(2) } else { buckets };
        Self { lines: words / LINE_WORDS as u64 + 1, key_bits, first_word: 0, direct: true }
    }

    /// Returns the largest count, at which a counter stays. It has the bits that a word has left:
    /// 57 + floor(log2(lines)) - `key_bits`, of wide keys 63 more, at most 57; none for too few lines.
    #[must_use]
    pub fn max_count(&self) -> u64 {
        match self.key_bits {
            ..=MAX_KEY_BITS => Layout::<u64>::new(self.lines, self.key_bits).max_count(),
            _ => Layout::<u128>::new(self.lines, self.key_bits).max_count(),
        }
    }

    /// Returns the sizes of an engine for these counters in a job of this many owners, with as many
    /// operations in flight.
    #[must_use]
    pub fn sizes(&self, owners: u32, operations: u32) -> Sizes {
        sizes::<Counts>(self, owners, operations)
    }
}

/// Counters of keys `K` in the windows of all owners, over an engine `T`, with storage `S` for operations in
/// flight: see [`Counters`] and [`WideCounters`].
///
/// ```
/// use probeline_containers::counters::{Config, Counters, Operation, Outcome};
/// use probeline_shm::Builder;
/// use probeline_transport::Alone;
///
/// let config = Config::for_keys(1000, 42);
/// let engine = Builder::new(config.sizes(1, 32)).open(&mut Alone)?;
/// let mut counters = Counters::open(engine, config, [Operation::EMPTY; 32], &mut Alone)?;
/// assert_eq!(counters.add(7, 2)?, Outcome::New);
/// assert_eq!(counters.add(7, 1)?, Outcome::Was(2));
/// assert_eq!(counters.get(7)?, 3);
/// assert_eq!(counters.get(8)?, 0);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub type CountersOf<T, S, K> = Container<T, S, Counts<K>>;

/// Counters of keys of up to 62 bits, a word each.
pub type Counters<T, S> = CountersOf<T, S, u64>;

/// Counters of keys of 64 to 126 bits, two words each.
pub type WideCounters<T, S> = CountersOf<T, S, u128>;

impl<T: Transport, S: AsMut<[Operation]>, K: Key> CountersOf<T, S, K> {
    /// Adds to the counter of a key, which is 0 at first. Two roundtrips: a READ of the line and a
    /// compare-and-swap, repeated alone when another add was faster. Blocks until the operation completes;
    /// the transport bounds the wait.
    ///
    /// # Errors
    /// [`Error::Key`] if the key has too many bits; [`Error::Contended`] if other adds were faster 64
    /// times; otherwise the operation failed, and may or may not have counted.
    #[inline]
    pub fn add(&mut self, key: K, addend: u64) -> Result<Outcome, Error> {
        self.call(&key, Action::Add(addend))
    }

    /// Returns the count of a key. Blocks as [`add`](Self::add) does.
    ///
    /// # Errors
    /// [`Error::Key`] if the key has too many bits; otherwise the operation failed.
    #[inline]
    pub fn get(&mut self, key: K) -> Result<u64, Error> {
        Ok(self.call(&key, Action::Get)?.count())
    }

    /// Adds 1 to the counter of each key, with as many operations in flight as there is storage for, and
    /// returns how many keys were not counted, because they found no room. [`run_all`](Self::run_all) tells which.
    ///
    /// # Errors
    /// [`BatchError`]: the operation of a key failed.
    pub fn add_batch(&mut self, keys: &[K]) -> Result<u64, BatchError> {
        let mut full = 0;
        self.run_all(
            keys,
            |_| Some(Action::Add(1)),
            |_, outcome| full += u64::from(outcome.is_refused()),
        )?;
        Ok(full)
    }

    /// Gets the count of each key and stores it at the same place of `counts`.
    ///
    /// # Errors
    /// [`BatchError`]: the lengths differ, or the operation of a key failed.
    pub fn get_batch(&mut self, keys: &[K], counts: &mut [u64]) -> Result<(), BatchError> {
        self.run_into(keys, |_| Some(Action::Get), ("counts", counts), Outcome::count)
    }

    /// Returns the line at which the search for a key begins.
    #[inline]
    #[must_use]
    pub fn home_line(&self, key: K) -> u64 {
        self.context().detail.home(key).0
    }

    /// Returns the counts of the keys in this owner's part, without the keys: several times as fast as
    /// [`local`](Self::local).
    pub fn local_counts(&self) -> impl Iterator<Item = u64> + '_ {
        let layout = self.context().detail;
        let firsts = self.own_words().iter().step_by(K::WORDS as usize);
        let words = firsts.map(|word| word.load(Acquire));
        words.filter(|word| word & OCCUPIED != 0).map(move |word| layout.count(word))
    }
}

impl<T: Transport, S, K: Key> CountersOf<T, S, Shuffled<K>> {
    /// Shuffles a key, one to one, by its number of bits alone. A key with too many bits keeps them, so that
    /// operations refuse it.
    #[inline]
    #[must_use]
    pub fn shuffled(&self, key: K) -> Shuffled<K> {
        Key::from_wide(self.context().detail.shuffle(key.to_wide()))
    }

    /// Returns the key from which [`shuffled`](Self::shuffled) made this one.
    #[inline]
    #[must_use]
    pub fn unshuffled(&self, Shuffled(key): Shuffled<K>) -> K {
        K::from_wide(self.context().detail.unshuffle(key.to_wide()))
    }
}

impl<T: Transport, S, K: Key, const IS_MAP: bool> Finder<'_, T, S, Counts<K, IS_MAP>>
where
    S: AsMut<[Operation]>,
{
    /// Returns the keys in this owner's part with their counts or values.
    pub fn local(&self) -> impl Iterator<Item = (K, u64)> + '_ {
        self.container().local()
    }
}

impl<T: Transport, S, K: Key, const IS_MAP: bool> Container<T, S, Counts<K, IS_MAP>> {
    /// Returns the keys in this owner's part with their counts or values, as they are at the moment of each load.
    pub fn local(&self) -> impl Iterator<Item = (K, u64)> + '_ {
        let (lines, _) = self.own_words().as_chunks();
        let (layout, placement) = (self.context().detail, self.context().placement);
        let of_line = move |(line, words): (u64, &[AtomicU64; 8])| {
            let words = words.each_ref().map(|word| word.load(Acquire));
            let (len, bucket) = (words.len(), K::WORDS as usize);
            let firsts = (0..len).step_by(bucket);
            firsts.filter_map(move |first| layout.entry(words.get(first..first + bucket)?, line))
        };
        placement.indices(self.transport().geometry().me).zip(lines).flat_map(of_line)
    }
}
