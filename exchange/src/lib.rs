//! Who is in the job, and the collective calls made before and between phases of one-sided work.
//!
//! [`join`] is the one entry of an application. It makes an [`Exchange`](probeline_transport::Exchange) of
//! processes that this one starts, that mpirun or srun has started, or that were started by hand,
//! all of which meet over TCP and prove to each other that they know a shared secret ([`Tcp`]).
//! [`threads`] is the same for threads of one process, with nothing to prove.
//!
//! Where the launcher serves PMIx or PMI ([`Server`]), rank 0 tells the others by that where it
//! listens, and the secret: nobody has to give an address, a port or a secret.
//!
//! ```text
//! mpirun -n 4 COMMAND                 Open MPI: PMIx
//! mpiexec -n 4 COMMAND                MPICH and its kin: PMI-1
//! srun -K --mpi=pmix -n 4 COMMAND     Slurm: PMIx
//! srun -K --mpi=pmi2 -n 4 COMMAND     Slurm: PMI-1
//! ```
//! With `-K`, srun ends all ranks when one is killed or fails, as mpirun and mpiexec do; without it
//! they learn of a lost rank from each other, in their next call.
//! Both lines were tried with Slurm 22.05 and libpmix 4.2 of Debian 12, munged, slurmctld and one
//! slurmd with `-N localhost` on the loopback interface of one machine, three ranks of
//! `examples/job.rs` each: they met, and after a rank was killed or failed no other was left.
//!
//! Nothing here is on the data path.
#![forbid(unsafe_code)]

mod abort;
mod board;
mod bounds;
mod callers;
mod error;
mod frame;
mod handshake;
mod hub;
mod job;
mod launcher;
mod link;
mod member;
mod notice;
mod rendezvous;
mod secret;
mod served;
mod spawn;
mod tcp;
mod terms;
mod threads;
mod wire;

#[cfg(test)]
mod rendezvous_tests;
#[cfg(test)]
mod tcp_tests;

pub use error::{JoinError, Refusal, Refusals};
pub use job::{Job, Options, Start, join};
pub use launcher::{Launch, LaunchError, Launcher};
pub use link::{MAX_ALL_TO_ALL_BYTES, MAX_PARAMETERS_BYTES, MAX_RESULT_BYTES};
pub use rendezvous::Rendezvous;
pub use secret::{SECRET_VARIABLE, Secret, SecretError};
pub use served::Server;
pub use spawn::{Children, spawn};
pub use tcp::Tcp;
pub use terms::{Difference, Limits, MAX_RANKS, Terms};
pub use threads::{THREADS_LIMIT, Thread, threads, threads_within};
