//! The grid of cells, and the band of its rows that one rank simulates; and the flow of
//! water through the grid: advection along the rows, and dispersion.

use core::ops::Range;

use crate::reactive::cell::{Cell, Water, add};

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

    /// Returns the waters that flow into these rows: `inflow` through the inlet, the middle third of the
    /// grid, and `resident` beside it.
    #[must_use]
    pub fn waters(&self, rows: Range<usize>, inflow: Water, resident: Water) -> Vec<Water> {
        let width = self.rows.div_ceil(3);
        let first = (self.rows - width) / 2;
        let is_inlet = |row| (first..first + width).contains(&row);
        rows.map(|row| if is_inlet(row) { inflow } else { resident }).collect()
    }
}

/// The cells of some neighbouring rows. Bands that exchange their outer rows before each step have the
/// same cells as one band of all rows, to the last bit.
#[derive(Clone, Debug, PartialEq)]
pub struct Band {
    /// Cells of a row.
    pub columns: usize,
    /// The rows of the grid that the band has.
    pub rows: Range<usize>,
    /// The cells, row by row.
    pub cells: Vec<Cell>,
}

impl Band {
    /// Returns the rows `rows` of the grid, with equal cells.
    #[must_use]
    pub fn new(grid: Grid, rows: Range<usize>, cell: Cell) -> Self {
        Self { columns: grid.columns, cells: vec![cell; rows.len() * grid.columns], rows }
    }

    /// Returns what the band has of each component, in water and in minerals: the sum over its cells, in
    /// mol per litre of water (alkalinity in equivalents).
    #[must_use]
    pub fn contents(&self) -> Water {
        let mut contents = Water::default();
        self.cells.iter().for_each(|cell| add(&mut contents, &cell.contents(), 1.0));
        contents
    }

    /// Returns the waters of the band's first row, and of its last one: what neighbours need.
    #[must_use]
    pub fn outer_rows(&self) -> [Vec<Water>; 2] {
        [self.waters(0), self.waters(self.rows.len().saturating_sub(1))]
    }

    fn waters(&self, row: usize) -> Vec<Water> {
        self.cells
            .iter()
            .skip(row * self.columns)
            .take(self.columns)
            .map(|cell| cell.water)
            .collect()
    }

    /// Moves the water of all cells for one time step. `inflow` has the water that enters each row;
    /// `above` and `below` are the waters of the rows beside the band, if the grid has them.
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
        above: Option<&[Water]>,
        below: Option<&[Water]>,
    ) -> Water {
        assert_eq!(inflow.len(), self.rows.len(), "one water flows into each row");
        let beside = [above, below].into_iter().flatten();
        assert!(beside.into_iter().all(|row| row.len() == self.columns), "rows have equal lengths");
        let rows: Vec<Vec<_>> = (0..inflow.len()).map(|row| self.waters(row)).collect();
        let row = |row: usize| rows.get(row).map(Vec::as_slice);
        let mut added = Water::default();
        let mut cells = self.cells.iter_mut();
        for ((at, water), here) in inflow.iter().enumerate().zip(&rows) {
            let above = at.checked_sub(1).map_or(above, row);
            add(&mut added, water, flow.courant);
            add(&mut added, here.last().unwrap_or(&Water::default()), -flow.courant);
            let after = flow.step_row(here, above, row(at + 1).or(below), water);
            after.zip(cells.by_ref()).for_each(|(water, cell)| cell.water = water);
        }
        added
    }
}

/// The share of the largest stable time step that is taken.
const SHARE_OF_LIMIT: f64 = 0.9;

/// A uniform flow along the rows, with dispersion, in explicit steps: advection by differences towards
/// the flow (upwind), dispersion by central differences.
///
/// The flow brings water in at the first column, whose concentration the caller gives, and carries it
/// out at the last one, both without dispersion. Nothing crosses the other two sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// The length of a cell's side, in m.
    pub cell_m: f64,
    /// The time step in s.
    pub step_s: f64,
    /// The share of a cell's water that flow replaces in a time step, and those that dispersion mixes with
    /// each neighbour along and across the flow.
    pub(crate) courant: f64,
    along: f64,
    across: f64,
}

impl Flow {
    /// Returns the flow of Engesgaard and Kipp's column: cells of 1 cm, 9.37e-6 m/s, a dispersivity of
    /// 6.7 mm along the flow; here also a tenth of it across the flow, and molecular diffusion of
    /// 1e-9 m^2/s. The time step is 0.9 of the longest that is stable: 1 / (v/dx + 2 (Dx + Dy)/dx^2). No
    /// concentration then leaves the range of those around it.
    #[must_use]
    pub fn engesgaard_kipp() -> Self {
        let (cell_m, velocity_m_per_s, dispersivity_m, diffusion_m2_per_s) =
            (0.01, 9.37e-6, 0.0067, 1e-9);
        let along_m2_per_s = dispersivity_m * velocity_m_per_s + diffusion_m2_per_s;
        let across_m2_per_s = 0.1 * dispersivity_m * velocity_m_per_s + diffusion_m2_per_s;
        let area_m2 = cell_m * cell_m;
        let both = along_m2_per_s + across_m2_per_s;
        let step_s = SHARE_OF_LIMIT / (velocity_m_per_s / cell_m + 2.0 * both / area_m2);
        Self {
            cell_m,
            step_s,
            courant: velocity_m_per_s * step_s / cell_m,
            along: along_m2_per_s * step_s / area_m2,
            across: across_m2_per_s * step_s / area_m2,
        }
    }

    /// Moves water for one time step: returns the waters of `row`, which has the rows `above` and `below`
    /// it unless it is the first or last of the grid.
    pub(crate) fn step_row<'r>(
        &'r self,
        row: &'r [Water],
        above: Option<&'r [Water]>,
        below: Option<&'r [Water]>,
        inflow: &'r Water,
    ) -> impl Iterator<Item = Water> + 'r {
        row.iter().enumerate().map(move |(at, here)| {
            let left = at.checked_sub(1).map(|at| &row[at]);
            let upstream = left.unwrap_or(inflow);
            let (left, right) = (left.unwrap_or(here), row.get(at + 1).unwrap_or(here));
            let [above, below] = [above, below].map(|row| row.map_or(here, |row| &row[at]));
            core::array::from_fn(|component| {
                let c = here[component];
                c + self.courant * (upstream[component] - c)
                    + self.along * ((left[component] - c) + (right[component] - c))
                    + self.across * ((above[component] - c) + (below[component] - c))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reactive::cell::{ALKALINITY, CALCITE, CHLORIDE, DOLOMITE, charge, magnesium_water};
    use crate::reactive::equilibrium::equilibrium;

    const GRID: Grid = Grid { columns: 12, rows: 9 };

    fn resident() -> Cell {
        Cell::resident().unwrap()
    }

    fn waters(rows: Range<usize>) -> Vec<Water> {
        GRID.waters(rows, magnesium_water(), resident().water)
    }

    fn react(band: &mut Band, flow: &Flow) {
        for cell in &mut band.cells {
            cell.react(&equilibrium(&cell.chemistry_input(flow.step_s)).unwrap());
        }
    }

    fn new(rows: Range<usize>) -> Band {
        Band::new(GRID, rows, resident())
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
                part.flow(&flow, &waters(part.rows.clone()), above, below);
                react(part, &flow);
            }
            react(&mut whole, &flow);
        }
        let joined: Vec<Cell> = parts.iter().flat_map(|part| part.cells.clone()).collect();
        assert_eq!(joined, whole.cells);
        assert!(joined.iter().any(|cell| cell.minerals[DOLOMITE] > 0.0));
    }

    /// Rounds to one digit, and tiny amounts to 0: coarser than any cache does.
    fn coarse(number: f64) -> f64 {
        if number.abs() < 1e-9 { 0.0 } else { format!("{number:.0e}").parse().unwrap() }
    }

    /// Results for rounded inputs neither create nor destroy anything: what a band has changes by
    /// what flows in and out, no amount is negative, and no chloride leaves the range of both waters.
    #[test]
    fn rounded_chemistry_conserves_mass() {
        let flow = Flow::engesgaard_kipp();
        let mut band = new(0..9);
        let mut expected = band.contents();
        let courant = 9.37e-6 * flow.step_s / 0.01;
        for _ in 0..60 {
            for (row, water) in waters(0..9).iter().enumerate() {
                add(&mut expected, water, courant);
                add(&mut expected, &band.cells[row * 12 + 11].water, -courant);
            }
            band.flow(&flow, &waters(0..9), None, None);
            for cell in &mut band.cells {
                let input = cell.chemistry_input(flow.step_s).map(coarse);
                cell.react(&equilibrium(&input).unwrap());
                let cell = cell.chemistry_input(0.0);
                assert!((0..9).all(|at| at == ALKALINITY || cell[at] >= 0.0), "{cell:?}");
            }
        }
        for (has, expected) in band.contents().into_iter().zip(expected) {
            assert!((has - expected).abs() < 1e-13 * expected.abs(), "{has} {expected}");
        }
        let charge = band.cells.iter().map(|cell| charge(&cell.water).abs());
        assert!(charge.fold(0.0, f64::max) < 1e-16);
        assert!(band.cells.iter().any(|cell| cell.minerals[DOLOMITE] > 1e-5));
        let chloride = |at: usize| band.cells[at].water[CHLORIDE];
        let range = resident().water[CHLORIDE] * (1.0 - 1e-12)
            ..=magnesium_water()[CHLORIDE] * (1.0 + 1e-12);
        assert!((0..GRID.cells()).all(|at| range.contains(&chloride(at))));
        assert!(chloride(4 * 12 + 11) > chloride(11), "the inlet is in the middle");
        assert!(chloride(2 * 12 + 11) > chloride(11), "dispersion across the flow");
    }

    /// The benchmark's column: dolomite forms behind the front, and dissolves again at the inflow.
    #[test]
    fn dolomite_forms_and_dissolves() {
        let grid = Grid { columns: 50, rows: 1 };
        let flow = Flow::engesgaard_kipp();
        let mut band = Band::new(grid, 0..1, resident());
        // 21,000 s, as in the benchmark.
        let mut time_s = 0.0;
        while time_s < 21_000.0 {
            time_s += flow.step_s;
            band.flow(&flow, &[magnesium_water()], None, None);
            react(&mut band, &flow);
        }
        let has = |mineral: usize| {
            band.cells.iter().map(|cell| cell.minerals[mineral] > 1e-9).collect::<Vec<_>>()
        };
        let (calcite, dolomite) = (has(CALCITE), has(DOLOMITE));
        // From the inflow on: neither, dolomite, calcite.
        assert!(!calcite[0] && !dolomite[0] && calcite[49] && !dolomite[49]);
        let first = dolomite.iter().position(|&has| has).unwrap();
        let front = calcite.iter().position(|&has| has).unwrap();
        let last = dolomite.iter().rposition(|&has| has).unwrap();
        assert!((5..15).contains(&first) && first < last, "{first} {last}");
        assert!((18..28).contains(&front) && front.abs_diff(last) <= 1, "{front} {last}");
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
            let waters = grid.waters(0..rows, magnesium_water(), resident().water);
            assert!(waters.contains(&magnesium_water()));
        }
    }
}
