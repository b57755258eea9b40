//! Standard output and standard error. All output of this command goes through this file.
//!
//! Text from files, devices and arguments may contain control characters, which a terminal would
//! execute. They are printed as visible escapes.
//!
//! A note is a line on standard error about an operation that the kernel or a container forbids and
//! without which the command continues. It is printed once for all ranks of a job.
#![allow(clippy::disallowed_methods, reason = "other files may not write to these streams")]

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use std::io::{self, ErrorKind, IsTerminal, StderrLock, Write};

use clap::error::{ContextKind, ContextValue};
use probeline::transport::Exchange;
use probeline_report::results::printable::{line, lines};

use crate::failure::Result;

/// `--quiet` sets it once, before any thread starts.
static QUIET: AtomicBool = AtomicBool::new(false);

/// A command whose file goes to standard output sets it before its ranks meet.
static HAS_FILE: AtomicBool = AtomicBool::new(false);

/// Leaves standard output to a file: all other text goes to standard error.
pub(crate) fn leave_stdout() {
    HAS_FILE.store(true, Ordering::Relaxed);
}

/// Writes the content of a file to standard output.
pub(crate) fn write_stdout(text: &str) -> io::Result<()> {
    unless_closed(io::stdout().write_all(text.as_bytes()))
}

pub(crate) fn set_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

pub(crate) fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

pub(crate) fn draws_progress() -> bool {
    !is_quiet() && io::stderr().is_terminal()
}

pub(crate) fn stdout() -> Printer<Box<dyn Write>> {
    let has_file = HAS_FILE.load(Ordering::Relaxed);
    Printer(if has_file { Box::new(io::stderr().lock()) } else { Box::new(io::stdout().lock()) })
}

pub(crate) fn stderr() -> Printer<StderrLock<'static>> {
    Printer(io::stderr().lock())
}

/// An output stream that escapes all control characters except newlines and tabs.
pub(crate) struct Printer<W>(W);

impl<W: Write> Printer<W> {
    /// Writes everything at once, because several ranks may write concurrently. `write!` and
    /// `writeln!` call this.
    pub(crate) fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> io::Result<()> {
        self.0.write_all(lines(&text.to_string()).as_bytes())
    }

    /// Writes one line, even if `text` has newlines.
    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self, "{}", line(text))
    }
}

/// Ignores the error of a closed pipe: the reader may stop early.
pub(crate) fn unless_closed(printed: io::Result<()>) -> io::Result<()> {
    match printed {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}

pub(crate) fn print_clap(error: clap::Error) {
    // Ignores an error: the stream may be closed.
    let _ = without_controls(error).print();
}

/// Escapes the arguments that clap quotes in an error. The rest of the text comes from clap and
/// this command, coloured if the terminal supports it.
fn without_controls(mut error: clap::Error) -> clap::Error {
    let repeated: Vec<(ContextKind, ContextValue)> =
        error.context().map(|(kind, value)| (kind, value.clone())).collect();
    let mut odd = false;
    for (kind, value) in repeated {
        let safe = match &value {
            ContextValue::String(text) => ContextValue::String(line(text).into_owned()),
            ContextValue::Strings(texts) => {
                let safe = texts.iter().map(|text| line(text).into_owned());
                ContextValue::Strings(safe.collect())
            }
            _ => continue,
        };
        odd |= safe != value;
        error.insert(kind, safe);
    }
    if odd {
        // The text quotes an argument next to colour escapes, so escapes from the argument cannot
        // be distinguished.
        error.remove(ContextKind::Suggested);
    }
    error
}

const NOTE: &str = "note";

/// A facility that is missing. A process prints each note once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Missing {
    /// Memory is not bound to a NUMA node.
    Policy,
    /// Ranks run on the CPUs that the kernel chooses.
    Pinning,
    /// The machine's cores and nodes cannot be read.
    Topology,
}

/// Prints one note if any rank lacks this. The first such rank prints it. Returns whether any rank
/// lacks it. All ranks call this.
pub(crate) fn say_once(
    missing: Missing,
    why: Option<impl fmt::Display>,
    exchange: &mut dyn Exchange,
) -> Result<bool> {
    let me = exchange.me().0;
    let first = first_rank(why.is_some(), exchange)?;
    if let Some(why) = why.filter(|_| first == Some(me)) {
        static SAID: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];
        let was_said = SAID[missing as usize].swap(true, Ordering::Relaxed);
        if !was_said && !is_quiet() {
            let rank = if me == 0 { String::new() } else { format!(", rank {me}") };
            // One write, because several ranks may write at once. Errors are ignored: standard error
            // may be closed.
            let _ = writeln!(stderr(), "{NOTE}{rank}: {why}");
        }
    }
    Ok(first.is_some())
}

/// Returns the first rank for which this is `true`. All ranks call this.
pub(crate) fn first_rank(mine: bool, exchange: &mut dyn Exchange) -> Result<Option<u32>> {
    let me = if mine { exchange.me().0.into() } else { u64::MAX };
    Ok(u32::try_from(exchange.min(me)?).ok())
}

pub(crate) fn is_note(line: &str) -> bool {
    line.strip_prefix(NOTE).is_some_and(|rest| rest.starts_with([':', ',']))
}

#[cfg(test)]
mod tests {
    use clap::builder::Styles;
    use clap::{Arg, Command, CommandFactory};

    use super::*;

    /// Clears a terminal, sets its title, moves back, and reorders what follows.
    const EVIL: &str = "\u{1b}[2J\u{1b}]0;x\u{7}\u{9b}2J\u{8}\r\u{7f}\u{202e}x";

    fn text(error: clap::Error) -> String {
        without_controls(error).render().ansi().to_string()
    }

    #[test]
    fn keeps_newlines_escapes_controls() {
        let mut printer = Printer(Vec::new());
        write!(printer, "one\n\ttwo {EVIL}\n").unwrap();
        printer.line("three\nfour").unwrap();
        let shown = r"\u{1b}[2J\u{1b}]0;x\u{7}\u{9b}2J\u{8}\u{d}\u{7f}\u{202e}x";
        let expected = format!("one\n\ttwo {shown}\nthree\\u{{a}}four\n");
        assert_eq!(String::from_utf8(printer.0).unwrap(), expected);
    }

    /// Invalid arguments: as the name of a command, as the name of an option, and as an option's value.
    #[test]
    fn usage_errors_escape_controls() {
        let definition = || crate::Cli::command().styles(Styles::plain());
        let refused = |arguments: &[&str]| {
            let error = definition().try_get_matches_from(["probeline"].iter().chain(arguments));
            error.err().map(text)
        };
        let check = |arguments: &[&str]| {
            let Some(said) = refused(arguments) else { return 0 };
            assert!(matches!(lines(&said), std::borrow::Cow::Borrowed(_)), "{said:?}");
            usize::from(said.contains(r"\u{9b}2J"))
        };
        let option = format!("--{EVIL}");
        let mut shown = check(&[EVIL]) + check(&[&option]) + check(&["doctor", EVIL]);
        shown += check(&["doctor", &option]) + check(&["limits", &format!("--rounds={EVIL}")]);
        // A command with positional arguments: clap suggests passing the text as such an argument.
        shown += check(&["explore", &option]);
        assert!(shown >= 5, "{shown}");
    }

    #[test]
    fn keeps_errors_without_controls() {
        let refused = || {
            let command = Command::new("a").arg(Arg::new("b").long("better"));
            command.try_get_matches_from(["a", "--bettor"]).unwrap_err()
        };
        assert_eq!(text(refused()), refused().render().ansi().to_string());
        assert!(text(refused()).contains("similar argument"));
    }
}
