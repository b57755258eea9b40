//! Poisson's equation on a square by multigrid with red-black sweeps, the solver in SPLASH-2's ocean. A rank sweeps
//! consecutive rows of each grid; a barrier follows each colour.

use core::ops::Range;

use super::{Kernel, Parts, Shared, equal, part};
use crate::Error;

/// The residual, relative to the first one, at which the cycles end.
const TOLERANCE: f64 = 1e-7;
const MAX_CYCLES: usize = 60;
/// Sweeps of both colours before and after a coarser grid, and on the coarsest one.
const SWEEPS: usize = 2;
const COARSEST_SWEEPS: usize = 20;
/// Inner rows of the coarsest grid.
const COARSEST: usize = 4;
/// Largest residuals, which take turns, each on a line of its own.
const RESIDUALS: usize = 2;
const LINE: usize = 8;
/// Inner rows of the finest grid that rank 0 solves alone, sooner than barriers after each colour would end.
const ALONE: usize = 16;
/// Floating-point operations for each point of a row, with a division as 10.
const SWEEP_FLOPS: usize = 16;
const RESIDUAL_FLOPS: usize = 18;
const MOVE_FLOPS: usize = 10;

/// A grid of `inner` x `inner` points and its border, with its right side.
struct Grid {
    /// Consecutive rows of values, in their order: all of them, or those of each rank that has some.
    parts: Vec<Rows>,
    inner: usize,
    /// The distance of two points; those at the edge of the square are half of it inside.
    step: f64,
}

/// Rows of a grid that lie together, with their right sides behind them.
struct Rows {
    /// The part of the memory.
    part: usize,
    first_row: usize,
    count: usize,
    /// The element where they begin.
    start: usize,
}

impl Grid {
    fn side(&self) -> usize {
        self.inner + 2
    }

    /// Returns the values of a row.
    fn row(&self, row: usize) -> Range<usize> {
        let part = self.part(row);
        let start = part.start + (row - part.first_row) * self.side();
        start..start + self.side()
    }

    fn part(&self, row: usize) -> &Rows {
        &self.parts[self.parts.partition_point(|part| part.first_row <= row) - 1]
    }

    /// Returns the right side of a row.
    fn right(&self, row: usize) -> Range<usize> {
        let Range { start, end } = self.row(row);
        let values = self.part(row).count * self.side();
        start + values..end + values
    }

    fn is_for_one(&self) -> bool {
        self.inner <= ALONE
    }

    /// Waits for the other ranks that have rows.
    fn barrier(&self, memory: &mut impl Shared<f64>) -> Result<(), Error> {
        if self.is_for_one() { Ok(()) } else { memory.barrier() }
    }

    /// Returns the inner rows of a rank, from 1 on.
    fn inner_rows(&self, rank: usize, ranks: usize) -> Range<usize> {
        if self.is_for_one() {
            return if rank == 0 { 1..self.inner + 1 } else { 0..0 };
        }
        let Range { start, end } = part(self.inner, rank, ranks);
        start + 1..end + 1
    }

    /// Returns the inner rows of this rank.
    fn rows(&self, memory: &impl Shared<f64>) -> Range<usize> {
        self.inner_rows(memory.rank(), memory.ranks())
    }

    /// Returns the weight of a point in its equation: it and its mirror image beyond each edge of the square, where
    /// the solution is 0 in the middle between both.
    fn weight(&self, row: usize, at: usize) -> f64 {
        let is_edge = |at: usize| at == 1 || at == self.inner;
        4.0 + f64::from(u8::from(is_edge(row)) + u8::from(is_edge(at)))
    }

    /// Returns a copy of a row of values with their mirror images beyond both ends.
    fn mirrored(&self, memory: &mut impl Shared<f64>, row: usize) -> Result<Vec<f64>, Error> {
        let inside = row.clamp(1, self.inner);
        let mut values = memory.view(self.row(inside))?.to_vec();
        (values[0], values[self.inner + 1]) = (-values[1], -values[self.inner]);
        if inside != row {
            values.iter_mut().for_each(|value| *value = -*value);
        }
        Ok(values)
    }

    fn step_squared(&self) -> f64 {
        self.step * self.step
    }
}

/// Returns the two rows of the coarser grid between which a row lies, the nearer one first.
fn nearest(row: usize) -> [usize; 2] {
    let near = row.div_ceil(2);
    [near, if row.is_multiple_of(2) { near + 1 } else { near - 1 }]
}

pub(super) struct Ocean {
    /// From the finest to the coarsest.
    grids: Vec<Grid>,
    elements: usize,
    /// The element where the largest residuals begin.
    residuals: usize,
}

impl Ocean {
    pub(super) fn new(side: usize, memory: Parts) -> Self {
        let (mut grids, mut inner) = (Vec::new(), side - 2);
        let parts = if memory.has_own_pages { memory.ranks } else { 1 };
        let mut ends = vec![0; parts];
        let mut step = 1.0 / inner as f64;
        while inner >= COARSEST {
            let mut grid = Grid { parts: Vec::new(), inner, step };
            for (nth, end) in ends.iter_mut().enumerate() {
                let Range { start, end: behind } = grid.inner_rows(nth, parts);
                if start == behind {
                    continue;
                }
                // With the border beside them.
                let first_row = if start == 1 { 0 } else { start };
                let count = if behind > inner { inner + 2 } else { behind } - first_row;
                grid.parts.push(Rows { part: nth, first_row, count, start: *end });
                *end += 2 * count * grid.side();
            }
            grids.push(grid);
            (inner, step) = (inner / 2, step * 2.0);
        }
        let residuals = ends.iter().max().map_or(0, |end| end.next_multiple_of(LINE));
        let part = memory.in_pages(residuals + RESIDUALS * LINE);
        for rows in grids.iter_mut().flat_map(|grid| &mut grid.parts) {
            rows.start += rows.part * part;
        }
        Self { grids, elements: parts * part, residuals }
    }

    /// Improves the points of both colours, `sweeps` times.
    fn sweep(
        &self,
        memory: &mut impl Shared<f64>,
        grid: &Grid,
        sweeps: usize,
    ) -> Result<(), Error> {
        let step_squared = grid.step_squared();
        for colour in (0..2 * sweeps).map(|nth| nth % 2) {
            for row in grid.rows(memory) {
                let views = [grid.row(row - 1), grid.row(row + 1), grid.right(row)];
                let ([above, below, right], here) = memory.change(views, grid.row(row))?;
                for at in (1 + (row + colour) % 2..=grid.inner).step_by(2) {
                    let sum = above[at] + below[at] + here[at - 1] + here[at + 1];
                    here[at] = (sum - step_squared * right[at]) / grid.weight(row, at);
                }
                memory.work((grid.inner / 2 * SWEEP_FLOPS) as u64);
            }
            grid.barrier(memory)?;
        }
        Ok(())
    }

    /// Returns the residuals of a row.
    fn residual(
        &self,
        memory: &mut impl Shared<f64>,
        grid: &Grid,
        row: usize,
    ) -> Result<Vec<f64>, Error> {
        memory.work((grid.inner * RESIDUAL_FLOPS) as u64);
        let views = [grid.row(row - 1), grid.row(row), grid.row(row + 1), grid.right(row)];
        let ([above, here, below, right], _) = memory.change(views, 0..0)?;
        let mut residual = vec![0.0; grid.side()];
        for (at, residual) in residual.iter_mut().enumerate().skip(1).take(grid.inner) {
            let sum = above[at] + below[at] + here[at - 1] + here[at + 1];
            let change = sum - grid.weight(row, at) * here[at];
            *residual = right[at] - change / grid.step_squared();
        }
        Ok(residual)
    }

    /// Runs a V-cycle from a grid on.
    fn cycle(&self, memory: &mut impl Shared<f64>, level: usize) -> Result<(), Error> {
        let grid = &self.grids[level];
        let Some(coarse) = self.grids.get(level + 1) else {
            return self.sweep(memory, grid, COARSEST_SWEEPS);
        };
        self.sweep(memory, grid, SWEEPS)?;
        for row in coarse.rows(memory) {
            let [first, second] =
                [2 * row - 1, 2 * row].map(|fine| self.residual(memory, grid, fine));
            let (first, second) = (first?, second?);
            let right = memory.edit(coarse.right(row))?;
            for at in 1..=coarse.inner {
                let four = first[2 * at - 1] + first[2 * at] + second[2 * at - 1] + second[2 * at];
                right[at] = four / 4.0;
            }
            memory.edit(coarse.row(row))?.fill(0.0);
            memory.work((coarse.inner * MOVE_FLOPS) as u64);
        }
        grid.barrier(memory)?;
        self.cycle(memory, level + 1)?;
        if coarse.is_for_one() {
            grid.barrier(memory)?;
        }
        for row in grid.rows(memory) {
            let [near, far] = nearest(row);
            let (near, far) = (coarse.mirrored(memory, near)?, coarse.mirrored(memory, far)?);
            let here = memory.edit(grid.row(row))?;
            for (at, here) in here.iter_mut().enumerate().skip(1).take(grid.inner) {
                let [nearer, farther] = nearest(at).map(|at| 3.0 * near[at] + far[at]);
                *here += (3.0 * nearer + farther) / 16.0;
            }
            memory.work((grid.inner * MOVE_FLOPS) as u64);
        }
        grid.barrier(memory)?;
        self.sweep(memory, grid, SWEEPS)
    }

    /// Returns the number of cycles.
    pub(super) fn solve(&self, memory: &mut impl Shared<f64>) -> Result<usize, Error> {
        let first = self.largest(memory, 0)?;
        for cycle in 1..=MAX_CYCLES {
            self.cycle(memory, 0)?;
            if self.largest(memory, cycle)? <= TOLERANCE * first {
                return Ok(cycle);
            }
        }
        Err(Error::Wrong(format!("the solver has not converged in {MAX_CYCLES} cycles")))
    }

    /// Returns the largest residual of all ranks, which each compares with its own under a lock, as SPLASH-2 does.
    fn largest(&self, memory: &mut impl Shared<f64>, cycle: usize) -> Result<f64, Error> {
        let (grid, mut largest) = (&self.grids[0], 0_f64);
        for row in grid.rows(memory) {
            let residual = self.residual(memory, grid, row)?;
            if residual.iter().any(|one| one.is_nan()) {
                return Err(Error::Wrong("the solution is not a number".to_owned()));
            }
            largest = residual.iter().fold(largest, |largest, one| largest.max(one.abs()));
        }
        let place = |cycle: usize| {
            let first = self.residuals + cycle % RESIDUALS * LINE;
            first..first + 1
        };
        memory.locked(0, |memory| {
            let common = &mut memory.edit(place(cycle))?[0];
            *common = common.max(largest);
            Ok(())
        })?;
        memory.barrier()?;
        let largest = memory.view(place(cycle))?[0];
        if memory.rank() == 0 {
            memory.edit(place(cycle + 1))?[0] = 0.0;
        }
        memory.barrier()?;
        Ok(largest)
    }
}

impl Kernel<f64> for Ocean {
    fn elements(&self) -> usize {
        self.elements
    }

    /// Wind over a basin: a right side of one sine.
    fn fill(&self, memory: &mut impl Shared<f64>) -> Result<(), Error> {
        let grid = &self.grids[0];
        for row in grid.rows(memory) {
            let y = (row as f64 - 0.5) * grid.step;
            let right = memory.edit(grid.right(row))?;
            for (at, right) in right.iter_mut().enumerate() {
                let x = (at as f64 - 0.5) * grid.step;
                *right = (core::f64::consts::PI * y).sin() * (1.0 + x);
            }
        }
        Ok(())
    }

    fn run(&self, memory: &mut impl Shared<f64>) -> Result<(), Error> {
        self.solve(memory).map(drop)
    }

    fn verify(&self, memory: &mut impl Shared<f64>, sequential: &[f64]) -> Result<(), Error> {
        let grid = &self.grids[0];
        equal(memory, sequential, (0..grid.side()).map(|row| grid.row(row)))
    }
}
