//! Why an engine could not be opened, and what to do about it.

use core::error::Error;
use core::fmt;
use std::io;

use probeline_transport::{ExchangeError, Owner};
use probeline_ucx_sys::LoadError;

use super::CallFailed;

/// Why an engine could not be opened. When one owner fails, all do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// libucp could not be loaded.
    Library(LoadError),
    /// The builder's sizes are impossible, and how.
    Sizes(&'static str),
    /// UCX does not take a value.
    Setting {
        /// The variable, without `UCX_`.
        variable: &'static str,
        /// The value.
        value: String,
    },
    /// A variable of the environment says something else than the builder.
    Contradiction {
        /// The variable.
        variable: String,
        /// What it says.
        set: String,
        /// What the builder says.
        asked: String,
    },
    /// A GID index was asked for, and no transport in use has any.
    NoGid,
    /// A call of UCP failed.
    Call(CallFailed),
    /// UCX finds no way to an owner.
    NoWay {
        /// Whose.
        owner: Owner,
        /// What it may use, `all` without a choice.
        tls: String,
        /// What it said.
        source: CallFailed,
    },
    /// The first operations on an owner's window did not end in time.
    NotConnected {
        /// Whose.
        owner: Owner,
        /// The bound that passed, in seconds.
        after_s: u64,
    },
    /// The first operation on an owner's window failed.
    FirstFailed {
        /// Whose.
        owner: Owner,
        /// How.
        source: CallFailed,
    },
    /// What all owners have added to a word of this one's does not add up.
    SelfTest {
        /// What they have added.
        expected: u64,
        /// What there is.
        found: u64,
    },
    /// An owner of this machine cannot be watched.
    Watch {
        /// Whose.
        owner: Owner,
        /// Its process, as it says itself.
        pid: u32,
        /// The error of pidfd_open(2).
        errno: i32,
    },
    /// A thread for the other owners' operations, or for watching their processes, could not be
    /// started.
    Thread {
        /// The error of the system.
        errno: i32,
    },
    /// The exchange failed.
    Exchange(ExchangeError),
    /// An owner was opened with other sizes or modes than this one.
    Differs {
        /// Whose.
        owner: Owner,
        /// What differs.
        what: &'static str,
        /// This owner's value.
        mine: String,
        /// The other's.
        theirs: String,
    },
    /// Another owner could not open its engine; its own error says why.
    PeerFailed(Owner),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let strerror = |errno: &i32| io::Error::from_raw_os_error(*errno);
        match self {
            Self::Library(error) => error.fmt(f),
            Self::Sizes(what) => f.write_str(what),
            Self::Setting { variable, value } => write!(
                f,
                "UCX takes no {value:?} for UCX_{variable}: `ucx_info -cf` explains its values"
            ),
            Self::Contradiction { variable, set, asked } => write!(
                f,
                "the environment says {variable}={set}, but {asked} is asked for: unset the \
                 variable, or ask for the same"
            ),
            Self::NoGid => f.write_str(
                "a GID index is asked for, but no InfiniBand or RoCE transport is in use: choose \
                 one, such as rc, or leave the index out",
            ),
            Self::Call(failed) => failed.fmt(f),
            Self::NoWay { owner, tls, source } => {
                write!(f, "no way to {owner} over the transports {tls}: {source}")
            }
            Self::NotConnected { owner, after_s } => write!(
                f,
                "{owner} did not answer within {after_s} s: see that it still runs, that the \
                 device leads there (UCX_NET_DEVICES), and over RoCE that the GID does \
                 (UCX_IB_GID_INDEX)"
            ),
            Self::FirstFailed { owner, source } => {
                write!(f, "the first operation on the window of {owner} failed: {source}")
            }
            Self::SelfTest { expected, found } => write!(
                f,
                "atomics are not: {expected} owners added 1 to a word, which is {found} now; \
                 choose the other atomic mode, or other transports"
            ),
            Self::Watch { owner, pid, errno } => write!(
                f,
                "cannot watch {owner}, process {pid}: {}; run all owners of a machine as one user \
                 in one PID namespace, on Linux 5.3 or newer, and allow pidfd_open in containers",
                strerror(errno)
            ),
            Self::Thread { errno } => {
                write!(f, "cannot start a thread: {}", strerror(errno))?;
                f.write_str(
                    "; raise `ulimit -u`, or let callers progress, which needs one thread less",
                )
            }
            Self::Exchange(_) => f.write_str("cannot agree with the other owners"),
            Self::Differs { owner, what, mine, theirs } => write!(
                f,
                "{owner} was opened with {theirs} {what}, this one with {mine}: \
                 start every owner with the same options and the same build"
            ),
            Self::PeerFailed(owner) => {
                write!(f, "{owner} could not open its engine: see its own message")
            }
        }
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Exchange(source) => Some(source),
            _ => None,
        }
    }
}
