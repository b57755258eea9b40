//! A row of the report: one operation and its ratio to its floor.

use probeline_results::format::{fixed, text};
use probeline_results::{one_line, row};

use crate::latency::Latency;

row! {
    /// The latencies of one operation and their ratio to its floor.
    pub(crate) struct LatencyRow {
        pub(super) operation: String => ("operation", text),
        pub(super) chunk_buckets: Option<u32> => ("C", text),
        pub(super) load_factor: Option<f64> => ("load", fixed::<2>),
        pub(super) operations: u64 => ("ops", text),
        pub(super) min_ns: u64 => ("min", text),
        pub(super) mean_ns: f64 => ("mean", fixed::<1>),
        pub(super) p50_ns: u64 => ("p50", text),
        pub(super) p90_ns: u64 => ("p90", text),
        pub(super) p99_ns: u64 => ("p99", text),
        pub(super) p99_9_ns: u64 => ("p99.9", text),
        pub(super) max_ns: u64 => ("max ns", text),
        pub(super) floor_ns: Option<f64> => ("floor", fixed::<1>),
        pub(super) times_floor: Option<f64> => ("x floor", fixed::<3>),
        pub(super) effective_roundtrips: Option<f64> => ("eff", fixed::<2>),
        pub(super) outgoing_roundtrips: Option<f64> => ("out", fixed::<2>),
        pub(super) cache_hit_share: Option<f64> => (
            "cached",
            fixed::<3>,
            note("the share of operations that the cache answered")
        ),
        /// Latencies in nanoseconds in ascending order, each with its number of operations.
        #[serde(serialize_with = "one_line")]
        pub(super) histogram: Vec<[u64; 2]>,
        /// Whether the time limit expired before the last operation.
        #[serde(skip)]
        pub(super) cut: bool,
    }
}

impl LatencyRow {
    pub(super) fn new(operation: &str, latency: Latency) -> Self {
        Self {
            operation: operation.to_owned(),
            chunk_buckets: None,
            load_factor: None,
            effective_roundtrips: None,
            outgoing_roundtrips: None,
            operations: latency.operations,
            min_ns: latency.min_ns,
            mean_ns: latency.mean_ns,
            p50_ns: latency.p50_ns,
            p90_ns: latency.p90_ns,
            p99_ns: latency.p99_ns,
            p99_9_ns: latency.p99_9_ns,
            max_ns: latency.max_ns,
            floor_ns: None,
            times_floor: None,
            cache_hit_share: None,
            histogram: latency.histogram,
            cut: latency.cut,
        }
    }
}
