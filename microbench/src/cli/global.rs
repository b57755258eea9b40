//! Options of every command.

use clap::Args;

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct GlobalArgs {
    /// Print only the answer and errors: no header, no notes, no progress
    #[arg(short, long, global = true, display_order = 1000)]
    pub(crate) quiet: bool,
}
