//! Arrays: elements of any plain type, distributed over the owners.
//!
//! # What a READ may show
//!
//! An element is one or more words. Each word changes on its own:
//!
//! - A get returns, for each word of the element, what a put or an atomic has stored there that ended
//!   before the get began, or that ran beside it. While a put runs, one get may return its value and a
//!   later one the older value. Beside a put, an element of several words may be a mixture, and where
//!   [`Caps::word_reads_whole`](probeline_transport::Caps::word_reads_whole) is false a word may be one
//!   too. An element that nobody changes meanwhile is returned as it is.
//! - Atomics act on elements of one word. Each returns the true word before it, and adding 0 reads it
//!   truly beside other atomics. A put beside an atomic on the same element may undo it.
//!
//! So programs change an element by atomics, or by puts of one rank at a time, or separate readers and
//! writers by a barrier.
//!
//! An operation that failed has an unknown outcome: puts, minima and maxima may be repeated, and an add
//! may then count twice.

mod access;
#[cfg(test)]
mod model;
mod word;

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;

use probeline_pipeline::{BatchError, CollectiveError, Distribution, Error, Placement, Plain};
use probeline_transport::{Call, Exchange, Sizes, Term, Transport, store_bytes};

use self::access::Access;
pub use self::access::{Action, Elements};
pub use self::word::{Order, Word};
use crate::element::{Container, MAX_ATTEMPTS, check_value, sizes};
use crate::pointer::Pointer;

/// Storage for one operation in flight, such as `[Operation::EMPTY; 32]`.
pub type Operation<V> = probeline_pipeline::Operation<Access<V>>;
/// The result of a submitted operation.
pub type Finished<V> = probeline_pipeline::Finished<V>;

/// The parameters of an array. All owners give the same, but for `direct`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Elements of the whole array, 1 to 2^48.
    pub len: u64,
    /// The owner of each element.
    pub distribution: Distribution,
    /// The first word of each window that the array uses.
    pub first_word: u64,
    /// Bytes of an element, if its type leaves the size open.
    pub element_bytes: usize,
    /// Whether this owner's CPU may access elements itself. It does if all owners allow it and reach all
    /// words.
    pub direct: bool,
}

impl Config {
    /// Returns the configuration of an array of `len` elements, in blocks.
    #[must_use]
    pub const fn new(len: u64) -> Self {
        let distribution = Distribution::Block;
        Self { len, distribution, first_word: 0, element_bytes: 0, direct: true }
    }

    /// Returns the sizes of an engine for this array of `V` in a job of this many owners, with as many
    /// operations in flight.
    #[must_use]
    pub fn sizes<V: Plain>(&self, owners: u32, operations: u32) -> Sizes {
        sizes::<Elements<V>>(self, owners, operations)
    }

    pub(crate) fn bytes<V: Plain>(&self) -> usize {
        V::SIZE.unwrap_or(self.element_bytes)
    }
}

/// Elements of type `V` in the windows of all owners, all zero at first, over an engine `T`, with storage
/// `S` for operations in flight.
///
/// ```
/// use probeline_containers::array::{Array, Config, Operation};
/// use probeline_shm::Builder;
/// use probeline_transport::Alone;
///
/// let config = Config::new(1000);
/// let engine = Builder::new(config.sizes::<u64>(1, 32)).open(&mut Alone)?;
/// let mut array = Array::open(engine, config, [Operation::EMPTY; 32], &mut Alone)?;
///
/// array.put(7, &40)?;
/// assert_eq!(array.fetch_add(7, 2)?, 40);
/// array.add_batch(&[1, 7, 1], &[1, 1, 1])?;
/// let mut values = [0; 2];
/// array.gather(&[1, 7], &mut values)?;
/// assert_eq!(values, [2, 43]);
/// assert_eq!(array.sum(&mut Alone)?, 45);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub type Array<T, S, V> = Container<T, S, Elements<V>>;

impl<T, S, V> Array<T, S, V>
where
    T: Transport,
    S: AsMut<[Operation<V>]>,
    V: Plain,
{
    /// Returns the number of elements.
    #[inline]
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "it is at least 1")]
    pub fn len(&self) -> u64 {
        self.placement().len()
    }

    /// Returns where the elements are.
    #[inline]
    #[must_use]
    pub fn placement(&self) -> &Placement {
        &self.context().placement
    }

    /// Returns a pointer to an element; `None` beyond the last one, or where no [`Pointer`] can point.
    #[must_use]
    pub fn pointer(&self, index: u64) -> Option<Pointer<V>> {
        Pointer::new(self.placement().segment(index)?)
    }

    /// Returns the index of the element that a pointer points to; `None` if it is not in this array.
    #[must_use]
    pub fn index(&self, pointer: Pointer<V>) -> Option<u64> {
        let at = pointer.segment();
        self.placement().index(at.start).filter(|_| at.words == self.placement().words())
    }

    /// Returns an element. Blocks until the operation completes; the transport bounds the wait.
    ///
    /// # Errors
    /// [`Error::Index`] beyond the last element; otherwise the operation failed.
    #[inline]
    pub fn get(&mut self, index: u64) -> Result<V, Error> {
        self.call(&index, Action::Get)
    }

    /// Stores an element. Blocks as [`get`](Self::get) does.
    ///
    /// # Errors
    /// [`Error::Value`] if the value has another size than [`Config::element_bytes`]; otherwise as for
    /// [`get`](Self::get). Unless it was refused, it is unknown whether the value is or will be stored.
    #[inline]
    pub fn put(&mut self, index: u64, value: &V) -> Result<(), Error> {
        self.call(&index, Action::Put(*value)).map(drop)
    }

    /// Gets the element at each index and stores it at the same place of `values`, with as many operations
    /// in flight as there is storage for; where the CPU does it, their cache misses overlap.
    ///
    /// # Errors
    /// [`BatchError`]: the lengths differ, or an operation failed.
    pub fn gather(&mut self, indices: &[u64], values: &mut [V]) -> Result<(), BatchError> {
        self.run_into(indices, |_| Some(Action::Get), ("values", values), |value| value)
    }

    /// Stores each of `values` at the index at the same place. Of an index that occurs twice, either value
    /// remains.
    ///
    /// # Errors
    /// As for [`gather`](Self::gather).
    pub fn scatter(&mut self, indices: &[u64], values: &[V]) -> Result<(), BatchError> {
        BatchError::check_length(indices.len(), "values", values.len())?;
        self.run_all(indices, |place| values.get(place).copied().map(Action::Put), |_, _| ())
    }

    /// Returns this owner's elements with their indices, as they are at the moment of each load.
    pub fn local(&self) -> impl Iterator<Item = (u64, V)> + '_ {
        let (placement, bytes) = (*self.placement(), self.config().bytes::<V>());
        let words = self.local_elements();
        let load = move |element: &[AtomicU64]| {
            V::from_words(&mut element.iter().map(|word| word.load(Acquire)), bytes)
        };
        placement.indices(self.transport().geometry().me).zip(words.map(load))
    }

    /// Returns the words of this owner's part. Stores are visible to peers at the next barrier, or at
    /// once where [`is_direct`](Self::is_direct).
    #[must_use]
    pub fn local_words(&self) -> &[AtomicU64] {
        self.own_words()
    }

    fn local_elements(&self) -> impl Iterator<Item = &[AtomicU64]> {
        self.local_words().chunks_exact(self.placement().words().max(1) as usize)
    }

    /// Returns whether the CPUs of all owners access elements themselves.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.context().is_direct
    }

    /// Stores a value in all elements. Collective.
    ///
    /// # Errors
    /// [`CollectiveError`], after which the content is undefined.
    pub fn fill(
        &mut self,
        value: &V,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<(), CollectiveError> {
        let mut call = self.collective(exchange, "fill")?;
        let checked = check_value(value, self.context().detail);
        if checked.is_ok() {
            self.local_elements().for_each(|element| store_bytes(value.bytes(), element));
        }
        call.together(checked.map_err(CollectiveError::from))
    }
}

impl<T, S, V> Array<T, S, V>
where
    T: Transport,
    S: AsMut<[Operation<V>]>,
    V: Word,
{
    /// Adds to an element, and returns it as it was. Integers wrap around. Blocks as [`get`](Self::get)
    /// does.
    ///
    /// # Errors
    /// As for [`get`](Self::get). Unless it was refused, it is unknown whether the element has changed or
    /// will change.
    #[inline]
    pub fn fetch_add(&mut self, index: u64, addend: V) -> Result<V, Error>
    where
        V: word::Add,
    {
        self.call(&index, Action::Add(addend.to_word()))
    }

    /// Stores `new` if the element is `expected`. Returns the element as it was. Compares the bits.
    ///
    /// # Errors
    /// As for [`fetch_add`](Self::fetch_add).
    #[inline]
    pub fn compare_and_swap(&mut self, index: u64, expected: V, new: V) -> Result<V, Error> {
        let (expected, new) = (expected.to_word(), new.to_word());
        self.call(&index, Action::CompareAndSwap { expected, new })
    }

    /// Stores `value` if the element is larger. Returns the element as it was.
    ///
    /// # Errors
    /// As for [`fetch_add`](Self::fetch_add), and [`Error::Contended`] if other operations changed the
    /// element before each of 64 attempts; nothing has changed then.
    #[inline]
    pub fn fetch_min(&mut self, index: u64, value: V) -> Result<V, Error> {
        self.call(&index, Action::Min(value.to_word(), V::ORDER))
    }

    /// Stores `value` if the element is smaller. Returns the element as it was.
    ///
    /// # Errors
    /// As for [`fetch_min`](Self::fetch_min).
    #[inline]
    pub fn fetch_max(&mut self, index: u64, value: V) -> Result<V, Error> {
        self.call(&index, Action::Max(value.to_word(), V::ORDER))
    }

    /// Replaces an element by what `change` returns for it, which may be called several times. Returns the
    /// element as it was.
    ///
    /// # Errors
    /// As for [`fetch_min`](Self::fetch_min).
    pub fn update(&mut self, index: u64, change: impl Fn(V) -> V) -> Result<V, Error> {
        let mut expected = self.get(index)?;
        for _ in 0..MAX_ATTEMPTS {
            let found = self.compare_and_swap(index, expected, change(expected))?;
            if found.to_word() == expected.to_word() {
                return Ok(found);
            }
            expected = found;
        }
        Err(Error::Contended { attempts: MAX_ATTEMPTS })
    }

    /// Adds each of `addends` to the element at the index at the same place.
    ///
    /// # Errors
    /// As for [`gather`](Self::gather).
    pub fn add_batch(&mut self, indices: &[u64], addends: &[V]) -> Result<(), BatchError>
    where
        V: word::Add,
    {
        BatchError::check_length(indices.len(), "addends", addends.len())?;
        let add = |place: usize| addends.get(place).map(|addend| Action::Add(addend.to_word()));
        self.run_all(indices, add, |_, _| ())
    }

    /// Returns the smallest element. Collective.
    ///
    /// # Errors
    /// [`CollectiveError`]: a rank is lost or in another call, or its part failed.
    pub fn min(&mut self, exchange: &mut (impl Exchange + ?Sized)) -> Result<V, CollectiveError> {
        self.extreme(exchange, "min", u64::MAX)
    }

    /// Returns the largest element. Collective.
    ///
    /// # Errors
    /// [`CollectiveError`]: a rank is lost or in another call, or its part failed.
    pub fn max(&mut self, exchange: &mut (impl Exchange + ?Sized)) -> Result<V, CollectiveError> {
        self.extreme(exchange, "max", 0)
    }

    /// Returns the element whose rank, with these bits inverted, is the largest.
    fn extreme(
        &mut self,
        exchange: &mut (impl Exchange + ?Sized),
        name: &str,
        inverted: u64,
    ) -> Result<V, CollectiveError> {
        let mut call = self.collective(exchange, name)?;
        let ranks = self.local().map(|(_, value)| V::ORDER.rank(value.to_word()) ^ inverted);
        let mut term = [Term::Max(ranks.max().unwrap_or(0))];
        call.exchange().reduce(Call::method("Array", name), &mut term)?;
        Ok(V::from_word(V::ORDER.word_of(term[0].value() ^ inverted)))
    }
}

impl<T, S> Array<T, S, u64>
where
    T: Transport,
    S: AsMut<[Operation<u64>]>,
{
    /// Returns the sum of all elements, at most `u64::MAX`. Collective.
    ///
    /// # Errors
    /// [`CollectiveError`]: a rank is lost or in another call, or its part failed.
    pub fn sum(&mut self, exchange: &mut (impl Exchange + ?Sized)) -> Result<u64, CollectiveError> {
        let mut call = self.collective(exchange, "sum")?;
        call.sum(Ok(self.local().fold(0, |sum: u64, (_, value)| sum.saturating_add(value))))
    }
}
