//! UCX and MPI RMA as transports, so that a structure can be compared over them.
#[cfg(feature = "mpi")]
pub mod mpi;
mod needs_owner;
pub mod ucx;

pub use needs_owner::NeedsOwner;
pub use probeline_transport::engine::SetupError;
