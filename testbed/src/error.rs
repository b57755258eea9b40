//! Failures that callers tell apart; all others are messages of `anyhow`.

use core::error;
use core::fmt;
use core::time::Duration;

/// A failure of a program, a machine or a command in a guest.
#[derive(Debug)]
pub(crate) enum Error {
    /// An event did not happen in time.
    Timeout { what: String, limit: Duration },
    /// A machine ended unexpectedly, or failed at its power-off.
    MachineEnded { machine: u32, how: String },
    /// A command ended before it printed the output that was waited for.
    NoOutput { command: String, wanted: String, output: String },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout { what, limit } => {
                write!(f, "timeout after {} s: {what}", limit.as_secs_f32())
            }
            Self::MachineEnded { machine, how } => write!(f, "machine {machine} {how}"),
            Self::NoOutput { command, wanted, output } => {
                write!(f, "`{command}` ended without printing \"{wanted}\":\n{output}")
            }
        }
    }
}

impl error::Error for Error {}

/// Returns the last lines of a text, enough to see what went wrong.
pub(crate) fn tail(text: &str) -> String {
    const LINES: usize = 40;
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
