//! `isx`: sorts random integers over all ranks, as the benchmark ISx.

use clap::{Args, ValueEnum, value_parser};
use probeline::transport::{Exchange, Sizes};
use probeline_programs::isx::{self, Carrier, Options, Times};
use probeline_results::format::{fixed, millions, text};
use probeline_results::{Row, row};

use super::{report_job, without_cpu_time};
use crate::cli::JobArgs;
use crate::failure::{Failure, Result};
use crate::job::Scenario;
use crate::timed::Timed;
use crate::units::{rate, thousands};

#[derive(Args, Clone, Debug)]
pub(crate) struct IsxArgs {
    /// Keys of a rank, of 28 bits (weak scaling)
    #[arg(long, value_name = "N", default_value_t = 1 << 24, conflicts_with = "total_keys")]
    #[arg(value_parser = value_parser!(u64).range(1..=1 << 32))]
    keys: u64,

    /// Keys of all ranks together (strong scaling); each has as many, so a rest is left out
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1 << 40))]
    total_keys: Option<u64>,

    /// What carries keys to other ranks: a lane for each pair of ranks, up to 64 of them, or a queue on each
    /// rank
    #[arg(long, value_enum, value_name = "CARRIER", default_value_t = CarrierName::Lanes)]
    carrier: CarrierName,

    // Last, because its headings in the help apply to all options after them.
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum CarrierName {
    Lanes,
    Queues,
}

row! {
    pub(crate) struct IsxRow {
        carrier: &'static str => ("carrier", text),
        ranks: u32 => ("ranks", text),
        keys: u64 => ("keys", text, note("of all ranks, sorted and verified")),
        make_seconds: f64 => ("make", fixed::<3>, note("seconds to make the keys")),
        exchange_seconds: f64 => ("exchange", fixed::<3>, note("seconds to send keys to the ranks of their ranges")),
        sort_seconds: f64 => ("sort", fixed::<3>, note("seconds to sort on each rank")),
        seconds: f64 => ("s", fixed::<3>, note("of all three")),
        keys_per_s: f64 => ("M keys/s", millions),
    }
}

impl Row for IsxRow {}

struct Sort {
    job: JobArgs,
    options: Options,
}

pub(crate) fn run(mut args: IsxArgs) -> Result<()> {
    args.job.settle_without_table()?;
    let keys = args.total_keys.map_or(args.keys, |all| all / u64::from(args.job.ranks));
    let carrier = match args.carrier {
        CarrierName::Lanes => Carrier::Lanes,
        CarrierName::Queues => Carrier::Queues,
    };
    let options = Options { keys, carrier, seed: args.job.seed };
    let checked = options.check(args.job.ranks);
    checked.map_err(|error| Failure::usage(error.to_string()))?;
    args.job.take_windows(&options.sizes(args.job.ranks));
    let sort = Sort { options, job: args.job };
    let Some((mut report, files, row)) = report_job("isx", &sort.job, &sort)? else {
        return Ok(());
    };
    let IsxRow { keys, seconds, keys_per_s, .. } = row;
    report.summary = vec![format!(
        "isx: {} keys sorted in {seconds:.3} s, {}",
        thousands(keys),
        rate(keys_per_s)
    )];
    report.notes = IsxRow::notes();
    report.notes.extend(without_cpu_time(&sort.job));
    report.rows = vec![row];
    report.publish(files)
}

impl Scenario for Sort {
    type Output = IsxRow;

    fn sizes(&self) -> Sizes {
        self.options.sizes(self.job.ranks)
    }

    fn run<T: Timed>(&self, engine: &mut T, exchange: &mut dyn Exchange) -> Result<IsxRow> {
        let engine: &mut dyn Timed = engine;
        let (times, _) = isx::run(&self.options, engine, |engine| engine.now_ns(), exchange)?;
        let Times { make_ns, exchange_ns, sort_ns } = times;
        let [make_seconds, exchange_seconds, sort_seconds, seconds] =
            [make_ns, exchange_ns, sort_ns, make_ns + exchange_ns + sort_ns]
                .map(|ns| ns as f64 / 1e9);
        let ranks = exchange.owners();
        let keys = self.options.keys * u64::from(ranks);
        Ok(IsxRow {
            carrier: match self.options.carrier {
                Carrier::Lanes => "lanes",
                Carrier::Queues => "queues",
            },
            ranks,
            keys,
            make_seconds,
            exchange_seconds,
            sort_seconds,
            seconds,
            keys_per_s: keys as f64 / seconds.max(1e-9),
        })
    }
}
