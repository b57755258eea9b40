//! The rows of `bench-map`.

use probeline::map::{HeldLock, Stats};
use probeline_report::results::format::{fixed, millions, percent, text};
use probeline_report::results::{Layout, row};

use super::{Step, name_of};
use crate::cli::name;
use crate::series::{Run, Series};

row! {
    pub(crate) struct MapRow {
        pub(super) mode: String = "`claims`, `part-locks`, `bucket-locks` or `unlocked`" => ("mode", text),
        pub(super) path: String = "direct: the CPU runs requests; posted: READs, WRITEs, atomics; compare modes posted"
            => ("path", text, note()),
        pub(super) workload: String = "`fill`, `read`, `write` or `mixed`" => ("workload", text),
        pub(super) keys: String = "`uniform` or `zipf`" => ("keys", text),
        pub(super) load_factor: f64 = "to which the map was filled" => ("load", fixed::<2>),
        ranks: u32 => ("ranks", text, full()),
        operations: u64 = "of all ranks in one run",
        pub(super) median_ops_per_s: f64 = "of all ranks, median of the runs" => ("M ops/s", millions),
        min_ops_per_s: f64 = "of the slowest run" => ("min", millions, full()),
        max_ops_per_s: f64 = "of the fastest run" => ("max", millions, full()),
        mean_latency_ns: f64 = "a rank's time / its operations; no operation is timed alone"
            => ("latency ns", fixed::<1>, note()),
        hits: u64 = "gets that found the key; this and the following counts are those of the median run",
        misses: u64 = "gets that did not",
        hit_share: Option<f64> = "of gets" => ("hits", percent, note()),
        busy: u64 = "gets that gave up beside writers; they are misses" => ("busy", text, full().note()),
        inserts: u64 = "puts into a bucket without an entry" => ("inserts", text, full()),
        updates: u64 = "puts over an older value" => ("updates", text, full()),
        evictions: u64 = "puts in place of another key's entry"
            => ("evictions", text, only_if(|row| row.evictions > 0)),
        drops: u64 = "puts that stored nothing beside other writers"
            => ("drops", text, only_if(|row| row.drops > 0).note()),
        bucket_reads_per_operation: f64 = "buckets read for an operation" => ("bucket reads", fixed::<2>, note()),
        failed_checks: u64 = "buckets seen while they were written; they were read again"
            => ("failed checks", text, note()),
        lost_claims: u64 = "buckets that another rank claimed first" => ("lost claims", text, full().note()),
        pub(super) held_lock: Option<String> = "the last lock that a request of rank 0 did not get"
            => ("held lock", text, only_if(|row| row.held_lock.is_some()).note()),
    }

    /// Leaves the rates to the summary; `--full` prints the rest.
    fn brief(_: &[Self]) -> Layout { Layout::default() }
}

impl MapRow {
    /// Returns the row of these runs; `None` without runs.
    pub(super) fn new(
        step: &Step,
        ranks: u32,
        runs: Vec<Run<Stats>>,
        held: Option<HeldLock>,
    ) -> Option<Self> {
        let count = |stats: &Stats| stats.reads() + stats.writes();
        let Series { median, rates: [rate, min, max] } = Series::new(runs, count)?;
        let counts = median.stats;
        let operations = count(&counts).max(1) as f64;
        let gets = counts.reads();
        Some(Self {
            mode: name_of(step.mode),
            path: step.path().to_owned(),
            workload: name(step.workload),
            keys: name(step.keys),
            load_factor: step.load_factor,
            ranks,
            operations: count(&counts),
            median_ops_per_s: rate,
            min_ops_per_s: min,
            max_ops_per_s: max,
            mean_latency_ns: median.rank_ns as f64 / operations,
            hits: counts.hits,
            misses: counts.misses,
            hit_share: (gets > 0).then(|| counts.hits as f64 / gets as f64),
            busy: counts.busy,
            inserts: counts.inserts,
            updates: counts.updates,
            evictions: counts.evictions,
            drops: counts.drops,
            bucket_reads_per_operation: counts.bucket_reads as f64 / operations,
            failed_checks: counts.failed_checks,
            lost_claims: counts.lost_claims,
            held_lock: held.map(|held| held.to_string()),
        })
    }
}
