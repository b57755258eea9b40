//! `isx`: sorts random integers over all ranks, as the benchmark ISx.

use clap::{Args, value_parser};
use probeline_programs::isx::{self, Carrier, Options, Times};
use probeline_report::results::format::{fixed, millions, text};
use probeline_report::results::row;

use super::{report_job, without_cpu_time};
use crate::cli::{JobArgs, one_of};
use crate::failure::{Failure, Result};
use crate::table::name_of;
use crate::units::{rate, thousands};

const CARRIERS: [(&str, &str, Carrier); 2] =
    [("lanes", "", Carrier::Lanes), ("queues", "", Carrier::Queues)];

#[derive(Args, Clone, Debug)]
pub(crate) struct IsxArgs {
    /// Keys of a rank, of 28 bits (weak scaling)
    #[arg(long, value_name = "N", default_value_t = 1 << 24, conflicts_with = "total_keys")]
    #[arg(value_parser = value_parser!(u64).range(1..=1 << 32))]
    keys: u64,

    /// Keys of all ranks together (strong scaling); each has as many, so a rest is left out
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1 << 40))]
    total_keys: Option<u64>,

    /// Carrier of keys to other ranks: lanes between up to 1,024 ranks, or a queue on each rank
    #[arg(long, value_name = "CARRIER", default_value = "lanes", value_parser = one_of(&CARRIERS))]
    carrier: Carrier,

    // Last, because its headings in the help apply to all options after them.
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

row! {
    pub(crate) struct IsxRow {
        carrier: String = "lanes or queues" => ("carrier", text),
        ranks: u32 => ("ranks", text),
        keys: u64 = "of all ranks, sorted and verified" => ("keys", text, note()),
        make_seconds: f64 = "seconds to make the keys" => ("make", fixed::<3>, note()),
        exchange_seconds: f64 = "seconds to send keys to the ranks of their ranges"
            => ("exchange", fixed::<3>, note()),
        sort_seconds: f64 = "seconds to sort on each rank" => ("sort", fixed::<3>, note()),
        seconds: f64 = "of all three" => ("s", fixed::<3>, note()),
        keys_per_s: f64 = "`keys` / `seconds`" => ("M keys/s", millions),
    }
}

pub(crate) fn run(mut args: IsxArgs) -> Result<()> {
    args.job.resolve_without_table()?;
    let keys = args.total_keys.map_or(args.keys, |all| all / u64::from(args.job.ranks));
    let options = Options { keys, carrier: args.carrier, seed: args.job.seed };
    let checked = options.check(args.job.ranks);
    checked.map_err(|error| Failure::usage(error.to_string()))?;
    let sizes = options.sizes(args.job.ranks);
    args.job.set_window_bytes(&sizes)?;
    let reported = report_job("isx", &args.job, sizes, |engine, exchange| {
        let engine = engine.current.timed();
        let (times, _) = isx::run(&options, engine, |engine| engine.now_ns(), exchange)?;
        Ok(IsxRow::new(&options, exchange.owners(), &times))
    })?;
    let Some((mut report, files, row)) = reported else { return Ok(()) };
    let IsxRow { keys, seconds, keys_per_s, .. } = row;
    report.summary = vec![format!(
        "isx: {} keys sorted in {seconds:.3} s, {}",
        thousands(keys),
        rate(keys_per_s)
    )];
    report.note(without_cpu_time(&args.job));
    report.publish(files, &[row])
}

impl IsxRow {
    fn new(options: &Options, ranks: u32, times: &Times) -> Self {
        let Times { make_ns, exchange_ns, sort_ns } = *times;
        let [make_seconds, exchange_seconds, sort_seconds, seconds] =
            [make_ns, exchange_ns, sort_ns, make_ns + exchange_ns + sort_ns]
                .map(|ns| ns as f64 / 1e9);
        let keys = options.keys * u64::from(ranks);
        Self {
            carrier: name_of(options.carrier),
            ranks,
            keys,
            make_seconds,
            exchange_seconds,
            sort_seconds,
            seconds,
            keys_per_s: keys as f64 / seconds.max(1e-9),
        }
    }
}
