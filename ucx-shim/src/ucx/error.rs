//! Failed calls of UCP, failed operations, and failures to open an engine.

use core::ffi::CStr;
use std::io;

use probeline_transport::engine::SetupError;
use probeline_transport::{OpError, Owner};
use probeline_ucx_sys::{
    LoadError, UCS_ERR_BUSY, UCS_ERR_CANCELED, UCS_ERR_CONNECTION_RESET, UCS_ERR_ENDPOINT_TIMEOUT,
    UCS_ERR_EXCEEDS_LIMIT, UCS_ERR_INVALID_PARAM, UCS_ERR_IO_ERROR, UCS_ERR_NO_DEVICE,
    UCS_ERR_NO_MEMORY, UCS_ERR_NOT_CONNECTED, UCS_ERR_SHMEM_SEGMENT, UCS_ERR_UNREACHABLE,
    UCS_ERR_UNSUPPORTED, UCS_OK, Ucp, ucs_status_t,
};
use thiserror::Error;

/// A call of UCP failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{call} failed with status {status}, {}{}", .description.to_string_lossy(), self.advice())]
pub struct CallFailed {
    /// The call.
    pub call: &'static str,
    /// The status that it returned, as `ucs/type/status.h` names it.
    pub status: i8,
    /// UCX's description of the status.
    description: &'static CStr,
}

impl CallFailed {
    pub(super) fn check(
        ucp: &Ucp,
        call: &'static str,
        status: ucs_status_t,
    ) -> Result<(), CallFailed> {
        match status {
            UCS_OK => Ok(()),
            status => Err(Self::of(ucp, call, status)),
        }
    }

    pub(super) fn of(ucp: &Ucp, call: &'static str, status: ucs_status_t) -> Self {
        // SAFETY: the call accepts any status and returns a string that is never freed. The string
        // of an unknown status is in a buffer, which a later call may overwrite.
        let description = unsafe { CStr::from_ptr((ucp.ucs_status_string)(status)) };
        Self { call, status, description }
    }

    fn advice(&self) -> &'static str {
        match self.status {
            UCS_ERR_NO_DEVICE => {
                "; this machine has none of the transports and devices that UCX may use (UCX_TLS, \
                 UCX_NET_DEVICES): `ucx_info -d` (Debian: ucx-utils) lists what it has"
            }
            UCS_ERR_UNREACHABLE => {
                "; none of the transports that UCX may use connects the two machines: allow another \
                 one, `ucx_info -d` lists them"
            }
            UCS_ERR_NO_MEMORY | UCS_ERR_SHMEM_SEGMENT | UCS_ERR_EXCEEDS_LIMIT => {
                "; make the windows smaller, or raise `ulimit -l`, the size of /dev/shm or \
                 kernel.shmmax"
            }
            UCS_ERR_INVALID_PARAM => "; a value is invalid: `ucx_info -cf` explains the values",
            UCS_ERR_IO_ERROR | UCS_ERR_BUSY => "; UCX_LOG_LEVEL=info shows more",
            UCS_ERR_UNSUPPORTED => "; another transport may support it: `ucx_info -d`",
            _ => "; UCX_LOG_LEVEL=info may show why",
        }
    }
}

/// Maps the status of a failed operation to an error of the transport contract.
#[cold]
pub(super) fn op_error(status: ucs_status_t) -> OpError {
    match status {
        UCS_ERR_CONNECTION_RESET | UCS_ERR_ENDPOINT_TIMEOUT | UCS_ERR_NOT_CONNECTED => {
            OpError::RetryExceeded
        }
        UCS_ERR_CANCELED => OpError::Flushed,
        // UCX's statuses are negative.
        status => OpError::Device { code: status.unsigned_abs().into() },
    }
}

/// The reason why an engine could not be opened. If one owner fails, all do.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// libucp could not be loaded.
    #[error(transparent)]
    Library(LoadError),
    /// The owners cannot open engines together.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// UCX refused the value of a setting.
    #[error("UCX refuses {value:?} for UCX_{variable}: `ucx_info -cf` explains the values")]
    Setting {
        /// The variable, without `UCX_`.
        variable: &'static str,
        /// The value.
        value: String,
    },
    /// A variable of the environment contradicts the builder.
    #[error(
        "the environment sets {variable}={set}, but {asked} was requested: unset the variable, or \
         request the same value"
    )]
    Contradiction {
        /// The variable.
        variable: String,
        /// The environment's value.
        set: String,
        /// The builder's value.
        asked: String,
    },
    /// The builder sets a GID index, and UCX uses no transport with GIDs.
    #[error(
        "a GID index was requested, but UCX uses no InfiniBand or RoCE transport: choose one, such \
         as rc, or leave the index out"
    )]
    NoGid,
    /// A call of UCP failed.
    #[error(transparent)]
    Call(#[from] CallFailed),
    /// UCX cannot connect to an owner.
    #[error("cannot connect to {owner} over the transports {tls}: {source}")]
    NoConnection {
        /// The owner.
        owner: Owner,
        /// The transports that UCX may use; `all` by default.
        tls: String,
        /// The failed call.
        source: CallFailed,
    },
    /// The first operations on an owner's window did not complete in time.
    #[error(
        "{owner} did not answer within {after_s} s: check that it is running, that the device \
         reaches it (UCX_NET_DEVICES), and over RoCE that the GID does (UCX_IB_GID_INDEX)"
    )]
    TimedOut {
        /// The owner.
        owner: Owner,
        /// The time limit in seconds.
        after_s: u64,
    },
    /// The first operation on an owner's window failed.
    #[error("the first operation on the window of {owner} failed: {source}")]
    FirstFailed {
        /// The owner.
        owner: Owner,
        /// The failure.
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
        /// The value of the word.
        found: u64,
    },
    /// The thread for peers' operations could not be started.
    #[error(
        "cannot start a thread: {}; raise `ulimit -u`, or let the caller progress UCX, which \
         needs one thread less",
        io::Error::from_raw_os_error(*errno)
    )]
    Thread {
        /// The error of the system.
        errno: i32,
    },
}
