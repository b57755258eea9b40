//! Failed calls of MPI.

use core::ffi::CStr;

use ::mpi::ffi;

use crate::OpenError;

/// Checks the `code` that `call` returned. Called while MPI runs, because it asks for the description
/// of an error.
pub(super) fn check(call: &'static str, code: i32) -> Result<(), OpenError> {
    if code == SUCCESS {
        return Ok(());
    }
    // The longest description is MPICH's, of 512 bytes.
    let mut text = [0; 1024];
    let mut length = 0;
    // SAFETY: room for at least MPI_MAX_ERROR_STRING bytes. The call leaves the text empty for
    // a code that MPI does not know.
    unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast(), &raw mut length) };
    let text = CStr::from_bytes_until_nul(&text).unwrap_or_default().to_string_lossy().into_owned();
    // Open MPI's error if no component, or an unsuitable one, is selected.
    let advice = if call == "MPI_Win_allocate" && text.contains("MPI_ERR_WIN") {
        "; the selected one-sided component probably does not connect all ranks: choose another, \
         `mpirun --mca osc sm` on one machine, `--mca osc ucx` over a network"
    } else {
        ""
    };
    Err(OpenError::Call { call, status: code, text, advice })
}

/// `MPI_SUCCESS`, which the standard makes 0.
pub(super) const SUCCESS: i32 = 0;
