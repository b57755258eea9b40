//! Whether the other owners are still there, and how they hear that this one leaves.

use core::ffi::c_int;
use core::hash::Hasher;
use core::time::Duration;
use std::fs;
use std::hash::DefaultHasher;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use transport::{Fault, Owner};

use super::control::{SOMEBODY, lost, named};
use super::deadline::{CLOSING, Deadline, FAREWELL};
use super::lane::Lane;
use super::own::Act;
use super::{Engine, OpenError};

/// Every so many turns the clock is looked at: its tens of nanoseconds are then nothing to a turn.
const TURNS_PER_LOOK: u32 = 64;
/// The kernel is asked after the processes of this machine no more often: a call of a microsecond
/// is then nothing.
const ASKING_EVERY: Duration = Duration::from_millis(1);

/// The processes of this machine, which the kernel tells the end of. Transports through shared
/// memory would go on with what a dead owner has left.
#[derive(Debug)]
pub(super) struct Watch {
    owners: Vec<(Owner, OwnedFd)>,
    descriptors: Vec<libc::pollfd>,
    next: Deadline,
}

impl Watch {
    pub(super) fn of(processes: impl Iterator<Item = (Owner, u32)>) -> Result<Self, OpenError> {
        let owners: Vec<_> = processes
            .map(|(owner, pid)| Ok((owner, open(owner, pid)?)))
            .collect::<Result<_, OpenError>>()?;
        let descriptor =
            |fd: &OwnedFd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let descriptors = owners.iter().map(|(_, fd)| descriptor(fd)).collect();
        Ok(Self { owners, descriptors, next: Deadline::after(ASKING_EVERY) })
    }

    /// An owner whose process has ended. Looks when that is due.
    fn ended(&mut self) -> Option<Owner> {
        if self.owners.is_empty() || !self.next.has_passed() {
            return None;
        }
        self.next = Deadline::after(ASKING_EVERY);
        let count = libc::nfds_t::try_from(self.descriptors.len()).ok()?;
        // SAFETY: so many live descriptors; it returns at once.
        let ready = unsafe { libc::poll(self.descriptors.as_mut_ptr(), count, 0) };
        if ready <= 0 {
            return None;
        }
        let ended = self.descriptors.iter().zip(&self.owners);
        ended.into_iter().find(|(found, _)| found.revents != 0).map(|(_, (owner, _))| *owner)
    }
}

fn open(owner: Owner, pid: u32) -> Result<OwnedFd, OpenError> {
    // SAFETY: a system call of two integers, which gives a descriptor or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(pid), 0) };
    match c_int::try_from(fd) {
        // SAFETY: a descriptor that was just made, and is nobody else's.
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
        if self.fault.is_none() && (self.parts.rung.get() || self.first_lost().is_some()) {
            self.part();
        }
        self.turns = self.turns.wrapping_add(1);
        if self.turns.is_multiple_of(TURNS_PER_LOOK) {
            self.look_after();
        }
    }

    /// Whom a leaving owner has named as lost first.
    #[inline]
    pub(super) fn first_lost(&self) -> Option<Owner> {
        let word = self.parts.window.words().get(SOMEBODY)?;
        named(word, self.geometry.owners)
    }

    /// Somebody has left, or an endpoint has failed.
    #[cold]
    fn part(&mut self) {
        let failed = self.parts.lanes.iter().position(|lane| lane.has_failed());
        let failed = failed.and_then(|owner| u32::try_from(owner).ok()).map(Owner);
        if let Some(lost) = self.first_lost().or(failed) {
            self.fail(Fault::OwnerLost(lost));
        }
    }

    #[cold]
    fn look_after(&mut self) {
        if self.fault.is_some() {
            return;
        }
        if let Some(owner) = self.parts.watch.ended() {
            // It may have left because of another's loss: then everybody names that one.
            self.fail(Fault::OwnerLost(self.first_lost().unwrap_or(owner)));
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

    /// Tells everybody that this owner leaves, and because of whom.
    fn bid_farewell(&mut self) {
        let because = match self.fault {
            Some(Fault::OwnerLost(owner)) => owner,
            _ => self.geometry.me,
        };
        let deadline = Deadline::after(FAREWELL);
        let word = Act::Write { index: SOMEBODY, value: lost(because) };
        for owner in (0..self.geometry.owners).map(Owner) {
            let lane = self.parts.lanes.get(owner.0 as usize);
            let gone = lane.is_none_or(Lane::has_failed) || owner == because;
            if owner != self.geometry.me && !gone && !deadline.has_passed() {
                // Who cannot be told finds out by itself.
                self.do_own(owner, word, deadline);
            }
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.bid_farewell();
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::thread;

    use super::*;

    #[test]
    fn the_end_of_a_process_is_seen() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let mut watch = Watch::of([(Owner(3), child.id())].into_iter()).unwrap();
        thread::sleep(2 * ASKING_EVERY);
        assert_eq!(watch.ended(), None);
        child.kill().unwrap();
        child.wait().unwrap();
        thread::sleep(2 * ASKING_EVERY);
        assert_eq!(watch.ended(), Some(Owner(3)));
    }

    #[test]
    fn a_process_that_is_none_is_an_error() {
        let none = Watch::of([(Owner(1), 0x7fff_fff0)].into_iter());
        assert!(matches!(none, Err(OpenError::Watch { owner: Owner(1), errno: libc::ESRCH, .. })));
    }
}
