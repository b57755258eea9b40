//! Small maps: mutable values of keys, key and value together in one word.
//!
//! A map has the words of [`counters`](crate::counters), with a value instead of a count, and their rule. A
//! word changes by a compare-and-swap only, so each operation takes effect at one moment, beside any others.

use probeline_pipeline::Error;
use probeline_transport::Transport;

use crate::counters::Counts;
pub use crate::counters::{Action, Config, Key, Operation, Outcome};
use crate::element::{Container, MAX_ATTEMPTS};

/// The result of a submitted operation.
pub type Finished = probeline_pipeline::Finished<Outcome>;

/// A map of keys `K` to values in the windows of all owners, over an engine `T`, with storage `S` for operations
/// in flight: see [`SmallMap`] and [`WideSmallMap`]. A value is at most [`Config::max_count`].
///
/// ```
/// use probeline_containers::small_map::{Config, Operation, Outcome, SmallMap};
/// use probeline_shm::Builder;
/// use probeline_transport::Alone;
///
/// let config = Config::for_keys(1000, 42);
/// let engine = Builder::new(config.sizes(1, 32)).open(&mut Alone)?;
/// let mut map = SmallMap::open(engine, config, [Operation::EMPTY; 32], &mut Alone)?;
/// assert_eq!(map.put(7, 20)?, Outcome::New);
/// assert_eq!(map.update(7, |value| value.unwrap_or(0) / 2)?, Outcome::Was(20));
/// let found = map.find_phase(&mut Alone, |finder| finder.find(&7))??;
/// assert_eq!(found, Outcome::Was(10));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub type SmallMapOf<T, S, K> = Container<T, S, Counts<K, true>>;

/// A map of keys of up to 62 bits.
pub type SmallMap<T, S> = SmallMapOf<T, S, u64>;

/// A map of keys of 64 to 126 bits, in two words with its value.
pub type WideSmallMap<T, S> = SmallMapOf<T, S, u128>;

impl<T: Transport, S: AsMut<[Operation]>, K: Key> SmallMapOf<T, S, K> {
    /// Returns the value of a key. One roundtrip: a READ of the line. Where words may tear, outside a
    /// [find phase](Self::find_phase), a key that has a value takes a second one, a fetch-and-add of 0. Blocks
    /// until the operation completes; the transport bounds the wait.
    ///
    /// # Errors
    /// [`Error::Key`] if the key has too many bits; otherwise the operation failed.
    #[inline]
    pub fn get(&mut self, key: K) -> Result<Option<u64>, Error> {
        Ok(self.call(&key, Action::Get)?.number())
    }

    /// Sets the value of a key, and returns the one before. [`Outcome::Full`] says that the key has no room,
    /// and that nothing has changed. Two roundtrips: a READ of the line and a
    /// compare-and-swap, repeated alone when another change was faster. Blocks as [`get`](Self::get) does.
    ///
    /// # Errors
    /// [`Error::Key`] or [`Error::Value`] if the key or the value has too many bits; [`Error::Contended`] if
    /// other changes were faster 64 times; otherwise the operation failed, and may or may not take effect.
    #[inline]
    pub fn put(&mut self, key: K, value: u64) -> Result<Outcome, Error> {
        self.call(&key, Action::Put(value))
    }

    /// Sets the value of a key to `new` if it is `expected`, or if the key has none and `expected` is
    /// `None`. Returns the value before; [`Outcome::is_swapped`] tells whether it has stored `new`. Costs and blocks as [`put`](Self::put) does.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    #[inline]
    pub fn compare_and_swap(
        &mut self,
        key: K,
        expected: Option<u64>,
        new: u64,
    ) -> Result<Outcome, Error> {
        self.call(&key, Action::CompareAndSwap { expected, new })
    }

    /// Sets the value of a key to what `change` makes of the one before, and returns the one before. Calls
    /// `change` again when another change was faster. Takes a [`get`](Self::get), and a
    /// [`compare_and_swap`](Self::compare_and_swap) for each call of `change`.
    ///
    /// # Errors
    /// As for [`put`](Self::put); [`Error::Contended`] after 64 calls of `change`.
    pub fn update(
        &mut self,
        key: K,
        mut change: impl FnMut(Option<u64>) -> u64,
    ) -> Result<Outcome, Error> {
        let mut expected = self.get(key)?;
        for _ in 0..MAX_ATTEMPTS {
            let outcome = self.compare_and_swap(key, expected, change(expected))?;
            if outcome.is_refused() || outcome.is_swapped(expected) {
                return Ok(outcome);
            }
            expected = outcome.number();
        }
        Err(Error::Contended { attempts: MAX_ATTEMPTS })
    }
}
