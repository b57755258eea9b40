//! The grid of cells, and the band of its rows that one rank simulates.

use core::ops::Range;

use crate::reactive::cell::{Cell, add};
use crate::reactive::flow::Flow;
use crate::reactive::water::{COMPONENTS, Water};

/// A rectangle of square cells. Water flows along the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Cells of a row, in the direction of the flow.
    pub columns: usize,
    /// Rows, across the flow.
    pub rows: usize,
}

impl Grid {
    /// Returns the number of cells.
    #[must_use]
    pub const fn cells(&self) -> usize {
        self.columns * self.rows
    }

    /// Returns the rows of one of `ranks` ranks. The ranks' bands are disjoint and cover the grid.
    #[must_use]
    pub const fn band(&self, rank: usize, ranks: usize) -> Range<usize> {
        self.rows * rank / ranks..self.rows * (rank + 1) / ranks
    }

    /// Returns the rows through which magnesium chloride flows in: the middle third. Resident water
    /// flows in through the others.
    #[must_use]
    pub const fn inlet(&self) -> Range<usize> {
        let width = self.rows.div_ceil(3);
        let first = (self.rows - width) / 2;
        first..first + width
    }
}

/// The cells of some neighbouring rows. Bands that exchange their outer rows before each step have the
/// same cells as one band of all rows, to the last bit.
#[derive(Clone, Debug, PartialEq)]
pub struct Band {
    columns: usize,
    rows: Range<usize>,
    /// Row by row.
    cells: Vec<Cell>,
}

impl Band {
    /// Returns the rows `rows` of the grid, with equal cells.
    #[must_use]
    pub fn new(grid: Grid, rows: Range<usize>, cell: Cell) -> Self {
        Self { columns: grid.columns, cells: vec![cell; rows.len() * grid.columns], rows }
    }

    /// Returns the cells of a row.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the rows of the grid that the band has.
    #[must_use]
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// Returns the cells, row by row.
    #[must_use]
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Returns the cells, row by row.
    pub fn cells_mut(&mut self) -> &mut [Cell] {
        &mut self.cells
    }

    /// Returns a cell by its row in the grid and its column.
    #[must_use]
    pub fn cell(&self, row: usize, column: usize) -> Option<&Cell> {
        let row = row.checked_sub(self.rows.start).filter(|_| column < self.columns)?;
        self.cells.get(row * self.columns + column)
    }

    /// Returns what the band has of each component, in water and in minerals: the sum over its cells, in
    /// mol per litre of water (alkalinity in equivalents).
    #[must_use]
    pub fn contents(&self) -> [f64; COMPONENTS] {
        let mut contents = [0.0; COMPONENTS];
        for cell in &self.cells {
            add(&mut contents, cell.contents(), 1.0);
        }
        contents
    }

    /// Returns the components of the band's first row, and of its last one: what neighbours need.
    #[must_use]
    pub fn outer_rows(&self) -> [Vec<[f64; COMPONENTS]>; 2] {
        [self.components(0), self.components(self.rows.len().saturating_sub(1))]
    }

    fn components(&self, row: usize) -> Vec<[f64; COMPONENTS]> {
        let first = row * self.columns;
        let cells = self.cells.get(first..first + self.columns).unwrap_or_default();
        cells.iter().map(|cell| cell.water.to_array()).collect()
    }

    /// Moves the water of all cells for one time step. `inflow` has the water that enters each row;
    /// `above` and `below` are the components of the rows beside the band, if the grid has them.
    ///
    /// Returns what the water that enters and leaves the grid adds to the band, in the unit of
    /// [`contents`](Self::contents). What neighbouring bands exchange by dispersion is left out: it is 0
    /// in the sum over all bands.
    ///
    /// # Panics
    /// If `inflow` has not one water for each row, or a row beside has another number of columns.
    pub fn flow(
        &mut self,
        flow: &Flow,
        inflow: &[Water],
        above: Option<&[[f64; COMPONENTS]]>,
        below: Option<&[[f64; COMPONENTS]]>,
    ) -> [f64; COMPONENTS] {
        assert_eq!(inflow.len(), self.rows.len(), "one water flows into each row");
        let beside = [above, below].into_iter().flatten();
        assert!(beside.into_iter().all(|row| row.len() == self.columns), "rows have equal lengths");
        let mut after = vec![[0.0; COMPONENTS]; self.columns];
        let rows: Vec<Vec<_>> = (0..inflow.len()).map(|row| self.components(row)).collect();
        let row = |row: usize| rows.get(row).map(Vec::as_slice);
        let mut added = [0.0; COMPONENTS];
        for ((at, water), here) in inflow.iter().enumerate().zip(&rows) {
            let above = at.checked_sub(1).map_or(above, row);
            add(&mut added, water.to_array(), flow.courant());
            add(&mut added, here.last().copied().unwrap_or_default(), -flow.courant());
            flow.step_row(here, above, row(at + 1).or(below), &water.to_array(), &mut after);
            let cells = self.cells.iter_mut().skip(at * self.columns);
            for (cell, &components) in cells.zip(&after) {
                cell.water = Water::from_array(components);
            }
        }
        added
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reactive::equilibrium::equilibrium;

    const GRID: Grid = Grid { columns: 12, rows: 9 };

    fn waters(rows: Range<usize>) -> Vec<Water> {
        let resident = Water::with_calcite().unwrap();
        Flow::waters(GRID, rows, Water::with_magnesium(), resident)
    }

    fn react(band: &mut Band, flow: &Flow) {
        for cell in band.cells_mut() {
            cell.react(&equilibrium(&cell.chemistry_input(flow.step_s())).unwrap());
        }
    }

    fn new(rows: Range<usize>) -> Band {
        Band::new(GRID, rows, Cell::with_calcite(Water::with_calcite().unwrap()))
    }

    #[test]
    fn bands_match_whole_grid() {
        let flow = Flow::engesgaard_kipp();
        let mut whole = new(0..9);
        let mut parts = [new(0..4), new(4..5), new(5..9)];
        for _ in 0..30 {
            whole.flow(&flow, &waters(0..9), None, None);
            let outer: Vec<_> = parts.iter().map(Band::outer_rows).collect();
            for (at, part) in parts.iter_mut().enumerate() {
                let above = at.checked_sub(1).map(|at| &outer[at][1][..]);
                let below = outer.get(at + 1).map(|rows| &rows[0][..]);
                part.flow(&flow, &waters(part.rows()), above, below);
                react(part, &flow);
            }
            react(&mut whole, &flow);
        }
        let joined: Vec<Cell> = parts.iter().flat_map(|part| part.cells().to_vec()).collect();
        assert_eq!(joined, whole.cells());
        assert!(joined.iter().any(|cell| cell.dolomite > 0.0));
    }

    /// Without reactions, what is in the grid changes by what flows in and out; and no concentration
    /// leaves the range of the two waters.
    #[test]
    fn flow_conserves_mass() {
        let flow = Flow::engesgaard_kipp();
        let mut band = new(0..9);
        let (inflow, resident) = (Water::with_magnesium(), Water::with_calcite().unwrap());
        let total = |band: &Band| band.cells().iter().map(|cell| cell.water.chloride).sum::<f64>();
        let courant = 9.37e-6 * flow.step_s() / 0.01;
        for _ in 0..40 {
            let before = total(&band);
            let enters: f64 = waters(0..9).iter().map(|water| water.chloride).sum();
            let leaves: f64 = (0..9).map(|row| band.cell(row, 11).unwrap().water.chloride).sum();
            band.flow(&flow, &waters(0..9), None, None);
            let expected = before + courant * (enters - leaves);
            assert!((total(&band) - expected).abs() < 1e-12 * expected);
        }
        let range = resident.chloride * (1.0 - 1e-12)..=inflow.chloride * (1.0 + 1e-12);
        assert!(band.cells().iter().all(|cell| range.contains(&cell.water.chloride)));
        assert!(
            band.cell(4, 11).unwrap().water.chloride > band.cell(0, 11).unwrap().water.chloride
        );
        assert!(band.cell(9, 0).is_none() && band.cell(0, 12).is_none());
    }

    /// Rounds to one digit, and tiny amounts to 0: coarser than any cache does.
    fn coarse(number: f64) -> f64 {
        if number.abs() < 1e-9 { 0.0 } else { format!("{number:.0e}").parse().unwrap() }
    }

    /// Results for rounded inputs neither create nor destroy anything: what a band has changes by
    /// what flows in and out, and no amount is negative.
    #[test]
    fn rounded_chemistry_conserves_mass() {
        let flow = Flow::engesgaard_kipp();
        let mut band = new(0..9);
        let mut expected = band.contents();
        for _ in 0..60 {
            add(&mut expected, band.flow(&flow, &waters(0..9), None, None), 1.0);
            for cell in band.cells_mut() {
                let input = cell.chemistry_input(flow.step_s()).map(coarse);
                cell.react(&equilibrium(&input).unwrap());
                let cell = cell.chemistry_input(0.0);
                assert!((0..9).all(|at| at == 3 || cell[at] >= 0.0), "{cell:?}");
            }
        }
        for (has, expected) in band.contents().into_iter().zip(expected) {
            assert!((has - expected).abs() < 1e-13 * expected.abs(), "{has} {expected}");
        }
        let charge = band.cells().iter().map(|cell| cell.water.charge().abs());
        assert!(charge.fold(0.0, f64::max) < 1e-16);
        assert!(band.cells().iter().any(|cell| cell.dolomite > 1e-5));
    }

    #[test]
    fn refuses_unstable_steps() {
        let flow = Flow::engesgaard_kipp();
        assert!(flow.with_step_s(flow.limit_s()).is_ok());
        let error = flow.with_step_s(1.01 * flow.limit_s()).unwrap_err();
        assert!(error.to_string().contains("unstable"), "{error}");
        assert!(flow.with_step_s(0.0).is_err() && flow.with_step_s(f64::NAN).is_err());
    }

    /// The benchmark's column: dolomite forms behind the front, and dissolves again at the inflow.
    #[test]
    fn dolomite_forms_and_dissolves() {
        let grid = Grid { columns: 50, rows: 1 };
        let flow = Flow::engesgaard_kipp();
        let resident = Water::with_calcite().unwrap();
        let mut band = Band::new(grid, 0..1, Cell::with_calcite(resident));
        // 21,000 s, as in the benchmark.
        let mut time_s = 0.0;
        while time_s < 21_000.0 {
            time_s += flow.step_s();
            band.flow(&flow, &[Water::with_magnesium()], None, None);
            react(&mut band, &flow);
        }
        let cells = band.cells();
        let has = |of: fn(&Cell) -> f64| {
            cells.iter().map(of).map(|amount| amount > 1e-9).collect::<Vec<_>>()
        };
        let (calcite, dolomite) = (has(|cell| cell.calcite), has(|cell| cell.dolomite));
        // From the inflow on: neither, dolomite, calcite.
        assert!(!calcite[0] && !dolomite[0] && calcite[49] && !dolomite[49]);
        let first = dolomite.iter().position(|&has| has).unwrap();
        let front = calcite.iter().position(|&has| has).unwrap();
        let last = dolomite.iter().rposition(|&has| has).unwrap();
        assert!((5..15).contains(&first) && first < last, "{first} {last}");
        assert!((18..28).contains(&front) && front.abs_diff(last) <= 1, "{front} {last}");
        let charge = cells.iter().map(|cell| cell.water.charge().abs()).fold(0.0, f64::max);
        assert!(charge < 1e-10, "{charge}");
    }

    #[test]
    fn bands_cover_grid() {
        for rows in 1..40 {
            let grid = Grid { columns: 3, rows };
            for ranks in 1..=rows {
                let bands = (0..ranks).map(|rank| grid.band(rank, ranks));
                let all: Vec<usize> =
                    bands.inspect(|band| assert!(!band.is_empty())).flatten().collect();
                assert_eq!(all, (0..rows).collect::<Vec<_>>());
            }
            assert!(!grid.inlet().is_empty() && grid.inlet().end <= rows);
        }
    }
}
