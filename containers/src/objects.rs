//! Objects: blobs of different lengths, which other structures refer to by pointers of one word.
//!
//! Each owner's part begins with a counter of the words in use. A put takes words by a fetch-and-add of it,
//! WRITEs a header and the bytes there, and returns a [`Pointer`]. Words are freed by `clear` only.
//!
//! # What a READ may show
//!
//! The words of an object are written once, and nobody knows its pointer before the WRITE has ended. So a READ by
//! the pointer shows the object. The header holds the length and a check of pointer and bytes, which
//! finds out pointers of another structure (but for one in 2^48). A pointer of before a `clear` is that of a new
//! object which has the same words.
//!
//! A put that failed leaves words that no object uses.

mod access;
#[cfg(test)]
mod model;

use core::sync::atomic::Ordering::Acquire;

use probeline_pipeline::{BatchError, Bytes, Error};
use probeline_transport::{Owner, Sizes, Transport, WORD_BYTES};

use self::access::Access;
pub use self::access::{Action, Heap, Outcome};
use crate::batch::run_posted;
use crate::element::{Container, sizes};
use crate::pointer::{MAX_WORDS, Pointer};

/// The most bytes of an object, so that a [`Pointer`] can tell its words.
pub const MAX_BYTES: usize = (MAX_WORDS as usize - 1) * WORD_BYTES;

/// Storage for one operation in flight on objects of at most `N` bytes, such as `[Operation::EMPTY; 32]`.
pub type Operation<const N: usize> = probeline_pipeline::Operation<Access<N>>;
/// The result of a submitted operation.
pub type Finished<const N: usize> = probeline_pipeline::Finished<Outcome<N>>;

/// An object whose bytes are a value of type `V` as postcard encodes it: the target of pointers.
#[cfg(feature = "postcard")]
pub struct Encoded<V>(core::marker::PhantomData<V>);

/// The parameters of objects. All owners give the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Words for the objects of each owner. An object takes one for its header, and its bytes, rounded up.
    pub words: u32,
    /// The first word of each window that the objects use; the next line begins them.
    pub first_word: u64,
}

impl Config {
    /// Returns the configuration for objects in this many words of each window.
    #[must_use]
    pub const fn new(words: u32) -> Self {
        Self { words, first_word: 0 }
    }

    /// Returns the sizes of an engine for objects of at most `N` bytes, with as many operations in flight.
    #[must_use]
    pub fn sizes<const N: usize>(&self, operations: u32) -> Sizes {
        sizes::<Heap<N>>(self, 1, operations)
    }
}

/// Objects of up to `N` bytes, at most [`MAX_BYTES`], in the windows of all owners, over an engine `T`, with
/// storage `S` for operations in flight. `len` counts words in use, not objects.
///
/// ```
/// use probeline_containers::objects::{Config, Objects, Operation};
/// use probeline_pipeline::Plain;
/// use probeline_shm::Builder;
/// use probeline_transport::{Alone, Owner};
///
/// let config = Config::new(10_000);
/// let engine = Builder::new(config.sizes::<100>(8)).open(&mut Alone)?;
/// let mut objects = Objects::<_, _, 100>::open(engine, config, [Operation::EMPTY; 8], &mut Alone)?;
/// let pointer = objects.put(Owner(0), b"any bytes")?.ok_or("full")?;
/// assert_eq!(objects.get(pointer)?.ok_or("no object")?.bytes(), b"any bytes");
///
/// let mut pointers = [None; 2];
/// objects.put_batch(Owner(0), &[b"one", b"another"], &mut pointers)?;
/// let pointers = pointers.map(Option::unwrap_or_default);
/// let mut bytes = 0;
/// objects.get_batch(&pointers, |_, object| bytes += object.map_or(0, |it| it.bytes().len()))?;
/// assert_eq!(bytes, 3 + 7);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub type Objects<T, S, const N: usize> = Container<T, S, Heap<N>>;

impl<T, S, const N: usize> Objects<T, S, N>
where
    T: Transport,
    S: AsMut<[Operation<N>]>,
{
    /// Puts an object into the part of `host`, and returns a pointer to it; `None` if the part is full, or
    /// lies where no [`Pointer`] can point. A put that finds no room takes its words all the same, so that
    /// later puts find none until `clear`. Two roundtrips: a fetch-and-add and a WRITE. Blocks until the
    /// operation completes; the transport bounds the wait.
    ///
    /// # Errors
    /// [`Error::Value`] for more than `N` bytes, [`Error::UnknownOwner`] for an owner that does not exist; otherwise
    /// the operation failed.
    pub fn put(&mut self, host: Owner, bytes: &[u8]) -> Result<Option<Pointer<[u8]>>, Error> {
        Ok(self.call(&host, Action::put(bytes)?)?.pointer())
    }

    /// Puts objects as [`put`](Self::put) does, with as many operations in flight as there is storage for, and stores
    /// their pointers at the same places.
    ///
    /// # Errors
    /// [`BatchError`]: the lengths differ, or an operation failed. Nothing was put if one has more than `N` bytes.
    pub fn put_batch(
        &mut self,
        host: Owner,
        objects: &[&[u8]],
        pointers: &mut [Option<Pointer<[u8]>>],
    ) -> Result<(), BatchError> {
        BatchError::check_length(objects.len(), "pointers", pointers.len())?;
        if let Some((place, bytes)) = objects.iter().enumerate().find(|(_, it)| it.len() > N) {
            return Err(BatchError::Failed { place, error: access::too_long::<N>(bytes) });
        }
        let put = |place: usize| Some((host, Action::put(objects.get(place)?).ok()?));
        run_posted(self, put, |place, outcome| {
            if let Some(to) = pointers.get_mut(place) {
                *to = outcome.pointer();
            }
        })
    }

    /// Returns the bytes of an object by one READ; `None` if the pointer is not of an object that was put
    /// since the last `clear`. Blocks as [`put`](Self::put) does.
    ///
    /// # Errors
    /// [`Error::UnknownOwner`] for a pointer to an owner that the job does not have; otherwise the operation failed.
    pub fn get(&mut self, pointer: Pointer<[u8]>) -> Result<Option<Bytes<N>>, Error> {
        Ok(self.call(&pointer.segment().start.owner, Action::Get(pointer))?.bytes())
    }

    /// Gets objects as [`get`](Self::get) does, with as many operations in flight as there is storage for, and passes
    /// each with the place of its pointer to `store`, in any order.
    ///
    /// # Errors
    /// [`BatchError`]: an operation failed.
    pub fn get_batch(
        &mut self,
        pointers: &[Pointer<[u8]>],
        mut store: impl FnMut(usize, Option<Bytes<N>>),
    ) -> Result<(), BatchError> {
        let get = |place: usize| {
            let pointer = *pointers.get(place)?;
            Some((pointer.segment().start.owner, Action::Get(pointer)))
        };
        run_posted(self, get, |place, outcome| store(place, outcome.bytes()))
    }

    /// Puts a value as [`put`](Self::put) does, as postcard encodes it.
    ///
    /// # Errors
    /// [`Error::Encoding`] if its encoding has more than `N` bytes or postcard cannot encode it; otherwise as
    /// for [`put`](Self::put).
    #[cfg(feature = "postcard")]
    pub fn put_value<V: serde::Serialize>(
        &mut self,
        host: Owner,
        value: &V,
    ) -> Result<Option<Pointer<Encoded<V>>>, Error> {
        let mut buffer = [0; N];
        let bytes = postcard::to_slice(value, &mut buffer).map_err(|_| Error::Encoding)?;
        Ok(self.put(host, bytes)?.map(Pointer::cast))
    }

    /// Returns the value that a pointer refers to, as [`get`](Self::get) does.
    ///
    /// # Errors
    /// [`Error::Encoding`] if the bytes are no value of this type: it must be the type of the put, as the
    /// encoding does not tell types apart.
    #[cfg(feature = "postcard")]
    pub fn get_value<V: serde::de::DeserializeOwned>(
        &mut self,
        pointer: Pointer<Encoded<V>>,
    ) -> Result<Option<V>, Error> {
        use probeline_pipeline::Plain;
        let Some(bytes) = self.get(pointer.cast())? else { return Ok(None) };
        match postcard::take_from_bytes(bytes.bytes()) {
            Ok((value, [])) => Ok(Some(value)),
            Ok(_) | Err(_) => Err(Error::Encoding),
        }
    }

    /// Returns the words in use in this owner's part, those that had no room included.
    #[must_use]
    pub fn local_words(&self) -> u64 {
        self.own_words().first().map_or(0, |word| word.load(Acquire))
    }
}
