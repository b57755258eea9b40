//! `explore`: explores the reachable states of a Petri net breadth first. The table is the set of
//! visited states, which is the use that the paper designed it for (section 1).

mod counterexample;
mod expansion;
mod failures;
mod frontier;
mod property;
mod row;
mod search;
mod searches;
mod states;
mod table_size;
mod tables;

use std::process::ExitCode;

use clap::{Args, ValueHint, value_parser};
use probeline::table::Config;
use probeline::transport::{Exchange, Sizes};
use probeline_petri::{Net, Packing};
use probeline_results::Row;

use self::frontier::{READ_WORDS, READS, SHARE_WORDS};
use self::property::{Property, PropertyArgs};
use self::row::ExploreRow;
use self::search::Ending;
use self::searches::Searches;
use self::states::{States, StatesChoice};
use self::tables::JobEngine;
use super::limits::TableLimit;
use super::report_job;
use crate::agreement::Input;
use crate::cli::{ChunkArgs, JobArgs, power_of_two};
use crate::digest::Digest;
use crate::failure::{Failure, REFUTED, Result};
use crate::interrupt::Interrupt;
use crate::job::{Open, Scenario};
use crate::size::Size;
use crate::table::{MOST_BATCH, PipelineArgs};
use crate::timed::Timed;

/// Default of `--table-size`: 3 million states of one word. A smaller table would save little time,
/// and few nets need many growths.
const TABLE_SIZE: Size = Size::mib(32);
/// Default of `--table-size` over transports where the table does not grow, as for other commands.
const TABLE_SIZE_FOR_GOOD: Size = Size::mib(128);
const TABLE_SIZE_HELP: &str = "\
Memory for the table at first, all ranks together. At a load factor of 0.8, or when it is full, its \
states move to one four times as large, up to --max-table-size [default: 32MiB; 128MiB over sim and \
mpi, where it does not grow]";

#[derive(Args, Clone, Debug)]
#[command(mut_arg("table_size_asked", |option| option.help(TABLE_SIZE_HELP)))]
pub(crate) struct ExploreArgs {
    /// A PNML file with a place/transition net, or kanban:N, fms:N, philosophers:N, peterson:N
    #[arg(value_hint = ValueHint::FilePath)]
    model: String,

    #[command(flatten)]
    chunks: ChunkArgs,

    #[command(flatten)]
    expand: ExpandArgs,

    /// Memory up to which the table grows, all ranks together [default: three quarters of the
    /// memory available when it grows; at most 16GiB with --states tree]
    #[arg(long, value_name = "SIZE")]
    max_table_size: Option<Size>,

    /// How the table holds a state
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = states::choices())]
    states: StatesChoice,

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
    /// Successors that one batch call looks up, rounded up to whole states; 1 makes single calls,
    /// as with --paper
    #[arg(long, value_name = "N", default_value_t = 512)]
    #[arg(default_value_if("paper", "true", "1"))]
    #[arg(value_parser = value_parser!(u32).range(1..=MOST_BATCH))]
    batch: u32,

    /// Most recent states, 8 bytes a word, that a rank remembers, to skip their find-or-puts: a power
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
    args.check_trees()?;
    args.job.settle(TABLE_SIZE, TABLE_SIZE, &[args.chunks.chunk_buckets])?;
    args.settle_growth()?;
    args.pipeline.table.check(&[args.chunks.chunk_buckets])?;
    let net = Net::load(&args.model)?;
    let properties = args.properties.properties(&net)?;
    let words: Vec<u32> = args.states.all().iter().map(|states| states.words).collect();
    let packing = Packing::wide(&net, &words);
    let packing = packing.map_err(|error| failures::unpacked(&net, &error))?;
    if packing.words() > 1 {
        states::check_options(&args.job)?;
    }
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
    report.parameter("states", args.states.name());
    let Explored { row, limit, words, size, ending } = output;
    // The buckets below are those of the last table too.
    if size != args.job.table_size {
        report.parameter("first_table_bytes", args.job.table_size.0);
        report.parameter("table_bytes", size.0);
    }
    let (config, _) = exploration.sizes_of_words(words, size);
    let ignored = match words {
        1 => {
            report.parameters(args.pipeline.parameters(&config));
            None
        }
        _ => {
            report.parameters(states::wide_args(&args.pipeline).parameters(&config));
            states::without_effect(&args.pipeline, &exploration.config())
        }
    };
    report.parameter("buckets_per_rank", config.buckets_per_owner);
    report.parameter("places", exploration.net.places().len());
    report.parameter("transitions", exploration.net.transitions().len());
    report.summary = row.summary(&ending);
    let status = match ending {
        Ending::Interrupted(signal) => signal.exit_code(),
        _ if row.is_violated() => ExitCode::from(REFUTED),
        _ => ExitCode::SUCCESS,
    };
    report.notes = ExploreRow::notes();
    report.notes.extend(limit.map(|limit| limit.note().into()));
    report.notes.extend(ignored.map(Into::into));
    report.rows = vec![row];
    report.publish(files)?;
    Ok(status)
}

pub(crate) struct Explored {
    row: ExploreRow,
    limit: Option<TableLimit>,
    /// Words of a state in the last table.
    words: usize,
    /// Of the last table.
    size: Size,
    ending: Ending,
}

impl Scenario for Exploration {
    type Output = Explored;

    fn sizes(&self) -> Sizes {
        self.sizes_of(self.args.job.table_size)
    }

    fn inputs(&self) -> Vec<Input> {
        let model = &self.args.model;
        // Lists of numbers, each after its length.
        let properties = self.properties.iter().map(Property::encoding);
        let properties = properties.flat_map(|of| [vec![of.len() as u64], of].concat());
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
            Input {
                name: "properties",
                digest: Digest::of_numbers("properties", properties),
                advice: format!(
                    "and with the same net: each rank reads {model} itself, and the names in \
                     --invariant mean other places"
                ),
            },
        ]
    }

    fn run<T: Timed>(&self, engine: &mut T, exchange: &mut dyn Exchange) -> Result<Self::Output> {
        self.run_on(engine, None, exchange)
    }

    fn run_on<T: Timed>(
        &self,
        engine: &mut T,
        open: Option<&Open<'_, T>>,
        exchange: &mut dyn Exchange,
    ) -> Result<Self::Output> {
        Interrupt::watch(exchange)?;
        // The limit is that of a table of one word a state.
        let limit = match self.packing.words() {
            1 => TableLimit::measure(engine, &self.config(), &self.args.job, exchange)?,
            _ => None,
        };
        let searches = Searches::new(self, limit, engine.now_ns());
        searches.run(&mut JobEngine { current: engine, open }, exchange)
    }
}

impl ExploreArgs {
    /// Refuses a table that is larger than the references between the nodes of trees reach.
    fn check_trees(&self) -> Result<()> {
        let most = table_size::MAX_TREES;
        match self.job.table_size_asked {
            Some(asked) if self.states == StatesChoice::Tree && asked.0 > most.0 => {
                Err(Failure::usage(format!(
                    "--table-size {asked} is too large for --states tree, which has tables of at \
                     most {most}: give a smaller size, or --states flat"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Checks the sizes between which the table may grow.
    fn settle_growth(&mut self) -> Result<()> {
        let transport = self.job.transport;
        if !table_size::grows(transport) {
            self.job.prefer_table_size(TABLE_SIZE_FOR_GOOD);
        }
        let size = self.job.table_size;
        match self.max_table_size {
            Some(_) if !table_size::grows(transport) => Err(Failure::usage(format!(
                "--max-table-size is for transports over which the table grows, but over \
                 {} it does not: give --table-size alone",
                transport.name()
            ))),
            Some(most) if most.0 < size.0 => Err(Failure::usage(format!(
                "--max-table-size {most} is less than the size at first, {size}: give a smaller \
                 --table-size too"
            ))),
            _ => Ok(()),
        }
    }
}

impl Exploration {
    /// Returns what is compiled for states of this number of words.
    fn states(&self, words: usize) -> &'static States {
        let all = self.args.states.all();
        let found = all.iter().find(|states| states.words as usize == words);
        found.unwrap_or(&all[0])
    }

    /// Returns the configuration of the buckets of a table of this size, of states of this number of
    /// words, and the sizes of its engines.
    fn sizes_of_words(&self, words: usize, size: Size) -> (Config, Sizes) {
        (self.states(words).sizes)(self.config_of(size), self.args.pipeline.in_flight)
    }

    /// Returns the sizes of engines for a table of this size.
    fn sizes_of(&self, size: Size) -> Sizes {
        let now = self.packing.words();
        // A packing that overflows may need more words.
        let may_be = |&words: &usize| words == now || words > now && self.packing.may_overflow();
        let words = self.args.states.all().iter().map(|states| states.words as usize);
        let least = Sizes { window_words: 0, slots: 0, slot_words: READ_WORDS, depth: READS };
        let sizes = words.filter(may_be).fold(least, |all, words| {
            let (_, sizes) = self.sizes_of_words(words, size);
            Sizes {
                window_words: all.window_words.max(sizes.window_words),
                slots: all.slots.max(sizes.slots),
                slot_words: all.slot_words.max(sizes.slot_words),
                depth: all.depth.max(sizes.depth),
            }
        });
        Sizes {
            window_words: sizes.window_words + SHARE_WORDS,
            slots: sizes.slots + READS,
            ..sizes
        }
    }

    /// Returns the configuration of a table of this size, of states of one word.
    fn config_of(&self, size: Size) -> Config {
        Config { buckets_per_owner: self.args.job.buckets_of(size), ..self.config() }
    }

    fn config(&self) -> Config {
        let ChunkArgs { chunk_buckets, max_chunks } = self.args.chunks;
        self.args.pipeline.table.config(&self.args.job, chunk_buckets, max_chunks)
    }
}
