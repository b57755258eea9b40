//! `surrogate`: simulates reactive transport with the map as a cache of the chemistry's results, which
//! is the use that MPI-DHT was designed for (Luebke et al. 2025, section 5.4).

mod chemistry;
mod fields;
mod halo;
mod rank;
mod row;

use clap::{Args, value_parser};
use probeline::map::{Config, Map, Operation};
use probeline::transport::{Exchange, Owner, Sizes};
use probeline_reactive::{Flow, Grid, QUESTION, Question};
use probeline_results::{Row, gather_values};

use self::chemistry::{Cache, Chemistry, Stored};
use self::halo::{Halo, READ_WORDS};
use self::rank::{Rank, Tally};
use self::row::SurrogateRow;
use super::report_job;
use crate::cli::{JobArgs, TransportName, within};
use crate::failure::{Failure, Result};
use crate::job::Scenario;
use crate::machine::less_than;
use crate::pinning;
use crate::progress::Progress;
use crate::size::Size;
use crate::table::{MOST_BATCH, MOST_IN_FLIGHT};
use crate::timed::Timed;
use crate::units::counted;

const CACHE_SIZE: Size = Size::mib(64);
const CACHE_SIZE_HELP: &str = "\
Memory for the cache, all ranks together: 192 bytes a result [default: 64MiB]";
/// At most the time of a result of the paper's chemistry: 603 s of 128 ranks for 375 million.
const PAPER_WORK_NS: u64 = 206_000;
/// Memory of a cell: its state, question, answer, and fields of this run and of that without the cache.
const CELL_BYTES: u64 = 400;
const MAX_CELLS_ALONG: i64 = 1 << 16;

const WAITS_FOR_CPUS: &str =
    "warning: more ranks than CPUs: times include waiting for a CPU; start fewer";

/// What the ranks have simulated and counted.
pub(crate) struct Simulated {
    rows: Vec<SurrogateRow>,
    waits_for_cpus: bool,
}

#[derive(Args, Clone, Debug)]
#[command(mut_arg("table_size_asked", |option| option.help(CACHE_SIZE_HELP)))]
pub(crate) struct SurrogateArgs {
    /// Columns of the grid, cells of 1 cm in the direction of the flow
    #[arg(long, value_name = "CELLS", default_value_t = 100)]
    #[arg(value_parser = value_parser!(u32).range(1..=MAX_CELLS_ALONG))]
    columns: u32,

    /// Rows of the grid, which the ranks divide
    #[arg(long, value_name = "CELLS", default_value_t = 50)]
    #[arg(value_parser = value_parser!(u32).range(1..=MAX_CELLS_ALONG))]
    rows: u32,

    /// Time steps
    #[arg(long, value_name = "N", default_value_t = 200)]
    #[arg(value_parser = value_parser!(u32).range(1..=1 << 20))]
    steps: u32,

    /// Seconds of a time step [default: 0.9 of the longest stable one]
    #[arg(long, value_name = "S")]
    step_s: Option<f64>,

    /// Significant digits to which the inputs of the chemistry are rounded, 1 to 15, separated by
    /// commas: a run with the cache for each
    #[arg(long, value_name = "DIGITS,...", value_delimiter = ',', default_value = "3,4,5,6")]
    #[arg(value_parser = value_parser!(u8).range(1..=15))]
    digits: Vec<u8>,

    /// Amounts that are taken as 0 when the inputs are rounded, in mol/l; POET takes 1e-13
    #[arg(long, value_name = "AMOUNT", default_value_t = 1e-9)]
    #[arg(value_parser = within("mol/l", 0.0..=1.0))]
    zero_below: f64,

    /// Microseconds of further work for each computed result, as of a more expensive chemistry
    /// [default: 206 on the simulator, as that of the paper, else 0]
    #[arg(long, value_name = "US")]
    #[arg(value_parser = within("microseconds", 0.0..=1e6))]
    work_us: Option<f64>,

    /// Cells whose results a rank looks up in one batch call
    #[arg(long, value_name = "CELLS", default_value_t = 64)]
    #[arg(value_parser = value_parser!(u32).range(1..=MOST_BATCH))]
    package: u32,

    /// Lookups in flight of each rank that use READs and claims, 2 to 16384
    #[arg(long, value_name = "N", default_value_t = 32)]
    #[arg(value_parser = value_parser!(u32).range(2..=MOST_IN_FLIGHT))]
    in_flight: u32,

    // Last, because its headings in the help apply to all options after them.
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

pub(crate) fn run(mut args: SurrogateArgs) -> Result<()> {
    args.job.settle(CACHE_SIZE, CACHE_SIZE, &[8])?;
    args.check()?;
    let Some((mut report, files, output)) = report_job("surrogate", &args.job, &args)? else {
        return Ok(());
    };
    report.parameter("buckets_per_rank", args.config().buckets_per_owner);
    report.parameter("columns", args.columns);
    report.parameter("rows", args.rows);
    report.parameter("steps", args.steps);
    report.parameter("step_s", args.flow()?.step_s());
    report.parameter("cell_m", Flow::of_benchmark().cell_m());
    report.parameter("zero_below", args.zero_below);
    report.parameter("work_us", args.work_us());
    report.parameter("package", args.package);
    report.parameter("in_flight", args.in_flight);
    let Simulated { rows, waits_for_cpus } = output;
    report.summary = SurrogateRow::summary(&rows, args.grid());
    if waits_for_cpus {
        report.summary.push(WAITS_FOR_CPUS.to_owned());
    }
    report.notes = SurrogateRow::notes();
    report.notes.push(args.times_note().into());
    report.rows = rows;
    report.publish(files)
}

impl SurrogateArgs {
    fn check(&self) -> Result<()> {
        let (rows, ranks) = (self.rows, self.job.ranks);
        if rows < ranks {
            return Err(Failure::usage(format!(
                "--rows {rows} are too few for {ranks} ranks, which have at least one each: give more \
                 rows or fewer ranks"
            )));
        }
        if (1..self.digits.len()).any(|at| self.digits[..at].contains(&self.digits[at])) {
            return Err(Failure::usage("--digits has a number twice: give each once"));
        }
        self.flow()?;
        if self.config().buckets_per_owner == 0 {
            let least = Size(u64::from(ranks) * bucket_bytes());
            return Err(Failure::usage(format!(
                "--table-size {} is too small: {ranks} ranks need {least} at least",
                self.job.table_size
            )));
        }
        self.check_memory()
    }

    /// Checks that the cells fit in memory with the cache.
    fn check_memory(&self) -> Result<()> {
        let cells = u64::from(self.columns) * u64::from(self.rows) * CELL_BYTES;
        let all = self.job.table_size.0.saturating_add(cells);
        match less_than(self.job.bytes_here(all)) {
            Some(available) => Err(Failure::usage(format!(
                "--columns {} and --rows {} are too many: the cells take {}, and this machine has \
                 {available} of memory available for them and the cache",
                self.columns,
                self.rows,
                Size::mib(cells >> 20)
            ))),
            None => Ok(()),
        }
    }

    /// The simulator's time does not pass while the CPU computes a result.
    fn work_us(&self) -> f64 {
        let is_simulated = self.job.transport == TransportName::Sim;
        self.work_us.unwrap_or(if is_simulated { PAPER_WORK_NS as f64 / 1e3 } else { 0.0 })
    }

    fn flow(&self) -> Result<Flow> {
        let flow = Flow::of_benchmark();
        let Some(step_s) = self.step_s else { return Ok(flow) };
        flow.with_step_s(step_s).map_err(|error| Failure::usage(format!("--step-s: {error}")))
    }

    fn grid(&self) -> Grid {
        Grid { columns: self.columns as usize, rows: self.rows as usize }
    }

    fn config(&self) -> Config {
        let buckets = self.job.table_size.0 / bucket_bytes() / u64::from(self.job.ranks.max(1));
        // The simulator's time stands still while the CPU loads words.
        let direct = self.job.transport != TransportName::Sim;
        Config { direct, ..Config::new(buckets) }
    }

    fn times_note(&self) -> &'static str {
        match self.job.transport {
            TransportName::Sim => {
                "times: virtual; the flow takes none, and a computed result takes --work-us"
            }
            _ => "times: of the slowest rank, all time steps with the flow",
        }
    }

    /// Runs the simulation without the cache and with it, rounding to each number of digits.
    fn simulate(
        &self,
        cache: &mut Cache<'_>,
        halo: &Halo,
        exchange: &mut dyn Exchange,
    ) -> Result<Simulated> {
        let runs: Vec<_> =
            [None].into_iter().chain(self.digits.iter().copied().map(Some)).collect();
        let steps = runs.len() as u64 * u64::from(self.steps);
        let mut progress = Progress::new(steps, exchange.me() == Owner(0));
        let mut rows: Vec<SurrogateRow> = Vec::new();
        let mut reference = None;
        for digits in runs {
            let (rank, mut tally) = self.run_once(digits, cache, halo, &mut progress, exchange)?;
            let fields = rank.fields();
            tally.compare(&fields, reference.as_deref().unwrap_or(&fields));
            let all = gather_values(exchange, &tally)?;
            let tally = all.into_iter().fold(Tally::default(), Tally::plus);
            rows.push(SurrogateRow::new(digits, self.job.ranks, &tally, rows.first()));
            reference.get_or_insert(fields);
        }
        // In virtual time, ranks do not wait.
        let waits_for_cpus =
            self.job.transport != TransportName::Sim && pinning::waits_for_cpus(exchange)?;
        Ok(Simulated { rows, waits_for_cpus })
    }

    /// Runs the simulation once, with an empty cache if inputs are rounded.
    fn run_once<'h>(
        &self,
        digits: Option<u8>,
        cache: &mut Cache<'_>,
        halo: &'h Halo,
        progress: &mut Progress,
        exchange: &mut dyn Exchange,
    ) -> Result<(Rank<'h>, Tally)> {
        let mut chemistry = Chemistry::new(digits, self)?;
        let mut rank = Rank::new(self.grid(), self.flow()?, halo, exchange)?;
        cache.clear(exchange)?;
        cache.reset_stats();
        let start_ns = cache.transport().now_ns();
        for step in 0..u64::from(self.steps) {
            progress.advance(&name(digits));
            rank.step(step, cache, &mut chemistry, exchange)?;
        }
        let took_ns = cache.transport().now_ns() - start_ns;
        let tally = Tally::new(&rank, took_ns, &chemistry, cache.stats());
        Ok((rank, tally))
    }
}

/// Returns the name of a run.
fn name(digits: Option<u8>) -> String {
    digits.map_or_else(|| "without the cache".to_owned(), |digits| counted(digits.into(), "digit"))
}

fn bucket_bytes() -> u64 {
    Config::new(1).words::<Question, Stored>() * 8
}

impl Scenario for SurrogateArgs {
    type Output = Simulated;

    fn sizes(&self) -> Sizes {
        let sizes = self.config().sizes::<Question, Stored>(self.in_flight);
        Sizes {
            window_words: sizes.window_words + Halo::words(self.grid()),
            // Beside those of the map, one for the rows of neighbours.
            slots: sizes.slots + 1,
            slot_words: sizes.slot_words.max(READ_WORDS),
            ..sizes
        }
    }

    fn run<T: Timed>(&self, engine: &mut T, exchange: &mut dyn Exchange) -> Result<Self::Output> {
        let config = self.config();
        let sizes = config.sizes::<Question, Stored>(self.in_flight);
        let halo = Halo::new(sizes.window_words, sizes.slots);
        let operations = vec![Operation::EMPTY; self.in_flight as usize];
        let engine: &mut dyn Timed = engine;
        let mut cache = Map::open(engine, config, operations, exchange)?;
        self.simulate(&mut cache, &halo, exchange)
    }
}

const _: () = assert!(QUESTION * 8 == 80 && size_of::<Stored>() == 104);
