//! Global pointers: elements of any owner's window, as plain values.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

use probeline_pipeline::Plain;
use probeline_transport::{Owner, RemoteWord, Segment};

/// Bits of the first word's index in a pointer: windows of up to 2^39 bytes.
const INDEX_BITS: u32 = 36;
/// The largest index of a word to which a pointer can point.
pub(crate) const MAX_INDEX: u64 = (1 << INDEX_BITS) - 1;
/// Bits of the number of words, above the index. The owner has the 16 bits above them.
const WORDS_BITS: u32 = 12;
/// The most words to which a pointer can point.
pub(crate) const MAX_WORDS: u32 = (1 << WORDS_BITS) - 1;

/// A pointer to words of an owner's window, which hold a `V`. It is plain data of one word, so that
/// elements, keys and values of other structures can hold it.
///
/// The pointer of zeros points to no words. A value of several fields holds a pointer as its
/// [`word`](Self::word).
///
/// ```
/// use probeline_containers::Pointer;
/// use probeline_transport::{Owner, RemoteWord, Segment};
///
/// let start = RemoteWord { owner: Owner(1), index: 64 };
/// let pointer = Pointer::<[u64; 2]>::new(Segment { start, words: 2 }).unwrap();
/// assert_eq!(pointer.segment(), Segment { start, words: 2 });
/// ```
pub struct Pointer<V: ?Sized> {
    word: u64,
    to: PhantomData<fn() -> PhantomData<V>>,
}

impl<V: ?Sized> Pointer<V> {
    /// Creates a pointer to these words. Returns `None` for an owner beyond 2^16, an index beyond 2^36 or
    /// more than 4,095 words.
    #[must_use]
    pub fn new(at: Segment) -> Option<Self> {
        let owner = u64::from(u16::try_from(at.start.owner.0).ok()?);
        let is_valid = at.start.index >> INDEX_BITS == 0 && at.words <= MAX_WORDS;
        let words = owner << WORDS_BITS | u64::from(at.words);
        is_valid.then_some(Self { word: words << INDEX_BITS | at.start.index, to: PhantomData })
    }

    /// Returns the words.
    #[must_use]
    // Each field is cut out by its width.
    #[allow(clippy::cast_possible_truncation)]
    pub fn segment(self) -> Segment {
        let index = self.word & MAX_INDEX;
        let owner = Owner((self.word >> (INDEX_BITS + WORDS_BITS)) as u32);
        let words = (self.word >> INDEX_BITS) as u32 & MAX_WORDS;
        Segment { start: RemoteWord { owner, index }, words }
    }

    /// Returns the pointer as a number.
    #[must_use]
    pub fn word(self) -> u64 {
        self.word
    }

    /// Returns the pointer that [`word`](Self::word) returned as a number.
    #[must_use]
    pub const fn from_word(word: u64) -> Self {
        Self { word, to: PhantomData }
    }

    /// Returns the pointer as one to another type in the same words.
    #[must_use]
    pub fn cast<W: ?Sized>(self) -> Pointer<W> {
        Pointer::from_word(self.word)
    }
}

impl<V: ?Sized + 'static> Plain for Pointer<V> {
    const SIZE: Option<usize> = <u64 as Plain>::SIZE;
    const CAPACITY: usize = <u64 as Plain>::CAPACITY;

    fn zeroed(_: usize) -> Self {
        Self::default()
    }

    fn bytes(&self) -> &[u8] {
        self.word.bytes()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.word.bytes_mut()
    }
}

impl<V: ?Sized> Default for Pointer<V> {
    /// Returns the pointer of zeros.
    fn default() -> Self {
        Self::from_word(0)
    }
}

impl<V: ?Sized> Clone for Pointer<V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V: ?Sized> Copy for Pointer<V> {}

impl<V: ?Sized> PartialEq for Pointer<V> {
    fn eq(&self, other: &Self) -> bool {
        self.word == other.word
    }
}

impl<V: ?Sized> Eq for Pointer<V> {}

impl<V: ?Sized> Hash for Pointer<V> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.word.hash(hasher);
    }
}

impl<V: ?Sized> fmt::Debug for Pointer<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.segment().fmt(f)
    }
}
