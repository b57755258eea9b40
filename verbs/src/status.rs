//! The statuses of completions.

use core::error::Error;
use core::fmt;

use probeline_verbs_sys as sys;

/// The reason why a work request failed, a code of `enum ibv_wc_status` (InfiniBand specification,
/// 10.10.3; ibv_poll_cq(3)). Its queue pair enters the error state, which flushes later requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(u32);

impl Status {
    /// The local range is not registered for this access.
    pub const LOCAL_PROTECTION: Self = Self(sys::IBV_WC_LOC_PROT_ERR);
    /// Flushed because the queue pair had failed.
    pub const FLUSHED: Self = Self(sys::IBV_WC_WR_FLUSH_ERR);
    /// The responder's memory is not registered for this access.
    pub const REMOTE_ACCESS: Self = Self(sys::IBV_WC_REM_ACCESS_ERR);
    /// The responder did not acknowledge within the retries.
    pub const RETRY_EXCEEDED: Self = Self(sys::IBV_WC_RETRY_EXC_ERR);

    /// Returns the result for a completion's code.
    ///
    /// # Errors
    /// The status, unless the code is success.
    #[inline]
    pub const fn from_code(code: u32) -> Result<(), Self> {
        if code == sys::IBV_WC_SUCCESS { Ok(()) } else { Err(Self(code)) }
    }

    /// Returns the code.
    #[must_use]
    pub const fn code(self) -> u32 {
        self.0
    }
}

/// Names the statuses that one-sided requests of reliable connections can have.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            sys::IBV_WC_LOC_LEN_ERR => "the message does not fit the local buffer",
            sys::IBV_WC_LOC_QP_OP_ERR => "the queue pair cannot carry out the request",
            sys::IBV_WC_LOC_PROT_ERR => "the local range is not registered for this access",
            sys::IBV_WC_WR_FLUSH_ERR => "flushed, the queue pair had failed",
            sys::IBV_WC_BAD_RESP_ERR => "the responder sent an unexpected response",
            sys::IBV_WC_REM_INV_REQ_ERR => "the responder does not support the request",
            sys::IBV_WC_REM_ACCESS_ERR => {
                "the responder's memory is not registered for this access"
            }
            sys::IBV_WC_REM_OP_ERR => "the responder could not carry out the request",
            sys::IBV_WC_RETRY_EXC_ERR => "the responder did not answer within the retries",
            sys::IBV_WC_RNR_RETRY_EXC_ERR => "the responder was not ready to receive",
            sys::IBV_WC_REM_ABORT_ERR => "the responder aborted the request",
            sys::IBV_WC_FATAL_ERR => "the device failed",
            sys::IBV_WC_RESP_TIMEOUT_ERR => "the responder's answer took too long",
            sys::IBV_WC_GENERAL_ERR => "the device reported a general error",
            code => return write!(f, "completion status {code} (enum ibv_wc_status)"),
        })
    }
}

impl Error for Status {}
