//! The errors of a report.

use core::error::Error as StdError;
use core::fmt;
use std::io;
use std::path::PathBuf;

use probeline_results::SCHEMA;

/// The file that causes the error, what is wrong with it, and what to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    Read {
        /// The file.
        file: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The path is a folder, a FIFO or a device.
    NotAFile {
        /// The path.
        file: PathBuf,
    },
    /// The file has more bytes than a run can have.
    TooLarge {
        /// The file.
        file: PathBuf,
        /// Maximum bytes of a run.
        most: u64,
    },
    /// The file is empty.
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// The content of the file is not JSON.
    NotJson {
        /// The file.
        file: PathBuf,
        /// The position and kind of the syntax error.
        source: serde_json::Error,
    },
    /// The JSON is not a run of a command.
    NotARun {
        /// The file.
        file: PathBuf,
        /// The field that is missing or has another type.
        source: serde_json::Error,
    },
    /// The file was written by a build with another schema of the JSON.
    OtherSchema {
        /// The file.
        file: PathBuf,
        /// The schema of the file.
        schema: u64,
    },
    /// The run has no rows, or no findings of the doctor.
    NoRows {
        /// The file.
        file: PathBuf,
        /// The command of the run.
        command: String,
    },
    /// No row of the run has a field that rows of its command have.
    NoField {
        /// The file.
        file: PathBuf,
        /// The command of the run.
        command: String,
        /// The name of the field that no row has: a text, or a number below the maximum of a plot.
        field: &'static str,
    },
    /// No file was given.
    NoRuns,
    /// A file of the report cannot be written.
    Write {
        /// The file or folder.
        file: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A plot cannot be drawn.
    Draw {
        /// The name of the plot.
        plot: String,
        /// The error of the plotting library.
        reason: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { file, source } => {
                write!(
                    f,
                    "{} cannot be read: {source}; give files that a command wrote with --json",
                    file.display()
                )
            }
            Self::NotAFile { file } => write!(
                f,
                "{} is no file, but a folder, a pipe or a device, whose end may never come: write \
                 what it holds to a file, and give that",
                file.display()
            ),
            Self::TooLarge { file, most } => write!(
                f,
                "{} has more than {} MiB, which no run has; give a file that a command wrote with \
                 --json",
                file.display(),
                most >> 20
            ),
            Self::Empty { file } => write!(
                f,
                "{} is empty: the run has not ended or did not succeed; run its command again with \
                 --json {0}",
                file.display()
            ),
            Self::NotJson { file, source } => write!(
                f,
                "{} is not JSON ({source}); give a file that a command wrote with --json",
                file.display()
            ),
            Self::NotARun { file, source } => write!(
                f,
                "{} is JSON, but not of a run ({source}); give a file that a command wrote with \
                 --json",
                file.display()
            ),
            Self::OtherSchema { file, schema } => write!(
                f,
                "{} has schema {schema}, and this build reads schema {SCHEMA}: make the report with \
                 the probeline that made the run",
                file.display()
            ),
            Self::NoRows { file, command } => write!(
                f,
                "{} is a run of {command} without results: run it again, or leave the file out",
                file.display()
            ),
            Self::NoField { file, command, field } => write!(
                f,
                "{} is a run of {command}, but no row has {field} in a form that can be shown: run \
                 it again with --json {0}, or leave the file out",
                file.display()
            ),
            Self::NoRuns => {
                f.write_str("no run was given: name files that a command wrote with --json")
            }
            Self::Write { file, source } => write!(
                f,
                "{} cannot be written: {source}; name a file in a folder that is there and that \
                 you may write to",
                file.display()
            ),
            Self::Draw { plot, reason } => write!(f, "the plot {plot} cannot be drawn: {reason}"),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Read { source, .. } | Self::Write { source, .. } => Some(source),
            Self::NotJson { source, .. } | Self::NotARun { source, .. } => Some(source),
            _ => None,
        }
    }
}
