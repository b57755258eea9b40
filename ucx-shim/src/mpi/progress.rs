//! How MPI is let go on with what others want of this process.
//!
//! A flush with nothing to wait for need not look after others' operations, nor need a probe: Open
//! MPI's osc ucx then leaves peers waiting for an owner that polls without end. A test of a request
//! that has not ended does, in every library. So there is a receive that nobody sends to.

use core::ptr;

use ::mpi::ffi;

use super::MpiError;

/// A receive that is not going to end.
#[derive(Debug)]
pub(super) struct Progress(ffi::MPI_Request);

impl Progress {
    /// A receive by `me` from itself on `comm`, on which nobody sends.
    pub(super) fn new(comm: ffi::MPI_Comm, me: u32) -> Result<Self, MpiError> {
        // SAFETY: a constant of the library.
        let mut request = unsafe { ffi::RSMPI_REQUEST_NULL };
        let me = me.cast_signed();
        // SAFETY: a communicator that lives as long as MPI, no bytes, and a place of this frame.
        let code = unsafe {
            let byte = ffi::RSMPI_UINT8_T;
            ffi::MPI_Irecv(ptr::null_mut(), 0, byte, me, 0, comm, &raw mut request)
        };
        MpiError::check("MPI_Irecv", code)?;
        Ok(Self(request))
    }

    /// Lets MPI go on once.
    #[inline]
    pub(super) fn make(&mut self) {
        let mut ended = 0;
        // SAFETY: a request that has not ended, for nobody sends; a place of this frame. Should it
        // end all the same, it becomes the null request, which may be tested as well.
        unsafe { ffi::MPI_Test(&raw mut self.0, &raw mut ended, ffi::RSMPI_STATUS_IGNORE) };
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        // SAFETY: a request that has not ended; a receive that is cancelled ends at once, without
        // anybody else (MPI 3.1, 3.8.4). The null request must not be cancelled.
        unsafe {
            if self.0 != ffi::RSMPI_REQUEST_NULL {
                ffi::MPI_Cancel(&raw mut self.0);
                ffi::MPI_Wait(&raw mut self.0, ffi::RSMPI_STATUS_IGNORE);
            }
        }
    }
}
