//! Bounds of the waits.

use core::time::Duration;
use std::time::Instant;

/// How long opening waits for the first operations on each owner's window to end: connections are
/// made by them.
pub(super) const CONNECTING: Duration = Duration::from_secs(30);
/// How long a leaving engine tries to tell the others.
pub(super) const FAREWELL: Duration = Duration::from_secs(1);
/// After a fault the library gets so long to end what is in flight; what it has not ended then is
/// reported by the engine.
pub(super) const CLOSING: Duration = Duration::from_millis(500);

/// A moment by which something has to be over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Instant);

impl Deadline {
    /// So much from now on.
    pub(super) fn after(wait: Duration) -> Self {
        Self(Instant::now() + wait)
    }

    pub(super) fn has_passed(self) -> bool {
        Instant::now() >= self.0
    }
}
