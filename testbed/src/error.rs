//! Why the test bed could not do what it was asked.

use core::error;
use core::fmt;
use core::time::Duration;
use std::io;
use std::path::PathBuf;

/// Why the test bed could not do what it was asked, and what to do about it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Programs that are not there.
    Missing {
        /// What is not there, and the Debian packages that have it.
        programs: Vec<(&'static str, &'static str)>,
    },
    /// A program of the host that failed.
    Tool {
        /// The command line.
        command: String,
        /// How it ended, and the last of what it said.
        problem: String,
    },
    /// No kernel to boot.
    NoKernel {
        /// Why, in words.
        reason: String,
    },
    /// A file or a socket.
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// A plan that no machine can be made of.
    Plan(&'static str),
    /// No case has this in its name.
    NoCase {
        /// What was looked for; `None` if the layers asked for have no case at all.
        only: Option<String>,
    },
    /// The host's programs would not run in the guests.
    Architecture,
    /// Nobody says where the kernel is to be kept.
    NoCache,
    /// Another run uses the same folder.
    Busy(PathBuf),
    /// Something did not happen in time.
    Late {
        /// What was waited for.
        what: String,
        /// How long.
        limit: Duration,
    },
    /// A machine ended, or did so otherwise than it should.
    Ended {
        /// Which machine, from 1.
        machine: u32,
        /// How.
        how: String,
    },
    /// A command of a guest ended with another status than 0.
    Command {
        /// The command.
        command: String,
        /// Its status, 128 and the signal if that ended it.
        status: i32,
        /// The last of its output.
        output: String,
    },
    /// A command of a guest ended before it said what was waited for.
    Unsaid {
        /// The command.
        command: String,
        /// What was waited for.
        marker: String,
        /// The last of its output.
        output: String,
    },
    /// The emulator refused a request.
    Refused(String),
}

impl Error {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { programs } => {
                let names: Vec<_> = programs.iter().map(|(name, _)| *name).collect();
                let mut packages: Vec<_> = programs.iter().map(|(_, package)| *package).collect();
                packages.sort_unstable();
                packages.dedup();
                let (names, packages) = (names.join(", "), packages.join(" "));
                write!(f, "not installed: {names}; run ci/install, or apt-get install {packages}")
            }
            Self::Tool { command, problem } => write!(f, "{command}: {problem}"),
            Self::NoKernel { reason } => write!(
                f,
                "no kernel to boot, and none kept from before: {reason}; the machines need Debian's \
                 linux-image-amd64 once: run apt-get update with a network, then try again"
            ),
            Self::Io { what, .. } => f.write_str(what),
            Self::Plan(why) => write!(f, "no such machines: {why}"),
            Self::NoCase { only: Some(only) } => write!(
                f,
                "no case of these layers has \"{only}\" in its name; --list shows the tests, --bench \
                 --list the benchmarks"
            ),
            Self::NoCase { only: None } => f.write_str(
                "these layers have no case; --list shows the tests, --bench --list the benchmarks",
            ),
            Self::Architecture => {
                f.write_str("the guests run the host's programs, which must be x86-64")
            }
            Self::NoCache => f.write_str(
                "no folder to keep the kernel in: set HOME or XDG_CACHE_HOME to an absolute path",
            ),
            Self::Busy(folder) => {
                write!(f, "another vm-test uses {}; wait for it to end", folder.display())
            }
            Self::Late { what, limit } => write!(f, "{what}: not within {} s", limit.as_secs_f32()),
            Self::Ended { machine, how } => write!(f, "machine {machine} {how}"),
            Self::Command { command, status, output } => {
                write!(f, "`{command}` ended with status {status}:\n{output}")
            }
            Self::Unsaid { command, marker, output } => {
                write!(f, "`{command}` ended and never said \"{marker}\":\n{output}")
            }
            Self::Refused(reply) => write!(f, "QEMU refused: {reply}"),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// The last lines of a text, enough to see what went wrong.
pub(crate) fn tail(text: &str) -> String {
    const LINES: usize = 40;
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
