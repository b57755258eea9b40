//! The options that several commands share.

pub(crate) mod help;
mod job;
mod rendezvous;
mod transport;

use core::ops::RangeInclusive;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, RangedI64ValueParser, TypedValueParser};
use clap::{Arg, Args, ValueEnum, value_parser};

pub(crate) use job::JobArgs;
pub(crate) use rendezvous::{DEFAULT_PORT, ExchangeName, NodesArgs, PlaceArgs, RendezvousArgs};
pub(crate) use transport::{
    SimArgs, TransportName, UcxArgs, VerbsArgs, network, with_several_engines,
};

pub(crate) mod heading {
    pub(crate) const VERBS: &str = "RDMA (verbs)";
    pub(crate) const UCX: &str = "UCX (ucx)";
    pub(crate) const SIM: &str = "Simulator (sim)";
    pub(crate) const LATENCY: &str = "Hiding latency";
    pub(crate) const PLACEMENT: &str = "Placement (shm, verbs)";
    pub(crate) const NODES: &str = "Two nodes";
    pub(crate) const RENDEZVOUS: &str = "Ranks started by hand, mpirun or srun";

    /// The headings of options that only these transports have. MPI connects its ranks itself, and
    /// the simulator has all of them in one process.
    pub(crate) const OF_TRANSPORTS: [(&str, &[&str]); 5] = [
        (VERBS, &["verbs"]),
        (UCX, &["ucx"]),
        (SIM, &["sim"]),
        (PLACEMENT, &["shm", "verbs", "ucx", "mpi"]),
        (RENDEZVOUS, &["shm", "verbs", "ucx"]),
    ];
}

/// Parses one of these names, each with its help and its value.
pub(crate) fn one_of<T: Copy + Send + Sync + 'static>(
    all: &'static [(&'static str, &'static str, T)],
) -> impl TypedValueParser<Value = T> {
    let names = all.iter().map(|&(name, help, _)| {
        let value = PossibleValue::new(name);
        if help.is_empty() { value } else { value.help(help) }
    });
    let value = |given: String| all.iter().find(|(name, ..)| *name == given).map(|all| all.2);
    PossibleValuesParser::new(names).try_map(move |name| value(name).ok_or("no value"))
}

pub(crate) fn on_off() -> impl TypedValueParser<Value = bool> {
    one_of(&[("on", "", true), ("off", "", false)])
}

/// Returns the name of an option's value, as the command line spells it.
pub(crate) fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Parses a number within these bounds; `what` names it in the error.
pub(crate) fn within(
    what: &'static str,
    bounds: RangeInclusive<f64>,
) -> impl TypedValueParser<Value = f64> {
    move |text: &str| match text.parse::<f64>() {
        Ok(number) if bounds.contains(&number) => Ok(number),
        _ => Err(format!("{what} from {} to {}", bounds.start(), bounds.end())),
    }
}

pub(crate) fn seconds() -> impl TypedValueParser<Value = f64> {
    within("seconds", 0.001..=3600.0)
}

/// Parses 0 or a power of two within these bounds.
pub(crate) fn power_of_two(bounds: RangeInclusive<u32>) -> impl TypedValueParser<Value = u32> {
    move |text: &str| match text.parse::<u32>() {
        Ok(number) if number == 0 || bounds.contains(&number) && number.is_power_of_two() => {
            Ok(number)
        }
        _ => Err(format!("0 or a power of two from {} to {}", bounds.start(), bounds.end())),
    }
}

/// Options of every command.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct GlobalArgs {
    /// Print only the answer and errors: no header, no notes, no progress
    #[arg(short, long, global = true, display_order = 1000)]
    pub(crate) quiet: bool,
}

/// Adds the default of a command to the help of `--table-size`.
pub(crate) fn with_default(table_size: Arg, default: &str) -> Arg {
    let help = table_size.get_help().map(ToString::to_string).unwrap_or_default();
    table_size.help(format!("{help} [default: {default}]"))
}

/// Files for the results.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Results")]
pub(crate) struct OutputArgs {
    /// Write the results as JSON to FILE, or to standard output if it is `-`
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write the rows of the results as CSV to FILE, or to standard output if it is `-`
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,

    /// Print every row, column, fact and note
    #[arg(long)]
    pub(crate) full: bool,
}

impl OutputArgs {
    /// Returns the files with their options.
    pub(crate) fn files(&self) -> [(&'static str, &Option<PathBuf>); 2] {
        [("--json", &self.json), ("--csv", &self.csv)]
    }
}

/// One C and one M.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ChunkArgs {
    /// C, buckets that one chunk READ transfers: a multiple of 8
    #[arg(short = 'C', long, default_value_t = 32, value_name = "C", value_parser = chunk_buckets(MAX_CHUNK_BUCKETS))]
    pub(crate) chunk_buckets: u32,

    /// M, maximum chunks that an operation probes before it answers full
    #[arg(short = 'M', long, default_value_t = 32, value_name = "M", value_parser = max_chunks())]
    pub(crate) max_chunks: u32,
}

/// Several C and one M.
#[derive(Args, Clone, Debug)]
pub(crate) struct ChunkListArgs {
    /// C, buckets that one chunk READ transfers: multiples of 8, separated by commas
    #[arg(short = 'C', long, default_value = "8,16,32,64,128", value_delimiter = ',')]
    #[arg(value_name = "C,...", value_parser = chunk_buckets(MAX_CHUNK_BUCKETS))]
    pub(crate) chunk_buckets: Vec<u32>,
}

/// The maximum C: the words that one READ of the simulator transfers, 512 KiB.
const MAX_CHUNK_BUCKETS: u32 = 1 << 16;

/// Parses C, a multiple of 8 from 8 to `max`, so that an invalid one fails before anything starts.
pub(crate) fn chunk_buckets(max: u32) -> impl TypedValueParser<Value = u32> {
    move |text: &str| match text.parse::<u32>() {
        Ok(c) if c.is_multiple_of(8) && (8..=max).contains(&c) => Ok(c),
        _ => Err(format!("C is a multiple of 8 from 8 to {max}")),
    }
}

/// Maximum rounds of a measurement.
pub(crate) const MAX_ROUNDS: i64 = 999;

pub(crate) fn rounds() -> RangedI64ValueParser<u32> {
    value_parser!(u32).range(1..=MAX_ROUNDS)
}

pub(crate) fn max_chunks() -> RangedI64ValueParser<u32> {
    value_parser!(u32).range(1..=1 << 16)
}
