//! The limits of a job on ranks, bytes and times, and the checks of lengths that all exchanges
//! share.

use core::time::Duration;
use std::time::Instant;

use probeline_transport::{Exchange, ExchangeError, MAX_OWNERS};

/// The maximum number of ranks: each is an owner, and rank 0 polls a socket to each of them.
pub const MAX_RANKS: u32 = MAX_OWNERS;

/// The maximum length of a job's parameters.
pub const MAX_PARAMETERS_BYTES: usize = 4096;

/// The maximum length of a gathered result: 1 KiB from each rank of the largest job. The exchange
/// carries addresses and keys, not data.
pub const MAX_RESULT_BYTES: usize = 4 << 20;

/// The maximum number of bytes of all ranks in an all-to-all, which rank 0 buffers: four for each
/// pair of ranks of the largest job.
pub const MAX_ALL_TO_ALL_BYTES: usize = 64 << 20;

/// The time limit of a handshake on rank 0, enough for many roundtrips of any network.
pub(crate) const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// Time limits of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The time limit until all ranks have joined. Default: 60 s, for a launcher that is slow to
    /// start the last node.
    pub rendezvous: Duration,
    /// The time limit of a collective call. Default: 600 s, for the slowest phase between two
    /// barriers. It also bounds the wait for a machine that disappears in the middle of a message.
    pub collective: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { rendezvous: Duration::from_secs(60), collective: Duration::from_secs(600) }
    }
}

/// Returns the maximum length of a rank's contribution to a collective call of `ranks` ranks.
pub(crate) fn max_contribution_bytes(ranks: u32) -> usize {
    MAX_RESULT_BYTES.min(MAX_ALL_TO_ALL_BYTES / ranks.max(1) as usize)
}

/// Returns the instant at which `limit` has passed. A limit of more than ten years is reduced to
/// ten years, because it would overflow the clock.
pub(crate) fn deadline(limit: Duration) -> Instant {
    const TEN_YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
    Instant::now() + limit.min(TEN_YEARS)
}

/// Returns a time limit in whole seconds, as errors report it, rounded up so that a short one is
/// not 0.
pub(crate) fn whole_seconds(limit: Duration) -> u32 {
    u32::try_from(limit.as_millis().div_ceil(1000)).unwrap_or(u32::MAX)
}

/// Checks that a call's result is not larger than an exchange carries.
pub(crate) fn check_at_most(bytes: usize, max: usize) -> Result<(), ExchangeError> {
    if bytes <= max {
        return Ok(());
    }
    Err(ExchangeError::TooLarge { found: bytes as u64, max: max as u64 })
}

/// Checks that `all` bytes hold the contributions of all owners, each as long as `mine`.
pub(crate) fn check_result(
    exchange: &impl Exchange,
    mine: usize,
    all: usize,
) -> Result<(), ExchangeError> {
    ExchangeError::check_length(exchange.me(), mine.saturating_mul(exchange.owners() as usize), all)
}

/// Checks that `mine` and `theirs` hold a part for each owner. Returns the length of a part.
pub(crate) fn part_bytes(
    exchange: &impl Exchange,
    mine: usize,
    theirs: usize,
) -> Result<usize, ExchangeError> {
    let each = mine / exchange.owners().max(1) as usize;
    check_result(exchange, each, theirs)?;
    check_result(exchange, each, mine)?;
    Ok(each)
}
