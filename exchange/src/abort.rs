//! The payload of an abort: the error with which a job ended, as bytes for the other ranks.

use probeline_transport::{Call, ExchangeError, Exit, Owner};
use rustix::io::Errno;

/// The encoding of an unknown rank, which is larger than the rank of any job.
const NO_RANK: u32 = u32::MAX;

/// Encodes an error: a code, three numbers, and two calls, which have no names unless the error is that
/// calls differ. An unknown error becomes a protocol error.
pub(crate) fn encode_error(error: ExchangeError) -> Vec<u8> {
    let system = |errno: i32| [4, errno.cast_unsigned(), 0, 0];
    let mut calls = [Call::new(""); 2];
    let words = match error {
        ExchangeError::OwnerLost(owner) => [1, owner.0, 0, 0],
        ExchangeError::TimedOut { after_s, missing } => {
            [2, after_s, missing.map_or(NO_RANK, |owner| owner.0), 0]
        }
        ExchangeError::LengthDiffers { owner, expected, found } => [3, owner.0, expected, found],
        ExchangeError::OwnerExited { owner, exit: Exit::Status(status) } => [5, owner.0, status, 0],
        ExchangeError::OwnerExited { owner, exit: Exit::Signal(signal) } => [6, owner.0, signal, 0],
        ExchangeError::System { errno } => system(errno),
        ExchangeError::CallsDiffer { owner, expected, found } => {
            calls = [expected, found];
            [7, owner.0, 0, 0]
        }
        _ => system(Errno::PROTO.raw_os_error()),
    };
    let calls = calls.map(|call| call.encode());
    [words.map(u32::to_le_bytes).as_flattened(), calls.as_flattened()].concat()
}

/// Decodes an error; `None` if the bytes are not an encoded error.
pub(crate) fn decode_error(bytes: &[u8]) -> Option<ExchangeError> {
    let (words, calls) = bytes.split_first_chunk::<16>()?;
    let ([expected, found], []) = calls.as_chunks() else { return None };
    let [code, first, second, third] = *<&[[u8; 4]; 4]>::try_from(words.as_chunks().0).ok()?;
    let [code, first, second, third] = [code, first, second, third].map(u32::from_le_bytes);
    let owner = Owner(first);
    Some(match code {
        1 => ExchangeError::OwnerLost(owner),
        2 => ExchangeError::TimedOut {
            after_s: first,
            missing: (second != NO_RANK).then_some(Owner(second)),
        },
        3 => ExchangeError::LengthDiffers { owner, expected: second, found: third },
        4 => ExchangeError::System { errno: first.cast_signed() },
        5 => ExchangeError::OwnerExited { owner, exit: Exit::Status(second) },
        6 => ExchangeError::OwnerExited { owner, exit: Exit::Signal(second) },
        7 => {
            let (expected, found) = (Call::decode(expected), Call::decode(found));
            ExchangeError::CallsDiffer { owner, expected, found }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_errors() {
        let owner = Owner(7);
        for error in [
            ExchangeError::OwnerLost(owner),
            ExchangeError::TimedOut { after_s: 600, missing: Some(owner) },
            ExchangeError::TimedOut { after_s: 1, missing: None },
            ExchangeError::LengthDiffers { owner, expected: 8, found: u32::MAX },
            ExchangeError::System { errno: -5 },
            ExchangeError::OwnerExited { owner, exit: Exit::Status(101) },
            ExchangeError::OwnerExited { owner, exit: Exit::Signal(9) },
            ExchangeError::CallsDiffer {
                owner,
                expected: Call::new("barrier").numbered(3),
                found: Call::new("Table::len").with_structure(1).numbered(4),
            },
        ] {
            assert_eq!(decode_error(&encode_error(error)), Some(error));
        }
    }

    #[test]
    fn rejects_other_bytes() {
        for bytes in [&[][..], &[1; 12], &[1; 17], &[9; 16 + 2 * Call::BYTES]] {
            assert_eq!(decode_error(bytes), None, "{bytes:?}");
        }
    }
}
