//! The options of a command line, after it was parsed.
//!
//! Ranks compare them when they meet ([`Options::text`]), and other processes are started with them
//! ([`Options::to_argv`]).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::agreement::Digest;
use crate::failure::{Failure, Result};
use crate::tuning_file::TuningFile;

/// The maximum length of a value that is compared as text; a longer value is compared by its
/// digest.
const MAX_VALUE_BYTES: usize = 100;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    command: String,
    all: Vec<Given>,
    /// The file of `--tuning`, from which defaults come.
    pub(crate) tuning: Option<TuningFile>,
}

/// An option that has a value: from the command line, from a tuning, or by default.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Given {
    /// The name without dashes, or the name of the value of a positional argument.
    name: String,
    heading: String,
    form: Form,
    values: Vec<OsString>,
    by_user: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Positional,
    Switch,
    /// One argument, with one value or a list.
    Value,
    /// The name before each value.
    Repeated,
}

/// The options of this process's command line.
static GIVEN: OnceLock<Options> = OnceLock::new();

impl Options {
    /// Keeps these options as those of this process, with the file of `--tuning`, if given, from
    /// which their defaults came.
    pub(crate) fn keep(self, tuning: Option<TuningFile>) {
        let kept = GIVEN.set(Self { tuning, ..self });
        debug_assert!(kept.is_ok(), "the options are kept once, before they are read");
    }

    /// Returns the options of this process; none before `main` has parsed them, and in unit tests.
    pub(crate) fn given() -> &'static Self {
        GIVEN.get_or_init(Self::default)
    }

    pub(crate) fn parsed(definition: &Command, matches: &ArgMatches) -> Self {
        let option = |option: &Arg| Given::of(option, matches);
        let command = definition.get_name().to_owned();
        let all = definition.get_arguments().filter_map(option).collect();
        Self { command, all, tuning: None }
    }

    pub(crate) fn command(&self) -> &str {
        &self.command
    }

    /// Refuses options that the user gave and that would have no effect; `why` follows their name.
    pub(crate) fn refuse(options: &[&str], why: &str) -> Result<()> {
        match options.iter().find(|name| Self::given().is_given(name)) {
            Some(name) => Err(Failure::usage(format!("--{name} {why}: leave it out"))),
            None => Ok(()),
        }
    }

    pub(crate) fn is_given(&self, name: &str) -> bool {
        self.all.iter().any(|option| option.by_user && option.name == name)
    }

    /// Returns the first option, with its dashes, that the user gave and that the help lists under
    /// `heading`.
    pub(crate) fn given_under(&self, heading: &str) -> Option<String> {
        let found = self.all.iter().find(|option| option.by_user && option.heading == heading)?;
        Some(format!("--{}", found.name))
    }

    pub(crate) fn only(mut self, keeps: impl Fn(&str) -> bool) -> Self {
        self.all.retain(|option| keeps(&option.name));
        self
    }

    /// Keeps the options that the help lists under `headings`, and those with these names, which then
    /// count as given even if their values are defaults.
    pub(crate) fn selected(mut self, names: &[&str], headings: &[&str]) -> Self {
        let is_named = |option: &Given| names.contains(&&*option.name);
        self.all.retain(|option| is_named(option) || headings.contains(&&*option.heading));
        self.all.iter_mut().for_each(|option| option.by_user |= is_named(option));
        self
    }

    pub(crate) fn set(&mut self, name: &str, value: impl Into<OsString>) {
        let values = vec![value.into()];
        match self.all.iter_mut().find(|option| option.name == name) {
            Some(option) => (option.values, option.by_user) = (values, true),
            None => self.all.push(Given {
                name: name.to_owned(),
                heading: String::new(),
                form: Form::Value,
                values,
                by_user: true,
            }),
        }
    }

    /// Returns the arguments after the command's name that give these options: those that the user
    /// gave.
    pub(crate) fn to_argv(&self) -> Vec<OsString> {
        let given = || self.all.iter().filter(|option| option.by_user);
        let options = given().filter(|option| option.form != Form::Positional);
        let mut argv: Vec<OsString> = options.flat_map(Given::to_argv).collect();
        let positional = given().filter(|option| option.form == Form::Positional);
        let values: Vec<OsString> = positional.flat_map(|option| option.values.clone()).collect();
        if values.iter().any(|value| value.as_encoded_bytes().starts_with(b"-")) {
            argv.push("--".into());
        }
        argv.extend(values);
        argv
    }

    /// Returns fields `name=value`, separated by spaces: the command and every option whose name
    /// `keeps` accepts, including defaults.
    pub(crate) fn text(&self, keeps: impl Fn(&str) -> bool) -> String {
        let mut fields = vec![field("command", self.command.as_bytes())];
        // Switches come first: they change the defaults of other options, so an error about ranks
        // that differ in a switch names the switch.
        let (switches, others): (Vec<&Given>, Vec<&Given>) =
            self.all.iter().partition(|option| option.form == Form::Switch);
        let kept = switches.into_iter().chain(others).filter(|option| keeps(&option.name));
        fields.extend(kept.map(|option| field(&option.shown_name(), option.joined().as_bytes())));
        fields.join(" ")
    }
}

impl Given {
    fn of(option: &Arg, matches: &ArgMatches) -> Option<Self> {
        let id = option.get_id().as_str();
        let values: Vec<OsString> = matches.try_get_raw(id).ok()??.map(OsStr::to_owned).collect();
        let form = match option.get_action() {
            _ if option.is_positional() => Form::Positional,
            ArgAction::SetTrue => Form::Switch,
            _ if option.get_value_delimiter().is_some() => Form::Value,
            ArgAction::Append => Form::Repeated,
            _ => Form::Value,
        };
        Some(Self {
            name: option.get_long().unwrap_or(id).to_owned(),
            heading: option.get_help_heading().unwrap_or_default().to_owned(),
            form,
            values,
            by_user: matches.value_source(id) == Some(ValueSource::CommandLine),
        })
    }

    fn joined(&self) -> OsString {
        self.values.join(OsStr::new(","))
    }

    fn shown_name(&self) -> String {
        match self.form {
            Form::Positional => self.name.clone(),
            _ => format!("--{}", self.name),
        }
    }

    fn to_argv(&self) -> Vec<OsString> {
        let name = || OsString::from(format!("--{}", self.name));
        let with = |value: &OsStr| {
            if !value.is_empty() && !value.as_encoded_bytes().starts_with(b"-") {
                return vec![name(), value.to_owned()];
            }
            let mut argument = name();
            argument.push("=");
            argument.push(value);
            vec![argument]
        };
        match self.form {
            Form::Switch => vec![name()],
            Form::Repeated => self.values.iter().flat_map(|value| with(value)).collect(),
            Form::Value | Form::Positional => with(&self.joined()),
        }
    }
}

pub(crate) fn field(name: &str, value: &[u8]) -> String {
    let value = escaped(value);
    match value.len() {
        0..=MAX_VALUE_BYTES => format!("{name}={value}"),
        _ => format!("{name}=sha256:{}", Digest::of(&value)),
    }
}

/// Keeps graphic ASCII, and encodes every other byte as `%` and two hexadecimal digits.
fn escaped(value: &[u8]) -> String {
    let mut text = String::with_capacity(value.len());
    for &byte in value {
        match byte {
            b'%' => text.push_str("%25"),
            byte if byte.is_ascii_graphic() => text.push(char::from(byte)),
            byte => text.push_str(&format!("%{byte:02x}")),
        }
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use clap::CommandFactory;
    use proptest::prelude::*;
    use proptest::sample::{Index, subsequence};

    use super::*;
    use crate::Cli;

    /// Candidate values for options without a list of possible values; each such option accepts at
    /// least two of them.
    const VALUES: [&str; 14] = [
        "1",
        "2",
        "8",
        "16",
        "32",
        "64",
        "0.25",
        "0.5",
        "openmpi=a",
        "mpich=a",
        "rank.read_ns=7",
        "rank.read_ns=9",
        "1:3x4",
        "2:3x4",
    ];

    /// Returns arguments that give this option, each with a different value.
    pub(crate) fn words(option: &Arg) -> Vec<String> {
        if matches!(option.get_action(), ArgAction::SetTrue) {
            return vec![format!("--{}", option.get_long().unwrap())];
        }
        let listed = option.get_possible_values();
        let listed: Vec<&str> = listed.iter().map(|value| value.get_name()).collect();
        let values = if listed.is_empty() { &VALUES[..] } else { &listed };
        let word = |value: &&str| match option.get_long() {
            Some(long) => format!("--{long}={value}"),
            None => (*value).to_owned(),
        };
        values.iter().map(word).collect()
    }

    /// Parses this command line, which excludes the program, or returns `None` if it is invalid.
    pub(crate) fn parsed(line: &[impl AsRef<OsStr>]) -> Option<Options> {
        let mut definition = Cli::command();
        let line = [OsStr::new("probeline")].into_iter().chain(line.iter().map(AsRef::as_ref));
        let matches = definition.try_get_matches_from_mut(line).ok()?;
        let (name, matches) = matches.subcommand()?;
        Some(Options::parsed(definition.find_subcommand(name)?, matches))
    }

    /// Generates a valid command line of random options, without those that would make it invalid.
    fn options() -> impl Strategy<Value = Options> {
        let commands: Vec<Command> = Cli::command().get_subcommands().cloned().collect();
        let command = prop::sample::select(commands);
        let with_words = command.prop_flat_map(|command| {
            let options: Vec<Vec<String>> =
                command.get_arguments().filter(|it| it.get_id() != "help").map(words).collect();
            let count = options.len();
            let some = subsequence(options, 0..=count.min(8));
            (Just(command.get_name().to_owned()), some, any::<[Index; 8]>())
        });
        with_words.prop_filter_map("a command line that is valid", |(command, some, at)| {
            let more = if command == "explore" { vec!["fms:2".to_owned()] } else { Vec::new() };
            let mut line = [vec![command], more].concat();
            for (words, at) in some.iter().zip(at) {
                line.push(at.get(words).clone());
                if parsed(&line).is_none() {
                    line.pop();
                }
            }
            parsed(&line)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn argv_round_trips(options in options()) {
            let command = OsString::from(options.command());
            let line: Vec<OsString> = [command].into_iter().chain(options.to_argv()).collect();
            prop_assert_eq!(parsed(&line), Some(options), "{:?}", line);
        }
    }

    #[test]
    fn argv_keeps_lists_and_repetitions() {
        let line =
            ["compare", "--worker", "mpich=a b", "--worker=openmpi=c", "--transports", "shm,sim"];
        let argv = parsed(&line).unwrap().to_argv();
        let expected =
            ["--transports", "shm,sim", "--worker", "mpich=a b", "--worker", "openmpi=c"];
        assert_eq!(argv, expected);
        let line = ["explore", "--seed", "2", "--", "--net.pnml"];
        assert_eq!(parsed(&line).unwrap().to_argv(), ["--seed", "2", "--", "--net.pnml"]);
    }

    #[test]
    fn explicit_default_equals_implicit() {
        let text = |line: &[&str]| parsed(line).unwrap().text(|_| true);
        let given =
            ["--read-ahead=likely", "--one-roundtrip=auto", "--probing=lines", "--batch=1024"];
        assert_eq!(
            text(&[&["bench-throughput"][..], &given].concat()),
            text(&["bench-throughput"])
        );
    }

    #[test]
    fn escapes_and_bounds_values() {
        assert_eq!(field("model", "my net%.pnml".as_bytes()), "model=my%20net%25.pnml");
        assert_eq!(field("model", &[0xff, b'\n']), "model=%ff%0a");
        let long = "x".repeat(MAX_VALUE_BYTES + 1);
        let other = format!("{long}y");
        assert!(field("model", long.as_bytes()).len() < MAX_VALUE_BYTES);
        assert_ne!(field("model", long.as_bytes()), field("model", other.as_bytes()));
    }
}
