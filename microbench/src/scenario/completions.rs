//! `completions`: prints shell completion scripts for this command.

use clap::builder::TypedValueParser;
use clap::{Args, Command};
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

/// Parses one of the supported shells.
fn shell() -> impl TypedValueParser<Value = Shell> {
    one_of(&[("bash", "", Shell::Bash), ("zsh", "", Shell::Zsh), ("fish", "", Shell::Fish)])
}

pub(crate) fn run(args: CompletionsArgs, definition: &Command) -> Result<()> {
    let mut script = Vec::new();
    generate(args.shell, &mut definition.clone(), definition.get_name(), &mut script);
    let script = String::from_utf8(script)?;
    Ok(terminal::unless_closed(write!(terminal::stdout(), "{script}"))?)
}
