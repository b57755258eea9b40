//! The rows of the report, which are candidates with their measurements; its summary and its notes.

use probeline::tuning::Tuning;
use probeline_report::results::format::{fixed, millions, on_off, text};
use probeline_report::results::row;

use super::search::{Found, Timing};
use super::{BATCHED_BY_CPU, TuneArgs};
use crate::table::name_of;
use crate::units::{rate, time};

row! {
    pub(crate) struct TuneRow {
        candidate: String = "`recommended`, `second`, `other`, or `paper`" => ("candidate", text),
        chunk_buckets: u32 = "C" => ("C", text),
        max_chunks: u32 = "so large that one table in a million has an operation without an empty bucket"
            => ("M", text, note()),
        read_ahead: String => ("ahead", text),
        one_roundtrip: String => ("one-rt", text),
        in_flight: u32 = "operations in flight of each rank; 1 is blocking calls" => ("in flight", text),
        cache_entries: usize => ("cache", text),
        direct: bool = "whether the CPU accesses the table itself" => ("direct", on_off),
        pub(super) latency_ns: f64 = "mean" => ("ns", fixed::<1>),
        pub(super) ops_per_s: f64 = "all ranks together" => ("M ops/s", millions),
        times_recommended: f64 = "time / time of the recommendation, by the goal"
            => ("x time", fixed::<3>, note()),
    }
}

impl TuneArgs {
    fn row(&self, name: &str, timing: &Timing, recommended_ns: f64) -> TuneRow {
        let candidate = &timing.candidate;
        TuneRow {
            candidate: name.to_owned(),
            chunk_buckets: candidate.chunk_buckets,
            max_chunks: candidate.max_chunks,
            read_ahead: name_of(candidate.read_ahead),
            one_roundtrip: name_of(candidate.one_roundtrip),
            in_flight: candidate.in_flight,
            cache_entries: candidate.cache_entries,
            direct: candidate.direct,
            latency_ns: timing.latency_ns(),
            ops_per_s: 1e9 * f64::from(self.job.ranks) / timing.ns.max(1e-3),
            times_recommended: self.goal.time_ns(timing) / recommended_ns.max(1e-3),
        }
    }

    /// Returns the last candidates, the recommended one first, and the paper's algorithm.
    pub(super) fn rows(&self, found: &Found) -> Vec<TuneRow> {
        let names = ["recommended", "second"].into_iter().chain(core::iter::repeat("other"));
        let named = names.zip(&found.finalists).chain([("paper", &found.paper)]);
        let recommended_ns = found.finalists.first().map_or(0.0, |best| self.goal.time_ns(best));
        named.map(|(name, timing)| self.row(name, timing, recommended_ns)).collect()
    }

    pub(super) fn summary(&self, found: &Found, rows: &[TuneRow]) -> Vec<String> {
        let [best, others @ .., paper] = rows else { return Vec::new() };
        let name = |at: usize| found.finalists.get(at).map(|timing| about(&timing.candidate));
        let [measured, by_paper] =
            [best, paper].map(|row| (rate(row.ops_per_s), time(row.latency_ns)));
        let (best, out, ranks) = (name(0).unwrap_or_default(), self.out.display(), self.job.ranks);
        let mut lines = vec![
            format!("tune: {best}: in {out}, for --tuning"),
            format!("measured: {} by {ranks} ranks, {} each", measured.0, measured.1),
        ];
        lines.extend(others.first().zip(name(1)).map(|(second, name)| {
            let longer = second.times_recommended - 1.0;
            let than = if longer < 0.0 { "less" } else { "more" };
            format!("second: {:.1} % {than} time: {name}", longer.abs() * 100.0)
        }));
        lines.push(format!(
            "paper: {:.2} x the time of the recommendation; {} by the paper's algorithm, {} each",
            paper.times_recommended, by_paper.0, by_paper.1
        ));
        lines
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let of = if self.rounds < 4 { "the least" } else { "lower quartile" };
        let mut notes = vec![
            format!(
                "ns: from an operation's start to its end; {of} of {} rounds, candidates alternating",
                self.rounds
            ),
            "chosen: the simplest candidate within 2 % of the fastest".to_owned(),
        ];
        if self.direct() {
            notes.push(format!(
                "direct: C, M, ahead, one-rt and a cache have no effect; a batch has {BATCHED_BY_CPU} in flight"
            ));
        }
        let (operations, wanted) = (self.operations(), self.wanted_operations());
        if operations < wanted {
            notes.push(format!(
                "ops: {operations} of each rank in a run, not {wanted}: a run inserts at most 2 % of the table"
            ));
        }
        notes
    }
}

fn about(candidate: &Tuning) -> String {
    let means = match candidate.direct {
        true => "by the CPU itself".to_owned(),
        false => format!(
            "C {}, M {}, read-ahead {}, one-roundtrip {}",
            candidate.chunk_buckets,
            candidate.max_chunks,
            name_of(candidate.read_ahead),
            name_of(candidate.one_roundtrip)
        ),
    };
    let cache = match candidate.cache_entries {
        0 => "no cache".to_owned(),
        entries => format!("a cache of {entries}"),
    };
    format!("{means}, {} in flight, {cache}", candidate.in_flight)
}
