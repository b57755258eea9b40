//! Put-once maps: keys and values of any plain types, each key inserted once and never changed.
//!
//! A bucket holds a key and its value, and lies in the key's home group of buckets or, if that was full, in
//! one of the 63 groups behind it. Every byte of its words has seven bits of data and one that says that it
//! was written. An insert claims a bucket by a compare-and-swap of its first word, which holds 56 bits of the
//! key mixed with a hash of the rest, and then WRITEs the other words.
//!
//! # What a READ may show
//!
//! Words are written once, until the map is cleared. So a READ that is stale, torn or repeated shows bytes
//! that are right, or that say that they are not written.
//!
//! - A bucket whose words are all written holds what they show: a find costs one READ of the group, beside
//!   inserts as in a find phase.
//! - A first word in part may be a claim of the key that has not ended. The key then counts as absent for a
//!   find; an insert tries to claim the bucket, and the compare-and-swap returns the true word. So a key is in
//!   the first bucket of its order that was empty when it was inserted, and in no other.
//! - A claim whose other words are not written is read again. After 64 READs (2^20 loads by the CPU) the
//!   operation ends as [`Outcome::Unfinished`].
//!
//! An insert that failed has an unknown outcome. If it has claimed a bucket, the key stays unfinished.

mod bucket;
mod entries;
#[cfg(test)]
mod model;

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;

use probeline_pipeline::{Error, Plain};
use probeline_transport::{Sizes, Transport};

use self::bucket::Shape;
use self::entries::Query;
pub use self::entries::{Action, Entries, Outcome};
use crate::element::{Container, sizes};
use crate::probe::Probe;

/// Storage for one operation in flight, such as `[Operation::EMPTY; 32]`.
pub type Operation<K, V> = probeline_pipeline::Operation<Probe<Query<K, V>, Outcome<V>>>;
/// The result of a submitted operation.
pub type Finished<V> = probeline_pipeline::Finished<Outcome<V>>;

/// The parameters of a put-once map. All owners give the same, but for `direct`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Buckets of all owners together, rounded up to whole groups of them.
    pub buckets: u64,
    /// The first word of each window that the map uses; the next line begins it.
    pub first_word: u64,
    /// Whether this owner's CPU may access words itself. It does if all owners allow it and reach all
    /// words.
    pub direct: bool,
    /// Bytes of a key, if its type leaves the size open.
    pub key_bytes: usize,
    /// Bytes of a value, if its type leaves the size open.
    pub value_bytes: usize,
}

impl Config {
    /// Returns the configuration for this many keys: three quarters of the buckets then are in use.
    #[must_use]
    pub const fn for_keys(keys: u64) -> Self {
        let buckets = keys.saturating_add(keys / 3).saturating_add(1);
        Self { buckets, first_word: 0, direct: true, key_bytes: 0, value_bytes: 0 }
    }

    /// Returns the sizes of an engine for such a map of `K` to `V` in a job of this many owners, with as
    /// many operations in flight.
    #[must_use]
    pub fn sizes<K: Plain, V: Plain>(&self, owners: u32, operations: u32) -> Sizes {
        sizes::<Entries<K, V>>(self, owners, operations)
    }

    fn shape<K: Plain, V: Plain>(&self) -> Shape {
        Shape::new(K::SIZE.unwrap_or(self.key_bytes), V::SIZE.unwrap_or(self.value_bytes))
    }
}

/// A put-once map of keys `K` to values `V` in the windows of all owners, over an engine `T`, with storage
/// `S` for operations in flight. A key and its value have at most 440 bytes together.
///
/// ```
/// use probeline_containers::put_once::{Config, Operation, Outcome, PutOnce};
/// use probeline_shm::Builder;
/// use probeline_transport::Alone;
///
/// let config = Config::for_keys(1000);
/// let engine = Builder::new(config.sizes::<[u64; 2], u32>(1, 32)).open(&mut Alone)?;
/// let mut map = PutOnce::<_, _, [u64; 2], u32>::open(
///     engine,
///     config,
///     [Operation::EMPTY; 32],
///     &mut Alone,
/// )?;
/// assert_eq!(map.insert(&[1, 2], &30)?, Outcome::Inserted);
/// assert_eq!(map.insert(&[1, 2], &40)?, Outcome::Found(30));
/// let found = map.find_phase(&mut Alone, |finder| finder.find(&[1, 2]))??;
/// assert_eq!(found, Outcome::Found(30));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub type PutOnce<T, S, K, V> = Container<T, S, Entries<K, V>>;

impl<T, S, K, V> PutOnce<T, S, K, V>
where
    T: Transport,
    S: AsMut<[Operation<K, V>]>,
    K: Plain,
    V: Plain,
{
    /// Inserts a key with a value unless it is present, and returns the value that it has then. Three
    /// roundtrips: a READ of the group, a compare-and-swap and a WRITE; two if key and value have at most
    /// seven bytes; one if the key is present. Blocks until the operation completes; the transport bounds the
    /// wait.
    ///
    /// # Errors
    /// [`Error::Key`] or [`Error::Value`] if the key or the value has not the bytes that the configuration
    /// states; otherwise the operation failed, and may or may not have claimed the key.
    #[inline]
    pub fn insert(&mut self, key: &K, value: &V) -> Result<Outcome<V>, Error> {
        self.call(key, Action::Insert(*value))
    }

    /// Finds the value of a key. One roundtrip: a READ of the home group, and one more for each full group
    /// that the key passes, at most 63. Blocks as
    /// [`insert`](Self::insert) does.
    ///
    /// # Errors
    /// [`Error::Key`] as for [`insert`](Self::insert); otherwise the operation failed.
    #[inline]
    pub fn find(&mut self, key: &K) -> Result<Outcome<V>, Error> {
        self.call(key, Action::Find)
    }

    /// Returns the keys in this owner's part with their values; those that are being inserted are missing.
    pub fn local(&self) -> impl Iterator<Item = (K, V)> + '_ {
        let shape = self.context().detail;
        let decode =
            move |bucket: &[AtomicU64]| shape.decode(bucket.iter().map(|word| word.load(Acquire)));
        shape.split(self.own_words()).filter_map(decode)
    }
}
