//! Failed calls of UCP and failed operations.

use core::ffi::CStr;

use probeline_transport::OpError;
use probeline_ucx_sys::{
    UCS_ERR_CANCELED, UCS_ERR_CONNECTION_RESET, UCS_ERR_ENDPOINT_TIMEOUT, UCS_ERR_EXCEEDS_LIMIT,
    UCS_ERR_INVALID_PARAM, UCS_ERR_NO_DEVICE, UCS_ERR_NO_MEMORY, UCS_ERR_NOT_CONNECTED,
    UCS_ERR_SHMEM_SEGMENT, UCS_ERR_UNREACHABLE, UCS_ERR_UNSUPPORTED, UCS_OK, Ucp, ucs_status_t,
};

use crate::OpenError;

pub(super) fn check(ucp: &Ucp, call: &'static str, status: ucs_status_t) -> Result<(), OpenError> {
    match status {
        UCS_OK => Ok(()),
        status => Err(failed(ucp, call, status)),
    }
}

pub(super) fn failed(ucp: &Ucp, call: &'static str, status: ucs_status_t) -> OpenError {
    // SAFETY: the call accepts any status and returns a string that is never freed. The string of an
    // unknown status is in a buffer, which a later call may overwrite.
    let text = unsafe { CStr::from_ptr((ucp.ucs_status_string)(status)) };
    let (text, advice) = (text.to_string_lossy().into_owned(), advice(status));
    OpenError::Call { call, status: status.into(), text, advice }
}

fn advice(status: ucs_status_t) -> &'static str {
    match status {
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
        UCS_ERR_UNSUPPORTED => "; another transport may support it: `ucx_info -d`",
        _ => "; UCX_LOG_LEVEL=info may show why",
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
