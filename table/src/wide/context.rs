//! The state that all operations of a wide table share, and the counters of what entries cost,
//! beside the [`Stats`](crate::Stats) of the buckets.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use probeline_pipeline::counters;
use probeline_transport::Transport;

use super::config::WideConfig;
use super::key::{Entries, Entry};
use super::spares::{Fetch, Spares};
use crate::cache::CacheEntry;
use crate::config::Config;
use crate::context::Context;

#[derive(Clone, Debug)]
pub struct WideContext {
    /// The state of the searches.
    pub(crate) table: Context<[CacheEntry; 0]>,
    pub(crate) entries: Entries,
    /// The word of each window that counts the entries taken from the owner's part.
    pub(crate) counter: u64,
    pub(crate) me: u32,
    /// Whether the CPUs of all owners reach all words, and the CPU runs all operations.
    pub(crate) is_direct: bool,
    pub(crate) spares: Spares,
    pub(crate) stats: EntryStats,
}

/// For the model check: only the spare entries determine what operations do.
#[cfg(test)]
impl core::hash::Hash for WideContext {
    fn hash<H: core::hash::Hasher>(&self, hasher: &mut H) {
        self.spares.hash(hasher);
    }
}

impl WideContext {
    pub(crate) fn new<const W: usize>(transport: &impl Transport, config: &WideConfig<W>) -> Self {
        let geometry = transport.geometry();
        let (me, owners) = (geometry.me.0, geometry.owners);
        let entries = config.entries(owners);
        // The CPU examines lines in operations of its own, which compare entries as well.
        let first_word = config.first_bucket();
        let searches = Config { direct: false, first_word, ..config.buckets };
        Self {
            table: Context::new(transport, searches.layout(owners), &searches, []),
            entries,
            counter: config.counter(),
            me,
            is_direct: false,
            spares: Spares::new(me, owners, &entries),
            stats: EntryStats::default(),
        }
    }

    /// Compares the words of an entry with a key, and counts it.
    // Without an early end: a branch for each word costs more than the words of a cache line.
    #[inline(always)]
    pub(crate) fn is_equal<const W: usize>(
        &mut self,
        entry: &[AtomicU64; W],
        key: &[u64; W],
    ) -> bool {
        let differs =
            entry.iter().zip(key).fold(0, |all, (word, key)| all | word.load(Relaxed) ^ key);
        self.stats.entry_reads += 1;
        self.stats.false_entry_reads += u64::from(differs != 0);
        differs == 0
    }

    /// Handles the result of a fetch of entries. Returns one for an operation that `lacks` one.
    pub(crate) fn fetched(&mut self, fetch: Fetch, before: u64, lacks: bool) -> Option<Entry> {
        self.stats.fetches += 1;
        if fetch.owner != self.me {
            self.stats.entries_from_others += self.entries.taken(before, fetch.count);
        }
        self.spares.fetched(fetch, before, lacks, &self.entries)
    }
}

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
