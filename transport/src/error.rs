//! Errors: refused calls, failed operations, dead engines, failed collective calls and openings.

use core::fmt;

use thiserror::Error;

#[cfg(feature = "dylib")]
use crate::dylib::{SharedLibrary, text};
use crate::{Call, MAX_OWNERS, Owner};

/// A refused post or access to a slot, which has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PostError {
    /// The engine has [`Caps::depth`](crate::Caps::depth) operations in flight: poll, then post
    /// again.
    #[error("the transport has as many operations in flight as its depth allows; poll first")]
    Full,
    /// A range leaves its window or slot, is empty, is longer than one operation may be, or
    /// differs in length from its other end.
    #[error("a range does not fit its window, its slot or one operation")]
    OutOfRange,
    /// An operation on the slot to access is still in flight.
    #[error("an operation on the slot is in flight")]
    Busy,
    /// There is no such owner.
    #[error("there is no such owner")]
    UnknownOwner,
    /// The engine is dead; `poll` says why.
    #[error("the transport is dead")]
    Closed,
}

/// A failed operation. Whether it took effect, or still will, is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpError {
    /// The owner's side refused the access.
    #[error("the owner's side refused the access")]
    RemoteAccess,
    /// The owner's side did not answer within the transport's retries.
    #[error("the owner's side did not answer within the transport's retries")]
    RetryExceeded,
    /// An earlier failure ended the engine before this operation's end was known.
    #[error("an earlier failure ended the transport")]
    Flushed,
    /// The device refused it with an error of the operating system. It had no effect.
    #[error("the device refused it, errno {errno}")]
    NotPosted {
        /// The error number (errno(3)).
        errno: i32,
    },
    /// The device completed an atomic without its result, as Soft-RoCE does after some lost packets.
    #[error("the device completed it without a result, as Soft-RoCE may after lost packets")]
    NoResult,
    /// The backend's own status, as the device gave it.
    #[error("the device reported status {code}")]
    Device {
        /// The status code.
        code: u32,
    },
}

/// The reason why an engine is dead. All operations that it had accepted have been reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Fault {
    /// This owner died, or closed its engine while it was still used.
    #[error("{0} died or left while it was still used")]
    OwnerLost(Owner),
    /// An operation on this owner's window failed, which broke the connection to the owner.
    #[error("an operation on the window of {owner} failed: {error}")]
    Operation {
        /// The owner of the window.
        owner: Owner,
        /// The error of the operation.
        error: OpError,
    },
    /// The backend's own status, as the device gave it.
    #[error("the device ended the transport, status {code}")]
    Device {
        /// The status code.
        code: u32,
    },
    /// The device stopped reporting completions, with an error of the operating system.
    #[error("the device stopped reporting completions, errno {errno}; see the kernel's log")]
    System {
        /// The error number (errno(3)); ETIMEDOUT if no completion came for too long.
        errno: i32,
    },
}

/// A failed collective call. The job cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// This owner died or left.
    #[error("{0} died or left")]
    OwnerLost(Owner),
    /// This owner's process ended, which rank 0 had started.
    #[error("{owner} died or left ({exit}): read its output")]
    OwnerExited {
        /// The owner whose process ended.
        owner: Owner,
        /// The end of its process.
        exit: Exit,
    },
    /// This process is a fork of the member, and shares its connections.
    #[error(
        "this process is a fork of the one that joined the job, which alone may make its calls: fork \
         before joining, and let one process join"
    )]
    Forked,
    /// Not all owners arrived in time.
    #[error("{} within {after_s} s, the limit of collective calls", Missing(*missing))]
    TimedOut {
        /// The time limit, in seconds.
        after_s: u32,
        /// One that did not arrive, if that is known.
        missing: Option<Owner>,
    },
    /// The contributions differ in length, or the result buffer does not fit them.
    #[error("{owner} gave {found} bytes where {expected} were expected")]
    LengthDiffers {
        /// The owner whose contribution differs.
        owner: Owner,
        /// Length of the other contributions, in bytes.
        expected: u32,
        /// Length of this contribution or buffer, in bytes.
        found: u32,
    },
    /// Owners made different collective calls, or the same ones in another order. All owners report
    /// the same pair.
    #[error(
        "{owner} called {found}, {} called {expected}: all ranks must make the same collective calls \
         in the same order",
        Owner(0)
    )]
    CallsDiffer {
        /// The first owner whose call differs from that of owner 0.
        owner: Owner,
        /// The call that owner 0 made.
        expected: Call,
        /// The call that `owner` made.
        found: Call,
    },
    /// The result of a call is larger than the exchange carries. The call was not made; it counts.
    #[error("the result has {found} bytes, more than the {max} that an exchange carries")]
    TooLarge {
        /// Bytes of the result.
        found: u64,
        /// The largest result in bytes.
        max: u64,
    },
    /// The exchange has more owners than any engine.
    #[error("the exchange has more than {} owners", crate::MAX_OWNERS)]
    TooManyOwners,
    /// The operating system's error code.
    #[error("system error {errno}")]
    System {
        /// The error number (errno(3)).
        errno: i32,
    },
}

impl ExchangeError {
    /// Checks the length of the bytes that `owner` has contributed, or has room for.
    ///
    /// # Errors
    /// [`ExchangeError::LengthDiffers`].
    pub fn check_length(owner: Owner, found: usize, expected: usize) -> Result<(), Self> {
        if found == expected {
            return Ok(());
        }
        let [expected, found] =
            [expected, found].map(|length| u32::try_from(length).unwrap_or(u32::MAX));
        Err(Self::LengthDiffers { owner, expected, found })
    }
}

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this status; a panic of a Rust program's main thread exits with 101.
    Status(u32),
    /// This signal killed it.
    Signal(u32),
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "exit status {status}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// The text about an owner that did not arrive.
struct Missing(Option<Owner>);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(owner) => write!(f, "{owner} did not arrive"),
            None => f.write_str("not every owner arrived"),
        }
    }
}

/// The reason why an engine or a part of one cannot be opened, whatever its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SetupError {
    /// A size is invalid, or memory for it is missing. The text states which, and what to choose.
    #[error("{0}")]
    Sizes(&'static str),
    /// A number is out of its range.
    #[error("{what} is {found}: choose {min} to {max}")]
    Range {
        /// The name of the number, such as a size.
        what: &'static str,
        /// The given value.
        found: u64,
        /// The smallest valid value.
        min: u64,
        /// The largest valid value.
        max: u64,
    },
    /// An engine or its storage is too small for the parts that it is divided into.
    #[error("the channels need {needed} {size}, there are {found}: {advice}")]
    TooSmall {
        /// The unit that is short, such as words or slots.
        size: &'static str,
        /// The number of these units that the parts need.
        needed: u64,
        /// The number of these units in the engine or its storage.
        found: u64,
        /// Advice on what to do.
        advice: &'static str,
    },
    /// The windows and slots on this machine need more memory than it has.
    #[error(
        "windows and slots of {} rank{} on this machine need {:.1} GiB, and it has {:.1} GiB of \
         memory and swap: choose smaller ones, or more machines",
        .ranks, if *.ranks == 1 { "" } else { "s" }, gib(*.needed_bytes), gib(*.installed_bytes)
    )]
    Memory {
        /// The ranks on this machine, as far as they are known.
        ranks: u32,
        /// Bytes that they need together.
        needed_bytes: u64,
        /// Bytes of the machine's memory and swap.
        installed_bytes: u64,
    },
    /// The job has more owners than an engine connects, [`MAX_OWNERS`].
    #[error("the job has {found} ranks, at most {MAX_OWNERS} can be connected: start fewer ranks")]
    TooManyOwners {
        /// The number of owners of the job.
        found: u32,
    },
    /// There is no such owner.
    #[error("there is no {0}")]
    NoOwner(Owner),
    /// The owner's engine was opened before; it can be opened only once.
    #[error("the engine of {0} was opened before; make a new cluster")]
    Taken(Owner),
    /// A call of the system failed.
    #[error("{call} failed with errno {errno}; {advice}")]
    System {
        /// The name of the system call.
        call: &'static str,
        /// The error number (errno(3)).
        errno: i32,
        /// Advice on what to do.
        advice: &'static str,
    },
    /// The dynamic loader cannot load a library: it is not installed, or one of its own dependencies
    /// is missing.
    #[cfg(feature = "dylib")]
    #[error(
        "cannot load {}: {}. If it is installed, LD_DEBUG=libs shows what is missing",
        text(.0.file), .0.if_missing
    )]
    Library(SharedLibrary),
    /// A library has no symbol of this name.
    #[cfg(feature = "dylib")]
    #[error("{} has no {}: {}", text(library.file), text(name), library.if_too_old)]
    Symbol {
        /// The library that was loaded.
        library: SharedLibrary,
        /// The missing symbol.
        name: &'static core::ffi::CStr,
    },
    /// The exchange failed.
    #[error("cannot agree with the other owners: {0}")]
    Exchange(#[from] ExchangeError),
    /// An owner was opened with other sizes or options than this one.
    #[error(
        "{owner} was opened with {theirs} {what}, this one with {mine}: start every owner with the \
         same options, such as the number of entries or keys, and the same build"
    )]
    Differs {
        /// The owner with other sizes or options.
        owner: Owner,
        /// The name of the value that differs.
        what: &'static str,
        /// This owner's value.
        mine: u64,
        /// The other owner's value.
        theirs: u64,
    },
    /// Another owner could not open its engine; its own error states why.
    #[error("{0} could not open its engine: see its own message")]
    PeerFailed(Owner),
}

impl SetupError {
    /// Checks that a number is from `min` to `max`.
    ///
    /// # Errors
    /// [`SetupError::Range`].
    pub const fn check(what: &'static str, found: u64, min: u64, max: u64) -> Result<(), Self> {
        if min <= found && found <= max {
            return Ok(());
        }
        Err(Self::Range { what, found, min, max })
    }

    /// The private memory of an engine exceeds this machine's memory or address space.
    pub const NO_SLOT_MEMORY: Self =
        Self::Sizes("no memory for the slots: choose fewer or shorter ones");
    /// The window is larger than a machine can address.
    pub const WINDOW_TOO_LARGE: Self =
        Self::Sizes("the window does not fit the address space: choose a smaller one");
}

#[allow(clippy::cast_precision_loss, reason = "for a message")]
fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}
