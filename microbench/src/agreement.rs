//! The options and inputs that must be the same on all ranks of a job. Ranks compare them when they
//! meet, before any rank opens an engine.
//!
//! The compared text is derived from the command line's definition: a new option is compared unless
//! [`MAY_DIFFER`] names it. A file that each rank reads is compared by a digest of its contents
//! ([`Input`]). The text contains no secret, because errors quote it.

use std::env;
use std::os::unix::ffi::OsStrExt;

use probeline::exchange::JoinError;

use crate::cli::{JobArgs, TransportName};
use crate::failure::Failure;
use crate::options::field;
use crate::run_report::COMMIT;

const MAY_DIFFER: &[&str] = &[
    // `Agreement::from_job` compares the resolved values instead of the options.
    "ranks",
    "transport",
    "table-size",
    // The options in the file are compared, not its name.
    "tuning",
    // Rendezvous with the other ranks.
    "rank",
    "rendezvous",
    "exchange",
    "two-nodes",
    "port",
    "allow-remote",
    "secret-file",
    // Time that a rank waits for the other ranks.
    "rendezvous-timeout",
    "collective-timeout",
    // Files that rank 0 writes, and the amount that it prints.
    "json",
    "csv",
    "out",
    "full",
    "quiet",
    // A device's name on its machine, and indices into the device's tables.
    "device",
    "ib-port",
    "gid-index",
    "pkey-index",
    "ucx-device",
    "ucx-gid-index",
];

/// An input that each rank reads or computes itself.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    /// One word that names the input.
    pub(crate) name: &'static str,
    /// The input, or its digest.
    pub(crate) value: String,
    /// Advice if the input differs; follows "Start all ranks with the same ones, ".
    pub(crate) advice: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Agreement {
    inputs: Vec<Input>,
    /// Fields `name=value`, separated by spaces: the format of
    /// [`Options::parameters`](probeline::exchange::Options::parameters).
    pub(crate) text: String,
}

impl Agreement {
    pub(crate) fn from_job(args: &JobArgs, mut inputs: Vec<Input>) -> Self {
        let compared = args.options.text(|name| !MAY_DIFFER.contains(&name));
        // Ranks of different builds may count differently, or use different memory layouts.
        let commit = COMMIT.filter(|commit| !commit.is_empty()).unwrap_or("unknown");
        let value = format!("{}+{commit}", env!("CARGO_PKG_VERSION"));
        let mut fields = vec![field("build", value.as_bytes()), compared];
        fields.push(field("--transport", args.transport.name().as_bytes()));
        fields.push(field("--ranks", args.ranks.to_string().as_bytes()));
        fields.push(field("--table-size", args.table_size.to_string().as_bytes()));
        if args.transport == TransportName::Ucx && args.ucx.ucx_tls.is_none() {
            fields.extend(env::var_os("UCX_TLS").map(|tls| field("UCX_TLS", tls.as_bytes())));
        }
        fields.extend(inputs.iter().map(|input| format!("{}={}", input.name, input.value)));
        let advice = "and with one build: build each from the same commit in the same way";
        inputs.push(Input { name: "build", value, advice: advice.to_owned() });
        Self { inputs, text: fields.join(" ") }
    }

    /// Converts an error by `failure`, and adds the advice of the input that differs.
    pub(crate) fn explain(
        &self,
        error: JoinError,
        failure: impl FnOnce(JoinError) -> Failure,
    ) -> Failure {
        let differs = |input: &&Input| match &error {
            JoinError::ParametersDiffer { difference, .. } => difference.field == input.name,
            _ => false,
        };
        match self.inputs.iter().find(differs) {
            Some(input) => failure(error).or(&input.advice),
            None => failure(error),
        }
    }
}

#[cfg(any(test, feature = "mpi"))]
impl Agreement {
    /// Compares the texts of all ranks, for an exchange that does not compare them when ranks meet.
    /// All ranks call this; either all of them fail or none does.
    ///
    /// # Errors
    /// The first field that differs from rank 0's, with its advice.
    pub(crate) fn compare(
        &self,
        exchange: &mut dyn probeline::transport::Exchange,
    ) -> crate::failure::Result<()> {
        let texts = probeline_programs::gather_values(exchange, &self.text)?;
        let Some(rank_0) = texts.first() else { return Ok(()) };
        // The error of a rank that differs from rank 0 names rank 0; the errors of the others name
        // the first rank that differs.
        let peer = match *rank_0 == self.text {
            true => texts.iter().position(|text| text != rank_0).unwrap_or(0),
            false => 0,
        };
        let difference = probeline::exchange::Difference::between(&self.text, &texts[peer]);
        let Some(difference) = difference else { return Ok(()) };
        let error = JoinError::ParametersDiffer { peer: u32::try_from(peer)?, difference };
        Err(self.explain(error, Failure::from).everywhere())
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use clap::{Arg, Command, CommandFactory, FromArgMatches};
    use probeline::exchange::Difference;

    use super::*;
    use crate::Cli;
    use crate::options::tests::{parsed, words};

    /// Returns the text that ranks with this command line compare, or `None` if the command line is
    /// invalid.
    fn compared(line: &[&str]) -> Option<String> {
        Some(parsed(line)?.text(|name| !MAY_DIFFER.contains(&name)))
    }

    /// Options that other options require.
    const CONTEXTS: [&[&str]; 5] = [
        &[],
        &["--sim-profile=shm"],
        &["--rendezvous=127.0.0.1:7000"],
        &["--two-nodes=n1"],
        &["--out=unitigs.fa"],
    ];

    /// Returns the input that a command requires.
    fn input(command: &str) -> &'static [&'static str] {
        match command {
            "explore" => &["fms:2"],
            "kmers" | "contigs" => &["reads.fa"],
            "bale" => &["histogram"],
            "dsm" => &["lu"],
            _ => &[],
        }
    }

    /// Returns command lines that differ only in this option.
    fn lines(base: &[&str], option: &Arg) -> Vec<Vec<String>> {
        let is_input = option.is_positional();
        let base = [base, if is_input { &[] } else { input(base[0]) }].concat();
        let base: Vec<String> = base.iter().map(|&word| word.to_owned()).collect();
        let words = words(option);
        let lines = words.iter().map(|word| [&base[..], core::slice::from_ref(word)].concat());
        // A switch has no value: the option is present or absent.
        let without = (words.len() == 1).then(|| base.clone());
        without.into_iter().chain(lines).collect()
    }

    /// Returns command lines that differ only in this option, each with the text that ranks
    /// compare.
    fn with_other_values(command: &str, option: &Arg) -> Vec<(Vec<String>, String)> {
        for context in CONTEXTS {
            let lines = lines(&[&[command], context].concat(), option);
            let compared = |line: Vec<String>| {
                let words: Vec<&str> = line.iter().map(String::as_str).collect();
                let text = compared(&words)?;
                Some((line, text))
            };
            let all: Vec<_> = lines.into_iter().filter_map(compared).collect();
            if all.len() > 1 {
                return all;
            }
        }
        panic!("{command}: no two values of {} are known here: add to VALUES", option.get_id());
    }

    /// Returns the commands whose ranks are processes.
    fn commands_of_jobs() -> Vec<Command> {
        let has_ranks = |command: &Command| {
            command.get_arguments().any(|option| option.get_long() == Some("rendezvous"))
        };
        let commands: Vec<Command> = Cli::command()
            .get_subcommands()
            .filter(|command| has_ranks(command))
            .cloned()
            .collect();
        assert!(commands.len() >= 7, "{commands:?}");
        commands
    }

    /// Every option of every command is compared or listed in [`MAY_DIFFER`].
    #[test]
    fn compares_options_that_must_agree() {
        let (mut compared, mut free) = (0, 0);
        for command in commands_of_jobs() {
            for option in command.get_arguments().filter(|option| option.get_id() != "help") {
                let may_differ = option.get_long().is_some_and(|name| MAY_DIFFER.contains(&name));
                let all = with_other_values(command.get_name(), option);
                for pair in all.windows(2) {
                    let [(one, first), (other, second)] = pair else { continue };
                    let difference = Difference::between(first, second);
                    if may_differ {
                        assert_eq!(difference, None, "{one:?} and {other:?}");
                        free += 1;
                        continue;
                    }
                    let name = option.get_long().map(|long| format!("--{long}"));
                    let name = name.unwrap_or_else(|| option.get_id().to_string());
                    let field = difference.map(|difference| difference.field);
                    assert_eq!(field, Some(name), "{one:?} and {other:?}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 100 && free > 100, "{compared} compared, {free} free");
    }

    /// A command without this place for its options would compare none of them.
    #[test]
    fn job_commands_have_job_options() {
        for command in commands_of_jobs() {
            let name = command.get_name();
            let line = [&["probeline", name], input(name)].concat();
            let matches = Cli::command().try_get_matches_from(line).unwrap();
            let mut cli = Cli::from_arg_matches(&matches).unwrap();
            assert!(cli.command.options().is_some(), "{command}");
        }
    }

    #[test]
    fn compared_text_fits_parameters() {
        for command in commands_of_jobs() {
            let text =
                compared(&[&[command.get_name()], input(command.get_name())].concat()).unwrap();
            assert!(
                text.len() < probeline::exchange::MAX_PARAMETERS_BYTES / 2,
                "{}: {text}",
                text.len()
            );
        }
    }

    fn agreement(seed: u32, net: &str) -> Agreement {
        let advice = "and with the same net".to_owned();
        let inputs = vec![Input { name: "net", value: net.to_owned(), advice }];
        let text = format!("--seed={seed} {}", "x".repeat(400));
        Agreement { text: format!("{text} net={}", inputs[0].value), inputs }
    }

    /// Returns the error text of each rank, for an exchange that does not compare parameters
    /// itself.
    fn errors_of(ranks: Vec<Agreement>) -> Vec<String> {
        let exchanges = probeline::exchange::threads(u32::try_from(ranks.len()).unwrap());
        thread::scope(|scope| {
            let rank = |(mine, mut exchange): (Agreement, probeline::exchange::Thread)| {
                scope.spawn(move || match mine.compare(&mut exchange) {
                    Ok(()) => String::new(),
                    Err(failure) => failure.to_string(),
                })
            };
            let running: Vec<_> = ranks.into_iter().zip(exchanges).map(rank).collect();
            running.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    }

    #[test]
    fn compares_parameters_over_mpi() {
        assert_eq!(errors_of(vec![agreement(1, "a"), agreement(1, "a")]), ["", ""]);
        let said = errors_of(vec![agreement(1, "a"), agreement(1, "a"), agreement(2, "a")]);
        let first = "rank 2 has other parameters: --seed is \"1\" here and \"2\" there. Start all \
                     ranks with the same ones";
        assert_eq!(said[..2], [first, first]);
        assert!(said[2].starts_with("rank 0 has other parameters: --seed is \"2\" here and \"1\""));
        for said in errors_of(vec![agreement(1, "a"), agreement(1, "b")]) {
            assert!(said.contains(" has other parameters: net is \""), "{said}");
            assert!(said.ends_with("with the same ones, and with the same net"), "{said}");
        }
    }
}
