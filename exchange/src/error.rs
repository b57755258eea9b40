//! Errors of joining a job, with advice.

use core::fmt;
use core::net::SocketAddr;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use probeline_transport::SetupError;

use crate::difference::Difference;
use crate::launch::{Launch, Server};
use crate::limits::{MAX_PARAMETERS_BYTES, MAX_RANKS};
use crate::secret::{MAX_BYTES, MIN_BYTES, SECRET_VARIABLE};

/// Advice on the variables of a launcher.
const ADVICE: &str = "unset the variables of an earlier launch, or give rank and size as options";

/// The reason why a rank could not join its job, or why its job failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum JoinError {
    /// A job has 1 to [`MAX_RANKS`] ranks.
    #[error("a job has 1 to {MAX_RANKS} ranks, not {size}: choose a number in this range")]
    Size { size: u32 },
    /// The rank is not below the size.
    #[error(
        "rank {rank} does not exist in a job of {size}: give ranks from 0 to {}",
        .size.saturating_sub(1)
    )]
    RankOutOfRange { rank: u32, size: u32 },
    /// The parameters are longer than [`MAX_PARAMETERS_BYTES`].
    #[error(
        "the parameters are {bytes} bytes long, more than {MAX_PARAMETERS_BYTES}: shorten them"
    )]
    ParametersTooLong { bytes: usize },
    /// The rendezvous is not an address, or its host name is unknown.
    #[error("{address:?} is not a usable address ({error}): give HOST:PORT")]
    Address { address: String, error: io::Error },
    /// Other machines can connect to the rendezvous, which was not allowed.
    #[error(
        "other machines can connect to {address} ({resolved}): add --allow-remote to allow it, or \
         use 127.0.0.1"
    )]
    Remote { address: String, resolved: SocketAddr },
    /// Rank 0 cannot listen at the rendezvous.
    #[error(
        "rank 0 cannot listen at {address}: {error}. Give all ranks another port, at an address \
         of rank 0's machine"
    )]
    Listen { address: String, error: io::Error },
    /// Rank 0 did not answer in time.
    #[error(
        "rank 0 did not start the job at {address} within {after_s} s ({last}): check that it \
         runs and has the same address"
    )]
    Unreachable { address: String, after_s: u32, last: String },
    /// Another program listens at the rendezvous.
    #[error(
        "the program that listens at the address of rank 0 is not rank 0 of a job: give all ranks \
         another port"
    )]
    NotProbeline,
    /// Rank 0 runs another build of this library.
    #[error(
        "rank 0 runs another build of this library (its protocol is {theirs:08x}, this rank's \
         {mine:08x}): start the same build everywhere"
    )]
    Version { mine: u32, theirs: u32 },
    /// This rank and rank 0 have different secrets.
    #[error(
        "this rank's secret is not rank 0's: give all ranks the same {SECRET_VARIABLE} or secret \
         file"
    )]
    WrongSecret,
    /// Another process has joined as this rank.
    #[error(
        "another process has joined as rank {rank}: give every process its own rank, and every \
         job its own port"
    )]
    RankTaken { rank: u32 },
    /// Two ranks were given different sizes.
    #[error(
        "rank {peer} expects {theirs} ranks and this rank {mine}: give all ranks the same number"
    )]
    SizeDiffers { peer: u32, mine: u32, theirs: u32 },
    /// Two ranks have different parameters.
    #[error("rank {peer} has other parameters: {difference}. Start all ranks with the same ones")]
    ParametersDiffer { peer: u32, difference: Difference },
    /// Some ranks did not join in time.
    #[error(
        "{} did not come within {after_s} s. Read {} output, and check that every rank joins early, and has \
         the address of rank 0",
        Ranks(.ranks), possessive(.ranks.len())
    )]
    Missing { ranks: Vec<u32>, after_s: u32 },
    /// A rank joined, and ended or lost its connection before all ranks had joined.
    #[error("rank {rank} ended before all ranks had joined: read its output")]
    Left { rank: u32 },
    /// Ranks failed that this process had started, each with its exit status; `None` if it was still
    /// running and was killed.
    #[error(
        "{}: read {} output",
        .ranks.iter().map(outcome).collect::<Vec<_>>().join("; "),
        possessive(.ranks.len())
    )]
    RanksFailed { ranks: Vec<(u32, Option<ExitStatus>)> },
    /// Rank 0 ended the rendezvous.
    #[error("rank 0 failed: {reason}")]
    RankZeroFailed { reason: String },
    /// A system call failed.
    #[error("{doing} failed: {error}")]
    System { doing: &'static str, error: io::Error },
    /// The environment has no [`SECRET_VARIABLE`].
    #[error("no secret is given: set {SECRET_VARIABLE} for all ranks, or give a secret file")]
    NoSecret,
    /// The secret file cannot be read.
    #[error("cannot read the secret file {}: {error}", .path.display())]
    SecretFile { path: PathBuf, error: io::Error },
    /// Other users may read or write the secret file.
    #[error(
        "the secret file {0} has mode {mode:03o}, so other users may read it: chmod 600 {0}",
        .path.display()
    )]
    SecretExposed { path: PathBuf, mode: u32 },
    /// The length of the secret is not between 16 and 4096 bytes.
    #[error(
        "the secret has {bytes} bytes instead of {MIN_BYTES} to {MAX_BYTES}: create one with \
         openssl rand -hex 32"
    )]
    SecretLength { bytes: usize },
    /// The system has no random bytes.
    #[error("the system has no random bytes: check getrandom(2)")]
    NoRandom,
    /// The variables of a launcher are inconsistent.
    #[error("the environment has {found}: {ADVICE}")]
    Variables { found: String },
    /// No launcher has started this process, so its rank and size are unknown.
    #[error(
        "no launcher gives this process a rank: start it with mpirun or srun, join with \
         Options::auto(n) to start n ranks on this machine, or give rank and size"
    )]
    NotLaunched,
    /// The launcher runs no PMI server, and no rendezvous was given.
    #[error(
        "{} started this process as rank {} of {}, but serves neither PMIx nor PMI to it: enable \
         that, as srun --mpi=pmix does, or give all ranks --rendezvous HOST:PORT with the host of \
         rank 0, and {SECRET_VARIABLE}, as in {} --rendezvous 127.0.0.1:7000",
        .launch.launcher, .launch.rank, .launch.size, .launch.launcher.texts()[1]
    )]
    NoRendezvous { launch: Launch },
    /// A rank of a launcher's job was asked to spawn a job of its own.
    #[error(
        "{} started {} processes, and each was asked to start a job of its own: start one \
         process, or let the ranks join one job",
        .launch.launcher, .launch.size
    )]
    SpawnUnderLauncher { launch: Launch },
    /// A program that has joined a job was asked to spawn another.
    #[error(
        "this program has joined a job already, and the ranks that it starts are copies that run it \
         from its beginning, not from here: join once and keep the job, or start a program for each \
         job"
    )]
    SecondJob,
    /// A process could not be started.
    #[error("rank {rank} cannot be started: {error}")]
    Spawn { rank: u32, error: io::Error },
    /// A process started by this one ended before it joined.
    #[error("rank {rank} ended before it joined ({status}): read its output")]
    ChildExited { rank: u32, status: ExitStatus },
    /// The process that started this one has already ended.
    #[error("the process that started this one has ended")]
    Orphaned,
    /// The launcher's server did not answer in time, or some ranks did not use it.
    #[error(
        "not every rank joined by {server} within {after_s} s: read the output of the launcher \
         and of the other ranks"
    )]
    ServerTimeout { server: Server, after_s: u32 },
    /// The ranks run on several machines, and rank 0's machine has only loopback addresses.
    #[error(
        "the ranks run on several machines, but rank 0's machine has only loopback addresses: \
         check them with ip address"
    )]
    NoAddress,
    /// libpmix cannot be loaded.
    #[error(transparent)]
    Load(SetupError),
    /// No launcher with this server has started this process.
    #[error("this process has no {server} server: start it with {}", .server.launchers())]
    NoServer { server: Server },
    /// A call failed.
    #[error(
        "{call} failed: {words} ({status}): read the output of the launcher and of the other \
         ranks"
    )]
    Status { call: &'static str, status: i32, words: &'static str },
    /// A value that another rank or the launcher has published is malformed.
    #[error("{what} is malformed: start the same build everywhere")]
    Malformed { what: &'static str },
    /// A value is longer than the launcher accepts.
    #[error(
        "a value of {bytes} bytes is longer than the {max_bytes} bytes that the launcher accepts: \
         use PMIx, or give --rendezvous"
    )]
    TooLong { bytes: usize, max_bytes: usize },
    /// The launcher did not answer in time.
    #[error("the launcher did not answer in time: read its output")]
    TimedOut,
    /// The answer is not PMI-1.
    #[error(
        "the launcher does not speak PMI-1, it answered {line:?}: use PMIx, or give --rendezvous"
    )]
    Garbage { line: String },
    /// The launcher refused the request.
    #[error("the launcher refused a request: {line:?}")]
    Refused { line: String },
}

impl JoinError {
    /// Returns the error of a launcher that sets one variable and not another one.
    pub(crate) fn missing(set: &str, unset: &str) -> Self {
        Self::Variables { found: format!("{set} and no {unset}") }
    }

    /// Returns how to report the error of a system call.
    pub(crate) fn system<E: Into<io::Error>>(doing: &'static str) -> impl Fn(E) -> Self {
        move |error| Self::System { doing, error: error.into() }
    }
}

/// Returns "its" for one rank, "their" for several.
pub(crate) fn possessive(ranks: usize) -> &'static str {
    if ranks == 1 { "its" } else { "their" }
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

fn outcome((rank, status): &(u32, Option<ExitStatus>)) -> String {
    match status {
        Some(status) => format!("rank {rank} failed ({status})"),
        None => format!("rank {rank} did not end in time and was killed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_missing_ranks() {
        let message =
            |ranks: &[u32]| JoinError::Missing { ranks: ranks.to_vec(), after_s: 60 }.to_string();
        assert!(message(&[3]).starts_with("rank 3 did not come within 60 s. Read its output,"));
        let many: Vec<_> = (1..=18).collect();
        assert!(message(&many).contains(" 15, 16 and 2 more did not come within 60 s. Read their"));
    }
}
