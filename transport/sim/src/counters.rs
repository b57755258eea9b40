//! Counters of operations, completions and faults.

/// Counts since the cluster was made, over all owners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Operations accepted.
    pub posted: u64,
    /// Completions polled.
    pub completed: u64,
    /// Of these, READs by a NIC.
    pub reads: u64,
    /// WRITEs by a NIC.
    pub writes: u64,
    /// Compare-and-swaps and fetch-and-adds by a NIC.
    pub atomics: u64,
    /// Words of all these.
    pub words: u64,
    /// Operations that a NIC was given.
    pub sent: u64,
    /// What their NIC had outstanding with each of these, itself included, all together; by `sent`,
    /// the mean that one finds.
    pub outstanding: u64,
    /// Completions of what the CPU did itself.
    pub by_cpu: u64,
    /// Operations that completed in error although their effect had happened.
    pub errors_done: u64,
    /// Operations that completed in error without effect.
    pub errors_undone: u64,
    /// Operations that were to complete in error before their effect.
    pub errors_late: u64,
    /// Effects that happened after their operation had completed in error or been flushed.
    pub late_effects: u64,
    /// READs executed twice.
    pub repeated_reads: u64,
    /// Words landed as a mixture of two values.
    pub torn_words: u64,
    /// Operations slowed down.
    pub slow: u64,
    /// Operations flushed because their engine died.
    pub flushed: u64,
    /// Engines that died.
    pub deaths: u64,
    /// Owners lost: engines dropped or killed.
    pub lost_owners: u64,
}
