//! What keys and values are: plain data, of a type's size or of a size chosen at run time.

use core::fmt;

use bytemuck::{Pod, bytes_of, bytes_of_mut};

/// Plain data that is a key or a value of a map: all [`Pod`] types, and [`Bytes`].
///
/// The bytes are all that counts: two keys are equal if their bytes are.
pub trait Plain: Copy + 'static {
    /// The size in bytes; `None` if the map's configuration has it.
    const SIZE: Option<usize>;
    /// The largest size in bytes.
    const CAPACITY: usize;

    /// Returns data of zeros, of this many bytes if the type leaves the size open; at most
    /// [`CAPACITY`](Self::CAPACITY).
    fn zeroed(bytes: usize) -> Self;

    /// Returns data of these bytes, at most [`CAPACITY`](Self::CAPACITY); as many as the type has, if
    /// it has a size.
    #[inline(always)]
    #[must_use]
    fn from_bytes(bytes: &[u8]) -> Self {
        let mut data = Self::zeroed(bytes.len());
        let to = data.bytes_mut();
        let len = to.len().min(bytes.len());
        if let (Some(to), Some(from)) = (to.get_mut(..len), bytes.get(..len)) {
            to.copy_from_slice(from);
        }
        data
    }

    /// Returns the bytes.
    fn bytes(&self) -> &[u8];

    /// Returns the bytes, to change them.
    fn bytes_mut(&mut self) -> &mut [u8];
}

impl<P: Pod> Plain for P {
    const SIZE: Option<usize> = Some(size_of::<P>());
    const CAPACITY: usize = size_of::<P>();

    #[inline(always)]
    fn zeroed(_: usize) -> Self {
        <P as bytemuck::Zeroable>::zeroed()
    }

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        bytes_of(self)
    }

    #[inline(always)]
    fn bytes_mut(&mut self) -> &mut [u8] {
        bytes_of_mut(self)
    }
}

/// Returns the bytes of a `P`. If the type has a size, the compiler then knows it.
#[inline(always)]
pub(crate) fn sized<P: Plain>(bytes: &[u8]) -> &[u8] {
    match P::SIZE {
        Some(size) => bytes.get(..size).unwrap_or_default(),
        None => bytes,
    }
}

/// As [`sized`], to change the bytes.
#[inline(always)]
pub(crate) fn sized_mut<P: Plain>(bytes: &mut [u8]) -> &mut [u8] {
    match P::SIZE {
        Some(size) => bytes.get_mut(..size).unwrap_or_default(),
        None => bytes,
    }
}

/// Keys or values whose size is known at run time only, at most `N` bytes, for interfaces to other
/// languages.
///
/// All keys of a map have [`Config::key_bytes`](crate::Config::key_bytes) bytes, all values
/// [`Config::value_bytes`](crate::Config::value_bytes). A bucket has no bytes beyond these, so the
/// map is the one of a type of that size.
///
/// ```
/// use probeline_map::{Bytes, Config, Map, Operation};
/// use probeline_shm::Builder;
/// use probeline_transport::Alone;
///
/// type Key = Bytes<32>;
/// let config = Config { key_bytes: 5, value_bytes: 3, ..Config::for_entries(100, 1) };
/// let engine = Builder::new(config.sizes::<Key, Key>(8)).open(&mut Alone)?;
/// let mut map = Map::open(engine, config, [Operation::EMPTY; 8], &mut Alone)?;
/// let (key, value) = (Key::new(b"seven").ok_or("too long")?, Key::new(b"VII").ok_or("too long")?);
/// map.put(&key, &value)?;
/// assert_eq!(map.get(&key)?, Some(value));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Bytes<const N: usize> {
    /// At most N.
    len: usize,
    bytes: [u8; N],
}

impl<const N: usize> Bytes<N> {
    /// Returns a copy of `bytes`, or `None` if there are more than `N`.
    #[inline]
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut copy = Self { len: bytes.len(), bytes: [0; N] };
        copy.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(copy)
    }
}

impl<const N: usize> Plain for Bytes<N> {
    const SIZE: Option<usize> = None;
    const CAPACITY: usize = N;

    #[inline]
    fn zeroed(bytes: usize) -> Self {
        debug_assert!(bytes <= N, "the configuration was checked");
        Self { len: bytes.min(N), bytes: [0; N] }
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(..self.len).unwrap_or_default()
    }
}

impl<const N: usize> PartialEq for Bytes<N> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl<const N: usize> Eq for Bytes<N> {}

impl<const N: usize> fmt::Debug for Bytes<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().fmt(f)
    }
}
