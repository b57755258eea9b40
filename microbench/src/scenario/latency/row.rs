//! A line of the report: one operation, and where it stands beside its floor.

use serde::Serialize;

use crate::latency::Latency;
use crate::report::{Layout, Row};

#[derive(Clone, Debug, Serialize)]
pub(crate) struct LatencyRow {
    pub(super) operation: String,
    pub(super) chunk_buckets: Option<u32>,
    pub(super) load_factor: Option<f64>,
    pub(super) effective_roundtrips: Option<f64>,
    pub(super) outgoing_roundtrips: Option<f64>,
    // Not flattened from a Latency, because csv takes no flattened structs.
    pub(super) operations: u64,
    pub(super) min_ns: u64,
    pub(super) mean_ns: f64,
    pub(super) p50_ns: u64,
    pub(super) p90_ns: u64,
    pub(super) p99_ns: u64,
    pub(super) p99_9_ns: u64,
    pub(super) max_ns: u64,
    pub(super) floor_ns: Option<f64>,
    pub(super) times_floor: Option<f64>,
    pub(super) cache_hit_share: Option<f64>,
    #[serde(skip)]
    pub(super) histogram: Vec<[u64; 2]>,
    #[serde(skip)]
    pub(super) cut: bool,
}

impl LatencyRow {
    /// Of an operation without a table.
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

impl Row for LatencyRow {
    const HEAD: &'static [&'static str] = &[
        "operation",
        "C",
        "load",
        "ops",
        "min",
        "mean",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max ns",
        "floor",
        "x floor",
        "eff",
        "out",
        "cached",
    ];

    fn cells(&self) -> Vec<String> {
        let number = |value: Option<f64>, digits| {
            value.map_or_else(String::new, |value| format!("{value:.digits$}"))
        };
        vec![
            self.operation.clone(),
            self.chunk_buckets.map_or_else(String::new, |c| c.to_string()),
            number(self.load_factor, 2),
            self.operations.to_string(),
            self.min_ns.to_string(),
            format!("{:.1}", self.mean_ns),
            self.p50_ns.to_string(),
            self.p90_ns.to_string(),
            self.p99_ns.to_string(),
            self.p99_9_ns.to_string(),
            self.max_ns.to_string(),
            number(self.floor_ns, 1),
            number(self.times_floor, 3),
            number(self.effective_roundtrips, 2),
            number(self.outgoing_roundtrips, 2),
            number(self.cache_hit_share, 3),
        ]
    }

    fn brief(rows: &[Self]) -> Layout {
        super::summary::brief(rows)
    }

    fn histogram(&self) -> Option<&[[u64; 2]]> {
        Some(&self.histogram)
    }
}
