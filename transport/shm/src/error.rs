//! Why an engine could not be opened, and what to do about it.

use core::error::Error;
use core::fmt;
use std::io;

use probeline_pin::MappingError;
use probeline_transport::{ExchangeError, Owner};

/// Why an engine could not be opened. When one owner fails, all do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// The builder's sizes are impossible, and how.
    Sizes(&'static str),
    /// This owner's window could not be obtained.
    Memory(MappingError),
    /// The lock that tells peers that this owner lives could not be made.
    Lock {
        /// The error of the pthread call.
        errno: i32,
    },
    /// No random number for the window's identity.
    Random {
        /// The error of getrandom(2).
        errno: i32,
    },
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
    /// An owner's memory could not be opened.
    Unreachable {
        /// Whose.
        owner: Owner,
        /// Its process, as it says itself.
        pid: u64,
        /// The error of open(2) on `/proc/PID/fd/FD`.
        errno: i32,
    },
    /// What was found where an owner's memory should be is not its memory.
    Stranger {
        /// Whose.
        owner: Owner,
        /// Its process, as it says itself.
        pid: u64,
    },
    /// An owner's memory could not be mapped.
    PeerMemory {
        /// Whose.
        owner: Owner,
        /// Why.
        source: MappingError,
    },
    /// Another owner could not open its engine; its own error says why.
    PeerFailed(Owner),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let strerror = io::Error::from_raw_os_error;
        match *self {
            Self::Sizes(what) => f.write_str(what),
            Self::Memory(_) => f.write_str("cannot obtain this owner's window"),
            Self::Lock { errno } => {
                write!(f, "cannot make a robust process-shared mutex: {}", strerror(errno))
            }
            Self::Random { errno } => write!(f, "getrandom: {}", strerror(errno)),
            Self::Exchange(_) => f.write_str("cannot agree with the other owners"),
            Self::Differs { owner, what, mine, theirs } => write!(
                f,
                "{owner} was opened with {theirs} {what}, this one with {mine}: \
                 start every owner with the same sizes and the same build"
            ),
            Self::Unreachable { owner, pid, errno } => {
                write!(f, "cannot open the memory of {owner}, process {pid}: {}", strerror(errno))?;
                f.write_str(match errno {
                    libc::EACCES | libc::EPERM => {
                        "; run all owners as one user, none of them set-user-ID or with file \
                         capabilities"
                    }
                    libc::ENOENT => {
                        "; run all owners on one machine in one PID namespace, with /proc \
                         mounted and showing them (hidepid)"
                    }
                    libc::EMFILE | libc::ENFILE => "; raise `ulimit -n`",
                    _ => "",
                })
            }
            Self::Stranger { owner, pid } => write!(
                f,
                "process {pid} is not {owner}: run all owners on one machine in one PID namespace"
            ),
            Self::PeerMemory { owner, .. } => write!(f, "cannot map the memory of {owner}"),
            Self::PeerFailed(owner) => {
                write!(f, "{owner} could not open its engine: see its own message")
            }
        }
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Memory(source) | Self::PeerMemory { source, .. } => Some(source),
            Self::Exchange(source) => Some(source),
            _ => None,
        }
    }
}
