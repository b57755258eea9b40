//! Queues at a NIC: the turns of one rank, and the backlog that the ranks of a node share.

use crate::Kind;

const PS_PER_NS: u64 = 1_000;

/// One value for READs and WRITEs together, and one for atomics.
#[derive(Default)]
pub(crate) struct PerKind<T> {
    copies: T,
    atomics: T,
}

impl<T> PerKind<T> {
    pub(crate) fn of(&mut self, kind: Kind) -> &mut T {
        if kind.is_atomic() { &mut self.atomics } else { &mut self.copies }
    }
}

/// The time at which one side of a rank takes its next operation, in picoseconds, because the
/// interval of a rate of many millions a second is not a whole number of nanoseconds.
#[derive(Default)]
pub(crate) struct Turns {
    free_ps: u64,
}

impl Turns {
    /// Returns the time at which an operation that is ready at `now_ns` is taken, for `turn_ps`.
    pub(crate) fn take(&mut self, turn_ps: u64, now_ns: u64) -> u64 {
        if turn_ps == 0 {
            return now_ns;
        }
        let start_ps = now_ns.saturating_mul(PS_PER_NS).max(self.free_ps);
        self.free_ps = start_ps.saturating_add(turn_ps);
        // Picoseconds saturate after 213 days, nanoseconds do not.
        start_ps.div_ceil(PS_PER_NS).max(now_ns)
    }
}

/// The backlog of one part of a shared NIC.
///
/// Operations of several ranks arrive in another order than they were posted in. An operation that
/// arrives earlier than the latest known arrival finds the same backlog, without the gap before
/// that arrival. The station therefore counts work instead of times, and a rate holds over any
/// period longer than the disorder of arrivals.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Station {
    /// The latest arrival, and the backlog just after it.
    at_ns: u64,
    work_ps: u64,
}

impl Station {
    /// Returns the time at which service of `service_ps` picoseconds starts for an arrival at
    /// `now_ns`.
    #[inline]
    pub(crate) fn take(&mut self, service_ps: u64, now_ns: u64) -> u64 {
        if service_ps == 0 {
            return now_ns;
        }
        let passed_ns = now_ns.saturating_sub(self.at_ns);
        self.work_ps = self.work_ps.saturating_sub(passed_ns.saturating_mul(PS_PER_NS));
        self.at_ns = self.at_ns.max(now_ns);
        let wait_ns = self.work_ps.div_ceil(PS_PER_NS);
        self.work_ps = self.work_ps.saturating_add(service_ps);
        now_ns.saturating_add(wait_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_waits_only_for_backlog() {
        let mut station = Station::default();
        let starts = [0, 0, 5, 100].map(|at_ns| station.take(10_500, at_ns));
        assert_eq!(starts, [0, 11, 21, 100]);
    }

    #[test]
    fn earlier_arrival_waits_for_backlog() {
        let mut station = Station::default();
        assert_eq!(station.take(10_000, 1_000), 1_000);
        assert_eq!(station.take(10_000, 200), 210);
        assert_eq!(station.take(10_000, 1_000), 1_020, "what came from earlier is work as well");
    }

    #[test]
    fn times_saturate() {
        let mut station = Station::default();
        station.take(u64::MAX, 0);
        assert_eq!(station.take(u64::MAX, u64::MAX), u64::MAX);
        assert_eq!(Station::default().take(0, 7), 7);
    }
}
