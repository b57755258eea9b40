//! The rows of the report, which are candidates with their predictions and measurements; its
//! summary and its notes.

use probeline_results::format::{fixed, millions, on_off, text};
use probeline_results::{Note, Row, row};
use probeline_tune::{Candidate, Model, Rates};
use serde_json::{Value, json};

use super::{AS_EXPECTED, BATCHED_BY_CPU, PAPER_DEPTH, Sweep, TuneArgs, Tuned};
use crate::table::name_of;
use crate::units::{rate, time};

row! {
    pub(crate) struct TuneRow {
        candidate: String => ("candidate", text),
        chunk_buckets: u32 => ("C", text),
        max_chunks: u32 => ("M", text),
        read_ahead: String => ("ahead", text),
        one_roundtrip: String => ("one-rt", text),
        in_flight: u32 => ("in flight", text),
        cache_entries: u32 => ("cache", text),
        direct: bool => ("direct", on_off),
        expected_latency_ns: f64 => ("expected ns", fixed::<1>, full()),
        expected_ops_per_s: f64 => ("expected M ops/s", millions, full()),
        pub(super) latency_ns: f64 => ("measured ns", fixed::<1>),
        pub(super) ops_per_s: f64 => ("M ops/s", millions),
        /// Measured / predicted throughput.
        pub(super) times_expected: f64 => ("x expected", fixed::<3>),
    }
}

impl Row for TuneRow {}

pub(super) const PAPER: &str = "paper";

impl TuneRow {
    /// `ns` is the time in nanoseconds that a rank took for each operation.
    pub(super) fn new(
        what: &str,
        candidate: &Candidate,
        model: &Model,
        ranks: u32,
        ns: f64,
    ) -> Self {
        let expected = model.time_ns(candidate);
        let per_second = |ns: f64| 1e9 * f64::from(ranks) / ns.max(1e-3);
        Self {
            candidate: what.to_owned(),
            chunk_buckets: candidate.chunk_buckets,
            max_chunks: candidate.max_chunks,
            read_ahead: name_of(candidate.read_ahead),
            one_roundtrip: name_of(candidate.one_roundtrip),
            in_flight: candidate.depth,
            cache_entries: candidate.cache_entries,
            direct: candidate.direct,
            expected_latency_ns: model.latency_ns(candidate),
            expected_ops_per_s: per_second(expected),
            latency_ns: ns * f64::from(candidate.depth),
            ops_per_s: per_second(ns),
            times_expected: expected / ns.max(1e-3),
        }
    }

    pub(super) fn is_paper(&self) -> bool {
        self.candidate == PAPER
    }
}

/// Returns the candidates in the order of `all`. `swept` has the nanoseconds that a rank took for
/// each operation, or is empty.
pub(super) fn candidates(
    model: &Model,
    all: &[Candidate],
    ranks: u32,
    swept: Option<&[f64]>,
) -> Vec<Value> {
    let per_second = |ns: f64| 1e9 * f64::from(ranks) / ns.max(1e-3);
    let one = |(at, candidate): (usize, &Candidate)| {
        let ns = swept.and_then(|swept| swept.get(at)).copied();
        json!({
            "chunk_buckets": candidate.chunk_buckets,
            "max_chunks": candidate.max_chunks,
            "read_ahead": name_of(candidate.read_ahead),
            "one_roundtrip": name_of(candidate.one_roundtrip),
            "in_flight": candidate.depth,
            "cache_entries": candidate.cache_entries,
            "direct": candidate.direct,
            "expected_latency_ns": model.latency_ns(candidate),
            "expected_ops_per_s": per_second(model.time_ns(candidate)),
            "latency_ns": ns.map(|ns| ns * f64::from(candidate.depth)),
            "ops_per_s": ns.map(per_second),
        })
    };
    all.iter().enumerate().map(one).collect()
}

/// Returns the rates of the transport without a table: READs by size, and compare-and-swaps, each
/// by the number in flight.
pub(super) fn rates(rates: &Rates) -> Vec<Value> {
    let reads = rates.reads().map(|(words, depth, ns)| {
        json!({ "operation": "READ", "words": words, "in_flight": depth, "ns": ns })
    });
    let swaps = rates
        .swaps()
        .map(|(depth, ns)| json!({ "operation": "CAS", "words": 1, "in_flight": depth, "ns": ns }));
    reads.chain(swaps).collect()
}

impl TuneArgs {
    pub(super) fn summary(&self, tuned: &Tuned) -> Vec<String> {
        let best = &tuned.recommended;
        let means = match best.direct {
            true => "by the CPU itself".to_owned(),
            false => format!(
                "C {}, M {}, read-ahead {}, one-roundtrip {}",
                best.chunk_buckets,
                best.max_chunks,
                name_of(best.read_ahead),
                name_of(best.one_roundtrip)
            ),
        };
        let cache = match best.cache_entries {
            0 => "no cache".to_owned(),
            entries => format!("a cache of {entries}"),
        };
        let mut lines = vec![format!(
            "tune: {means}, {} in flight, {cache}: in {}, for --tuning",
            best.depth,
            self.out.display()
        )];
        lines.extend(tuned.verified.rows.first().map(|row| {
            format!(
                "measured: {} by {} ranks, {} each; {:.2} x the {} that the model expected",
                rate(row.ops_per_s),
                self.job.ranks,
                time(row.latency_ns),
                row.times_expected,
                rate(row.ops_per_s / row.times_expected)
            )
        }));
        let paper = tuned.verified.rows.iter().find(|row| row.is_paper());
        lines.extend(tuned.verified.rows.first().zip(paper).map(|(best, paper)| {
            format!(
                "beside: {:.2} x the {} of the paper's algorithm, {} each",
                best.ops_per_s / paper.ops_per_s,
                rate(paper.ops_per_s),
                time(paper.latency_ns)
            )
        }));
        lines.extend(tuned.verified.sweep.as_ref().map(|sweep| {
            let than = if sweep.longer < 0.0 { "less" } else { "more" };
            format!(
                "sweep: of all {} candidates, it takes {:.1} % {than} time than the best {} others",
                sweep.candidates,
                sweep.longer.abs() * 100.0,
                sweep.again
            )
        }));
        lines.extend(self.late(tuned));
        lines
    }

    pub(super) fn notes(&self, tuned: &Tuned) -> Vec<Note> {
        let model = &tuned.model;
        let mut notes = vec![
            Note::on(
                &["measured ns"],
                format!(
                    "from an operation's start to its end; {} of {} rounds, candidates alternating",
                    if self.rounds < 4 { "the least" } else { "lower quartile" },
                    self.rounds
                ),
            ),
            Note::on(
                &["expected ns"],
                "time of READs and claims on this transport, plus the table's own work",
            ),
            Note::on(&["x expected"], "measured throughput / expected throughput"),
            Note::on(
                &["M"],
                "large enough that one table in a million has an operation without an empty bucket",
            ),
        ];
        notes.push(self.chosen(tuned).into());
        notes.extend(own(tuned).map(Note::from));
        notes.extend(repetition(tuned).map(Note::from));
        notes.extend(self.pinned(model).map(Note::from));
        if self.direct() {
            notes.push(Note::on(
                &["direct"],
                format!(
                    "C, M, ahead and one-rt have no effect; a batch has {BATCHED_BY_CPU} in flight"
                ),
            ));
        }
        if self.operations() < self.wanted_operations() {
            notes.push(
                format!(
                    "ops: {} of each rank in a run, not {}: a run inserts at most 2 % of the table",
                    self.operations(),
                    self.wanted_operations()
                )
                .into(),
            );
        }
        notes.extend(tuned.verified.sweep.as_ref().map(|Sweep { as_expected, .. }| {
            format!(
                "model: {} of {} candidates without a short run reached {} to {} of the expected rate",
                as_expected.0,
                as_expected.1,
                AS_EXPECTED.start(),
                AS_EXPECTED.end()
            )
            .into()
        }));
        notes
    }

    fn chosen(&self, tuned: &Tuned) -> String {
        let times = tuned.contenders.iter().map(|(at, ns)| tuned.model.time_ns(at) / ns.max(1e-3));
        format!(
            "chosen: the best measured of the {} best expected; they reached {} of the expected rate",
            tuned.contenders.len(),
            extent(times)
        )
    }

    fn late(&self, tuned: &Tuned) -> Option<String> {
        let latency_us = tuned.verified.rows.first()?.latency_ns / 1e3;
        self.max_latency_us.filter(|most| latency_us > *most).map(|most| {
            format!(
                "late: the repeated run took {latency_us:.3} us, more than --max-latency-us {most}"
            )
        })
    }

    /// Returns a note if the model cannot be right. Where the CPU executes a batch itself, the
    /// candidate that uses READs only is the paper's algorithm, one operation at a time.
    fn pinned(&self, model: &Model) -> Option<String> {
        let deepest = if self.direct() { PAPER_DEPTH } else { u32::MAX };
        let pinned = model.by_reads.range(..=deepest).filter(|(_, own)| own.pinned);
        let depths: Vec<_> = pinned.map(|(depth, _)| depth.to_string()).collect();
        (!depths.is_empty()).then(|| {
            format!(
                "off: with {} in flight short runs contradict the model; {}: use more --rounds",
                depths.join(", "),
                match self.direct() {
                    true => "the paper's row is off",
                    false => "such rows may be off",
                }
            )
        })
    }
}

/// States the table's own work per operation, by the short runs.
fn own(tuned: &Tuned) -> Option<String> {
    let best = &tuned.recommended;
    let by = if best.direct { &tuned.model.direct } else { &tuned.model.by_reads };
    let own = by.get(&best.depth)?;
    Some(format!(
        "own: with {1} in flight the table's work is {0} per operation, {2} more with a cache",
        time(own.call_ns),
        best.depth,
        time(own.cache_ns)
    ))
}

/// States the prediction for the recommendation without the short run that it repeats.
fn repetition(tuned: &Tuned) -> Option<String> {
    let best = &tuned.recommended;
    if best.direct {
        return None;
    }
    let expected_ns = tuned.model.time_ns(best);
    let off = tuned.verified.rows.first().map_or(1.0, |row| row.times_expected);
    let without_ns = tuned.model.without(best, &tuned.calibration).time_ns(best);
    Some(format!(
        "blind: {} expected without the short runs of its C and depth; measured {:.3} of that",
        time(without_ns * f64::from(best.depth)),
        off * without_ns / expected_ns.max(1e-3)
    ))
}

fn extent(of: impl Iterator<Item = f64> + Clone) -> String {
    let [least, most] = [f64::min, f64::max].map(|one| of.clone().reduce(one).unwrap_or(1.0));
    format!("{least:.2} to {most:.2}")
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use probeline_tune::Own;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        tune: TuneArgs,
    }

    #[test]
    fn runs_that_contradict_the_model_are_noted_if_they_affect_a_prediction() {
        let pinned = Own { pinned: true, ..Own::default() };
        let note = |direct: &str, depth: u32| {
            let tune = Command::try_parse_from(["tune", "--direct", direct]).unwrap().tune;
            let mut model = Model::default();
            model.by_reads.extend([1, 2, 8].map(|depth| (depth, Own::default())));
            assert_eq!(tune.pinned(&model), None);
            model.by_reads.insert(depth, pinned.clone());
            tune.pinned(&model)
        };
        assert!(note("off", 8).unwrap().starts_with("off: with 8 in flight short runs"));
        assert!(note("off", 1).unwrap().contains("such rows may be off"));
        assert!(note("on", 1).unwrap().contains("the paper's row is off"));
        assert_eq!(note("on", 8), None);
    }
}
