//! The summary and the notes of a recommendation.

use probeline_tune::Model;

use super::runs::PAPER_DEPTH;
use super::{AS_EXPECTED, BATCHED_BY_CPU, Sweep, TuneArgs, Tuned};
use crate::table::name_of;
use crate::units::{rate, time};
use probeline_results::Note;

impl TuneArgs {
    /// States the recommendation, its measured rate, and the ratio of that to the prediction.
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
        lines.extend(tuned.rows.first().map(|row| {
            format!(
                "measured: {} by {} ranks, {} each; {:.2} x the {} that the model expected",
                rate(row.ops_per_s),
                self.job.ranks,
                time(row.latency_ns),
                row.times_expected,
                rate(row.ops_per_s / row.times_expected)
            )
        }));
        let paper = tuned.rows.iter().find(|row| row.is_paper());
        lines.extend(tuned.rows.first().zip(paper).map(|(best, paper)| {
            format!(
                "beside: {:.2} x the {} of the paper's algorithm, {} each",
                best.ops_per_s / paper.ops_per_s,
                rate(paper.ops_per_s),
                time(paper.latency_ns)
            )
        }));
        lines.extend(tuned.sweep.as_ref().map(|sweep| {
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
        notes.extend(tuned.sweep.as_ref().map(|Sweep { as_expected, .. }| {
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

    /// Names the candidates from which the recommendation was chosen.
    fn chosen(&self, tuned: &Tuned) -> String {
        let times = tuned.contenders.iter().map(|(at, ns)| tuned.model.time_ns(at) / ns.max(1e-3));
        format!(
            "chosen: the best measured of the {} best expected; they reached {} of the expected rate",
            tuned.contenders.len(),
            extent(times)
        )
    }

    /// Returns a note if the repeated run of the recommendation exceeded the latency limit.
    fn late(&self, tuned: &Tuned) -> Option<String> {
        let latency_us = tuned.rows.first()?.latency_ns / 1e3;
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
    let off = tuned.rows.first().map_or(1.0, |row| row.times_expected);
    let without_ns = tuned.model.without(best, &tuned.calibration).time_ns(best);
    Some(format!(
        "blind: {} expected without the short runs of its C and depth; measured {:.3} of that",
        time(without_ns * f64::from(best.depth)),
        off * without_ns / expected_ns.max(1e-3)
    ))
}

/// Formats the minimum and the maximum of factors.
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
