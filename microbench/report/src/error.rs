//! The errors of a report.

use std::io;
use std::path::PathBuf;

use probeline_results::SCHEMA;

/// The file that causes the error, what is wrong with it, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("{} cannot be read: {source}; give files that a command wrote with --json", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The path is a folder, a FIFO or a device.
    #[error(
        "{} is no file, but a folder, a pipe or a device, whose end may never come: write its \
         content to a file, and give that",
        .file.display()
    )]
    NotAFile {
        /// The path.
        file: PathBuf,
    },
    /// The file has more bytes than a run can have.
    #[error(
        "{} has more than {} MiB, which no run has; give a file that a command wrote with --json",
        .file.display(),
        .most >> 20
    )]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// Maximum bytes of a run.
        most: u64,
    },
    /// The file is empty.
    #[error(
        "{} is empty: the run has not ended or did not succeed; run its command again with --json \
         {0}",
        .file.display()
    )]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// The content of the file is not JSON.
    #[error("{} is not JSON ({source}); give a file that a command wrote with --json", .file.display())]
    NotJson {
        /// The file.
        file: PathBuf,
        /// The position and kind of the syntax error.
        source: serde_json::Error,
    },
    /// The JSON is not a run of a command.
    #[error(
        "{} is JSON, but not of a run ({source}); give a file that a command wrote with --json",
        .file.display()
    )]
    NotARun {
        /// The file.
        file: PathBuf,
        /// The field that is missing or has another type.
        source: serde_json::Error,
    },
    /// The file was written by a build with another schema of the JSON.
    #[error(
        "{} has schema {schema}, and this build reads schema {SCHEMA}: make the report with the \
         probeline that made the run",
        .file.display()
    )]
    OtherSchema {
        /// The file.
        file: PathBuf,
        /// The schema of the file.
        schema: u64,
    },
    /// The run has no rows, or no findings of the doctor.
    #[error(
        "{} is a run of {command} without results: run it again, or leave the file out",
        .file.display()
    )]
    NoRows {
        /// The file.
        file: PathBuf,
        /// The command of the run.
        command: String,
    },
    /// No row of the run has a field that rows of its command have.
    #[error(
        "{} is a run of {command}, but no row has {field} in a form that can be shown: run it again \
         with --json {0}, or leave the file out",
        .file.display()
    )]
    NoField {
        /// The file.
        file: PathBuf,
        /// The command of the run.
        command: String,
        /// The name of the field that no row has: a text, or a number below the maximum of a plot.
        field: &'static str,
    },
    /// No file was given.
    #[error("no run was given: name files that a command wrote with --json")]
    NoRuns,
    /// A file of the report cannot be written.
    #[error(
        "{} cannot be written: {source}; name a file in an existing folder with write permission",
        .file.display()
    )]
    Write {
        /// The file or folder.
        file: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}
