//! The rows of `bench-map`.

use probeline::map::HeldLock;
use probeline_results::format::{fixed, millions, percent, text};
use probeline_results::{Row, row};

use super::entries::Limit;
use super::{Run, Step, name_of};
use crate::cli::name;

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
        runs: &[Run],
        limit: Option<Limit>,
        held: Option<HeldLock>,
    ) -> Option<Self> {
        let mut runs = runs.to_vec();
        runs.sort_by_key(|run| run.took_ns);
        let (median, counts) = {
            let median = runs.get(runs.len() / 2)?;
            (median, median.counts)
        };
        let rate = |run: &Run| run.counts.operations as f64 * 1e9 / run.took_ns.max(1) as f64;
        let operations = counts.operations.max(1) as f64;
        let gets = counts.hits + counts.misses;
        let limit = limit.map(|limit| limit.per_second(1.0 - gets as f64 / operations));
        Some(Self {
            mode: name_of(step.mode).to_owned(),
            path: step.path().to_owned(),
            workload: name(step.workload),
            keys: name(step.keys),
            load_factor: step.load_factor,
            ranks,
            operations: counts.operations,
            median_ops_per_s: rate(median),
            least_ops_per_s: runs.last().map_or(0.0, rate),
            most_ops_per_s: runs.first().map_or(0.0, rate),
            limit_ops_per_s: limit,
            limit_share: limit.map(|limit| rate(median) / limit),
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
