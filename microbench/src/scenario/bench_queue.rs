//! `bench-queue`: measures pushes and pops of queues by all ranks.

use clap::{Args, ValueEnum, value_parser};
use probeline::containers::Queue;
use probeline::containers::queue::{Config, Operation};
use probeline::pipeline::{BatchError, Error as OperationError};
use probeline::transport::{Exchange, Owner};
use probeline_programs::Timed;
use probeline_report::results::format::{millions, text};
use probeline_report::results::row;

use super::{report_job, without_cpu_time};
use crate::cli::{JobArgs, TransportName, name, rounds};
use crate::failure::{Failure, Result};
use crate::series::median;
use crate::table::batch;
use crate::units::rate;

/// Operations in flight per rank, and values of a block that take their tickets together.
const IN_FLIGHT: u32 = 64;

#[derive(Args, Clone, Debug)]
pub(crate) struct QueueArgs {
    /// Values that each rank pushes, and then pops, at most 2^24 [default: 100000; 200 on the simulator]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1 << 24))]
    values: Option<u64>,

    /// Rings that the ranks use, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', value_name = "RINGS,...")]
    #[arg(default_value = "one,each")]
    rings: Vec<Rings>,

    /// Values per call, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_value = "1,32")]
    #[arg(value_parser = batch())]
    batch: Vec<u32>,

    /// Rounds; the median of each rate is reported
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = rounds())]
    rounds: u32,

    // Last, because its headings in the help apply to all options after them.
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Rings {
    /// All ranks use the ring on rank 0
    One,
    /// Each rank uses the ring on the next rank
    Each,
}

row! {
    pub(crate) struct QueueRow {
        rings: String = "`one`: the ring on rank 0; `each`: the ring on the next rank" => ("rings", text),
        batch: u32 = "values per call" => ("batch", text),
        ranks: u32 => ("ranks", text),
        values: u64 = "pushed and popped by all ranks" => ("values", text),
        pushes_per_s: f64 = "values pushed by all ranks per second; no rank pops meanwhile" => ("M pushes/s", millions, note()),
        pops_per_s: f64 = "values popped by all ranks per second; no rank pushes meanwhile" => ("M pops/s", millions, note()),
    }
}

pub(crate) fn run(mut args: QueueArgs) -> Result<()> {
    args.job.resolve_without_table()?;
    args.job.refuse_seed()?;
    let (ranks, is_simulated) = (args.job.ranks, args.job.transport == TransportName::Sim);
    let values = args.values.unwrap_or(if is_simulated { 200 } else { 100_000 });
    let config = Config { in_flight: IN_FLIGHT, ..Config::new(values * u64::from(ranks)) };
    let sizes = config.sizes::<u64>(ranks, IN_FLIGHT);
    args.job.set_window_bytes(&sizes)?;
    let reported = report_job("bench-queue", &args.job, sizes, |engine, exchange| {
        let engine = engine.current.timed();
        let operations = vec![Operation::EMPTY; IN_FLIGHT as usize];
        let mut queue = Queue::open(engine, config, operations, exchange)?;
        let mut rows = Vec::new();
        for &rings in &args.rings {
            for &batch in &args.batch {
                let rounds =
                    (0..args.rounds).map(|_| measure(&mut queue, exchange, values, rings, batch));
                let (pushes, pops): (Vec<f64>, Vec<f64>) = rounds.collect::<Result<_>>()?;
                let median = |rates| median(rates).unwrap_or(0.0);
                rows.push(QueueRow {
                    rings: name(rings),
                    batch,
                    ranks,
                    values: values * u64::from(ranks),
                    pushes_per_s: median(pushes),
                    pops_per_s: median(pops),
                });
            }
        }
        Ok(rows)
    })?;
    let Some((mut report, files, rows)) = reported else { return Ok(()) };
    let rows: Vec<QueueRow> = rows;
    report.summary = rows.iter().map(QueueRow::answer).collect();
    report.parameter("values_per_rank", values);
    report.parameter("rounds", args.rounds);
    report.note(without_cpu_time(&args.job));
    report.publish(files, &rows)
}

type Bench<'e> = Queue<&'e mut dyn Timed, Vec<Operation<u64>>, u64>;

/// Pushes the values of each rank, and then pops as many. Returns both rates of all ranks, per second.
fn measure(
    queue: &mut Bench<'_>,
    exchange: &mut dyn Exchange,
    values: u64,
    rings: Rings,
    batch: u32,
) -> Result<(f64, f64)> {
    let (me, ranks) = (u64::from(exchange.me().0), exchange.owners());
    let host = match rings {
        Rings::One => Owner(0),
        Rings::Each => Owner((exchange.me().0 + 1) % ranks),
    };
    let mine: Vec<u64> = (me * values..(me + 1) * values).collect();
    let begun = start(queue, exchange)?;
    for block in mine.chunks(batch as usize) {
        if queue.push_batch(host, block)? < block.len() {
            return Err(Failure::new("a ring was full, although it has room for all values"));
        }
    }
    let pushed_ns = exchange.max(queue.transport().now_ns() - begun)?;
    let begun = start(queue, exchange)?;
    let mut popped = vec![0; mine.len()];
    let mut found = 0;
    while found < popped.len() {
        let end = popped.len().min(found + batch as usize);
        match queue.pop_batch(host, &mut popped[found..end]) {
            Ok(count) => found += count,
            // Other ranks popped first, 64 times: try again.
            Err(BatchError::Operation(OperationError::Contended { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let popped_ns = exchange.max(queue.transport().now_ns() - begun)?;
    let sum = |values: &[u64]| values.iter().sum::<u64>();
    if exchange.sum(sum(&popped))? != exchange.sum(sum(&mine))? {
        return Err(Failure::new("the values popped are not those pushed"));
    }
    let all = (values * u64::from(ranks)) as f64;
    let per_s = |ns: u64| all * 1e9 / ns.max(1) as f64;
    Ok((per_s(pushed_ns), per_s(popped_ns)))
}

/// Returns the time at which all ranks are ready.
fn start(queue: &Bench<'_>, exchange: &mut dyn Exchange) -> Result<u64> {
    exchange.barrier()?;
    Ok(queue.transport().now_ns())
}

impl QueueRow {
    fn answer(&self) -> String {
        let Self { rings, batch, pushes_per_s, pops_per_s, .. } = self;
        let rings = if rings == "one" { "one ring" } else { "a ring for each rank" };
        format!(
            "{rings}, {batch} per call: pushes {}, pops {}",
            rate(*pushes_per_s),
            rate(*pops_per_s)
        )
    }
}
