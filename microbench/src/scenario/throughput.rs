//! `bench-throughput`: all ranks at once, on the paper's workloads and two more (section 4.2).

use core::time::Duration;

use clap::{Args, ValueEnum};
use probeline_table::Config;
use probeline_transport::{Exchange, Owner};
use serde::Serialize;

use super::gather;
use super::limits::TableLimit;
use crate::agreement::Input;
use crate::cli::{ChunkArgs, JobArgs, TransportName};
use crate::failure::{Failure, Result};
use crate::job::{self, Scenario, Shape};
use crate::keys::Keys;
use crate::machine::memory_available;
use crate::means::{BatchArgs, End, MeansArgs, MeansTable, find_or_put_all};
use crate::progress::Progress;
use crate::report::{Files, Layout, Note, Report, Row, aligned, only};
use crate::size::Size;
use crate::timed::Timed;
use crate::units;

/// Operations before each run that are not timed, one for this many: they warm up code, caches
/// and the page tables of the private slots, on data that the run then finds as its first.
const WARM_UP_SHARE: usize = 100;

#[derive(Args, Clone, Debug)]
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

    /// Different keys, instead of each workload's own number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 63))]
    key_range: Option<u64>,

    /// Runs of each workload; the median is reported
    #[arg(long, default_value_t = 5, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=999))]
    repeat: u32,

    #[command(flatten)]
    calls: BatchArgs,

    #[command(flatten)]
    means: MeansArgs,

    // Last: its headings in the help hold for whatever comes after them.
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

#[derive(Clone, Debug, Serialize)]
pub(crate) struct ThroughputRow {
    workload: String,
    ranks: u32,
    operations: u64,
    found_share: f64,
    inserted_share: f64,
    full: u64,
    median_ops_per_s: f64,
    least_ops_per_s: f64,
    most_ops_per_s: f64,
    limit_ops_per_s: Option<f64>,
    limit_share: Option<f64>,
    mean_latency_ns: f64,
    load_factor: f64,
    effective_roundtrips: f64,
    claims_lost: u64,
    cache_hit_share: f64,
}

pub(crate) fn run(mut args: ThroughputArgs) -> Result<()> {
    args.job.settle(Size::mib(128), Size::mib(128), &[args.chunks.chunk_buckets])?;
    args.check()?;
    let files = Files::of_job(&args.job)?;
    // Before the run, which would show in the load.
    let mut report = Report::new("bench-throughput");
    let Some(ended) = job::run(&args.job, &args)? else { return Ok(()) };
    report.transport = ended.transport;
    report.doctor.extend(ended.doctor);
    report.job(&args.job);
    report.parameter("chunk_buckets", args.chunks.chunk_buckets);
    report.parameter("max_chunks", args.chunks.max_chunks);
    report.parameter("ops_per_rank", args.ops);
    report.parameter("key_range", args.key_range);
    report.parameter("runs", args.repeat);
    report.parameter("batch", args.calls.size(&args.means));
    for (name, value) in args.means.for_report(&args.config()) {
        report.parameter(name, value);
    }
    let (rows, limit) = ended.output;
    report.rows = rows;
    report.summary = args.summary(&report.rows);
    report.notes = args.notes(&report.rows, limit.as_ref());
    report.publish(files)
}

impl Workload {
    /// The keys of a rank where all ranks together do `operations`. The shares are those of the
    /// program that made the paper's figures.
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

    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl ThroughputArgs {
    fn config(&self) -> Config {
        let sizes = self.job.config(self.chunks.chunk_buckets, self.chunks.max_chunks);
        self.means.config(sizes, self.job.transport == TransportName::Sim)
    }

    /// Whether the keys, which are drawn before the clock runs, fit beside the table.
    fn check(&self) -> Result<()> {
        self.means.check(&[self.chunks.chunk_buckets])?;
        let keys = u64::from(self.ops) * u64::from(self.job.ranks) * 8;
        match memory_available() {
            Some(available) if self.job.bytes_here(self.job.table_size.0 + keys) > available => {
                Err(Failure::usage(format!(
                    "--ops {} is too much: the keys of all ranks take {}, and this machine has {} of \
                     memory available for them and the table",
                    self.ops,
                    Size::mib(keys >> 20),
                    Size::mib(available >> 20)
                )))
            }
            _ => Ok(()),
        }
    }

    /// The title, then a line for each workload.
    fn summary(&self, rows: &[ThroughputRow]) -> Vec<String> {
        let title = format!(
            "bench-throughput: {}, {} ranks, {} find-or-puts of each",
            self.job.transport.name(),
            self.job.ranks,
            self.ops
        );
        let line = |row: &ThroughputRow| {
            let share = |share: f64| format!("{share:.2}");
            vec![
                row.workload.clone(),
                units::rate(row.median_ops_per_s),
                row.limit_share.map_or_else(String::new, share),
            ]
        };
        let lines =
            aligned(&["workload", "find-or-puts", "of limit"], rows.iter().map(line).collect());
        [title].into_iter().chain(lines).collect()
    }

    fn notes(&self, rows: &[ThroughputRow], limit: Option<&TableLimit>) -> Vec<Note> {
        let by = match self.job.transport {
            TransportName::Shm | TransportName::Sim => "from the first start to the last end",
            _ => "by the slowest rank's own clock",
        };
        let mut notes = vec![
            Note::on(
                &["M ops/s", "least", "most"],
                format!("of all ranks, {by}; median of {} runs", self.repeat),
            ),
            format!(
                "calls: each rank, {}, in a table that is empty at first",
                match self.calls.size(&self.means) {
                    1 => "one at a time".to_owned(),
                    size => format!("in calls of {size} operations"),
                }
            )
            .into(),
            Note::on(
                &["latency ns"],
                "a rank's time / its operations; no operation is timed alone",
            ),
            Note::on(&["eff"], "chunk READs that an operation waits for"),
            Note::on(
                &["lost CAS"],
                "claims that failed because another rank claimed the bucket first",
            ),
            Note::on(&["cached"], "the share of operations that the cache answered"),
        ];
        notes.push(limit.map_or_else(TableLimit::none, TableLimit::note).into());
        if rows.iter().any(|row| row.full > 0) {
            notes.push(Note::on(
                &["full"],
                "operations found no empty bucket; use a larger --table-size or fewer --ops",
            ));
        }
        notes
    }

    /// The expected time of a run: that of the run before, or for the first run the minimum by the
    /// limit.
    fn expected(&self, before: Option<&Run>, limit: Option<&TableLimit>) -> Duration {
        let operations = f64::from(self.ops) * f64::from(self.job.ranks);
        let least = limit.map(|limit| operations / limit.per_second(1.0));
        let before = before.map(|run| run.took_ns as f64 / 1e9);
        Duration::try_from_secs_f64(before.or(least).unwrap_or(0.0)).unwrap_or(Duration::MAX)
    }

    /// One run of all ranks: the sums of their counters and the time of the slowest.
    fn once<T: Timed>(
        table: &mut MeansTable<T>,
        keys: &[u64],
        ends: &mut [End],
        exchange: &mut dyn Exchange,
    ) -> Result<Run> {
        table.clear(exchange)?;
        for &key in keys.iter().take(keys.len() / WARM_UP_SHARE) {
            table.find(key)?;
        }
        table.reset_stats();
        exchange.barrier()?;
        let start = table.engine().now_ns();
        find_or_put_all(table, keys, ends)?;
        let end = table.engine().now_ns();
        let stats = table.stats();
        let total = stats.total();
        let mine = [
            start,
            end,
            stats.found.operations,
            stats.inserted.operations,
            stats.full.operations,
            total.effective_roundtrips,
            total.claims_lost,
            total.cache_hits,
        ];
        let all = gather(exchange, mine)?;
        let sum = |i: usize| all.iter().map(|of_rank| of_rank[i]).sum();
        let longest = all.iter().map(|of_rank| of_rank[1] - of_rank[0]).max();
        // Ranks leave a barrier at different times: from the first start to the last end.
        let first_to_last = all
            .iter()
            .map(|of_rank| of_rank[1])
            .max()
            .unwrap_or(0)
            .saturating_sub(all.iter().map(|of_rank| of_rank[0]).min().unwrap_or(0));
        Ok(Run {
            took_ns: if T::ONE_CLOCK { first_to_last } else { longest.unwrap_or(0) },
            rank_ns: all.iter().map(|of_rank| of_rank[1] - of_rank[0]).sum(),
            found: sum(2),
            inserted: sum(3),
            full: sum(4),
            effective: sum(5),
            claims_lost: sum(6),
            cache_hits: sum(7),
        })
    }

    #[allow(clippy::cast_precision_loss)]
    fn row(
        &self,
        workload: Workload,
        buckets: u64,
        mut runs: Vec<Run>,
        limit: Option<&TableLimit>,
    ) -> ThroughputRow {
        runs.sort_by_key(|run| run.took_ns);
        let operations = u64::from(self.ops) * u64::from(self.job.ranks);
        let rate = |run: &Run| operations as f64 * 1e9 / run.took_ns.max(1) as f64;
        let median = &runs[runs.len() / 2];
        let share = |part: u64| part as f64 / operations.max(1) as f64;
        let limit = limit.map(|limit| limit.per_second(share(median.inserted)));
        ThroughputRow {
            workload: workload.name(),
            ranks: self.job.ranks,
            operations,
            found_share: share(median.found),
            inserted_share: share(median.inserted),
            full: median.full,
            median_ops_per_s: rate(median),
            least_ops_per_s: runs.last().map_or(0.0, rate),
            most_ops_per_s: runs.first().map_or(0.0, rate),
            limit_ops_per_s: limit,
            limit_share: limit.map(|limit| rate(median) / limit),
            mean_latency_ns: share(median.rank_ns),
            load_factor: median.inserted as f64 / buckets as f64,
            effective_roundtrips: share(median.effective),
            claims_lost: median.claims_lost,
            cache_hit_share: share(median.cache_hits),
        }
    }
}

struct Run {
    took_ns: u64,
    rank_ns: u64,
    found: u64,
    inserted: u64,
    full: u64,
    effective: u64,
    claims_lost: u64,
    cache_hits: u64,
}

/// The indices of the columns that are printed without `--full`.
const BRIEF: [usize; 8] = [0, 2, 3, 5, 6, 7, 9, 10];
const FULL: usize = 4;

impl Row for ThroughputRow {
    const HEAD: &'static [&'static str] = &[
        "workload",
        "ranks",
        "found",
        "inserted",
        "full",
        "M ops/s",
        "least",
        "most",
        "of limit",
        "latency ns",
        "load",
        "eff",
        "lost CAS",
        "cached",
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.workload.clone(),
            self.ranks.to_string(),
            format!("{:.1}%", self.found_share * 100.0),
            format!("{:.1}%", self.inserted_share * 100.0),
            self.full.to_string(),
            format!("{:.3}", self.median_ops_per_s / 1e6),
            format!("{:.3}", self.least_ops_per_s / 1e6),
            format!("{:.3}", self.most_ops_per_s / 1e6),
            self.limit_share.map_or_else(String::new, |share| format!("{share:.3}")),
            format!("{:.1}", self.mean_latency_ns),
            format!("{:.2}", self.load_factor),
            format!("{:.3}", self.effective_roundtrips),
            self.claims_lost.to_string(),
            format!("{:.3}", self.cache_hit_share),
        ]
    }

    /// Omits the column `full` if no operation found the table full.
    fn brief(rows: &[Self]) -> Layout {
        let some_full = rows.iter().any(|row| row.full > 0);
        let columns = BRIEF.into_iter().chain(some_full.then_some(FULL));
        only(Self::lay_out(rows), &columns.collect::<Vec<_>>())
    }
}

impl Scenario for ThroughputArgs {
    type Output = (Vec<ThroughputRow>, Option<TableLimit>);

    fn shape(&self) -> Shape {
        self.means.shape(&self.config(), self.chunks.chunk_buckets, 0, 0)
    }

    fn inputs(&self) -> Vec<Input> {
        Vec::new()
    }

    fn run<T: Timed>(&self, engine: &mut T, exchange: &mut dyn Exchange) -> Result<Self::Output> {
        let me = exchange.me();
        let operations = u64::from(self.ops) * u64::from(self.job.ranks);
        let steps = self.workload.len() * self.repeat as usize;
        let mut progress = Progress::new(steps as u64, me == Owner(0));
        progress.expecting(0, "the limit of find-or-puts", TableLimit::LONGEST);
        let limit = TableLimit::measure(engine, &self.config(), &self.job, exchange)?;
        let open = || self.means.open(engine, self.config(), exchange);
        let mut table = progress.during(0, "opening the table", open)?;
        let mut ends = self.calls.ends(&self.means);
        let buckets = table.layout().buckets();
        let mut rows: Vec<ThroughputRow> = Vec::new();
        for &workload in &self.workload {
            let keys = workload.keys(operations, self.key_range);
            let done = (rows.len() * self.repeat as usize) as u64;
            let draw = || keys.draw(self.ops as usize, self.job.seed, me.0);
            let keys = progress.during(done, "drawing keys", draw)?;
            let mut runs: Vec<Run> = Vec::new();
            for _ in 0..self.repeat {
                let longest = self.expected(runs.last(), limit.as_ref());
                progress.expecting(done + runs.len() as u64, &workload.name(), longest);
                runs.push(Self::once(&mut table, &keys, &mut ends, exchange)?);
            }
            rows.push(self.row(workload, buckets, runs, limit.as_ref()));
        }
        Ok((rows, limit))
    }
}
