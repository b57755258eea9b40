//! Time as a transport knows it: the machine's monotonic clock, or the simulator's virtual one.

use rustix::time::{ClockId, clock_gettime};
use transport::Transport;

/// A transport with a clock.
pub(crate) trait Timed: Transport {
    /// Nanoseconds since some moment, the same for all ranks.
    fn now_ns(&self) -> u64;
}

impl<T: Timed> Timed for &mut T {
    fn now_ns(&self) -> u64 {
        (**self).now_ns()
    }
}

impl Timed for sim::Engine {
    fn now_ns(&self) -> u64 {
        sim::Engine::now_ns(self)
    }
}

impl Timed for shm::Engine {
    #[inline]
    fn now_ns(&self) -> u64 {
        monotonic_ns()
    }
}

/// Nanoseconds of the machine's monotonic clock, which all its processes share (clock_gettime(2)).
#[inline]
fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Counted from boot, neither is negative.
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
