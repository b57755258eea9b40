//! The part of the simulation that one rank has, and what is counted of it. A rank READs the rows beside its band
//! from the windows of its neighbours.

use core::array;
use core::sync::atomic::Ordering::Release;

use fastrand::Rng;
use probeline::map::Stats;
use probeline::transport::{Exchange, Owner, RemoteWord, Segment, Sizes};
use serde::{Deserialize, Serialize};

use super::chemistry::{Cache, Chemistry};
use crate::reactive::{
    Band, COMPONENTS, Cell, ChemistryInput, ChemistryResult, Flow, Grid, PH, Water, charge,
    magnesium_water,
};
use crate::timed::read_all;
use crate::{Error, Timed};

/// Words of one READ, and of the slot that it lands in.
const READ_WORDS: u32 = 512;
/// A rank's first row and its last one.
const ROWS: u64 = 2;
/// Steps whose rows are in the window at a time, so that a step has one barrier: a neighbour may still
/// read the rows of the previous step.
const STEPS: u64 = 2;

type Row = Vec<Water>;

/// The fields that are compared: calcium, magnesium and carbon, pH, calcite, dolomite.
pub const FIELD_COUNT: usize = 6;

/// The rows of the grid that a rank has.
pub(super) struct Rank {
    grid: Grid,
    flow: Flow,
    band: Band,
    /// The water that enters each row of the band.
    inflow: Vec<Water>,
    inputs: Vec<ChemistryInput>,
    results: Vec<ChemistryResult>,
    /// Amounts that the band must have: its first ones, and those that have flowed in since then.
    expected: Water,
}

impl Rank {
    /// Creates this rank's rows with calcite and the water that is in equilibrium with it.
    pub(super) fn new(grid: Grid, flow: Flow, exchange: &dyn Exchange) -> Result<Self, Error> {
        let resident = Cell::resident()?;
        let rows = grid.band(exchange.me().0 as usize, exchange.owners() as usize);
        let band = Band::new(grid, rows.clone(), resident);
        let cells = band.cells.len();
        Ok(Self {
            grid,
            flow,
            expected: band.contents(),
            inflow: grid.waters(rows, magnesium_water(), resident.water),
            band,
            inputs: Vec::with_capacity(cells),
            results: vec![ChemistryResult::default(); cells],
        })
    }

    /// Simulates a time step: flow, then chemistry.
    pub(super) fn step(
        &mut self,
        step: u64,
        cache: &mut Cache<'_>,
        chemistry: &mut Chemistry,
        exchange: &mut dyn Exchange,
    ) -> Result<(), Error> {
        let engine = cache.transport_mut()?;
        let [above, below] = exchange_rows(engine, step, &self.band, exchange)?;
        let (above, below) = (above.as_deref(), below.as_deref());
        let added = self.band.flow(&self.flow, &self.inflow, above, below);
        self.expected.iter_mut().zip(added).for_each(|(expected, added)| *expected += added);
        let step_s = self.flow.step_s;
        self.inputs.clear();
        self.inputs.extend(self.band.cells.iter().map(|cell| cell.chemistry_input(step_s)));
        chemistry.solve(cache, &mut self.inputs, &mut self.results)?;
        for (cell, result) in self.band.cells.iter_mut().zip(&self.results) {
            cell.react(result);
        }
        // Entries of this step are younger than those of earlier ones.
        cache.advance_age();
        Ok(())
    }

    /// Returns the values of all fields in each cell of the band.
    pub(super) fn fields(&self) -> Vec<[f64; FIELD_COUNT]> {
        let cells = self.band.cells.iter().zip(&self.results);
        cells.map(|(cell, result)| fields(cell, result)).collect()
    }
}

/// Returns the values of all fields in a cell: amounts in mmol/l.
fn fields(cell: &Cell, result: &ChemistryResult) -> [f64; FIELD_COUNT] {
    let [calcium, magnesium, carbon, ..] = cell.water.map(|amount| amount * 1e3);
    let [calcite, dolomite] = cell.minerals.map(|amount| amount * 1e3);
    [calcium, magnesium, carbon, result[PH], calcite, dolomite]
}

/// Counters of a run: of one rank, or of all.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Time of the slowest rank.
    pub took_ns: u64,
    /// Time of the slowest rank if each computed result took the time of the paper's; `None` if it does.
    pub at_206_us_ns: Option<u64>,
    /// Time of the chemistry, lookups included. This and the counts are sums over all ranks.
    pub chemistry_ns: u64,
    /// The part of it in which results were computed.
    pub solve_ns: u64,
    /// Inputs of the chemistry, one a cell and step.
    pub inputs: u64,
    /// Results that were computed.
    pub solved: u64,
    /// Lookups that the cache answered.
    pub hits: u64,
    /// Results that made room for others.
    pub evictions: u64,
    /// Cells of the grid.
    pub cells: u64,
    /// The largest charge of a cell's water, in equivalents per litre.
    pub charge: f64,
    /// Amounts of each component in the cells, and the amounts that the flow in and out implies.
    contents: Water,
    expected: Water,
    /// The largest magnitude of each field, with the cache or without it.
    largest: [f64; FIELD_COUNT],
    /// The largest difference of each field from the run without the cache.
    difference: [f64; FIELD_COUNT],
    /// The sum of the squares of these differences.
    squares: [f64; FIELD_COUNT],
    /// A sum of hashes of all cells, independent of how ranks divide them.
    pub digest: u64,
}

impl Tally {
    /// Counts a run of one rank.
    pub(super) fn new(rank: &Rank, took_ns: u64, chemistry: &Chemistry, stats: &Stats) -> Self {
        let mut tally = Self {
            took_ns,
            at_206_us_ns: chemistry.missing_work_ns().map(|ns| took_ns + ns),
            hits: stats.hits,
            evictions: stats.evictions,
            cells: rank.band.cells.len() as u64,
            contents: rank.band.contents(),
            expected: rank.expected,
            ..chemistry.tally.clone()
        };
        let first = (rank.band.rows.start * rank.grid.columns) as u64;
        for (number, cell) in (first..).zip(&rank.band.cells) {
            tally.charge = tally.charge.max(charge(&cell.water).abs());
            let bits = cell.chemistry_input(0.0).map(f64::to_bits);
            // From a hash of the number: with the number itself, cells whose first values differ
            // like their numbers could swap their values unseen.
            let seed = Rng::with_seed(number).u64(..);
            let hash =
                bits.into_iter().fold(seed, |hash, bits| Rng::with_seed(hash ^ bits).u64(..));
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
    #[must_use]
    pub fn drift(&self) -> f64 {
        let drift =
            |(has, expected): (f64, f64)| (has - expected).abs() / expected.abs().max(1e-300);
        self.contents.into_iter().zip(self.expected).map(drift).fold(0.0, f64::max)
    }

    /// Returns the largest difference of each field from the run without the cache, relative to its largest
    /// value, and the root of the mean square of the differences.
    #[must_use]
    pub fn errors(&self) -> [[f64; FIELD_COUNT]; 2] {
        let relative = |field: usize, difference: f64| {
            if difference == 0.0 { 0.0 } else { difference / self.largest[field] }
        };
        let rms = |field: usize| (self.squares[field] / self.cells.max(1) as f64).sqrt();
        [
            array::from_fn(|field| relative(field, self.difference[field])),
            array::from_fn(|field| relative(field, rms(field))),
        ]
    }

    /// Returns the tally of both parts.
    pub(super) fn plus(self, other: Self) -> Self {
        fn both<const N: usize>(
            one: [f64; N],
            other: [f64; N],
            of: fn(f64, f64) -> f64,
        ) -> [f64; N] {
            array::from_fn(|at| of(one[at], other[at]))
        }
        let sum = |one: f64, other: f64| one + other;
        Self {
            took_ns: self.took_ns.max(other.took_ns),
            at_206_us_ns: self.at_206_us_ns.max(other.at_206_us_ns),
            chemistry_ns: self.chemistry_ns + other.chemistry_ns,
            solve_ns: self.solve_ns + other.solve_ns,
            inputs: self.inputs + other.inputs,
            solved: self.solved + other.solved,
            hits: self.hits + other.hits,
            evictions: self.evictions + other.evictions,
            cells: self.cells + other.cells,
            charge: self.charge.max(other.charge),
            contents: both(self.contents, other.contents, sum),
            expected: both(self.expected, other.expected, sum),
            largest: both(self.largest, other.largest, f64::max),
            difference: both(self.difference, other.difference, f64::max),
            squares: both(self.squares, other.squares, sum),
            digest: self.digest.wrapping_add(other.digest),
        }
    }
}

/// Returns the sizes of the outer rows in an engine: the last words of each window, and the last slot. Their READs are
/// not in flight together with operations of the map.
pub(super) fn sizes(grid: Grid) -> Sizes {
    let window_words = row_words(grid.columns) * ROWS * STEPS;
    Sizes { window_words, slots: 1, slot_words: READ_WORDS, depth: 0 }
}

/// Shows the neighbours the outer rows of the band, and returns the rows above and below it. All
/// ranks call it, with the number of the step.
fn exchange_rows(
    engine: &mut dyn Timed,
    step: u64,
    band: &Band,
    exchange: &mut dyn Exchange,
) -> Result<[Option<Row>; 2], Error> {
    let columns = band.columns;
    let first_word = engine.geometry().window_words - row_words(columns) * ROWS * STEPS;
    let word = |row: u64| first_word + (step % STEPS * ROWS + row) * row_words(columns);
    for (row, components) in (0..).zip(band.outer_rows()) {
        let first = usize::try_from(word(row))?;
        let words = engine.window().iter().skip(first);
        for (word, number) in words.zip(components.as_flattened()) {
            word.store(number.to_bits(), Release);
        }
    }
    exchange.barrier()?;
    let (me, ranks) = (exchange.me().0, exchange.owners());
    // The last row of the rank above, and the first row of the one below.
    let above = me.checked_sub(1).map(|owner| RemoteWord { owner: Owner(owner), index: word(1) });
    let below = (me + 1 < ranks).then(|| RemoteWord { owner: Owner(me + 1), index: word(0) });
    let mut row = |at: Option<RemoteWord>| at.map(|at| read_row(engine, at, columns)).transpose();
    Ok([row(above)?, row(below)?])
}

fn read_row(engine: &mut dyn Timed, at: RemoteWord, columns: usize) -> Result<Row, Error> {
    let end = at.index + row_words(columns);
    let starts = (at.index..end).step_by(READ_WORDS as usize);
    let reads = starts.map(|index| Segment {
        start: RemoteWord { index, ..at },
        words: u32::try_from(end - index).map_or(READ_WORDS, |left| left.min(READ_WORDS)),
    });
    let mut numbers = Vec::with_capacity(columns * COMPONENTS);
    // In their order, because there is one slot: the last one.
    let slots = engine.geometry().slots;
    read_all(engine, slots - 1..slots, reads.collect(), |landed| {
        numbers.extend(landed.iter().map(|&bits| f64::from_bits(bits)));
    })?;
    Ok(numbers.as_chunks().0.to_vec())
}

fn row_words(columns: usize) -> u64 {
    (columns * COMPONENTS) as u64
}
