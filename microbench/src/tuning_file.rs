//! `--tuning FILE`: a file whose values are the defaults of options that are not given.

use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use probeline::tuning::Tuning;

use crate::failure::{Failure, Result};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TuningFile {
    pub(crate) path: String,
    /// The options that the command line overrides, by their names in the report, separated by
    /// commas.
    pub(crate) given: String,
}

/// The id of an option, and its value in a tuning.
type Tunable = (&'static str, fn(&Tuning) -> Option<String>);

const OPTIONS: [Tunable; 10] = [
    ("chunk_buckets", |tuning| Some(tuning.chunk_buckets.to_string())),
    ("throughput_chunk_buckets", |tuning| Some(tuning.chunk_buckets.to_string())),
    ("max_chunks", |tuning| Some(tuning.max_chunks.to_string())),
    ("read_ahead", |tuning| Some(tuning.read_ahead_name().to_owned())),
    ("one_roundtrip", |tuning| Some(tuning.one_roundtrip_name().to_owned())),
    ("direct", |tuning| Some(if tuning.direct { "on" } else { "off" }.to_owned())),
    ("cache", |tuning| Some(tuning.cache_entries.to_string())),
    ("in_flight", |tuning| Some(tuning.operations().to_string())),
    // A simulated rank whose calls are blocking has one operation in flight.
    ("simulated_in_flight", |tuning| Some(tuning.in_flight.to_string())),
    // One operation in flight selects blocking calls; otherwise the usual default applies.
    ("batch", |tuning| (tuning.in_flight == 1).then(|| "1".to_owned())),
];

/// Sets the defaults of the options of `definition` from the tuning that `matches` name, if any.
pub(crate) fn with_defaults(
    definition: Command,
    matches: &ArgMatches,
) -> Result<Option<(Command, TuningFile)>> {
    let Some((name, matches)) = matches.subcommand() else { return Ok(None) };
    // An error here comes from a command without the option.
    let Ok(Some(path)) = matches.try_get_one::<PathBuf>("tuning") else { return Ok(None) };
    // A command without a table hides the option.
    let hides = |option: &Arg| option.get_id() == "tuning" && option.is_hide_set();
    let command = definition.find_subcommand(name);
    if command.is_some_and(|command| command.get_arguments().any(hides)) {
        return Err(Failure::usage(format!(
            "--tuning describes a table, and {name} uses none: leave it out"
        )));
    }
    let is_given = |id: &&str| matches.try_get_one::<bool>(id).ok().flatten() == Some(&true);
    if let Some(paper) = ["paper", "paper_figures"].into_iter().find(is_given) {
        return Err(Failure::usage(format!(
            "--{} and --tuning choose different algorithms: leave out one of the two options",
            paper.replace('_', "-")
        )));
    }
    let tuning = Tuning::load(path)?;
    let mut given = Vec::new();
    let definition = definition.mut_subcommand(name, |mut command| {
        for (id, value) in OPTIONS {
            if !command.get_arguments().any(|option| option.get_id() == id) {
                continue;
            }
            if matches.value_source(id) == Some(ValueSource::CommandLine) {
                given.push(id);
            } else if let Some(value) = value(&tuning) {
                command = command.mut_arg(id, |option| option.default_value(value));
            }
        }
        command
    });
    let path = path.display().to_string();
    Ok(Some((definition, TuningFile { path, given: given.join(", ") })))
}
