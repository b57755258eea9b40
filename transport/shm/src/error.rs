//! Errors of opening an engine.

use std::io;

use probeline_transport::Owner;
use probeline_transport::SetupError;
use thiserror::Error;

/// The reason why an engine could not be opened. If one owner fails, all do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The owners cannot open engines together.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The memory of this owner's window could not be allocated.
    #[error("cannot allocate this owner's window: {0}")]
    Memory(#[source] probeline_pin::Error),
    /// The lock that shows peers that this owner is alive could not be created.
    #[error("cannot make a robust process-shared mutex: {}", strerror(*errno))]
    Lock {
        /// The error of the pthread call.
        errno: i32,
    },
    /// The memory of an owner could not be opened.
    #[error(
        "cannot open the memory of {owner}, process {pid}: {}{}",
        strerror(*errno),
        advice(*errno)
    )]
    Unreachable {
        /// The owner whose memory could not be opened.
        owner: Owner,
        /// The process ID that it sent.
        pid: u64,
        /// The error of open(2) on `/proc/PID/fd/FD`.
        errno: i32,
    },
    /// The file that was opened is not the memory of the owner.
    #[error("process {pid} is not {owner}: run all owners on one machine in one PID namespace")]
    WrongMemory {
        /// The owner whose memory was expected.
        owner: Owner,
        /// The process ID that it sent.
        pid: u64,
    },
    /// The memory of an owner could not be mapped.
    #[error("cannot map the memory of {owner}: {source}")]
    PeerMemory {
        /// The owner whose memory could not be mapped.
        owner: Owner,
        /// The error of the failed call.
        source: probeline_pin::Error,
    },
}

fn strerror(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

/// Returns what to do about an error of open(2) on `/proc/PID/fd/FD`.
fn advice(errno: i32) -> &'static str {
    match errno {
        libc::EACCES | libc::EPERM => {
            "; run all owners as one user, none of them set-user-ID or with file capabilities"
        }
        libc::ENOENT => {
            "; run all owners on one machine in one PID namespace, with /proc mounted and showing \
             them (hidepid)"
        }
        libc::EMFILE | libc::ENFILE => "; raise `ulimit -n`",
        _ => "",
    }
}
