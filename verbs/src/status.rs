//! The statuses of completions.

use core::error::Error;
use core::fmt;

use probeline_verbs_sys as sys;

macro_rules! statuses {
    ($($(#[doc = $doc:literal])* $name:ident = $code:ident, $text:literal;)*) => {
        /// The reason why a work request failed (InfiniBand specification, 10.10.3;
        /// ibv_poll_cq(3)). Its queue pair enters the error state, which flushes later requests.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Status {
            $($(#[doc = $doc])* $name,)*
            /// An unknown code.
            Unknown(u32),
        }

        impl Status {
            /// Returns the result for a completion's code.
            ///
            /// # Errors
            /// The status, unless the code is success.
            #[inline]
            pub const fn of(code: u32) -> Result<(), Self> {
                if code == sys::IBV_WC_SUCCESS { Ok(()) } else { Err(Self::named(code)) }
            }

            #[cold]
            const fn named(code: u32) -> Self {
                match code {
                    $(sys::$code => Self::$name,)*
                    code => Self::Unknown(code),
                }
            }

            /// Returns the code of `enum ibv_wc_status`.
            #[must_use]
            pub const fn code(self) -> u32 {
                match self {
                    $(Self::$name => sys::$code,)*
                    Self::Unknown(code) => code,
                }
            }
        }

        impl fmt::Display for Status {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$name => f.write_str($text),)*
                    Self::Unknown(code) => write!(f, "completion status {code}"),
                }
            }
        }

        #[cfg(test)]
        const ALL: &[Status] = &[$(Status::$name,)*];
    };
}

statuses! {
    /// The message does not fit the local buffer.
    LocalLength = IBV_WC_LOC_LEN_ERR, "the message does not fit the local buffer";
    /// The queue pair cannot carry out the request.
    LocalQueuePair = IBV_WC_LOC_QP_OP_ERR, "the queue pair cannot carry out the request";
    /// The end-to-end context cannot carry out the request.
    LocalEndToEnd = IBV_WC_LOC_EEC_OP_ERR, "the end-to-end context could not do the request";
    /// The local range is not registered for this access.
    LocalProtection = IBV_WC_LOC_PROT_ERR, "the local range is not registered for this access";
    /// Flushed because the queue pair had failed.
    Flushed = IBV_WC_WR_FLUSH_ERR, "flushed, the queue pair had failed";
    /// A memory window could not be bound.
    MemoryWindowBind = IBV_WC_MW_BIND_ERR, "a memory window could not be bound";
    /// The responder sent an unexpected response.
    BadResponse = IBV_WC_BAD_RESP_ERR, "the responder sent an unexpected response";
    /// A local range was refused while a message was received.
    LocalAccess = IBV_WC_LOC_ACCESS_ERR, "a local range was refused";
    /// The responder does not support the request.
    RemoteInvalidRequest = IBV_WC_REM_INV_REQ_ERR, "the responder does not support the request";
    /// The responder's memory is not registered for this access.
    RemoteAccess = IBV_WC_REM_ACCESS_ERR, "the responder's memory is not registered for this access";
    /// The responder could not carry out the request.
    RemoteOperation = IBV_WC_REM_OP_ERR, "the responder could not carry out the request";
    /// The responder did not acknowledge within the retries.
    RetryExceeded = IBV_WC_RETRY_EXC_ERR, "the responder did not answer within the retries";
    /// The responder was not ready to receive within the retries.
    ReceiverNotReady = IBV_WC_RNR_RETRY_EXC_ERR, "the responder was not ready to receive";
    /// The reliable datagram domains differ.
    LocalDomainViolation = IBV_WC_LOC_RDD_VIOL_ERR, "the reliable datagram domains differ";
    /// The responder refused a reliable datagram request.
    RemoteInvalidDatagram = IBV_WC_REM_INV_RD_REQ_ERR, "the responder refused the datagram";
    /// The responder aborted the request.
    RemoteAborted = IBV_WC_REM_ABORT_ERR, "the responder aborted the request";
    /// An end-to-end context's number is wrong.
    InvalidEndToEndNumber = IBV_WC_INV_EECN_ERR, "an end-to-end context's number is wrong";
    /// An end-to-end context's state is wrong.
    InvalidEndToEndState = IBV_WC_INV_EEC_STATE_ERR, "an end-to-end context's state is wrong";
    /// The device failed.
    Fatal = IBV_WC_FATAL_ERR, "the device failed";
    /// The responder's answer took too long.
    ResponseTimeout = IBV_WC_RESP_TIMEOUT_ERR, "the responder's answer took too long";
    /// Any other error.
    General = IBV_WC_GENERAL_ERR, "the device reported a general error";
}

impl Error for Status {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip() {
        assert_eq!(Status::of(0), Ok(()));
        for code in 1..=64 {
            assert_eq!(Status::of(code).unwrap_err().code(), code);
        }
        for (place, status) in ALL.iter().enumerate() {
            assert!(!ALL[..place].contains(status));
            assert_eq!(Status::of(status.code()), Err(*status));
        }
        assert_eq!(Status::of(u32::MAX), Err(Status::Unknown(u32::MAX)));
    }
}
