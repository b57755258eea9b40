//! The result of an exploration: the summary, the row and the notes on its columns.

use core::slice;

use serde::Serialize;

use super::super::limits::TableLimit;
use crate::interrupt::Interrupt;
use crate::report::{Layout, Note, Row};
use crate::units::{counted, rate_of, thousands, time};

#[derive(Clone, Debug, Serialize)]
pub(crate) struct ExploreRow {
    pub(super) model: String,
    pub(super) ranks: u32,
    /// Whether all states were expanded; false if a signal ended the exploration earlier.
    pub(super) complete: bool,
    pub(super) states: u64,
    pub(super) states_not_expanded: u64,
    pub(super) arcs: u64,
    pub(super) levels: u64,
    pub(super) deadlocks: u64,
    pub(super) seconds: f64,
    pub(super) states_per_s: f64,
    pub(super) load_factor: f64,
    /// Successors that were among the known states / all successors.
    pub(super) known_share: f64,
    /// Find-or-puts, one for each successor that was not known / expanded states.
    pub(super) find_or_puts_per_state: f64,
    /// Find-or-puts that the cache answered / all find-or-puts.
    pub(super) cache_hit_share: f64,
    pub(super) limit_share: Option<f64>,
    pub(super) effective_roundtrips_per_state: f64,
    pub(super) outgoing_roundtrips_per_state: f64,
    pub(super) claims_lost: u64,
    pub(super) lines_per_state: f64,
    pub(super) bits: u32,
    /// States that the busiest rank expanded / mean of all ranks.
    pub(super) imbalance: f64,
}

/// The notes on the columns.
pub(super) fn notes(limit: Option<&TableLimit>) -> Vec<Note> {
    let note =
        |column: &'static Column| Some(Note::on(slice::from_ref(&column.head), column.note?));
    COLUMNS.iter().filter_map(note).chain(limit.map(|limit| limit.note().into())).collect()
}

/// A column of the table.
struct Column {
    head: &'static str,
    cell: fn(&ExploreRow) -> String,
    /// Whether the column matters for this row.
    is_shown: fn(&ExploreRow) -> bool,
    /// The meaning, if the head does not say it.
    note: Option<&'static str>,
}

const fn column(head: &'static str, cell: fn(&ExploreRow) -> String) -> Column {
    Column { head, cell, is_shown: |_| true, note: None }
}

impl Column {
    const fn only_if(self, is_shown: fn(&ExploreRow) -> bool) -> Self {
        Self { is_shown, ..self }
    }

    const fn means(self, note: &'static str) -> Self {
        Self { note: Some(note), ..self }
    }
}

const COLUMNS: [Column; 17] = [
    column("model", |row| row.model.clone()),
    column("ranks", |row| row.ranks.to_string()),
    column("states", |row| row.states.to_string()),
    column("arcs", |row| row.arcs.to_string())
        .means("pairs of a state and a transition that is enabled in it"),
    column("levels", |row| row.levels.to_string())
        .means("breadth-first levels expanded, the initial state's included"),
    column("deadlocks", |row| row.deadlocks.to_string())
        .means("states in which no transition is enabled"),
    column("states/s", |row| format!("{:.0}", row.states_per_s)),
    column("load", |row| format!("{:.3}", row.load_factor)).means("occupied buckets / all buckets"),
    column("known", |row| format!("{:.3}", row.known_share))
        .only_if(|_| false)
        .means("share of successors that were among --known-states"),
    column("puts", |row| format!("{:.2}", row.find_or_puts_per_state))
        .means("find-or-puts per state; successors among --known-states need none"),
    column("cached", |row| format!("{:.3}", row.cache_hit_share))
        .only_if(|row| row.cache_hit_share > 0.0)
        .means("share of find-or-puts that --cache answered"),
    column("of limit", |row| {
        row.limit_share.map_or_else(String::new, |share| format!("{share:.3}"))
    })
    .only_if(|row| row.limit_share.is_some()),
    column("eff", |row| format!("{:.2}", row.effective_roundtrips_per_state))
        .only_if(|row| row.outgoing_roundtrips_per_state > 0.0)
        .means("chunk READs waited for, per state"),
    column("out", |row| format!("{:.2}", row.outgoing_roundtrips_per_state))
        .only_if(|row| row.outgoing_roundtrips_per_state > 0.0)
        .means("chunk READs posted, per state"),
    column("lines", |row| format!("{:.2}", row.lines_per_state))
        .only_if(|_| false)
        .means("cache lines of the table that the CPU looked at, per state"),
    column("bits", |row| row.bits.to_string()).means("width of a packed state, at most 63"),
    column("imbalance", |row| format!("{:.3}", row.imbalance))
        .only_if(|row| row.ranks > 1)
        .means("states that the busiest rank expanded / mean of all ranks"),
];

impl ExploreRow {
    /// The columns that are printed without `--full`.
    fn columns(&self) -> impl Iterator<Item = &'static Column> {
        COLUMNS.iter().filter(|column| (column.is_shown)(self))
    }

    /// The summary. The signal `stopped_by` ended the exploration before all states were expanded.
    pub(super) fn summary(&self, stopped_by: Option<Interrupt>) -> Vec<String> {
        let stopped = stopped_by.map(|signal| {
            format!(
                "stopped by {} after level {}: {} states found, {} of them not expanded",
                signal.name(),
                self.levels,
                thousands(self.states),
                thousands(self.states_not_expanded)
            )
        });
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
        stopped.into_iter().chain([answer]).collect()
    }
}

impl Row for ExploreRow {
    const HEAD: &'static [&'static str] = &{
        let mut heads = [""; COLUMNS.len()];
        let mut at = 0;
        while at < heads.len() {
            heads[at] = COLUMNS[at].head;
            at += 1;
        }
        heads
    };

    fn cells(&self) -> Vec<String> {
        COLUMNS.iter().map(|column| (column.cell)(self)).collect()
    }

    /// The one row, with the columns that matter for it.
    fn brief(rows: &[Self]) -> Layout {
        let columns: Vec<&Column> = rows.first().into_iter().flat_map(Self::columns).collect();
        let head = columns.iter().map(|column| column.head.to_owned()).collect();
        let cells = |row| columns.iter().map(|column| (column.cell)(row)).collect();
        (head, rows.iter().map(cells).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            known_share: 0.5,
            find_or_puts_per_state: 4.8,
            cache_hit_share: 0.0,
            limit_share: None,
            effective_roundtrips_per_state: 0.0,
            outgoing_roundtrips_per_state: 0.0,
            claims_lost: 3,
            lines_per_state: 1.1,
            bits: 48,
            imbalance: 1.01,
        }
    }

    #[test]
    fn the_answer_can_be_quoted() {
        let answer = "kanban:5: 2,546,432 states, 24,460,016 arcs, 0 deadlocks in 1.20 s on 2 ranks \
                      (2.12 M states/s)";
        assert_eq!(row().summary(None), [answer]);
        let one = ExploreRow { ranks: 1, deadlocks: 1, seconds: 0.5, ..row() };
        assert!(one.summary(None)[0].contains(" 1 deadlock in 500 ms on 1 rank ("));
    }

    #[test]
    fn an_incomplete_result_says_so_first() {
        let row = ExploreRow { complete: false, levels: 12, states_not_expanded: 45_678, ..row() };
        let summary = row.summary(Interrupt::from_number(2));
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
        for head in ["known", "cached", "eff", "out", "lines"] {
            assert!(!has(&row(), head));
        }
        let more = ExploreRow { cache_hit_share: 0.2, outgoing_roundtrips_per_state: 1.5, ..row() };
        for head in ["arcs", "load", "puts", "cached", "eff", "out", "bits", "imbalance"] {
            assert!(has(&more, head));
        }
        assert!(!has(&ExploreRow { ranks: 1, ..row() }, "imbalance"));
    }
}
