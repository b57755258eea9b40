//! Failures to open an engine over UCX or MPI, or to start MPI.

use std::io;

use probeline_transport::{ExchangeError, OpError, Owner, SetupError};
use thiserror::Error;

/// The reason why an engine could not be opened, or MPI not be started. If one owner fails, all do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The owners cannot open engines together.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// A call of UCP or MPI failed.
    #[error("{call} failed with status {status}, {text}{advice}")]
    Call {
        /// The name of the function that failed.
        call: &'static str,
        /// The status that it returned: as `ucs/type/status.h` names it, or one that the MPI library
        /// defines.
        status: i32,
        /// The library's description of the status.
        text: String,
        /// Advice, which follows a semicolon.
        advice: &'static str,
    },
    /// UCX refused the value of a setting.
    #[error("UCX refuses {value:?} for UCX_{variable}: `ucx_info -cf` explains the values")]
    Setting {
        /// The variable, without `UCX_`.
        variable: &'static str,
        /// The value that UCX refused.
        value: String,
    },
    /// A variable of the environment contradicts the builder.
    #[error(
        "the environment sets {variable}={set}, but {asked} was requested: unset the variable, or \
         request the same value"
    )]
    Contradiction {
        /// The name of the variable.
        variable: String,
        /// The value in the environment.
        set: String,
        /// The value that the builder requests.
        asked: String,
    },
    /// The builder sets a GID index, and UCX uses no transport with GIDs.
    #[error(
        "a GID index was requested, but UCX uses no InfiniBand or RoCE transport: choose one, such \
         as rc, or leave the index out"
    )]
    NoGid,
    /// UCX cannot connect to an owner.
    #[error("cannot connect to {owner}: {source}")]
    NoConnection {
        /// The owner that cannot be reached.
        owner: Owner,
        /// The error of the call that failed.
        source: Box<OpenError>,
    },
    /// The first operations on an owner's window did not complete in time.
    #[error(
        "{owner} did not answer within {after_s} s: check that it is running, that the device \
         reaches it (UCX_NET_DEVICES), and over RoCE that the GID does (UCX_IB_GID_INDEX)"
    )]
    TimedOut {
        /// The owner that did not answer.
        owner: Owner,
        /// The time limit in seconds.
        after_s: u64,
    },
    /// The first operation on an owner's window failed.
    #[error("the first operation on the window of {owner} failed: {source}")]
    FirstFailed {
        /// The owner of the window.
        owner: Owner,
        /// The error of the operation.
        source: OpError,
    },
    /// The sum of the values that all owners added to a word of this owner is wrong.
    #[error(
        "atomics lose updates: {expected} owners added 1 to a word, which is {found} now; choose \
         the other atomic mode, or other transports"
    )]
    SelfTest {
        /// The number of owners, each of which added 1.
        expected: u64,
        /// The sum that the word has.
        found: u64,
    },
    /// The thread for peers' operations could not be started.
    #[error(
        "cannot start a thread: {}; raise `ulimit -u`, or let the caller progress UCX, which \
         needs one thread less",
        io::Error::from_raw_os_error(*errno)
    )]
    Thread {
        /// The error number (errno(3)) of the failed call.
        errno: i32,
    },
    /// This process has or had a `mpi::World`, or other code has started MPI.
    #[error(
        "MPI was started in this process before, and can be started only once: keep one World and \
         lend it"
    )]
    Second,
    /// No other code has started MPI, or it was finalized.
    #[error("MPI does not run in this process: call MPI_Init before, and MPI_Finalize after")]
    NotRunning,
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
