//! The errors of a report.

use std::io;
use std::path::PathBuf;

use crate::results::SCHEMA;

/// The file or folder that cannot be used, and why.
#[derive(Debug, thiserror::Error)]
#[error("{} {problem}", .file.display())]
pub struct Error {
    /// The file or folder.
    pub file: PathBuf,
    /// The defect.
    #[source]
    pub problem: Problem,
}

/// The defect of a file, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// It cannot be read.
    #[error("cannot be read: {0}; give files that a command wrote with --json")]
    Read(#[source] io::Error),
    /// It is a folder, a FIFO or a device.
    #[error(
        "is not a file, but a folder, a pipe or a device, whose end may never come: write its content \
         to a file, and give that"
    )]
    NotAFile,
    /// It has more bytes than this.
    #[error(
        "has more than {} MiB, which no run has; give a file that a command wrote with --json",
        .0 >> 20
    )]
    TooLarge(u64),
    /// It is empty.
    #[error(
        "is empty: the run has not ended or did not succeed; run its command again with --json and \
         this name"
    )]
    Empty,
    /// Its content is not the JSON of a run of a command.
    #[error("is not the JSON of a run ({0}); give a file that a command wrote with --json")]
    NotARun(#[source] serde_json::Error),
    /// A build with this other schema of the JSON wrote it.
    #[error(
        "has schema {0}, and this build reads schema {SCHEMA}: make the report with the probeline \
         that made the run"
    )]
    OtherSchema(u64),
    /// The run of this command has no rows, or no findings of the doctor.
    #[error("is a run of {0} without results: run it again, or leave the file out")]
    NoRows(String),
    /// It cannot be written.
    #[error("cannot be written: {0}; name a file in an existing folder with write permission")]
    Write(#[source] io::Error),
}

impl Problem {
    /// Adds the file that has the problem.
    pub fn of(self, file: impl Into<PathBuf>) -> Error {
        Error { file: file.into(), problem: self }
    }
}
