//! A collective call under way, waited for with a bound.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use ::mpi::ffi;

use super::MpiError;

/// How long a wait only gives way to other threads: most owners come at about the same time.
const YIELDS_FOR: Duration = Duration::from_micros(200);
/// Between two looks after that: where owners outnumber cores, those who wait must not keep the
/// others from coming. It is how long a peer's operation may wait where the library needs this side
/// to move it on, and takes some hundredths of a core.
const PAUSE: Duration = Duration::from_micros(100);
/// After this wait the others are at work of their own, and a look is to cost them less.
const SHORT_WAIT: Duration = Duration::from_secs(10);
/// Between two looks then.
const LONG_PAUSE: Duration = Duration::from_millis(1);

/// A request that has not ended.
pub(super) struct Pending(ffi::MPI_Request);

impl Pending {
    /// The request that `start` makes, by the MPI function `call`.
    ///
    /// # Safety
    /// The memory that `start` names must stay until the request has ended: for ever, if it never
    /// does.
    pub(super) unsafe fn start(
        call: &'static str,
        start: impl FnOnce(*mut ffi::MPI_Request) -> i32,
    ) -> Result<Self, MpiError> {
        // SAFETY: a constant of the library.
        let mut request = unsafe { ffi::RSMPI_REQUEST_NULL };
        MpiError::check(call, start(&raw mut request))?;
        Ok(Self(request))
    }

    /// Waits until it has ended, `limit` at most: whether it has.
    pub(super) fn wait(mut self, limit: Duration) -> Result<bool, MpiError> {
        let start = Instant::now();
        loop {
            let mut ended = 0;
            // SAFETY: a request that was started and has not ended, and two places of this frame.
            let code =
                unsafe { ffi::MPI_Test(&raw mut self.0, &raw mut ended, ffi::RSMPI_STATUS_IGNORE) };
            MpiError::check("MPI_Test", code)?;
            if ended != 0 {
                return Ok(true);
            }
            let waited = start.elapsed();
            if waited >= limit {
                return Ok(false);
            }
            give_way(waited);
        }
    }
}

/// Lets others run for a moment, after a wait of so long.
fn give_way(waited: Duration) {
    if waited < YIELDS_FOR {
        thread::yield_now();
    } else {
        thread::sleep(if waited < SHORT_WAIT { PAUSE } else { LONG_PAUSE });
    }
}
