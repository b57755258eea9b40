//! `explore`: the reachable states of a Petri net, breadth first, with find-or-put as the set of
//! visited states (what the paper's table was written for, section 1).

mod frontier;

use clap::Args;
use serde::Serialize;
use table::{Config, Outcome};
use transport::{Exchange, Owner};

use self::frontier::Frontier;
use super::{BlockingTable, OPERATIONS, full, gather, open, shape};
use crate::cli::{ChunkArgs, JobArgs};
use crate::failure::{Failure, Result};
use crate::job::{self, Scenario, Shape};
use crate::net::{ENTRY_BITS, FiringRule, Net, Overflow, Packing};
use crate::progress::Progress;
use crate::report::{Files, Report, Row};
use crate::size::Size;
use crate::timed::Timed;

#[derive(Args, Clone, Debug)]
pub(crate) struct ExploreArgs {
    /// A PNML file with a place/transition net, or kanban:N, fms:N, philosophers:N
    model: String,

    #[command(flatten)]
    chunks: ChunkArgs,

    // Last: its headings in the help hold for whatever comes after them.
    #[command(flatten)]
    job: JobArgs,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct ExploreRow {
    model: String,
    ranks: u32,
    states: u64,
    arcs: u64,
    levels: u64,
    deadlocks: u64,
    seconds: f64,
    states_per_s: f64,
    load_factor: f64,
    effective_roundtrips_per_state: f64,
    outgoing_roundtrips_per_state: f64,
    claims_lost: u64,
    bits: u32,
    /// States that the busiest rank expanded, by the mean.
    imbalance: f64,
}

/// The net, read and packed the same way by every rank.
struct Exploration {
    args: ExploreArgs,
    net: Net,
    packing: Packing,
}

pub(crate) fn run(mut args: ExploreArgs) -> Result<()> {
    args.job.settle(Size::mib(128), Size::mib(128), &[args.chunks.chunk_buckets])?;
    let files = Files::open(&args.job.output)?;
    let net = Net::load(&args.model)?;
    let packing = Packing::new(&net)?;
    let exploration = Exploration { args, net, packing };
    let args = &exploration.args;
    // Before the run, which would show in the load.
    let mut report = Report::new("explore");
    let Some(ended) = job::run(&args.job, &exploration)? else { return Ok(()) };
    report.transport = ended.transport;
    report.job(&args.job);
    report.parameter("chunk_buckets", args.chunks.chunk_buckets);
    report.parameter("max_chunks", args.chunks.max_chunks);
    report.parameter("places", exploration.net.places().len());
    report.parameter("transitions", exploration.net.transitions().len());
    report.rows = vec![ended.output];
    report.notes = vec![
        "arcs: pairs of a state and a transition enabled in it. levels: breadth-first levels, the \
         initial state's included. deadlocks: states in which no transition is enabled."
            .to_owned(),
        format!(
            "bits: the width of a packed marking, {ENTRY_BITS} at most. eff, out: chunk READs \
             waited for and posted, per state, all find-or-puts of its successors together."
        ),
    ];
    report.publish(files)
}

impl Row for ExploreRow {
    const HEAD: &'static [&'static str] = &[
        "model",
        "ranks",
        "states",
        "arcs",
        "levels",
        "deadlocks",
        "states/s",
        "load",
        "eff",
        "out",
        "bits",
        "imbalance",
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.model.clone(),
            self.ranks.to_string(),
            self.states.to_string(),
            self.arcs.to_string(),
            self.levels.to_string(),
            self.deadlocks.to_string(),
            format!("{:.0}", self.states_per_s),
            format!("{:.3}", self.load_factor),
            format!("{:.2}", self.effective_roundtrips_per_state),
            format!("{:.2}", self.outgoing_roundtrips_per_state),
            self.bits.to_string(),
            format!("{:.3}", self.imbalance),
        ]
    }
}

impl Scenario for Exploration {
    type Output = ExploreRow;

    fn shape(&self) -> Shape {
        let slot_words = self.args.chunks.chunk_buckets.max(frontier::READ_WORDS);
        shape(&self.config(), slot_words.next_multiple_of(8), frontier::SHARE_WORDS, 1)
    }

    fn parameters(&self) -> String {
        format!(
            "command=explore model={} places={} transitions={} buckets_per_owner={} \
             chunk_buckets={} max_chunks={}",
            self.args.model.replace(' ', "_"),
            self.net.places().len(),
            self.net.transitions().len(),
            self.args.job.buckets_per_owner(),
            self.args.chunks.chunk_buckets,
            self.args.chunks.max_chunks
        )
    }

    fn run<T: Timed>(&self, engine: T, exchange: &mut dyn Exchange) -> Result<ExploreRow> {
        let start = engine.now_ns();
        let config = self.config();
        let mut table = open(engine, config, exchange)?;
        let mut packing = self.packing.clone();
        // Each turn widens a field for good, so there are at most 63.
        let counts = loop {
            table.clear(exchange)?;
            table.reset_stats();
            match self.search(&mut table, &packing, exchange)? {
                Searched::All(counts) => break counts,
                Searched::Overflowed(overflow) => {
                    packing = packing
                        .grown(&self.net, overflow)
                        .map_err(|error| Failure::from(error).everywhere())?;
                }
            }
        };
        let took_ns = table.engine().now_ns() - start;
        self.row(&mut table, &packing, &counts, took_ns, exchange)
    }
}

enum Searched {
    All(Counts),
    /// A marking did not fit; the same one on every rank.
    Overflowed(Overflow),
}

/// Sums of a rank; of all ranks, once they are gathered.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    states: u64,
    expanded: u64,
    arcs: u64,
    deadlocks: u64,
    levels: u64,
}

/// Why a rank cannot go on with a level; all of them stop at its end.
enum Stop {
    Overflow(Overflow),
    Full,
}

impl Exploration {
    fn config(&self) -> Config {
        let ChunkArgs { chunk_buckets, max_chunks } = self.args.chunks;
        self.args.job.config(chunk_buckets, max_chunks)
    }

    fn search<T: Timed>(
        &self,
        table: &mut BlockingTable<T>,
        packing: &Packing,
        exchange: &mut dyn Exchange,
    ) -> Result<Searched> {
        let rule = FiringRule::new(&self.net, packing);
        let first_word = table.config().words();
        let mut frontier = Frontier::new(first_word, Config::slots(OPERATIONS));
        let mut progress = Progress::new(table.layout().buckets(), exchange.me() == Owner(0));
        let mut counts = Counts::default();
        if exchange.me() == Owner(0) {
            let initial: Vec<u64> = self.net.places().iter().map(|place| place.initial).collect();
            match packing.pack(&initial) {
                Ok(state) => {
                    table.find_or_put(state)?;
                    frontier.push(state);
                    counts.states = 1;
                }
                Err(overflow) => {
                    return Err(Failure::new(format!(
                        "the initial marking overflows: {overflow:?}"
                    )));
                }
            }
        }
        let mut held = 1;
        loop {
            frontier.spread(table, exchange)?;
            counts.levels += 1;
            let stop = expand(table, &rule, &mut frontier, &mut counts)?;
            let level = agree(stop.as_ref(), frontier.found(), exchange)?;
            held += level.found;
            progress.set(held, &format!("level {}, {held} states", counts.levels));
            if level.full {
                return Err(full(table.config(), table.layout().owners(), held)
                    .or("unless the net has no bound on its tokens, which fills any table")
                    .everywhere());
            }
            if let Some(overflow) = level.overflow {
                return Ok(Searched::Overflowed(overflow));
            }
            if level.found == 0 {
                return Ok(Searched::All(counts));
            }
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn row<T: Timed>(
        &self,
        table: &mut BlockingTable<T>,
        packing: &Packing,
        counts: &Counts,
        took_ns: u64,
        exchange: &mut dyn Exchange,
    ) -> Result<ExploreRow> {
        let stats = table.stats().total();
        let mine = [
            counts.states,
            counts.expanded,
            counts.arcs,
            counts.deadlocks,
            stats.effective_roundtrips,
            stats.outgoing_roundtrips,
            stats.claims_lost,
        ];
        let all = gather(exchange, mine)?;
        let sum = |i: usize| all.iter().map(|of_rank| of_rank[i]).sum::<u64>();
        let states = sum(0);
        let held = table.len(exchange)?;
        if held != states || sum(1) != states {
            return Err(Failure::new(format!(
                "{states} states were inserted, {held} are in the table and {} were expanded",
                sum(1)
            )));
        }
        let busiest = all.iter().map(|of_rank| of_rank[1]).max().unwrap_or(0);
        let per_state = |sum: u64| sum as f64 / states as f64;
        let seconds = took_ns as f64 / 1e9;
        Ok(ExploreRow {
            model: self.args.model.clone(),
            ranks: self.args.job.ranks,
            states,
            arcs: sum(2),
            levels: counts.levels,
            deadlocks: sum(3),
            seconds,
            states_per_s: states as f64 / seconds,
            load_factor: states as f64 / table.layout().buckets() as f64,
            effective_roundtrips_per_state: per_state(sum(4)),
            outgoing_roundtrips_per_state: per_state(sum(5)),
            claims_lost: sum(6),
            bits: packing.bits(),
            imbalance: busiest as f64 * all.len() as f64 / states as f64,
        })
    }
}

/// Expands this rank's part of a level; new states go to the next one.
fn expand<T: Timed>(
    table: &mut BlockingTable<T>,
    rule: &FiringRule,
    frontier: &mut Frontier,
    counts: &mut Counts,
) -> Result<Option<Stop>> {
    let mut successors = Vec::new();
    while let Some(state) = frontier.pop() {
        successors.clear();
        let enabled = match rule.successors(state, |_, successor| successors.push(successor)) {
            Ok(enabled) => enabled,
            Err(overflow) => return Ok(Some(Stop::Overflow(overflow))),
        };
        counts.expanded += 1;
        counts.arcs += u64::from(enabled);
        counts.deadlocks += u64::from(enabled == 0);
        for &successor in &successors {
            match table.find_or_put(successor)? {
                Outcome::Inserted => {
                    frontier.push(successor);
                    counts.states += 1;
                }
                Outcome::Found | Outcome::Absent => {}
                Outcome::Full => return Ok(Some(Stop::Full)),
            }
        }
    }
    Ok(None)
}

/// The end of a level, the same on every rank.
struct Level {
    found: u64,
    full: bool,
    overflow: Option<Overflow>,
}

fn agree(stop: Option<&Stop>, found: u64, exchange: &mut dyn Exchange) -> Result<Level> {
    let (full, overflow) = match stop {
        Some(Stop::Full) => (1, None),
        Some(Stop::Overflow(overflow)) => (0, Some(overflow)),
        None => (0, None),
    };
    let place = overflow.map_or(u64::MAX, |overflow| overflow.place as u64);
    let tokens = overflow.map_or(0, |overflow| overflow.tokens);
    let all = gather(exchange, [found, full, place, tokens])?;
    let first = all.iter().find(|of_rank| of_rank[2] != u64::MAX);
    Ok(Level {
        found: all.iter().map(|of_rank| of_rank[0]).sum(),
        full: all.iter().any(|of_rank| of_rank[1] != 0),
        overflow: first.map(|of_rank| Overflow {
            place: usize::try_from(of_rank[2]).unwrap_or(usize::MAX),
            tokens: of_rank[3],
        }),
    })
}
