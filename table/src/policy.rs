//! What an operation does beyond the paper's algorithm, decided from what the last ones met.

use crate::chunk_choice::{Chooser, ReadCost};
use crate::config::Config;
use crate::find_or_put::{Intent, Outcome};

/// How C is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkChoice {
    /// Always `Config::chunk_buckets`.
    Fixed,
    /// For each operation, `Config::chunk_buckets` and 512 at most: what costs least, READs costing
    /// this, for as many buckets as operations have lately looked at. The paper's future work
    /// (section 5).
    Adaptive(ReadCost),
}

/// When the next chunk is requested before the present one is scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAhead {
    /// Always: the paper's (Fig. 1, lines 5-6).
    Always,
    /// Once an operation has gone so far that most of those that came there went on.
    Likely,
    /// Never.
    Never,
}

/// Whether a find-or-put claims its home bucket along with its first READ: an insert then takes
/// one roundtrip instead of two if its home is empty, and any other operation one atomic more.
/// Without effect where the CPU itself looks at the home first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstClaim {
    /// Never: the paper's.
    Off,
    /// Always.
    On,
    /// Where the share of inserts among the last operations and that of empty home buckets say
    /// that at least one claim in four succeeds. A success saves a whole roundtrip; a failure
    /// costs an atomic beside a READ that is waited for anyway. What an atomic costs is not known
    /// here: where a device does many fewer of them than READs, as NICs may, `Off` does more
    /// operations a second. `probeline tune` measures which.
    Auto,
}

/// What is decided anew for each operation.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    first_claim: FirstClaim,
    chooser: Chooser,
    inserts: Share,
    /// Occupied home buckets among data that was not there: the load factor.
    occupied: Share,
}

/// A moving average of yes and no over some 64 of them, in parts of 2^16.
#[derive(Clone, Copy, Debug)]
struct Share(u32);

const ONE: u32 = 1 << 16;
/// Of 64, to follow a workload that turns from inserts to finds within as many of them.
const WEIGHT: u32 = 6;
/// Of the product of two shares.
const ONE_IN_FOUR: u64 = 1 << 30;

impl Share {
    #[inline]
    fn count(&mut self, yes: bool) {
        let goal = if yes { ONE } else { 0 };
        self.0 = self.0 - (self.0 >> WEIGHT) + (goal >> WEIGHT);
    }
}

impl Policy {
    /// Nothing is known of the table yet; it is taken to be empty.
    pub(crate) fn new(config: &Config) -> Self {
        let chooser = match config.chunk_choice {
            ChunkChoice::Fixed => Chooser::fixed(config.chunk_buckets, config.read_ahead),
            ChunkChoice::Adaptive(cost) => {
                Chooser::new(cost, config.chunk_buckets, config.read_ahead)
            }
        };
        Self { first_claim: config.first_claim, chooser, inserts: Share(ONE), occupied: Share(0) }
    }

    /// The load factor is known, 0 to 1.
    pub(crate) fn set_load_factor(&mut self, load_factor: f64) {
        // A conversion that saturates, of a share that is no more than 1.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let parts = (load_factor * f64::from(ONE)) as u32;
        self.occupied = Share(parts.min(ONE));
        // Of linear probing, what an insert looks at on average (Knuth, TAOCP volume 3, section
        // 6.4, theorem K).
        let left = (1.0 - load_factor).max(1e-3);
        let buckets = f64::midpoint(1.0, 1.0 / (left * left));
        // Positive, and at most 500000.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        self.chooser.expect(buckets as u32);
    }

    /// Chunks as the model check wants them, for ever.
    #[cfg(test)]
    pub(crate) fn force(&mut self, chunk_buckets: u32, ahead_from: u32) {
        self.chooser.force(chunk_buckets, ahead_from);
    }

    /// C for the next operation, and from which chunk on, counted from 0, it reads ahead;
    /// `u32::MAX` is never.
    #[inline]
    pub(crate) fn chunks(&self) -> (u32, u32) {
        (self.chooser.chunk_buckets(), self.chooser.ahead_from())
    }

    /// Whether a find-or-put claims its first bucket along with the first READ.
    #[inline]
    pub(crate) fn claims_first(&self) -> bool {
        match self.first_claim {
            FirstClaim::Off => false,
            FirstClaim::On => true,
            FirstClaim::Auto => {
                let empty = u64::from(ONE.saturating_sub(self.occupied.0));
                u64::from(self.inserts.0) * empty >= ONE_IN_FOUR
            }
        }
    }

    /// An operation has looked at so many buckets; `is_at_home`: at no bucket but its home.
    #[inline]
    pub(crate) fn ended(
        &mut self,
        outcome: Outcome,
        intent: Intent,
        buckets: u64,
        is_at_home: bool,
    ) {
        self.chooser.ended(u32::try_from(buckets).unwrap_or(u32::MAX));
        if intent == Intent::FindOrPut {
            self.inserts.count(outcome == Outcome::Inserted);
        }
        if outcome != Outcome::Found {
            self.occupied.count(!is_at_home);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_follows_what_it_counts() {
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
}
