//! `explore`: explores the reachable states of a Petri net breadth first.

mod failures;
mod host;
pub(super) mod row;
mod verdict;

use std::process::ExitCode;

use clap::builder::TypedValueParser;
use clap::{Args, ValueHint};
use probeline::table::{Config, OneRoundtrip};
use probeline::transport::{Exchange, Owner};
use probeline_programs::Error;
use probeline_programs::explore::{
    self, Ending, Exploration, Explored, MAX_TREES_BYTES, Property, StatesChoice,
};
use probeline_programs::petri::{Invariant, Net, Packing};

use self::host::Host;
use self::row::ExploreRow;
use super::report_job;
use crate::agreement::{Digest, Input};
use crate::cli::{ChunkArgs, JobArgs, TransportName, heading, one_of, power_of_two};
use crate::failure::{Failure, REFUTED, Result};
use crate::interrupt::Interrupt;
use crate::job::{JobEngine, Needs};
use crate::options::Options;
use crate::progress::Progress;
use crate::run_report::fields;
use crate::size::Size;
use crate::table::{PipelineArgs, batch, name_of};

/// Default of `--table-size`: 3 million states of one word. A smaller table would save little time,
/// and few nets need many growths.
const TABLE_SIZE: Size = Size::mib(32);
/// Default of `--table-size` over transports where the table does not grow, as for other commands.
const TABLE_SIZE_FOR_GOOD: Size = Size::mib(128);
const TABLE_SIZE_HELP: &str = "\
Memory for the table at first, all ranks together. At a load factor of 0.8, or when it is full, its \
states move to one four times as large, up to --max-table-size [default: 32MiB; 128MiB over sim and \
mpi, where it does not grow]";

/// Heading of the properties to check.
const PROPERTIES: &str = "Properties";

#[derive(Args, Clone, Debug)]
#[command(mut_arg("table_size_asked", |option| option.help(TABLE_SIZE_HELP)))]
#[command(mut_arg("seed", |option| option.help("Seed of the simulator").hide_short_help(true)))]
pub(crate) struct ExploreArgs {
    /// A PNML file with a place/transition net, or kanban:N, fms:N, philosophers:N, peterson:N
    #[arg(value_hint = ValueHint::FilePath)]
    model: String,

    #[command(flatten)]
    chunks: ChunkArgs,

    /// Memory up to which the table grows, all ranks together [default: three quarters of the
    /// memory available when it grows; at most 16GiB with --states tree]
    #[arg(long, value_name = "SIZE")]
    max_table_size: Option<Size>,

    /// How the table holds a state
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = choices())]
    states: StatesChoice,

    /// Find a deadlock, a state in which no transition is enabled, and print a shortest path of
    /// transitions to it
    #[arg(long, help_heading = PROPERTIES)]
    find_deadlock: bool,

    /// Check a linear inequality over places in every state, such as 'p1 + 2 * p2 <= 3' or 'p == q',
    /// and print a state that violates it with a shortest path of transitions; may be repeated.
    /// Exploring ends once all properties are violated. Until then, all states found are kept in
    /// memory beside the table
    #[arg(long, value_name = "INEQUALITY", allow_hyphen_values = true, help_heading = PROPERTIES)]
    invariant: Vec<String>,

    #[command(flatten)]
    pipeline: PipelineArgs,

    #[command(flatten)]
    expand: ExpandArgs,

    // Last, because its headings in the help apply to all options after them.
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

/// Options of the lookups of successors.
#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = heading::LATENCY)]
struct ExpandArgs {
    /// Successors that one batch call looks up, rounded up to whole states; 1 makes single calls,
    /// as with --paper
    #[arg(long, value_name = "N", default_value_t = 512)]
    #[arg(default_value_if("paper", "true", "1"), value_parser = batch())]
    batch: u32,

    /// Most recent states, 8 bytes a word, that a rank remembers, to skip their find-or-puts: a power
    /// of two from 2 on, or 0, as with --paper
    // In kanban:6, 1 << 14 is 1.2 to 1.5 times as fast as 1 << 17: few successors are left to
    // filter.
    #[arg(long, value_name = "STATES", default_value_t = 1 << 14)]
    #[arg(value_parser = power_of_two(2..=1 << 28))]
    #[arg(default_value_if("paper", "true", "0"))]
    recent_states: u32,

    /// Look up every successor, even if another state of the same or an earlier level leads to it, as
    /// with --paper
    #[arg(long, default_value_if("paper", "true", "true"))]
    all_successors: bool,
}

/// The job of a rank: it explores the net and the packing that it has read and computed by itself.
struct Job {
    args: ExploreArgs,
    exploration: Exploration,
}

fn choices() -> impl TypedValueParser<Value = StatesChoice> {
    one_of(&[
        (
            "auto",
            "In the bucket, 8 bytes, if 63 bits are enough; flat otherwise",
            StatesChoice::Auto,
        ),
        (
            "flat",
            "In an array of 16 to 128 bytes a state, beside 8 bytes for the bucket",
            StatesChoice::Flat,
        ),
        (
            "tree",
            "As a tree of pairs that states share, 8 to 10 bytes for most wide states; slower",
            StatesChoice::Tree,
        ),
    ])
}

pub(crate) fn run(mut args: ExploreArgs) -> Result<ExitCode> {
    args.check_trees()?;
    let size = |job: &JobArgs| if grows(job.transport) { TABLE_SIZE } else { TABLE_SIZE_FOR_GOOD };
    args.job.resolve_with(size, &[args.chunks.chunk_buckets])?;
    args.check_growth()?;
    args.job.refuse_seed()?;
    args.pipeline.table.check(&[args.chunks.chunk_buckets])?;
    let net = Net::load(&args.model).map_err(|error| match error {
        Error::Parameter(_) => Failure::usage(error.to_string()),
        _ => error.into(),
    })?;
    let properties = args.properties(&net)?;
    let packing = Packing::wide(&net, &args.states.widths());
    let packing = packing.map_err(|error| failures::unpacked(&net, &error))?;
    if packing.words() > 1 {
        Options::refuse(&["one-roundtrip", "cache"], "is for states of at most 63 bits")?;
    }
    let job = Job { exploration: args.exploration(net, packing, properties), args };
    let (args, exploration) = (&job.args, &job.exploration);
    // The other ranks exit with success: a launcher would end rank 0 before its report if another
    // rank failed.
    let reported = report_job("explore", &args.job, job.needs(), |engine, exchange| {
        job.explore(engine, exchange)
    })?;
    let Some((mut report, files, explored)) = reported else { return Ok(ExitCode::SUCCESS) };
    report.parameters(fields!(args.chunks; chunk_buckets, max_chunks));
    report.parameters(fields!(args.expand; batch, recent_states, all_successors));
    report.parameter("states", name_of(args.states));
    // The buckets below are those of the last table too.
    if explored.table_bytes != args.job.table_size.0 {
        report.parameter("first_table_bytes", args.job.table_size.0);
        report.parameter("table_bytes", explored.table_bytes);
    }
    let config = exploration.buckets(explored.words, explored.table_bytes);
    let mut pipeline = args.pipeline.clone();
    let ignored = if explored.words > 1 { pipeline.ignored(&exploration.config) } else { None };
    report.parameters(pipeline.parameters(&config));
    report.parameter("buckets_per_rank", config.buckets_per_owner);
    report.parameter("places", exploration.net.places().len());
    report.parameter("transitions", exploration.net.transitions().len());
    let row = ExploreRow::new(&args.model, args.job.ranks, &explored);
    let reason = match &explored.ending {
        Ending::OutOfRoom(reason) => Some(job.out_of_room(reason).to_string()),
        _ => None,
    };
    report.summary = row.summary(&explored.ending, reason.as_deref());
    let status = match explored.ending {
        Ending::Stopped(number) => {
            Interrupt::from_number(number).map_or(ExitCode::FAILURE, Interrupt::exit_code)
        }
        _ if row.is_violated() => ExitCode::from(REFUTED),
        _ => ExitCode::SUCCESS,
    };
    report.note(ignored);
    report.publish(files, &[row])?;
    Ok(status)
}

impl Job {
    fn needs(&self) -> Needs {
        let model = &self.args.model;
        // The places of invariants follow from the net. So should the packing, which each rank computes.
        let Exploration { net, packing, .. } = &self.exploration;
        let net = Input {
            name: "net",
            value: Digest::of(&format!("{net:?}{packing:?}")).to_string(),
            advice: format!(
                "and with the same net: each rank reads {model} itself, and the files differ"
            ),
        };
        Needs { inputs: vec![net], ..self.exploration.sizes().into() }
    }

    fn explore(&self, engine: &mut JobEngine<'_>, exchange: &mut dyn Exchange) -> Result<Explored> {
        Interrupt::watch(exchange)?;
        let (args, exploration) = (&self.args, &self.exploration);
        let progress = Progress::new(None, exchange.me() == Owner(0));
        let mut host = Host { table: &args.pipeline.table, progress };
        let explored = explore::run(exploration, engine, &mut host, exchange);
        let explored = explored.map_err(|error| match error {
            Error::OutOfRoom(reason) => self.out_of_room(&reason),
            Error::Growing { bytes, error } => {
                host::failure(*error).or(&format!("while the table grew to {}", Size(bytes)))
            }
            error => host::failure(error),
        })?;
        // More signals may arrive after the first: `timeout` sends two.
        if !matches!(explored.ending, Ending::Stopped(_)) {
            Interrupt::stop_watching(exchange)?;
        }
        Ok(explored)
    }
}

impl ExploreArgs {
    /// Refuses a table that is larger than the references between the nodes of trees reach.
    fn check_trees(&self) -> Result<()> {
        let max = Size(MAX_TREES_BYTES);
        match self.job.table_size_asked {
            Some(asked) if self.states == StatesChoice::Tree && asked.0 > max.0 => {
                Err(Failure::usage(format!(
                    "--table-size {asked} is too large for --states tree, which has tables of at \
                     most {max}: give a smaller size, or --states flat"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Checks the sizes between which the table may grow.
    fn check_growth(&self) -> Result<()> {
        let (transport, size) = (self.job.transport, self.job.table_size);
        match self.max_table_size {
            Some(_) if !grows(transport) => Err(Failure::usage(format!(
                "--max-table-size is for transports over which the table grows, but over \
                 {} it does not: give --table-size alone",
                transport.name()
            ))),
            Some(max) if max.0 < size.0 => Err(Failure::usage(format!(
                "--max-table-size {max} is less than the initial size, {size}: give a smaller \
                 --table-size too"
            ))),
            _ => Ok(()),
        }
    }

    fn exploration(&self, net: Net, packing: Packing, properties: Vec<Property>) -> Exploration {
        let ChunkArgs { chunk_buckets, max_chunks } = self.chunks;
        let (job, pipeline) = (&self.job, &self.pipeline);
        Exploration {
            net,
            packing,
            properties,
            states: self.states,
            config: pipeline.table.config(job, chunk_buckets, max_chunks),
            in_flight: pipeline.in_flight,
            cache_entries: pipeline.table.cache,
            batch: self.expand.batch,
            recent_states: self.expand.recent_states,
            all_successors: self.expand.all_successors,
            ranks: job.ranks,
            ranks_here: job.ranks_here,
            table_bytes: job.table_size.0,
            max_table_bytes: self.max_table_size.map(|max| max.0),
            grows: grows(job.transport),
        }
    }

    /// Returns the properties of `net` that these options ask for.
    fn properties(&self, net: &Net) -> Result<Vec<Property>> {
        let mut all = Vec::new();
        if self.find_deadlock {
            all.push(Property::NoDeadlock);
        }
        for text in &self.invariant {
            let invariant = Invariant::parse(text, net)
                .map_err(|error| Failure::usage(format!("--invariant {error}")))?;
            all.push(Property::Invariant(invariant));
        }
        Ok(all)
    }
}

/// Returns whether tables grow over this transport.
fn grows(transport: TransportName) -> bool {
    !matches!(transport, TransportName::Mpi | TransportName::Sim)
}

impl PipelineArgs {
    /// Removes the cache, which states of several words do not have. Returns a note on the options without
    /// effect on them: those of a tuning, and those given for states that had one word when the search
    /// started.
    fn ignored(&mut self, narrow: &Config) -> Option<String> {
        let cache = (core::mem::take(&mut self.table.cache) > 0).then_some("--cache");
        let claims = (narrow.one_roundtrip == OneRoundtrip::On).then_some("--one-roundtrip");
        let ignored: Vec<&str> = cache.into_iter().chain(claims).collect();
        (!ignored.is_empty()).then(|| {
            format!("{}: without effect on states that have several words.", ignored.join(", "))
        })
    }
}
