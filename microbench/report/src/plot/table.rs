//! The table of a plot's numbers.

use super::Series;
use crate::number::{plain, significant};

/// Rows of text. Columns may belong to a series.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    pub(crate) head: Vec<Cell>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// Text, and the index of the series that it belongs to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) series: Option<usize>,
}

impl Cell {
    fn of(series: usize, text: String) -> Self {
        Self { text, series: Some(series) }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), series: None }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, series: None }
    }
}

impl Table {
    /// Creates a table with a row for each x and a column for each series.
    pub(crate) fn by_x(x_title: &str, series: &[Series]) -> Self {
        let mut places: Vec<f64> =
            series.iter().flat_map(|series| series.points.iter().map(|point| point[0])).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let row = |&x: &f64| {
            let cells = series.iter().enumerate().map(|(at, of)| {
                let point = of.points.iter().find(|point| point[0].total_cmp(&x).is_eq());
                Cell::of(at, point.map_or_else(String::new, |point| significant(point[1])))
            });
            core::iter::once(Cell::from(plain(x))).chain(cells).collect()
        };
        Self { head: Self::heads(x_title, series), rows: places.iter().map(row).collect() }
    }

    /// Creates a table with a row for each name along y and a column for each series.
    pub(crate) fn by_name(title: &str, names: &[String], series: &[Series]) -> Self {
        let row = |(name, at): (&String, u32)| {
            let cells = series.iter().enumerate().map(|(column, of)| {
                let point =
                    of.points.iter().find(|point| point[1].total_cmp(&f64::from(at)).is_eq());
                Cell::of(column, point.map_or_else(String::new, |point| significant(point[0])))
            });
            core::iter::once(Cell::from(name.clone())).chain(cells).collect()
        };
        Self { head: Self::heads(title, series), rows: names.iter().zip(0..).map(row).collect() }
    }

    /// Creates a table with a row for each of these places and a column for each series.
    pub(crate) fn at(
        title: &str,
        places: &[(f64, &str)],
        series: &[Series],
        value: impl Fn(&Series, f64) -> Option<f64>,
    ) -> Self {
        let row = |&(place, name): &(f64, &str)| {
            let cells = series.iter().enumerate().map(|(at, of)| {
                Cell::of(at, value(of, place).map_or_else(String::new, significant))
            });
            core::iter::once(Cell::from(name)).chain(cells).collect()
        };
        Self { head: Self::heads(title, series), rows: places.iter().map(row).collect() }
    }

    /// Creates a table with a row for each name, with two values that belong to no series.
    pub(crate) fn pairs(
        title: &str,
        heads: [&str; 2],
        rows: impl Iterator<Item = (String, [f64; 2])>,
    ) -> Self {
        let row = |(name, values): (String, [f64; 2])| {
            let values = values.map(|value| Cell::from(significant(value)));
            core::iter::once(Cell::from(name)).chain(values).collect()
        };
        let heads = heads.map(Cell::from);
        let head = core::iter::once(Cell::from(title)).chain(heads).collect();
        Self { head, rows: rows.map(row).collect() }
    }

    fn heads(title: &str, series: &[Series]) -> Vec<Cell> {
        let names = series.iter().enumerate().map(|(at, of)| Cell::of(at, of.name(series)));
        core::iter::once(Cell::from(title)).chain(names).collect()
    }
}
