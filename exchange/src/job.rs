//! The entry point of an application: joins its job, however this process was started.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use std::env;
use std::ffi::OsString;

use probeline_transport::Exchange;

use crate::error::JoinError;
use crate::launch::{Launch, Launcher, Server};
use crate::limits::Limits;
use crate::rendezvous::Rendezvous;
use crate::secret::Secret;
use crate::server::join_by;
use crate::spawn::{spawn, spawned_rendezvous};
use crate::spec::JobSpec;
use crate::tcp::Job;

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
        ranks: u32,
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
}

/// Whether this process has joined a job of several ranks.
static HAS_JOINED: AtomicBool = AtomicBool::new(false);

/// Joins the job.
///
/// In a process that rank 0 spawned, the environment overrides [`Options::start`], so that all
/// ranks can have the same command line. It does not override a start of one rank: such a job starts
/// no copies, and any process may join it before, beside and after another.
///
/// ```no_run
/// use probeline_exchange::{Options, join};
/// use probeline_transport::Exchange;
///
/// // 4 ranks of this machine, or those that mpirun or srun has started.
/// let mut job = join(Options::auto(4))?;
/// println!("rank {} of {}", job.me().0, job.owners());
/// job.barrier()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`JoinError`], with advice: no launcher or secret, an address that cannot be used, ranks that differ or
/// are missing, or a time limit. A process that rank 0 spawned can join no second job of several ranks, and
/// a process that has joined such a job can start no copies of itself.
pub fn join(options: Options) -> Result<Job, JoinError> {
    let Options { start, parameters, secret, limits } = options;
    let join_at = |rank, size, secret: Option<Secret>, rendezvous: &Rendezvous, parameters| {
        let secret = secret.map_or_else(Secret::from_env, Ok)?;
        rendezvous.join(&JobSpec { rank, size, parameters, secret, limits })
    };
    let of_job = |job: Job| {
        if job.owners() > 1 {
            HAS_JOINED.store(true, Relaxed);
        }
        Ok(job)
    };
    let of_one = matches!(start, Start::Auto { ranks: 1, .. } | Start::Spawn { ranks: 1, .. });
    if let Some(launch) = Launch::by(Launcher::Probeline)? {
        if of_one {
            return of_job(spawn(1, &[], parameters, limits)?);
        }
        refuse_second_job()?;
        let job = join_at(launch.rank, launch.size, None, &spawned_rendezvous()?, parameters)?;
        return of_job(job);
    }
    match start {
        Start::Auto { ranks, rendezvous } => {
            let start = match (Launch::from_env_if_several()?, rendezvous) {
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
            of_job(spawn(ranks, &arguments, parameters, limits)?)
        }
        Start::Launched { rendezvous } => {
            let launch = Launch::from_env()?.ok_or(JoinError::NotLaunched)?;
            let job = match rendezvous {
                Some(at) => join_at(launch.rank, launch.size, secret, &at, parameters)?,
                None => {
                    let server =
                        Server::from_launch(&launch).ok_or(JoinError::NoRendezvous { launch })?;
                    join_by(server, parameters, secret, limits)?
                }
            };
            of_job(job)
        }
        Start::Served(server) => of_job(join_by(server, parameters, secret, limits)?),
        Start::Manual { rank, ranks, rendezvous } => {
            of_job(join_at(rank, ranks, secret, &rendezvous, parameters)?)
        }
    }
}

/// Copies of a program run it from its beginning, so a copy that is started for a second job would
/// take part in it with the code of the first.
fn refuse_second_job() -> Result<(), JoinError> {
    if HAS_JOINED.load(Relaxed) { Err(JoinError::SecondJob) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_missing_rendezvous_and_secret() {
        let join_as = |ranks| {
            let rendezvous = Some(Rendezvous { address: "nowhere".into(), allow_remote: false });
            join(Options { start: Start::Auto { ranks, rendezvous }, ..Options::default() })
        };
        assert_eq!(join_as(1).unwrap().ranks(), 1);
        assert!(matches!(join_as(2), Err(JoinError::NotLaunched)));
        let rendezvous = Rendezvous { address: "127.0.0.1:1".into(), allow_remote: false };
        let start = Start::Manual { rank: 0, ranks: 2, rendezvous };
        let error = join(Options { start, ..Options::default() }).unwrap_err();
        assert!(error.to_string().contains("set PROBELINE_SECRET"), "{error}");
    }
}
