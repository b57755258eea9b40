//! Clients of the process management interfaces of launchers. They provide a key-value store for
//! the processes of a job, and a fence, with which the ranks find each other.
//!
//! - [`Pmix`] connects to Open MPI's `mpirun` and to `srun --mpi=pmix`. It uses libpmix, which is
//!   loaded at run time, so that the same program runs on a machine without it.
//! - [`Pmi1`] connects to `mpiexec` of MPICH and its derivatives and to `srun --mpi=pmi2`. It sends
//!   lines of text over an inherited socket.
//!
//! Values cannot be removed: the launcher keeps them until the job ends. This crate is not used on
//! a data path.

mod bindings;
mod pmi1;
mod pmix;

use std::io;

pub use pmi1::{DESCRIPTOR_VARIABLE, Pmi1};
pub use pmix::{NAMESPACE_VARIABLE, Pmix};
pub use probeline_dylib::LoadError;

/// The key-value store of a job, in which its processes publish strings before they are connected.
pub trait KvStore {
    /// Puts a value of this process, which all processes can get after the next fence.
    ///
    /// Put each key only once: some launchers refuse a second value, and others keep the first one.
    /// Key and value are printable, without spaces and `=`; a key has at most 40 bytes.
    ///
    /// # Errors
    /// The value is too long, the launcher refused it, or it does not answer.
    fn put(&mut self, key: &str, value: &str) -> Result<(), PmiError>;

    /// Waits until all processes of the job have called `fence`.
    ///
    /// # Errors
    /// The launcher does not answer.
    fn fence(&mut self) -> Result<(), PmiError>;

    /// Returns the value that the process `rank` put before the last fence; `None` if there is none,
    /// because the process has ended.
    ///
    /// # Errors
    /// The launcher does not answer, or the value is not UTF-8.
    fn get(&mut self, rank: u32, key: &str) -> Result<Option<String>, PmiError>;
}

/// The reason why a call of a launcher's server failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum PmiError {
    /// libpmix cannot be loaded.
    #[error(transparent)]
    Load(LoadError),
    /// No launcher with a PMIx server has started this process.
    #[error(
        "this process has no PMIx server: start it with mpirun of Open MPI or with srun \
         --mpi=pmix"
    )]
    NoServer,
    /// A call failed.
    #[error(
        "{call} failed: {words} ({status}): read the output of the launcher and of the other \
         ranks"
    )]
    Status { call: &'static str, status: i32, words: &'static str },
    /// A value has an unexpected type.
    #[error("the PMIx value {key} has an unexpected type: start the same build everywhere")]
    Type { key: &'static str },
    /// The environment has no [`DESCRIPTOR_VARIABLE`].
    #[error(
        "{DESCRIPTOR_VARIABLE} is not set: start this program with mpiexec of MPICH or with srun \
         --mpi=pmi2"
    )]
    Unset,
    /// The variable is not the number of an open socket.
    #[error(
        "{DESCRIPTOR_VARIABLE}={value} is not a socket of a launcher ({error}): start the command \
         directly by the launcher, or unset the variable"
    )]
    NotOpen { value: String, error: io::Error },
    /// A value is longer than the launcher accepts.
    #[error(
        "a value of {bytes} bytes is longer than the {max_bytes} bytes that the launcher accepts: \
         use PMIx, or give --rendezvous"
    )]
    TooLong { bytes: usize, max_bytes: usize },
    /// The launcher did not answer in time.
    #[error("the launcher did not answer in time: read its output")]
    TimedOut,
    /// The launcher has closed the connection.
    #[error("the launcher has closed its socket: read its output")]
    Closed,
    /// The answer is not PMI-1.
    #[error(
        "the launcher does not speak PMI-1, it answered {line:?}: use PMIx, or give --rendezvous"
    )]
    Garbage { line: String },
    /// The launcher refused the request.
    #[error("the launcher refused a request: {line:?}")]
    Refused { line: String },
    /// The socket failed.
    #[error("the socket to the launcher failed: {0}")]
    Io(#[from] io::Error),
}
