//! Reads a run from the JSON that its command wrote.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use probeline_results::SCHEMA;
use serde::Deserialize;
use serde_json::error::Category;

use crate::error::Error;
use crate::fields::Fields;
use crate::shape;

/// The maximum size of a file: a run of all cells of Fig. 2 with their histograms has some MiB.
const MAX_BYTES: u64 = 64 << 20;

/// The result of one command.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Run {
    /// The files that contain it: several if the run was given several times.
    #[serde(skip)]
    pub(crate) files: Vec<String>,
    /// The number of the run, counted from 1 in the given order.
    #[serde(skip)]
    pub(crate) number: usize,
    pub(crate) schema: u64,
    pub(crate) command: String,
    pub(crate) version: Option<String>,
    /// The commit of the source.
    pub(crate) commit: Option<String>,
    /// The summary: lines with aligned columns.
    #[serde(default)]
    pub(crate) summary: Vec<String>,
    #[serde(default)]
    pub(crate) parameters: Fields,
    #[serde(default)]
    pub(crate) machine: Fields,
    /// Lines about how the transport was set up.
    #[serde(default, rename = "transport")]
    pub(crate) transport_lines: Vec<String>,
    #[serde(default)]
    pub(crate) rows: Vec<Fields>,
    #[serde(default)]
    pub(crate) notes: Vec<String>,
    /// Findings on each machine; `None` if the file has none.
    pub(crate) doctor: Option<Vec<Examined>>,
    /// All other fields.
    #[serde(flatten)]
    pub(crate) more: Fields,
}

/// The doctor's findings on one machine.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct Examined {
    /// The host name, if the file has it.
    pub(crate) host: Option<String>,
    /// The ranks of the run on this machine.
    #[serde(default)]
    pub(crate) ranks: Vec<u32>,
    pub(crate) findings: Vec<Fields>,
}

impl Run {
    /// Reads a run from a file.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let file = path.to_owned();
        let bytes = content(path)?;
        let text = String::from_utf8_lossy(&bytes);
        if text.trim().is_empty() {
            return Err(Error::Empty { file });
        }
        let run: Self = serde_json::from_str(&text).map_err(|source| match source.classify() {
            Category::Data => Error::NotARun { file: file.clone(), source },
            _ => Error::NotJson { file: file.clone(), source },
        })?;
        run.check(path)?;
        Ok(Self { files: vec![path.display().to_string()], ..run })
    }

    fn check(&self, path: &Path) -> Result<(), Error> {
        let (file, command) = (path.to_owned(), self.command.clone());
        if self.schema != u64::from(SCHEMA) {
            return Err(Error::OtherSchema { file, schema: self.schema });
        }
        let nothing = if command == "doctor" {
            self.doctor.is_none()
        } else {
            self.rows.is_empty() && (shape::is_known(&command) || self.more.is_empty())
        };
        if nothing {
            return Err(Error::NoRows { file, command });
        }
        match shape::lacking(self) {
            Some(field) => Err(Error::NoField { file, command, field }),
            None => Ok(()),
        }
    }

    /// Returns whether both are the same run: whether all values are equal, in any file.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let other = Self { files: self.files.clone(), number: self.number, ..other.clone() };
        *self == other
    }

    /// Returns the transport that was measured, or the simulated one.
    pub(crate) fn transport(&self) -> Option<String> {
        if let Some(profile) = self.parameters.text("profile") {
            return Some(format!("model {profile}"));
        }
        self.parameters.text("transport").map(str::to_owned)
    }

    pub(crate) fn ranks(&self) -> Option<u64> {
        self.parameters.count("ranks")
    }

    /// Returns C of the row, or of the whole run.
    pub(crate) fn chunk_buckets(&self, row: &Fields) -> Option<u32> {
        row.chunk_buckets().or_else(|| self.parameters.chunk_buckets())
    }
}

/// Reads the bytes of a file.
fn content(path: &Path) -> Result<Vec<u8>, Error> {
    let file = path.to_owned();
    let failed = |source| Error::Read { file: file.clone(), source };
    // Opening a FIFO would block until it has a writer, and a device may have no end.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(Error::NotAFile { file });
    }
    let mut bytes = Vec::new();
    let opened = File::open(path).map_err(failed)?;
    let read = opened.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    match u64::try_from(read) {
        Ok(read) if read <= MAX_BYTES => Ok(bytes),
        _ => Err(Error::TooLarge { file, most: MAX_BYTES }),
    }
}

#[cfg(test)]
pub(crate) fn made_up(json: &serde_json::Value, number: usize) -> Run {
    Run { number, ..serde_json::from_value(json.clone()).unwrap() }
}
