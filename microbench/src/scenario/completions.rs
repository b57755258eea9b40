//! `completions`: prints shell completion scripts for this command.

use clap::builder::{Resettable, Str, TypedValueParser};
use clap::{Arg, Args, Command};
use clap_complete::{Shell, generate};

use crate::cli::one_of;
use crate::failure::Result;
use crate::terminal;

const AFTER_HELP: &str = "\
bash:  probeline completions bash > ~/.local/share/bash-completion/completions/probeline
zsh:   probeline completions zsh > DIR/_probeline, where DIR is in $fpath
fish:  probeline completions fish > ~/.config/fish/completions/probeline.fish";

#[derive(Args, Clone, Copy, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CompletionsArgs {
    /// The shell that will run the script
    #[arg(value_name = "SHELL", value_parser = shell())]
    shell: Shell,
}

/// Parses one of the supported shells: a test runs the script in each.
fn shell() -> impl TypedValueParser<Value = Shell> {
    one_of(&[("bash", "", Shell::Bash), ("zsh", "", Shell::Zsh), ("fish", "", Shell::Fish)])
}

pub(crate) fn run(args: CompletionsArgs, definition: &Command) -> Result<()> {
    let mut script = Vec::new();
    generate(args.shell, &mut offered(definition), definition.get_name(), &mut script);
    let script = String::from_utf8(script)?;
    Ok(terminal::unless_closed(write!(terminal::stdout(), "{script}"))?)
}

/// Returns the command without its hidden options, because clap_complete would offer them. The
/// copied options have only the attributes that scripts use.
fn offered(command: &Command) -> Command {
    let option = |arg: &Arg| {
        let conflicts = command.get_arg_conflicts_with(arg).into_iter();
        let conflicts = conflicts.filter(|other| !other.is_hide_set()).map(Arg::get_id);
        Arg::new(arg.get_id().clone())
            .action(arg.get_action().clone())
            .value_parser(arg.get_value_parser().clone())
            .value_hint(arg.get_value_hint())
            .global(arg.is_global_set())
            .required(arg.is_required_set())
            .conflicts_with_all(conflicts)
            .help(Resettable::from(arg.get_help().cloned()))
            .num_args(Resettable::from(arg.get_num_args()))
            .value_names(arg.get_value_names().unwrap_or_default().to_vec())
            .value_delimiter(arg.get_value_delimiter())
            .short(arg.get_short())
            .long(Resettable::from(arg.get_long().map(|long| Str::from(long.to_owned()))))
    };
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    Command::new(command.get_name().to_owned())
        .version(env!("CARGO_PKG_VERSION"))
        .disable_version_flag(command.get_version().is_none())
        .about(command.get_about().cloned().unwrap_or_default())
        .args(shown.map(option))
        .subcommands(command.get_subcommands().map(offered))
}
