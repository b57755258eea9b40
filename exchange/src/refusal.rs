//! The reasons for which rank 0 refuses connections, and the number of refusals for each.

use core::fmt;

use crate::limits::HANDSHAKE_LIMIT;

/// The reason for which rank 0 refused a connection without ending the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The peer spoke another protocol.
    Garbage,
    /// The peer did not complete the handshake in time.
    Silent,
    /// The connection was evicted for a newer one before its first message arrived.
    Evicted,
    /// The peer closed the connection during the handshake.
    Closed,
    /// The peer spoke another version of the protocol.
    OtherVersion,
    /// The peer had another secret.
    WrongSecret,
    /// The peer's first message was a copy of an earlier one.
    Replayed,
    /// The peer wanted a rank that has already joined.
    RankTaken,
    /// The peer wanted a rank that does not exist.
    OutOfRange,
}

impl Refusal {
    const ALL: [Self; 9] = [
        Self::Garbage,
        Self::Silent,
        Self::Evicted,
        Self::Closed,
        Self::OtherVersion,
        Self::WrongSecret,
        Self::Replayed,
        Self::RankTaken,
        Self::OutOfRange,
    ];
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Garbage => f.write_str("not a rank of any job"),
            Self::Silent => {
                write!(f, "no complete handshake within {} s", HANDSHAKE_LIMIT.as_secs())
            }
            Self::Evicted => f.write_str("evicted before its first message arrived"),
            Self::Closed => f.write_str("closed during the handshake"),
            Self::OtherVersion => f.write_str("another version"),
            Self::WrongSecret => f.write_str("wrong secret"),
            Self::Replayed => f.write_str("a copy of an earlier first message"),
            Self::RankTaken => f.write_str("a rank that has already joined"),
            Self::OutOfRange => f.write_str("a rank that does not exist"),
        }
    }
}

/// The number of connections that rank 0 refused, for each reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals([u32; Refusal::ALL.len()]);

impl Refusals {
    /// The number of connections refused for `reason`.
    #[must_use]
    pub fn count(&self, reason: Refusal) -> u32 {
        self.0[reason as usize]
    }

    /// The number of all refused connections.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.0.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    pub(crate) fn add(&mut self, reason: Refusal) {
        let count = &mut self.0[reason as usize];
        *count = count.saturating_add(1);
    }
}

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for reason in Refusal::ALL {
            let count = self.count(reason);
            if count > 0 {
                let plural = if count == 1 { "" } else { "s" };
                write!(f, "{separator}{count} connection{plural} refused: {reason}")?;
                separator = "; ";
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_counter_of_its_own() {
        for (index, reason) in Refusal::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
        }
    }
}
