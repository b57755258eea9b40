//! A job of processes on this machine that rank 0 starts itself.

use core::fmt;
use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Instant;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::bounds::deadline;
use crate::error::JoinError;
use crate::hub::{host, provide_descriptors};
use crate::launcher::{LaunchError, RANK_VARIABLE, RANKS_VARIABLE};
use crate::rendezvous::Rendezvous;
use crate::secret::{SECRET_VARIABLE, Secret};
use crate::tcp::Tcp;
use crate::terms::{Limits, Terms};

/// Where rank 0 listens.
const RENDEZVOUS_VARIABLE: &str = "PROBELINE_RENDEZVOUS";
/// The process id of rank 0.
const PARENT_VARIABLE: &str = "PROBELINE_PARENT";

/// Between two looks at processes that are to end.
const PAUSE: Duration = Duration::from_millis(5);

/// How long after its connection a dying process may be seen to have ended.
const DYING: Duration = Duration::from_millis(200);

/// Starts ranks 1 to `ranks - 1` as copies of this program with `arguments`, meets them at a free
/// port of 127.0.0.1 and is rank 0.
///
/// What the others need is in their environment, the secret too, which the system shows to no
/// other user. They get this process's output streams and no input. Each has to call
/// [`join`](crate::join) early; from then on it is killed when the *thread* that calls this ends
/// (`PR_SET_PDEATHSIG` in prctl(2)), however this process ends: call it from the main thread or
/// one that lives as long as the job.
///
/// # Errors
/// Why the job cannot start; a process that ends before it has joined is noticed at once. None is
/// left behind.
pub fn spawn(
    ranks: u32,
    arguments: impl IntoIterator<Item = OsString>,
    parameters: String,
    limits: Limits,
) -> Result<(Tcp, Children), JoinError> {
    let secret = Secret::random()?;
    let terms = Terms { rank: 0, size: ranks, parameters, secret, limits };
    terms.check()?;
    provide_descriptors(ranks)?;
    let (listener, address) = listen()?;
    let arguments: Vec<_> = arguments.into_iter().collect();
    let mut children = Children { running: Vec::new() };
    for rank in 1..ranks {
        let process = start(&terms, rank, address, &arguments)
            .map_err(|error| JoinError::Spawn { rank, error })?;
        children.running.push(Running { rank, process, ended: None });
    }
    let links = host(&listener, &terms, &mut || children.check()).map_err(|error| match error {
        JoinError::Left { rank } => children.explain(rank),
        other => other,
    })?;
    Ok((Tcp::new(&terms, links), children))
}

/// Listens at a free port of 127.0.0.1.
pub(crate) fn listen() -> Result<(TcpListener, SocketAddr), JoinError> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    TcpListener::bind(address)
        .and_then(|listener| Ok((listener.local_addr()?, listener)))
        .map(|(address, listener)| (listener, address))
        .map_err(|error| JoinError::Listen { address: address.to_string(), error })
}

fn start(
    terms: &Terms,
    rank: u32,
    address: SocketAddr,
    arguments: &[OsString],
) -> io::Result<Child> {
    Command::new(env::current_exe()?)
        .args(arguments)
        .env(RANK_VARIABLE, rank.to_string())
        .env(RANKS_VARIABLE, terms.size.to_string())
        .env(RENDEZVOUS_VARIABLE, address.to_string())
        .env(SECRET_VARIABLE, OsStr::from_bytes(terms.secret.bytes()))
        .env(PARENT_VARIABLE, process::id().to_string())
        .stdin(Stdio::null())
        .spawn()
}

/// In a process that [`spawn`] started: binds its life to rank 0's, and says where to meet it.
pub(crate) fn spawned() -> Result<Rendezvous, JoinError> {
    let read = |variable: &'static str| {
        let value = env::var_os(variable).map(|value| value.to_string_lossy().into_owned());
        value.ok_or(LaunchError::HalfSet { set: RANK_VARIABLE, unset: variable })
    };
    let parent = read(PARENT_VARIABLE)?;
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|errno| JoinError::System {
        doing: "asking to end with rank 0",
        error: errno.into(),
    })?;
    // It may have ended before it was asked for; then somebody else is the parent by now.
    let alive = getppid().is_some_and(|pid| pid.as_raw_pid().to_string() == parent);
    if !alive {
        return Err(JoinError::Orphaned);
    }
    Ok(Rendezvous { address: read(RENDEZVOUS_VARIABLE)?, allow_remote: false })
}

/// The processes of ranks 1.. that rank 0 has started. Dropping it kills those that still run.
pub struct Children {
    running: Vec<Running>,
}

struct Running {
    rank: u32,
    process: Child,
    ended: Option<ExitStatus>,
}

impl Running {
    fn look(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            // A process of ours that cannot be waited for is not there any more.
            self.ended = self.process.try_wait().ok().flatten();
        }
        self.ended
    }
}

impl Children {
    /// Waits until all have ended or `limit` has passed, and gives each rank's exit status; `None`
    /// for one that still ran and was killed.
    #[must_use]
    pub fn wait(mut self, limit: Duration) -> Vec<(u32, Option<ExitStatus>)> {
        let until = deadline(limit);
        while self.running.iter_mut().any(|child| child.look().is_none()) && Instant::now() < until
        {
            thread::sleep(PAUSE);
        }
        self.running.iter_mut().map(|child| (child.rank, child.look())).collect()
    }

    /// # Errors
    /// [`JoinError::ChildExited`] if one has.
    fn check(&mut self) -> Result<(), JoinError> {
        for child in &mut self.running {
            if let Some(status) = child.look() {
                return Err(JoinError::ChildExited { rank: child.rank, status });
            }
        }
        Ok(())
    }

    /// Why `rank` has closed its connection.
    fn explain(&mut self, rank: u32) -> JoinError {
        let until = deadline(DYING);
        while Instant::now() < until {
            if let Err(error) = self.check() {
                return error;
            }
            thread::sleep(PAUSE);
        }
        JoinError::Left { rank }
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.running {
            if child.look().is_none() {
                // Both fail only if it is not there any more.
                let _ = child.process.kill();
                let _ = child.process.wait();
            }
        }
    }
}

impl fmt::Debug for Children {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = self.running.iter().map(|child| (child.rank, child.process.id()));
        f.debug_map().entries(ids).finish()
    }
}
