//! Why MPI could not be started, or an engine opened, and what to do about it.

use core::error::Error;
use core::ffi::CStr;
use core::fmt;

use ::mpi::ffi;
use probeline_transport::{ExchangeError, Owner};

/// An MPI call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MpiError {
    /// Which call.
    pub call: &'static str,
    /// The code it returned, which is the implementation's.
    pub code: i32,
    /// What the implementation says of the code.
    pub text: String,
}

impl MpiError {
    /// What `call` returned, while MPI runs: its text is asked for at once, for later MPI may have
    /// ended.
    pub(super) fn check(call: &'static str, code: i32) -> Result<(), Self> {
        if code == SUCCESS {
            return Ok(());
        }
        // The longest that an implementation has: 512 bytes of MPICH.
        let mut text = [0; 1024];
        let mut length = 0;
        // SAFETY: as long as MPI_MAX_ERROR_STRING at least. A code that MPI does not know is an
        // error of this call, which leaves the text empty.
        unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast(), &raw mut length) };
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        Err(Self { call, code, text: text.to_string_lossy().into_owned() })
    }
}

/// `MPI_SUCCESS`, which the standard makes 0.
pub(super) const SUCCESS: i32 = 0;

impl fmt::Display for MpiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed with code {}: {}", self.call, self.code, self.text)
    }
}

impl Error for MpiError {}

/// Why MPI could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InitError {
    /// This process has or had a [`World`](super::World), or somebody else has started MPI.
    Second,
    /// MPI says why.
    Mpi(MpiError),
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Second => f.write_str(
                "MPI was started in this process before, which it allows once: \
                 keep one World and lend it",
            ),
            Self::Mpi(error) => error.fmt(f),
        }
    }
}

impl Error for InitError {}

impl From<MpiError> for InitError {
    fn from(error: MpiError) -> Self {
        Self::Mpi(error)
    }
}

/// Why an engine could not be opened. When one owner fails, all do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// The builder's sizes are impossible, and how.
    Sizes(&'static str),
    /// An MPI call failed.
    Mpi(MpiError),
    /// The exchange failed.
    Exchange(ExchangeError),
    /// An owner was opened with other sizes than this one.
    Differs {
        /// Whose.
        owner: Owner,
        /// What differs.
        what: &'static str,
        /// This owner's value.
        mine: u64,
        /// The other's.
        theirs: u64,
    },
    /// The window is not of the unified memory model.
    NotUnified {
        /// The implementation's number for the model that it has.
        model: i32,
    },
    /// This combination ends the process at the first compare-and-swap.
    AtomicsCrash {
        /// What carries osc rdma, and how.
        carrier: String,
    },
    /// Another owner could not open its engine; its own error says why.
    PeerFailed(Owner),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sizes(what) => f.write_str(what),
            // Open MPI's class of an error where no component, or one that cannot, is to serve.
            Self::Mpi(error)
                if error.call == "MPI_Win_allocate" && error.text.contains("MPI_ERR_WIN") =>
            {
                write!(
                    f,
                    "{error}. The component that serves windows has probably no way to all ranks: \
                     choose another, `mpirun --mca osc sm` on one machine, `--mca osc ucx` over a \
                     network"
                )
            }
            Self::Mpi(error) => error.fmt(f),
            Self::Exchange(_) => f.write_str("cannot agree with the other owners"),
            Self::Differs { owner, what, mine, theirs } => write!(
                f,
                "{owner} was opened with {theirs} {what}, this one with {mine}: \
                 start every owner with the same sizes and the same build"
            ),
            Self::NotUnified { model } => write!(
                f,
                "the window's memory model is not MPI_WIN_UNIFIED but {model}: \
                 choose another one-sided component or a machine with coherent memory"
            ),
            Self::AtomicsCrash { carrier } => {
                let other = if carrier.starts_with("btl vader") {
                    ", or `--mca btl_vader_single_copy_mechanism none`, with which it takes another \
                     component"
                } else {
                    ""
                };
                write!(
                    f,
                    "Open MPI's osc rdma over {carrier} ends the process at its first \
                     MPI_Compare_and_swap: give mpirun `--mca osc sm` (one machine) or \
                     `--mca osc ucx`{other}"
                )
            }
            Self::PeerFailed(owner) => {
                write!(f, "{owner} could not open its engine: see its own message")
            }
        }
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Exchange(source) => Some(source),
            _ => None,
        }
    }
}

impl From<MpiError> for OpenError {
    fn from(error: MpiError) -> Self {
        Self::Mpi(error)
    }
}

impl From<ExchangeError> for OpenError {
    fn from(error: ExchangeError) -> Self {
        Self::Exchange(error)
    }
}
