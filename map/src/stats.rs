//! Counters of operations and of what happened to them.

use probeline_pipeline::counters;

use crate::outcome::{Outcome, Written};

counters! {
    /// Counters of the operations of one client since the map was opened or the counters were reset.
    ///
    /// [`reads`](Self::reads) are hits and misses; [`writes`](Self::writes) are inserts, updates,
    /// evictions and drops. Operations that end in an error count as `failed` only.
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    pub struct Stats {
        /// Gets that found the key.
        pub hits,
        /// Gets that did not.
        pub misses,
        /// The `misses` that gave up because other clients write to the key's candidates.
        pub busy,
        /// Puts into a bucket without an entry.
        pub inserts,
        /// Puts over an older value of the key.
        pub updates,
        /// Puts in place of another key's entry.
        pub evictions,
        /// Puts that stored nothing: [`Written::Dropped`].
        pub drops,
        /// Puts-if-absent that found the key.
        pub present,
        /// Removes that removed the key.
        pub removes,
        /// Removes that did not.
        pub absent,
        /// The `absent` that gave up because other clients write to the key's candidates.
        pub dropped_removes,
        /// Operations that ended in an error.
        pub failed,
        /// Reads of buckets, each a READ or loads by the CPU.
        pub bucket_reads,
        /// The `bucket_reads` whose check failed: they showed words of different times, or an entry that a late
        /// WRITE has destroyed.
        pub failed_checks,
        /// Claims of buckets that other clients changed first.
        pub lost_claims,
        /// Claims that other clients took over before the entry was published, because they took this
        /// client for dead. Each may cost the entry that was written to the same bucket since.
        pub stolen_claims,
        /// Claims given up because another client wrote the same key.
        pub given_up,
        /// Entries that writes destroyed beyond those that `updates` and `evictions` replaced.
        pub lost_entries,
    }
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
