//! Detects lost owners: by the exit of their processes, failed endpoints, and their notifications.

use core::hash::Hasher;
use core::mem::{self, MaybeUninit};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Release;
use std::fs;
use std::hash::DefaultHasher;
use std::os::fd::OwnedFd;
use std::process;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use probeline_engine::{Deadline, lost_owner, lost_word};
use probeline_transport::{Fault, Owner};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, write};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::control::{DRAIN_TIMEOUT, LOST};
use super::{Engine, OpenError};

/// The stack size of the watching thread, which makes one system call.
const STACK_BYTES: usize = 64 << 10;
/// What epoll returns for the eventfd; for a process it returns the number of its owner.
const WAKE: u64 = u64::MAX;

/// Detects the exit of a process on this machine. UCX does not report it: shared-memory transports
/// would continue with the memory that a dead owner left.
///
/// A thread sleeps in epoll_wait(2) until a process exits, so the data path only loads a word.
/// (poll(2) would fail if the limit of open files were lowered below the number of processes.)
///
/// Dropping this stops the thread. A process that was forked from the one that created this has no
/// such thread; dropping its copy does not affect the other process.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// 0, or [`lost_word`] of the first owner whose process has exited.
    ended: Arc<AtomicU64>,
    /// `None` if no process is watched.
    watcher: Option<Watcher>,
}

#[derive(Debug)]
struct Watcher {
    thread: JoinHandle<()>,
    /// The eventfd that wakes the thread.
    wake: OwnedFd,
    /// The process that has the thread.
    pid: u32,
}

impl Watch {
    /// Watches the processes of these owners.
    pub(super) fn of(processes: impl Iterator<Item = (Owner, u32)>) -> Result<Self, OpenError> {
        let owners: Vec<_> = processes
            .map(|(owner, pid)| Ok((owner, open(owner, pid)?)))
            .collect::<Result<_, OpenError>>()?;
        let mut watch = Self::default();
        if owners.is_empty() {
            return Ok(watch);
        }
        let failed = |errno| OpenError::Thread { errno };
        let (epoll, wake) = events(&owners).map_err(|errno| failed(errno.raw_os_error()))?;
        let ended = Arc::clone(&watch.ended);
        let thread = thread::Builder::new()
            .name("ucx-watch".into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                // A process whose descriptor is closed is watched no longer.
                let _processes = owners;
                wait_for_exit(&epoll, &ended);
            })
            .map_err(|error| failed(error.raw_os_error().unwrap_or(0)))?;
        watch.watcher = Some(Watcher { thread, wake, pid: process::id() });
        Ok(watch)
    }

    /// Returns an owner whose process has exited.
    #[inline]
    pub(super) fn ended(&self) -> Option<Owner> {
        lost_owner(&self.ended, u32::MAX)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(Watcher { thread, wake, pid }) = self.watcher.take() else { return };
        // After fork(2) the eventfd is shared with the process that has the thread.
        if pid != process::id() {
            return mem::forget(thread);
        }
        // The write cannot fail: the counter of the eventfd is 0.
        let _ = write(&wake, &1_u64.to_ne_bytes());
        // The thread cannot panic; after a panic it would have exited too.
        let _ = thread.join();
    }
}

/// An epoll instance for the processes of the owners and for an eventfd, which becomes readable by
/// a write.
fn events(owners: &[(Owner, OwnedFd)]) -> Result<(OwnedFd, OwnedFd), Errno> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let wake = eventfd(0, EventfdFlags::CLOEXEC)?;
    epoll::add(&epoll, &wake, EventData::new_u64(WAKE), EventFlags::IN)?;
    for (owner, process) in owners {
        epoll::add(&epoll, process, EventData::new_u64(owner.0.into()), EventFlags::IN)?;
    }
    Ok((epoll, wake))
}

/// Sleeps until the thread must end, or until the first process has exited, whose owner it stores.
fn wait_for_exit(epoll: &OwnedFd, ended: &AtomicU64) {
    let mut events = [MaybeUninit::uninit()];
    loop {
        match epoll::wait(epoll, &mut events, None) {
            Ok(([event], _)) => {
                if let Ok(owner) = u32::try_from(event.data.u64()) {
                    ended.store(lost_word(Owner(owner)), Release);
                }
                return;
            }
            // A signal, or another wait for a spurious event.
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return debug_assert!(false, "epoll_wait: {errno}"),
        }
    }
}

fn open(owner: Owner, pid: u32) -> Result<OwnedFd, OpenError> {
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::INVAL);
    let opened = process.and_then(|process| pidfd_open(process, PidfdFlags::empty()));
    opened.map_err(|errno| OpenError::Watch { owner, pid, errno: errno.raw_os_error() })
}

/// A number that processes share if they run on one boot of one machine and in one PID namespace,
/// so that they see each other's process IDs.
pub(super) fn machine() -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(&fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default());
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    hasher.write(namespace.as_os_str().as_encoded_bytes());
    hasher.finish()
}

impl Engine {
    /// Fails if an owner has left or was lost.
    #[inline]
    pub(super) fn check_peers(&mut self) {
        if self.fault.is_none()
            && (self.parts.any_failed.get()
                || self.first_lost().is_some()
                || self.parts.watch.ended().is_some())
        {
            self.fail_by_loss();
        }
    }

    /// Returns the owner that a leaving owner has named as lost first.
    #[inline]
    pub(super) fn first_lost(&self) -> Option<Owner> {
        lost_owner(self.parts.window.words().get(LOST)?, self.geometry.owners)
    }

    /// An owner may have left because another one was lost: then all owners name the lost one.
    #[cold]
    fn fail_by_loss(&mut self) {
        let failed = self.parts.endpoints.iter().position(|state| state.failed.get());
        let failed = failed.and_then(|owner| u32::try_from(owner).ok()).map(Owner);
        let lost = self.first_lost().or(failed).or_else(|| self.parts.watch.ended());
        if let Some(lost) = lost {
            self.fail(Fault::OwnerLost(lost));
        }
    }

    /// Whether operations in flight should have ended; called after a fault.
    #[cold]
    pub(super) fn is_overdue(&mut self) -> bool {
        let new = || Deadline::after(DRAIN_TIMEOUT);
        self.drained_by.get_or_insert_with(new).has_passed()
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::process::{Child, Command, Stdio};
    use std::time::Instant;

    use super::*;

    /// The time limit of a test: far longer than the kernel needs to report an exit, even on a busy
    /// machine.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// A process that runs until it is killed.
    struct Victim(Child);

    impl Victim {
        fn start() -> Self {
            Self(Command::new("cat").stdin(Stdio::piped()).spawn().unwrap())
        }

        fn watch(&self) -> Watch {
            Watch::of([(Owner(3), self.0.id())].into_iter()).unwrap()
        }

        fn kill(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    impl Drop for Victim {
        fn drop(&mut self) {
            self.kill();
        }
    }

    /// Waits until `done`; returns false if that takes too long.
    fn wait_until(mut done: impl FnMut() -> bool) -> bool {
        let begin = Instant::now();
        while !done() {
            if begin.elapsed() > PATIENCE {
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
        true
    }

    fn reports_owner_3(watch: &Watch) -> bool {
        wait_until(|| watch.ended() == Some(Owner(3)))
    }

    #[test]
    fn the_exit_of_a_process_is_reported() {
        let (lives, mut dies) = (Victim::start(), Victim::start());
        let processes = [(Owner(2), lives.0.id()), (Owner(3), dies.0.id())];
        let watch = Watch::of(processes.into_iter()).unwrap();
        assert_eq!(watch.ended(), None);
        dies.kill();
        assert!(reports_owner_3(&watch));
    }

    /// Dropping returns although the process lives, because it wakes the thread.
    #[test]
    fn dropping_a_watch_stops_its_thread() {
        let mut lives = Victim::start();
        drop(lives.watch());
        assert!(lives.0.try_wait().unwrap().is_none());
    }

    #[test]
    fn a_forked_process_does_not_end_the_thread_of_its_parent() {
        let mut dies = Victim::start();
        let watch = dies.watch();
        // SAFETY: the child only drops the watch, which frees memory and closes a descriptor.
        let forked = unsafe { libc::fork() };
        assert!(forked >= 0);
        if forked == 0 {
            drop(watch);
            // SAFETY: ends the child without running the parent's exit handlers.
            unsafe { libc::_exit(0) };
        }
        let mut status = -1;
        // SAFETY: `status` can be written.
        let mut has_ended =
            || unsafe { libc::waitpid(forked, &raw mut status, libc::WNOHANG) } == forked;
        let by_itself = wait_until(&mut has_ended);
        if !by_itself {
            // SAFETY: the child has not been waited for, so the number is still its own.
            unsafe { libc::kill(forked, libc::SIGKILL) };
            assert!(wait_until(has_ended));
        }
        dies.kill();
        assert!(by_itself && status == 0, "by itself: {by_itself}, status {status}");
        assert!(reports_owner_3(&watch));
    }

    #[test]
    fn a_process_that_does_not_exist_is_an_error() {
        let none = Watch::of([(Owner(1), 0x7fff_fff0)].into_iter());
        assert!(matches!(none, Err(OpenError::Watch { owner: Owner(1), errno: libc::ESRCH, .. })));
    }
}
