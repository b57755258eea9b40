//! UCX and MPI RMA as transports, so that a structure can be compared over them.
#[cfg(feature = "mpi")]
pub mod mpi;
pub mod ucx;

mod memory;
mod ring;
mod setup;

pub use setup::{NeedsOwner, SetupError};
