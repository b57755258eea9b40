//! Plain data, which keys, values and elements are: of a type's size or of a size chosen at run time.

use core::fmt;
use core::hash::{Hash, Hasher};

use bytemuck::{Pod, bytes_of, bytes_of_mut, cast_slice_mut};
use probeline_transport::WORD_BYTES;

/// Plain data that structures store: all [`Pod`] types, and [`Bytes`].
///
/// Only the bytes count: two keys are equal if their bytes are. Numbers and arrays of them are plain. A struct of
/// yours is if it derives `Pod`, which the package `bytemuck` provides with its feature `derive`; it has a fixed
/// layout and no padding:
///
/// ```ignore
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C)]
/// struct Entry {
///     count: u32,
///     extensions: [u8; 4],
/// }
/// ```
pub trait Plain: Copy + 'static {
    /// The size in bytes; `None` if the structure's configuration has it.
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

    /// Returns data from the words that begin with it, of this many bytes if the type leaves the size
    /// open. Words beyond the end of `words` are 0.
    #[inline(always)]
    #[must_use]
    fn from_words(words: &mut impl Iterator<Item = u64>, bytes: usize) -> Self {
        let mut data = Self::zeroed(bytes);
        let (whole, rest) = data.bytes_mut().as_chunks_mut::<WORD_BYTES>();
        for to in whole {
            *to = words.next().unwrap_or_default().to_ne_bytes();
        }
        if !rest.is_empty() {
            let last = words.next().unwrap_or_default().to_ne_bytes();
            rest.iter_mut().zip(last).for_each(|(to, byte)| *to = byte);
        }
        data
    }

    /// Returns the bytes of the value, in the order of memory.
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

/// Stores bytes as words, the last word padded with zeros; stops at the end of the words.
#[inline(always)]
pub fn fill_words(bytes: &[u8], words: &mut [u64]) {
    if let Some(last) = words.last_mut() {
        *last = 0;
    }
    let to: &mut [u8] = cast_slice_mut(words);
    let count = bytes.len().min(to.len());
    if let (Some(to), Some(from)) = (to.get_mut(..count), bytes.get(..count)) {
        to.copy_from_slice(from);
    }
}

/// Keys, values or elements whose size is known at run time only, at most `N` bytes, for interfaces to
/// other languages.
///
/// All of one structure have the size that its configuration states. A structure stores no bytes beyond
/// these, so it is the same as one of a type of that size. The bytes are aligned to
/// a `usize`.
///
/// ```
/// use probeline_pipeline::{Bytes, Plain};
///
/// let key = Bytes::<32>::new(b"seven").ok_or("too long")?;
/// assert_eq!(key.bytes(), b"seven");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
// So that the bytes begin where the length ends.
#[repr(C)]
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

impl<const N: usize> Hash for Bytes<N> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.bytes().hash(hasher);
    }
}

impl<const N: usize> fmt::Debug for Bytes<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().fmt(f)
    }
}
