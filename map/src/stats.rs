//! Counters of operations and of what happened to them.

use crate::outcome::{Outcome, Written};

/// What the operations of one client have done since the map was opened or the counters were reset.
///
/// [`reads`](Self::reads) are hits and misses; [`writes`](Self::writes) are inserts, updates,
/// evictions and drops. Operations that end in an error count as `failed` only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Gets that found the key.
    pub hits: u64,
    /// Gets that did not.
    pub misses: u64,
    /// The `misses` that gave up because other clients write to the key's candidates.
    pub busy: u64,
    /// Puts into a bucket without an entry.
    pub inserts: u64,
    /// Puts over an older value of the key.
    pub updates: u64,
    /// Puts in place of another key's entry.
    pub evictions: u64,
    /// Puts that stored nothing: [`Written::Dropped`].
    pub drops: u64,
    /// Puts-if-absent that found the key.
    pub present: u64,
    /// Removes that removed the key.
    pub removes: u64,
    /// Removes that did not.
    pub absent: u64,
    /// The `absent` that gave up because other clients write to the key's candidates.
    pub dropped_removes: u64,
    /// Operations that ended in an error.
    pub failed: u64,
    /// Looks at buckets, each a READ or a look by the CPU.
    pub looks: u64,
    /// The `looks` whose check failed: they showed words of different times, or an entry that a late
    /// WRITE has destroyed.
    pub failed_checks: u64,
    /// Claims of buckets that other clients changed first.
    pub lost_claims: u64,
    /// Claims that other clients took over before the entry was published, because they took this
    /// client for dead. Each may cost the entry that was written to the same bucket since.
    pub stolen_claims: u64,
    /// Claims given up because another client wrote the same key.
    pub given_up: u64,
    /// Entries that writes destroyed beyond those that `updates` and `evictions` replaced.
    pub lost_entries: u64,
}

impl Stats {
    /// Gets that ended without an error.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.hits + self.misses
    }

    /// Puts that ended without an error, except for those counted as `present`.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.inserts + self.updates + self.evictions + self.drops
    }

    /// Returns the sums of two sets of counters.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            hits: self.hits + other.hits,
            misses: self.misses + other.misses,
            busy: self.busy + other.busy,
            inserts: self.inserts + other.inserts,
            updates: self.updates + other.updates,
            evictions: self.evictions + other.evictions,
            drops: self.drops + other.drops,
            present: self.present + other.present,
            removes: self.removes + other.removes,
            absent: self.absent + other.absent,
            dropped_removes: self.dropped_removes + other.dropped_removes,
            failed: self.failed + other.failed,
            looks: self.looks + other.looks,
            failed_checks: self.failed_checks + other.failed_checks,
            lost_claims: self.lost_claims + other.lost_claims,
            stolen_claims: self.stolen_claims + other.stolen_claims,
            given_up: self.given_up + other.given_up,
            lost_entries: self.lost_entries + other.lost_entries,
        }
    }

    /// Counts an operation by its outcome.
    pub(crate) fn count_outcome<V>(&mut self, outcome: &Outcome<V>, removes: bool) {
        match outcome {
            Outcome::Hit(_) => self.hits += 1,
            Outcome::Miss => self.misses += 1,
            Outcome::Written(written) => self.count(*written, removes),
        }
    }

    /// Counts a write.
    pub(crate) fn count(&mut self, written: Written, removes: bool) {
        match written {
            Written::Inserted => self.inserts += 1,
            Written::Updated => self.updates += 1,
            Written::Evicted => self.evictions += 1,
            Written::Present => self.present += 1,
            Written::Removed => self.removes += 1,
            Written::Absent => self.absent += 1,
            Written::Dropped if removes => {
                self.absent += 1;
                self.dropped_removes += 1;
            }
            Written::Dropped => self.drops += 1,
        }
    }
}
