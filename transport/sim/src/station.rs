//! A place that serves one after the other, and is told of arrivals only roughly in their order.

/// What a part of a shared NIC has still to do.
///
/// Operations of several ranks arrive in another order than they were posted in. One that arrives
/// earlier than the last known finds the same work before it, and not the gap that the last one
/// has left; so the work is what counts, and a rate holds over any time that is longer than
/// arrivals are out of order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Station {
    /// The latest arrival, and the work there was just after it.
    at_ns: u64,
    work_ps: u64,
}

const PS_PER_NS: u64 = 1_000;

impl Station {
    /// When service starts that takes `service_ps`, of what arrives at `now_ns`.
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
    fn work_waits_for_work_and_an_idle_station_keeps_nobody() {
        let mut station = Station::default();
        let starts = [0, 0, 5, 100].map(|at_ns| station.take(10_500, at_ns));
        assert_eq!(starts, [0, 11, 21, 100]);
    }

    #[test]
    fn one_that_comes_from_earlier_does_not_wait_until_later() {
        let mut station = Station::default();
        assert_eq!(station.take(10_000, 1_000), 1_000);
        assert_eq!(station.take(10_000, 200), 210);
        assert_eq!(station.take(10_000, 1_000), 1_020, "what came from earlier is work as well");
    }

    #[test]
    fn times_at_the_end_of_time_saturate() {
        let mut station = Station::default();
        station.take(u64::MAX, 0);
        assert_eq!(station.take(u64::MAX, u64::MAX), u64::MAX);
        assert_eq!(Station::default().take(0, 7), 7);
    }
}
