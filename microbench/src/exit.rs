//! What the status of the command means when it ends.

/// It failed; an error says why.
pub(crate) const FAILED: u8 = 1;

/// The command line is refused, and nothing was done. The status that clap ends with, too.
pub(crate) const USAGE: u8 = 2;

/// `doctor` has found something that is broken.
pub(crate) const BROKEN: u8 = 3;

/// The list for the help: the constants above, and what a shell makes of SIGINT and SIGTERM
/// (128 + 2 and 128 + 15).
pub(crate) const HELP: &str = "\
Exit status:
  0    done
  1    failed; an error says why
  2    the command line is refused; nothing was done
  3    doctor: something is broken
  130  interrupted by Ctrl-C (SIGINT)
  143  interrupted by SIGTERM";
