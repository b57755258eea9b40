//! Bounds of the waits outside the data path.

use core::mem::MaybeUninit;
use core::time::Duration;

/// What is granted to a device beyond its timers, on a machine with other things to do.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// A moment of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Duration);

impl Deadline {
    /// So much from now on.
    pub(super) fn after(wait: Duration) -> Self {
        Self(now().saturating_add(wait))
    }

    pub(super) fn has_passed(self) -> bool {
        now() >= self.0
    }
}

/// The monotonic clock, since some beginning.
pub(super) fn now() -> Duration {
    let mut now = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the kernel fills the struct, of plain numbers, for which zero is valid too. The
    // clock is there on every Linux (clock_gettime(2)).
    let now = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, now.as_mut_ptr());
        now.assume_init()
    };
    // Counted from boot, neither is negative, and nanoseconds are less than a second.
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}
