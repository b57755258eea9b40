//! Watches whether the other owners are alive.

use core::ffi::c_int;
use core::hash::Hasher;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Release};
use core::time::Duration;
use std::fs;
use std::hash::DefaultHasher;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use transport::{Fault, Owner};

use super::control::{SOMEBODY, named};
use super::deadline::{CLOSING, Deadline};
use super::{Engine, OpenError};

/// The stack size of the watching thread, which makes one system call.
const STACK_BYTES: usize = 64 << 10;
/// How long that thread sleeps before it repeats a call for which the kernel lacked memory.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// The value while no process has ended; afterwards the value is the owner's number plus 1.
const NONE: u32 = 0;

/// Detects the end of a process of this machine. UCX does not report it: shared-memory transports
/// would continue with the memory that a dead owner left.
///
/// A thread sleeps in poll(2) until a process ends, so the data path only loads a word. Dropping
/// this ends the thread.
#[derive(Debug)]
pub(super) struct Watch {
    /// The thread writes it once.
    ended: Arc<AtomicU32>,
    /// The thread and its eventfd; `None` if no process is watched.
    watcher: Option<(JoinHandle<()>, Arc<OwnedFd>)>,
}

impl Watch {
    /// Watches no process.
    pub(super) fn nothing() -> Self {
        Self { ended: Arc::new(AtomicU32::new(NONE)), watcher: None }
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
        let (of_thread, ended) = (Arc::clone(&wake), Arc::clone(&watch.ended));
        let thread = thread::Builder::new()
            .name("ucx-watch".into())
            .stack_size(STACK_BYTES)
            .spawn(move || sleep_until_one_ends(&of_thread, &owners, &ended))
            .map_err(|error| OpenError::Thread { errno: of_errno(&error) })?;
        watch.watcher = Some((thread, wake));
        Ok(watch)
    }

    /// An owner whose process has ended.
    #[inline]
    pub(super) fn ended(&self) -> Option<Owner> {
        self.ended.load(Acquire).checked_sub(1).map(Owner)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some((thread, wake)) = self.watcher.take() else { return };
        // SAFETY: the descriptor of eventfd(2) is open, and the kernel reads 8 bytes.
        unsafe { libc::write(wake.as_raw_fd(), (&raw const ONE).cast(), size_of_val(&ONE)) };
        // The thread cannot panic; if it did, it would have ended too.
        let _ = thread.join();
    }
}

/// The value that is added to an eventfd to make it readable.
static ONE: u64 = 1;

/// Returns when `wake` is readable, or when the first of `owners` has ended; then stores that owner
/// in `ended`.
fn sleep_until_one_ends(wake: &OwnedFd, owners: &[(Owner, OwnedFd)], ended: &AtomicU32) {
    let descriptor =
        |fd: &OwnedFd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let processes = owners.iter().map(|(_, fd)| descriptor(fd));
    let mut descriptors: Vec<_> = [descriptor(wake)].into_iter().chain(processes).collect();
    loop {
        // SAFETY: the pointer and the length are those of `descriptors`, which are open. Only the
        // waking side waits for this thread.
        let found =
            unsafe { libc::poll(descriptors.as_mut_ptr(), descriptors.len() as libc::nfds_t, -1) };
        if found < 0 {
            thread::sleep(RETRY_INTERVAL);
            continue;
        }
        let mut ready = descriptors.iter().map(|descriptor| descriptor.revents != 0);
        if ready.next() == Some(true) {
            return;
        }
        if let Some((_, (owner, _))) = ready.zip(owners).find(|(ready, _)| *ready) {
            return ended.store(owner.0.saturating_add(1), Release);
        }
    }
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

/// A number that processes have in common if they see each other: of one boot, and in one PID
/// namespace.
pub(super) fn machine() -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(&fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default());
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    hasher.write(namespace.as_os_str().as_encoded_bytes());
    hasher.finish()
}

impl Engine {
    /// Looks whether somebody has left or was lost.
    #[inline]
    pub(super) fn watch(&mut self) {
        if self.fault.is_none()
            && (self.parts.rung.get()
                || self.first_lost().is_some()
                || self.parts.watch.ended().is_some())
        {
            self.part();
        }
    }

    /// Whom a leaving owner has named as lost first.
    #[inline]
    pub(super) fn first_lost(&self) -> Option<Owner> {
        let word = self.parts.window.words().get(SOMEBODY)?;
        named(word, self.geometry.owners)
    }

    /// An owner has left, an endpoint has failed, or a process has ended. An owner may have left
    /// because another one was lost: then all owners name the lost one.
    #[cold]
    fn part(&mut self) {
        let failed = self.parts.lanes.iter().position(|lane| lane.has_failed());
        let failed = failed.and_then(|owner| u32::try_from(owner).ok()).map(Owner);
        let lost = self.first_lost().or(failed).or_else(|| self.parts.watch.ended());
        if let Some(lost) = lost {
            self.fail(Fault::OwnerLost(lost));
        }
    }

    /// After a fault: whether what is in flight is overdue.
    #[cold]
    pub(super) fn is_overdue(&mut self) -> bool {
        match self.closing {
            None => {
                self.closing = Some(Deadline::after(CLOSING));
                false
            }
            Some(deadline) => deadline.has_passed(),
        }
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_process_that_is_none_is_an_error() {
        let none = Watch::of([(Owner(1), 0x7fff_fff0)].into_iter());
        assert!(matches!(none, Err(OpenError::Watch { owner: Owner(1), errno: libc::ESRCH, .. })));
    }
}
