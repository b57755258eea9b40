//! `explore`: explores the reachable states of a Petri net breadth first. The table is the set of
//! visited states, which is the use that the paper designed it for (section 1).

mod counterexample;
mod expansion;
mod frontier;
mod property;
mod row;
mod search;
mod so_far;

use std::process::ExitCode;

use clap::{Args, ValueHint, value_parser};
use probeline::table::{Config, Stats};
use probeline::transport::{Exchange, Sizes};
use probeline_petri::{Net, Packing};
use probeline_results::{Row, gather_values};

use self::expansion::Counts;
use self::property::{Property, PropertyArgs};
use self::row::ExploreRow;
use self::search::{Ended, Ending, search};
use super::limits::TableLimit;
use super::report_job;
use crate::agreement::Input;
use crate::cli::{ChunkArgs, JobArgs, power_of_two};
use crate::digest::Digest;
use crate::failure::{Failure, REFUTED, Result};
use crate::interrupt::Interrupt;
use crate::job::Scenario;
use crate::size::Size;
use crate::table::{CachedTable, MOST_BATCH, PipelineArgs, engine_sizes};
use crate::timed::Timed;

#[derive(Args, Clone, Debug)]
pub(crate) struct ExploreArgs {
    /// A PNML file with a place/transition net, or kanban:N, fms:N, philosophers:N, peterson:N
    #[arg(value_hint = ValueHint::FilePath)]
    model: String,

    #[command(flatten)]
    chunks: ChunkArgs,

    #[command(flatten)]
    expand: ExpandArgs,

    #[command(flatten)]
    properties: PropertyArgs,

    #[command(flatten)]
    pipeline: PipelineArgs,

    // Last, because its headings in the help apply to all options after them.
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

/// How the table looks up successors.
#[derive(Args, Clone, Copy, Debug)]
struct ExpandArgs {
    /// Successors of one batch call, and those that the last state has beyond them; 1 is single
    /// calls, as with --paper
    #[arg(long, value_name = "N", default_value_t = 512)]
    #[arg(default_value_if("paper", "true", "1"))]
    #[arg(value_parser = value_parser!(u32).range(1..=MOST_BATCH))]
    batch: u32,

    /// Most recent states, 8 bytes each, that a rank remembers, to skip their find-or-puts: a power
    /// of two from 2 on. 0, as with --paper, looks up every successor, also those to which another
    /// state leads too
    // In kanban:6, 1 << 14 is 1.2 to 1.5 times as fast as 1 << 17: few successors are left to
    // filter.
    #[arg(long, value_name = "STATES", default_value_t = 1 << 14)]
    #[arg(value_parser = power_of_two(2..=1 << 28))]
    #[arg(default_value_if("paper", "true", "0"))]
    known_states: u32,
}

/// The net and its packing, which every rank reads and computes by itself.
struct Exploration {
    args: ExploreArgs,
    net: Net,
    packing: Packing,
    properties: Vec<Property>,
}

pub(crate) fn run(mut args: ExploreArgs) -> Result<ExitCode> {
    args.job.settle(Size::mib(128), Size::mib(128), &[args.chunks.chunk_buckets])?;
    args.pipeline.table.check(&[args.chunks.chunk_buckets])?;
    let net = Net::load(&args.model)?;
    let properties = args.properties.properties(&net)?;
    let packing = Packing::new(&net).map_err(|error| so_far::unpacked(&net, &error))?;
    let exploration = Exploration { args, net, packing, properties };
    let args = &exploration.args;
    // The other ranks exit with success: a launcher would end rank 0 before its report if another
    // rank failed.
    let Some((mut report, files, output)) = report_job("explore", &args.job, &exploration)? else {
        return Ok(ExitCode::SUCCESS);
    };
    report.parameter("chunk_buckets", args.chunks.chunk_buckets);
    report.parameter("max_chunks", args.chunks.max_chunks);
    report.parameter("batch", args.expand.batch);
    report.parameter("known_states", args.expand.known_states);
    report.parameters(args.pipeline.parameters(&exploration.config()));
    report.parameter("places", exploration.net.places().len());
    report.parameter("transitions", exploration.net.transitions().len());
    let Explored { row, limit, ending } = output;
    report.summary = row.summary(ending);
    let status = match ending {
        Ending::Interrupted(signal) => signal.exit_code(),
        _ if row.is_violated() => ExitCode::from(REFUTED),
        _ => ExitCode::SUCCESS,
    };
    report.notes = ExploreRow::notes();
    report.notes.extend(limit.map(|limit| limit.note().into()));
    report.rows = vec![row];
    report.publish(files)?;
    Ok(status)
}

pub(crate) struct Explored {
    row: ExploreRow,
    limit: Option<TableLimit>,
    ending: Ending,
}

impl Scenario for Exploration {
    type Output = Explored;

    fn sizes(&self) -> Sizes {
        let slot_words = self.args.chunks.chunk_buckets.max(frontier::READ_WORDS);
        let in_flight = self.args.pipeline.in_flight;
        engine_sizes(&self.config(), in_flight, slot_words, frontier::SHARE_WORDS, frontier::READS)
    }

    fn inputs(&self) -> Vec<Input> {
        let model = &self.args.model;
        vec![
            Input {
                name: "net",
                digest: Digest::of_numbers("net", self.net.encoding()),
                advice: format!(
                    "and with the same net: each rank reads {model} itself, and the files differ"
                ),
            },
            Input {
                name: "packing",
                digest: Digest::of_numbers("packing", self.packing.encoding()),
                advice: "of the same build: the layout of states differs".to_owned(),
            },
        ]
    }

    fn run<T: Timed>(&self, engine: &mut T, exchange: &mut dyn Exchange) -> Result<Self::Output> {
        Interrupt::watch(exchange)?;
        let limit = TableLimit::measure(engine, &self.config(), &self.args.job, exchange)?;
        let start = engine.now_ns();
        let mut table = self.args.pipeline.open(engine, self.config(), exchange)?;
        let mut packing = self.packing.clone();
        // The window is new, so the table is empty. Each search widens a field for good, so there
        // are at most 63.
        let ended = loop {
            match search(self, &mut table, &packing, exchange)? {
                Ok(ended) => break ended,
                Err(unpackable) => {
                    packing = packing
                        .grown(&self.net, unpackable.overflow)
                        .map_err(|error| unpackable.failure(&self.net, &error))?;
                }
            }
            table.clear(exchange)?;
            table.reset_stats();
        };
        let took_ns = table.transport().now_ns() - start;
        // More signals may arrive after the first: `timeout` sends two.
        match ended.ending {
            Ending::Interrupted(_) => Interrupt::has_stopped_work(),
            _ => Interrupt::stop_watching(exchange)?,
        }
        let row = self.row(&mut table, &packing, &ended, took_ns, limit.as_ref(), exchange)?;
        Ok(Explored { row, limit, ending: ended.ending })
    }
}

impl Exploration {
    fn config(&self) -> Config {
        let ChunkArgs { chunk_buckets, max_chunks } = self.args.chunks;
        self.args.pipeline.table.config(&self.args.job, chunk_buckets, max_chunks)
    }

    fn row<T: Timed>(
        &self,
        table: &mut CachedTable<T>,
        packing: &Packing,
        ended: &Ended,
        took_ns: u64,
        limit: Option<&TableLimit>,
        exchange: &mut dyn Exchange,
    ) -> Result<ExploreRow> {
        let counts = &ended.counts;
        let all = gather_values(exchange, &(*counts, *table.stats()))?;
        let sum =
            |field: fn(&Counts) -> u64| all.iter().map(|(counts, _)| field(counts)).sum::<u64>();
        let stats = all.iter().map(|(_, stats)| *stats).sum::<Stats>().total();
        let (states, expanded) = (sum(|of| of.states), sum(|of| of.expanded));
        let held = table.len(exchange)?;
        if held != states || expanded + ended.open != states {
            return Err(Failure::new(format!(
                "{states} states were inserted, {held} are in the table, {expanded} were expanded \
                 and {} were not",
                ended.open
            )));
        }
        let busiest = all.iter().map(|(counts, _)| counts.expanded).max().unwrap_or(0);
        let per_state = |sum: u64| sum as f64 / expanded.max(1) as f64;
        let seconds = took_ns as f64 / 1e9;
        let (arcs, find_or_puts) = (sum(|of| of.arcs), sum(|of| of.find_or_puts));
        let puts = find_or_puts as f64;
        let limit = limit.map(|limit| limit.per_second(states as f64 / puts.max(1.0)));
        Ok(ExploreRow {
            model: self.args.model.clone(),
            ranks: self.args.job.ranks,
            complete: ended.ending == Ending::Complete,
            states,
            states_not_expanded: ended.open,
            arcs,
            levels: counts.levels,
            deadlocks: sum(|of| of.deadlocks),
            seconds,
            states_per_s: states as f64 / seconds,
            load_factor: states as f64 / table.layout().buckets() as f64,
            known_share: sum(|of| of.known) as f64 / arcs.max(1) as f64,
            find_or_puts_per_state: per_state(find_or_puts),
            cache_hit_share: stats.cache_hits as f64 / puts.max(1.0),
            limit_share: limit.map(|limit| puts / seconds / limit),
            effective_roundtrips_per_state: per_state(stats.effective_roundtrips),
            outgoing_roundtrips_per_state: per_state(stats.outgoing_roundtrips),
            claims_lost: stats.claims_lost,
            lines_per_state: per_state(stats.lines),
            bits: packing.bits(),
            imbalance: busiest as f64 * all.len() as f64 / expanded.max(1) as f64,
            properties: ended.verdicts.clone(),
        })
    }
}
