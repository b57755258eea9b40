//! The fields that are compared: values by cell.

use probeline_reactive::{Answer, Cell};

/// Calcium, magnesium and carbon, pH, calcite, dolomite.
pub(super) const FIELD_COUNT: usize = 6;

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
