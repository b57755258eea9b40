//! The row of an exploration, and its summary.

use probeline_results::format::{fixed, text};
use probeline_results::{Row, row};

use super::counterexample::Verdict;
use super::search::Ending;
use crate::size::Size;
use crate::units::{counted, rate_of, thousands, time};

row! {
    pub(crate) struct ExploreRow {
        pub(super) model: String => ("model", text),
        pub(super) ranks: u32 => ("ranks", text),
        /// Whether all states were expanded; false if the exploration ended earlier.
        pub(super) complete: bool,
        pub(super) states: u64 => ("states", text),
        pub(super) states_not_expanded: u64,
        pub(super) arcs: u64 =>
            ("arcs", text, note("pairs of a state and a transition that is enabled in it")),
        pub(super) levels: u64 =>
            ("levels", text, note("breadth-first levels expanded, the initial state's included")),
        pub(super) deadlocks: u64 =>
            ("deadlocks", text, note("states in which no transition is enabled")),
        pub(super) seconds: f64,
        pub(super) states_per_s: f64 => ("states/s", fixed::<0>),
        pub(super) load_factor: f64 => ("load", fixed::<3>, note("occupied buckets / all buckets")),
        pub(super) table_bytes: u64,
        pub(super) growths: u32 => (
            "growths",
            text,
            only_if(|row| row.growths > 0)
                .note("tables that took the place of a smaller one; load is that of the last")
        ),
        pub(super) growth_seconds: f64,
        pub(super) known_share: f64 => (
            "known",
            fixed::<3>,
            full().note("successors without a find-or-put: remembered, or also of another state")
        ),
        pub(super) find_or_puts_per_state: f64 => (
            "puts",
            fixed::<2>,
            note("find-or-puts per state; known successors need none")
        ),
        pub(super) cache_hit_share: f64 => (
            "cached",
            fixed::<3>,
            only_if(|row| row.cache_hit_share > 0.0)
                .note("share of find-or-puts that --cache answered")
        ),
        pub(super) limit_share: Option<f64> =>
            ("of limit", fixed::<3>, only_if(|row| row.limit_share.is_some())),
        pub(super) effective_roundtrips_per_state: f64 => (
            "eff",
            fixed::<2>,
            only_if(|row| row.outgoing_roundtrips_per_state > 0.0)
                .note("chunk READs waited for, per state")
        ),
        pub(super) outgoing_roundtrips_per_state: f64 => (
            "out",
            fixed::<2>,
            only_if(|row| row.outgoing_roundtrips_per_state > 0.0)
                .note("chunk READs posted, per state")
        ),
        pub(super) claims_lost: u64,
        pub(super) lines_per_state: f64 => (
            "lines",
            fixed::<2>,
            full().note("cache lines of the table that the CPU loaded, per state")
        ),
        pub(super) bits: u32 => ("bits", text, note("width of a packed state")),
        pub(super) bytes: f64 => (
            "bytes",
            fixed::<1>,
            note("of the table, per state: bucket and entry, or share of the nodes of trees")
        ),
        pub(super) node_hit_share: Option<f64> => (
            "nodes",
            fixed::<3>,
            only_if(|row| row.node_hit_share.is_some())
                .note("share of inner nodes that the rank's own cache answered")
        ),
        pub(super) false_read_share: f64 => (
            "false",
            fixed::<5>,
            only_if(|row| row.bytes > 8.0 && row.node_hit_share.is_none())
                .note("share of entry reads that showed another state, whose tag is the same")
        ),
        pub(super) imbalance: f64 => (
            "imbalance",
            fixed::<3>,
            only_if(|row| row.ranks > 1)
                .note("states that the busiest rank expanded / mean of all ranks")
        ),
        /// In the order of the options; empty without properties.
        pub(super) properties: Vec<Verdict>,
    }
}

impl Row for ExploreRow {}

impl ExploreRow {
    /// Returns whether a state violates one of the properties.
    pub(super) fn is_violated(&self) -> bool {
        self.properties.iter().any(Verdict::is_violated)
    }

    /// States the result.
    pub(super) fn summary(&self, ending: &Ending) -> Vec<String> {
        let (cause, reason) = match ending {
            Ending::Complete => (None, None),
            Ending::Answered => (Some("at the counterexample".to_owned()), None),
            Ending::Interrupted(signal) => (Some(format!("by {}", signal.name())), None),
            Ending::OutOfRoom(reason) => {
                (Some("for lack of room".to_owned()), Some(format!("  {reason}")))
            }
        };
        let stopped = cause.map(|cause| {
            format!(
                "stopped {cause} after level {}: {} states found, {} of them not expanded",
                self.levels,
                thousands(self.states),
                thousands(self.states_not_expanded)
            )
        });
        let verdicts = self.properties.iter().flat_map(Verdict::summary);
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
    use super::*;
    use crate::interrupt::Interrupt;

    fn row() -> ExploreRow {
        ExploreRow {
            model: "kanban:5".to_owned(),
            ranks: 2,
            complete: true,
            states: 2_546_432,
            states_not_expanded: 0,
            arcs: 24_460_016,
            levels: 71,
            deadlocks: 0,
            seconds: 1.2,
            states_per_s: 2_122_026.7,
            load_factor: 0.152,
            table_bytes: 128 << 20,
            growths: 0,
            growth_seconds: 0.0,
            known_share: 0.5,
            find_or_puts_per_state: 4.8,
            cache_hit_share: 0.0,
            limit_share: None,
            effective_roundtrips_per_state: 0.0,
            outgoing_roundtrips_per_state: 0.0,
            claims_lost: 3,
            lines_per_state: 1.1,
            bits: 48,
            bytes: 8.0,
            node_hit_share: None,
            false_read_share: 0.0,
            imbalance: 1.01,
            properties: Vec::new(),
        }
    }

    #[test]
    fn the_answer_can_be_quoted() {
        let answer = "kanban:5: 2,546,432 states, 24,460,016 arcs, 0 deadlocks in 1.20 s on 2 ranks \
                      (2.12 M states/s)";
        assert_eq!(row().summary(&Ending::Complete), [answer]);
        let one = ExploreRow { ranks: 1, deadlocks: 1, seconds: 0.5, ..row() };
        assert!(one.summary(&Ending::Complete)[0].contains(" 1 deadlock in 500 ms on 1 rank ("));
    }

    #[test]
    fn growth_comes_after_the_answer() {
        let row = ExploreRow { growths: 2, growth_seconds: 0.05, ..row() };
        let summary = row.summary(&Ending::Complete);
        assert_eq!(summary[1..], ["the table grew 2 times to 128MiB in 50.0 ms"]);
        let (heads, _) = Row::brief(core::slice::from_ref(&row));
        assert!(heads.iter().any(|name| name == "growths"));
    }

    #[test]
    fn an_incomplete_result_is_marked_first() {
        let row = ExploreRow { complete: false, levels: 12, states_not_expanded: 45_678, ..row() };
        let summary = row.summary(&Ending::Interrupted(Interrupt::from_number(2).unwrap()));
        let first = "stopped by SIGINT after level 12: 2,546,432 states found, 45,678 of them not \
                     expanded";
        assert_eq!(summary[0], first);
        assert!(summary[1].starts_with("kanban:5, incomplete: 2,546,432 states"), "{summary:?}");
    }

    #[test]
    fn only_columns_that_matter_are_printed() {
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
