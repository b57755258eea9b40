//! An `ExchangeError` as bytes, so that all ranks end with the same one.

use probeline_transport::{ExchangeError, Owner};

/// A code and three integers.
const BYTES: usize = 13;

/// `u32::MAX` stands for nobody: no job has so many ranks.
const NOBODY: u32 = u32::MAX;

/// Every reason fits; one that is new to this file arrives as a protocol error.
pub(crate) fn encode(error: ExchangeError) -> [u8; BYTES] {
    let (code, fields) = match error {
        ExchangeError::OwnerLost(owner) => (1, [owner.0, 0, 0]),
        ExchangeError::TimedOut { after_s, missing } => {
            (2, [after_s, missing.map_or(NOBODY, |owner| owner.0), 0])
        }
        ExchangeError::LengthDiffers { owner, expected, found } => (3, [owner.0, expected, found]),
        ExchangeError::System { errno } => (4, [errno.cast_unsigned(), 0, 0]),
        _ => (4, [rustix::io::Errno::PROTO.raw_os_error().cast_unsigned(), 0, 0]),
    };
    let mut bytes = [code; BYTES];
    for (place, field) in bytes[1..].chunks_exact_mut(4).zip(fields) {
        place.copy_from_slice(&field.to_le_bytes());
    }
    bytes
}

/// `None` if the bytes are none.
pub(crate) fn decode(bytes: &[u8]) -> Option<ExchangeError> {
    let [code, fields @ ..] = *<&[u8; BYTES]>::try_from(bytes).ok()?;
    let field = |index: usize| {
        let bytes = fields.get(4 * index..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    };
    let (first, second, third) = (field(0)?, field(1)?, field(2)?);
    Some(match code {
        1 => ExchangeError::OwnerLost(Owner(first)),
        2 => ExchangeError::TimedOut {
            after_s: first,
            missing: (second != NOBODY).then_some(Owner(second)),
        },
        3 => ExchangeError::LengthDiffers { owner: Owner(first), expected: second, found: third },
        4 => ExchangeError::System { errno: first.cast_signed() },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_arrives_as_it_was() {
        let owner = Owner(7);
        for error in [
            ExchangeError::OwnerLost(owner),
            ExchangeError::TimedOut { after_s: 600, missing: Some(owner) },
            ExchangeError::TimedOut { after_s: 1, missing: None },
            ExchangeError::LengthDiffers { owner, expected: 8, found: u32::MAX },
            ExchangeError::System { errno: -5 },
        ] {
            assert_eq!(decode(&encode(error)), Some(error));
        }
    }

    #[test]
    fn other_bytes_are_none() {
        assert_eq!(decode(&[]), None);
        assert_eq!(decode(&[1; 12]), None);
        assert_eq!(decode(&[1; 14]), None);
        assert_eq!(decode(&[9; 13]), None);
    }
}
