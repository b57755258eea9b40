//! Errors: refused calls, failed operations, dead engines, failed collective calls.

use core::error::Error;
use core::fmt;

use crate::Owner;

/// A refused post, which has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostError {
    /// The engine has [`Caps::depth`](crate::Caps::depth) operations in flight: poll, then post
    /// again.
    Full,
    /// A range leaves its window or slot, is empty, is longer than one operation may be, or
    /// differs in length from its other end.
    OutOfRange,
    /// There is no such owner.
    UnknownOwner,
    /// The engine is dead; `poll` says why.
    Closed,
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => {
                "the transport has as many operations in flight as its depth allows; poll first"
            }
            Self::OutOfRange => "a range does not fit its window, its slot or one operation",
            Self::UnknownOwner => "there is no such owner",
            Self::Closed => "the transport is dead",
        })
    }
}

impl Error for PostError {}

/// A failed operation. Whether it took effect, or still will, is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpError {
    /// The owner's side refused the access.
    RemoteAccess,
    /// The owner's side did not answer within the transport's retries.
    RetryExceeded,
    /// An earlier failure ended the engine before this operation's end was known.
    Flushed,
    /// The device refused it with an error of the operating system. It had no effect.
    NotPosted {
        /// `errno`.
        errno: i32,
    },
    /// The operation has completed, but the transport lost its result: a defect of the transport.
    NoResult,
    /// The backend's own status, as the device gave it.
    Device {
        /// The status code.
        code: u32,
    },
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RemoteAccess => f.write_str("the owner's side refused the access"),
            Self::RetryExceeded => {
                f.write_str("the owner's side did not answer within the transport's retries")
            }
            Self::Flushed => f.write_str("an earlier failure ended the transport"),
            Self::NotPosted { errno } => write!(f, "the device refused it, errno {errno}"),
            Self::NoResult => {
                f.write_str("the transport lost its result, which is a defect; please report it")
            }
            Self::Device { code } => write!(f, "the device reported status {code}"),
        }
    }
}

impl Error for OpError {}

/// The reason why an engine is dead. All operations that it had accepted have been reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// This owner died, or closed its engine while it was still used.
    OwnerLost(Owner),
    /// An operation on this owner's window failed, which broke the connection to the owner.
    Operation {
        /// Whose window.
        owner: Owner,
        /// How it failed.
        error: OpError,
    },
    /// The backend's own status, as the device gave it.
    Device {
        /// The status code.
        code: u32,
    },
    /// The device stopped reporting completions, with an error of the operating system.
    System {
        /// `errno`; ETIMEDOUT if no completion came for too long.
        errno: i32,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnerLost(owner) => write!(f, "{owner} died or left while it was still used"),
            Self::Operation { owner, error } => {
                write!(f, "an operation on the window of {owner} failed: {error}")
            }
            Self::Device { code } => write!(f, "the device ended the transport, status {code}"),
            Self::System { errno } => {
                write!(
                    f,
                    "the device stopped reporting completions, errno {errno}; see the kernel's log"
                )
            }
        }
    }
}

impl Error for Fault {}

/// A slot range that cannot be accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotError {
    /// An operation on the slot is still in flight.
    Busy,
    /// The range is empty or leaves the slot, or there is no such slot.
    OutOfRange,
}

impl fmt::Display for SlotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy => "an operation on the slot is in flight",
            Self::OutOfRange => "the range is empty or not within a slot",
        })
    }
}

impl Error for SlotError {}

/// A failed collective call. The job cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExchangeError {
    /// This owner died or left.
    OwnerLost(Owner),
    /// Not all owners arrived in time.
    TimedOut {
        /// The time limit, in seconds.
        after_s: u32,
        /// One that did not arrive, if that is known.
        missing: Option<Owner>,
    },
    /// The contributions differ in length, or the result buffer does not fit them.
    LengthDiffers {
        /// The owner whose contribution differs.
        owner: Owner,
        /// Bytes expected.
        expected: u32,
        /// Bytes found.
        found: u32,
    },
    /// The operating system's error code.
    System {
        /// `errno`.
        errno: i32,
    },
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnerLost(owner) => write!(f, "{owner} died or left"),
            Self::TimedOut { after_s, missing: Some(owner) } => {
                write!(f, "{owner} did not arrive within {after_s} s")
            }
            Self::TimedOut { after_s, missing: None } => {
                write!(f, "not every owner arrived within {after_s} s")
            }
            Self::LengthDiffers { owner, expected, found } => {
                write!(f, "{owner} gave {found} bytes where {expected} were expected")
            }
            Self::System { errno } => write!(f, "system error {errno}"),
        }
    }
}

impl Error for ExchangeError {}
