//! Detects lost owners: by their processes' ends, failed endpoints, and their notifications.

use core::ffi::c_int;
use core::hash::Hasher;
use core::mem;
use core::sync::atomic::Ordering::{Acquire, Release};
use core::sync::atomic::{AtomicBool, AtomicU64};
use core::time::Duration;
use std::fs;
use std::hash::DefaultHasher;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use probeline_transport::{Fault, Owner};

use super::control::{DRAIN_TIMEOUT, LOST};
use super::{Engine, OpenError};
use crate::setup::{Deadline, lost_owner, lost_word};

/// The stack size of the watching thread, which makes one system call.
const STACK_BYTES: usize = 64 << 10;
/// How often that thread polls each process alone while poll(2) of all processes fails.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Detects the end of a process of this machine. UCX does not report it: shared-memory transports
/// would continue with the memory that a dead owner left.
///
/// A thread sleeps in poll(2) until a process ends, so the data path only loads a word. poll(2)
/// fails if the limit of open files was lowered below the number of processes, or without memory.
/// The thread then polls the processes one at a time, every [`RETRY_INTERVAL`].
///
/// Dropping this ends the thread. A process that was forked from the one that created this has no
/// such thread; dropping its copy does not affect the other process.
#[derive(Debug)]
pub(super) struct Watch {
    shared: Arc<Shared>,
    /// `None` if no process is watched.
    watcher: Option<Watcher>,
}

/// What the thread shares with the engine.
#[derive(Debug, Default)]
struct Shared {
    /// 0, or [`lost_word`] of the first owner whose process has ended.
    ended: AtomicU64,
    /// The thread must end.
    leave: AtomicBool,
}

#[derive(Debug)]
struct Watcher {
    thread: JoinHandle<()>,
    /// The eventfd that wakes the thread.
    wake: Arc<OwnedFd>,
    /// The process that has the thread.
    pid: u32,
}

impl Watch {
    /// Watches no process.
    pub(super) fn nothing() -> Self {
        Self { shared: Arc::default(), watcher: None }
    }

    /// Watches the processes of these owners.
    pub(super) fn of(processes: impl Iterator<Item = (Owner, u32)>) -> Result<Self, OpenError> {
        let owners: Vec<_> = processes
            .map(|(owner, pid)| Ok((owner, open(owner, pid)?)))
            .collect::<Result<_, OpenError>>()?;
        let mut watch = Self::nothing();
        if owners.is_empty() {
            return Ok(watch);
        }
        let of_errno = |error: &io::Error| error.raw_os_error().unwrap_or(0);
        let wake =
            Arc::new(event().map_err(|error| OpenError::Thread { errno: of_errno(&error) })?);
        let (of_thread, shared) = (Arc::clone(&wake), Arc::clone(&watch.shared));
        let thread = thread::Builder::new()
            .name("ucx-watch".into())
            .stack_size(STACK_BYTES)
            .spawn(move || sleep_until_one_ends(&of_thread, &owners, &shared))
            .map_err(|error| OpenError::Thread { errno: of_errno(&error) })?;
        watch.watcher = Some(Watcher { thread, wake, pid: process::id() });
        Ok(watch)
    }

    /// An owner whose process has ended.
    #[inline]
    pub(super) fn ended(&self) -> Option<Owner> {
        lost_owner(&self.shared.ended, u32::MAX)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(Watcher { thread, wake, pid }) = self.watcher.take() else { return };
        // After fork(2) the eventfd is shared with the process that has the thread.
        if pid != process::id() {
            return mem::forget(thread);
        }
        self.shared.leave.store(true, Release);
        // SAFETY: the descriptor of eventfd(2) is open, and the kernel reads 8 bytes.
        unsafe { libc::write(wake.as_raw_fd(), (&raw const ONE).cast(), size_of_val(&ONE)) };
        thread.thread().unpark();
        // The thread cannot panic; if it did, it would have ended too.
        let _ = thread.join();
    }
}

/// The value that is added to an eventfd to make it readable.
static ONE: u64 = 1;

/// Returns when `wake` is readable, when the thread must end, or when the first of `owners` has
/// ended; then stores that owner.
fn sleep_until_one_ends(wake: &OwnedFd, owners: &[(Owner, OwnedFd)], shared: &Shared) {
    let descriptor =
        |fd: &OwnedFd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let processes = owners.iter().map(|(_, fd)| descriptor(fd));
    let mut descriptors: Vec<_> = [descriptor(wake)].into_iter().chain(processes).collect();
    while !shared.leave.load(Acquire) {
        let found = poll(&mut descriptors, -1);
        if found < 0 {
            for one in descriptors.chunks_mut(1) {
                poll(one, 0);
            }
        }
        let mut ready = descriptors.iter().map(|descriptor| descriptor.revents != 0);
        if ready.next() == Some(true) {
            return;
        }
        if let Some((_, (owner, _))) = ready.zip(owners).find(|(ready, _)| *ready) {
            return shared.ended.store(lost_word(*owner), Release);
        }
        if found < 0 {
            thread::park_timeout(RETRY_INTERVAL);
        }
    }
}

/// poll(2). After an error, no descriptor is ready.
fn poll(descriptors: &mut [libc::pollfd], timeout_ms: c_int) -> c_int {
    descriptors.iter_mut().for_each(|descriptor| descriptor.revents = 0);
    // SAFETY: the pointer and the length are those of `descriptors`, which are open.
    unsafe { libc::poll(descriptors.as_mut_ptr(), descriptors.len() as libc::nfds_t, timeout_ms) }
}

/// An eventfd, which is readable after a write.
fn event() -> io::Result<OwnedFd> {
    // SAFETY: a system call of two integers, which returns a descriptor or -1.
    match unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) } {
        // SAFETY: the descriptor was just created and has no other owner.
        fd if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn open(owner: Owner, pid: u32) -> Result<OwnedFd, OpenError> {
    // SAFETY: a system call of two integers, which returns a descriptor or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(pid), 0) };
    match c_int::try_from(fd) {
        // SAFETY: the descriptor was just created and has no other owner.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => {
            let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
            Err(OpenError::Watch { owner, pid, errno })
        }
    }
}

/// A number that processes share if they run on one boot of one machine and in one PID namespace, so
/// that they see each other's process IDs.
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

    /// The owner that an owner which leaves has named as lost first.
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
    use std::env;
    use std::process::{Command, Stdio};
    use std::time::Instant;

    use super::*;

    /// Far longer than the kernel needs to report the end, even on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// A process that ends only when it is killed.
    fn child() -> std::process::Child {
        Command::new("cat").stdin(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn the_end_of_a_process_is_reported() {
        let (mut lives, mut dies) = (child(), child());
        let processes = [(Owner(2), lives.id()), (Owner(3), dies.id())];
        let watch = Watch::of(processes.into_iter()).unwrap();
        assert_eq!(watch.ended(), None);
        dies.kill().unwrap();
        dies.wait().unwrap();
        let begin = Instant::now();
        while watch.ended().is_none() {
            assert!(begin.elapsed() < PATIENCE, "the end was not reported");
            thread::yield_now();
        }
        assert_eq!(watch.ended(), Some(Owner(3)));
        drop(watch);
        lives.kill().unwrap();
        lives.wait().unwrap();
    }

    /// Dropping returns although the process lives, because it wakes the thread.
    #[test]
    fn a_watch_that_is_dropped_ends_its_thread() {
        let mut lives = child();
        drop(Watch::of([(Owner(1), lives.id())].into_iter()).unwrap());
        assert!(lives.try_wait().unwrap().is_none());
        lives.kill().unwrap();
        lives.wait().unwrap();
    }

    /// Returns when `done`; false if that takes too long.
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

    /// Runs the test of this name again, in a process of its own, which it may damage. Returns
    /// whether this process is that one.
    fn is_alone(name: &str) -> bool {
        const ALONE: &str = "PROBELINE_TEST_ALONE";
        if env::var_os(ALONE).is_some() {
            return true;
        }
        let name = format!("{}::{name}", module_path!().split_once("::").unwrap().1);
        let mut alone = Command::new(env::current_exe().unwrap());
        alone.args(["--exact", &name, "--nocapture"]).env(ALONE, "1");
        let mut alone = alone.stdout(Stdio::null()).spawn().unwrap();
        let ended = wait_until(|| alone.try_wait().unwrap().is_some());
        if !ended {
            alone.kill().unwrap();
        }
        assert!(alone.wait().unwrap().success(), "ended by itself: {ended}");
        false
    }

    fn set_limit_of_open_files(soft: libc::rlim_t) {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: both calls use a live structure.
        unsafe {
            assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
            limit.rlim_cur = soft;
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
        }
    }

    /// A watch of this process whose thread starts with this limit of open files.
    fn watch_with_limit(process: (Owner, u32), soft: libc::rlim_t) -> Watch {
        let owners = [(process.0, open(process.0, process.1).unwrap())];
        let (shared, wake) = (Arc::<Shared>::default(), Arc::new(event().unwrap()));
        let (of_thread, told) = (Arc::clone(&wake), Arc::clone(&shared));
        set_limit_of_open_files(soft);
        let thread = thread::spawn(move || sleep_until_one_ends(&of_thread, &owners, &told));
        Watch { shared, watcher: Some(Watcher { thread, wake, pid: process::id() }) }
    }

    /// poll(2) of the eventfd and one process fails with EINVAL.
    #[test]
    fn the_end_of_a_process_is_reported_with_a_low_limit_of_open_files() {
        if !is_alone("the_end_of_a_process_is_reported_with_a_low_limit_of_open_files") {
            return;
        }
        let mut dies = child();
        let watch = watch_with_limit((Owner(3), dies.id()), 1);
        assert_eq!(watch.ended(), None);
        dies.kill().unwrap();
        dies.wait().unwrap();
        assert!(wait_until(|| watch.ended() == Some(Owner(3))));
    }

    /// Every poll(2) fails with EINVAL.
    #[test]
    fn a_watch_that_cannot_poll_ends_its_thread() {
        if !is_alone("a_watch_that_cannot_poll_ends_its_thread") {
            return;
        }
        let mut lives = child();
        drop(watch_with_limit((Owner(1), lives.id()), 0));
        lives.kill().unwrap();
        lives.wait().unwrap();
    }

    #[test]
    fn a_forked_process_does_not_end_the_thread_of_its_parent() {
        let mut dies = child();
        let watch = Watch::of([(Owner(3), dies.id())].into_iter()).unwrap();
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
        dies.kill().unwrap();
        dies.wait().unwrap();
        assert!(by_itself && status == 0, "by itself: {by_itself}, status {status}");
        assert!(wait_until(|| watch.ended() == Some(Owner(3))), "the end was not reported");
    }

    #[test]
    fn a_process_that_is_none_is_an_error() {
        let none = Watch::of([(Owner(1), 0x7fff_fff0)].into_iter());
        assert!(matches!(none, Err(OpenError::Watch { owner: Owner(1), errno: libc::ESRCH, .. })));
    }
}
