//! Clients of the process management interfaces of launchers. They provide a key-value store for
//! the processes of a job, and a fence, with which the ranks find each other.
//!
//! - [`Pmix`] connects to Open MPI's `mpirun` and to `srun --mpi=pmix`. It uses libpmix, which is
//!   loaded at run time, so that the same program runs on a machine without it.
//! - [`Pmi1`] connects to `mpiexec` of MPICH and its derivatives and to `srun --mpi=pmi2`. It sends
//!   lines of text over an inherited socket.
//!
//! Values cannot be removed: the launcher keeps them until the job ends. Nothing here is used on
//! a data path.

mod bindings;
mod pmi1;
mod pmix;

use crate::JoinError;
pub use pmi1::{DESCRIPTOR_VARIABLE, Pmi1};
pub use pmix::{NAMESPACE_VARIABLE, Pmix};

/// The key-value store of a job, in which its processes publish strings before they are connected.
pub trait KvStore {
    /// Puts a value of this process, which all processes can get after the next fence.
    ///
    /// Put each key only once: some launchers refuse a second value, and others keep the first one.
    /// Key and value are printable, without spaces and `=`; a key has at most 40 bytes.
    ///
    /// # Errors
    /// The value is too long, the launcher refused it, or it does not answer.
    fn put(&mut self, key: &str, value: &str) -> Result<(), JoinError>;

    /// Waits until all processes of the job have called `fence`.
    ///
    /// # Errors
    /// The launcher does not answer.
    fn fence(&mut self) -> Result<(), JoinError>;

    /// Returns the value that the process `rank` put before the last fence; `None` if there is none,
    /// because the process has ended.
    ///
    /// # Errors
    /// The launcher does not answer, or the value is not UTF-8.
    fn get(&mut self, rank: u32, key: &str) -> Result<Option<String>, JoinError>;
}
