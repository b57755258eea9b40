//! UCX and MPI RMA as transports, so that a structure can be compared over them.
mod error;
#[cfg(feature = "mpi")]
pub mod mpi;
pub mod ucx;

pub use error::OpenError;
pub use probeline_transport::SetupError;
