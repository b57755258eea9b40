//! `--tuning FILE`: what it says, as options that were not given.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use probeline_tuning::Tuning;

use crate::cli::command_at;
use crate::failure::{Failure, Result};

/// The file that options are from, and those that were given all the same.
#[derive(Clone, Debug)]
pub(crate) struct Tuned {
    pub(crate) path: String,
    /// By name, as the report has them, separated by commas; these are not the file's.
    pub(crate) given: String,
    /// Whether it was found where the CPU does all itself, and nothing chose how READs are done.
    pub(crate) direct: bool,
}

/// Commands with a table that a tuning is of.
const COMMANDS: [&str; 6] =
    ["bench-latency", "bench-throughput", "roundtrips", "compare", "explore", "simulate"];

/// An option by its name in the command line's definition, and what a tuning says of it.
type Tunable = (&'static str, &'static str, fn(&Tuning) -> Option<String>);

const OPTIONS: [Tunable; 10] = [
    ("chunk_buckets", "--chunk-buckets", |tuning| Some(tuning.chunk_buckets.to_string())),
    ("throughput_chunk_buckets", "--throughput-chunk-buckets", |tuning| {
        Some(tuning.chunk_buckets.to_string())
    }),
    ("max_chunks", "--max-chunks", |tuning| Some(tuning.max_chunks.to_string())),
    ("read_ahead", "--read-ahead", |tuning| Some(tuning.read_ahead_name().to_owned())),
    ("one_roundtrip", "--one-roundtrip", |tuning| Some(tuning.one_roundtrip_name().to_owned())),
    ("direct", "--direct", |tuning| Some(if tuning.direct { "on" } else { "off" }.to_owned())),
    ("cache", "--cache", |tuning| Some(tuning.cache_entries.to_string())),
    ("in_flight", "--in-flight", |tuning| Some(tuning.operations().to_string())),
    // Of a simulated rank, which has one in flight where its calls are blocking.
    ("simulated_in_flight", "--in-flight", |tuning| Some(tuning.in_flight.to_string())),
    // Blocking calls, where one operation is in flight; else as without a tuning.
    ("batch", "--batch", |tuning| (tuning.in_flight == 1).then(|| "1".to_owned())),
];

/// The arguments with what the tuning says, where one was given; `matches` is what they are
/// without, to the command line of this `definition`.
pub(crate) fn expand(
    arguments: &[OsString],
    definition: &Command,
    matches: &ArgMatches,
) -> Result<Option<(Vec<OsString>, Tuned)>> {
    let Some((command, matches)) = matches.subcommand() else { return Ok(None) };
    // An error is that of a command without the option.
    let Ok(Some(path)) = matches.try_get_one::<PathBuf>("tuning") else { return Ok(None) };
    if !COMMANDS.contains(&command) {
        return Err(Failure::usage(format!(
            "--tuning is of a table, and {command} measures what none is given: leave it out. It is \
             for {}",
            COMMANDS.join(", ")
        )));
    }
    if matches.try_get_one::<bool>("paper").ok().flatten() == Some(&true) {
        return Err(Failure::usage(
            "--paper is an algorithm and --tuning says another: leave out one of the two options",
        ));
    }
    let definition = definition.find_subcommand(command);
    // Only a build with debug assertions tells an option that the command has not from one that was
    // not given, where it is asked for its matches.
    let has = |id: &str| {
        definition.is_some_and(|of| of.get_arguments().any(|option| option.get_id() == id))
    };
    let tuning = Tuning::load(path)?;
    let (more, given) = of_file(matches, has, &tuning);
    // Behind the command's name, where nothing ends the options yet.
    let (name, rest) = arguments.split_at(arguments.len().min(command_at(arguments) + 1));
    let all = name.iter().cloned().chain(more).chain(rest.iter().cloned()).collect();
    let path = path.display().to_string();
    Ok(Some((all, Tuned { path, given: given.join(", "), direct: tuning.direct })))
}

fn of_file(
    matches: &ArgMatches,
    has: impl Fn(&str) -> bool,
    tuning: &Tuning,
) -> (Vec<OsString>, Vec<&'static str>) {
    let (mut more, mut given) = (Vec::new(), Vec::new());
    for (id, option, value) in OPTIONS {
        if !has(id) {
            continue;
        }
        if matches.value_source(id) == Some(ValueSource::CommandLine) {
            given.push(id);
        } else if let Some(value) = value(tuning) {
            more.push(format!("{option}={value}").into());
        }
    }
    (more, given)
}
