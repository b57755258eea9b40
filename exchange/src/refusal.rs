//! The reasons for which rank 0 refuses connections, and the number of refusals for each.

use core::fmt;
use std::collections::BTreeMap;

use crate::limits::HANDSHAKE_LIMIT;

/// The reason for which rank 0 refused a connection without ending the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The peer spoke another protocol.
    #[error("not a rank of any job")]
    Garbage,
    /// The peer did not complete the handshake in time.
    #[error("no complete handshake within {} s", HANDSHAKE_LIMIT.as_secs())]
    Silent,
    /// The connection was evicted for a newer one before its first message arrived.
    #[error("evicted before its first message arrived")]
    Evicted,
    /// The peer closed the connection during the handshake.
    #[error("closed during the handshake")]
    Closed,
    /// The peer spoke the protocol of another build of this library.
    #[error("another build of this library")]
    OtherVersion,
    /// The peer had another secret.
    #[error("wrong secret")]
    WrongSecret,
    /// The peer's first message was a copy of an earlier one.
    #[error("a copy of an earlier first message")]
    Replayed,
    /// The peer wanted a rank that has already joined.
    #[error("a rank that has already joined")]
    RankTaken,
    /// The peer wanted a rank that does not exist.
    #[error("a rank that does not exist")]
    OutOfRange,
}

/// The number of connections that rank 0 refused, for each reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals(BTreeMap<Refusal, u32>);

impl Refusals {
    /// The number of connections refused for `reason`.
    #[must_use]
    pub fn count(&self, reason: Refusal) -> u32 {
        self.0.get(&reason).copied().unwrap_or(0)
    }

    /// The number of all refused connections.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.0.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    pub(crate) fn add(&mut self, reason: Refusal) {
        let count = self.0.entry(reason).or_insert(0);
        *count = count.saturating_add(1);
    }
}

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (reason, count) in &self.0 {
            let plural = if *count == 1 { "" } else { "s" };
            write!(f, "{separator}{count} connection{plural} refused: {reason}")?;
            separator = "; ";
        }
        Ok(())
    }
}
