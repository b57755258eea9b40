//! How often an engine asks after owners.

use core::time::Duration;

/// Between two askings at least: a thousand READs a second are nothing to a device.
const LEAST: Duration = Duration::from_millis(1);
/// An asking may take one part in so many of the time: nothing to whoever works on a device or a
/// CPU that has to carry it out, as emulated ones do.
const SHARE: u32 = 64;
/// But the pauses of a round of turns add up to one part in so many of how long a request tries, so
/// that they add little to the time in which a lost owner is noticed.
const PART: u32 = 8;

/// When the next owner has its turn. Moments are those of one clock, since some beginning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Between two turns at most.
    longest: Duration,
    begun: Duration,
    next: Duration,
}

impl Pace {
    /// For so many owners, whom a request tries to reach for `bound`.
    pub(super) fn new(owners: u32, bound: Duration, now: Duration) -> Self {
        let longest = (bound / PART / owners.max(1)).max(LEAST);
        Self { longest, begun: now, next: now + LEAST }
    }

    pub(super) fn is_due(&self, now: Duration) -> bool {
        now >= self.next
    }

    /// The next owner has its turn; it is asked after, or passed over.
    pub(super) fn turned(&mut self, now: Duration) {
        (self.begun, self.next) = (now, now + LEAST);
    }

    /// It was asked, and has answered.
    pub(super) fn answered(&mut self, now: Duration) {
        let took = now.saturating_sub(self.begun);
        self.next = now + took.saturating_mul(SHARE - 1).clamp(LEAST, self.longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Duration = Duration::from_millis(1880);

    fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    /// Lets owners be asked for a while, each asking taking `took`; how often.
    fn askings(mut pace: Pace, took: Duration, from: Duration, until: Duration) -> u32 {
        let (mut now, mut count) = (from, 0);
        while now < until {
            if pace.is_due(now) {
                pace.turned(now);
                now += took;
                pace.answered(now);
                count += 1;
            }
            now += us(10);
        }
        count
    }

    #[test]
    fn a_quick_device_is_asked_every_millisecond() {
        let pace = Pace::new(2, BOUND, us(7000));
        assert!(!pace.is_due(us(7999)) && pace.is_due(us(8000)));
        let count = askings(pace, us(3), us(7000), us(107_000));
        assert!((95..=100).contains(&count), "{count}");
    }

    #[test]
    fn askings_take_a_share_of_the_time() {
        for took in [us(50), us(300), us(1500)] {
            let count = askings(Pace::new(2, BOUND, us(0)), took, us(0), us(1_000_000));
            let share = f64::from(count) * took.as_secs_f64();
            assert!((0.9 / 64.0..=1.1 / 64.0).contains(&share), "{took:?}: {count}, {share}");
        }
    }

    #[test]
    fn all_have_their_turn_in_time_however_slow_the_device() {
        for (owners, turn) in [(2, 117_500), (47, 5000), (4096, 1000)] {
            let mut pace = Pace::new(owners, BOUND, us(0));
            pace.turned(us(1000));
            // It took a tenth of a second, and was heard of when it should be long over.
            pace.answered(us(101_000));
            let due = us(101_000 + turn);
            assert!(pace.is_due(due) && !pace.is_due(due - us(1)), "{owners}");
        }
    }

    #[test]
    fn who_is_passed_over_costs_the_next_a_millisecond() {
        let mut pace = Pace::new(2, BOUND, us(0));
        pace.turned(us(1000));
        pace.answered(us(2000));
        assert!(!pace.is_due(us(64_999)) && pace.is_due(us(65_000)));
        pace.turned(us(65_000));
        assert!(!pace.is_due(us(65_999)) && pace.is_due(us(66_000)));
    }
}
