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

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, series: None }
    }
}

impl Table {
    /// Creates a table with a row for each x and a column for each series.
    pub(super) fn by_x(title: &str, mut places: Vec<f64>, series: &[Series]) -> Self {
        places.sort_by(f64::total_cmp);
        places.dedup();
        let places = places.into_iter().map(|x| (x, plain(x)));
        Self::at(title, places, series, |series, x| series.beside(0, x))
    }

    /// Creates a table with a row for each name along y and a column for each series.
    pub(super) fn by_name(title: &str, names: &[String], series: &[Series]) -> Self {
        let places = (0..).map(f64::from).zip(names.iter().cloned());
        Self::at(title, places, series, |series, y| series.beside(1, y))
    }

    /// Creates a table with a row for each of these places and a column for each series.
    pub(crate) fn at(
        title: &str,
        places: impl Iterator<Item = (f64, String)>,
        series: &[Series],
        value: impl Fn(&Series, f64) -> Option<f64>,
    ) -> Self {
        let row = |first: String, text: &dyn Fn(&Series) -> String| {
            let cell = |(at, of)| Cell { text: text(of), series: Some(at) };
            let cells = series.iter().enumerate().map(cell);
            core::iter::once(Cell::from(first)).chain(cells).collect()
        };
        let head = row(title.to_owned(), &|of| of.name(series));
        let rows = places.map(|(place, name)| {
            row(name, &|of| value(of, place).map_or_else(String::new, significant))
        });
        Self { head, rows: rows.collect() }
    }
}
