//! Errors of configurations, operations and collective calls.

use core::fmt;

use probeline_pipeline::CollectiveError;
pub use probeline_pipeline::{BatchError, Error as OperationError};
use probeline_transport::Owner;
use thiserror::Error;

use crate::layout::LINE_BUCKETS;

/// An invalid configuration, with the allowed range. The call changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// C is not a multiple of 8, or exceeds a part, a slot or the largest READ.
    #[error(
        "chunk_buckets (C) is {found}: it must be a multiple of 8, from 8 to {most} with these parts, \
         slots and READs"
    )]
    ChunkBuckets {
        /// C as given.
        found: u32,
        /// The largest C here.
        most: u32,
    },
    /// `Probing::Jump` needs a C of 8, the buckets of one line.
    #[error("chunk_buckets (C) is {found}: it must be 8 with Probing::Jump")]
    JumpChunk {
        /// C as given.
        found: u32,
    },
    /// The table does not start on a cache line.
    #[error("first_word is {found}: it must be a multiple of 8")]
    FirstWord {
        /// The word as given.
        found: u64,
    },
    /// The transport's window is shorter than its geometry states: a defect of the transport.
    #[error(
        "the transport has a window of {found} words, but its geometry says {expected}: this is a \
         defect of the transport"
    )]
    Window {
        /// Words of the window.
        found: u64,
        /// Words of the window according to the geometry.
        expected: u64,
    },
    /// The number of buckets is 0, not a multiple of 8, or too large for the windows.
    #[error("buckets_per_owner is {found}: {}", buckets_advice(*found, *most))]
    Buckets {
        /// Buckets in each part, as given.
        found: u64,
        /// The largest number that fits behind the first word.
        most: u64,
    },
    /// A case that other structures have as well.
    #[error(transparent)]
    Common(#[from] probeline_pipeline::ConfigError),
    /// A wide table cannot claim a bucket along with the first READ.
    #[error(
        "one_roundtrip must be Off for wide keys: a bucket is claimed only after the key was written"
    )]
    WideOneRoundtrip,
    /// A wide key has no words, or more than a slot or an operation of the transport.
    #[error(
        "keys of {found} words: 1 to {most} are allowed with these slots and READs; open the engine \
         with config.sizes(operations)"
    )]
    EntryWords {
        /// Words of a key.
        found: usize,
        /// The most words here.
        most: u32,
    },
    /// References to this many entries leave too few bits of a bucket's word to the tag.
    #[error(
        "the references to entries leave {found} bits to the tag, at least {least} are needed: \
         lower entries_per_owner"
    )]
    Tag {
        /// Bits left.
        found: u32,
        /// The fewest bits.
        least: u32,
    },
    /// A tree table has more buckets than its references tell apart.
    #[error(
        "the table has {found} buckets on all owners together: references of 31 bits to them allow \
         {most}; lower buckets_per_owner, or use a WideTable"
    )]
    References {
        /// Buckets of all owners.
        found: u64,
        /// The most buckets.
        most: u64,
    },
    /// There are no entries, or the windows are too small for them.
    #[error("entries_per_owner is {found}: {}", entries_advice(*found, *words, *room))]
    Entries {
        /// Entries in each part, as given.
        found: u64,
        /// Words of each window that the table takes with them.
        words: u64,
        /// Words that there are.
        room: u64,
    },
    /// The transport's depth is too small for the two READs of a chunk that straddles two parts.
    #[error(
        "the transport's depth is {found}: at least 2 is needed; open the engine with \
         config.sizes(operations)"
    )]
    Depth {
        /// The transport's depth.
        found: u32,
    },
}

/// Advice about a number of buckets that the windows do not hold.
fn buckets_advice(found: u64, most: u64) -> impl fmt::Display {
    fmt::from_fn(move |f| {
        let line = u64::from(LINE_BUCKETS);
        let below = found / line * line;
        match (below, below.checked_add(line)) {
            (0, _) => write!(f, "it must be a multiple of 8, such as 8"),
            (below, _) if below == found => write!(
                f,
                "the windows have room for {most}; open the engine with config.sizes(operations)"
            ),
            (below, None) => write!(f, "it must be a multiple of 8, such as {below}"),
            (below, Some(above)) => {
                write!(f, "it must be a multiple of 8, such as {below} or {above}")
            }
        }
    })
}

/// Advice about a number of entries that the windows do not hold.
fn entries_advice(found: u64, words: u64, room: u64) -> impl fmt::Display {
    fmt::from_fn(move |f| match found {
        0 => f.write_str("it must be at least 1"),
        _ => write!(
            f,
            "with them the table takes {words} words of each window, which has {room} for it; \
             open the engine with config.sizes(operations)"
        ),
    })
}

/// The reason why the keys of a table were not moved into a larger one.
///
/// The table still has all of its keys. The content of the target is undefined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GrowError {
    /// The target has no room for all keys. All owners return this error.
    #[error("the target is full, and {left} keys were not moved: open a larger table")]
    Full {
        /// Keys of the whole table that owners had not moved when they found it full.
        left: u64,
    },
    /// An owner asked to stop. All owners return this error.
    #[error("the move of the keys was stopped before its end")]
    Stopped,
    /// The target holds other keys than those of the table, or an owner's part changed during the
    /// call. All owners return an error.
    #[error(
        "the target holds {held} keys after {keys} were moved: open an empty target, and let no \
         client use the tables during the call"
    )]
    Differs {
        /// Keys of the table.
        keys: u64,
        /// Keys of the target.
        held: u64,
    },
    /// The engines of the tables belong to different jobs, or number their owners in different ways.
    #[error(
        "this process is {me} of {owners} in the table, but {target_me} of {target_owners} in the \
         target: open both with the same exchange"
    )]
    Job {
        /// This process in the table.
        me: Owner,
        /// Owners of the table.
        owners: u32,
        /// This process in the target.
        target_me: Owner,
        /// Owners of the target.
        target_owners: u32,
    },
    /// A collective call of the growth failed, or this owner's part of it.
    #[error("cannot move the keys: {0}")]
    Collective(#[from] CollectiveError),
}

impl From<OperationError> for GrowError {
    fn from(error: OperationError) -> Self {
        Self::Collective(error.into())
    }
}

/// The reason why a table was not opened.
pub type OpenError<C = ConfigError> = probeline_pipeline::OpenError<C>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;

    #[test]
    fn a_result_is_two_words() {
        assert!(size_of::<Result<Outcome, OperationError>>() <= 16);
    }
}
