//! UCX and MPI RMA as transports, so that a table can be compared over them.
#[cfg(feature = "mpi")]
pub mod mpi;
pub mod ucx;
