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
mod library;
mod pmi1;
mod pmix;

pub use pmi1::{DESCRIPTOR_VARIABLE, Pmi1, Pmi1Error};
pub use pmix::{NAMESPACE_VARIABLE, Pmix, PmixError};
pub use probeline_dylib::LoadError;
