//! `bench-throughput`: measures find-or-puts of all ranks at once, on the paper's workloads and two
//! more (section 4.2).

use core::time::Duration;

use clap::{Args, ValueEnum};
use probeline::table::{Config, Stats};
use probeline::transport::{Exchange, Owner};
use probeline_programs::Timed;
use probeline_report::results::format::{fixed, millions, percent, text};
use probeline_report::results::row;

use super::report_job;
use crate::cli::{ChunkArgs, JobArgs, TransportName, heading, name, rounds, with_default};
use crate::engines::Measurement;
use crate::failure::Result;
use crate::keys::Keys;
use crate::progress::Progress;
use crate::run_report::{answer, fields, head};
use crate::series::{Run, Series};
use crate::size::Size;
use crate::table::{DEFAULT_BATCH, PipelineArgs, batch, engine_sizes, outcomes};
use crate::units;

/// One warm-up operation, which is not timed, per this number of operations of a run. The warm-up
/// uses the first keys of the run.
const WARM_UP_SHARE: usize = 100;

#[derive(Args, Clone, Debug)]
#[command(mut_arg("table_size_asked", |option| with_default(option, "128MiB")))]
pub(crate) struct ThroughputArgs {
    #[command(flatten)]
    chunks: ChunkArgs,

    /// Workloads to run, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME,...")]
    #[arg(default_value = "mixed,read-intensive,write-intensive,uniform,zipf")]
    workload: Vec<Workload>,

    /// Operations of each rank
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    ops: u32,

    /// Number of different keys [default: that of the workload]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 63))]
    key_range: Option<u64>,

    /// Runs of each workload; the median is reported
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = rounds())]
    rounds: u32,

    /// Operations in one batch call, whose misses and roundtrips overlap; 1 is blocking calls, as
    /// with --paper
    #[arg(long, value_name = "N", default_value_t = DEFAULT_BATCH, help_heading = heading::LATENCY)]
    #[arg(default_value_if("paper", "true", "1"), value_parser = batch())]
    batch: u32,

    #[command(flatten)]
    pipeline: PipelineArgs,

    // Last, because its headings in the help apply to all options after them.
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Workload {
    /// About half finds, half inserts: 0.65 keys for each operation of all ranks
    Mixed,
    /// About 80 % finds: 0.2 keys for each operation
    ReadIntensive,
    /// About 20 % finds: 2.3 keys for each operation
    WriteIntensive,
    /// Keys of 63 bits, practically all inserts
    Uniform,
    /// Zipf-distributed keys with exponent 0.99, one for each operation
    Zipf,
}

row! {
    #[derive(Default)]
    pub(crate) struct ThroughputRow {
        workload: String = "name of the workload" => ("workload", text),
        ranks: u32 => ("ranks", text, full()),
        operations: u64 = "of all ranks in one run",
        found_share: f64 = "operations that found their key" => ("found", percent),
        inserted_share: f64 = "operations that inserted it" => ("inserted", percent),
        full: u64 = "operations that found no empty bucket" => ("full", text, only_if(|row| row.full > 0).note()),
        median_ops_per_s: f64 = "of all ranks, median of the runs" => ("M ops/s", millions),
        min_ops_per_s: f64 = "of the slowest run" => ("min", millions),
        max_ops_per_s: f64 = "of the fastest run" => ("max", millions),
        mean_latency_ns: f64 = "a rank's time / its operations; no operation is timed alone"
            => ("latency ns", fixed::<1>, note()),
        load_factor: f64 = "at the end of the run" => ("load", fixed::<2>),
        effective_roundtrips: f64 = "chunk READs that an operation waits for" => ("eff", fixed::<3>, full().note()),
        claims_lost: u64 = "claims that failed because another rank claimed the bucket first"
            => ("lost CAS", text, full().note()),
        cache_hit_share: f64 = "the share of operations that the cache answered"
            => ("cached", fixed::<3>, full().note()),
    }
}

impl ThroughputRow {
    /// Says in the answer that operations ended `Full`: these neither found nor inserted their keys,
    /// so that the rate is not one of find-or-puts that did their work.
    fn warning(&self) -> Option<String> {
        let share = 100.0 * self.full as f64 / self.operations.max(1) as f64;
        (self.full > 0).then(|| {
            format!(
                "warning: {}: {} of {} find-or-puts ({share:.1} %) ended Full, without their key in \
                 the table; give a larger --table-size, or fewer --ops",
                self.workload,
                units::thousands(self.full),
                units::thousands(self.operations)
            )
        })
    }
}

pub(crate) fn run(mut args: ThroughputArgs) -> Result<()> {
    args.job.resolve(Size::mib(128), Size::mib(128), &[args.chunks.chunk_buckets])?;
    args.check()?;
    let sizes = engine_sizes(&args.config(), args.pipeline.in_flight, args.chunks.chunk_buckets);
    let reported = report_job("bench-throughput", &args.job, sizes, |engine, exchange| {
        engine.current.measure(&args, exchange)
    })?;
    let Some((mut report, files, rows)) = reported else { return Ok(()) };
    report.parameters(fields!(args.chunks; chunk_buckets, max_chunks));
    report.parameter("ops_per_rank", args.ops);
    report.parameters(fields!(args; key_range, rounds, batch));
    report.parameters(args.pipeline.parameters(&args.config()));
    report.summary = args.summary(&rows);
    report.note(args.notes());
    report.publish(files, &rows)
}

impl Workload {
    /// Returns the keys of each rank if all ranks together perform `operations`. The shares are
    /// those of the program that produced the paper's figures.
    pub(super) fn keys(self, operations: u64, given: Option<u64>) -> Keys {
        let range = |permille: u64| given.unwrap_or((operations * permille / 1000).max(1));
        match self {
            Self::Mixed => Keys::Uniform(range(650)),
            Self::ReadIntensive => Keys::Uniform(range(200)),
            Self::WriteIntensive => Keys::Uniform(range(2300)),
            Self::Uniform => Keys::Uniform(given.unwrap_or(1 << 63)),
            Self::Zipf => Keys::Zipf(range(1000)),
        }
    }
}

impl ThroughputArgs {
    fn config(&self) -> Config {
        let ChunkArgs { chunk_buckets, max_chunks } = self.chunks;
        self.pipeline.table.config(&self.job, chunk_buckets, max_chunks)
    }

    /// Checks that the keys, which are drawn before the clock starts, fit in memory with the table.
    fn check(&self) -> Result<()> {
        self.pipeline.table.check(&[self.chunks.chunk_buckets])?;
        let keys = u64::from(self.ops) * u64::from(self.job.ranks) * 8;
        self.job.check_memory(keys, &format!("--ops {}: the keys of all ranks", self.ops))
    }

    fn summary(&self, rows: &[ThroughputRow]) -> Vec<String> {
        let title = format!(
            "bench-throughput: {}, {} ranks, {} find-or-puts of each",
            self.job.transport.name(),
            self.job.ranks,
            self.ops
        );
        let line =
            |row: &ThroughputRow| vec![row.workload.clone(), units::rate(row.median_ops_per_s)];
        let head = head(["workload", "find-or-puts"]);
        let lines = answer(title, (head, rows.iter().map(line).collect()));
        lines.into_iter().chain(rows.iter().filter_map(ThroughputRow::warning)).collect()
    }

    fn notes(&self) -> [String; 2] {
        let by = match self.job.transport {
            TransportName::Shm | TransportName::Sim => "from the first start to the last end",
            _ => "by the slowest rank's own clock",
        };
        let calls = match self.batch {
            1 => "one at a time".to_owned(),
            size => format!("in calls of {size} operations"),
        };
        [
            format!("M ops/s, min, max: of all ranks, {by}; median of {} rounds", self.rounds),
            format!("calls: each rank, {calls}, in a table that is empty at first"),
        ]
    }

    /// Returns the row of these runs; `None` without runs.
    fn row(
        &self,
        workload: Workload,
        buckets: u64,
        runs: Vec<Run<Stats>>,
    ) -> Option<ThroughputRow> {
        let operations = u64::from(self.ops) * u64::from(self.job.ranks);
        let Series { median, rates: [rate, min, max] } = Series::new(runs, |_| operations)?;
        let share = |part: u64| part as f64 / operations.max(1) as f64;
        let (stats, total) = (median.stats, median.stats.total());
        Some(ThroughputRow {
            workload: name(workload),
            ranks: self.job.ranks,
            operations,
            found_share: share(stats.found.operations),
            inserted_share: share(stats.inserted.operations),
            full: stats.full.operations,
            median_ops_per_s: rate,
            min_ops_per_s: min,
            max_ops_per_s: max,
            mean_latency_ns: share(median.rank_ns),
            load_factor: stats.inserted.operations as f64 / buckets as f64,
            effective_roundtrips: share(total.effective_roundtrips),
            claims_lost: total.claims_lost,
            cache_hit_share: share(total.cache_hits),
        })
    }
}

impl Measurement for ThroughputArgs {
    type Output = Vec<ThroughputRow>;

    fn run<T: Timed>(&self, engine: &mut T, exchange: &mut dyn Exchange) -> Result<Self::Output> {
        let me = exchange.me();
        let operations = u64::from(self.ops) * u64::from(self.job.ranks);
        let steps = self.workload.len() * self.rounds as usize;
        let mut progress = Progress::new(steps as u64, me == Owner(0));
        let in_flight = self.pipeline.in_flight;
        let open = || self.pipeline.table.open(engine, self.config(), in_flight, exchange);
        let mut table = progress.during(0, "opening the table", open)?;
        let mut outcomes = outcomes(self.batch as usize);
        let buckets = table.layout().buckets();
        let mut rows: Vec<ThroughputRow> = Vec::new();
        for &workload in &self.workload {
            let keys = workload.keys(operations, self.key_range);
            let done = (rows.len() * self.rounds as usize) as u64;
            let draw = || keys.draw(self.ops as usize, self.job.seed, me.0);
            let keys = progress.during(done, "drawing keys", draw)?;
            let mut runs = Vec::new();
            for _ in 0..self.rounds {
                // The first run takes any time.
                let longest = runs.last().map_or(0, |run: &Run<Stats>| run.took_ns);
                let longest = Duration::from_nanos(longest);
                progress.expecting(done + runs.len() as u64, &name(workload), longest);
                table.clear(exchange)?;
                for &key in keys.iter().take(keys.len() / WARM_UP_SHARE) {
                    table.find(key)?;
                }
                runs.push(Run::find_or_puts(&mut table, &keys, &mut outcomes, exchange)?);
            }
            rows.extend(self.row(workload, buckets, runs));
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_names_full_operations() {
        let row = |full| ThroughputRow {
            workload: "uniform".to_owned(),
            operations: 2_000_000,
            full,
            ..ThroughputRow::default()
        };
        assert_eq!(row(0).warning(), None);
        let warning = row(1_800_000).warning().unwrap();
        let start = "warning: uniform: 1,800,000 of 2,000,000 find-or-puts (90.0 %) ended Full";
        assert!(warning.starts_with(start), "{warning}");
    }
}
