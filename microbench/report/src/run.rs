//! A run of a command, read from the JSON that the command wrote.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use crate::results::SCHEMA;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::{Error, Problem};
use crate::number::{bytes, ranks_name};

/// The maximum size of a file: a run of all cells of Fig. 2 with their histograms has some MiB.
const MAX_BYTES: u64 = 64 << 20;

/// The largest number that is shown: 10^30 ns are two thousand times the age of the universe.
/// Arithmetic on such numbers stays finite.
const MAX_NUMBER: f64 = 1e30;

/// Names and values in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a number that a plot can show.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.get(name)?.as_f64().filter(|number| number.abs() <= MAX_NUMBER)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    pub(crate) fn count(&self, name: &str) -> Option<u64> {
        self.get(name)?.as_u64()
    }

    pub(crate) fn chunk_buckets(&self) -> Option<u32> {
        u32::try_from(self.count("chunk_buckets")?).ok()
    }
}

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
    /// Findings of the doctor; `None` if the file has none.
    pub(crate) doctor: Option<Vec<Fields>>,
    /// All other fields.
    #[serde(flatten)]
    pub(crate) more: Fields,
}

impl Run {
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let run = content(path).and_then(|bytes| Self::parse(&bytes));
        let run = run.map_err(|problem| problem.of(path))?;
        Ok(Self { files: vec![path.display().to_string()], ..run })
    }

    fn parse(bytes: &[u8]) -> Result<Self, Problem> {
        let text = String::from_utf8_lossy(bytes);
        if text.trim().is_empty() {
            return Err(Problem::Empty);
        }
        let run: Self = serde_json::from_str(&text).map_err(Problem::NotARun)?;
        if run.schema != u64::from(SCHEMA) {
            return Err(Problem::OtherSchema(run.schema));
        }
        let is_empty = match &*run.command {
            "doctor" => run.doctor.is_none(),
            _ => run.rows.is_empty() && run.more.is_empty(),
        };
        if is_empty { Err(Problem::NoRows(run.command)) } else { Ok(run) }
    }

    /// Returns whether both are the same run: whether all values are equal, in any file.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let other = Self { files: self.files.clone(), number: self.number, ..other.clone() };
        *self == other
    }

    /// Returns the transport that was measured, or the simulated network.
    fn transport(&self) -> Option<String> {
        if let Some(profile) = self.parameters.text("profile") {
            return Some(format!("model {profile}"));
        }
        self.parameters.text("transport").map(str::to_owned)
    }

    /// Returns the name of the transport, the same on the whole page.
    pub(crate) fn origin(&self) -> String {
        self.transport().unwrap_or_else(|| self.command.clone())
    }

    /// Returns the command, the transport, the ranks and the size of the table.
    pub(crate) fn subject(&self) -> String {
        let over = self.transport().map(|_| format!(" over {}", self.origin()));
        let ranks = self.parameters.count("ranks").map(|ranks| format!(", {}", ranks_name(ranks)));
        let table = self.parameters.count("table_bytes");
        let table = table.map(|table| format!(", {}", bytes(table)));
        [Some(self.command.clone()), over, ranks, table].into_iter().flatten().collect()
    }

    /// Returns C of the row, or of the whole run.
    pub(crate) fn chunk_buckets(&self, row: &Fields) -> Option<u32> {
        row.chunk_buckets().or_else(|| self.parameters.chunk_buckets())
    }
}

fn content(path: &Path) -> Result<Vec<u8>, Problem> {
    // Opening a FIFO would block until it has a writer, and a device may have no end.
    if !fs::metadata(path).map_err(Problem::Read)?.is_file() {
        return Err(Problem::NotAFile);
    }
    let mut bytes = Vec::new();
    let opened = File::open(path).map_err(Problem::Read)?;
    opened.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(Problem::Read)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Problem::TooLarge(MAX_BYTES));
    }
    Ok(bytes)
}

#[cfg(test)]
pub(crate) fn made_up(json: &serde_json::Value, number: usize) -> Run {
    Run { number, ..serde_json::from_value(json.clone()).unwrap() }
}
