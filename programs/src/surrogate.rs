//! Simulates reactive transport with the map as a cache of the chemistry's results, which is the use that
//! MPI-DHT was designed for (Luebke et al. 2025, section 5.4).
//!
//! All ranks simulate the same [`Grid`], a band of rows each: first without the cache, then once for each
//! number of digits to which the inputs of the chemistry are rounded.

mod chemistry;
mod rank;

use probeline::map::{Config, Map, Operation};
use probeline::transport::{Exchange, Sizes};

use self::chemistry::{Cache, Chemistry};
use self::rank::Rank;
pub use self::rank::{FIELD_COUNT, Tally};
use crate::reactive::{ChemistryInput, ChemistryResult, Flow, Grid};
use crate::{Error, Timed, gather_values};

/// Upper bound of the time of a result of the paper's chemistry: 603 s of 128 ranks for 375 million.
pub const PAPER_WORK_NS: u64 = 206_000;

/// The parameters of a simulation. All ranks give the same.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cells, which the ranks divide.
    pub grid: Grid,
    /// The flow, with the time of a step.
    pub flow: Flow,
    /// Time steps.
    pub steps: u32,
    /// Significant digits to which the inputs of the chemistry are rounded: a run with the cache for each.
    pub digits: Vec<u8>,
    /// Amounts that are taken as 0 when inputs are rounded, in mol/l.
    pub zero_below: f64,
    /// Further work for each computed result, as of a more expensive chemistry, in nanoseconds.
    pub work_ns: u64,
    /// Cells whose results a rank looks up in one batch call.
    pub package: u32,
    /// Lookups in flight of each rank.
    pub in_flight: u32,
    /// The configuration of the cache.
    pub cache: Config,
}

impl Options {
    /// Returns the bytes of a result in the cache.
    #[must_use]
    pub fn bucket_bytes() -> u64 {
        Config::new(1).words::<ChemistryInput, ChemistryResult>() * 8
    }

    /// Returns the sizes of engines.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        let cache = self.cache.sizes::<ChemistryInput, ChemistryResult>(self.in_flight);
        cache.plus(rank::sizes(self.grid))
    }
}

/// Simulates without the cache and with it, together with all other ranks. `engine` has
/// [`Options::sizes`]; `progress` is called before each step with the digits of the run. Returns for each
/// run the digits, none without the cache, and what was counted on all ranks.
///
/// # Errors
/// [`Error`]: the map cannot be opened, an operation or a rank failed.
pub fn run(
    options: &Options,
    engine: &mut dyn Timed,
    mut progress: impl FnMut(Option<u8>),
    exchange: &mut dyn Exchange,
) -> Result<Vec<(Option<u8>, Tally)>, Error> {
    let operations = vec![Operation::EMPTY; options.in_flight as usize];
    let mut cache = Map::open(engine, options.cache, operations, exchange)?;
    let (mut runs, mut reference) = (Vec::new(), None);
    for digits in [None].into_iter().chain(options.digits.iter().copied().map(Some)) {
        let (rank, mut tally) =
            run_once(options, digits, &mut cache, &mut || progress(digits), exchange)?;
        let fields = rank.fields();
        tally.compare(&fields, reference.as_deref().unwrap_or(&fields));
        let all = gather_values(exchange, &tally)?;
        runs.push((digits, all.into_iter().fold(Tally::default(), Tally::plus)));
        reference.get_or_insert(fields);
    }
    Ok(runs)
}

/// Runs the simulation once, with an empty cache if inputs are rounded.
fn run_once(
    options: &Options,
    digits: Option<u8>,
    cache: &mut Cache<'_>,
    progress: &mut dyn FnMut(),
    exchange: &mut dyn Exchange,
) -> Result<(Rank, Tally), Error> {
    let mut chemistry = Chemistry::new(digits, options)?;
    let mut rank = Rank::new(options.grid, options.flow, exchange)?;
    cache.clear(exchange)?;
    cache.reset_stats();
    let start_ns = cache.transport().now_ns();
    for step in 0..u64::from(options.steps) {
        progress();
        rank.step(step, cache, &mut chemistry, exchange)?;
    }
    let took_ns = cache.transport().now_ns() - start_ns;
    let tally = Tally::new(&rank, took_ns, &chemistry, cache.stats());
    Ok((rank, tally))
}
