//! The rows of `bench-map`.

use probeline::map::{HeldLock, Stats};
use probeline_results::format::{fixed, millions, percent, text};
use probeline_results::{Row, row};

use super::entries::Limit;
use super::{Step, name_of};
use crate::cli::name;
use crate::series::{Run, Series};

row! {
    pub(crate) struct MapRow {
        pub(super) mode: String => ("mode", text),
        pub(super) path: String => (
            "path",
            text,
            note("direct: the CPU runs requests; posted: READs, WRITEs, atomics; compare modes posted")
        ),
        pub(super) workload: String => ("workload", text),
        pub(super) keys: String => ("keys", text),
        pub(super) load_factor: f64 => ("load", fixed::<2>),
        ranks: u32 => ("ranks", text, full()),
        operations: u64,
        pub(super) median_ops_per_s: f64 => ("M ops/s", millions),
        least_ops_per_s: f64 => ("least", millions, full()),
        most_ops_per_s: f64 => ("most", millions, full()),
        limit_ops_per_s: Option<f64>,
        pub(super) limit_share: Option<f64> => ("of limit", fixed::<3>),
        mean_latency_ns: f64 => (
            "latency ns",
            fixed::<1>,
            note("a rank's time / its operations; no operation is timed alone")
        ),
        hits: u64,
        misses: u64,
        hit_share: Option<f64> => ("hits", percent, note("of gets")),
        busy: u64 => ("busy", text, full().note("gets that gave up beside writers; they are misses")),
        inserts: u64 => ("inserts", text, full()),
        updates: u64 => ("updates", text, full()),
        evictions: u64 => ("evictions", text, only_if(|row| row.evictions > 0)),
        drops: u64 => (
            "drops",
            text,
            only_if(|row| row.drops > 0).note("puts that stored nothing beside other writers")
        ),
        looks_per_operation: f64 => ("looks", fixed::<2>, note("buckets read for an operation")),
        failed_checks: u64 => (
            "failed checks",
            text,
            note("buckets seen while they were written; they were read again")
        ),
        lost_claims: u64 => (
            "lost claims",
            text,
            full().note("buckets that another rank claimed first")
        ),
        pub(super) held_lock: Option<String> =>
            ("held lock", text, only_if(|row| row.held_lock.is_some())),
    }
}

impl Row for MapRow {}

impl MapRow {
    /// Returns the row of these runs; `None` without runs.
    pub(super) fn new(
        step: &Step,
        ranks: u32,
        runs: Vec<Run<Stats>>,
        limit: Option<Limit>,
        held: Option<HeldLock>,
    ) -> Option<Self> {
        let count = |stats: &Stats| stats.reads() + stats.writes();
        let Series { median, rates: [rate, least, most] } = Series::new(runs, count)?;
        let counts = median.stats;
        let operations = count(&counts).max(1) as f64;
        let gets = counts.reads();
        let limit = limit.map(|limit| limit.per_second(1.0 - gets as f64 / operations));
        Some(Self {
            mode: name_of(step.mode).to_owned(),
            path: step.path().to_owned(),
            workload: name(step.workload),
            keys: name(step.keys),
            load_factor: step.load_factor,
            ranks,
            operations: count(&counts),
            median_ops_per_s: rate,
            least_ops_per_s: least,
            most_ops_per_s: most,
            limit_ops_per_s: limit,
            limit_share: limit.map(|limit| rate / limit),
            mean_latency_ns: median.rank_ns as f64 / operations,
            hits: counts.hits,
            misses: counts.misses,
            hit_share: (gets > 0).then(|| counts.hits as f64 / gets as f64),
            busy: counts.busy,
            inserts: counts.inserts,
            updates: counts.updates,
            evictions: counts.evictions,
            drops: counts.drops,
            looks_per_operation: counts.looks as f64 / operations,
            failed_checks: counts.failed_checks,
            lost_claims: counts.lost_claims,
            held_lock: held.map(|held| held.to_string()),
        })
    }
}
