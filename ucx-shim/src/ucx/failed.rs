//! A call of UCP or an operation that failed, by the status it gave.

use core::error::Error;
use core::ffi::CStr;
use core::fmt;

use probeline_transport::OpError;
use probeline_ucx_sys::{
    UCS_ERR_BUSY, UCS_ERR_CANCELED, UCS_ERR_CONNECTION_RESET, UCS_ERR_ENDPOINT_TIMEOUT,
    UCS_ERR_EXCEEDS_LIMIT, UCS_ERR_INVALID_PARAM, UCS_ERR_IO_ERROR, UCS_ERR_NO_DEVICE,
    UCS_ERR_NO_MEMORY, UCS_ERR_NOT_CONNECTED, UCS_ERR_SHMEM_SEGMENT, UCS_ERR_UNREACHABLE,
    UCS_ERR_UNSUPPORTED, UCS_OK, Ucp, ucs_status_t,
};

/// A call failed. `status` is UCX's, as `ucs/type/status.h` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallFailed {
    /// The call.
    pub call: &'static str,
    /// What it gave.
    pub status: i8,
    /// The same in UCX's words.
    words: &'static CStr,
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
        // SAFETY: takes any status, also an unknown one, and gives a string that stays. (That of
        // an unknown one is in a buffer of the library's, which a later call may change.)
        let words = unsafe { CStr::from_ptr((ucp.ucs_status_string)(status)) };
        Self { call, status, words }
    }
}

impl fmt::Display for CallFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.words.to_str().unwrap_or("no words");
        write!(f, "{} failed with status {}, {words}", self.call, self.status)?;
        f.write_str(match self.status {
            UCS_ERR_NO_DEVICE => {
                "; none of the transports and devices that UCX may use (UCX_TLS, UCX_NET_DEVICES) is \
                 here: `ucx_info -d` (Debian: ucx-utils) shows those that are"
            }
            UCS_ERR_UNREACHABLE => {
                "; none of the transports that UCX may use leads there: allow one that does, \
                 `ucx_info -d` shows what there is"
            }
            UCS_ERR_NO_MEMORY | UCS_ERR_SHMEM_SEGMENT | UCS_ERR_EXCEEDS_LIMIT => {
                "; make the windows smaller, or raise `ulimit -l`, the size of /dev/shm or \
                 kernel.shmmax"
            }
            UCS_ERR_INVALID_PARAM => "; a value is none of those that `ucx_info -cf` explains",
            UCS_ERR_IO_ERROR | UCS_ERR_BUSY => "; UCX_LOG_LEVEL=info shows more",
            UCS_ERR_UNSUPPORTED => "; another transport may have it: `ucx_info -d`",
            _ => "; UCX_LOG_LEVEL=info may show why",
        })
    }
}

impl Error for CallFailed {}

/// A status as the contract names it.
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
