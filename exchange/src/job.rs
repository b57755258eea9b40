//! The one entry of an application: joins its job, however this process was started.

use core::time::Duration;
use std::env;
use std::ffi::OsString;
use std::process::ExitStatus;

use probeline_pmi::Pmi1;
use probeline_transport::{Exchange, ExchangeError, Owner};

use crate::bounds::deadline;
use crate::error::JoinError;
use crate::launcher::Launch;
use crate::rendezvous::Rendezvous;
use crate::secret::Secret;
use crate::served::Server;
use crate::spawn::{Children, spawn, spawned};
use crate::tcp::Tcp;
use crate::terms::{Limits, Terms};

/// How the ranks of a job come to be.
#[derive(Clone, Debug)]
pub enum Start {
    /// This process is rank 0 and starts the others on this machine; see [`spawn`].
    Spawn {
        /// How many ranks there are, this one included.
        ranks: u32,
        /// What the others are started with; `None` for what this process was started with.
        arguments: Option<Vec<OsString>>,
    },
    /// mpirun, mpiexec or srun has started all of them, and tells rank and size.
    Launched {
        /// Where to meet. `None` for what the launcher's own service says; if it has none, that is
        /// an error that says what to give.
        rendezvous: Option<Rendezvous>,
    },
    /// The same, by this service of the launcher.
    Served(Server),
    /// Somebody has started all of them, and has told each its place.
    Placed {
        /// This rank, from 0.
        rank: u32,
        /// How many there are.
        size: u32,
        /// Where to meet.
        rendezvous: Rendezvous,
    },
}

/// What [`join`] needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the ranks come to be.
    pub start: Start,
    /// What all ranks have to have alike; see [`Terms::parameters`].
    pub parameters: String,
    /// What all ranks know; `None` for what [`Secret::from_env`] finds, or by a launcher's service
    /// for what rank 0 makes. A job that spawns its ranks makes a secret of its own.
    pub secret: Option<Secret>,
    /// How long to wait.
    pub limits: Limits,
}

/// Joins the job.
///
/// In a process that [`spawn`] started this is known from its environment, whatever
/// [`Options::start`] says, so that the same command line serves all ranks.
///
/// # Errors
/// Why this rank cannot take part, and what to do about it.
pub fn join(options: Options) -> Result<Job, JoinError> {
    let Options { start, parameters, secret, limits } = options;
    let meet = |rank, size, secret: Option<Secret>, rendezvous: &Rendezvous, parameters| {
        let secret = secret.map_or_else(Secret::from_env, Ok)?;
        rendezvous.meet(&Terms { rank, size, parameters, secret, limits })
    };
    if let Some(launch) = Launch::by_probeline()? {
        let tcp = meet(launch.rank, launch.size, None, &spawned()?, parameters)?;
        return Ok(Job { tcp, children: None, launch: Some(launch), pmi: None });
    }
    match start {
        Start::Spawn { ranks, arguments } => {
            // Variables that make no sense are another launcher's business here.
            if let Ok(Some(launch @ Launch { size: 2.., .. })) = Launch::from_env() {
                return Err(JoinError::SpawnUnderLauncher { launch });
            }
            let arguments = arguments.unwrap_or_else(|| env::args_os().skip(1).collect());
            let (tcp, children) = spawn(ranks, arguments, parameters, limits)?;
            Ok(Job { tcp, children: Some(children), launch: None, pmi: None })
        }
        Start::Launched { rendezvous } => {
            let launch = Launch::from_env()?.ok_or(JoinError::NotLaunched)?;
            let (tcp, pmi) = match rendezvous {
                Some(at) => (meet(launch.rank, launch.size, secret, &at, parameters)?, None),
                None => {
                    let server = Server::of(&launch).ok_or(JoinError::NoRendezvous { launch })?;
                    server.meet(parameters, secret, limits)?
                }
            };
            Ok(Job { tcp, children: None, launch: Some(launch), pmi })
        }
        Start::Served(server) => {
            let (tcp, pmi) = server.meet(parameters, secret, limits)?;
            Ok(Job { tcp, children: None, launch: Launch::from_env().ok().flatten(), pmi })
        }
        Start::Placed { rank, size, rendezvous } => {
            let tcp = meet(rank, size, secret, &rendezvous, parameters)?;
            Ok(Job { tcp, children: None, launch: None, pmi: None })
        }
    }
}

/// How long a farewell to the launcher is waited for, which is one message and its answer.
const FAREWELL_LIMIT: Duration = Duration::from_secs(5);

/// One rank of a job. Dropping it leaves the job, and kills the processes it has started. To a
/// launcher by whose PMI the ranks have met that is a loss, for which it ends the others; a rank
/// that has done its part leaves by [`finish`](Self::finish).
#[derive(Debug)]
pub struct Job {
    // Dropped first, so that the others see rank 0 leave before they are killed.
    tcp: Tcp,
    children: Option<Children>,
    launch: Option<Launch>,
    /// Where leave is taken.
    pmi: Option<Pmi1>,
}

impl Job {
    /// What the launcher said of this process, such as its number on this machine.
    #[must_use]
    pub fn launch(&self) -> Option<Launch> {
        self.launch
    }

    /// Leaves the job and waits at most `limit` for the processes it has started, and five seconds
    /// for the launcher to take note: each process's rank and exit status, which is `None` for one that still ran and was killed.
    ///
    /// Call it after a last barrier; other ranks return an empty list at once.
    #[must_use]
    pub fn finish(self, limit: Duration) -> Vec<(u32, Option<ExitStatus>)> {
        drop(self.tcp);
        if let Some(mut pmi) = self.pmi {
            // Nobody is left who could do something about it.
            let _ = pmi.finalize(deadline(FAREWELL_LIMIT));
        }
        self.children.map(|children| children.wait(limit)).unwrap_or_default()
    }
}

impl Exchange for Job {
    fn me(&self) -> Owner {
        self.tcp.me()
    }

    fn owners(&self) -> u32 {
        self.tcp.owners()
    }

    fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), ExchangeError> {
        self.tcp.all_gather(mine, all)
    }

    fn all_to_all(&mut self, mine: &[u8], theirs: &mut [u8]) -> Result<(), ExchangeError> {
        self.tcp.all_to_all(mine, theirs)
    }

    fn barrier(&mut self) -> Result<(), ExchangeError> {
        self.tcp.barrier()
    }
}
