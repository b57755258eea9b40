//! Lengths and time limits, checked alike by every exchange.

use core::time::Duration;
use std::time::Instant;

use probeline_transport::{ExchangeError, Owner};

/// A limit longer than this is as good as none, and would overflow the clock.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// When `limit` will have passed.
pub(crate) fn deadline(limit: Duration) -> Instant {
    Instant::now() + limit.min(LONGEST)
}

/// Checks that contributions, in the order of owners, are as long as the first.
pub(crate) fn one_length(mut lengths: impl Iterator<Item = usize>) -> Result<(), ExchangeError> {
    let Some(first) = lengths.next() else { return Ok(()) };
    for (owner, length) in (1..).zip(lengths) {
        if length != first {
            let (expected, found) = (saturated(first), saturated(length));
            return Err(ExchangeError::LengthDiffers { owner: Owner(owner), expected, found });
        }
    }
    Ok(())
}

/// Checks that `all` takes `owners` contributions as long as `mine`.
pub(crate) fn result_fits(
    me: Owner,
    owners: u32,
    mine: usize,
    all: usize,
) -> Result<(), ExchangeError> {
    if mine.checked_mul(owners as usize) == Some(all) {
        return Ok(());
    }
    let found = saturated(mine.saturating_mul(owners as usize));
    Err(ExchangeError::LengthDiffers { owner: me, expected: saturated(all), found })
}

/// Checks that `mine` and `theirs` hold a part for each of `owners`. Returns the length of a part.
pub(crate) fn part_bytes(
    me: Owner,
    owners: u32,
    mine: usize,
    theirs: usize,
) -> Result<usize, ExchangeError> {
    let each = mine / owners.max(1) as usize;
    result_fits(me, owners, each, theirs)?;
    result_fits(me, owners, each, mine)?;
    Ok(each)
}

/// A length as errors carry it.
pub(crate) fn saturated(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// A time limit as errors carry it, in whole seconds, rounded up so that a short one is not 0.
pub(crate) fn whole_seconds(limit: Duration) -> u32 {
    u32::try_from(limit.as_millis().div_ceil(1000)).unwrap_or(u32::MAX)
}
