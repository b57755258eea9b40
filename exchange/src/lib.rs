//! Who is in the job, and the collective calls made before and between phases of one-sided work.
//!
//! [`join`] is the one entry of an application. It makes an [`Exchange`](transport::Exchange) of
//! processes that this one starts, that mpirun or srun has started, or that were started by hand,
//! all of which meet over TCP and prove to each other that they know a shared secret. [`threads`]
//! is the same for threads of one process, with nothing to prove.
//!
//! Nothing here is on the data path.
#![forbid(unsafe_code)]

mod abort;
mod bounds;
mod error;
mod frame;
mod handshake;
mod hub;
mod job;
mod launcher;
mod link;
mod member;
mod rendezvous;
mod secret;
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
pub use link::{MAX_PARAMETERS_BYTES, MAX_RESULT_BYTES};
pub use rendezvous::Rendezvous;
pub use secret::{SECRET_VARIABLE, Secret, SecretError};
pub use spawn::{Children, spawn};
pub use tcp::Tcp;
pub use terms::{Difference, Limits, MAX_RANKS, Terms};
pub use threads::{THREADS_LIMIT, Thread, threads, threads_within};
