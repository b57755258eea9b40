//! What is said of a recommendation besides its rows.

use tune::{Model, Own};

use super::row::TuneRow;
use super::{BATCHED_BY_CPU, CALIBRATED_CHUNKS, SWEEP_ROUNDS, Sweep, TuneArgs, Tuned};

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
                 each and how many are in flight. All ranks at once, medians of {} rounds in which all \
                 candidates take turns. M reaches so far that one in a million tables would have an \
                 operation that finds no room; more costs nothing.",
                self.rounds
            ),
        ];
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
        if let Some(Sweep { candidates, again, longer }) = &tuned.sweep {
            let than = if *longer < 0.0 { "less" } else { "more" };
            notes.push(format!(
                "Sweep: of all {candidates} candidates, each measured {SWEEP_ROUNDS} times, the best \
                 {again} others were measured again beside the recommendation, which takes {:.1} % \
                 {than} time than the best of them.",
                longer.abs() * 100.0
            ));
        }
        notes
    }

    /// Where the model cannot be right.
    fn pinned(&self, model: &Model) -> Option<String> {
        let overhead = if self.direct() { &model.direct } else { &model.by_reads };
        let pinned = overhead.iter().filter(|(_, own)| own.pinned);
        let depths: Vec<_> = pinned.map(|(depth, _)| depth.to_string()).collect();
        (!depths.is_empty()).then(|| {
            format!(
                "With {} in flight the short runs do not add up as the model has it: what fits best \
                 would be beyond reason, so that a factor is at the end of what it may be. Expect \
                 the prediction to be off, and run again with more --rounds or on a machine at rest.",
                depths.join(", ")
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
                 with a cache",
                own.call_ns,
                own.read_factor,
                own.next_factor,
                own.ahead_factor,
                own.one_by_one * 100.0,
                own.first_claim_ns,
                own.cache_ns
            ),
        };
        let overhead = if self.direct() { &model.direct } else { &model.by_reads };
        let chunks = CALIBRATED_CHUNKS.map(|chunk_buckets| chunk_buckets.to_string());
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
