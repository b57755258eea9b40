//! Joins the ranks of a job, and makes the collective calls that precede and separate phases of
//! one-sided operations.
//!
//! [`join`] returns a [`Job`]: an [`Exchange`](probeline_transport::Exchange) of processes that
//! this one starts, that mpirun or srun has started, or that were started by hand. They connect
//! over TCP. A shared secret authenticates and encrypts all traffic. [`threads`] returns an
//! exchange of threads of one process.
//!
//! If the launcher runs a PMIx or PMI server ([`Server`]), rank 0 publishes its address and the
//! secret there, so that the user specifies neither address, port nor secret.
//!
//! ```text
//! mpirun -n 4 COMMAND                 Open MPI: PMIx
//! mpiexec -n 4 COMMAND                MPICH and its derivatives: PMI-1
//! srun -K --mpi=pmix -n 4 COMMAND     Slurm: PMIx
//! srun -K --mpi=pmi2 -n 4 COMMAND     Slurm: PMI-1
//! ```
//! With `-K`, srun terminates all ranks when one is killed or fails, as mpirun and mpiexec do.
//! Without it the ranks detect a lost rank in their next collective call. Both srun lines were
//! tested with Slurm 22.05 and libpmix 4.2 of Debian 12, with three ranks of `examples/job.rs`:
//! munged, slurmctld and one slurmd with the option `-N localhost` ran on the loopback interface of
//! one machine. The ranks connected, and after one was killed or failed, srun terminated all
//! others.
//!
//! This crate is not used on the data path.
#![deny(unsafe_code)]

mod abort;
mod coordinator;
mod difference;
mod error;
mod handshake;
mod job;
mod launch;
mod limits;
mod link;
mod machine;
mod member;
#[allow(unsafe_code, reason = "calls of libpmix, and the descriptor of PMI-1")]
pub mod pmi;
mod rendezvous;
mod secret;
mod server;
mod socket;
mod spawn;
mod spec;
mod tcp;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod threads;

pub use difference::Difference;
pub use error::JoinError;
pub use job::{Options, Start, join};
pub use launch::{Launch, Launcher, Server};
pub use limits::{Limits, MAX_ALL_TO_ALL_BYTES, MAX_PARAMETERS_BYTES, MAX_RANKS, MAX_RESULT_BYTES};
pub use machine::{addresses, host_name, machine_id};
pub use rendezvous::Rendezvous;
pub use secret::{SECRET_VARIABLE, Secret};
pub use tcp::Job;
pub use threads::{THREADS_LIMIT, Thread, threads, threads_within};
