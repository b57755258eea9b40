//! One owner's part in a collective call, and what comes of all parts together.

use std::vec::Vec;

use transport::{ExchangeError, Owner};

/// What one owner has called, and with what.
pub(super) struct Call {
    /// What an all-gather gives; a barrier gives nothing.
    pub(super) mine: Option<Vec<u8>>,
    /// The length of the buffer for everybody's, in bytes.
    pub(super) room: usize,
}

/// What all owners, in their order, get together from their calls.
pub(super) fn gather(calls: &[&Call]) -> Result<Vec<u8>, ExchangeError> {
    let each = calls.first().and_then(|call| call.mine.as_ref()).map(Vec::len);
    let mut gathered = Vec::new();
    for (owner, call) in (0..).map(Owner).zip(calls) {
        match (&call.mine, each) {
            (None, None) => {}
            (Some(mine), Some(each)) => {
                same_length(owner, mine.len(), each)?;
                same_length(owner, call.room, each * calls.len())?;
                gathered.extend_from_slice(mine);
            }
            // One is in a barrier and another in an all-gather: neither will ever be complete.
            _ => return Err(ExchangeError::TimedOut { after_s: 0, missing: Some(owner) }),
        }
    }
    Ok(gathered)
}

fn same_length(owner: Owner, found: usize, expected: usize) -> Result<(), ExchangeError> {
    if found == expected {
        return Ok(());
    }
    let bytes = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
    Err(ExchangeError::LengthDiffers { owner, expected: bytes(expected), found: bytes(found) })
}
