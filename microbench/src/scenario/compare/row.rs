//! The rows of the report, one for each figure and column. The table shows the columns side by side.

use probeline_report::distinct;
use probeline_report::results::format::text;
use probeline_report::results::{Layout, row};

use super::column::{Column, ColumnName};
use super::launch::NS;
use crate::run_report::{answer, side_by_side};
use crate::series::{Spread, median};
use crate::units::{rate, significant, time};

/// Rows that the summary quotes.
const QUOTED: [&str; 6] = [
    "READ 64 B",
    "CAS random word",
    "found",
    "inserted",
    "mixed, one at a time",
    "mixed, in batches",
];

row! {
    #[derive(Default)]
    pub(crate) struct CompareRow {
        measured: String = "the operation, or the workload and how it is executed" => ("operation", text),
        column: String = "the transport",
        unit: String = "of `median`, `min` and `max`: `ns` or `ops/s`",
        median: f64 = "of the rounds: p50 of `bench-latency`, for find-or-puts its mean; rate of `bench-throughput`",
        min: f64 = "least of the rounds",
        max: f64 = "greatest of the rounds",
        times_fastest: Option<f64> = "time / time of the fastest in the same round, median; null for sim",
        min_times_fastest: Option<f64> = "least of the rounds",
        max_times_fastest: Option<f64> = "greatest of the rounds",
        rounds: usize = "rounds until the column failed, else all",
        figures: Vec<f64> = "JSON only: the figure of each round",
    }

    fn full(rows: &[Self]) -> Layout { lay_out(rows.iter(), Self::cell) }

    fn brief(rows: &[Self]) -> Layout { lay_out(rows.iter(), Self::brief_cell) }
}

/// Adds the figure of a round to the row of this operation over this column.
pub(super) fn add_figure(
    rows: &mut Vec<CompareRow>,
    column: &str,
    measured: String,
    unit: &str,
    figure: f64,
) {
    match rows.iter_mut().find(|row| row.column == column && row.measured == measured) {
        Some(row) => row.figures.push(figure),
        None => rows.push(CompareRow {
            measured,
            column: column.to_owned(),
            unit: unit.to_owned(),
            figures: vec![figure],
            ..CompareRow::default()
        }),
    }
}

/// Fills in the medians of the rows and their ratios to the fastest row of the same operation.
pub(super) fn compared(mut rows: Vec<CompareRow>) -> Vec<CompareRow> {
    let order = distinct(rows.iter().map(|row| row.measured.clone()));
    rows.sort_by_key(|row| order.iter().position(|name| *name == row.measured));
    for line in rows.chunk_by_mut(|one, other| one.measured == other.measured) {
        let fastest = fastest(line);
        line.iter_mut().for_each(|row| row.compare(&fastest));
    }
    rows
}

/// Returns the times of the row with the shortest median time, of those that measured the most rounds.
/// The simulator's time is virtual.
fn fastest(rows: &[CompareRow]) -> Vec<f64> {
    let real = || rows.iter().filter(|row| row.is_real());
    let rounds = real().map(|row| row.figures.len()).max();
    let whole = real().filter(|row| Some(row.figures.len()) == rounds).map(CompareRow::times);
    let median = |times: &Vec<f64>| median(times.clone()).unwrap_or(f64::INFINITY);
    whole.min_by(|one, other| median(one).total_cmp(&median(other))).unwrap_or_default()
}

impl CompareRow {
    /// Returns the times of an operation, up to a factor.
    fn times(&self) -> Vec<f64> {
        let rounds = self.figures.iter().map(|value| value.max(f64::MIN_POSITIVE));
        rounds.map(|value| if self.unit == NS { value } else { value.recip() }).collect()
    }

    fn is_real(&self) -> bool {
        self.column != ColumnName::Sim.name()
    }

    fn compare(&mut self, fastest: &[f64]) {
        let pairs = self.times().into_iter().zip(fastest).map(|(one, other)| one / other);
        let ratios = Spread::new(pairs.collect()).filter(|_| self.is_real());
        self.times_fastest = ratios.map(|of| of.median);
        self.min_times_fastest = ratios.map(|of| of.min);
        self.max_times_fastest = ratios.map(|of| of.max);
        if let Some(spread) = Spread::new(self.figures.clone()) {
            (self.median, self.min, self.max) = (spread.median, spread.min, spread.max);
        }
        self.rounds = self.figures.len();
    }

    fn brief_cell(&self) -> String {
        let value = if self.unit == NS { time(self.median) } else { rate(self.median) };
        self.times_fastest.map_or(value.clone(), |times| format!("{value} x{}", significant(times)))
    }

    /// Adds the spread of the ratio.
    fn cell(&self) -> String {
        let cell = self.brief_cell();
        match self.min_times_fastest.zip(self.max_times_fastest) {
            Some((min, max)) => format!("{cell} ({} to {})", significant(min), significant(max)),
            None => cell,
        }
    }
}

fn lay_out<'r>(
    rows: impl Iterator<Item = &'r CompareRow> + Clone,
    cell: impl Fn(&CompareRow) -> String,
) -> Layout {
    side_by_side(["operation"], rows, |row| [row.measured.clone()], |row| row.column.clone(), cell)
}

/// Returns the answer: some operations over the measured columns, and the columns that were not measured.
pub(super) fn summary(columns: &[Column], rows: &[CompareRow], ranks: u32) -> Vec<String> {
    let title = format!("compare: {ranks} ranks, medians of rounds");
    let quoted = rows.iter().filter(|row| QUOTED.contains(&&*row.measured));
    let mut lines = answer(title, lay_out(quoted, CompareRow::brief_cell));
    lines.extend(columns.iter().filter_map(Column::failure));
    let absent = columns.iter().filter(|column| column.state() == "absent");
    let absent: Vec<_> = absent.map(|column| column.name.name()).collect();
    if !absent.is_empty() {
        lines.push(format!("not measured: {} (reasons: --full)", absent.join(", ")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use probeline_report::results::Row;

    use super::*;

    fn row(name: ColumnName, unit: &str, figures: &[f64]) -> CompareRow {
        let (measured, column) = ("READ 64 B".to_owned(), name.name());
        let (unit, figures) = (unit.to_owned(), figures.to_vec());
        CompareRow { measured, column, unit, figures, ..CompareRow::default() }
    }

    fn ratios(rows: &[CompareRow]) -> Vec<Option<f64>> {
        rows.iter().map(|row| row.times_fastest).collect()
    }

    #[test]
    fn compares_within_round() {
        // In the last round the machine is ten times slower for both.
        let rows = compared(vec![
            row(ColumnName::OscSm, NS, &[200.0, 210.0, 2_000.0]),
            row(ColumnName::Shm, NS, &[100.0, 100.0, 1_000.0]),
            row(ColumnName::Sim, NS, &[10.0, 10.0, 10.0]),
        ]);
        assert_eq!(ratios(&rows), [Some(2.0), Some(1.0), None]);
        assert_eq!((rows[0].median, rows[0].min, rows[0].max), (210.0, 200.0, 2_000.0));
        let (head, lines) = CompareRow::full(&rows);
        assert_eq!(head, ["operation", "osc-sm", "shm", "sim"]);
        let cells = ["210 ns x2.00 (2.00 to 2.10)", "100 ns x1.00 (1.00 to 1.00)", "10.0 ns"];
        assert_eq!(lines, [[&["READ 64 B"][..], &cells].concat()]);
    }

    #[test]
    fn early_failure_is_never_fastest() {
        let rows =
            vec![row(ColumnName::OscUcx, NS, &[50.0]), row(ColumnName::Shm, NS, &[100.0; 3])];
        assert_eq!(ratios(&compared(rows)), [Some(0.5), Some(1.0)]);
    }

    #[test]
    fn higher_rates_are_faster() {
        let rows =
            vec![row(ColumnName::Shm, "ops/s", &[4e6]), row(ColumnName::UcxTcp, "ops/s", &[1e6])];
        assert_eq!(ratios(&compared(rows)), [Some(1.0), Some(4.0)]);
    }

    #[test]
    fn summary_names_absent_columns() {
        let failed = |name, requested| {
            let error = Some("there is no mpirun".to_owned());
            Column { error, ..Column::new(name, requested) }
        };
        let columns = [
            Column::new(ColumnName::Shm, true),
            failed(ColumnName::OscSm, false),
            failed(ColumnName::Mpich, true),
        ];
        let rows = compared(vec![row(ColumnName::Shm, NS, &[120.0])]);
        let lines = summary(&columns, &rows, 2);
        assert_eq!(lines.len(), 5, "{lines:#?}");
        let words: Vec<&str> = lines[2].split_whitespace().collect();
        assert_eq!(words, ["READ", "64", "B", "120", "ns", "x1.00"]);
        assert_eq!(lines[3], "mpich: failed: there is no mpirun");
        assert_eq!(lines[4], "not measured: osc-sm (reasons: --full)");
    }
}
