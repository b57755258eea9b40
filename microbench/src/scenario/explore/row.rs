//! The row of an exploration, and its summary.

use probeline_programs::explore::{Ending, Explored, Verdict};
use probeline_report::results::format::{fixed, text};
use probeline_report::results::row;

use super::verdict;
use crate::interrupt::Interrupt;
use crate::size::Size;
use crate::units::{counted, rate_of, thousands, time};

row! {
    #[derive(Default)]
    pub(crate) struct ExploreRow {
        model: String = "the file, or the built-in model" => ("model", text),
        ranks: u32 => ("ranks", text, full()),
        complete: bool = "false if a signal, violated properties or lack of room ended it",
        states: u64 = "states found" => ("states", text),
        states_not_expanded: u64 = "0 if complete",
        arcs: u64 = "pairs of a state and a transition that is enabled in it" => ("arcs", text, note()),
        levels: u64 = "breadth-first levels expanded, the initial state's included" => ("levels", text, note()),
        deadlocks: u64 = "states in which no transition is enabled" => ("deadlocks", text, note()),
        seconds: f64 = "from the initial state to the end",
        states_per_s: f64 => ("states/s", fixed::<0>),
        load_factor: f64 = "occupied buckets / all buckets" => ("load", fixed::<3>, note()),
        table_bytes: u64 = "of the last table, all ranks together",
        growths: u32 = "tables that took the place of a smaller one; load is that of the last"
            => ("growths", text, only_if(|row| row.growths > 0).note()),
        growth_seconds: f64 = "time of these moves, with opening and closing tables",
        known_share: f64 = "successors without a find-or-put: remembered, or successors of another state too"
            => ("known", fixed::<3>, full().note()),
        find_or_puts_per_state: f64 = "find-or-puts per state; known successors need none"
            => ("puts", fixed::<2>, note()),
        cache_hit_share: f64 = "share of find-or-puts that --cache answered"
            => ("cached", fixed::<3>, only_if(|row| row.cache_hit_share > 0.0).note()),
        effective_roundtrips_per_state: f64 = "chunk READs waited for, per state"
            => ("eff", fixed::<2>, only_if(|row| row.outgoing_roundtrips_per_state > 0.0).note()),
        outgoing_roundtrips_per_state: f64 = "chunk READs posted, per state"
            => ("out", fixed::<2>, only_if(|row| row.outgoing_roundtrips_per_state > 0.0).note()),
        claims_lost: u64 = "claims that failed because another rank claimed the bucket first",
        lines_per_state: f64 = "cache lines of the table that the CPU loaded, per state"
            => ("lines", fixed::<2>, full().note()),
        bits: u32 = "width of a packed state" => ("bits", text, note()),
        bytes: f64 = "of the table, per state: bucket and entry, or share of the nodes of trees"
            => ("bytes", fixed::<1>, note()),
        node_hit_share: Option<f64> = "share of inner nodes that the rank's own cache answered"
            => ("nodes", fixed::<3>, only_if(|row| row.node_hit_share.is_some()).note()),
        false_read_share: f64 = "share of entry reads that showed another state, whose tag is the same"
            => ("false", fixed::<5>, only_if(|row| row.bytes > 8.0 && row.node_hit_share.is_none()).note()),
        imbalance: f64 = "states that the busiest rank expanded / mean of all ranks"
            => ("imbalance", fixed::<3>, only_if(|row| row.ranks > 1).note()),
        properties: Vec<Verdict> = "JSON only: verdicts on `--find-deadlock`, then each `--invariant`",
    }
}

impl ExploreRow {
    /// Creates the row of an exploration.
    pub(super) fn new(model: &str, ranks: u32, explored: &Explored) -> Self {
        let Explored { counts, stats, open, ending, verdicts, .. } = explored;
        let (buckets, entries, nodes) = (stats.buckets.total(), stats.entries, stats.nodes);
        let per_state = |sum: u64| sum as f64 / counts.expanded.max(1) as f64;
        let seconds = explored.took_ns as f64 / 1e9;
        let (states, puts) = (counts.states as f64, counts.find_or_puts as f64);
        Self {
            model: model.to_owned(),
            ranks,
            complete: *ending == Ending::Complete,
            states: counts.states,
            states_not_expanded: *open,
            arcs: counts.arcs,
            levels: counts.levels,
            deadlocks: counts.deadlocks,
            seconds,
            states_per_s: states / seconds,
            load_factor: explored.occupied as f64 / explored.buckets as f64,
            table_bytes: explored.table_bytes,
            growths: explored.growths,
            growth_seconds: explored.growth_ns as f64 / 1e9,
            known_share: counts.known as f64 / counts.arcs.max(1) as f64,
            find_or_puts_per_state: per_state(counts.find_or_puts),
            cache_hit_share: buckets.cache_hits as f64 / puts.max(1.0),
            effective_roundtrips_per_state: per_state(buckets.effective_roundtrips),
            outgoing_roundtrips_per_state: per_state(buckets.outgoing_roundtrips),
            claims_lost: buckets.claims_lost,
            lines_per_state: per_state(buckets.lines),
            bits: explored.bits,
            bytes: 8.0 * explored.occupied as f64 / states.max(1.0) + explored.entry_bytes as f64,
            node_hit_share: (nodes.inner_nodes > 0).then(|| nodes.cache_hit_share()),
            false_read_share: entries.false_entry_reads as f64 / entries.entry_reads.max(1) as f64,
            imbalance: explored.busiest as f64 * f64::from(ranks) / counts.expanded.max(1) as f64,
            properties: verdicts.clone(),
        }
    }

    /// Returns whether a state violates one of the properties.
    pub(super) fn is_violated(&self) -> bool {
        self.properties.iter().any(Verdict::is_violated)
    }

    /// States the result, and the reason for which states or a table had no room.
    pub(super) fn summary(&self, ending: &Ending, reason: Option<&str>) -> Vec<String> {
        let cause = match ending {
            Ending::Complete => None,
            Ending::Answered => Some("at the counterexample".to_owned()),
            Ending::Stopped(number) => {
                let signal = Interrupt::from_number(*number).map_or("a signal", Interrupt::name);
                Some(format!("by {signal}"))
            }
            Ending::OutOfRoom(_) => Some("for lack of room".to_owned()),
        };
        let reason = reason.map(|reason| format!("  {reason}"));
        let stopped = cause.map(|cause| {
            format!(
                "stopped {cause} after level {}: {} states found, {} of them not expanded",
                self.levels,
                thousands(self.states),
                thousands(self.states_not_expanded)
            )
        });
        let verdicts = self.properties.iter().flat_map(verdict::summary);
        let answer = format!(
            "{}{}: {}, {}, {} in {} on {} ({})",
            self.model,
            if self.complete { "" } else { ", incomplete" },
            counted(self.states, "state"),
            counted(self.arcs, "arc"),
            counted(self.deadlocks, "deadlock"),
            time(self.seconds * 1e9),
            counted(self.ranks.into(), "rank"),
            rate_of("states", self.states_per_s)
        );
        let grown = (self.growths > 0).then(|| {
            format!(
                "the table grew {} to {} in {}",
                counted(self.growths.into(), "time"),
                Size(self.table_bytes),
                time(self.growth_seconds * 1e9)
            )
        });
        verdicts.chain(stopped).chain(reason).chain([answer]).chain(grown).collect()
    }
}

#[cfg(test)]
mod tests {
    use probeline_programs::explore::{OutOfRoom, Reason};
    use probeline_report::results::Row;

    use super::*;

    fn row() -> ExploreRow {
        ExploreRow {
            model: "kanban:5".to_owned(),
            ranks: 2,
            complete: true,
            states: 2_546_432,
            arcs: 24_460_016,
            seconds: 1.2,
            states_per_s: 2_122_026.7,
            table_bytes: 128 << 20,
            bytes: 8.0,
            ..ExploreRow::default()
        }
    }

    #[test]
    fn summary_fits_one_line() {
        let answer = "kanban:5: 2,546,432 states, 24,460,016 arcs, 0 deadlocks in 1.20 s on 2 ranks \
                      (2.12 M states/s)";
        assert_eq!(row().summary(&Ending::Complete, None), [answer]);
        let one = ExploreRow { ranks: 1, deadlocks: 1, seconds: 0.5, ..row() };
        assert!(
            one.summary(&Ending::Complete, None)[0].contains(" 1 deadlock in 500 ms on 1 rank (")
        );
    }

    #[test]
    fn growth_follows_summary_line() {
        let row = ExploreRow { growths: 2, growth_seconds: 0.05, ..row() };
        let summary = row.summary(&Ending::Complete, None);
        assert_eq!(summary[1..], ["the table grew 2 times to 128MiB in 50.0 ms"]);
        let (heads, _) = Row::brief(core::slice::from_ref(&row));
        assert!(heads.iter().any(|name| name == "growths"));
    }

    /// End-to-end tests stop an exploration by a signal.
    #[test]
    fn marks_incomplete_result_first() {
        let row = ExploreRow { complete: false, levels: 12, states_not_expanded: 45_678, ..row() };
        let room = OutOfRoom {
            states: 9,
            levels: 1,
            reason: Reason::Memory { available: 1, keeps_levels: false },
        };
        let summary = row.summary(&Ending::OutOfRoom(Box::new(room)), Some("the table is full"));
        let first = "stopped for lack of room after level 12: 2,546,432 states found, 45,678 of them not \
                     expanded";
        assert_eq!(summary[0], first);
        assert_eq!(summary[1], "  the table is full");
    }

    #[test]
    fn prints_only_relevant_columns() {
        let has = |row: &ExploreRow, head: &str| {
            let (heads, lines) = Row::brief(core::slice::from_ref(row));
            assert!(lines.iter().all(|line| line.len() == heads.len()));
            heads.iter().any(|name| name == head)
        };
        for head in ["known", "cached", "eff", "out", "lines", "false"] {
            assert!(!has(&row(), head));
        }
        let more = ExploreRow { cache_hit_share: 0.2, outgoing_roundtrips_per_state: 1.5, ..row() };
        for head in ["arcs", "load", "puts", "cached", "eff", "out", "bits", "imbalance"] {
            assert!(has(&more, head));
        }
        assert!(!has(&ExploreRow { ranks: 1, ..row() }, "imbalance"));
        assert!(has(&ExploreRow { bytes: 24.0, ..row() }, "false"));
    }
}
