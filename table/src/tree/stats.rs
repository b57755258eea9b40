//! Counters of the nodes of keys, beside the [`Stats`](crate::Stats) of the buckets.

use probeline_pipeline::counters;

counters! {
    /// Costs and savings of the inner nodes of a tree table's keys since it was opened or its
    /// counters were reset. [`Stats`](crate::Stats) counts each node that was looked up in the table
    /// as an operation.
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    pub struct TreeStats {
        /// Inner nodes that operations needed: one for each 31 bits of a key beyond the first 62.
        pub inner_nodes,
        /// The part of `inner_nodes` that the cache answered.
        pub cache_hits,
        /// Inner nodes inserted.
        pub inner_inserted,
        /// Keys inserted: roots.
        pub keys_inserted,
    }
}

impl TreeStats {
    /// Returns the bytes of occupied buckets for each key inserted: 8 for its root, and its share of
    /// the inner nodes. The counters must be the sums over all clients, because keys share nodes.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn bytes_per_key(&self) -> f64 {
        let buckets = (self.inner_inserted + self.keys_inserted) as f64;
        8.0 * buckets / self.keys_inserted.max(1) as f64
    }

    /// Returns the share of inner nodes that the cache answered, 0 to 1.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn cache_hit_share(&self) -> f64 {
        self.cache_hits as f64 / self.inner_nodes.max(1) as f64
    }
}
