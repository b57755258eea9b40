//! Options of every command.

use std::ffi::OsStr;

use clap::Args;

/// [`command_at`] relies on these options taking no value.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct GlobalArgs {
    /// Print only the answer and errors: no header, no notes, no progress
    #[arg(short, long, global = true, display_order = 1000)]
    pub(crate) quiet: bool,
}

/// The index of the command's name among all arguments, the program's name included. Options may
/// precede the command's name.
pub(crate) fn command_at(arguments: &[impl AsRef<OsStr>]) -> usize {
    let is_name = |argument: &OsStr| !argument.as_encoded_bytes().starts_with(b"-");
    let found = arguments.iter().skip(1).position(|argument| is_name(argument.as_ref()));
    found.map_or(arguments.len(), |at| at + 1)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn options_before_the_command_take_no_values() {
        let definition = crate::Cli::command();
        let mut options = definition.get_arguments();
        assert!(options.all(|option| !option.get_action().takes_values()));
        for (at, arguments) in
            [(1, &["p", "explore", "-q"][..]), (3, &["p", "-q", "--quiet", "doctor"]), (1, &["p"])]
        {
            assert_eq!(command_at(arguments), at, "{arguments:?}");
        }
    }
}
