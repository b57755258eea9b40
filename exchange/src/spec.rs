//! The specification with which a rank joins its job.

use crate::difference::Difference;
use crate::error::JoinError;
use crate::limits::{Limits, MAX_PARAMETERS_BYTES, MAX_RANKS};
use crate::secret::Secret;

/// The specification with which a rank joins its job.
#[derive(Clone, Debug)]
pub(crate) struct JobSpec {
    /// This rank, from 0.
    pub(crate) rank: u32,
    /// The number of ranks.
    pub(crate) size: u32,
    /// Text that all ranks must have in common; see [`Options::parameters`](crate::Options).
    pub(crate) parameters: String,
    pub(crate) secret: Secret,
    pub(crate) limits: Limits,
}

impl JobSpec {
    /// Checks size, rank and length of the parameters.
    pub(crate) fn check(&self) -> Result<(), JoinError> {
        let (rank, size, bytes) = (self.rank, self.size, self.parameters.len());
        if !(1..=MAX_RANKS).contains(&size) {
            return Err(JoinError::Size { size });
        }
        if rank >= size {
            return Err(JoinError::RankOutOfRange { rank, size });
        }
        if bytes > MAX_PARAMETERS_BYTES {
            return Err(JoinError::ParametersTooLong { bytes });
        }
        Ok(())
    }

    /// Returns the payload of a frame that asks for admission or refuses it: rank, size and
    /// parameters.
    pub(crate) fn join_payload(&self) -> Vec<u8> {
        let (rank, size) = (self.rank.to_le_bytes(), self.size.to_le_bytes());
        [&rank[..], &size, self.parameters.as_bytes()].concat()
    }

    /// Compares size and parameters with those of the rank `peer`.
    ///
    /// # Errors
    /// [`JoinError::SizeDiffers`] or [`JoinError::ParametersDiffer`].
    pub(crate) fn compare(&self, peer: u32, size: u32, theirs: &str) -> Result<(), JoinError> {
        if size != self.size {
            return Err(JoinError::SizeDiffers { peer, mine: self.size, theirs: size });
        }
        match Difference::between(&self.parameters, theirs) {
            Some(difference) => Err(JoinError::ParametersDiffer { peer, difference }),
            None => Ok(()),
        }
    }
}

/// Parses a [`JobSpec::join_payload`].
pub(crate) fn parse_join(payload: &[u8]) -> Option<(u32, u32, &str)> {
    let (rank, rest) = payload.split_first_chunk()?;
    let (size, parameters) = rest.split_first_chunk()?;
    let parameters = core::str::from_utf8(parameters).ok()?;
    Some((u32::from_le_bytes(*rank), u32::from_le_bytes(*size), parameters))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_impossible_jobs() {
        let check = |rank, size, bytes| {
            let secret = Secret::new(vec![7; 16]).unwrap();
            let parameters = "x".repeat(bytes);
            JobSpec { rank, size, parameters, secret, limits: Limits::default() }.check()
        };
        assert!(check(0, 1, MAX_PARAMETERS_BYTES).is_ok());
        assert!(check(MAX_RANKS - 1, MAX_RANKS, 0).is_ok());
        assert!(matches!(check(0, 0, 0), Err(JoinError::Size { size: 0 })));
        assert!(matches!(check(0, MAX_RANKS + 1, 0), Err(JoinError::Size { .. })));
        assert!(matches!(check(2, 2, 0), Err(JoinError::RankOutOfRange { rank: 2, size: 2 })));
        let long = check(0, 1, MAX_PARAMETERS_BYTES + 1);
        assert!(matches!(long, Err(JoinError::ParametersTooLong { .. })));
    }
}
