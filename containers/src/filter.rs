//! Blocked Bloom filters: a set of keys with false positives, a few bits a key.
//!
//! A key has its bits in one 64-bit word, so an operation costs one access. An insert is a
//! compare-and-swap, so it says whether the key was there before, even beside other inserts.
//!
//! # What a READ may show
//!
//! Bits are only set, until the filter is cleared. A READ that is stale shows fewer bits, one that is
//! torn or repeated shows bits of several times, each of them set at its time. So `true` of
//! [`Filter::contains`] holds from then on, and `false` means that the key was not inserted by an
//! operation that ended before. An insert decides on what a compare-and-swap returned, which is the
//! true word; one that failed has an unknown outcome, and may be repeated.

mod bits;
#[cfg(test)]
mod model;
mod rates;

use probeline_pipeline::{BatchError, Error};
use probeline_transport::{Sizes, Transport};

use self::bits::Query;
pub use self::bits::{Action, Bits};
use crate::element::{Container, sizes};
use crate::probe::Probe;

/// The most bits of a key.
pub const MAX_BITS: u32 = 10;

/// Storage for one operation in flight, such as `[Operation::EMPTY; 32]`.
pub type Operation = probeline_pipeline::Operation<Probe<Query, bool>>;
/// The result of a submitted operation: whether the key was there before.
pub type Finished = probeline_pipeline::Finished<bool>;

/// The parameters of a filter. All owners give the same, but for `direct`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Words of the whole filter, at least 1.
    pub words: u64,
    /// Bits that a key sets, 1 to [`MAX_BITS`].
    pub bits: u32,
    /// The first word of each window that the filter uses.
    pub first_word: u64,
    /// Whether this owner's CPU may access words itself. It does if all owners allow it and reach all
    /// words.
    pub direct: bool,
}

impl Config {
    /// Returns the smallest filter that says `true` of at most this share of other keys when `items`
    /// keys are in it. A smaller rate than 0.00001, and one that is not a number, counts as 0.00001: [`rate`](Self::rate)
    /// says which one a filter has.
    ///
    /// A key has its bits in one word of 64, so it takes some more than in an unblocked filter: 5.0 at a rate
    /// of 0.1 (4.8), 12.1 at 0.01 (9.6), 24.0 at 0.001 (14.4).
    #[must_use]
    pub fn for_items(items: u64, rate: f64) -> Self {
        let (words, bits) = rates::smallest(items.max(1), rate);
        Self { words, bits, first_word: 0, direct: true }
    }

    /// Returns the share of other keys of which the filter says `true` when `items` keys are in it.
    #[must_use]
    pub fn rate(&self, items: u64) -> f64 {
        rates::rate(self.bits.clamp(1, MAX_BITS), items as f64 / self.words.max(1) as f64)
    }

    /// Returns the sizes of an engine for this filter in a job of this many owners, with as many
    /// operations in flight.
    #[must_use]
    pub fn sizes(&self, owners: u32, operations: u32) -> Sizes {
        sizes::<Bits>(self, owners, operations)
    }
}

/// A blocked Bloom filter of keys of 64 bits in the windows of all owners, over an engine `T`, with
/// storage `S` for operations in flight. Other keys are hashed to 64 bits first. `len` counts bits that are set.
///
/// ```
/// use probeline_containers::filter::{Config, Filter, Operation};
/// use probeline_shm::Builder;
/// use probeline_transport::Alone;
///
/// let config = Config::for_items(1000, 0.01);
/// let engine = Builder::new(config.sizes(1, 8)).open(&mut Alone)?;
/// let mut filter = Filter::open(engine, config, [Operation::EMPTY; 8], &mut Alone)?;
/// assert!(!filter.insert(7)?);
/// assert!(filter.insert(7)?);
/// assert!(filter.contains(7)?);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub type Filter<T, S> = Container<T, S, Bits>;

impl<T: Transport, S: AsMut<[Operation]>> Filter<T, S> {
    /// Inserts a key, and returns whether it was there before: exactly one of the clients that insert a
    /// new key at the same time gets `false`, unless the key is a false positive. Blocks until the
    /// operation completes; the transport bounds the wait.
    ///
    /// # Errors
    /// [`Error::Contended`] if other operations changed the word before each of 64 attempts; otherwise
    /// the operation failed, and may or may not have inserted the key.
    #[inline]
    pub fn insert(&mut self, key: u64) -> Result<bool, Error> {
        self.call(&key, Action::Insert)
    }

    /// Returns whether a key was inserted. A share of [`Config::rate`] of other keys is treated as inserted,
    /// too. Blocks as [`insert`](Self::insert) does.
    ///
    /// # Errors
    /// [`Error::Failed`] or [`Error::Fault`]: the operation failed, or the engine did.
    #[inline]
    pub fn contains(&mut self, key: u64) -> Result<bool, Error> {
        self.call(&key, Action::Find)
    }

    /// Runs [`insert`](Self::insert) for each key, with as many operations in flight as there is storage
    /// for, and stores at the same place whether it was there before.
    ///
    /// # Errors
    /// [`BatchError`]: the lengths differ, or an operation failed.
    pub fn insert_batch(&mut self, keys: &[u64], found: &mut [bool]) -> Result<(), BatchError> {
        self.run_into(keys, |_| Some(Action::Insert), ("results", found), |is_found| is_found)
    }

    /// Runs [`contains`](Self::contains) for each key, as [`insert_batch`](Self::insert_batch) does.
    ///
    /// # Errors
    /// As for [`insert_batch`](Self::insert_batch).
    pub fn contains_batch(&mut self, keys: &[u64], found: &mut [bool]) -> Result<(), BatchError> {
        self.run_into(keys, |_| Some(Action::Find), ("results", found), |is_found| is_found)
    }
}
