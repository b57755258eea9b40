//! A job of processes on this machine that rank 0 starts.
//!
//! The other ranks get their rank, the rendezvous and the secret in their environment, which other
//! users cannot read. They inherit this process's output streams and have no input.

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Instant;

use probeline_transport::{Exit, Owner};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::coordinator::admit_ranks;
use crate::error::JoinError;
use crate::launch::{RANK_VARIABLE, RANKS_VARIABLE};
use crate::limits::{Limits, deadline};
use crate::rendezvous::Rendezvous;
use crate::secret::{SECRET_VARIABLE, Secret};
use crate::spec::JobSpec;
use crate::tcp::Job;

/// The environment variable with the address at which rank 0 listens.
const RENDEZVOUS_VARIABLE: &str = "PROBELINE_RENDEZVOUS";
/// The environment variable with the process ID of rank 0.
const PARENT_VARIABLE: &str = "PROBELINE_PARENT";

/// The pause between two checks whether processes have exited.
const CHECK_PAUSE: Duration = Duration::from_millis(5);

/// The maximum time between the end of a process's connection and the end of the process, which may
/// have other things to close, on a busy machine.
pub(crate) const EXIT_LIMIT: Duration = Duration::from_secs(2);

/// Starts ranks 1 to `ranks - 1` as copies of this program with `arguments`, and admits them at a
/// free port of 127.0.0.1.
///
/// # Errors
/// A process cannot be started or exits before it has joined, or the time limit is over. Such an
/// exit is detected immediately. On an error all started processes are killed.
pub(crate) fn spawn(
    ranks: u32,
    arguments: &[OsString],
    parameters: String,
    limits: Limits,
) -> Result<Job, JoinError> {
    let secret = Secret::random()?;
    let spec = JobSpec { rank: 0, size: ranks, parameters, secret, limits };
    spec.check()?;
    if ranks == 1 {
        return Ok(Job::new(&spec, vec![]));
    }
    let (listener, address) = listen_on_loopback()?;
    let mut children = Children { running: Vec::new(), parent: process::id() };
    for rank in 1..ranks {
        let process = start(&spec, rank, address, arguments)
            .map_err(|error| JoinError::Spawn { rank, error })?;
        children.running.push(process);
    }
    match admit_ranks(&listener, &spec, &mut || children.check()) {
        Ok(mut tcp) => {
            tcp.children = children;
            Ok(tcp)
        }
        Err(JoinError::Left { rank }) => {
            // Its process may end soon after its connection.
            let ended = wait_for(EXIT_LIMIT, || children.check().err());
            Err(ended.unwrap_or(JoinError::Left { rank }))
        }
        Err(error) => Err(error),
    }
}

/// Listens at a free port of 127.0.0.1.
pub(crate) fn listen_on_loopback() -> Result<(TcpListener, SocketAddr), JoinError> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    TcpListener::bind(address)
        .and_then(|listener| Ok((listener.local_addr()?, listener)))
        .map(|(address, listener)| (listener, address))
        .map_err(|error| JoinError::Listen { address: address.to_string(), error })
}

fn start(
    spec: &JobSpec,
    rank: u32,
    address: SocketAddr,
    arguments: &[OsString],
) -> io::Result<Child> {
    Command::new(env::current_exe()?)
        .args(arguments)
        .env(RANK_VARIABLE, rank.to_string())
        .env(RANKS_VARIABLE, spec.size.to_string())
        .env(RENDEZVOUS_VARIABLE, address.to_string())
        .env(SECRET_VARIABLE, OsStr::from_bytes(spec.secret.bytes()))
        .env(PARENT_VARIABLE, process::id().to_string())
        .stdin(Stdio::null())
        .spawn()
}

/// Asks the kernel to kill this process, which [`spawn`] started, when the thread that started it
/// ends (`PR_SET_PDEATHSIG` in prctl(2)). Returns the rendezvous of its job.
pub(crate) fn spawned_rendezvous() -> Result<Rendezvous, JoinError> {
    let read = |variable: &'static str| {
        let value = env::var_os(variable).map(|value| value.to_string_lossy().into_owned());
        value.ok_or_else(|| JoinError::missing(RANK_VARIABLE, variable))
    };
    let parent = read(PARENT_VARIABLE)?;
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(JoinError::system("asking the kernel to end this process with rank 0"))?;
    // Rank 0 may have ended before; then this process has another parent.
    let alive = getppid().is_some_and(|pid| pid.as_raw_pid().to_string() == parent);
    if !alive {
        return Err(JoinError::Orphaned);
    }
    Ok(Rendezvous { address: read(RENDEZVOUS_VARIABLE)?, allow_remote: false })
}

/// The processes that rank 0 has started. Dropping it kills those that still run, unless this process
/// is a fork of rank 0.
#[derive(Debug, Default)]
pub(crate) struct Children {
    /// From rank 1 on.
    running: Vec<Child>,
    /// The process that started them.
    parent: u32,
}

/// Returns the exit status of a process that has ended.
fn status(child: &mut Child) -> Option<ExitStatus> {
    // Fails only for a process that no longer exists.
    child.try_wait().ok().flatten()
}

/// Calls `look` until it finds something, for at most `limit`.
fn wait_for<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let until = deadline(limit);
    loop {
        let found = look();
        if found.is_some() || Instant::now() >= until {
            return found;
        }
        thread::sleep(CHECK_PAUSE);
    }
}

impl Children {
    /// Waits until all have ended or `limit` has passed. Returns the ranks that failed, with their
    /// exit status; `None` if the rank was still running and was killed.
    pub(crate) fn wait(mut self, limit: Duration) -> Vec<(u32, Option<ExitStatus>)> {
        let ended = || self.running.iter_mut().all(|child| status(child).is_some()).then_some(());
        wait_for(limit, ended);
        let ended = (1..).zip(self.running.iter_mut().map(status));
        ended.filter(|(_, status)| !status.is_some_and(|status| status.success())).collect()
    }

    /// Returns how the process of `owner` ended within `limit`, if this process started it.
    pub(crate) fn exit_of(&mut self, owner: Owner, limit: Duration) -> Option<Exit> {
        let child = self.running.get_mut(owner.0.checked_sub(1)? as usize)?;
        let status = wait_for(limit, || status(child))?;
        let status_or_signal = status.code().map(|code| Exit::Status(code.cast_unsigned()));
        status_or_signal.or(status.signal().map(|signal| Exit::Signal(signal.cast_unsigned())))
    }

    /// Checks that no process has exited.
    ///
    /// # Errors
    /// [`JoinError::ChildExited`] if one has.
    fn check(&mut self) -> Result<(), JoinError> {
        let mut ended = (1..).zip(self.running.iter_mut().map(status));
        match ended.find_map(|(rank, status)| Some((rank, status?))) {
            Some((rank, status)) => Err(JoinError::ChildExited { rank, status }),
            None => Ok(()),
        }
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        if self.parent != process::id() {
            return;
        }
        for child in &mut self.running {
            if status(child).is_none() {
                // Both fail only for a process that no longer exists.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}
