//! Errors of opening an engine.

use core::error::Error;
use core::fmt;
use std::io;

use probeline_engine::SetupError;
use probeline_pin::MappingError;
use probeline_transport::Owner;

/// Why an engine could not be opened. If one owner fails, all do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// The owners cannot open engines together.
    Setup(SetupError),
    /// The memory of this owner's window could not be allocated.
    Memory(MappingError),
    /// The lock that shows peers that this owner is alive could not be created.
    Lock {
        /// The error of the pthread call.
        errno: i32,
    },
    /// The memory of an owner could not be opened.
    Unreachable {
        /// The owner.
        owner: Owner,
        /// The process ID that it sent.
        pid: u64,
        /// The error of open(2) on `/proc/PID/fd/FD`.
        errno: i32,
    },
    /// The file that was opened is not the memory of the owner.
    WrongMemory {
        /// The owner.
        owner: Owner,
        /// The process ID that it sent.
        pid: u64,
    },
    /// The memory of an owner could not be mapped.
    PeerMemory {
        /// The owner.
        owner: Owner,
        /// The failed call.
        source: MappingError,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let strerror = |errno: &i32| io::Error::from_raw_os_error(*errno);
        match self {
            Self::Setup(error) => error.fmt(f),
            Self::Memory(source) => write!(f, "cannot allocate this owner's window: {source}"),
            Self::Lock { errno } => {
                write!(f, "cannot make a robust process-shared mutex: {}", strerror(errno))
            }
            Self::Unreachable { owner, pid, errno } => {
                write!(f, "cannot open the memory of {owner}, process {pid}: {}", strerror(errno))?;
                f.write_str(match *errno {
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
            Self::WrongMemory { owner, pid } => write!(
                f,
                "process {pid} is not {owner}: run all owners on one machine in one PID namespace"
            ),
            Self::PeerMemory { owner, source } => {
                write!(f, "cannot map the memory of {owner}: {source}")
            }
        }
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Setup(source) => source.source(),
            Self::Memory(source) | Self::PeerMemory { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<SetupError> for OpenError {
    fn from(error: SetupError) -> Self {
        Self::Setup(error)
    }
}
