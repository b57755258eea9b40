//! The entry point of an application: joins its job, however this process was started.

use core::mem;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::env;
use std::ffi::OsString;

use crate::pmi::Pmi1;
use probeline_transport::{Call, Exchange, ExchangeError, Owner, Term};

use crate::error::JoinError;
use crate::launch::{Launch, Launcher, Server};
use crate::limits::{Limits, deadline};
use crate::rendezvous::Rendezvous;
use crate::secret::Secret;
use crate::server::join_by;
use crate::spawn::{spawn, spawned_rendezvous};
use crate::spec::JobSpec;
use crate::tcp::Tcp;

/// The way in which the ranks of a job are started.
#[derive(Clone, Debug)]
pub enum Start {
    /// As `Launched` if a launcher has started this process as one of several, else as `Spawn` with
    /// the arguments of this process. The same program then runs by itself, under mpirun and srun.
    Auto {
        /// The number of ranks if there is no launcher.
        ranks: u32,
        /// The rendezvous, for a launcher without a server. Without a launcher, one rank needs none,
        /// and joining fails for more, which do not know their ranks.
        rendezvous: Option<Rendezvous>,
    },
    /// This process is rank 0 and starts the others on this machine, as copies of its program.
    ///
    /// Each of them has to call [`join`] early. From then on the kernel kills it when the *thread*
    /// of rank 0 that called [`join`] exits for any reason, even if the copy has finished the job and
    /// works on. Call [`join`] from the main thread or from one that lives as long as the copies.
    ///
    /// A program spawns one job, because copies that it starts for a second one would run the part of
    /// the first. With other `arguments`, by which the copies tell their part, it may spawn several.
    Spawn {
        /// The number of ranks, this one included.
        ranks: u32,
        /// The arguments of the other ranks; `None` for those of this process.
        arguments: Option<Vec<OsString>>,
    },
    /// mpirun, mpiexec or srun has started all ranks, and sets rank and size.
    Launched {
        /// The rendezvous. `None` to get the address from the launcher's server; joining fails if
        /// there is none.
        rendezvous: Option<Rendezvous>,
    },
    /// As `Launched`, by this server of the launcher instead of the one that the environment
    /// names.
    Served(Server),
    /// All ranks were started by hand.
    Manual {
        /// This rank, from 0.
        rank: u32,
        /// The number of ranks of the job.
        size: u32,
        /// The rendezvous.
        rendezvous: Rendezvous,
    },
}

/// Options of [`join`]. The default is a job whose ranks a launcher has started.
///
/// ```no_run
/// use probeline_exchange::{Options, join};
///
/// // The ranks of mpirun or srun; without them, two on this machine.
/// let mut job = join(Options::auto(2))?;
/// println!("rank {} of {}", job.rank(), job.ranks());
/// # Ok::<(), probeline_exchange::JoinError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// The way in which the ranks are started.
    pub start: Start,
    /// Text that all ranks must have in common, such as `chunk_buckets=32 max_chunks=64`: fields
    /// separated by spaces, at most [`MAX_PARAMETERS_BYTES`](crate::MAX_PARAMETERS_BYTES) in all.
    /// Default: empty.
    pub parameters: String,
    /// The secret that all ranks have in common. Default: `None`, which selects
    /// [`Secret::from_env`], or with a launcher's server a secret that rank 0 creates. If this
    /// process spawns the ranks, it ignores this option and creates a secret.
    pub secret: Option<Secret>,
    /// Time limits.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            start: Start::Launched { rendezvous: None },
            parameters: String::new(),
            secret: None,
            limits: Limits::default(),
        }
    }
}

impl Options {
    /// Selects the ranks of a launcher, or `ranks` ranks on this machine if none has started this
    /// process: [`Start::Auto`].
    #[must_use]
    pub fn auto(ranks: u32) -> Self {
        Self { start: Start::Auto { ranks, rendezvous: None }, ..Self::default() }
    }

    /// Describes a job of `ranks` ranks on this machine, which this process starts with its own
    /// arguments.
    #[must_use]
    pub fn spawn(ranks: u32) -> Self {
        Self { start: Start::Spawn { ranks, arguments: None }, ..Self::default() }
    }
}

/// Whether this process has joined a job of several ranks.
static HAS_JOINED: AtomicBool = AtomicBool::new(false);

/// Joins the job.
///
/// In a process that rank 0 spawned, the environment overrides [`Options::start`], so that all
/// ranks can have the same command line. It does not override a start of one rank: such a job starts
/// no copies, and any process may join it before, beside and after another.
///
/// # Errors
/// The reason why this rank cannot take part, with advice. A process that rank 0 spawned can join no
/// second job of several ranks, and a process that has joined such a job can start no copies of itself.
pub fn join(options: Options) -> Result<Job, JoinError> {
    let Options { start, parameters, secret, limits } = options;
    let meet = |rank, size, secret: Option<Secret>, rendezvous: &Rendezvous, parameters| {
        let secret = secret.map_or_else(Secret::from_env, Ok)?;
        rendezvous.meet(&JobSpec { rank, size, parameters, secret, limits })
    };
    let of_job = |tcp: Tcp, launch, pmi| {
        if tcp.owners() > 1 {
            HAS_JOINED.store(true, Relaxed);
        }
        Ok(Job { tcp, launch, pmi })
    };
    let of_one = matches!(start, Start::Auto { ranks: 1, .. } | Start::Spawn { ranks: 1, .. });
    if let Some(launch) = Launch::by(Launcher::Probeline)? {
        if of_one {
            return of_job(spawn(1, &[], parameters, limits)?, None, None);
        }
        refuse_second_job()?;
        let tcp = meet(launch.rank, launch.size, None, &spawned_rendezvous()?, parameters)?;
        return of_job(tcp, Some(launch), None);
    }
    match start {
        Start::Auto { ranks, rendezvous } => {
            let start = match (Launch::of_several()?, rendezvous) {
                (Some(_), rendezvous) => Start::Launched { rendezvous },
                (None, Some(_)) if ranks > 1 => return Err(JoinError::NotLaunched),
                (None, _) => Start::Spawn { ranks, arguments: None },
            };
            join(Options { start, parameters, secret, limits })
        }
        Start::Spawn { ranks, arguments } => {
            // Inconsistent variables of a launcher do not matter here.
            if let Ok(Some(launch @ Launch { size: 2.., .. })) = Launch::from_env() {
                return Err(JoinError::SpawnUnderLauncher { launch });
            }
            if ranks > 1 && arguments.is_none() {
                refuse_second_job()?;
            }
            let arguments = arguments.unwrap_or_else(|| env::args_os().skip(1).collect());
            of_job(spawn(ranks, &arguments, parameters, limits)?, None, None)
        }
        Start::Launched { rendezvous } => {
            let launch = Launch::from_env()?.ok_or(JoinError::NotLaunched)?;
            let (tcp, pmi) = match rendezvous {
                Some(at) => (meet(launch.rank, launch.size, secret, &at, parameters)?, None),
                None => {
                    let server = Server::of(&launch).ok_or(JoinError::NoRendezvous { launch })?;
                    join_by(server, parameters, secret, limits)?
                }
            };
            of_job(tcp, Some(launch), pmi)
        }
        Start::Served(server) => {
            let (tcp, pmi) = join_by(server, parameters, secret, limits)?;
            of_job(tcp, Launch::from_env().ok().flatten(), pmi)
        }
        Start::Manual { rank, size, rendezvous } => {
            of_job(meet(rank, size, secret, &rendezvous, parameters)?, None, None)
        }
    }
}

/// Copies of a program run it from its beginning, so a copy that is started for a second job would
/// take part in it with the code of the first.
fn refuse_second_job() -> Result<(), JoinError> {
    if HAS_JOINED.load(Relaxed) { Err(JoinError::SecondJob) } else { Ok(()) }
}

/// The time limit for finalizing PMI, one message and its answer.
const FINALIZE_LIMIT: Duration = Duration::from_secs(5);

/// One rank of a job.
///
/// A collective call waits at most [`Limits::collective`], ranks other than 0 three seconds longer, and
/// sleeps meanwhile. If a rank dies or leaves, all waiting calls fail with an error that names it.
/// A result has at most [`MAX_RESULT_BYTES`](crate::MAX_RESULT_BYTES), and all contributions to an
/// all-to-all together [`MAX_ALL_TO_ALL_BYTES`](crate::MAX_ALL_TO_ALL_BYTES); longer ones fail with
/// [`ExchangeError::TooLarge`] before the call, and the job goes on. Calls that differ between ranks
/// fail on all of them with [`ExchangeError::CallsDiffer`], which names both calls, or
/// [`ExchangeError::LengthDiffers`].
///
/// Dropping it leaves the job, and kills the processes that this one has started. If the ranks met
/// through a PMI server, the launcher treats that as a failure and terminates the other ranks. Call
/// [`finish`](Self::finish) instead when the work is done.
///
/// If a rank that this one has started exits or panics, the call that misses it fails with
/// [`ExchangeError::OwnerExited`] on all ranks, which has its exit status. [`finish`](Self::finish)
/// lists the exit statuses of all ranks that failed, also after the fault of an engine.
///
/// A job belongs to the process that joined it. A fork of that process shares its connections, and
/// would mix its messages with the parent's: the calls of a fork fail with [`ExchangeError::Forked`],
/// and nothing that it drops of the job disturbs the others. Engines and structures cannot notice a
/// fork: it must not use or drop them. Leave a fork by `exec` or `_exit`, or fork before joining.
#[derive(Debug)]
pub struct Job {
    tcp: Tcp,
    launch: Option<Launch>,
    /// The PMI client, which `finish` finalizes.
    pmi: Option<Pmi1>,
}

impl Job {
    /// Returns the rank of this process, from 0. As an [`Owner`] it is [`Exchange::me`].
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.tcp.me().0
    }

    /// Returns the number of ranks. Each is an owner: [`Exchange::owners`].
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.tcp.owners()
    }

    /// Returns the launcher's variables of this process, such as its rank on this machine.
    #[must_use]
    pub fn launch(&self) -> Option<Launch> {
        self.launch
    }

    /// Ends the job for all ranks, as if this one had died, because it can no longer take part: a
    /// panic left its data half changed. Calls that others wait in, or make later, fail with
    /// [`ExchangeError::OwnerLost`] and this rank; its own fail as well. [`finish`](Self::finish)
    /// still waits for the processes that this one has started. Waits at most 200 ms.
    pub fn give_up(&mut self) {
        self.tcp.give_up();
    }

    /// Leaves the job. Call it after the last collective call: calls in which this rank takes no
    /// part fail. Waits at most `limit` for the processes that this one has started, kills those that
    /// still run then, and waits at most five seconds for the launcher. So `limit` is for all that a
    /// spawned rank does after its last collective call, to its end.
    ///
    /// # Errors
    /// [`JoinError::RanksFailed`] lists the ranks that this process started and that failed.
    pub fn finish(mut self, limit: Duration) -> Result<(), JoinError> {
        if self.tcp.is_fork() {
            return Ok(());
        }
        self.tcp.leave();
        if let Some(mut pmi) = self.pmi {
            // Ignores a failure: the job is over.
            let _ = pmi.finalize(deadline(FINALIZE_LIMIT));
        }
        let ranks = mem::take(&mut self.tcp.children).wait(limit);
        if ranks.is_empty() { Ok(()) } else { Err(JoinError::RanksFailed { ranks }) }
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

    fn calls(&self) -> u64 {
        self.tcp.calls()
    }

    fn reduce(&mut self, call: Call, terms: &mut [Term]) -> Result<(), ExchangeError> {
        self.tcp.reduce(call, terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_rank_needs_no_rendezvous() {
        let join_as = |ranks| {
            let rendezvous = Some(Rendezvous { address: "nowhere".into(), allow_remote: false });
            join(Options { start: Start::Auto { ranks, rendezvous }, ..Options::default() })
        };
        assert_eq!(join_as(1).unwrap().ranks(), 1);
        assert!(matches!(join_as(2), Err(JoinError::NotLaunched)));
    }
}
