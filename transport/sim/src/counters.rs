//! Counters of operations, completions and faults.

/// The counts since the cluster was created, over all owners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Operations accepted.
    pub posted: u64,
    /// Completions polled.
    pub completed: u64,
    /// READs completed by a NIC.
    pub reads: u64,
    /// WRITEs completed by a NIC.
    pub writes: u64,
    /// Compare-and-swaps and fetch-and-adds completed by a NIC.
    pub atomics: u64,
    /// The words of these READs, WRITEs and atomics.
    pub words: u64,
    /// Operations posted to a NIC.
    pub sent: u64,
    /// The sum, over the operations in `sent`, of the operations that their NIC had outstanding,
    /// including the operation itself. Divided by `sent` it is the mean an operation finds.
    pub outstanding: u64,
    /// Completions of the CPU's own loads and stores.
    pub by_cpu: u64,
    /// Operations that completed in error after taking effect.
    pub errors_done: u64,
    /// Operations that completed in error without effect.
    pub errors_undone: u64,
    /// Operations chosen to complete in error before taking effect.
    pub errors_late: u64,
    /// Effects that happened after their operation had completed in error or was flushed.
    pub late_effects: u64,
    /// READs executed twice.
    pub repeated_reads: u64,
    /// Words that landed torn, as a mixture of two values.
    pub torn_words: u64,
    /// Operations slowed down by a fault.
    pub slow: u64,
    /// Operations flushed because their engine died.
    pub flushed: u64,
    /// Engines that died.
    pub deaths: u64,
    /// Owners lost: engines dropped or killed.
    pub lost_owners: u64,
}
