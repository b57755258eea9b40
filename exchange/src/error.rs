//! Errors of joining a job, with advice.

use core::error::Error;
use core::fmt;
use core::net::SocketAddr;
use std::io;
use std::process::ExitStatus;

use probeline_pmi::{Pmi1Error, PmixError};

use crate::launch::{Launch, LaunchError, Server};
use crate::limits::{MAX_PARAMETERS_BYTES, MAX_RANKS};
use crate::refusal::Refusals;
use crate::secret::{SECRET_VARIABLE, SecretError};
use crate::spec::Difference;

/// The reason why a rank could not join its job.
#[derive(Debug)]
#[non_exhaustive]
pub enum JoinError {
    /// A job has 1 to [`MAX_RANKS`] ranks.
    Size {
        /// The requested number of ranks.
        size: u32,
    },
    /// The rank is not below the size.
    RankOutOfRange {
        /// This rank.
        rank: u32,
        /// The number of ranks.
        size: u32,
    },
    /// The parameters are longer than [`MAX_PARAMETERS_BYTES`].
    ParametersTooLong {
        /// Their length.
        bytes: usize,
    },
    /// The rendezvous is not an address, or its host name is unknown.
    Address {
        /// The rendezvous as given.
        address: String,
        /// The cause.
        error: io::Error,
    },
    /// Other machines can connect to the rendezvous, which was not allowed.
    Remote {
        /// The rendezvous as given.
        address: String,
        /// The resolved address.
        resolved: SocketAddr,
    },
    /// Rank 0 cannot listen at the rendezvous.
    Listen {
        /// The rendezvous as given.
        address: String,
        /// The cause.
        error: io::Error,
    },
    /// Rank 0 did not answer in time.
    Unreachable {
        /// The rendezvous as given.
        address: String,
        /// The time limit in seconds.
        after_s: u32,
        /// The error of the last attempt.
        last: String,
    },
    /// Another program listens at the rendezvous.
    NotProbeline {
        /// The rendezvous as given.
        address: String,
    },
    /// Rank 0 speaks another version of the protocol.
    Version {
        /// This rank's version.
        mine: u32,
        /// Rank 0's version.
        theirs: u32,
    },
    /// This rank and rank 0 have different secrets.
    WrongSecret,
    /// Another process has joined as this rank.
    RankTaken {
        /// This rank.
        rank: u32,
    },
    /// The limit of open files is too low for the sockets of rank 0.
    OpenFiles {
        /// Open files that rank 0 needs.
        needed: u64,
        /// The hard limit of open files.
        limit: u64,
    },
    /// Two ranks were given different sizes.
    SizeDiffers {
        /// The other rank.
        peer: u32,
        /// This rank's size.
        mine: u32,
        /// The other rank's size.
        theirs: u32,
    },
    /// Two ranks have different parameters.
    ParametersDiffer {
        /// The other rank.
        peer: u32,
        /// The first field that differs.
        difference: Difference,
    },
    /// Some ranks did not join in time.
    Missing {
        /// These ranks.
        ranks: Vec<u32>,
        /// The time limit in seconds.
        after_s: u32,
        /// The connections that rank 0 refused.
        refusals: Refusals,
    },
    /// A rank joined, and ended or lost its connection before all ranks had joined.
    Left {
        /// This rank.
        rank: u32,
    },
    /// Rank 0 ended the rendezvous.
    RankZeroFailed {
        /// The error on rank 0.
        reason: String,
    },
    /// A system call failed.
    System {
        /// The action that failed.
        doing: &'static str,
        /// The cause.
        error: io::Error,
    },
    /// There is no usable secret.
    Secret(SecretError),
    /// The environment variables of a launcher are inconsistent.
    Launch(LaunchError),
    /// No launcher has started this process, so its rank and size are unknown.
    NotLaunched,
    /// The launcher runs no PMI server, and no rendezvous was given.
    NoRendezvous {
        /// This process's place in the launcher's job.
        launch: Launch,
    },
    /// A rank of a launcher's job was asked to spawn a job of its own.
    SpawnUnderLauncher {
        /// This process's place in the launcher's job.
        launch: Launch,
    },
    /// A process could not be started.
    Spawn {
        /// Its rank.
        rank: u32,
        /// The cause.
        error: io::Error,
    },
    /// A process started by this one ended before it joined.
    ChildExited {
        /// Its rank.
        rank: u32,
        /// Its exit status.
        status: ExitStatus,
    },
    /// The process that started this one has already ended.
    Orphaned,
    /// The launcher's server did not answer in time, or some ranks did not use it.
    ServerTimeout {
        /// The protocol of the server.
        server: Server,
        /// The time limit in seconds.
        after_s: u32,
    },
    /// The ranks run on several machines, and rank 0's machine has only loopback addresses.
    NoAddress,
    /// Rank 0's business card is malformed.
    BadBusinessCard,
    /// A call of PMIx failed.
    Pmix(PmixError),
    /// A call of PMI-1 failed.
    Pmi(Pmi1Error),
}

impl fmt::Display for JoinError {
    #[expect(clippy::too_many_lines, reason = "one arm for each error")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size { size } => {
                write!(
                    f,
                    "a job has 1 to {MAX_RANKS} ranks, not {size}: choose a number in this range"
                )
            }
            Self::RankOutOfRange { rank, size } => write!(
                f,
                "rank {rank} does not exist in a job of {size}: give ranks from 0 to {}",
                size.saturating_sub(1)
            ),
            Self::ParametersTooLong { bytes } => write!(
                f,
                "the parameters are {bytes} bytes long, more than {MAX_PARAMETERS_BYTES}: shorten \
                 them"
            ),
            Self::Address { address, error } => {
                write!(f, "{address:?} is not a usable address ({error}): give HOST:PORT")
            }
            Self::Remote { address, resolved } => write!(
                f,
                "other machines can connect to {address} ({resolved}): add --allow-remote to allow \
                 it, or use 127.0.0.1"
            ),
            Self::Listen { address, error } => write!(
                f,
                "rank 0 cannot listen at {address}: {error}. Give all ranks another port, at an \
                 address of rank 0's machine"
            ),
            Self::Unreachable { address, after_s, last } => write!(
                f,
                "rank 0 did not start the job at {address} within {after_s} s ({last}): check that \
                 it runs and has the same address"
            ),
            Self::NotProbeline { address } => write!(
                f,
                "the program that listens at {address} is not rank 0 of a job: give all ranks \
                 another port"
            ),
            Self::Version { mine, theirs } => write!(
                f,
                "rank 0 speaks version {theirs} of the rendezvous and this rank version {mine}: \
                 start the same build everywhere"
            ),
            Self::WrongSecret => write!(
                f,
                "this rank's secret is not rank 0's: give all ranks the same {SECRET_VARIABLE} or \
                 secret file"
            ),
            Self::RankTaken { rank } => write!(
                f,
                "another process has joined as rank {rank}: give every process its own rank, and \
                 every job its own port"
            ),
            Self::OpenFiles { needed, limit } => write!(
                f,
                "rank 0 needs {needed} open files, including a socket for each rank, but its limit \
                 is {limit}: raise it with ulimit -n {needed}, or start fewer ranks"
            ),
            Self::SizeDiffers { peer, mine, theirs } => write!(
                f,
                "rank {peer} expects {theirs} ranks and this rank {mine}: give all ranks the same \
                 number"
            ),
            Self::ParametersDiffer { peer, difference } => write!(
                f,
                "rank {peer} has other parameters: {difference}. Start all ranks with the same ones"
            ),
            Self::Missing { ranks, after_s, refusals } => {
                write!(f, "{} did not come within {after_s} s", Ranks(ranks))?;
                if refusals.total() > 0 {
                    write!(f, "; {refusals}")?;
                }
                f.write_str(". Read their output, and check that they have this rank's address")
            }
            Self::Left { rank } => {
                write!(f, "rank {rank} ended before all ranks had joined: read its output")
            }
            Self::RankZeroFailed { reason } => write!(f, "rank 0 failed: {reason}"),
            Self::System { doing, error } => write!(f, "{doing} failed: {error}"),
            Self::Secret(error) => error.fmt(f),
            Self::Launch(error) => error.fmt(f),
            Self::NotLaunched => f.write_str(
                "no launcher gives this process a rank: start it with mpirun or srun, or give rank \
                 and size",
            ),
            Self::NoRendezvous { launch } => write!(
                f,
                "{} started this process as rank {} of {}, but serves neither PMIx nor PMI to it: \
                 enable that, as srun --mpi=pmix does, or give all ranks --rendezvous HOST:PORT \
                 with the host of rank 0, and {SECRET_VARIABLE}, as in {} --rendezvous \
                 127.0.0.1:7000",
                launch.launcher,
                launch.rank,
                launch.size,
                launch.launcher.example()
            ),
            Self::SpawnUnderLauncher { launch } => write!(
                f,
                "{} started {} processes, and each was asked to start a job of its own: start one \
                 process, or let the ranks join one job",
                launch.launcher, launch.size
            ),
            Self::Spawn { rank, error } => write!(f, "rank {rank} cannot be started: {error}"),
            Self::ChildExited { rank, status } => {
                write!(f, "rank {rank} ended before it joined ({status}): read its output")
            }
            Self::Orphaned => f.write_str("the process that started this one has ended"),
            Self::ServerTimeout { server, after_s } => write!(
                f,
                "not every rank joined by {server} within {after_s} s: read the output of the \
                 launcher and of the other ranks"
            ),
            Self::NoAddress => f.write_str(
                "the ranks run on several machines, but rank 0's machine has only loopback \
                 addresses: check them with ip address",
            ),
            Self::BadBusinessCard => {
                f.write_str("rank 0 published a malformed address: start the same build everywhere")
            }
            Self::Pmix(error) => error.fmt(f),
            Self::Pmi(error) => error.fmt(f),
        }
    }
}

impl Error for JoinError {}

impl From<SecretError> for JoinError {
    fn from(error: SecretError) -> Self {
        Self::Secret(error)
    }
}

impl From<PmixError> for JoinError {
    fn from(error: PmixError) -> Self {
        Self::Pmix(error)
    }
}

impl From<Pmi1Error> for JoinError {
    fn from(error: Pmi1Error) -> Self {
        Self::Pmi(error)
    }
}

impl From<LaunchError> for JoinError {
    fn from(error: LaunchError) -> Self {
        Self::Launch(error)
    }
}

/// The maximum number of missing ranks that a message lists.
const MAX_LISTED_RANKS: usize = 16;

/// "rank 3"; "ranks 3, 5, 8"; more than [`MAX_LISTED_RANKS`] end in "and 7 more".
struct Ranks<'a>(&'a [u32]);

impl fmt::Display for Ranks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.len() == 1 { "rank " } else { "ranks " })?;
        for (index, rank) in self.0.iter().take(MAX_LISTED_RANKS).enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{rank}")?;
        }
        match self.0.len().saturating_sub(MAX_LISTED_RANKS) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::Refusal;

    #[test]
    fn missing_ranks_and_refusals_are_listed() {
        let mut refusals = Refusals::default();
        let message = |ranks: &[u32], refusals| {
            JoinError::Missing { ranks: ranks.to_vec(), after_s: 60, refusals }.to_string()
        };
        assert!(message(&[3], refusals).starts_with("rank 3 did not come within 60 s. "));
        let many: Vec<_> = (1..=18).collect();
        assert!(message(&many, refusals).contains(" 15, 16 and 2 more did not come"));
        refusals.add(Refusal::WrongSecret);
        refusals.add(Refusal::WrongSecret);
        refusals.add(Refusal::Garbage);
        assert_eq!(refusals.total(), 3);
        let message = message(&[1, 3], refusals);
        assert!(
            message.starts_with(
                "ranks 1, 3 did not come within 60 s; 1 connection refused: not a rank of any job; \
                 2 connections refused: wrong secret."
            ),
            "{message}"
        );
    }
}
