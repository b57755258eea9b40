//! The rows of the report, one for each figure and column. The table shows the columns side by side.

use probeline_report::distinct;
use probeline_report::results::format::text;
use probeline_report::results::{Layout, one_line, row};

use super::benchmark::NS;
use super::column::{Column, Figures};
use crate::run_report::aligned;
use crate::series::Spread;
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
        #[serde(serialize_with = "one_line")]
        figures: Vec<f64> = "JSON only: the figure of each round",
    }

    fn full(rows: &[Self]) -> Layout { side_by_side(rows, Self::cell) }

    fn brief(rows: &[Self]) -> Layout { side_by_side(rows, Self::brief_cell) }
}

/// Joins the figures of the columns by their names.
pub(super) fn rows(columns: &[Column]) -> Vec<CompareRow> {
    let figures = columns.iter().flat_map(|column| &column.figures);
    let names = distinct(figures.map(|of| of.measured.as_str()));
    let mut rows = Vec::new();
    for name in names {
        let fastest = fastest(columns, name);
        for column in columns {
            let Some(figures) = column.figures_of(name) else { continue };
            let baseline = fastest.filter(|_| column.name.is_real());
            rows.extend(CompareRow::new(column.name.name(), figures, baseline));
        }
    }
    rows
}

/// Returns the figures of the column with the shortest median time, of those that measured the most
/// rounds. The simulator's time is virtual.
fn fastest<'c>(columns: &'c [Column], name: &str) -> Option<&'c Figures> {
    let real = || columns.iter().filter(|column| column.name.is_real());
    let all = || real().filter_map(|column| column.figures_of(name));
    let rounds = all().map(|figures| figures.rounds.len()).max()?;
    let whole = all().filter(|figures| figures.rounds.len() == rounds);
    let timed =
        whole.filter_map(|figures| Some((Spread::new(figures.times().collect())?.median, figures)));
    timed.min_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, figures)| figures)
}

impl Figures {
    /// Returns the times of an operation, up to a factor.
    fn times(&self) -> impl Iterator<Item = f64> {
        let rounds = self.rounds.iter().map(|value| value.max(f64::MIN_POSITIVE));
        rounds.map(|value| if self.unit == NS { value } else { value.recip() })
    }
}

impl CompareRow {
    fn new(column: String, figures: &Figures, fastest: Option<&Figures>) -> Option<Self> {
        let pairs = |fastest: &Figures| -> Vec<f64> {
            figures.times().zip(fastest.times()).map(|(one, other)| one / other).collect()
        };
        let ratios = fastest.map(pairs).and_then(Spread::new);
        let Spread { median, min, max } = Spread::new(figures.rounds.clone())?;
        Some(Self {
            measured: figures.measured.clone(),
            column,
            unit: figures.unit.to_owned(),
            median,
            min,
            max,
            times_fastest: ratios.map(|of| of.median),
            min_times_fastest: ratios.map(|of| of.min),
            max_times_fastest: ratios.map(|of| of.max),
            rounds: figures.rounds.len(),
            figures: figures.rounds.clone(),
        })
    }

    fn value(&self) -> String {
        match self.unit == NS {
            true => time(self.median),
            false => rate(self.median),
        }
    }

    fn brief_cell(&self) -> String {
        let times = self.times_fastest.map(|times| format!(" x{}", significant(times)));
        format!("{}{}", self.value(), times.unwrap_or_default())
    }

    /// Adds the spread of the ratio.
    fn cell(&self) -> String {
        let spread = self.min_times_fastest.zip(self.max_times_fastest);
        let spread = spread
            .map(|(min, max)| format!(" ({} to {})", significant(min), significant(max)))
            .unwrap_or_default();
        format!("{}{spread}", self.brief_cell())
    }
}

/// Lays out the columns side by side, with a line for each operation.
fn side_by_side(rows: &[CompareRow], cell: impl Fn(&CompareRow) -> String) -> Layout {
    let columns = distinct(rows.iter().map(|row| row.column.as_str()));
    let line = |of_line: &[CompareRow]| {
        let cell = |column: &&str| {
            let row = of_line.iter().find(|row| row.column == *column);
            row.map_or_else(|| "-".to_owned(), &cell)
        };
        [of_line[0].measured.clone()].into_iter().chain(columns.iter().map(cell)).collect()
    };
    let lines = rows.chunk_by(|one, other| one.measured == other.measured).map(line).collect();
    (["operation"].iter().chain(&columns).map(|&name| name.to_owned()).collect(), lines)
}

/// Returns the answer: a line for each measured column, and the columns that were not measured.
pub(super) fn summary(columns: &[Column], rows: &[CompareRow], ranks: u32) -> Vec<String> {
    let mut lines = vec![format!("compare: {ranks} ranks, medians of rounds")];
    let cells = |column: &Column| {
        let name = column.name.name();
        let cell = |measured: &&str| {
            let mut of_column = rows.iter().filter(|row| row.column == name);
            let row = of_column.find(|row| row.measured == *measured);
            row.map_or_else(|| "-".to_owned(), CompareRow::value)
        };
        [name.clone()].into_iter().chain(QUOTED.iter().map(cell)).collect::<Vec<_>>()
    };
    let measured = columns.iter().filter(|column| !column.figures.is_empty());
    let cells: Vec<_> = measured.map(cells).collect();
    if !cells.is_empty() {
        lines.extend(aligned(&[&["column"], &QUOTED[..]].concat(), cells));
    }
    lines.extend(columns.iter().filter_map(Column::failure));
    let absent = columns.iter().filter(|column| column.error.is_some());
    let absent: Vec<_> = absent.filter(|column| column.failure().is_none()).collect();
    if !absent.is_empty() {
        let names: Vec<_> = absent.iter().map(|column| column.name.name()).collect();
        lines.push(format!("not measured: {} (reasons: --full)", names.join(", ")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use probeline_report::results::Row;

    use super::super::column::ColumnName;
    use super::*;

    fn column(name: ColumnName, rounds: &[f64]) -> Column {
        let mut column = Column::new(name, true);
        let (measured, rounds) = ("READ 64 B".to_owned(), rounds.to_vec());
        column.figures.push(Figures { measured, unit: NS, rounds });
        column
    }

    #[test]
    fn compares_within_round() {
        // In the last round the machine is ten times slower for both.
        let columns = [
            column(ColumnName::OscSm, &[200.0, 210.0, 2_000.0]),
            column(ColumnName::Shm, &[100.0, 100.0, 1_000.0]),
            column(ColumnName::Sim, &[10.0, 10.0, 10.0]),
        ];
        let rows = rows(&columns);
        let ratios: Vec<_> = rows.iter().map(|row| row.times_fastest).collect();
        assert_eq!(ratios, [Some(2.0), Some(1.0), None]);
        assert_eq!((rows[0].median, rows[0].min, rows[0].max), (210.0, 200.0, 2_000.0));
        let (head, lines) = CompareRow::full(&rows);
        assert_eq!(head, ["operation", "osc-sm", "shm", "sim"]);
        let cells = ["210 ns x2.00 (2.00 to 2.10)", "100 ns x1.00 (1.00 to 1.00)", "10.0 ns"];
        assert_eq!(lines, [[&["READ 64 B"][..], &cells].concat()]);
    }

    #[test]
    fn early_failure_is_never_fastest() {
        let columns = [column(ColumnName::OscUcx, &[50.0]), column(ColumnName::Shm, &[100.0; 3])];
        let ratios: Vec<_> = rows(&columns).iter().map(|row| row.times_fastest).collect();
        assert_eq!(ratios, [Some(0.5), Some(1.0)]);
    }

    #[test]
    fn higher_rates_are_faster() {
        let mut columns = [column(ColumnName::Shm, &[4e6]), column(ColumnName::UcxTcp, &[1e6])];
        for figures in columns.iter_mut().flat_map(|column| &mut column.figures) {
            figures.unit = "ops/s";
        }
        let ratios: Vec<_> = rows(&columns).iter().map(|row| row.times_fastest).collect();
        assert_eq!(ratios, [Some(1.0), Some(4.0)]);
    }

    #[test]
    fn summary_names_absent_columns() {
        let failed = |name, requested| {
            let error = Some("there is no mpirun".to_owned());
            Column { error, ..Column::new(name, requested) }
        };
        let columns = [
            column(ColumnName::Shm, &[120.0]),
            failed(ColumnName::OscSm, false),
            failed(ColumnName::Mpich, true),
        ];
        let lines = summary(&columns, &rows(&columns), 2);
        assert_eq!(lines.len(), 5, "{lines:#?}");
        let words: Vec<&str> = lines[2].split_whitespace().collect();
        assert_eq!(words, ["shm", "120", "ns", "-", "-", "-", "-", "-"]);
        assert_eq!(lines[3], "mpich: failed: there is no mpirun");
        assert_eq!(lines[4], "not measured: osc-sm (reasons: --full)");
    }
}
