//! What a command tells: a table for people, JSON and CSV for programs.

use std::io::{self, ErrorKind, Write};
use std::path::Path;

use comfy_table::presets::{ASCII_MARKDOWN, NOTHING};
use comfy_table::{CellAlignment, Table, TableStyle};
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::checkup::Checkup;
use crate::cli::{JobArgs, OutputArgs};
use crate::failure::{Failure, Result};
use crate::machine::Machine;
use crate::output_file::OutputFile;
use crate::tuned::Tuned;

/// Counts changes of the JSON's shape that a reader must know of. 2: rows of `bench-latency` have
/// `floor_ns`, `times_floor` (both null without a floor) and `histogram`, pairs of a latency in
/// nanoseconds and how many operations took it; their operations `READ n B` go to 4096, `WRITE n
/// B` and `floor READ n B` (with or without ` + CAS`) are new. 3: `limits` has `in_flight` among its
/// parameters, and READs of 8 to 4096 bytes at every depth; its `CAS` is `CAS random word`, beside
/// `CAS one word`, `FAA random word` and `FAA one word`. Rows of `explore` have `known_share` and
/// `cache_hit_share`, which rows of `bench-latency` have, too, whose parameters have `probing`,
/// `adaptive_chunks` and `cache_entries`. 4: every command has `doctor`, what `probeline doctor`
/// finds of the machine of rank 0 and, over verbs, of its device: a list of objects with `check`,
/// `subject`, `verdict` (fine, look at this, broken, not seen), `seen`, `consequence`, `command`
/// and `note`, the last three of which may be null. `doctor` itself is a command, without rows, and
/// `tune` has `candidates`, whose fields are among those of its rows. 5: `doctor` is a list of
/// machines, that of rank 0 first: objects with `host`, which may be null, `ranks`, a list that is
/// empty where no job of processes ran, and `findings`, the list that `doctor` was. `limit` in rows
/// of `simulate` is null where no limit is met (it was `roundtrips`), and so are `nearest_limit`
/// and `limit_used` where there is none; `chunk_buckets` in rows of throughputs is C (it was the mean
/// that READs brought, which is `mean_chunk_buckets`); `tune` has `rates`, objects with `operation`,
/// `words`, `in_flight` and `ns`.
pub(crate) const SCHEMA: u32 = 5;

/// What `git describe` says of the source, given to the build by whoever publishes what this
/// program prints: a build without it is the same wherever and whenever it is made.
const COMMIT: Option<&str> = option_env!("PROBELINE_COMMIT");

/// All that a run gave.
#[derive(Serialize)]
pub(crate) struct Report<R: Row> {
    schema: u32,
    command: &'static str,
    version: &'static str,
    /// Of the source, as git describes it, where the build was told.
    commit: Option<&'static str>,
    /// The answer in a few lines that can be quoted, printed before everything else.
    pub(crate) summary: Vec<String>,
    /// What the run was given, by name.
    #[serde(serialize_with = "as_map")]
    parameters: Vec<(&'static str, Value)>,
    machine: Machine,
    /// What is to be known of each machine, and of its device where the transport has one.
    pub(crate) doctor: Checkup,
    pub(crate) transport: Vec<String>,
    /// Of a comparison: what stands beside each other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) columns: Vec<Value>,
    /// Of `tune`: what its model expects of every candidate, and what a sweep measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) candidates: Vec<Value>,
    /// Of `tune`: what the transport takes for READs by size and for compare-and-swaps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) rates: Vec<Value>,
    #[serde(serialize_with = "with_histograms")]
    pub(crate) rows: Vec<R>,
    /// What the numbers mean.
    pub(crate) notes: Vec<String>,
}

fn as_map<S: Serializer>(
    parameters: &[(&'static str, Value)],
    serializer: S,
) -> core::result::Result<S::Ok, S::Error> {
    serializer.collect_map(parameters.iter().map(|(name, value)| (name, value)))
}

fn with_histograms<R: Row, S: Serializer>(
    rows: &[R],
    serializer: S,
) -> core::result::Result<S::Ok, S::Error> {
    serializer.collect_seq(rows.iter().map(|row| Detailed {
        row,
        // In one line, however many pairs there are.
        histogram: row.histogram().and_then(|pairs| to_raw_value(pairs).ok()),
        samples: row.samples(),
    }))
}

/// A row with what only JSON has.
#[derive(Serialize)]
struct Detailed<'a, R> {
    #[serde(flatten)]
    row: &'a R,
    #[serde(skip_serializing_if = "Option::is_none")]
    histogram: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    samples: Option<Value>,
}

/// A line of a report.
pub(crate) trait Row: Serialize {
    /// Column heads of the table for people.
    const HEAD: &'static [&'static str];

    /// Its cells.
    fn cells(&self) -> Vec<String>;

    /// Pairs of a latency in nanoseconds and how many operations took it, rising.
    fn histogram(&self) -> Option<&[[u64; 2]]> {
        None
    }

    /// What was measured in each round.
    fn samples(&self) -> Option<Value> {
        None
    }

    /// Head and lines of the table for people.
    fn lay_out(rows: &[Self]) -> (Vec<String>, Vec<Vec<String>>)
    where
        Self: Sized,
    {
        let head = Self::HEAD.iter().map(|&name| name.to_owned()).collect();
        (head, rows.iter().map(Self::cells).collect())
    }
}

impl<R: Row> Report<R> {
    pub(crate) fn new(command: &'static str) -> Self {
        Self {
            schema: SCHEMA,
            command,
            version: env!("CARGO_PKG_VERSION"),
            commit: COMMIT.filter(|commit| !commit.is_empty()),
            summary: Vec::new(),
            parameters: Vec::new(),
            machine: Machine::look(),
            doctor: Checkup::look(),
            transport: Vec::new(),
            columns: Vec::new(),
            candidates: Vec::new(),
            rates: Vec::new(),
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(crate) fn parameter(&mut self, name: &'static str, value: impl Into<Value>) {
        self.parameters.push((name, value.into()));
    }

    /// What all jobs are given.
    pub(crate) fn job(&mut self, job: &JobArgs) {
        self.parameter("transport", job.transport.name());
        self.parameter("ranks", job.ranks);
        self.parameter("table_bytes", job.table_size.0);
        self.parameter("buckets_per_rank", job.buckets_per_owner());
        self.parameter("seed", job.seed);
        self.tuned(job.tuned.as_ref());
    }

    /// Where options are from that were not given, and which of these were.
    pub(crate) fn tuned(&mut self, tuned: Option<&Tuned>) {
        let Some(tuned) = tuned else { return };
        self.parameter("tuning", tuned.path.as_str());
        if !tuned.given.is_empty() {
            self.parameter("given_besides_tuning", tuned.given.as_str());
        }
    }

    /// Prints everything and writes the files that were asked for.
    pub(crate) fn publish(&self, files: Files) -> Result<()> {
        // First, because whoever reads the output may stop reading.
        files.write(self)?;
        match self.print() {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            printed => Ok(printed?),
        }
    }

    fn print(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        for line in &self.summary {
            writeln!(out, "{line}")?;
        }
        if !self.summary.is_empty() {
            writeln!(out)?;
        }
        for line in self.about() {
            writeln!(out, "{line}")?;
        }
        writeln!(out)?;
        writeln!(out, "{}", self.table(NOTHING))?;
        if !self.notes.is_empty() {
            writeln!(out)?;
        }
        for note in &self.notes {
            writeln!(out, "{note}")?;
        }
        Ok(())
    }

    /// What was measured, on what, over what and with what.
    fn about(&self) -> Vec<String> {
        let program = match self.commit {
            Some(commit) => format!("probeline {}, commit {commit}", self.version),
            None => format!("probeline {}", self.version),
        };
        [&[program], &self.machine.lines()[..], &self.transport, &[self.parameter_line()]].concat()
    }

    fn parameter_line(&self) -> String {
        let parameters = self.parameters.iter().map(|(name, value)| match value.as_str() {
            Some(text) => format!("{name} {text}"),
            None => format!("{name} {value}"),
        });
        parameters.collect::<Vec<_>>().join(", ")
    }

    /// The same as is printed, as a page of Markdown.
    fn markdown(&self) -> String {
        let list = |lines: &[String]| -> String {
            lines.iter().map(|line| format!("- {line}\n")).collect()
        };
        let notes =
            if self.notes.is_empty() { String::new() } else { format!("\n{}", list(&self.notes)) };
        let summary = if self.summary.is_empty() {
            String::new()
        } else {
            // As code, which keeps the columns of its lines aligned.
            format!("```text\n{}\n```\n\n", self.summary.join("\n"))
        };
        let (command, table) = (self.command, self.table(ASCII_MARKDOWN));
        format!("# `probeline {command}`\n\n{summary}{}\n{table}\n{notes}", list(&self.about()))
    }

    fn table(&self, style: TableStyle) -> String {
        let (head, lines) = R::lay_out(&self.rows);
        let mut table = Table::new();
        table.load_style(style).set_header(head);
        for line in lines {
            table.add_row(line);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table.trim_fmt()
    }
}

/// The files for results.
pub(crate) struct Files {
    json: Option<OutputFile>,
    csv: Option<OutputFile>,
    markdown: Option<OutputFile>,
}

impl Files {
    pub(crate) fn open(args: &OutputArgs) -> Result<Self> {
        Self::of(args, true)
    }

    /// Those of a job.
    pub(crate) fn of_job(args: &JobArgs) -> Result<Self> {
        Self::of(&args.output, args.reports())
    }

    fn of(args: &OutputArgs, writes: bool) -> Result<Self> {
        let open = |path: Option<&Path>| path.map(|path| OutputFile::of(path, writes)).transpose();
        let files = Self {
            json: open(args.json.as_deref())?,
            csv: open(args.csv.as_deref())?,
            markdown: open(args.markdown.as_deref())?,
        };
        files.check()?;
        Ok(files)
    }

    /// Each is to be a file of its own: only the last one's results would be left.
    fn check(&self) -> Result<()> {
        let files = [("--json", &self.json), ("--csv", &self.csv), ("--markdown", &self.markdown)];
        for (at, (one, file)) in files.iter().enumerate() {
            let Some(file) = file else { continue };
            let mut others = files[at + 1..].iter();
            let same = others.find(|(_, other)| other.as_ref().is_some_and(|other| file.is(other)));
            if let Some((other, _)) = same {
                let path = file.path().display();
                return Err(Failure::new(format!(
                    "{one} and {other} are both to be written to {path}: give each its own file"
                )));
            }
        }
        Ok(())
    }

    /// Writes what was asked for.
    pub(crate) fn write<R: Row>(self, report: &Report<R>) -> Result<()> {
        if let Some(mut json) = self.json {
            let mut json = json.emptied()?;
            serde_json::to_writer_pretty(&mut json, report)?;
            writeln!(json)?;
            json.flush()?;
        }
        if let Some(mut csv) = self.csv {
            let mut csv = csv::Writer::from_writer(csv.emptied()?);
            for row in &report.rows {
                csv.serialize(row)?;
            }
            csv.flush()?;
        }
        if let Some(mut markdown) = self.markdown {
            let mut markdown = markdown.emptied()?;
            markdown.write_all(report.markdown().as_bytes())?;
            markdown.flush()?;
        }
        Ok(())
    }
}
