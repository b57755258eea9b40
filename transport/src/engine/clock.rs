//! The monotonic clock, which bounds the waits outside the data path.

use core::mem::MaybeUninit;
use core::time::Duration;

/// Returns the time of the monotonic clock, which counts from boot.
#[must_use]
pub fn monotonic_now() -> Duration {
    let mut now = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the kernel fills the struct, whose fields are integers, for which zero is valid too.
    // Every Linux has this clock (clock_gettime(2)).
    let now = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, now.as_mut_ptr());
        now.assume_init()
    };
    // Neither field is negative, and the nanoseconds are less than a second.
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// The time at which a bounded wait expires.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Duration);

impl Deadline {
    /// Creates a deadline `wait` from now.
    #[must_use]
    pub fn after(wait: Duration) -> Self {
        Self(monotonic_now().saturating_add(wait))
    }

    /// Returns whether the deadline has passed.
    #[must_use]
    pub fn has_passed(self) -> bool {
        monotonic_now() >= self.0
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn deadline_passes_after_wait() {
        assert!(Deadline::after(Duration::ZERO).has_passed());
        assert!(!Deadline::after(Duration::MAX).has_passed());
        let soon = Deadline::after(Duration::from_millis(2));
        thread::sleep(Duration::from_millis(3));
        assert!(soon.has_passed());
    }
}
