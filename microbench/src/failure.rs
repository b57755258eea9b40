//! Errors that stop the command, and the exit statuses. An error states in one line what failed and
//! why.

use core::error::Error;
use core::fmt;

use probeline::exchange::{Launch, Launcher};
use probeline::transport::ExchangeError;

use crate::terminal;

/// The command failed; an error message states why.
pub(crate) const FAILED: u8 = 1;

/// The command line is invalid, and nothing was done. clap exits with the same status.
pub(crate) const USAGE: u8 = 2;

/// `doctor` found something broken.
pub(crate) const BROKEN: u8 = 3;

/// `explore` found a counterexample to a property.
pub(crate) const REFUTED: u8 = 4;

/// The list for the help: the constants above, and the statuses that shells report for SIGINT and
/// SIGTERM (128 + 2 and 128 + 15).
pub(crate) const STATUS_HELP: &str = "\
Exit status:
  0    done
  1    failed; the error message says why
  2    invalid command line; nothing was done
  3    doctor found something broken
  4    explore found a counterexample: --find-deadlock, --invariant
  130  interrupted by Ctrl-C (SIGINT)
  143  terminated by SIGTERM";

/// An error that stops the command, with its causes. The text of each contains the advice.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    status: u8,
    /// Whether every rank fails with the same error.
    everywhere: bool,
    loss: bool,
}

pub(crate) type Result<T> = core::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        Self { message, status: FAILED, everywhere: false, loss: false }
    }

    /// Creates a failure for an invalid command line, before anything is done.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { status: USAGE, ..Self::new(message) }
    }

    /// Adds what to check if the advice does not help.
    pub(crate) fn or(self, condition: &str) -> Self {
        Self { message: format!("{}, {condition}", self.message), ..self }
    }

    /// Creates a failure with the texts of this error and of its causes.
    fn with_causes(error: &(dyn Error + 'static)) -> Self {
        let mut message = error.to_string();
        let mut loss = is_loss(error);
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            // Some errors show their cause in their own text as well.
            if !message.contains(&cause_text) {
                message.push_str(": ");
                message.push_str(&cause_text);
            }
            loss |= is_loss(cause);
            source = cause.source();
        }
        Self { loss, ..Self::new(message) }
    }

    /// Says whether a rank was lost.
    pub(crate) fn with_loss(self, loss: bool) -> Self {
        Self { loss, ..self }
    }

    /// Marks a failure that every rank has, so that only one of them prints it.
    pub(crate) fn everywhere(self) -> Self {
        Self { everywhere: true, ..self }
    }

    pub(crate) fn is_everywhere(&self) -> bool {
        self.everywhere
    }

    pub(crate) fn status(&self) -> u8 {
        self.status
    }

    pub(crate) fn is_loss(&self) -> bool {
        self.loss
    }

    /// Prints the failure of this rank, unless rank 0, which started this rank, prints the same.
    pub(crate) fn show(&self) {
        let launch = Launch::from_env().ok().flatten();
        let spawned = launch.is_some_and(|launch| launch.launcher == Launcher::Probeline);
        if spawned && self.everywhere {
            return;
        }
        let rank = launch.map(|launch| format!(", rank {}", launch.rank)).unwrap_or_default();
        // Ignores an error: standard error may be closed.
        let _ = terminal::stderr().line(&format!("probeline{rank}: {self}"));
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::with_causes(&error)
    }
}

fn is_loss(error: &(dyn Error + 'static)) -> bool {
    use ExchangeError::{OwnerExited, OwnerLost};
    matches!(error.downcast_ref(), Some(OwnerLost(_) | OwnerExited { .. }))
}
