//! What operations cost, counted by outcome.

use crate::find_or_put::Outcome;

/// Sums over the operations that ended with one outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct OutcomeStats {
    /// Operations.
    pub operations: u64,
    /// Chunk reads waited for.
    pub effective_roundtrips: u64,
    /// Chunk reads posted, those ahead of need included. A chunk that straddles two owners
    /// counts once.
    pub outgoing_roundtrips: u64,
    /// Compare-and-swaps posted on buckets that looked empty; those of the CPU are not counted.
    pub claims: u64,
    /// Those of them that found the bucket taken.
    pub claims_lost: u64,
    /// Fetch-and-adds of 0 to tell what a torn word is.
    pub confirms: u64,
    /// Compare-and-swaps posted along with the first READ, which are not among `claims`.
    pub first_claims: u64,
    /// Those of them that ended their operation.
    pub first_claims_decided: u64,
    /// Cache lines that the CPU looked at, or copied in place of a READ.
    pub lines: u64,
    /// Operations that the cache answered, without looking at the table.
    pub cache_hits: u64,
}

/// What a table's operations have cost since it was opened or its counters were reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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

    /// The share of operations that the cache answered, 0 to 1; 0 where there were none.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn cache_hit_rate(&self) -> f64 {
        let total = self.total();
        if total.operations == 0 { 0.0 } else { total.cache_hits as f64 / total.operations as f64 }
    }

    #[inline]
    fn of(&mut self, outcome: Outcome) -> &mut OutcomeStats {
        match outcome {
            Outcome::Found => &mut self.found,
            Outcome::Inserted => &mut self.inserted,
            Outcome::Full => &mut self.full,
            Outcome::Absent => &mut self.absent,
        }
    }

    /// An operation that the cache answered.
    #[inline]
    pub(crate) fn count_cached(&mut self) {
        self.found.operations += 1;
        self.found.cache_hits += 1;
    }

    /// Operations that ended so at the first line that the CPU looked at.
    pub(crate) fn count_home(&mut self, outcome: Outcome, operations: u64) {
        let stats = self.of(outcome);
        stats.operations += operations;
        stats.lines += operations;
    }

    /// An operation for which the CPU looked at `lines` itself, to its end.
    #[inline]
    pub(crate) fn count_direct(&mut self, outcome: Outcome, lines: u32) {
        let stats = self.of(outcome);
        stats.operations += 1;
        stats.lines += u64::from(lines);
    }

    /// An operation that ended by READs and atomics.
    #[inline]
    pub(crate) fn count(&mut self, outcome: Outcome, cost: &Cost) {
        let stats = self.of(outcome);
        stats.operations += 1;
        stats.effective_roundtrips += u64::from(cost.effective.saturating_sub(cost.copies_scanned));
        stats.outgoing_roundtrips += u64::from(cost.outgoing.saturating_sub(cost.chunks_copied));
        stats.claims += u64::from(cost.claims);
        stats.claims_lost += u64::from(cost.claims_lost);
        stats.confirms += u64::from(cost.confirms);
        stats.first_claims += u64::from(cost.first_claims);
        stats.first_claims_decided += u64::from(cost.first_claims_decided);
        stats.lines += u64::from(cost.lines);
    }
}

impl core::iter::Sum for Stats {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |sum, part| Self {
            found: sum.found.plus(&part.found),
            inserted: sum.inserted.plus(&part.inserted),
            full: sum.full.plus(&part.full),
            absent: sum.absent.plus(&part.absent),
            failed: sum.failed + part.failed,
        })
    }
}

/// What one operation by READs and atomics has cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Chunks waited for, and requested.
    pub(crate) effective: u32,
    pub(crate) outgoing: u32,
    /// Chunks that the CPU copied in place of READs, and those of them that were scanned.
    pub(crate) chunks_copied: u32,
    pub(crate) copies_scanned: u32,
    pub(crate) lines: u32,
    pub(crate) claims: u32,
    pub(crate) claims_lost: u32,
    pub(crate) confirms: u32,
    pub(crate) first_claims: u32,
    pub(crate) first_claims_decided: u32,
}

/// Costs decide nothing: operations that differ in them alone are one to the model check.
#[cfg(test)]
impl core::hash::Hash for Cost {
    fn hash<H: core::hash::Hasher>(&self, _: &mut H) {}
}

impl Cost {
    #[inline(always)]
    pub(crate) fn reset(&mut self) {
        self.chunks_copied = 0;
        self.copies_scanned = 0;
        self.lines = 0;
        self.claims = 0;
        self.claims_lost = 0;
        self.confirms = 0;
    }

    pub(crate) const ZERO: Self = Self {
        effective: 0,
        outgoing: 0,
        chunks_copied: 0,
        copies_scanned: 0,
        lines: 0,
        claims: 0,
        claims_lost: 0,
        confirms: 0,
        first_claims: 0,
        first_claims_decided: 0,
    };
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
            first_claims: self.first_claims + other.first_claims,
            first_claims_decided: self.first_claims_decided + other.first_claims_decided,
            lines: self.lines + other.lines,
            cache_hits: self.cache_hits + other.cache_hits,
        }
    }
}
