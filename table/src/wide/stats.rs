//! Counters of what entries cost, beside the [`Stats`](crate::Stats) of the buckets.

use probeline_pipeline::counters;

counters! {
    /// Costs of a wide table's entries since it was opened or its counters were reset.
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    pub struct EntryStats {
        /// Entries read because a bucket has the key's tag, by a READ or by the CPU. An operation waits
        /// for each of them, a roundtrip of its own.
        pub entry_reads,
        /// The `entry_reads` that showed another key with the same tag.
        pub false_entry_reads,
        /// Fetch-and-adds that take entries.
        pub fetches,
        /// Entries taken from other owners' parts, because this owner's is exhausted.
        pub entries_from_others,
    }
}
