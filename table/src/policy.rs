//! The choices that an operation makes beyond the paper's algorithm, based on recent operations.

use crate::chunk_choice::Chooser;
use crate::config::Config;
use crate::options::OneRoundtrip;
use crate::outcome::{Ended, Intent};

/// The state from which each operation's choices are made.
#[derive(Clone, Debug)]
pub struct Policy {
    one_roundtrip: OneRoundtrip,
    /// The least expected fraction of claims that succeed, as the product of two shares, at which a
    /// find-or-put claims with `Auto`.
    auto_from: u64,
    pub(crate) chooser: Chooser,
    inserts: Share,
    /// Fraction of occupied home buckets among keys that were absent: the load factor.
    occupied: Share,
}

/// A moving average of a yes/no event over about 64 samples, as a fraction of 2^16.
#[derive(Clone, Copy, Debug)]
struct Share(u32);

const ONE: u32 = 1 << 16;
/// Binary logarithm of the averaging window: 64 samples, to follow a workload that changes from
/// inserts to finds within 64 operations.
const WEIGHT: u32 = 6;
/// A quarter, as the product of two shares of 2^16.
const ONE_IN_FOUR: u64 = 1 << 30;
/// Three quarters. Where no roundtrip is saved, a claim that succeeds saves one step of the
/// operation, and one that fails costs an atomic.
const THREE_IN_FOUR: u64 = 3 << 30;

impl Share {
    #[inline]
    fn count(&mut self, yes: bool) {
        let goal = if yes { ONE } else { 0 };
        self.0 = self.0 - (self.0 >> WEIGHT) + (goal >> WEIGHT);
    }
}

impl Policy {
    /// Creates the policy of a table that is assumed to be empty.
    pub(crate) fn new(config: &Config) -> Self {
        let Config { chunk_choice, chunk_buckets, read_ahead, .. } = *config;
        Self {
            one_roundtrip: config.one_roundtrip,
            auto_from: ONE_IN_FOUR,
            chooser: Chooser::new(chunk_choice, chunk_buckets, read_ahead),
            inserts: Share(ONE),
            occupied: Share(0),
        }
    }

    /// Forgets the recent operations.
    pub(crate) fn forget(&mut self, config: &Config) {
        *self = Self { auto_from: self.auto_from, ..Self::new(config) };
    }

    /// Adapts to a CPU that executes every operation itself, so that a claim saves no roundtrip.
    pub(crate) fn expect_no_roundtrips(&mut self) {
        self.auto_from = THREE_IN_FOUR;
    }

    /// Sets the load factor, 0 to 1.
    pub(crate) fn set_load_factor(&mut self, load_factor: f64) {
        // The conversion saturates, and the load factor is at most 1.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let parts = (load_factor * f64::from(ONE)) as u32;
        self.occupied = Share(parts.min(ONE));
        // Average number of buckets that an insert examines with linear probing (Knuth, TAOCP
        // volume 3, section 6.4, theorem K).
        let left = (1.0 - load_factor).max(1e-3);
        let buckets = f64::midpoint(1.0, 1.0 / (left * left));
        // Positive, and at most 500000.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        self.chooser.expect(buckets as u32);
    }

    /// Returns whether a find-or-put claims its home bucket along with the first READ.
    #[inline]
    pub(crate) fn claims_in_one_roundtrip(&self) -> bool {
        match self.one_roundtrip {
            OneRoundtrip::Off => false,
            OneRoundtrip::On => true,
            OneRoundtrip::Auto => {
                let empty = u64::from(ONE.saturating_sub(self.occupied.0));
                u64::from(self.inserts.0) * empty >= self.auto_from
            }
        }
    }

    /// Records a completed operation that examined `buckets` buckets; `is_at_home` if it looked
    /// only at its home bucket.
    #[inline(always)]
    pub(crate) fn ended(&mut self, outcome: Ended, intent: Intent, buckets: u64, is_at_home: bool) {
        self.chooser.ended(u32::try_from(buckets).unwrap_or(u32::MAX));
        if intent == Intent::FindOrPut {
            self.inserts.count(outcome == Ended::Inserted);
        }
        if outcome != Ended::Found {
            self.occupied.count(!is_at_home);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_converges_to_counted_fraction() {
        let mut share = Share(ONE);
        for i in 0..10_000 {
            share.count(i % 4 == 0);
        }
        let quarter = ONE / 4;
        assert!(share.0.abs_diff(quarter) < quarter / 10, "{}", share.0);
        for _ in 0..10_000 {
            share.count(true);
        }
        assert!(share.0 <= ONE && share.0 > ONE - ONE / 100, "{}", share.0);
    }

    #[test]
    fn auto_claims_less_without_roundtrips() {
        let config = Config { one_roundtrip: OneRoundtrip::Auto, ..Config::paper(16) };
        let claims_at = |load_factor| {
            let mut policy = Policy::new(&config);
            policy.set_load_factor(load_factor);
            let with_roundtrips = policy.claims_in_one_roundtrip();
            policy.expect_no_roundtrips();
            let before = policy.claims_in_one_roundtrip();
            policy.forget(&config);
            policy.set_load_factor(load_factor);
            assert_eq!(policy.claims_in_one_roundtrip(), before);
            (with_roundtrips, before)
        };
        assert_eq!([0.1, 0.5, 0.9].map(claims_at), [(true, true), (true, false), (false, false)]);
    }
}
