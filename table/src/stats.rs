//! Counters of the cost of operations, by outcome.

use probeline_pipeline::counters;

use crate::outcome::Ended;

counters! {
    /// Sums over the operations with one outcome.
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    pub struct OutcomeStats {
        /// Number of operations.
        pub operations,
        /// Chunk reads that operations waited for.
        pub effective_roundtrips,
        /// Chunk reads posted, including those read ahead. A chunk that straddles two owners counts
        /// once.
        pub outgoing_roundtrips,
        /// Compare-and-swaps posted on buckets that looked empty. Those of the CPU are not included.
        pub claims,
        /// The part of `claims` that found the bucket occupied.
        pub claims_lost,
        /// Fetch-and-adds of 0 that resolve a possibly torn word.
        pub confirms,
        /// Compare-and-swaps posted along with the first READ; `claims` does not include them.
        pub one_roundtrip_claims,
        /// The part of `one_roundtrip_claims` that decided the outcome of their operation.
        pub one_roundtrip_claims_decided,
        /// Cache lines that the CPU examined, or copied in place of a READ.
        pub lines,
        /// Operations that the cache answered without an access to the table.
        pub cache_hits,
    }
}

/// The cost of a table's operations since it was opened or its counters were reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Stats {
    /// Operations with the outcome `Found`.
    pub found: OutcomeStats,
    /// Operations with the outcome `Inserted`.
    pub inserted: OutcomeStats,
    /// Operations with the outcome `Full`.
    pub full: OutcomeStats,
    /// Finds of keys that the table did not contain.
    pub absent: OutcomeStats,
    /// Operations that completed in error.
    pub failed: u64,
}

impl Stats {
    /// Returns the sums over all outcomes.
    #[must_use]
    pub fn total(&self) -> OutcomeStats {
        [self.found, self.inserted, self.full, self.absent]
            .iter()
            .fold(OutcomeStats::default(), |sum, part| sum.plus(part))
    }

    /// Adds the cost of operations with this outcome.
    #[inline]
    pub(crate) fn add(&mut self, outcome: Ended, cost: &OutcomeStats) {
        let stats = self.of(outcome);
        *stats = stats.plus(cost);
    }

    /// Returns the counters of the operations with this outcome.
    #[inline]
    pub(crate) fn of(&mut self, outcome: Ended) -> &mut OutcomeStats {
        match outcome {
            Ended::Found => &mut self.found,
            Ended::Inserted => &mut self.inserted,
            Ended::Full => &mut self.full,
            Ended::Absent => &mut self.absent,
        }
    }

    /// Counts `operations` that the CPU decided after looking at `lines` lines in all.
    #[inline]
    pub(crate) fn add_direct(&mut self, outcome: Ended, operations: u64, lines: u64) {
        self.add(outcome, &OutcomeStats { operations, lines, ..OutcomeStats::default() });
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

/// Costs of an operation with READs and atomics so far, beyond its chunks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Chunks that the CPU copied in place of READs, and the scanned ones among them.
    pub(crate) chunks_copied: u32,
    pub(crate) copies_scanned: u32,
    pub(crate) lines: u32,
    pub(crate) claims: u32,
    pub(crate) claims_lost: u32,
    pub(crate) confirms: u32,
}

/// Costs do not influence behaviour: the model check treats operations that differ only in cost as
/// equal.
#[cfg(test)]
impl core::hash::Hash for Cost {
    fn hash<H: core::hash::Hasher>(&self, _: &mut H) {}
}
