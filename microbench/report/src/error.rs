//! Why no report could be made.

use core::error::Error as StdError;
use core::fmt;
use std::io;
use std::path::PathBuf;

use probeline_results::SCHEMA;

/// What is wrong with which file, and what to do about it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    Read {
        /// The file.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is a folder, a pipe or a device.
    NotAFile {
        /// Which one.
        file: PathBuf,
    },
    /// The file has more bytes than a run can have.
    TooLarge {
        /// The file.
        file: PathBuf,
        /// How many a run has at most.
        most: u64,
    },
    /// There is nothing in the file.
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// What is in the file is not JSON.
    NotJson {
        /// The file.
        file: PathBuf,
        /// Where it stops being JSON.
        source: serde_json::Error,
    },
    /// It is JSON, but no run of a command.
    NotARun {
        /// The file.
        file: PathBuf,
        /// What the JSON lacks, or has in another form.
        source: serde_json::Error,
    },
    /// A build with another schema of the JSON made it.
    OtherSchema {
        /// The file.
        file: PathBuf,
        /// Its schema.
        schema: u64,
    },
    /// The run has no rows, or no findings of the doctor.
    NoRows {
        /// The file.
        file: PathBuf,
        /// Of which command.
        command: String,
    },
    /// No row of the run has what the rows of its command have.
    NoField {
        /// The file.
        file: PathBuf,
        /// Of which command.
        command: String,
        /// The name of what no row has: a number that is not too large for any measurement, or a
        /// text.
        field: &'static str,
    },
    /// No file was given.
    NoRuns,
    /// A file of the report cannot be written.
    Write {
        /// The file or folder.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A plot cannot be drawn.
    Draw {
        /// Which one.
        plot: String,
        /// What the library says.
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
