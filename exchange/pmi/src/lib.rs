//! Clients of the process management interfaces of launchers: a key-value store of the processes of a
//! job, and a fence, by which ranks find each other.
//!
//! - [`Pmix`]: Open MPI's `mpirun` and `srun --mpi=pmix`, by libpmix, which is loaded at run time, so
//!   that the same program runs on a machine without it.
//! - [`Pmi1`]: `mpiexec` of MPICH and its derivatives and `srun --mpi=pmi2`, by lines of text over an
//!   inherited socket.
//!
//! Values cannot be removed: they stay with the launcher until the job ends. Nothing here is on a
//! data path.

mod bindings;
mod library;
mod pmi1;
mod pmix;

pub use pmi1::{DESCRIPTOR_VARIABLE, Pmi1, Pmi1Error};
pub use pmix::{NAMESPACE_VARIABLE, Pmix, PmixError};
pub use probeline_dylib::LoadError;
