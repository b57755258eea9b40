//! The rows of the report, one for each step and column. The table shows the columns side by side.

use probeline_results::{Column, Columns, Layout, Row};
use serde::Serialize;

use super::measured::{self, Sample, Waited, median_time_ns, ratio};
use super::step::{OwnerDoes, steps};
use crate::scenario::median;
use crate::units::{rate, significant, time};

#[derive(Clone, Debug, Serialize)]
pub(crate) struct CompareRow {
    measured: String,
    owner: &'static str,
    column: String,
    unit: &'static str,
    /// The median of the rounds' times or rates.
    median: f64,
    least: f64,
    most: f64,
    p99_ns: Option<f64>,
    times_fastest: Option<f64>,
    waited_for_owner: bool,
    some_waited_for_owner: bool,
    rounds: usize,
    operations: u64,
    samples: Vec<Sample>,
}

pub(super) fn rows(columns: &[measured::Column]) -> Vec<CompareRow> {
    let mut rows = Vec::new();
    for (at, step) in steps().into_iter().enumerate() {
        let fastest = fastest(columns.iter().filter(|column| column.name.is_real()), at);
        for column in columns {
            let samples = column.samples(at);
            let baseline = fastest.filter(|_| column.name.is_real());
            let Some(row) = CompareRow::new(samples, baseline, step.is_latency()) else { continue };
            rows.push(CompareRow {
                measured: step.name(),
                owner: step.owner.name(),
                column: column.name.name(),
                ..row
            });
        }
    }
    rows
}

fn fastest<'a>(
    columns: impl Iterator<Item = &'a measured::Column>,
    step: usize,
) -> Option<&'a [Sample]> {
    let all = columns.map(|column| column.samples(step));
    let times = all.filter_map(|samples| Some((median_time_ns(samples)?, samples)));
    times.min_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, samples)| samples)
}

impl CompareRow {
    /// Creates the row of the samples, if there are any, with their ratio to those of the fastest
    /// column.
    fn new(samples: &[Sample], fastest: Option<&[Sample]>, is_latency: bool) -> Option<Self> {
        let value = |sample: &Sample| if is_latency { sample.time_ns() } else { sample.ops_per_s };
        let mut values: Vec<f64> = samples.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        let p99 = samples.iter().filter_map(|sample| Some(sample.p99_ns? as f64)).collect();
        let waited = Waited::in_most(samples);
        Some(Self {
            measured: String::new(),
            owner: "",
            column: String::new(),
            unit: if is_latency { "ns" } else { "ops/s" },
            least: *values.first()?,
            most: *values.last()?,
            median: median(values)?,
            p99_ns: median(p99),
            times_fastest: fastest.and_then(|fastest| ratio(samples, fastest)),
            waited_for_owner: waited == Waited::All,
            some_waited_for_owner: waited != Waited::No,
            rounds: samples.len(),
            operations: samples.iter().map(|sample| sample.operations).sum(),
            samples: samples.to_vec(),
        })
    }

    /// Formats a latency with its p99, or a rate, and the ratio to the fastest column.
    fn cell(&self) -> String {
        self.compared(match self.p99_ns {
            Some(p99) => format!("{} / {}", time(self.median), time(p99)),
            None => rate(self.median),
        })
    }

    fn brief_cell(&self) -> String {
        self.compared(match self.unit {
            "ns" => time(self.median),
            _ => rate(self.median),
        })
    }

    fn compared(&self, value: String) -> String {
        let some = if self.some_waited_for_owner { " some wait" } else { "" };
        match self.times_fastest {
            _ if self.waited_for_owner => format!("{value} waits"),
            Some(times) => format!("{value} x{}{some}", significant(times)),
            None => format!("{value}{some}"),
        }
    }

    fn line(&self) -> [&str; 3] {
        [&self.measured, self.owner, self.unit]
    }
}

impl Columns for CompareRow {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("operation", |row| row.measured.clone()),
        Column::new("owner", |row| row.owner.to_owned()),
    ];
}

impl Row for CompareRow {
    fn full(rows: &[Self]) -> Layout {
        side_by_side(rows, |_| true, Self::cell)
    }

    /// Omits measurements with sleeping owners, and p99.
    fn brief(rows: &[Self]) -> Layout {
        side_by_side(rows, |row| row.owner != OwnerDoes::Sleep.name(), Self::brief_cell)
    }
}

/// Lays out the columns side by side, with a line for each step that `shown` accepts.
fn side_by_side(
    rows: &[CompareRow],
    shown: impl Fn(&CompareRow) -> bool,
    cell: impl Fn(&CompareRow) -> String,
) -> Layout {
    let mut columns: Vec<&str> = Vec::new();
    for row in rows {
        if !columns.contains(&&*row.column) {
            columns.push(&row.column);
        }
    }
    let mut lines: Vec<Vec<String>> = Vec::new();
    let of_lines = rows.chunk_by(|one, other| one.line() == other.line());
    for of_line in of_lines.filter(|of_line| shown(&of_line[0])) {
        let cell = |column: &&str| {
            let row = of_line.iter().find(|row| row.column == *column);
            row.map_or_else(|| "-".to_owned(), &cell)
        };
        let [measured, owner, _] = of_line[0].line();
        let head = [measured.to_owned(), owner.to_owned()];
        lines.push(head.into_iter().chain(columns.iter().map(cell)).collect());
    }
    let head = ["operation", "owner"].iter().chain(&columns).map(|&name| name.to_owned()).collect();
    (head, lines)
}

#[cfg(test)]
mod tests {
    use super::super::column::ColumnName;
    use super::*;

    fn column(name: ColumnName, p50_ns: &[u64]) -> measured::Column {
        let mut column = measured::Column::new(name, true);
        for &p50_ns in p50_ns {
            let p50_ns = Some(p50_ns);
            column.add(0, Sample { p50_ns, p99_ns: p50_ns, ..Sample::default() });
        }
        column
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        // In the last round the machine is ten times slower for both.
        let columns = [
            column(ColumnName::OscSm, &[200, 210, 2_000]),
            column(ColumnName::Shm, &[100, 100, 1_000]),
            column(ColumnName::Sim, &[10, 10, 10]),
        ];
        let rows = rows(&columns);
        let ratios: Vec<_> = rows.iter().map(|row| row.times_fastest).collect();
        assert_eq!(ratios, [Some(2.0), Some(1.0), None]);
        assert_eq!((rows[0].median, rows[0].least, rows[0].most), (210.0, 200.0, 2_000.0));
        let (head, lines) = CompareRow::full(&rows);
        assert_eq!(head, ["operation", "owner", "osc-sm", "shm", "sim"]);
        let cells = ["210 ns / 210 ns x2.00", "100 ns / 100 ns x1.00", "10.0 ns / 10.0 ns"];
        assert_eq!(lines, [[&["READ 8 B, random", "polls"][..], &cells].concat()]);
    }

    #[test]
    fn cells_mark_operations_that_waited() {
        let cell = |waited: &[[bool; 2]]| {
            let mut column = column(ColumnName::OscUcx, &[]);
            for &[waited_for_owner, some_waited_for_owner] in waited {
                let (p50_ns, p99_ns) = (Some(362), Some(50_100_000));
                let times = Sample { p50_ns, p99_ns, ..Sample::default() };
                column.add(0, Sample { waited_for_owner, some_waited_for_owner, ..times });
            }
            rows(&[column])[0].cell()
        };
        let (no, some, all) = ([false, false], [false, true], [true, true]);
        assert_eq!(cell(&[no, no, some]), "362 ns / 50.1 ms x1.00");
        assert_eq!(cell(&[some, no, some]), "362 ns / 50.1 ms x1.00 some wait");
        assert_eq!(cell(&[all, no, some]), "362 ns / 50.1 ms x1.00 some wait");
        assert_eq!(cell(&[all, some, all]), "362 ns / 50.1 ms waits");
    }

    #[test]
    fn a_missing_cell_is_a_dash() {
        let mut two = [column(ColumnName::Shm, &[100]), column(ColumnName::Sim, &[])];
        two[1].add(1, Sample { p50_ns: Some(5), p99_ns: Some(5), ..Sample::default() });
        let (_, lines) = CompareRow::full(&rows(&two));
        assert_eq!((&*lines[0][3], &*lines[1][2]), ("-", "-"));
    }
}
