//! The arguments of collective calls, and how they combine into a result.

use std::vec::Vec;

use probeline_transport::{ExchangeError, Owner};

/// The kind and the arguments of one owner's collective call.
pub(super) struct Call {
    pub(super) kind: Kind,
    /// The contribution; empty for a barrier.
    pub(super) mine: Vec<u8>,
    /// The length of the result buffer, in bytes.
    pub(super) room: usize,
}

/// The kinds of collective calls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Barrier,
    AllGather,
    AllToAll,
}

/// Concatenates the contributions of all owners to a call, in the order of owners.
pub(super) fn gather(calls: &[&Call]) -> Result<Vec<u8>, ExchangeError> {
    let Some(first) = calls.first() else { return Ok(Vec::new()) };
    let each = first.mine.len();
    let mut gathered = Vec::new();
    for (owner, call) in (0..).map(Owner).zip(calls) {
        if call.kind != first.kind {
            // The owners wait in different calls, so neither call can complete.
            return Err(ExchangeError::TimedOut { after_s: 0, missing: Some(owner) });
        }
        same_length(owner, call.mine.len(), each)?;
        match call.kind {
            Kind::Barrier => {}
            Kind::AllGather => same_length(owner, call.room, each * calls.len())?,
            Kind::AllToAll => {
                same_length(owner, call.room, each)?;
                same_length(owner, each, each / calls.len() * calls.len())?;
            }
        }
        gathered.extend_from_slice(&call.mine);
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
