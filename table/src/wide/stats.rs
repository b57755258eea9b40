//! Counters of what entries cost, beside the [`Stats`](crate::Stats) of the buckets.

/// What a wide table's entries have cost since it was opened or its counters were reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct EntryStats {
    /// Entries read because a bucket has the key's tag, by a READ or by the CPU. An operation waits
    /// for each of them, a roundtrip of its own.
    pub entry_reads: u64,
    /// The `entry_reads` that showed another key with the same tag.
    pub false_entry_reads: u64,
    /// Fetch-and-adds that take entries.
    pub fetches: u64,
    /// Entries taken from other owners' parts, because this owner's is exhausted.
    pub entries_from_others: u64,
}

impl EntryStats {
    /// Returns the sums of two sets of counters.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            entry_reads: self.entry_reads + other.entry_reads,
            false_entry_reads: self.false_entry_reads + other.false_entry_reads,
            fetches: self.fetches + other.fetches,
            entries_from_others: self.entries_from_others + other.entries_from_others,
        }
    }
}
