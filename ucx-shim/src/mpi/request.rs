//! Requests of MPI: collective calls with a time limit, and the receive that lets MPI progress.

use core::ptr;
use core::time::Duration;
use std::thread;
use std::time::Instant;

use ::mpi::ffi;

use super::OpenError;
use super::runtime::check;

/// The time for which a wait only yields the CPU: most owners arrive at about the same time.
const YIELDS_FOR: Duration = Duration::from_micros(200);
/// The time between two tests after [`YIELDS_FOR`]. If owners outnumber cores, those that wait must
/// leave CPU time to the others. If MPI needs this process for a peer's operation, the operation
/// waits for this time. The tests take a few percent of a core.
const PAUSE: Duration = Duration::from_micros(100);

/// The request of a collective call that has not completed.
pub(super) struct Pending(ffi::MPI_Request);

impl Pending {
    /// Starts a request by `start`, which calls the MPI function `call`.
    ///
    /// # Safety
    /// The memory that `start` passes to MPI stays valid until the request has completed: forever
    /// if it does not complete.
    pub(super) unsafe fn start(
        call: &'static str,
        start: impl FnOnce(*mut ffi::MPI_Request) -> i32,
    ) -> Result<Self, OpenError> {
        // SAFETY: a constant of the library.
        let mut request = unsafe { ffi::RSMPI_REQUEST_NULL };
        check(call, start(&raw mut request))?;
        Ok(Self(request))
    }

    /// Waits until the request has completed, for at most `limit`; false if it has not.
    pub(super) fn wait(mut self, limit: Duration) -> Result<bool, OpenError> {
        let start = Instant::now();
        loop {
            let mut ended = 0;
            // SAFETY: a request that was started and has not completed, and two live pointers.
            let code =
                unsafe { ffi::MPI_Test(&raw mut self.0, &raw mut ended, ffi::RSMPI_STATUS_IGNORE) };
            check("MPI_Test", code)?;
            if ended != 0 {
                return Ok(true);
            }
            let waited = start.elapsed();
            if waited >= limit {
                return Ok(false);
            }
            if waited < YIELDS_FOR {
                thread::yield_now();
            } else {
                thread::sleep(PAUSE);
            }
        }
    }
}

/// A receive without a sender, whose test lets MPI progress peers' operations.
///
/// A flush with no operations in flight, or a probe, need not progress them: over Open MPI's osc
/// ucx, peers would wait forever for an owner that polls. A test of an open request progresses them
/// in every library.
#[derive(Debug)]
pub(super) struct EndlessReceive(ffi::MPI_Request);

impl EndlessReceive {
    /// Starts a receive by rank `me` from itself on `comm`.
    pub(super) fn start(comm: ffi::MPI_Comm, me: u32) -> Result<Self, OpenError> {
        // SAFETY: a constant of the library.
        let mut request = unsafe { ffi::RSMPI_REQUEST_NULL };
        let me = me.cast_signed();
        // SAFETY: a communicator that lives as long as MPI, a buffer of 0 bytes, and a live
        // pointer.
        let code = unsafe {
            let byte = ffi::RSMPI_UINT8_T;
            ffi::MPI_Irecv(ptr::null_mut(), 0, byte, me, 0, comm, &raw mut request)
        };
        check("MPI_Irecv", code)?;
        Ok(Self(request))
    }

    /// Lets MPI progress once.
    #[inline]
    pub(super) fn progress(&mut self) {
        let mut ended = 0;
        // SAFETY: an open request and a live pointer. If the request completed nevertheless, it
        // would become the null request, which may be tested too.
        unsafe { ffi::MPI_Test(&raw mut self.0, &raw mut ended, ffi::RSMPI_STATUS_IGNORE) };
    }
}

impl Drop for EndlessReceive {
    fn drop(&mut self) {
        // SAFETY: an open request; a cancelled receive completes without another process (MPI 3.1,
        // 3.8.4).
        // The null request must not be cancelled.
        unsafe {
            if self.0 != ffi::RSMPI_REQUEST_NULL {
                ffi::MPI_Cancel(&raw mut self.0);
                ffi::MPI_Wait(&raw mut self.0, ffi::RSMPI_STATUS_IGNORE);
            }
        }
    }
}
