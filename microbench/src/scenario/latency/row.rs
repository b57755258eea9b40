//! A row of `bench-latency`, and its summary.

use probeline_report::distinct;
use probeline_report::results::format::{fixed, text};
use probeline_report::results::{Layout, row};

use super::LatencyArgs;

use crate::run_report::{answer, head, some_of};
use crate::units::time;

row! {
    #[derive(Default)]
    pub(crate) struct LatencyRow {
        pub(super) operation: String = "`inserted`, `found`, `READ n B`, `WRITE n B`, `CAS ...`, `FAA ...`, `floor ...`"
            => ("operation", text),
        pub(super) chunk_buckets: Option<u32> = "C" => ("C", text),
        pub(super) load_factor: Option<f64> = "occupied buckets / all buckets" => ("load", fixed::<2>),
        pub(super) operations: u64 = "operations measured" => ("ops", text),
        pub(super) min_ns: u64 = "of operations timed one by one" => ("min", text),
        pub(super) mean_ns: f64 = "mean of whole batches" => ("mean", fixed::<1>),
        pub(super) p50_ns: u64 = "percentile of operations timed one by one, as are the next three" => ("p50", text),
        pub(super) p90_ns: u64 => ("p90", text),
        pub(super) p99_ns: u64 => ("p99", text),
        pub(super) p99_9_ns: u64 => ("p99.9", text),
        pub(super) max_ns: u64 = "the slowest operation that was timed, not a percentile" => ("max ns", text),
        pub(super) floor_ns: Option<f64> = "time of the READ, or READ and CAS, that the operation needs at least"
            => ("floor", fixed::<1>),
        pub(super) times_floor: Option<f64> = "time / floor, median of rounds" => ("x floor", fixed::<3>),
        pub(super) effective_roundtrips: Option<f64> = "chunk READs that an operation waits for"
            => ("eff", fixed::<2>, note()),
        pub(super) outgoing_roundtrips: Option<f64> = "chunk READs that an operation posts" => ("out", fixed::<2>, note()),
        pub(super) cache_hit_share: Option<f64> = "the share of operations that the cache answered"
            => ("cached", fixed::<3>, note()),
        pub(super) histogram: Vec<[u64; 2]> = "JSON only: pairs of a latency in ns and its number of operations",
        pub(super) cut: bool = "whether --seconds-per-measurement ended the measurement before its last operation",
    }

    /// The summary quotes rows; `--full` prints all.
    fn brief(_: &[Self]) -> Layout { Layout::default() }
}

/// Rows that the summary quotes, if they were measured.
const OPERATIONS: [&str; 2] = ["READ 64 B", "CAS random word"];
const LOAD_FACTORS: [f64; 2] = [0.5, 0.9];
const CHUNK_BUCKETS: [u32; 2] = [8, 32];

const NONE: &str = "-";

impl LatencyArgs {
    pub(super) fn summary(&self, rows: &[LatencyRow]) -> Vec<String> {
        let title = format!(
            "bench-latency: {}, {} ranks, one operation at a time{}",
            self.job.transport.name(),
            self.job.ranks,
            if self.config(8).direct { "; find-or-put by the CPU's own loads" } else { "" }
        );
        let head = head(["operation", "p50", "p99", "mean", "floor", "x floor"]);
        answer(title, (head, quoted(rows).map(line).collect()))
    }
}

fn line(row: &LatencyRow) -> Vec<String> {
    let name = match row.chunk_buckets.zip(row.load_factor) {
        Some((c, load_factor)) => {
            format!("find-or-put {:<8}  C {c:<3}  load {load_factor}", row.operation)
        }
        None => row.operation.clone(),
    };
    let [p50, p99] = [row.p50_ns, row.p99_ns].map(|ns| time(ns as f64));
    let floor = row.floor_ns.map_or_else(|| NONE.to_owned(), time);
    let times = row.times_floor.map_or_else(|| NONE.to_owned(), |times| format!("{times:.2}"));
    vec![name, p50, p99, time(row.mean_ns), floor, times]
}

fn quoted(rows: &[LatencyRow]) -> impl Iterator<Item = &LatencyRow> {
    let chunks = wanted(rows.iter().filter_map(|row| row.chunk_buckets), &CHUNK_BUCKETS);
    let load_factors = wanted(rows.iter().filter_map(|row| row.load_factor), &LOAD_FACTORS);
    rows.iter().filter(move |row| match (row.chunk_buckets, row.load_factor) {
        (Some(c), Some(load_factor)) => chunks.contains(&c) && load_factors.contains(&load_factor),
        _ => OPERATIONS.contains(&&*row.operation),
    })
}

/// Returns `wanted` if `all` contains it, otherwise as many elements that are spread over `all`.
fn wanted<T: Copy + PartialEq>(all: impl Iterator<Item = T>, wanted: &[T]) -> Vec<T> {
    let all = distinct(all);
    match wanted.iter().all(|value| all.contains(value)) {
        true => wanted.to_vec(),
        false => some_of(&all, wanted.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::recorder::Recorder;
    use super::*;

    #[test]
    fn line_contains_row_figures() {
        let row = LatencyRow {
            p50_ns: 120,
            p99_ns: 1_500,
            mean_ns: 140.0,
            floor_ns: Some(110.0),
            chunk_buckets: Some(8),
            load_factor: Some(0.5),
            times_floor: Some(1.25),
            ..Recorder::new(0).unwrap().row("inserted")
        };
        let name = "find-or-put inserted  C 8    load 0.5";
        let figures = ["120 ns", "1.50 us", "140 ns", "110 ns", "1.25"];
        assert_eq!(line(&row), [&[name][..], &figures].concat());
    }
}
