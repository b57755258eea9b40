//! Why a call was refused, an operation failed, an engine died or a collective call ended.

use core::error::Error;
use core::fmt;

use crate::Owner;

/// Why a post was refused. Nothing was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostError {
    /// As many operations are in flight as the engine allows: poll, then post again.
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
            Self::Full => "the transport's depth is reached",
            Self::OutOfRange => "a range does not fit its window, its slot or one operation",
            Self::UnknownOwner => "there is no such owner",
            Self::Closed => "the transport is dead",
        })
    }
}

impl Error for PostError {}

/// Why one operation failed. Whether it took effect, or still will, is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpError {
    /// The owner's side refused the access.
    RemoteAccess,
    /// The owner's side did not answer within the transport's retries.
    RetryExceeded,
    /// An earlier failure ended the engine before this operation's end was known.
    Flushed,
    /// The device did not take it, by an error of the operating system. It had no effect.
    NotPosted {
        /// `errno`.
        errno: i32,
    },
    /// The operation has ended, but the transport has lost its result: a defect of the transport.
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
            Self::RetryExceeded => f.write_str("the owner's side did not answer"),
            Self::Flushed => f.write_str("an earlier failure ended the transport"),
            Self::NotPosted { errno } => write!(f, "the device did not take it, errno {errno}"),
            Self::NoResult => f.write_str("the transport has lost its result"),
            Self::Device { code } => write!(f, "the device reported status {code}"),
        }
    }
}

impl Error for OpError {}

/// Why an engine is dead. Every operation it had accepted has been reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// This owner died, or closed its engine while it was still used.
    OwnerLost(Owner),
    /// An operation on this owner's window failed, which ended the way there.
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
    /// The device tells nothing any more, by an error of the operating system.
    System {
        /// `errno`; ETIMEDOUT where it was silent for too long.
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
                write!(f, "the device tells nothing any more, errno {errno}; see the kernel's log")
            }
        }
    }
}

impl Error for Fault {}

/// Why a slot range is not to be seen.
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
            Self::OutOfRange => "the range is not one of the slot's",
        })
    }
}

impl Error for SlotError {}

/// Why a collective call ended without its result. The job cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExchangeError {
    /// This owner died or left.
    OwnerLost(Owner),
    /// Not everybody arrived in time; one of those missing, where that is known.
    TimedOut {
        /// The bound that passed, in seconds.
        after_s: u32,
        /// An owner that did not arrive.
        missing: Option<Owner>,
    },
    /// The contributions differ in length, or the result buffer does not fit them.
    LengthDiffers {
        /// Whose contribution, where it is another's.
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
