//! The death of test processes at random times.
#![allow(unsafe_code)]

use core::panic::AssertUnwindSafe;
use core::{mem, ptr};
use std::os::unix::process::ExitStatusExt;
use std::panic::catch_unwind;
use std::thread;

use probeline_transport::Owner;

use super::finish;
use crate::Job;

/// Lets the kernel kill this process by SIGKILL after some nanoseconds, or with its parent.
///
/// # Panics
/// If the kernel refuses it.
pub fn kill_after(nanoseconds: u64) {
    let parts = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    let (tv_sec, tv_nsec) = (parts.0.try_into().unwrap(), parts.1.try_into().unwrap());
    // SAFETY: follows the manual pages of prctl(2), timer_create(2) and timer_settime(2); all zeros are
    // a valid value of the structures, and the pointers are to live ones.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL), 0);
        let mut event: libc::sigevent = mem::zeroed();
        (event.sigev_notify, event.sigev_signo) = (libc::SIGEV_SIGNAL, libc::SIGKILL);
        let mut timer: libc::timer_t = mem::zeroed();
        assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer), 0);
        let mut due: libc::itimerspec = mem::zeroed();
        due.it_value = libc::timespec { tv_sec, tv_nsec };
        assert_eq!(libc::timer_settime(timer, 0, &raw const due, ptr::null_mut()), 0);
    }
}

/// Forks this process, which has one thread. The child calls `run`, and waits until [`kill_after`], which
/// `run` has called, kills it. Returns the child.
///
/// # Panics
/// If the process cannot fork.
pub fn fork(run: impl FnOnce()) -> libc::pid_t {
    // SAFETY: this process has one thread, so the child may call any function.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "cannot fork");
    if child > 0 {
        return child;
    }
    // A panic must not return to the test, which the parent runs.
    if catch_unwind(AssertUnwindSafe(run)).is_ok() {
        loop {
            thread::park();
        }
    }
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(1) }
}

/// Leaves a job of which [`kill_after`] has killed the rank `victim`, and checks on rank 0 that the others
/// succeed.
///
/// # Panics
/// If a process ended otherwise.
pub fn succeed_without(job: Job, victim: Owner) {
    for (rank, status) in (1..).map(Owner).zip(finish(job)) {
        let is_right = match rank {
            _ if rank == victim => status.signal() == Some(libc::SIGKILL),
            _ => status.success(),
        };
        assert!(is_right, "{rank}: {status}");
    }
}

/// Waits for a child of this process that [`kill_after`] kills.
///
/// # Panics
/// If the child ended otherwise.
pub fn wait_for_kill(victim: libc::pid_t) {
    let mut status = 0;
    // SAFETY: a child of this process, which is waited for once.
    assert_eq!(unsafe { libc::waitpid(victim, &raw mut status, 0) }, victim);
    let is_killed = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL;
    assert!(is_killed, "a victim ended by itself: status {status}");
}
