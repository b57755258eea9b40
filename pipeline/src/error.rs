//! Errors of the pipeline and of its operations.

use core::fmt;

use probeline_transport::{Fault, OpError, PostError, Transport};
use thiserror::Error as ThisError;

/// The reason why an operation was refused or completed without an outcome. Unless it was refused,
/// it may or may not have taken effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// Refused: all storage for operations is in use.
    #[error("all operations are in use: poll before the next")]
    Busy,
    /// Refused: an acquire, a release or a flush of a region is in progress.
    #[error("an acquire, a release or a flush is in progress: poll the region until it has ended")]
    InProgress,
    /// Refused: the key has more bits than the structure's keys, or another number of bytes.
    #[error(
        "the key has {bits} bits; this structure takes keys of at most {max} bits, or of exactly {max} if keys are \
         bytes: give a key of the configured size, or use a structure for wider keys"
    )]
    Key {
        /// Bits of the key, from the lowest to the highest that is set.
        bits: u32,
        /// Bits of the structure's keys.
        max: u32,
    },
    /// Refused: the value has more bits than the structure's values, or another number of bytes.
    #[error(
        "the value has {bits} bits; this structure takes values of at most {max} bits, or of exactly {max} if values \
         are bytes: give a value of the configured size, or open the structure for values of this size"
    )]
    Value {
        /// Bits of the value, from the lowest to the highest that is set; of bytes, 8 for each.
        bits: u32,
        /// Bits of the structure's values.
        max: u32,
    },
    /// The value cannot be encoded, or the bytes are no value of the type.
    #[error(
        "cannot encode the value, or decode one of this type: use the same type on all ranks, and one \
         whose encoding fits"
    )]
    Encoding,
    /// Refused: the structure has no element of this index.
    #[error("index {index} is beyond the last element: give one below the structure's length")]
    Index {
        /// The index as given.
        index: u64,
    },
    /// Refused: the job has no owner of this number.
    #[error("owner {owner} does not exist: give {}", below(*owners))]
    UnknownOwner {
        /// The number as given.
        owner: u32,
        /// Owners of the job.
        owners: u32,
    },
    /// Refused: the region has no lock of this number.
    #[error("lock {lock} does not exist: give {}, or open the region with more locks", below(*locks))]
    UnknownLock {
        /// The number as given.
        lock: u32,
        /// Locks of the region.
        locks: u32,
    },
    /// Refused: the range ends before it begins.
    #[error("the range from index {start} on ends before it begins: give one that does not")]
    Range {
        /// The first index of the range as given.
        start: u64,
    },
    /// Refused: ranges of one access overlap.
    #[error("ranges of one access overlap: give disjoint ones")]
    Overlap,
    /// Refused: the pages of an access do not fit the mirror together, or are more than can be edited at once.
    #[error(
        "the access needs {needed} pages, and {found} fit: pages with one number modulo mirror_pages displace each \
         other, and a range must not cross a multiple of mirror_pages; split the access, or raise mirror_pages or \
         edited_pages"
    )]
    Pages {
        /// Pages of the access.
        needed: u32,
        /// The most that it can have.
        found: u32,
    },
    /// Refused: the lock is held by this rank and must not be, or must be and is not.
    #[error("lock {lock} is {}", held(*is_held))]
    Lock {
        /// The number of the lock.
        lock: u32,
        /// Whether this rank holds it.
        is_held: bool,
    },
    /// Another rank held the lock at each READ of its word.
    #[error(
        "another rank held the lock at each of {lock_reads} READs of its word: acquire it again, this rank keeps \
         its place"
    )]
    LockWait {
        /// The number of READs.
        lock_reads: u32,
    },
    /// Other operations changed the word before each attempt to change it. Nothing has changed.
    #[error(
        "other operations changed the word before each of {attempts} attempts: try again later"
    )]
    Contended {
        /// The number of attempts.
        attempts: u32,
    },
    /// The push of a ticket has not ended, or had to give up: a pop cannot pass the ticket.
    #[error(
        "the push of ticket {ticket} has not ended: try again later, or skip it if its rank is lost"
    )]
    Unfinished {
        /// The number of the push, counted from 0.
        ticket: u64,
    },
    /// Refused: a phase in which no owner changes the structure has failed here, and may go on elsewhere.
    #[error(
        "a find phase has failed on this rank and may go on elsewhere: see its error, and close the \
         structure"
    )]
    PhaseFailed,
    /// Refused: a barrier of the region has failed, so that it is unknown what has changed.
    #[error(
        "a barrier of the region has failed: see the errors of all ranks, and close the region"
    )]
    BarrierFailed,
    /// Not all messages were delivered, and none can be any more.
    #[error(
        "not all messages were delivered: a rank has failed, has dropped its aggregator or does not \
         flush; see the errors of the other ranks"
    )]
    Undelivered,
    /// One of its one-sided operations failed.
    #[error("a one-sided operation failed, the outcome is unknown: {0}")]
    Failed(#[source] OpError),
    /// The transport did not accept one of its one-sided operations, or refused access to its slots.
    #[error("the transport refused a one-sided operation or its slot: {0}")]
    Post(#[from] PostError),
    /// The machine waits for a completion, and none of its one-sided operations is in flight.
    #[error("the operation waits for a completion and has posted nothing: fix its machine")]
    Idle,
    /// The transport's window is shorter than when the structure was opened: a defect of the
    /// transport.
    #[error("the transport's window has become shorter: this is a defect of the transport")]
    Window,
    /// The transport is dead.
    #[error("the transport is dead: {0}")]
    Fault(#[from] Fault),
    /// The storage for operations has become shorter than when the pipeline was created. Operations
    /// in flight continue when it has its length again, unless it became shorter while a call used
    /// it: then every later call is refused, because a completion was lost.
    #[error("the storage changed from {expected} to {found} operations: keep its length")]
    Storage {
        /// Operations that it stores now.
        found: u32,
        /// Operations that it stored at first.
        expected: u32,
    },
}

/// An invalid configuration, with what is allowed. The call changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum ConfigError {
    /// A parameter is out of its range.
    #[error("{what} is {found}: it must be {}", range(*min, *max))]
    Range {
        /// The name of the parameter.
        what: &'static str,
        /// The value as given.
        found: u64,
        /// The smallest valid value.
        min: u64,
        /// The largest valid value.
        max: u64,
    },
    /// A parameter is not a multiple of a number, or 0 where one is needed.
    #[error("{what} is {found}: it must be a multiple of {of}, such as {}", multiples(*found, *of))]
    Multiple {
        /// The name of the parameter.
        what: &'static str,
        /// The value as given.
        found: u64,
        /// The number.
        of: u64,
    },
    /// One of several parameters of one name is out of its range.
    #[error("{what} {place} (counted from 0) is {found}: it must be {}", range(*min, *max))]
    RangeAt {
        /// The name of the parameters.
        what: &'static str,
        /// The index of the parameter.
        place: usize,
        /// The value as given.
        found: u64,
        /// The smallest valid value.
        min: u64,
        /// The largest valid value.
        max: u64,
    },
    /// A parameter is invalid, or parameters exclude each other. The text says which, and what to
    /// choose.
    #[error("{0}")]
    Invalid(&'static str),
    /// The windows have room for fewer elements.
    #[error("{what} is {found}: {}; open the engine with config.sizes(operations)", room(*max, *words))]
    Room {
        /// The name of the parameter.
        what: &'static str,
        /// The number of elements as given.
        found: u64,
        /// The largest number that fits behind the first word.
        max: u64,
        /// Words of an element.
        words: u64,
    },
    /// The windows are too small.
    #[error(
        "the structure needs {needed} words of each window, which has {found}: open the engine with at least \
         {needed}, as config.sizes(operations) says"
    )]
    Window {
        /// Words that the structure needs, those before its first word included.
        needed: u64,
        /// Words of a window.
        found: u64,
    },
    /// The transport's window is shorter than its geometry states: a defect of the transport.
    #[error(
        "the transport has a window of {found} words, but its geometry says {expected}: this is a \
         defect of the transport"
    )]
    ShortWindow {
        /// Words of the window.
        found: u64,
        /// Words of the window according to the geometry.
        expected: u64,
    },
    /// An element does not fit a slot or a one-sided operation of the transport.
    #[error(
        "an element has {needed} words, a slot or a READ at most {found}: open the engine with \
         config.sizes(operations)"
    )]
    Slot {
        /// Words of an element.
        needed: u64,
        /// The most words here.
        found: u64,
    },
    /// The transport's depth is too small for the posts of one operation.
    #[error(
        "the transport's depth is {found}: at least {min} is needed; open the engine with \
         config.sizes(operations)"
    )]
    Depth {
        /// The transport's depth.
        found: u32,
        /// The smallest depth allowed.
        min: u32,
    },
    /// No storage for operations, or more than the engine has slots for.
    #[error("storage for {found} operations: {}", storage_advice(*found, *max))]
    Operations {
        /// Operations that the storage has.
        found: usize,
        /// The largest number that the engine's slots and the tokens allow.
        max: u32,
    },
}

impl ConfigError {
    /// Checks that a parameter is from `min` to `max`.
    ///
    /// # Errors
    /// [`ConfigError::Range`].
    pub fn check_range(what: &'static str, found: u64, min: u64, max: u64) -> Result<(), Self> {
        let is_valid = (min..=max).contains(&found);
        if is_valid { Ok(()) } else { Err(Self::Range { what, found, min, max }) }
    }

    /// Checks that a parameter is a multiple of `of`.
    ///
    /// # Errors
    /// [`ConfigError::Multiple`].
    pub fn check_multiple(what: &'static str, found: u64, of: u64) -> Result<(), Self> {
        if found.is_multiple_of(of) { Ok(()) } else { Err(Self::Multiple { what, found, of }) }
    }

    /// Checks that windows have this many words, and slots and one-sided operations `slot_words`.
    ///
    /// # Errors
    /// [`ConfigError::Slot`], [`ConfigError::Window`].
    pub fn check_engine(
        transport: &impl Transport,
        window_words: u64,
        slot_words: u32,
    ) -> Result<(), Self> {
        let geometry = transport.geometry();
        let most = geometry.slot_words.min(transport.caps().words_per_op);
        if slot_words > most {
            return Err(Self::Slot { needed: slot_words.into(), found: most.into() });
        }
        let (needed, found) = (window_words, geometry.window_words);
        if needed > found { Err(Self::Window { needed, found }) } else { Ok(()) }
    }

    /// Checks that `found` elements of `words` words fit a part of `room` words.
    ///
    /// # Errors
    /// [`ConfigError::Range`] for none, [`ConfigError::Room`].
    pub fn check_room(what: &'static str, found: u64, words: u64, room: u64) -> Result<(), Self> {
        Self::check_range(what, found, 1, u64::MAX)?;
        let max = room / words.max(1);
        if found <= max { Ok(()) } else { Err(Self::Room { what, found, max, words }) }
    }
}

fn held(is_held: bool) -> &'static str {
    if is_held { "held by this rank: release it first" } else { "not held: acquire it first" }
}

fn below(count: u32) -> impl fmt::Display {
    range(0, count.saturating_sub(1).into())
}

fn range(min: u64, max: u64) -> impl fmt::Display {
    fmt::from_fn(move |f| match max {
        u64::MAX => write!(f, "at least {min}"),
        _ if min == max => write!(f, "{min}"),
        _ => write!(f, "{min} to {max}"),
    })
}

/// Returns the multiples of `of` on both sides of a number, except 0.
fn multiples(found: u64, of: u64) -> impl fmt::Display {
    fmt::from_fn(move |f| {
        let below = found / of * of;
        match (below, below.checked_add(of)) {
            (0, _) => write!(f, "{of}"),
            (below, None) => write!(f, "{below}"),
            (below, Some(above)) => write!(f, "{below} or {above}"),
        }
    })
}

fn room(max: u64, words: u64) -> impl fmt::Display {
    fmt::from_fn(move |f| {
        match max {
            0 => f.write_str("the windows have no room for a single one")?,
            _ => write!(f, "the windows have room for {max}")?,
        }
        if words == 1 { Ok(()) } else { write!(f, " of {words} words") }
    })
}

fn storage_advice(found: usize, max: u32) -> impl fmt::Display {
    fmt::from_fn(move |f| match found {
        0 => f.write_str("pass storage for at least 1"),
        _ => write!(
            f,
            "the engine has slots for {max}; open it with config.sizes({found}), or pass less \
             storage"
        ),
    })
}

/// The error of a batch call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
pub enum BatchError {
    /// The slices differ in length. The call changed nothing.
    #[error("a batch of {keys} keys has {found} {what}: give one for each key")]
    Lengths {
        /// Number of keys.
        keys: usize,
        /// Name of the difference, such as "results".
        what: &'static str,
        /// Elements of the slice.
        found: usize,
    },
    /// The batch stopped early; results that were not stored are unknown.
    #[error("the batch has stopped: {0}")]
    Operation(#[from] Error),
    /// The operation of this key failed, the first key of possibly several, and the results have no
    /// place for errors.
    #[error("key {place} of the batch (counted from 0): {error}")]
    Failed {
        /// The index of its key.
        place: usize,
        /// The reason.
        #[source]
        error: Error,
    },
}

impl BatchError {
    /// Returns the error of a batch whose keys begin at `first` of a longer one.
    #[must_use]
    pub fn shifted_by(self, first: usize) -> Self {
        match self {
            Self::Failed { place, error } => Self::Failed { place: first + place, error },
            other => other,
        }
    }

    /// Returns whether a later call finds the reason again: nothing has changed, or the transport is dead.
    #[must_use]
    pub fn is_found_again(&self) -> bool {
        let (Self::Operation(error) | Self::Failed { error, .. }) = self else { return false };
        matches!(error, Error::Unfinished { .. } | Error::Contended { .. } | Error::Fault(_))
    }

    /// Checks that a slice has one element for each key of a batch.
    ///
    /// # Errors
    /// [`BatchError::Lengths`].
    pub fn check_length(keys: usize, what: &'static str, found: usize) -> Result<(), Self> {
        if keys == found { Ok(()) } else { Err(Self::Lengths { keys, what, found }) }
    }
}

/// The reason why a machine stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The transport has no room for the posts that are due: call
    /// [`Run::advance`](crate::Run::advance) when it has.
    NoRoom,
    /// The operation fails.
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_fits_two_words() {
        assert!(size_of::<Result<Option<bool>, Error>>() <= 16);
    }
}
