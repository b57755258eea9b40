//! `explore`: the reachable states of a Petri net, breadth first, with find-or-put as the set of
//! visited states (what the paper's table was written for, section 1).

mod expansion;
mod frontier;
mod known;
mod row;
mod status;

use std::process::ExitCode;

use clap::{Args, ValueHint, value_parser};
use probeline_petri::{FiringRule, Net, Overflow, Packing};
use probeline_results::{gather, gather_values};
use probeline_table::{Config, Stats};
use probeline_transport::{Exchange, Owner};

use self::expansion::{Counts, Expansion, Stop};
use self::frontier::Frontier;
use self::row::ExploreRow;
use self::status::Status;
use super::full;
use super::limits::TableLimit;
use crate::agreement::Input;
use crate::cli::{ChunkArgs, JobArgs, TransportName};
use crate::digest::Digest;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::job::{self, Scenario, Shape};
use crate::means::{MOST_BATCH, MeansArgs, MeansTable};
use crate::report::{Files, Report};
use crate::size::Size;
use crate::timed::Timed;

/// How long ranks expand states before they exchange their progress and whether to stop: ten times
/// a second, and less often with many ranks, because meeting takes longer.
const ROUND_NS: u64 = 100_000_000;
const ROUND_NS_PER_RANK: u64 = 1_000_000;

#[derive(Args, Clone, Debug)]
pub(crate) struct ExploreArgs {
    /// A PNML file with a place/transition net, or kanban:N, fms:N, philosophers:N
    #[arg(value_hint = ValueHint::FilePath)]
    model: String,

    #[command(flatten)]
    chunks: ChunkArgs,

    #[command(flatten)]
    expand: ExpandArgs,

    #[command(flatten)]
    means: MeansArgs,

    // Last: its headings in the help hold for whatever comes after them.
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

/// How successors get to the table.
#[derive(Args, Clone, Copy, Debug)]
struct ExpandArgs {
    /// Successors that go through the table together, and those that the last state has beyond
    /// them; 1 puts one after the other. 512 without it, 1 with --paper
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=MOST_BATCH))]
    batch: Option<u32>,

    /// States, 8 bytes each, that a rank remembers to have put in the table and does not put
    /// again: a filter before the table, by states and not by buckets as --cache is; a power of two
    /// from 2 on, or 0. 131072 without it, 0 with --paper
    #[arg(long, value_name = "STATES", value_parser = known_states)]
    known_states: Option<u32>,
}

/// The same, settled.
#[derive(Clone, Copy, Debug)]
struct Expand {
    batch: u32,
    known_states: u32,
}

impl ExpandArgs {
    fn settle(&self, paper: bool) -> Expand {
        let (batch, known_states) = if paper { (1, 0) } else { (512, 1 << 17) };
        Expand {
            batch: self.batch.unwrap_or(batch),
            known_states: self.known_states.unwrap_or(known_states),
        }
    }
}

impl ExploreArgs {
    fn expand(&self) -> Expand {
        self.expand.settle(self.means.is_paper())
    }
}

/// A power of two, so that the top bits of a hash are an index.
fn known_states(text: &str) -> core::result::Result<u32, String> {
    match text.parse::<u32>() {
        Ok(states)
            if states == 0 || (2..=1 << 28).contains(&states) && states.is_power_of_two() =>
        {
            Ok(states)
        }
        _ => Err("it is 0 or a power of two from 2 to 268435456".to_owned()),
    }
}

/// The net, read and packed the same way by every rank.
struct Exploration {
    args: ExploreArgs,
    net: Net,
    packing: Packing,
}

pub(crate) fn run(mut args: ExploreArgs) -> Result<ExitCode> {
    args.job.settle(Size::mib(128), Size::mib(128), &[args.chunks.chunk_buckets])?;
    args.means.check(&[args.chunks.chunk_buckets])?;
    let files = Files::of_job(&args.job)?;
    let net = Net::load(&args.model)?;
    let packing = Packing::new(&net)?;
    let exploration = Exploration { args, net, packing };
    let args = &exploration.args;
    // Before the run, which would show in the load.
    let mut report = Report::new("explore");
    // The other ranks exit with success: a launcher would end rank 0 before its report if another
    // rank failed.
    let Some(ended) = job::run(&args.job, &exploration)? else { return Ok(ExitCode::SUCCESS) };
    report.transport = ended.transport;
    report.doctor.extend(ended.doctor);
    report.job(&args.job);
    report.parameter("chunk_buckets", args.chunks.chunk_buckets);
    report.parameter("max_chunks", args.chunks.max_chunks);
    report.parameter("batch", args.expand().batch);
    report.parameter("known_states", args.expand().known_states);
    for (name, value) in args.means.for_report(&exploration.config()) {
        report.parameter(name, value);
    }
    report.parameter("places", exploration.net.places().len());
    report.parameter("transitions", exploration.net.transitions().len());
    let Explored { row, limit, stopped_by } = ended.output;
    report.summary = row.summary(stopped_by);
    report.notes = row::notes(limit.as_ref());
    report.rows = vec![row];
    report.publish(files)?;
    Ok(stopped_by.map_or(ExitCode::SUCCESS, Interrupt::exit_code))
}

/// The result of an exploration.
pub(crate) struct Explored {
    row: ExploreRow,
    limit: Option<TableLimit>,
    /// The signal that ended the exploration before all states were expanded.
    stopped_by: Option<Interrupt>,
}

impl Scenario for Exploration {
    type Output = Explored;

    fn shape(&self) -> Shape {
        let slot_words = self.args.chunks.chunk_buckets.max(frontier::READ_WORDS);
        self.args.means.shape(&self.config(), slot_words, frontier::SHARE_WORDS, frontier::READS)
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
        let mut table = self.args.means.open(engine, self.config(), exchange)?;
        let mut packing = self.packing.clone();
        // The window is fresh, so the table is empty. Each turn widens a field for good, so there
        // are at most 63.
        let ended = loop {
            match self.search(&mut table, &packing, exchange)? {
                Searched::Ended(ended) => break ended,
                Searched::Overflowed(overflow) => {
                    packing = packing
                        .grown(&self.net, overflow)
                        .map_err(|error| Failure::from(error).everywhere())?;
                }
            }

            table.clear(exchange)?;
            table.reset_stats();
        };
        let took_ns = table.transport().now_ns() - start;
        // Signals to a stopped search may still arrive: `timeout` sends its own twice.
        match ended.stopped_by {
            Some(_) => Interrupt::has_stopped_work(),
            None => Interrupt::stop_watching(exchange)?,
        }
        let row = self.row(&mut table, &packing, &ended, took_ns, limit.as_ref(), exchange)?;
        Ok(Explored { row, limit, stopped_by: ended.stopped_by })
    }
}

enum Searched {
    Ended(Ended),
    /// A marking did not fit; the same one on every rank.
    Overflowed(Overflow),
}

/// The end of a search.
struct Ended {
    /// The counts of this rank.
    counts: Counts,
    /// States that no rank has expanded.
    open: u64,
    /// The signal that ended the search; `None` if all states were expanded.
    stopped_by: Option<Interrupt>,
}

impl Exploration {
    fn config(&self) -> Config {
        let ChunkArgs { chunk_buckets, max_chunks } = self.args.chunks;
        let sizes = self.args.job.config(chunk_buckets, max_chunks);
        self.args.means.config(sizes, self.args.job.transport == TransportName::Sim)
    }

    fn search<T: Timed>(
        &self,
        table: &mut MeansTable<T>,
        packing: &Packing,
        exchange: &mut dyn Exchange,
    ) -> Result<Searched> {
        let rule = FiringRule::new(&self.net, packing);
        let mut expansion = Expansion::new(rule, &self.args.expand());
        let first_word = table.config().words();
        let mut frontier = Frontier::new(first_word, Config::slots(self.args.means.in_flight));
        let mut status = Status::new(exchange.me() == Owner(0));
        let mut counts = Counts::default();
        if exchange.me() == Owner(0) {
            match packing.pack(&self.net.initial()) {
                Ok(state) => {
                    table.find_or_put(state)?;
                    frontier.push(state);
                    counts.states = 1;
                    counts.find_or_puts = 1;
                }
                Err(overflow) => {
                    return Err(Failure::new(format!(
                        "the initial marking overflows: {overflow:?}"
                    )));
                }
            }
        }
        let round_ns = ROUND_NS + ROUND_NS_PER_RANK * u64::from(exchange.owners());
        let mut round = agree(None, &frontier, exchange)?;
        // States of all levels before the next one.
        let mut states = 0;
        loop {
            if round.open == 0 {
                states += round.found();
                frontier.spread(table, &round.found, exchange)?;
            }
            let stop = expansion.expand(table, &mut frontier, &mut counts, round_ns)?;
            round = agree(stop.as_ref(), &frontier, exchange)?;
            let (found, open) = (round.found(), round.open + round.found());
            status.set(counts.levels + 1, states + found, open);
            counts.levels += u64::from(round.open == 0);
            if round.full {
                let held = states + found;
                return Err(full(table.config(), table.layout().owners(), held)
                    .or("unless the net has no bound on its tokens, which fills any table")
                    .everywhere());
            }
            if let Some(overflow) = round.overflow {
                return Ok(Searched::Overflowed(overflow));
            }
            if open == 0 || round.interrupt.is_some() {
                let stopped_by = round.interrupt.filter(|_| open > 0);
                return Ok(Searched::Ended(Ended { counts, open, stopped_by }));
            }
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn row<T: Timed>(
        &self,
        table: &mut MeansTable<T>,
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
            complete: ended.stopped_by.is_none(),
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
        })
    }
}

/// The state at the end of a round, the same on every rank.
struct Round {
    /// The states of the next level that each rank has found.
    found: Vec<u64>,
    /// The states of this level that all ranks have not expanded yet.
    open: u64,
    full: bool,
    overflow: Option<Overflow>,
    /// The signal that one of the ranks has received.
    interrupt: Option<Interrupt>,
}

impl Round {
    fn found(&self) -> u64 {
        self.found.iter().sum()
    }
}

fn agree(stop: Option<&Stop>, frontier: &Frontier, exchange: &mut dyn Exchange) -> Result<Round> {
    let (full, overflow) = match stop {
        Some(Stop::Full) => (1, None),
        Some(Stop::Overflow(overflow)) => (0, Some(overflow)),
        None => (0, None),
    };
    let place = overflow.map_or(u64::MAX, |overflow| overflow.place as u64);
    let tokens = overflow.map_or(0, |overflow| overflow.tokens);
    let signal = Interrupt::number(Interrupt::received());
    let mine = [frontier.found(), frontier.open(), full, place, tokens, signal];
    let all = gather(exchange, mine)?;
    let first = all.iter().find(|of_rank| of_rank[3] != u64::MAX);
    Ok(Round {
        found: all.iter().map(|of_rank| of_rank[0]).collect(),
        open: all.iter().map(|of_rank| of_rank[1]).sum(),
        full: all.iter().any(|of_rank| of_rank[2] != 0),
        overflow: first.map(|of_rank| Overflow {
            place: usize::try_from(of_rank[3]).unwrap_or(usize::MAX),
            tokens: of_rank[4],
        }),
        interrupt: all.iter().find_map(|of_rank| Interrupt::from_number(of_rank[5])),
    })
}
