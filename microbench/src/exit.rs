//! The exit statuses of the command.

/// The command failed; an error message states why.
pub(crate) const FAILED: u8 = 1;

/// The command line is invalid, and nothing was done. clap exits with the same status.
pub(crate) const USAGE: u8 = 2;

/// `doctor` found something broken.
pub(crate) const BROKEN: u8 = 3;

/// The list for the help: the constants above, and the statuses that shells report for SIGINT and
/// SIGTERM (128 + 2 and 128 + 15).
pub(crate) const HELP: &str = "\
Exit status:
  0    done
  1    failed; the error message says why
  2    invalid command line; nothing was done
  3    doctor found something broken
  130  interrupted by Ctrl-C (SIGINT)
  143  terminated by SIGTERM";
