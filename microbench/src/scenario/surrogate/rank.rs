//! The part of the simulation that one rank has, and what is counted of it.

use core::array;

use probeline::map::Stats;
use probeline::transport::Exchange;
use probeline_reactive::{Answer, Band, COMPONENTS, Cell, Flow, Grid, Question, Water};
use serde::{Deserialize, Serialize};

use super::chemistry::{Cache, Chemistry};
use super::fields::{FIELD_COUNT, fields};
use super::halo::Halo;
use crate::failure::Result;

pub(super) struct Rank<'h> {
    grid: Grid,
    flow: Flow,
    halo: &'h Halo,
    band: Band,
    /// The water that enters each row of the band.
    inflow: Vec<Water>,
    questions: Vec<Question>,
    answers: Vec<Answer>,
    /// What the band had at first, and what has flowed in since then: what it must have.
    expected: [f64; COMPONENTS],
}

impl<'h> Rank<'h> {
    /// Creates this rank's rows with calcite and the water that is in equilibrium with it.
    pub(super) fn new(
        grid: Grid,
        flow: Flow,
        halo: &'h Halo,
        exchange: &dyn Exchange,
    ) -> Result<Self> {
        let resident = Water::with_calcite()?;
        let rows = grid.band(exchange.me().0 as usize, exchange.owners() as usize);
        let band = Band::new(grid, rows.clone(), Cell::with_calcite(resident));
        let cells = band.cells().len();
        Ok(Self {
            grid,
            flow,
            halo,
            expected: band.contents(),
            inflow: Flow::waters(grid, rows, Water::with_magnesium(), resident),
            band,
            questions: Vec::with_capacity(cells),
            answers: vec![Answer::default(); cells],
        })
    }

    /// Simulates a time step: flow, then chemistry.
    pub(super) fn step(
        &mut self,
        step: u64,
        cache: &mut Cache<'_>,
        chemistry: &mut Chemistry,
        exchange: &mut dyn Exchange,
    ) -> Result<()> {
        let engine = cache.transport_mut()?;
        let [above, below] = self.halo.exchange(engine, step, &self.band, exchange)?;
        let (above, below) = (above.as_deref(), below.as_deref());
        let added = self.band.flow(&self.flow, &self.inflow, above, below);
        self.expected = array::from_fn(|component| self.expected[component] + added[component]);
        let step_s = self.flow.step_s();
        self.questions.clear();
        self.questions.extend(self.band.cells().iter().map(|cell| cell.question(step_s)));
        chemistry.answer(cache, &mut self.questions, &mut self.answers)?;
        for (cell, answer) in self.band.cells_mut().iter_mut().zip(&self.answers) {
            cell.react(answer);
        }
        // Entries of this step are younger than those of earlier ones.
        cache.advance_age();
        Ok(())
    }

    /// Returns the values of all fields in each cell of the band.
    pub(super) fn fields(&self) -> Vec<[f64; FIELD_COUNT]> {
        let cells = self.band.cells().iter().zip(&self.answers);
        cells.map(|(cell, answer)| fields(cell, answer)).collect()
    }
}

/// What is counted of a run: of one rank, or of all.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Tally {
    /// Of the slowest rank.
    pub(super) took_ns: u64,
    /// Of the slowest rank if each computed result took the time of the paper's; `None` if it does.
    pub(super) at_206_us_ns: Option<u64>,
    /// Sums over all ranks.
    pub(super) chemistry_ns: u64,
    pub(super) solve_ns: u64,
    pub(super) questions: u64,
    pub(super) solved: u64,
    pub(super) hits: u64,
    pub(super) evictions: u64,
    pub(super) cells: u64,
    /// The largest charge of a cell's water, in equivalents per litre.
    pub(super) charge: f64,
    /// What the cells have of each component, and what they must have by what has flowed in and out.
    contents: [f64; COMPONENTS],
    expected: [f64; COMPONENTS],
    /// The largest magnitude of each field, with the cache or without it.
    pub(super) largest: [f64; FIELD_COUNT],
    /// The largest difference of each field from the run without the cache.
    pub(super) difference: [f64; FIELD_COUNT],
    /// The sum of the squares of these differences.
    pub(super) squares: [f64; FIELD_COUNT],
    /// A sum of hashes of all cells, independent of how ranks divide them.
    pub(super) digest: u64,
}

impl Tally {
    /// Counts a run of one rank.
    pub(super) fn new(rank: &Rank<'_>, took_ns: u64, chemistry: &Chemistry, stats: &Stats) -> Self {
        let mut tally = Self {
            took_ns,
            at_206_us_ns: chemistry.missing_work_ns().map(|ns| took_ns + ns),
            chemistry_ns: chemistry.chemistry_ns,
            solve_ns: chemistry.solve_ns,
            questions: chemistry.questions,
            solved: chemistry.solved,
            hits: stats.hits,
            evictions: stats.evictions,
            cells: rank.band.cells().len() as u64,
            contents: rank.band.contents(),
            expected: rank.expected,
            ..Self::default()
        };
        let first = (rank.band.rows().start * rank.grid.columns) as u64;
        for (number, cell) in (first..).zip(rank.band.cells()) {
            tally.charge = tally.charge.max(cell.water.charge().abs());
            let bits = cell.question(0.0).map(f64::to_bits);
            let hash = bits.into_iter().fold(mixed(number), |hash, bits| mixed(hash ^ bits));
            tally.digest = tally.digest.wrapping_add(hash);
        }
        tally
    }

    /// Compares the fields of the rank's cells with those of the run without the cache.
    pub(super) fn compare(
        &mut self,
        here: &[[f64; FIELD_COUNT]],
        reference: &[[f64; FIELD_COUNT]],
    ) {
        for (values, expected) in here.iter().zip(reference) {
            for field in 0..FIELD_COUNT {
                let (value, expected) = (values[field], expected[field]);
                let off = (value - expected).abs();
                self.largest[field] = self.largest[field].max(value.abs()).max(expected.abs());
                self.difference[field] = self.difference[field].max(off);
                self.squares[field] += off * off;
            }
        }
    }

    /// Returns the largest change of the amount of a component that no flow explains, relative to the
    /// amount.
    pub(super) fn drift(&self) -> f64 {
        let drift =
            |(has, expected): (f64, f64)| (has - expected).abs() / expected.abs().max(1e-300);
        self.contents.into_iter().zip(self.expected).map(drift).fold(0.0, f64::max)
    }

    /// Returns the tally of both parts.
    pub(super) fn plus(self, other: Self) -> Self {
        let largest = |one: [f64; FIELD_COUNT], other: [f64; FIELD_COUNT]| {
            array::from_fn(|field| one[field].max(other[field]))
        };
        let sum = |one: [f64; COMPONENTS], other: [f64; COMPONENTS]| {
            array::from_fn(|component| one[component] + other[component])
        };
        Self {
            took_ns: self.took_ns.max(other.took_ns),
            at_206_us_ns: self.at_206_us_ns.max(other.at_206_us_ns),
            chemistry_ns: self.chemistry_ns + other.chemistry_ns,
            solve_ns: self.solve_ns + other.solve_ns,
            questions: self.questions + other.questions,
            solved: self.solved + other.solved,
            hits: self.hits + other.hits,
            evictions: self.evictions + other.evictions,
            cells: self.cells + other.cells,
            charge: self.charge.max(other.charge),
            contents: sum(self.contents, other.contents),
            expected: sum(self.expected, other.expected),
            largest: largest(self.largest, other.largest),
            difference: largest(self.difference, other.difference),
            squares: array::from_fn(|field| self.squares[field] + other.squares[field]),
            digest: self.digest.wrapping_add(other.digest),
        }
    }
}

/// Mixes the bits of a number (the finalizer of SplitMix64, which is a bijection).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
