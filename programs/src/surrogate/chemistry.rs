//! The chemistry of a rank's cells: results from the cache, or computed and put into it.

use std::collections::HashMap;

use probeline::map::{Field, Map, Operation, Rounding, Written};

use super::{Options, PAPER_WORK_NS, Tally};
use crate::reactive::{ChemistryInput, ChemistryResult, INPUT_NUMBERS, equilibrium};
use crate::{Error, Timed};

/// The cache, compiled once for all transports.
pub(super) type Cache<'e> = Map<
    &'e mut dyn Timed,
    Vec<Operation<ChemistryInput, ChemistryResult>>,
    ChemistryInput,
    ChemistryResult,
>;

#[derive(Default)]
pub(super) struct Chemistry {
    /// The rounding of inputs before they are looked up; `None` without the cache.
    rounding: Option<Rounding<ChemistryInput, INPUT_NUMBERS>>,
    /// Further work for each result that is computed.
    work_ns: u64,
    found: Vec<Option<ChemistryResult>>,
    /// The places in `computed` of the inputs of a package that the cache did not have, by the bits
    /// of their numbers.
    places: HashMap<[u64; INPUT_NUMBERS], usize>,
    computed: Vec<ChemistryResult>,
    written: Vec<Written>,
    /// The counts of the chemistry in a run.
    pub(super) tally: Tally,
    package: usize,
}

impl Chemistry {
    /// Creates the chemistry with a cache for inputs of this many significant digits, or without a
    /// cache.
    pub(super) fn new(digits: Option<u8>, options: &Options) -> Result<Self, Error> {
        let rounding = digits.map(|digits| rounding(digits, options.zero_below)).transpose()?;
        let (work_ns, package) = (options.work_ns, options.package as usize);
        Ok(Self { rounding, work_ns, package, ..Self::default() })
    }

    /// Returns the time that the computed results would take longer if each took
    /// [`PAPER_WORK_NS`], in nanoseconds; `None` if it does.
    pub(super) fn missing_work_ns(&self) -> Option<u64> {
        let each_ns = PAPER_WORK_NS.checked_sub(self.work_ns).filter(|ns| *ns > 0)?;
        Some(each_ns * self.tally.solved)
    }

    /// Takes the results of all cells from the cache, or computes them.
    pub(super) fn solve(
        &mut self,
        cache: &mut Cache<'_>,
        inputs: &mut [ChemistryInput],
        results: &mut [ChemistryResult],
    ) -> Result<(), Error> {
        let start_ns = cache.transport().now_ns();
        let packages = inputs.chunks_mut(self.package).zip(results.chunks_mut(self.package));
        for (inputs, results) in packages {
            self.tally.inputs += inputs.len() as u64;
            match &self.rounding {
                Some(rounding) => {
                    for input in inputs.iter_mut() {
                        *input = rounding.round(input);
                    }
                    self.solve_cached(cache, inputs, results)?;
                }
                None => {
                    self.compute(cache, inputs)?;
                    results.copy_from_slice(&self.computed);
                }
            }
        }
        self.tally.chemistry_ns += cache.transport().now_ns() - start_ns;
        Ok(())
    }

    /// Looks up a package of rounded inputs, computes the missing results, each input once, and
    /// stores it.
    fn solve_cached(
        &mut self,
        cache: &mut Cache<'_>,
        inputs: &[ChemistryInput],
        results: &mut [ChemistryResult],
    ) -> Result<(), Error> {
        self.found.resize(inputs.len(), None);
        cache.get_batch(inputs, &mut self.found)?;
        let mut missed: Vec<ChemistryInput> = Vec::new();
        self.places.clear();
        for (input, _) in inputs.iter().zip(&self.found).filter(|(_, found)| found.is_none()) {
            self.places.entry(input.map(f64::to_bits)).or_insert_with(|| {
                missed.push(*input);
                missed.len() - 1
            });
        }
        self.compute(cache, &missed)?;
        self.written.resize(missed.len(), Written::Dropped);
        // A result that is dropped or evicted is computed again.
        cache.put_if_absent_batch(&missed, &self.computed, &mut self.written)?;
        for ((result, input), found) in results.iter_mut().zip(inputs).zip(&self.found) {
            let place = || self.places.get(&input.map(f64::to_bits));
            let stored = found.as_ref().or_else(|| self.computed.get(*place()?));
            *result = stored.copied().unwrap_or(*result);
        }
        Ok(())
    }

    /// Computes the results of these inputs.
    fn compute(&mut self, cache: &mut Cache<'_>, inputs: &[ChemistryInput]) -> Result<(), Error> {
        let start_ns = cache.transport().now_ns();
        self.computed.clear();
        for input in inputs {
            self.computed.push(equilibrium(input)?);
        }
        // Once a package, for the simulator's sake.
        let work_ns = self.work_ns * inputs.len() as u64;
        if work_ns > 0 {
            cache.transport_mut()?.spend(work_ns);
        }
        self.tally.solved += inputs.len() as u64;
        self.tally.solve_ns += cache.transport().now_ns() - start_ns;
        Ok(())
    }
}

/// Rounds all inputs but the time step, which is always the same.
fn rounding(digits: u8, zero_below: f64) -> Result<Rounding<ChemistryInput, INPUT_NUMBERS>, Error> {
    let mut fields = [Field::F64(digits); INPUT_NUMBERS];
    if let Some(step) = fields.last_mut() {
        *step = Field::Exact(8);
    }
    Ok(Rounding::new(fields)?.with_zero_below(zero_below)?)
}
