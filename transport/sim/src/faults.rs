//! The faults to inject, their probabilities, and the draws that decide them for each operation.

use probeline_transport::Owner;

use crate::{Kind, Rng};

/// The faults that happen at random. Every `_ppm` is a probability for each operation, in parts per
/// million; [`Counters`](crate::Counters) counts each fault that happens.
///
/// All three kinds of error carry the same status, so that a caller cannot distinguish them. A READ
/// that fails leaves its landing range poisoned. Owners are not lost at random but when an engine
/// is dropped, or by [`Cluster::kill`](crate::Cluster::kill).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The operation takes effect and completes in error.
    pub error_done_ppm: u32,
    /// The operation completes in error and never takes effect.
    pub error_undone_ppm: u32,
    /// The operation completes in error and takes effect later. For a READ, and if `depth` effects
    /// of the engine are late already, it is an error without effect.
    pub error_late_ppm: u32,
    /// The longest time between such a completion and its effect, in nanoseconds.
    pub late_ns: u64,
    /// A READ is executed again, up to a roundtrip later, and the later words land.
    pub repeated_read_ppm: u32,
    /// The words of a READ may be torn: each word is sampled twice, and if it changed in between, a
    /// mixture of bytes of both samples lands. Requires
    /// [`Config::word_reads_whole`](crate::Config::word_reads_whole) to be false.
    pub torn_read_ppm: u32,
    /// The roundtrip takes `slow_factor` times as long.
    pub slow_ppm: u32,
    /// The factor of slow roundtrips, at least 1 if there are any.
    pub slow_factor: u32,
    /// The engine that dies, if any.
    pub death: Option<Death>,
}

/// The death of one engine: its operations in flight are flushed, half of them without effect, and
/// then the engine reports [`DEATH_STATUS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death {
    /// The owner of the engine, modulo the number of owners.
    pub owner: Owner,
    /// The number of operations that the engine accepts before it dies.
    pub after_ops: u64,
}

/// The status in the [`Fault::Device`](probeline_transport::Fault::Device) of an engine that died.
pub const DEATH_STATUS: u32 = 0xdead;

/// The probability of 1, in parts per million.
pub(crate) const ALL_PPM: u32 = 1_000_000;

impl Faults {
    /// Returns a plan without faults.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns a random choice of faults with random weights, the same for the same seed. It leaves
    /// some faults out altogether, because a fault can hide the states in which others matter
    /// (Groce et al., "Swarm testing", ISSTA 2012).
    #[must_use]
    pub fn swarm(seed: u64) -> Self {
        let mut rng = Rng::new(seed, crate::rng::streams::SWARM);
        Self {
            error_done_ppm: weight(&mut rng),
            error_undone_ppm: weight(&mut rng),
            error_late_ppm: weight(&mut rng),
            late_ns: 1 << rng.below(20),
            repeated_read_ppm: weight(&mut rng),
            torn_read_ppm: weight(&mut rng).saturating_mul(4),
            slow_ppm: weight(&mut rng),
            slow_factor: 1 << rng.below(8),
            death: (rng.below(4) == 0).then(|| Death {
                owner: Owner(u32::from(rng.bits().to_le_bytes()[0])),
                after_ops: 1 << rng.below(14),
            }),
        }
    }
}

/// Draws 0 for half of the draws, else 160 000 ppm halved 0 to 9 times at random.
fn weight(rng: &mut Rng) -> u32 {
    let exponent = rng.below(20);
    if exponent >= 10 { 0 } else { 160_000 >> exponent }
}

/// The completion of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Fine,
    ErrorDone,
    ErrorUndone,
    ErrorLate,
}

/// The faults drawn for one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DrawnFaults {
    pub(crate) ending: Ending,
    /// The factor by which the roundtrip is multiplied.
    pub(crate) factor: u32,
    pub(crate) repeated: bool,
    pub(crate) torn: bool,
}

/// The random generator of faults.
pub(crate) struct FaultInjector {
    faults: Faults,
    rng: Rng,
    tears: bool,
}

impl FaultInjector {
    pub(crate) fn new(faults: Faults, tears: bool, rng: Rng) -> Self {
        Self { faults, rng, tears }
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.faults
    }

    pub(crate) fn draw(&mut self, kind: Kind) -> DrawnFaults {
        let read = kind == Kind::Read;
        let ending = self.ending(read);
        DrawnFaults {
            ending,
            factor: if self.rng.chance(self.faults.slow_ppm) { self.faults.slow_factor } else { 1 },
            repeated: read
                && ending == Ending::Fine
                && self.rng.chance(self.faults.repeated_read_ppm),
            torn: read
                && ending == Ending::Fine
                && self.tears
                && self.rng.chance(self.faults.torn_read_ppm),
        }
    }

    fn ending(&mut self, read: bool) -> Ending {
        let Faults { error_done_ppm, error_undone_ppm, error_late_ppm, .. } = self.faults;
        let errors_ppm = error_done_ppm + error_undone_ppm + error_late_ppm;
        if !self.rng.chance(errors_ppm) {
            return Ending::Fine;
        }
        let which = self.rng.below(errors_ppm.into());
        if which < u64::from(error_done_ppm) {
            Ending::ErrorDone
        } else if which < u64::from(error_done_ppm) + u64::from(error_undone_ppm) || read {
            Ending::ErrorUndone
        } else {
            Ending::ErrorLate
        }
    }

    /// Draws the time from a completion to its late effect, in nanoseconds, at least 1.
    pub(crate) fn late_by_ns(&mut self) -> u64 {
        1 + self.rng.below(self.faults.late_ns)
    }

    /// Draws the delay of the second execution of a READ, at most a roundtrip, in nanoseconds.
    pub(crate) fn repeated_after_ns(&mut self, roundtrip_ns: u64) -> u64 {
        self.rng.up_to(roundtrip_ns)
    }

    /// Draws whether a flushed operation loses its effect.
    pub(crate) fn flushed_undone(&mut self) -> bool {
        self.rng.chance(ALL_PPM / 2)
    }

    /// Returns `old` with some of its bytes, at least one but not all, replaced by those of `new`.
    pub(crate) fn tear(&mut self, old: u64, new: u64) -> u64 {
        let which = 1 + self.rng.below(254);
        let mask = (0..8).filter(|byte| which >> byte & 1 == 1).fold(0, |m, b| m | 0xff << (8 * b));
        old & !mask | new & mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torn_word_mixes_whole_bytes() {
        let mut injector = FaultInjector::new(Faults::none(), true, Rng::new(1, 1));
        for _ in 0..1_000 {
            let torn = injector.tear(0, u64::MAX).to_le_bytes();
            assert!(torn.iter().all(|&byte| byte == 0 || byte == 0xff));
            assert!(torn.contains(&0) && torn.contains(&0xff));
        }
    }

    #[test]
    fn errors_follow_probabilities() {
        let faults = Faults {
            error_done_ppm: 100_000,
            error_undone_ppm: 200_000,
            error_late_ppm: 300_000,
            ..Faults::none()
        };
        let mut injector = FaultInjector::new(faults, false, Rng::new(1, 1));
        let ends: alloc::vec::Vec<Ending> =
            (0..100_000).map(|_| injector.draw(Kind::Write).ending).collect();
        for (end, share) in [
            (Ending::ErrorDone, 10_000),
            (Ending::ErrorUndone, 20_000),
            (Ending::ErrorLate, 30_000),
        ] {
            let found = ends.iter().filter(|&&e| e == end).count();
            assert!(found.abs_diff(share) < share / 20, "{end:?}: {found}");
        }
        assert!((0..1_000).all(|_| injector.draw(Kind::Read).ending != Ending::ErrorLate));
    }

    #[test]
    fn swarms_vary_and_repeat() {
        let swarms: alloc::vec::Vec<Faults> = (0..200).map(Faults::swarm).collect();
        assert_eq!(swarms[7], Faults::swarm(7));
        for feature in [
            |f: &Faults| f.error_done_ppm > 0,
            |f: &Faults| f.error_late_ppm > 0,
            |f: &Faults| f.repeated_read_ppm > 0,
            |f: &Faults| f.torn_read_ppm > 0,
            |f: &Faults| f.slow_ppm > 0,
            |f: &Faults| f.death.is_some(),
        ] {
            let with = swarms.iter().filter(|f| feature(f)).count();
            assert!((20..180).contains(&with), "{with} of 200");
        }
    }
}
