//! `surrogate`: simulates reactive transport with the map as a cache of the chemistry's results.

pub(super) mod row;

use core::time::Duration;

use clap::{Args, value_parser};
use probeline::map::Config;
use probeline::transport::{Exchange, Owner};
use probeline_programs::reactive::{Flow, Grid};
use probeline_programs::surrogate::{self, Options, PAPER_WORK_NS};

use self::row::SurrogateRow;
use super::report_job;
use crate::cli::{JobArgs, TransportName, within};
use crate::failure::{Failure, Result};
use crate::progress::Progress;
use crate::run_report::fields;
use crate::size::Size;
use crate::table::{batch, in_flight};
use crate::units::counted;

const CACHE_SIZE: Size = Size::mib(64);
const CACHE_SIZE_HELP: &str = "\
Memory for the cache, all ranks together: 192 bytes a result [default: 64MiB]";
/// Memory of a cell: its state, input, result, and fields of this run and of that without the cache.
const CELL_BYTES: u64 = 400;
const MAX_CELLS_ALONG: i64 = 1 << 16;

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
    #[arg(long, value_name = "CELLS", default_value_t = 64, value_parser = batch())]
    package: u32,

    /// Lookups in flight of each rank that use READs and claims, 2 to 16384
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = in_flight(2))]
    in_flight: u32,

    // Last, because its headings in the help apply to all options after them.
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

pub(crate) fn run(mut args: SurrogateArgs) -> Result<()> {
    args.job.resolve(CACHE_SIZE, CACHE_SIZE, &[8])?;
    let options = &args.options()?;
    let reported = report_job("surrogate", &args.job, options.sizes(), |engine, exchange| {
        let steps = (1 + options.digits.len() as u64) * u64::from(options.steps);
        let mut bar = Progress::new(steps, exchange.me() == Owner(0));
        let progress = |digits| bar.advance(&name(digits));
        let mut rows: Vec<SurrogateRow> = Vec::new();
        for (digits, tally) in surrogate::run(options, engine.current.timed(), progress, exchange)?
        {
            rows.push(SurrogateRow::new(digits, args.job.ranks, &tally, rows.first()));
        }
        Ok(rows)
    })?;
    let Some((mut report, files, rows)) = reported else { return Ok(()) };
    report.parameter("buckets_per_rank", options.cache.buckets_per_owner);
    report.parameters(fields!(args; columns, rows, steps, zero_below, package, in_flight));
    let of_flow = [("step_s", options.flow.step_s), ("cell_m", options.flow.cell_m)];
    report.parameters(of_flow.into_iter().chain([("work_us", args.work_us())]));
    report.summary = SurrogateRow::summary(&rows, options.grid);
    report.note([match args.job.transport {
        TransportName::Sim => {
            "times: virtual; the flow takes none, and a computed result takes --work-us"
        }
        _ => "times: of the slowest rank, all time steps with the flow",
    }]);
    report.publish(files, &rows)
}

impl SurrogateArgs {
    fn options(&self) -> Result<Options> {
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
        let cache = Config {
            // The simulator's time stands still while the CPU loads words.
            direct: self.job.transport != TransportName::Sim,
            ..Config::new(self.job.table_size.0 / Options::bucket_bytes() / u64::from(ranks.max(1)))
        };
        if cache.buckets_per_owner == 0 {
            let least = Size(u64::from(ranks) * Options::bucket_bytes());
            return Err(Failure::usage(format!(
                "--table-size {} is too small: {ranks} ranks need {least} at least",
                self.job.table_size
            )));
        }
        let cells = u64::from(self.columns) * u64::from(rows) * CELL_BYTES;
        let too_many = format!("--columns {} and --rows {rows}: the cells", self.columns);
        self.job.check_memory(cells, &too_many)?;
        let work = Duration::from_secs_f64(self.work_us() * 1e-6);
        Ok(Options {
            grid: Grid { columns: self.columns as usize, rows: rows as usize },
            flow: Flow::engesgaard_kipp(),
            steps: self.steps,
            digits: self.digits.clone(),
            zero_below: self.zero_below,
            work_ns: u64::try_from(work.as_nanos())?,
            package: self.package,
            in_flight: self.in_flight,
            cache,
        })
    }

    /// Returns the further work for a result, by default that of the paper in the simulator, whose
    /// time does not pass while the CPU computes a result.
    fn work_us(&self) -> f64 {
        let is_simulated = self.job.transport == TransportName::Sim;
        self.work_us.unwrap_or(if is_simulated { PAPER_WORK_NS as f64 / 1e3 } else { 0.0 })
    }
}

/// Returns the name of a run.
fn name(digits: Option<u8>) -> String {
    digits.map_or_else(|| "without the cache".to_owned(), |digits| counted(digits.into(), "digit"))
}
