//! What is said of a recommendation besides its rows.

use tune::{Model, Own};

use super::row::TuneRow;
use super::verification::PAPER_DEPTH;
use super::{AS_EXPECTED, BATCHED_BY_CPU, CHUNK_BUCKETS, SWEEP_ROUNDS, Sweep, TuneArgs, Tuned};

impl TuneArgs {
    pub(super) fn notes(&self, tuned: &Tuned) -> Vec<String> {
        let model = &tuned.model;
        let off = tuned.rows.first().map_or(1.0, TuneRow::times_expected);
        let mut notes = vec![
            format!(
                "The recommendation is in {}, for --tuning. Measured is {off:.3} of the throughput that \
                 the model expected of it.",
                self.out.display()
            ),
            format!(
                "The model: an operation takes the READs and claims that it waits for, each at what \
                 one takes with so many in flight, or all that it posts, whichever is longer, and the \
                 table's own work. Inserts look at {:.2} buckets and finds at {:.2}, counted in a \
                 table filled so far; closed formulas have only the mean.",
                model.lengths.mean(true),
                model.lengths.mean(false)
            ),
            self.own(model),
            format!(
                "ns: from an operation's begin to its end, the mean, by the time that a rank takes for \
                 each and how many are in flight. All ranks at once, {} of {} rounds in which all \
                 candidates take turns: other work only adds. M reaches so far that one in a million \
                 tables would have an operation that finds no room; more costs nothing.",
                if self.rounds < 4 { "the least" } else { "lower quartiles" },
                self.rounds
            ),
        ];
        notes.push(self.chosen(tuned));
        notes.push(repetition(tuned));
        notes.extend(self.late(tuned));
        notes.extend(self.pinned(model));
        if self.direct() {
            notes.push(format!(
                "By the CPU itself an operation is a blocking call, 1 in flight, or one of a batch, \
                 which has {BATCHED_BY_CPU} in flight whatever it is given: where what counts is \
                 latency, or less in flight was asked for, it is no candidate."
            ));
        }
        if self.operations() < self.wanted_operations() {
            notes.push(format!(
                "Runs are of {} operations of each rank, not {}: with more the inserts of one run \
                 would be more than 2 % of the table, which a larger --table-size has room for.",
                self.operations(),
                self.wanted_operations()
            ));
        }
        if let Some(Sweep { candidates, again, longer, as_expected }) = &tuned.sweep {
            let than = if *longer < 0.0 { "less" } else { "more" };
            notes.push(format!(
                "Sweep: of all {candidates} candidates, each measured {SWEEP_ROUNDS} times, the best \
                 {again} others were measured again beside the recommendation, which takes {:.1} % \
                 {than} time than the best of them. Of {} that no short run was as, {} did {} to {} \
                 of the throughput expected.",
                longer.abs() * 100.0,
                as_expected.1,
                as_expected.0,
                AS_EXPECTED.start(),
                AS_EXPECTED.end()
            ));
        }
        notes
    }

    /// What the recommendation was chosen from.
    fn chosen(&self, tuned: &Tuned) -> String {
        let times = tuned.contenders.iter().map(|(at, ns)| tuned.model.time_ns(at) / ns.max(1e-3));
        format!(
            "The recommendation is the best as measured, in {} rounds before those of the rows, of \
             what may be best: the best expected for each {}, {} in all. They did {} of the throughput \
             expected.",
            self.rounds,
            match self.direct() {
                true => "depth, with a cache and without",
                false => "C, depth, read-ahead, one-roundtrip insert and cache",
            },
            tuned.contenders.len(),
            extent(times)
        )
    }

    /// Where the recommendation, when it was run again, took longer than it may.
    fn late(&self, tuned: &Tuned) -> Option<String> {
        let latency_us = tuned.rows.first()?.latency_ns() / 1e3;
        self.max_latency_us.filter(|most| latency_us > *most).map(|most| {
            format!(
                "Run again the recommendation took {latency_us:.3} us, more than --max-latency-us \
                 {most}: it is near to the bound."
            )
        })
    }

    /// Where the model cannot be right. By the CPU itself, all that goes by READs is the paper's
    /// algorithm, one operation at a time.
    fn pinned(&self, model: &Model) -> Option<String> {
        let deepest = if self.direct() { PAPER_DEPTH } else { u32::MAX };
        let pinned = model.by_reads.range(..=deepest).filter(|(_, own)| own.pinned);
        let depths: Vec<_> = pinned.map(|(depth, _)| depth.to_string()).collect();
        (!depths.is_empty()).then(|| {
            format!(
                "With {} in flight the short runs by READs do not add up as the model has it: a part \
                 of it would be beyond reason. Expect the prediction {} to be off, and run again with \
                 more --rounds or on a machine at rest.",
                depths.join(", "),
                match self.direct() {
                    true => "of the paper's algorithm",
                    false => "with so many of read-ahead and of one-roundtrip inserts",
                }
            )
        })
    }

    /// What the short runs said.
    fn own(&self, model: &Model) -> String {
        let of = |(depth, own): (&u32, &Own)| match self.direct() {
            true => {
                format!("{depth}: {:.1} ns, {:.1} more with a cache", own.call_ns, own.cache_ns)
            }
            false => format!(
                "{depth}: {:.1} ns, first READs x {:.2} of random ones, those behind them x {:.2}, \
                 with the next one ahead x {:.2} more, {:.0} % of the shorter of READs and claims \
                 one after the other, {:.1} ns more with a claim along with the first READ, {:.1} \
                 with a cache, all by {} for what is left of each C",
                own.call_ns,
                own.read_factor,
                own.next_factor,
                own.ahead_factor,
                own.one_by_one * 100.0,
                own.first_claim_ns,
                own.cache_ns,
                extent(own.plain_factors.values().copied())
            ),
        };
        let overhead = if self.direct() { &model.direct } else { &model.by_reads };
        let chunks = CHUNK_BUCKETS.map(|chunk_buckets| chunk_buckets.to_string());
        format!(
            "The table's own work, by what is in flight{}: {}.",
            match self.direct() {
                true =>
                    ", all there is where the CPU reaches all buckets itself and C, M, read-ahead \
                         and the one-roundtrip insert are without effect"
                        .to_owned(),
                false => format!(", from short runs with C = {}", chunks.join(", ")),
            },
            overhead.iter().map(of).collect::<Vec<_>>().join("; ")
        )
    }
}

/// How much of what is expected of the recommendation repeats a short run, and what is expected
/// without.
fn repetition(tuned: &Tuned) -> String {
    let best = &tuned.recommended;
    if best.direct {
        return "By the CPU itself what is expected is what a short run of the same table took."
            .to_owned();
    }
    let expected_ns = tuned.model.time_ns(best);
    let off = tuned.rows.first().map_or(1.0, TuneRow::times_expected);
    let without_ns = tuned.model.without(best, &tuned.calibration).time_ns(best);
    format!(
        "Each C has its own short run, by which the model is held. Without those with C = {} and {} in \
         flight it would have expected {:.1} ns, and measured is {:.3} of that throughput.",
        best.chunk_buckets,
        best.depth,
        without_ns * f64::from(best.depth),
        off * without_ns / expected_ns.max(1e-3)
    )
}

/// The least and the most of factors.
fn extent(of: impl Iterator<Item = f64> + Clone) -> String {
    let [least, most] = [f64::min, f64::max].map(|one| of.clone().reduce(one).unwrap_or(1.0));
    format!("{least:.2} to {most:.2}")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        tune: TuneArgs,
    }

    #[test]
    fn what_does_not_add_up_is_said_where_it_predicts_something() {
        let pinned = Own { pinned: true, ..Own::default() };
        let note = |direct: &str, depth: u32| {
            let tune = Command::try_parse_from(["tune", "--direct", direct]).unwrap().tune;
            let mut model = Model::default();
            model.by_reads.extend([1, 2, 8].map(|depth| (depth, Own::default())));
            assert_eq!(tune.pinned(&model), None);
            model.by_reads.insert(depth, pinned.clone());
            tune.pinned(&model)
        };
        assert!(note("off", 8).unwrap().starts_with("With 8 in flight the short runs"));
        assert!(note("off", 1).unwrap().contains("the prediction with so many of read-ahead"));
        assert!(
            note("on", 1).unwrap().contains("the prediction of the paper's algorithm to be off")
        );
        assert_eq!(note("on", 8), None);
    }
}
