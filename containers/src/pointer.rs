//! Global pointers: elements of any owner's window, as plain values.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

use probeline_pipeline::Plain;
use probeline_transport::{Owner, RemoteWord};

/// Bits of the word's index in a pointer: windows of up to 2^51 bytes.
const INDEX_BITS: u32 = 48;

/// A pointer to an element of type `V` in an owner's window. It is plain data of one word, so that
/// elements, keys and values of other structures can hold it.
///
/// The pointer of zeros points to the first word of owner 0, which may be an element.
pub struct Pointer<V> {
    word: u64,
    to: PhantomData<fn() -> V>,
}

impl<V> Pointer<V> {
    /// Creates a pointer to the element that begins at this word. Returns `None` for an owner beyond
    /// 2^16 or an index beyond 2^48.
    #[must_use]
    pub fn new(at: RemoteWord) -> Option<Self> {
        let owner = u16::try_from(at.owner.0).ok()?;
        let word = u64::from(owner) << INDEX_BITS | at.index;
        (at.index >> INDEX_BITS == 0).then_some(Self { word, to: PhantomData })
    }

    /// Returns the first word of the element.
    #[must_use]
    pub fn word(self) -> RemoteWord {
        let index = self.word & ((1 << INDEX_BITS) - 1);
        // 16 bits are left.
        #[allow(clippy::cast_possible_truncation)]
        let owner = Owner((self.word >> INDEX_BITS) as u32);
        RemoteWord { owner, index }
    }
}

impl<V: 'static> Plain for Pointer<V> {
    const SIZE: Option<usize> = <u64 as Plain>::SIZE;
    const CAPACITY: usize = <u64 as Plain>::CAPACITY;

    fn zeroed(_: usize) -> Self {
        Self { word: 0, to: PhantomData }
    }

    fn bytes(&self) -> &[u8] {
        self.word.bytes()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.word.bytes_mut()
    }
}

impl<V> Clone for Pointer<V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Pointer<V> {}

impl<V> PartialEq for Pointer<V> {
    fn eq(&self, other: &Self) -> bool {
        self.word == other.word
    }
}

impl<V> Eq for Pointer<V> {}

impl<V> Hash for Pointer<V> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.word.hash(hasher);
    }
}

impl<V> fmt::Debug for Pointer<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.word().fmt(f)
    }
}
