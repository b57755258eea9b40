//! Requests and their outcomes.

use crate::hash::hash_of_bytes;
use probeline_pipeline::Plain;

/// A request on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Request<V> {
    /// Read the value.
    Get,
    /// Write the value, over an older one.
    Put(V),
    /// Write the value unless the key has one.
    PutIfAbsent(V),
    /// Write the value over an older one with this hash. Atomic: no other write comes between the
    /// comparison and this write, except in [`Mode::Unlocked`](crate::Mode::Unlocked).
    Replace(V, ValueHash),
    /// Remove the key.
    Remove,
}

/// A hash of a value, which two values share with a probability of 2^-64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValueHash(u64);

impl ValueHash {
    /// Returns the hash of a value.
    #[inline]
    #[must_use]
    pub fn from_value(value: &impl Plain) -> Self {
        Self::from_bytes(value.bytes())
    }

    /// Returns the hash of the value of these bytes.
    #[inline]
    pub(crate) fn from_bytes(value: &[u8]) -> Self {
        Self(hash_of_bytes(value, 0))
    }
}

/// The outcome of a [`Request`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Outcome<V> {
    /// A get has found the key, with this value.
    Hit(V),
    /// A get has not found the key, or has found it being written.
    #[default]
    Miss,
    /// The outcome of any other request.
    Written(Written),
}

/// The outcome of a request that writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Written {
    /// The key and the value are stored in a bucket that had no entry.
    Inserted,
    /// The value has replaced the key's older value.
    Updated,
    /// The key and the value are stored in place of the oldest entry of the key's candidates.
    Evicted,
    /// [`Request::PutIfAbsent`] has found the key, or [`Request::Replace`] has found it with another
    /// value. Nothing has changed.
    Present,
    /// [`Request::Remove`] has removed the key.
    Removed,
    /// [`Request::Remove`] or [`Request::Replace`] has not found the key.
    Absent,
    /// Nothing was stored or removed, because other clients write to the key's candidates, or have
    /// taken the bucket while this client wrote to it. A key that had a value may have lost it.
    Dropped,
}

impl<V> Request<V> {
    /// Returns the value that is to be written.
    #[inline]
    #[must_use]
    pub fn value(&self) -> Option<&V> {
        match self {
            Self::Put(value) | Self::PutIfAbsent(value) | Self::Replace(value, _) => Some(value),
            Self::Get | Self::Remove => None,
        }
    }

    /// Returns the request with another type of value.
    #[inline(always)]
    #[must_use]
    pub fn map<W>(self, value: impl FnOnce(V) -> W) -> Request<W> {
        match self {
            Self::Get => Request::Get,
            Self::Put(of) => Request::Put(value(of)),
            Self::PutIfAbsent(of) => Request::PutIfAbsent(value(of)),
            Self::Replace(of, old) => Request::Replace(value(of), old),
            Self::Remove => Request::Remove,
        }
    }
}

impl<V: Plain> Request<V> {
    /// Returns the request with the bytes of its value.
    #[inline(always)]
    pub(crate) fn as_bytes(&self) -> Request<&[u8]> {
        match self {
            Self::Get => Request::Get,
            Self::Put(value) => Request::Put(value.bytes()),
            Self::PutIfAbsent(value) => Request::PutIfAbsent(value.bytes()),
            Self::Replace(value, old) => Request::Replace(value.bytes(), *old),
            Self::Remove => Request::Remove,
        }
    }
}

impl<V> Outcome<V> {
    /// Returns the outcome with another type of value.
    #[inline(always)]
    pub(crate) fn map<W>(self, value: impl FnOnce(V) -> W) -> Outcome<W> {
        match self {
            Self::Hit(of) => Outcome::Hit(value(of)),
            Self::Miss => Outcome::Miss,
            Self::Written(written) => Outcome::Written(written),
        }
    }

    /// Returns the value of a hit.
    pub fn value(self) -> Option<V> {
        match self {
            Self::Hit(value) => Some(value),
            Self::Miss | Self::Written(_) => None,
        }
    }

    /// Returns what the outcome means for a request that writes: a key that was found is present, and one
    /// that was not is absent.
    pub fn written(self) -> Written {
        match self {
            Self::Written(written) => written,
            Self::Hit(_) => Written::Present,
            Self::Miss => Written::Absent,
        }
    }
}
