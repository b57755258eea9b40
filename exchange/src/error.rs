//! Why a rank could not join its job, and what to do about it.

use core::error::Error;
use core::fmt;
use core::net::SocketAddr;
use std::io;
use std::process::ExitStatus;

use probeline_pmi::{Pmi1Error, PmixError};

use crate::callers::HANDSHAKE_LIMIT;
use crate::launcher::{Launch, LaunchError};
use crate::link::MAX_PARAMETERS_BYTES;
use crate::secret::{SECRET_VARIABLE, SecretError};
use crate::served::Server;
use crate::terms::{Difference, MAX_RANKS};

/// Why a rank could not join its job.
#[derive(Debug)]
#[non_exhaustive]
pub enum JoinError {
    /// A job has 1 to [`MAX_RANKS`] ranks.
    Size {
        /// What was asked for.
        size: u32,
    },
    /// Ranks count from 0 to one below the size.
    RankOutOfRange {
        /// The rank.
        rank: u32,
        /// How many there are.
        size: u32,
    },
    /// Longer than [`MAX_PARAMETERS_BYTES`].
    ParametersTooLong {
        /// How long they are.
        bytes: usize,
    },
    /// The address is none, or its host has no name.
    Address {
        /// As it was given.
        address: String,
        /// Why not.
        error: io::Error,
    },
    /// The address can be reached from elsewhere, and that was not allowed.
    Remote {
        /// As it was given.
        address: String,
        /// What it means.
        resolved: SocketAddr,
    },
    /// Rank 0 cannot listen there.
    Listen {
        /// As it was given.
        address: String,
        /// Why not.
        error: io::Error,
    },
    /// Rank 0 did not answer in time.
    Unreachable {
        /// Where.
        address: String,
        /// How long it was tried, in seconds.
        after_s: u32,
        /// What happened to the last try.
        last: String,
    },
    /// Something else listens there.
    NotProbeline {
        /// Where.
        address: String,
    },
    /// Rank 0 runs another version of the protocol.
    Version {
        /// This side's.
        mine: u32,
        /// The other side's.
        theirs: u32,
    },
    /// This rank and rank 0 were given different secrets.
    WrongSecret,
    /// There is such a rank already.
    RankTaken {
        /// Which.
        rank: u32,
    },
    /// The limit of open files is too low for the sockets of rank 0.
    OpenFiles {
        /// Open files that rank 0 needs.
        needed: u64,
        /// The hard limit of open files.
        limit: u64,
    },
    /// Two ranks were told different sizes.
    SizeDiffers {
        /// The other rank.
        peer: u32,
        /// What this one was told.
        mine: u32,
        /// What the other one was told.
        theirs: u32,
    },
    /// Two ranks have different parameters.
    ParametersDiffer {
        /// The other rank.
        peer: u32,
        /// The first field that differs.
        difference: Difference,
    },
    /// Not all ranks came in time.
    Missing {
        /// Which ones did not.
        ranks: Vec<u32>,
        /// How long they were waited for, in seconds.
        after_s: u32,
        /// Who came and was not let in.
        refusals: Refusals,
    },
    /// A rank had come, and ended or lost its connection before all the others had.
    Left {
        /// Which.
        rank: u32,
    },
    /// Rank 0 ended the rendezvous.
    GaveUp {
        /// In its words.
        reason: String,
    },
    /// The system refused something.
    System {
        /// What.
        doing: &'static str,
        /// Why.
        error: io::Error,
    },
    /// There is no usable secret.
    Secret(SecretError),
    /// The environment of a launcher makes no sense.
    Launch(LaunchError),
    /// A launcher was to tell rank and size, and none is there.
    NotLaunched,
    /// A launcher tells rank and size, and nobody told where to meet.
    NoRendezvous {
        /// What the launcher says.
        launch: Launch,
    },
    /// Every rank of a launcher's job was asked to spawn a job of its own.
    SpawnUnderLauncher {
        /// What the launcher says.
        launch: Launch,
    },
    /// A process could not be started.
    Spawn {
        /// Which rank it was to be.
        rank: u32,
        /// Why not.
        error: io::Error,
    },
    /// A process that this one started ended before it had joined.
    ChildExited {
        /// Which rank it was to be.
        rank: u32,
        /// How it ended.
        status: ExitStatus,
    },
    /// The process that started this one has already ended.
    Orphaned,
    /// The launcher's server did not answer in time, or not all ranks came.
    Late {
        /// What it serves.
        server: Server,
        /// How long it was waited for, in seconds.
        after_s: u32,
    },
    /// The ranks are on several machines, and rank 0's has no address that others may reach.
    NoAddress,
    /// Rank 0 left something with the launcher that does not say where to meet.
    BadNotice,
    /// PMIx says no.
    Pmix(PmixError),
    /// PMI says no.
    Pmi(Pmi1Error),
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size { size } => {
                write!(
                    f,
                    "a job has 1 to {MAX_RANKS} ranks, not {size}: choose a number in this range"
                )
            }
            Self::RankOutOfRange { rank, size } => {
                write!(f, "there is no rank {rank} among {size}: ranks count from 0")
            }
            Self::ParametersTooLong { bytes } => {
                write!(f, "the parameters have {bytes} bytes, and {MAX_PARAMETERS_BYTES} at most")
            }
            Self::Address { address, error } => {
                write!(f, "{address:?} is no address to meet at ({error}): give HOST:PORT")
            }
            Self::Remote { address, resolved } => write!(
                f,
                "{address} is {resolved}, which other machines may reach: traffic there is \
                 authenticated, not encrypted. Add --allow-remote if that is wanted, or use \
                 127.0.0.1"
            ),
            Self::Listen { address, error } => write!(
                f,
                "rank 0 cannot listen at {address}: {error}. Give all ranks another port, at an \
                 address of rank 0's machine"
            ),
            Self::Unreachable { address, after_s, last } => write!(
                f,
                "rank 0 did not start the job at {address} within {after_s} s ({last}): see that it \
                 runs, and was told the same address"
            ),
            Self::NotProbeline { address } => write!(
                f,
                "what listens at {address} is not rank 0 of a job: give all ranks another port"
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
                "rank {rank} is already taken: give every process a rank of its own, or a new job \
                 a new port"
            ),
            Self::OpenFiles { needed, limit } => write!(
                f,
                "rank 0 needs {needed} open files, including a socket for each rank, but its limit \
                 is {limit}: raise it with ulimit -n {needed}, or start fewer ranks"
            ),
            Self::SizeDiffers { peer, mine, theirs } => write!(
                f,
                "rank {peer} was told of {theirs} ranks and this rank of {mine}: give all the same \
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
                f.write_str(". See what they say, and that they were told this address")
            }
            Self::Left { rank } => {
                write!(f, "rank {rank} ended before all had come: see what it says")
            }
            Self::GaveUp { reason } => write!(f, "rank 0 gave up: {reason}"),
            Self::System { doing, error } => write!(f, "{doing}: {error}"),
            Self::Secret(error) => error.fmt(f),
            Self::Launch(error) => error.fmt(f),
            Self::NotLaunched => f.write_str(
                "no launcher tells this process its rank: start it with mpirun or srun, or give \
                 rank and size",
            ),
            Self::NoRendezvous { launch } => write!(
                f,
                "{} started this as rank {} of {} and serves neither PMIx nor PMI, and nobody said \
                 where to meet: let it, as srun --mpi=pmix does, or give all ranks --rendezvous \
                 HOST:PORT, HOST being rank 0's machine, and {SECRET_VARIABLE}, as in {} \
                 --rendezvous 127.0.0.1:7000",
                launch.launcher,
                launch.rank,
                launch.size,
                launch.launcher.example()
            ),
            Self::SpawnUnderLauncher { launch } => write!(
                f,
                "{} started {} processes and each was asked to start a job of its own: either \
                 start one process, or let the ranks meet each other",
                launch.launcher, launch.size
            ),
            Self::Spawn { rank, error } => write!(f, "rank {rank} cannot be started: {error}"),
            Self::ChildExited { rank, status } => {
                write!(f, "rank {rank} ended before it had joined ({status}): see what it says")
            }
            Self::Orphaned => f.write_str("the process that started this one has ended"),
            Self::Late { server, after_s } => write!(
                f,
                "not every rank came by {server} within {after_s} s: see what the launcher and the \
                 other ranks say"
            ),
            Self::NoAddress => f.write_str(
                "the ranks are on several machines, and rank 0's has no address but loopback: see \
                 what ip address says there",
            ),
            Self::BadNotice => f.write_str(
                "what rank 0 left with the launcher does not say where to meet: start the same \
                 build everywhere",
            ),
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

/// More ranks than this are counted, not named.
const NAMED_RANKS: usize = 16;

/// "rank 3", "ranks 3, 5, 8", and after the first sixteen "and 7 more".
struct Ranks<'a>(&'a [u32]);

impl fmt::Display for Ranks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.len() == 1 { "rank " } else { "ranks " })?;
        for (index, rank) in self.0.iter().take(NAMED_RANKS).enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{rank}")?;
        }
        match self.0.len().saturating_sub(NAMED_RANKS) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Why rank 0 did not let a connection in, without ending the job for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// It spoke something else.
    Garbage,
    /// It did not finish the handshake in time.
    Silent,
    /// The connection was evicted for a newer one before it proved that it is a rank.
    Evicted,
    /// It closed before the handshake was over.
    Closed,
    /// It spoke another version.
    OtherVersion,
    /// It did not know the secret.
    WrongSecret,
    /// It wanted a rank that somebody has.
    RankTaken,
    /// It wanted a rank that there is not.
    OutOfRange,
}

impl Refusal {
    const ALL: [Self; 8] = [
        Self::Garbage,
        Self::Silent,
        Self::Evicted,
        Self::Closed,
        Self::OtherVersion,
        Self::WrongSecret,
        Self::RankTaken,
        Self::OutOfRange,
    ];
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Garbage => f.write_str("not a rank of any job"),
            Self::Silent => {
                write!(f, "no complete handshake within {} s", HANDSHAKE_LIMIT.as_secs())
            }
            Self::Evicted => f.write_str("evicted before it proved to be a rank"),
            Self::Closed => f.write_str("closed during the handshake"),
            Self::OtherVersion => f.write_str("another version"),
            Self::WrongSecret => f.write_str("wrong secret"),
            Self::RankTaken => f.write_str("a rank already taken"),
            Self::OutOfRange => f.write_str("a rank that does not exist"),
        }
    }
}

/// How many connections rank 0 did not let in, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals([u32; Refusal::ALL.len()]);

impl Refusals {
    /// How many for this reason.
    #[must_use]
    pub fn count(&self, reason: Refusal) -> u32 {
        self.0[reason as usize]
    }

    /// How many in all.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.0.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    pub(crate) fn add(&mut self, reason: Refusal) {
        let count = &mut self.0[reason as usize];
        *count = count.saturating_add(1);
    }
}

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for reason in Refusal::ALL {
            let count = self.count(reason);
            if count > 0 {
                let plural = if count == 1 { "" } else { "s" };
                write!(f, "{separator}{count} connection{plural} refused: {reason}")?;
                separator = "; ";
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_and_who_was_refused_is_told() {
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

    #[test]
    fn every_reason_has_a_counter_of_its_own() {
        for (index, reason) in Refusal::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
        }
    }
}
