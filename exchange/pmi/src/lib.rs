//! Clients of the process management interfaces that launchers serve to the processes they start:
//! keys and values that all processes of a job put and get, and a fence between the two.
//!
//! - [`Pmix`] is that of Open MPI's `mpirun` and of `srun --mpi=pmix`, through libpmix, which is
//!   loaded at run time: a machine without it runs the same program.
//! - [`Pmi1`] is that of `mpiexec` of MPICH and its kin and of `srun --mpi=pmi2`: lines of text over
//!   a socket which the process inherits.
//!
//! Neither gives a value back: what was put stays with the launcher until the job ends. They are for
//! the ranks of a job to find each other. Nothing here is on a data path.

mod bindings;
mod library;
mod pmi1;
mod pmix;

pub use pmi1::{DESCRIPTOR_VARIABLE, Pmi1, Pmi1Error};
pub use pmix::{NAMESPACE_VARIABLE, Pmix, PmixError};
pub use probeline_dylib::LoadError;
