//! Failed calls of MPI, and failures to start MPI or to open an engine.

use core::ffi::CStr;

use ::mpi::ffi;
use probeline_transport::ExchangeError;
use probeline_transport::engine::SetupError;
use thiserror::Error;

/// A call of MPI failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{call} failed with code {code}: {text}{}", self.advice())]
pub struct MpiError {
    /// The call.
    pub call: &'static str,
    /// The code that it returned, which the library defines.
    pub code: i32,
    /// The library's description of the code.
    pub text: String,
}

impl MpiError {
    /// Checks the `code` that `call` returned. Called while MPI runs, because it asks for the
    /// description of an error.
    pub(super) fn check(call: &'static str, code: i32) -> Result<(), Self> {
        if code == SUCCESS {
            return Ok(());
        }
        // The longest description is MPICH's, of 512 bytes.
        let mut text = [0; 1024];
        let mut length = 0;
        // SAFETY: room for at least MPI_MAX_ERROR_STRING bytes. The call leaves the text empty for
        // a code that MPI does not know.
        unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast(), &raw mut length) };
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        Err(Self { call, code, text: text.to_string_lossy().into_owned() })
    }

    fn advice(&self) -> &'static str {
        // Open MPI's error if no component, or an unsuitable one, is selected.
        if self.call == "MPI_Win_allocate" && self.text.contains("MPI_ERR_WIN") {
            "; the selected one-sided component probably does not connect all ranks: choose \
             another, `mpirun --mca osc sm` on one machine, `--mca osc ucx` over a network"
        } else {
            ""
        }
    }
}

/// `MPI_SUCCESS`, which the standard makes 0.
pub(super) const SUCCESS: i32 = 0;

/// The reason why MPI could not be started or an engine not be opened. If one owner cannot open its
/// engine, none can.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// This process has or had a [`World`](super::World), or other code has started MPI.
    #[error(
        "MPI was started in this process before, and can be started only once: keep one World and \
         lend it"
    )]
    Second,
    /// No other code has started MPI, or it was finalized.
    #[error("MPI does not run in this process: call MPI_Init before, and MPI_Finalize after")]
    NotRunning,
    /// The owners cannot open engines together.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// A call of MPI failed.
    #[error(transparent)]
    Mpi(#[from] MpiError),
    /// The window is not of the unified memory model.
    #[error(
        "the window's memory model is not MPI_WIN_UNIFIED but {model}: choose another one-sided \
         component or a machine with coherent memory"
    )]
    NotUnified {
        /// The library's number for the model of the window.
        model: i32,
    },
    /// The component that implements windows aborts the process at the first compare-and-swap.
    #[error(
        "Open MPI's osc rdma over {carrier} ends the process at its first MPI_Compare_and_swap: \
         give mpirun `--mca osc sm` (one machine) or `--mca osc ucx`"
    )]
    AtomicsCrash {
        /// The transport under osc rdma.
        carrier: &'static str,
    },
}

impl From<ExchangeError> for OpenError {
    fn from(error: ExchangeError) -> Self {
        Self::Setup(error.into())
    }
}
