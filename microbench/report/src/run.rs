//! A run, read from the JSON that its command wrote.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::Error;
use crate::fields::{Fields, RawFields};
use crate::shape;

/// Bytes of a file at most: all cells of Fig. 2 with their histograms are some MiB.
const MOST_BYTES: u64 = 64 << 20;

/// What one command gave.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Run {
    /// The files that hold it: more than one if it was given several times.
    pub(crate) files: Vec<String>,
    /// From 1 on, in the order in which they were given.
    pub(crate) number: usize,
    pub(crate) schema: u64,
    pub(crate) command: String,
    pub(crate) version: Option<String>,
    /// Of the source.
    pub(crate) commit: Option<String>,
    /// The summary, lines with aligned columns; empty in files without a summary.
    pub(crate) summary: Vec<String>,
    pub(crate) parameters: Fields,
    pub(crate) machine: Fields,
    /// How the transport was set up, in words.
    pub(crate) transport_lines: Vec<String>,
    pub(crate) rows: Vec<Fields>,
    pub(crate) notes: Vec<String>,
    /// Findings about each machine; `None` if the file has none.
    pub(crate) doctor: Option<Vec<Examined>>,
    /// Whatever else the file has.
    pub(crate) more: Fields,
}

/// What the doctor found on one machine.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct Examined {
    /// The machine's name, where the file has it.
    pub(crate) host: Option<String>,
    /// Those of the run that were on it.
    #[serde(default)]
    pub(crate) ranks: Vec<u32>,
    pub(crate) findings: Vec<Fields>,
}

impl Run {
    /// Reads a file; `known` is the newest schema of a report's JSON.
    pub(crate) fn read(path: &Path, known: u32) -> Result<Self, Error> {
        let file = path.to_owned();
        let bytes = content(path)?;
        let text = String::from_utf8_lossy(&bytes);
        if text.trim().is_empty() {
            return Err(Error::Empty { file });
        }
        let raw: RawFields = match serde_json::from_str(&text) {
            Ok(raw) => raw,
            // A list, say.
            Err(error) if error.is_data() => return Err(Error::NotARun { file, lacks: "command" }),
            Err(source) => return Err(Error::NotJson { file, source }),
        };
        let run = Self::from_fields(path, &raw, known)?;
        match shape::lacking(&run) {
            Some(field) => Err(Error::NoField { file, command: run.command, field }),
            None => Ok(run),
        }
    }

    fn from_fields(path: &Path, raw: &RawFields, known: u32) -> Result<Self, Error> {
        let file = path.to_owned();
        let lacks = |lacks| Error::NotARun { file: file.clone(), lacks };
        let command: String = field(raw, "command").ok_or_else(|| lacks("command"))?;
        let schema: u64 = field(raw, "schema").ok_or_else(|| lacks("schema"))?;
        let rows: Option<Vec<Fields>> = field(raw, "rows");
        // Benchmarks that look at no machine have something else.
        let needed = shape::is_known(&command) && command != "doctor";
        if rows.is_none() && (needed || has(raw, "rows")) {
            return Err(lacks("list of rows"));
        }
        let doctor = findings(raw);
        if doctor.is_none() && command == "doctor" {
            return Err(lacks("list of the doctor's findings"));
        }
        // Benchmarks that look at no machine count their schemas by themselves.
        if field::<Value>(raw, "machine").is_some() && schema > u64::from(known) {
            return Err(Error::Newer { file, schema, known });
        }
        // Findings are all that the doctor has.
        if rows.as_ref().is_some_and(Vec::is_empty) && command != "doctor" {
            return Err(Error::NoRows { file, command });
        }
        let mut run = Self {
            files: vec![path.display().to_string()],
            number: 0,
            schema,
            command,
            version: field(raw, "version"),
            commit: field(raw, "commit"),
            summary: field(raw, "summary").unwrap_or_default(),
            parameters: field(raw, "parameters").unwrap_or_default(),
            machine: field(raw, "machine").unwrap_or_default(),
            transport_lines: field(raw, "transport").unwrap_or_default(),
            rows: rows.unwrap_or_default(),
            notes: field(raw, "notes").unwrap_or_default(),
            doctor,
            more: Fields::default(),
        };
        run.more = rest(raw);
        Ok(run)
    }

    /// Whether it is the same run as another: the same numbers, whatever file they are in.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let other = Self { files: self.files.clone(), number: self.number, ..other.clone() };
        *self == other
    }

    /// What was measured: a transport, or a model of one.
    pub(crate) fn transport(&self) -> Option<String> {
        if let Some(profile) = self.parameters.text("profile") {
            return Some(format!("model {profile}"));
        }
        self.parameters.text("transport").map(str::to_owned)
    }

    pub(crate) fn ranks(&self) -> Option<u64> {
        self.parameters.count("ranks")
    }

    /// C: of the row, or of the whole run.
    pub(crate) fn chunk_buckets(&self, row: &Fields) -> Option<u32> {
        // Throughputs without a mean of its own had that in the place of C.
        let of_cluster = self.command == "simulate" && row.text("workload").is_some();
        if of_cluster
            && row.get("mean_chunk_buckets").is_none()
            && let Some(c) = self.parameters.count("throughput_chunk_buckets")
        {
            return u32::try_from(c).ok();
        }
        row.chunk_buckets().or_else(|| self.parameters.chunk_buckets())
    }
}

/// All that is in a file.
fn content(path: &Path) -> Result<Vec<u8>, Error> {
    let file = path.to_owned();
    let failed = |source| Error::Read { file: file.clone(), source };
    // Opening a pipe would wait for its other end, and a device may have no end.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(Error::NotAFile { file });
    }
    let mut bytes = Vec::new();
    let opened = File::open(path).map_err(failed)?;
    let read = opened.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    match u64::try_from(read) {
        Ok(read) if read <= MOST_BYTES => Ok(bytes),
        _ => Err(Error::TooLarge { file, most: MOST_BYTES }),
    }
}

#[cfg(test)]
pub(crate) fn made_up(json: &serde_json::Value, number: usize) -> Run {
    let raw: RawFields = serde_json::from_str(&json.to_string()).unwrap();
    Run { number, ..Run::from_fields(Path::new("made-up.json"), &raw, u32::MAX).unwrap() }
}

/// Whether there is such a field, of whatever kind.
fn has(raw: &RawFields, name: &str) -> bool {
    raw.0.iter().any(|(other, _)| other == name)
}

/// A field, if it is there and of this kind.
fn field<T: serde::de::DeserializeOwned>(raw: &RawFields, name: &str) -> Option<T> {
    let value = raw.0.iter().find(|(other, _)| other == name)?;
    serde_json::from_str(value.1.get()).ok()
}

/// The findings: a list of machines, each with its own. Before schema 5 they were a list, or an
/// object that has one, of the one machine of rank 0.
fn findings(raw: &RawFields) -> Option<Vec<Examined>> {
    let machines: Option<Vec<Examined>> = field(raw, "doctor");
    // A list without anything is of either kind.
    machines.filter(|machines| !machines.is_empty()).or_else(|| {
        let list: Option<Vec<Fields>> = field(raw, "doctor");
        let one: Option<Examined> = field(raw, "doctor");
        let of_list = list.map(|findings| Examined { findings, ..Examined::default() });
        Some(vec![of_list.or(one)?])
    })
}

/// The fields that no other is made of.
fn rest(raw: &RawFields) -> Fields {
    let known = [
        "schema",
        "command",
        "version",
        "commit",
        "summary",
        "parameters",
        "machine",
        "transport",
        "rows",
        "notes",
        "doctor",
    ];
    let mut rest = Fields::default();
    for (name, value) in raw.0.iter().filter(|(name, _)| !known.contains(&name.as_str())) {
        rest.push(name.clone(), parsed(value));
    }
    rest
}

fn parsed(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What READs brought is less than C where two owners hold a chunk.
    #[test]
    fn a_throughput_has_a_c_beside_the_mean_and_had_the_mean_in_its_place() {
        let c = |row: serde_json::Value, parameters: serde_json::Value| {
            let run = made_up(
                &json!({
                    "schema": 5, "command": "simulate", "rows": [row], "parameters": parameters,
                }),
                1,
            );
            run.chunk_buckets(&run.rows[0])
        };
        let given = || json!({ "throughput_chunk_buckets": 32 });
        let of_mixed = |c: f64| json!({ "workload": "mixed", "chunk_buckets": c });
        assert_eq!(c(of_mixed(31.875), given()), Some(32));
        assert_eq!(c(of_mixed(16.0), given()), Some(32), "of chunks that chose their C");
        assert_eq!(c(of_mixed(31.875), json!({})), None);
        assert_eq!(c(of_mixed(32.0), json!({})), Some(32));
        let new = json!({ "workload": "mixed", "chunk_buckets": 16, "mean_chunk_buckets": null });
        assert_eq!(c(new, given()), Some(16));
        assert_eq!(c(json!({ "workload": null, "chunk_buckets": 8 }), given()), Some(8));
    }
}
