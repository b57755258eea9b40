//! The grid of cells, and how ranks divide it.

use core::ops::Range;

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

#[cfg(test)]
mod tests {
    use super::*;

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
