//! The fields that are compared and drawn: values by cell.

use probeline::transport::Exchange;
use probeline_reactive::{Answer, Cell};
use probeline_results::gather_values;
use serde::{Deserialize, Serialize};

use crate::failure::Result;

pub(super) const FIELD_COUNT: usize = 6;

/// The names and units of the fields.
const NAMES: [(&str, &str); FIELD_COUNT] = [
    ("calcium", "mmol/l"),
    ("magnesium", "mmol/l"),
    ("carbon", "mmol/l"),
    ("pH", ""),
    ("calcite", "mmol/l"),
    ("dolomite", "mmol/l"),
];
/// The most cells of a picture along and across the flow. A larger grid is sampled evenly.
const MOST_COLUMNS: usize = 150;
const MOST_ROWS: usize = 100;
/// Digits of a value in a picture.
const DIGITS: usize = 4;

/// A field of the grid after the last time step, as the JSON has it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Picture {
    /// The run: without the cache, or with which digits.
    run: String,
    field: &'static str,
    unit: &'static str,
    /// Rows from the top, each with its values along the flow.
    values: Vec<Vec<f64>>,
}

/// The sampled cells of a row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Sample {
    row: usize,
    cells: Vec<[f64; FIELD_COUNT]>,
}

/// Returns the values of all fields in a cell: amounts in mmol/l.
pub(super) fn fields(cell: &Cell, answer: &Answer) -> [f64; FIELD_COUNT] {
    let water = &cell.water;
    [
        water.calcium * 1e3,
        water.magnesium * 1e3,
        water.carbon * 1e3,
        answer.ph,
        cell.calcite * 1e3,
        cell.dolomite * 1e3,
    ]
}

/// Returns whether a picture of a grid with this many rows has the row.
pub(super) fn is_sampled(row: usize, rows: usize) -> bool {
    is_first(row, rows, MOST_ROWS)
}

/// Returns whether `at` is the first number in one of `most` even parts of the numbers below `all`, or
/// any number if there are no more than parts.
fn is_first(at: usize, all: usize, most: usize) -> bool {
    let part = |at: usize| at * most / all.max(1);
    all <= most || at == 0 || part(at) != part(at - 1)
}

impl Sample {
    pub(super) fn new(row: usize, cells: &[[f64; FIELD_COUNT]]) -> Self {
        let columns = cells.len();
        let cells = cells.iter().enumerate().filter(|(at, _)| is_first(*at, columns, MOST_COLUMNS));
        Self { row, cells: cells.map(|(_, values)| values.map(short)).collect() }
    }
}

/// Rounds a value for a picture.
fn short(value: f64) -> f64 {
    format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value)
}

/// Returns the pictures of all fields. All ranks call it.
pub(super) fn pictures(
    run: &str,
    mine: &Vec<Sample>,
    exchange: &mut dyn Exchange,
) -> Result<Vec<Picture>> {
    let mut rows: Vec<Sample> = gather_values(exchange, mine)?.into_iter().flatten().collect();
    rows.sort_by_key(|sample| sample.row);
    let picture = |(nth, (field, unit)): (usize, (&'static str, &'static str))| {
        let row = |sample: &Sample| sample.cells.iter().map(|cell| cell[nth]).collect();
        let values = rows.iter().map(row).collect();
        Picture { run: run.to_owned(), field, unit, values }
    };
    Ok(NAMES.into_iter().enumerate().map(picture).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_spread_evenly() {
        for (all, most) in [(1, 100), (100, 100), (101, 100), (199, 100), (500, 150), (1_500, 100)]
        {
            let sampled: Vec<usize> = (0..all).filter(|&at| is_first(at, all, most)).collect();
            assert_eq!(sampled.len(), all.min(most), "{all}");
            let gaps = sampled.windows(2).map(|pair| pair[1] - pair[0]);
            assert!(gaps.max().unwrap_or(1) <= all.div_ceil(most), "{all}");
        }
    }

    #[test]
    fn values_of_pictures_are_short() {
        assert_eq!(short(0.123_456_789), 0.1235);
        assert_eq!(short(0.0), 0.0);
        assert_eq!(short(9.910_61), 9.911);
    }
}
