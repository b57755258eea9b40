//! LU factorisation in blocks, as SPLASH-2 divides it: a block belongs to one rank, in rows and columns of ranks.

use core::iter::StepBy;
use core::ops::Range;

use super::{Kernel, Parts, Shared, equal};
use crate::Error;

/// Rows of a block.
const BLOCK: usize = 16;

/// Floating-point operations of a triangular solution with a block; a product takes twice as many, and a factorisation
/// two thirds.
const FLOPS: u64 = (BLOCK * BLOCK * BLOCK) as u64;

/// How blocks lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// Each block in consecutive words.
    Contiguous,
    /// The matrix in rows, so that a page has parts of many blocks.
    Rows,
}

pub(super) struct Lu {
    blocks: Blocks,
    /// Rows and columns of ranks, the most nearly square ones.
    rows: usize,
    columns: usize,
    /// Elements before a block: the sum of those of its row and its column.
    downs: Vec<usize>,
    rights: Vec<usize>,
    /// Elements from a row of a block to its next one.
    stride: usize,
    elements: usize,
}

type Block = [[f64; BLOCK]; BLOCK];

impl Lu {
    pub(super) fn new(side: usize, blocks: Blocks, Parts { ranks, page_words, .. }: Parts) -> Self {
        let rows = (1..=ranks.isqrt()).rev().find(|rows| ranks.is_multiple_of(*rows)).unwrap_or(1);
        let (columns, count) = (ranks / rows, side / BLOCK);
        if blocks == Blocks::Rows {
            let downs = (0..count).map(|down| down * BLOCK * side).collect();
            let rights = (0..count).map(|right| right * BLOCK).collect();
            return Self {
                blocks,
                rows,
                columns,
                downs,
                rights,
                stride: side,
                elements: side * side,
            };
        }
        // A rank has its blocks one after the other, in pages of its own.
        let in_row = count.div_ceil(columns) * BLOCK * BLOCK;
        let part = (count.div_ceil(rows) * in_row).next_multiple_of(page_words);
        let down = |nth: usize| nth % rows * columns * part + nth / rows * in_row;
        let right = |nth: usize| nth % columns * part + nth / columns * BLOCK * BLOCK;
        let [downs, rights] = [(0..count).map(down).collect(), (0..count).map(right).collect()];
        Self { blocks, rows, columns, downs, rights, stride: BLOCK, elements: ranks * part }
    }

    /// Blocks in a row.
    fn count(&self) -> usize {
        self.downs.len()
    }

    /// Returns the elements of a row of a block.
    fn row(&self, (down, right): (usize, usize), row: usize) -> Range<usize> {
        let first = self.downs[down] + self.rights[right] + row * self.stride;
        first..first + BLOCK
    }

    /// Returns the elements of a block that lies in consecutive words.
    fn whole(&self, at: (usize, usize)) -> Option<Range<usize>> {
        let first = self.row(at, 0).start;
        (self.blocks == Blocks::Contiguous).then_some(first..first + BLOCK * BLOCK)
    }

    fn load(&self, memory: &mut impl Shared<f64>, at: (usize, usize)) -> Result<Block, Error> {
        let mut block = [[0.0; BLOCK]; BLOCK];
        if let Some(whole) = self.whole(at) {
            block.as_flattened_mut().copy_from_slice(memory.view(whole)?);
            return Ok(block);
        }
        for (nth, row) in block.iter_mut().enumerate() {
            row.copy_from_slice(memory.view(self.row(at, nth))?);
        }
        Ok(block)
    }

    fn store(
        &self,
        memory: &mut impl Shared<f64>,
        at: (usize, usize),
        block: &Block,
    ) -> Result<(), Error> {
        if let Some(whole) = self.whole(at) {
            memory.edit(whole)?.copy_from_slice(block.as_flattened());
            return Ok(());
        }
        for (nth, row) in block.iter().enumerate() {
            memory.edit(self.row(at, nth))?.copy_from_slice(row);
        }
        Ok(())
    }

    /// Changes a block.
    fn change(
        &self,
        memory: &mut impl Shared<f64>,
        at: (usize, usize),
        change: impl FnOnce(&mut Block),
    ) -> Result<(), Error> {
        let mut block = self.load(memory, at)?;
        change(&mut block);
        self.store(memory, at, &block)
    }

    /// Subtracts from blocks of a row, which belong to one rank, the products of that to their left and those above
    /// them in a step. Those of a rank lie one after the other: one access serves them all.
    fn update(
        &self,
        memory: &mut impl Shared<f64>,
        step: usize,
        down: usize,
        rights: StepBy<Range<usize>>,
    ) -> Result<(), Error> {
        let mut ends = rights.clone();
        let Some(first) = ends.next() else { return Ok(()) };
        let last = ends.next_back().unwrap_or(first);
        memory.work(2 * FLOPS * rights.len() as u64);
        let all = |down| Some(self.whole((down, first))?.start..self.whole((down, last))?.end);
        if let (Some(left), Some(above), Some(row)) =
            (self.whole((down, step)), all(step), all(down))
        {
            let ([left, above], row) = memory.change([left, above], row)?;
            let above = above.chunks_exact(BLOCK * BLOCK);
            for (above, block) in above.zip(row.chunks_exact_mut(BLOCK * BLOCK)) {
                subtract(left.as_chunks().0, above.as_chunks().0, block.as_chunks_mut().0);
            }
            return Ok(());
        }
        let left = self.load(memory, (down, step))?;
        for right in rights {
            let above = self.load(memory, (step, right))?;
            self.change(memory, (down, right), |block| subtract(&left, &above, block))?;
        }
        Ok(())
    }

    /// Returns whether a block belongs to this rank.
    fn is_mine(&self, memory: &impl Shared<f64>, at: (usize, usize)) -> bool {
        let (down, right) = at;
        let rank = (down % self.rows) * self.columns + right % self.columns;
        memory.ranks() == 1 || rank == memory.rank()
    }

    /// Returns the ranks whose blocks this rank computes.
    fn computed(&self, memory: &impl Shared<f64>) -> Range<usize> {
        let rank = memory.rank();
        if memory.ranks() == 1 { 0..self.rows * self.columns } else { rank..rank + 1 }
    }

    /// Returns the rows and the columns of a rank's blocks behind a step.
    fn behind(&self, rank: usize, step: usize) -> [StepBy<Range<usize>>; 2] {
        let first = step + 1;
        let own = |nth: usize, of: usize| {
            (first + (nth + of - first % of) % of..self.count()).step_by(of)
        };
        [own(rank / self.columns, self.rows), own(rank % self.columns, self.columns)]
    }

    /// Returns all blocks.
    fn all(&self) -> impl Iterator<Item = (usize, usize)> {
        let count = self.count();
        (0..count).flat_map(move |down| (0..count).map(move |right| (down, right)))
    }
}

impl Kernel<f64> for Lu {
    fn elements(&self) -> usize {
        self.elements
    }

    /// A matrix with a dominant diagonal, which needs no pivots.
    fn fill(&self, memory: &mut impl Shared<f64>) -> Result<(), Error> {
        for at in self.all().filter(|at| self.is_mine(memory, *at)).collect::<Vec<_>>() {
            let seed = (at.0 * self.count() + at.1) as u64;
            let mut random = fastrand::Rng::with_seed(seed);
            let mut block = [[0.0; BLOCK]; BLOCK];
            block.iter_mut().flatten().for_each(|element| *element = random.f64() - 0.5);
            if at.0 == at.1 {
                (0..BLOCK).for_each(|nth| block[nth][nth] += (self.count() * BLOCK) as f64);
            }
            self.store(memory, at, &block)?;
        }
        Ok(())
    }

    fn run(&self, memory: &mut impl Shared<f64>) -> Result<(), Error> {
        let count = self.count();
        for step in 0..count {
            if self.is_mine(memory, (step, step)) {
                self.change(memory, (step, step), factorise)?;
                memory.work(FLOPS * 2 / 3);
            }
            memory.barrier()?;
            let diagonal = self.load(memory, (step, step))?;
            for nth in step + 1..count {
                if self.is_mine(memory, (step, nth)) {
                    self.change(memory, (step, nth), |block| solve_lower(&diagonal, block))?;
                    memory.work(FLOPS);
                }
                if self.is_mine(memory, (nth, step)) {
                    self.change(memory, (nth, step), |block| solve_upper(&diagonal, block))?;
                    memory.work(FLOPS);
                }
            }
            memory.barrier()?;
            for rank in self.computed(memory) {
                let [downs, rights] = self.behind(rank, step);
                for down in downs {
                    self.update(memory, step, down, rights.clone())?;
                }
            }
        }
        Ok(())
    }

    fn verify(&self, memory: &mut impl Shared<f64>, sequential: &[f64]) -> Result<(), Error> {
        equal(
            memory,
            sequential,
            self.all().flat_map(|at| (0..BLOCK).map(move |nth| self.row(at, nth))),
        )
    }
}

/// Replaces a block by its factors, the lower one without its diagonal of ones.
fn factorise(block: &mut Block) {
    for step in 0..BLOCK {
        for row in step + 1..BLOCK {
            block[row][step] /= block[step][step];
            for column in step + 1..BLOCK {
                block[row][column] -= block[row][step] * block[step][column];
            }
        }
    }
}

/// Replaces a block by the X for which the lower factor of `diagonal` times X is the block.
fn solve_lower(diagonal: &Block, block: &mut Block) {
    for step in 0..BLOCK {
        let from = block[step];
        for row in step + 1..BLOCK {
            let factor = diagonal[row][step];
            block[row].iter_mut().zip(from).for_each(|(to, from)| *to -= factor * from);
        }
    }
}

/// Replaces a block by the X for which X times the upper factor of `diagonal` is the block.
fn solve_upper(diagonal: &Block, block: &mut Block) {
    for row in block {
        for step in 0..BLOCK {
            row[step] /= diagonal[step][step];
            for column in step + 1..BLOCK {
                row[column] -= row[step] * diagonal[step][column];
            }
        }
    }
}

/// Subtracts a product from a block.
fn subtract(left: &[[f64; BLOCK]], above: &[[f64; BLOCK]], block: &mut [[f64; BLOCK]]) {
    for (row, factors) in block.iter_mut().zip(left) {
        for (factor, from) in factors.iter().zip(above) {
            row.iter_mut().zip(from).for_each(|(to, from)| *to -= factor * from);
        }
    }
}
