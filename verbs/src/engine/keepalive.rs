//! Keepalives: READs of owners to which nothing was posted for a while, so that the engine notices
//! when one of them is lost.

use core::time::Duration;

use probeline_transport::engine::{Deadline, monotonic_now};
use probeline_transport::{Fault, Geometry, OpError, Owner};

use super::connection::{FIRST_LOST, SCRATCH, named_owner, shutdown_word};
use super::private::OwnWord;
use super::{DEVICE_PATIENCE, Engine, KEEPALIVE_WR_ID};
use crate::WorkRequest;

/// The engine reads the clock once in this number of polls. Reading it takes tens of nanoseconds,
/// which adds less than one nanosecond to a poll.
const POLLS_PER_CLOCK: u32 = 256;
/// The minimum interval between two keepalives: 1,000 READs a second do not load a device.
const MIN_INTERVAL: Duration = Duration::from_millis(1);
/// Keepalives take at most 1/64 of the time, also on emulated devices, whose READs cost CPU time.
const MIN_INTERVAL_FACTOR: u32 = 64;
/// The intervals of one round over all owners add up to at most 1/8 of the time for which a request
/// is retried, so that they add little to the time after which a lost owner is noticed.
const ROUNDS_PER_BOUND: u32 = 8;

/// The schedule of the keepalives of one engine, and the one in flight. Times are of the monotonic
/// clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keepalive {
    geometry: Geometry,
    polls: u32,
    /// The owner of the last keepalive.
    owner: Owner,
    max_interval: Duration,
    started: Duration,
    next: Duration,
    /// The deadline of the keepalive in flight.
    deadline: Option<Deadline>,
}

impl Keepalive {
    /// Creates the schedule; `bound` is the time for which a request is retried.
    pub(super) fn new(geometry: Geometry, bound: Duration, now: Duration) -> Self {
        let max_interval = (bound / ROUNDS_PER_BOUND / geometry.owners.max(1)).max(MIN_INTERVAL);
        let next = now + MIN_INTERVAL;
        let owner = geometry.me;
        Self { geometry, polls: 0, owner, max_interval, started: now, next, deadline: None }
    }

    #[inline]
    pub(super) fn is_in_flight(&self) -> bool {
        self.deadline.is_some()
    }

    /// Starts the turn of the next owner. A single owner's keepalives go to itself, and so to its
    /// device.
    fn start_turn(&mut self, now: Duration) -> Owner {
        let Geometry { me, owners, .. } = self.geometry;
        let after = |owner: Owner| Owner(if owner.0 + 1 < owners { owner.0 + 1 } else { 0 });
        let next = after(self.owner);
        self.owner = if next == me { after(next) } else { next };
        (self.started, self.next) = (now, now + MIN_INTERVAL);
        self.owner
    }

    /// Records that the keepalive in flight has completed. Returns its owner.
    pub(super) fn completed(&mut self, now: Duration) -> Owner {
        let took = now.saturating_sub(self.started);
        let interval = took.saturating_mul(MIN_INTERVAL_FACTOR - 1);
        self.next = now + interval.clamp(MIN_INTERVAL, self.max_interval);
        self.deadline = None;
        self.owner
    }
}

impl Engine {
    /// Checks whether a peer has shut down, and from time to time whether the peers and the device
    /// are alive. `drained` states that the completion queue was empty.
    #[inline]
    pub(super) fn watch(&mut self, drained: bool) {
        if self.fault.is_none()
            && let Some(first) =
                named_owner(self.parts.window.words(), FIRST_LOST, self.geometry.owners)
        {
            self.peer_shut_down(first);
        }
        self.keepalive.polls = self.keepalive.polls.wrapping_add(1);
        if self.keepalive.polls.is_multiple_of(POLLS_PER_CLOCK) {
            self.keep_alive(drained);
        }
    }

    /// Records that an owner has shut down; `first` is the owner that was lost first.
    #[cold]
    fn peer_shut_down(&mut self, first: Owner) {
        self.set_fault(Fault::OwnerLost(first));
        for (owner, connection) in (0..).map(Owner).zip(&mut self.parts.connections) {
            let word =
                named_owner(self.parts.window.words(), shutdown_word(owner), self.geometry.owners);
            if word.is_some() || owner == first {
                // Moves the queue pair to the error state, which completes its requests now. If
                // this fails they complete after their retries.
                connection.dead = true;
                let _ = connection.pair.fail();
            }
        }
    }

    /// Posts the next keepalive if it is due, or checks the deadline of the one in flight.
    #[cold]
    fn keep_alive(&mut self, drained: bool) {
        if self.fault.is_some() {
            return;
        }
        match self.keepalive.deadline {
            // An undrained queue may hold its completion, for example after this process was
            // stopped.
            Some(deadline) if drained && deadline.has_passed() => {
                self.give_up_device(Fault::System { errno: libc::ETIMEDOUT });
            }
            Some(_) => {}
            None => {
                let now = monotonic_now();
                if now >= self.keepalive.next {
                    self.post_keepalive(now);
                }
            }
        }
    }

    /// READs the scratch word of the next owner, unless requests were posted there since its last
    /// turn: they have completed, or will fail.
    fn post_keepalive(&mut self, now: Duration) {
        let owner = self.keepalive.start_turn(now);
        let Some(connection) = self.parts.connections.get_mut(owner.0 as usize) else { return };
        if connection.take_used() {
            return;
        }
        let into = self.parts.private.own_range(OwnWord::Keepalive);
        let Some((from, into)) = connection.control(SCRATCH).zip(into) else { return };
        match connection.pair.post(&WorkRequest::read(KEEPALIVE_WR_ID, from, into)) {
            Ok(()) => self.keepalive.deadline = Some(self.device_deadline()),
            Err(failed) => self.fail(owner, OpError::NotPosted { errno: failed.errno }),
        }
    }

    /// Returns the deadline for a working device to complete a request that is posted now. The
    /// specification allows a device four times the time of its timer.
    pub(super) fn device_deadline(&self) -> Deadline {
        Deadline::after(
            self.link.path.retry.bound().saturating_mul(4).saturating_add(DEVICE_PATIENCE),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Duration = Duration::from_millis(1880);

    fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    fn keepalive(owners: u32, now: Duration) -> Keepalive {
        let me = Owner(0);
        let geometry = Geometry { me, owners, window_words: 8, slots: 1, slot_words: 8 };
        Keepalive::new(geometry, BOUND, now)
    }

    /// Returns the number of keepalives between two times, if each takes `took`.
    fn count(mut keepalive: Keepalive, took: Duration, from: Duration, until: Duration) -> u32 {
        let (mut now, mut count) = (from, 0);
        while now < until {
            if now >= keepalive.next {
                keepalive.start_turn(now);
                now += took;
                keepalive.completed(now);
                count += 1;
            }
            now += us(10);
        }
        count
    }

    #[test]
    fn fast_device_keepalive_every_millisecond() {
        let keepalive = keepalive(2, us(7000));
        assert_eq!(keepalive.next, us(8000));
        let count = count(keepalive, us(3), us(7000), us(107_000));
        assert!((95..=100).contains(&count), "{count}");
    }

    #[test]
    fn bounds_keepalive_time_share() {
        for took in [us(50), us(300), us(1500)] {
            let count = count(keepalive(2, us(0)), took, us(0), us(1_000_000));
            let share = f64::from(count) * took.as_secs_f64();
            assert!((0.9 / 64.0..=1.1 / 64.0).contains(&share), "{took:?}: {count}, {share}");
        }
    }

    #[test]
    fn slow_device_keeps_round_limit() {
        for (owners, interval) in [(2, 117_500), (47, 5000), (4096, 1000)] {
            let mut keepalive = keepalive(owners, us(0));
            keepalive.start_turn(us(1000));
            // It took a tenth of a second.
            keepalive.completed(us(101_000));
            assert_eq!(keepalive.next, us(101_000 + interval), "{owners}");
        }
    }

    #[test]
    fn skipped_owner_delays_one_millisecond() {
        let mut keepalive = keepalive(3, us(0));
        assert_eq!(keepalive.start_turn(us(1000)), Owner(1));
        assert_eq!(keepalive.completed(us(2000)), Owner(1));
        assert_eq!(keepalive.next, us(65_000));
        assert_eq!(keepalive.start_turn(us(65_000)), Owner(2));
        assert_eq!(keepalive.next, us(66_000));
        assert_eq!(keepalive.start_turn(us(66_000)), Owner(1));
    }
}
