//! Synchronization of clients that access the same bucket: by the map's own claims, and for
//! comparison in the three ways of a published cache.

use core::fmt;

use probeline_transport::Owner;

use crate::control::{Control, State};

/// Synchronization of clients that access the same bucket.
///
/// All modes have the same buckets, candidates, ages and a check, so a hit never returns a wrong value.
/// Except for [`Claims`](Self::Claims) they are those of M. Lübke et al., *A Distributed Hash Table for
/// MPI* (2025), and exist for comparison: the CPU does not run their requests itself, and a client
/// that dies or fails while it holds a lock keeps it. Each wait for a lock ends after
/// [`Config::lock_attempts`](crate::Config::lock_attempts): a get then misses, any other request ends
/// as [`Written::Dropped`](crate::Written::Dropped), and
/// [`Map::held_lock`](crate::Map::held_lock) names the holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A client that writes claims the bucket; a client that reads changes nothing. No request waits
    /// for a client that has died. A get takes 1 roundtrip, a put 3 or 4.
    #[default]
    Claims,
    /// A lock for each owner's part, shared by clients that read and exclusive for a client that
    /// writes: "coarse-grained". A get takes 3 roundtrips, a put 4.
    PartLocks,
    /// A lock for each bucket, its control word: "fine-grained". A get takes 3 roundtrips, a put 4.
    /// Checks have 40 bits, because 16 bits of the control word count the gets that read the bucket: at
    /// most 65,535 of all owners may be in flight.
    BucketLocks,
    /// No lock: a put overwrites the bucket, and the check tells whether an entry is whole:
    /// "lock-free". A get takes 1 roundtrip, a put 2. Of two puts of different keys into one bucket
    /// at the same time one is lost, or both; puts of one key may leave it in two buckets, and a get
    /// then may return the older value.
    Unlocked,
}

/// The bits of a control word that count the readers of a bucket with a lock.
const READERS: u64 = (1 << 16) - 1;
/// While a client holds a part's lock to write, the bits from this one on are its rank plus 1.
/// Lower bits count the clients that hold it to read.
const WRITER_SHIFT: u32 = 32;

impl Mode {
    /// Returns whether a put overwrites a bucket that it has not claimed.
    pub(crate) fn overwrites(self) -> bool {
        matches!(self, Self::PartLocks | Self::Unlocked)
    }

    /// Returns whether requests wait for locks.
    pub(crate) fn locks(self) -> bool {
        matches!(self, Self::PartLocks | Self::BucketLocks)
    }

    /// Returns the control word without the readers that it counts.
    #[inline]
    pub(crate) fn control(self, word: u64) -> Control {
        Control(word & self.counts())
    }

    /// Returns the word that drops the entry or the claim of a control word. It leaves the bits that
    /// count readers.
    #[inline]
    pub(crate) fn dropped(self, control: Control) -> Control {
        control.dropped(self.counts())
    }

    /// Returns the bits of a check that a control word has room for.
    #[inline]
    pub(crate) fn counts(self) -> u64 {
        if self == Self::BucketLocks { !READERS } else { u64::MAX }
    }
}

/// Returns the word of a part's lock that this client holds to write.
pub(crate) fn written_by(me: u32) -> u64 {
    (u64::from(me) + 1) << WRITER_SHIFT
}

/// Returns the client that writes, by the word of a part's lock.
pub(crate) fn writer_of_part(word: u64) -> Option<Owner> {
    // A rank.
    #[allow(clippy::cast_possible_truncation)]
    ((word >> WRITER_SHIFT) as u32).checked_sub(1).map(Owner)
}

/// Returns the client that writes, by a bucket's control word.
pub(crate) fn writer_of_bucket(control: Control) -> Option<Owner> {
    (control.state() == State::Claimed).then(|| Owner(control.rank()))
}

/// A lock that a request did not get: its holder died or failed while it had the lock, or is very
/// slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLock {
    /// The owner of the part that the lock protects, or that has the bucket.
    pub part: Owner,
    /// The client that holds it to write. `None` if clients hold it to read: it only counts those.
    pub holder: Option<Owner>,
}

impl fmt::Display for HeldLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, holder } = self;
        write!(f, "a lock in the part of {part} stayed locked by ")?;
        match holder {
            Some(holder) => write!(f, "{holder}, which writes")?,
            None => write!(f, "clients that read")?,
        }
        write!(
            f,
            " and may have died: clear the map, or open it with Mode::Claims, which survives it"
        )
    }
}
