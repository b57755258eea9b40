//! Joins the ranks of a job, and makes their collective calls before and between phases of one-sided
//! work.
//!
//! [`join`] makes a [`Job`]: an [`Exchange`](probeline_transport::Exchange) of processes that this
//! one starts, that mpirun or srun has started, or that were started by hand. They meet over TCP; a
//! shared secret authenticates and encrypts all traffic. [`threads`] makes the same of threads of
//! one process.
//!
//! Where the launcher runs a PMIx or PMI server ([`Server`]), rank 0 transmits its address and the
//! secret by it, so that neither address, port nor secret has to be given.
//!
//! ```text
//! mpirun -n 4 COMMAND                 Open MPI: PMIx
//! mpiexec -n 4 COMMAND                MPICH and its kin: PMI-1
//! srun -K --mpi=pmix -n 4 COMMAND     Slurm: PMIx
//! srun -K --mpi=pmi2 -n 4 COMMAND     Slurm: PMI-1
//! ```
//! With `-K`, srun ends all ranks when one is killed or fails, as mpirun and mpiexec do; without it
//! the ranks notice a lost rank in their next collective call. Both srun lines were tried with Slurm
//! 22.05 and libpmix 4.2 of Debian 12: munged, slurmctld and one slurmd with `-N localhost` on the
//! loopback interface of one machine, three ranks of `examples/job.rs`. They met, and after a rank
//! was killed or failed no other was left.
//!
//! Nothing here is on the data path.
#![forbid(unsafe_code)]

mod coordinator;
mod error;
mod handshake;
mod job;
mod kv_store;
mod launch;
mod limits;
mod link;
mod machine;
mod member;
mod pending;
mod refusal;
mod rendezvous;
mod secret;
mod server;
mod socket;
mod spawn;
mod spec;
mod tcp;
#[cfg(test)]
mod tests;
mod threads;

pub use error::JoinError;
pub use job::{Job, Options, RanksFailed, Start, join};
pub use launch::{Launch, LaunchError, Launcher, Server};
pub use limits::{Limits, MAX_ALL_TO_ALL_BYTES, MAX_PARAMETERS_BYTES, MAX_RANKS, MAX_RESULT_BYTES};
pub use machine::{addresses, host_name, machine_id};
pub use refusal::{Refusal, Refusals};
pub use rendezvous::Rendezvous;
pub use secret::{SECRET_VARIABLE, Secret, SecretError};
pub use spec::Difference;
pub use threads::{THREADS_LIMIT, Thread, threads, threads_within};
