//! What operations cost, counted by outcome.

use crate::find_or_put::{Outcome, Search};

/// Sums over the operations that ended with one outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutcomeStats {
    /// Operations.
    pub operations: u64,
    /// Chunk reads waited for.
    pub effective_roundtrips: u64,
    /// Chunk reads posted, those ahead of need included. A chunk that straddles two owners
    /// counts once.
    pub outgoing_roundtrips: u64,
    /// Compare-and-swaps on buckets that looked empty.
    pub claims: u64,
    /// Those of them that found the bucket taken.
    pub claims_lost: u64,
    /// Fetch-and-adds of 0 to tell what a torn word is.
    pub confirms: u64,
}

/// What a table's operations have cost since it was opened or its counters were reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Operations that ended found.
    pub found: OutcomeStats,
    /// Operations that ended inserted.
    pub inserted: OutcomeStats,
    /// Operations that ended full.
    pub full: OutcomeStats,
    /// Finds that ended absent.
    pub absent: OutcomeStats,
    /// Operations that ended in error.
    pub failed: u64,
}

impl Stats {
    /// The sums over all outcomes.
    #[must_use]
    pub fn total(&self) -> OutcomeStats {
        [self.found, self.inserted, self.full, self.absent]
            .iter()
            .fold(OutcomeStats::default(), |sum, part| sum.plus(part))
    }

    #[inline]
    pub(crate) fn count(&mut self, outcome: Outcome, search: &Search) {
        let stats = match outcome {
            Outcome::Found => &mut self.found,
            Outcome::Inserted => &mut self.inserted,
            Outcome::Full => &mut self.full,
            Outcome::Absent => &mut self.absent,
        };
        let (claims, claims_lost) = search.claims();
        stats.operations += 1;
        stats.effective_roundtrips += u64::from(search.effective_roundtrips());
        stats.outgoing_roundtrips += u64::from(search.outgoing_roundtrips());
        stats.claims += u64::from(claims);
        stats.claims_lost += u64::from(claims_lost);
        stats.confirms += u64::from(search.confirms());
    }
}

impl OutcomeStats {
    /// The sums of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            operations: self.operations + other.operations,
            effective_roundtrips: self.effective_roundtrips + other.effective_roundtrips,
            outgoing_roundtrips: self.outgoing_roundtrips + other.outgoing_roundtrips,
            claims: self.claims + other.claims,
            claims_lost: self.claims_lost + other.claims_lost,
            confirms: self.confirms + other.confirms,
        }
    }
}
