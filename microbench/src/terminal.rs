//! Standard output and standard error. All output of this command goes through this file.
//!
//! Text from files, devices and arguments may contain control characters, which a terminal would
//! execute. They are printed as visible escapes.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use std::io::{self, ErrorKind, IsTerminal, StderrLock, Write};

use clap::error::{ContextKind, ContextValue};
use probeline_report::results::printable::{line, lines};

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
