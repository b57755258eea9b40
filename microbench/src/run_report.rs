//! Prints the results of a command as a table, and writes them as JSON and CSV.

use std::io;
use std::path::PathBuf;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use probeline_doctor::Finding;
use probeline_report::distinct;
use probeline_report::results::{self, Fields, Layout, Note, Row, SCHEMA, printable};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::cli::{JobArgs, OutputArgs, TransportName};
use crate::failure::Result;
use crate::machine::{self, Machine};
use crate::options::Options;
use crate::output_file::{OutputFile, check_distinct};
use crate::size::Size;
use crate::terminal;

/// Columns of a terminal. Longer facts are truncated; the JSON has them in full.
const WIDTH: usize = 100;
/// Parameters that the line about the transport, or another parameter, contains already.
const OMITTED: [&str; 3] = ["transport", "ranks", "buckets_per_rank"];
/// The page that explains the output. Its sections have the names of the commands.
const PAGE: &str = "docs/output.md";

/// The output of `git describe`, which the build takes from an environment variable. Builds without
/// it are reproducible.
pub(crate) const COMMIT: Option<&str> = option_env!("PROBELINE_COMMIT");

/// Returns fields of a value with their names, for [`RunReport::parameters`].
macro_rules! fields {
    ($of:expr; $($field:ident),*) => {
        [$((stringify!($field), serde_json::Value::from($of.$field))),*]
    };
}
pub(crate) use fields;

#[derive(Serialize)]
pub(crate) struct RunReport {
    schema: u32,
    command: &'static str,
    version: &'static str,
    /// The output of `git describe`, if the build was given it.
    commit: Option<&'static str>,
    /// The summary: a few lines that can be quoted, printed first.
    pub(crate) summary: Vec<String>,
    #[serde(serialize_with = "as_map")]
    parameters: Vec<(&'static str, Value)>,
    machine: Machine,
    /// Findings of the doctor on the machine of rank 0 and its RDMA device.
    pub(crate) doctor: Vec<Finding>,
    pub(crate) transport: Vec<String>,
    /// The transports that `compare` measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) columns: Vec<Value>,
    /// [`publish`](Self::publish) adds them, and the notes on their columns.
    rows: Vec<Fields>,
    pub(crate) notes: Vec<Note>,
}

fn as_map<S: Serializer>(
    parameters: &[(&'static str, Value)],
    serializer: S,
) -> core::result::Result<S::Ok, S::Error> {
    serializer.collect_map(parameters.iter().map(|(name, value)| (name, value)))
}

impl RunReport {
    pub(crate) fn new(command: &'static str) -> Self {
        Self {
            schema: SCHEMA,
            command,
            version: env!("CARGO_PKG_VERSION"),
            commit: COMMIT.filter(|commit| !commit.is_empty()),
            summary: Vec::new(),
            parameters: Vec::new(),
            machine: Machine::examine(),
            doctor: machine::examine_machine(),
            transport: Vec::new(),
            columns: Vec::new(),
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Sets a parameter. Those with new names are added at the end.
    pub(crate) fn parameter(&mut self, name: &'static str, value: impl Into<Value>) {
        self.set(name, value.into());
    }

    fn set(&mut self, name: &'static str, value: Value) {
        match self.parameters.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.parameters.push((name, value)),
        }
    }

    pub(crate) fn parameters(
        &mut self,
        all: impl IntoIterator<Item = (&'static str, impl Into<Value>)>,
    ) {
        all.into_iter().for_each(|(name, value)| self.parameter(name, value));
    }

    /// Adds a job that has run, with lines about its transport.
    pub(crate) fn job(&mut self, job: &JobArgs, transport: Vec<String>) {
        if job.transport == TransportName::Verbs {
            self.doctor.extend(machine::examine_device_in(&transport));
        }
        self.transport = transport;
        let is_simulated = job.transport == TransportName::Sim;
        self.parameter("transport", job.transport.name());
        self.parameter("network", is_simulated.then(|| job.sim.about()));
        self.sizes(job);
    }

    /// Adds notes to those of the columns.
    pub(crate) fn note(&mut self, notes: impl IntoIterator<Item: Into<Note>>) {
        self.notes.extend(notes.into_iter().map(Into::into));
    }

    /// Adds the parameters of a job over any transport.
    pub(crate) fn sizes(&mut self, job: &JobArgs) {
        self.parameter("ranks", job.ranks);
        self.parameter("table_bytes", job.table_size.0);
        self.parameter("buckets_per_rank", job.buckets_per_owner());
        self.parameter("seed", job.seed);
        self.tuning_file();
    }

    /// Adds the file of `--tuning`, and the options that override it.
    pub(crate) fn tuning_file(&mut self) {
        let Some(file) = &Options::given().tuning else { return };
        self.parameter("tuning", file.path.as_str());
        if !file.given.is_empty() {
            self.parameter("given_besides_tuning", file.given.as_str());
        }
    }

    /// Writes and prints the report with these rows.
    pub(crate) fn publish<R: Row>(mut self, files: Files, rows: &[R]) -> Result<()> {
        self.notes.splice(0..0, R::notes());
        debug_assert!(
            self.notes.iter().all(|note| note.columns().iter().all(|on| R::has_column(on)))
        );
        let layout = if files.full { R::full(rows) } else { R::brief(rows) };
        self.rows = results::fields(rows)?;
        self.output(files, layout)
    }

    fn output(&self, files: Files, layout: Layout) -> Result<()> {
        let full = files.full;
        // Written before anything is printed, because the reader of the output may close it.
        files.write(self)?;
        Ok(terminal::unless_closed(self.print(full, layout))?)
    }

    /// Prints the summary, the facts, the table and the notes. With `--quiet` prints the summary
    /// only, or the table of a command without a summary.
    fn print(&self, full: bool, (head, lines): Layout) -> io::Result<()> {
        let mut out = terminal::stdout();
        let notes = self.notes_for(&head, full);
        let table = if head.is_empty() { Vec::new() } else { table(head, lines) };
        let facts = if full { self.about() } else { self.facts() };
        let mut blocks = vec![&self.summary, &facts, &table, &notes];
        blocks.retain(|block| !block.is_empty());
        if terminal::is_quiet() {
            blocks = vec![if self.summary.is_empty() { &table } else { &self.summary }];
        }
        for (at, block) in blocks.into_iter().enumerate() {
            if at > 0 {
                writeln!(out)?;
            }
            block.iter().try_for_each(|line| out.line(line))?;
        }
        Ok(())
    }

    /// Returns the notes on printed columns, the notes on no column, and a reference to the
    /// documentation.
    fn notes_for(&self, head: &[String], full: bool) -> Vec<String> {
        let more = if full { "" } else { "; --full prints everything" };
        let more = format!("more: {PAGE}, section {}{more}", self.command);
        self.notes
            .iter()
            .filter(|note| note.is_on(head))
            .map(Note::to_string)
            .chain([more])
            .collect()
    }

    fn facts(&self) -> Vec<String> {
        let program = format!("{}, {}", self.program(), self.machine.lines()[0]);
        let transport = without_asides(&self.transport.join("; "));
        let omitted = |(name, value): &&(&str, Value)| OMITTED.contains(name) || value.is_null();
        let parameters = self.parameters.iter().filter(|parameter| !omitted(parameter));
        let parameters: Vec<String> = parameters.map(short).collect();
        let lines = [program, transport, parameters.join(", ")];
        lines.iter().filter(|line| !line.is_empty()).map(|line| cut(line)).collect()
    }

    fn program(&self) -> String {
        match self.commit {
            Some(commit) => format!("probeline {}, commit {commit}", self.version),
            None => format!("probeline {}", self.version),
        }
    }

    fn about(&self) -> Vec<String> {
        [
            &[self.program()],
            &self.machine.lines()[..],
            &self.transport,
            &[self.parameters.iter().map(parameter).collect::<Vec<_>>().join(", ")],
        ]
        .concat()
    }
}

fn parameter((name, value): &(&'static str, Value)) -> String {
    match value.as_str() {
        Some(text) => format!("{name} {text}"),
        None => format!("{name} {value}"),
    }
}

/// Formats a parameter for people: numbers of bytes as sizes.
fn short(given: &(&'static str, Value)) -> String {
    match (given.0.strip_suffix("_bytes"), given.1.as_u64()) {
        (Some(name), Some(bytes)) => format!("{name} {}", Size(bytes)),
        _ => parameter(given),
    }
}

/// Returns the answer: its title, and lines with aligned columns, the first to the left and the others
/// to the right.
pub(crate) fn answer(title: String, (head, lines): Layout) -> Vec<String> {
    let lines = if lines.is_empty() { Vec::new() } else { table(head, lines) };
    [title].into_iter().chain(lines).collect()
}

/// Lays out rows side by side: a line for each of their `names`, which stand below `head`, and a column
/// for each `column`, in the order of the rows.
pub(crate) fn side_by_side<'r, R: 'r, const N: usize>(
    head: [&str; N],
    rows: impl Iterator<Item = &'r R> + Clone,
    names: impl Fn(&R) -> [String; N],
    column: impl Fn(&R) -> String,
    cell: impl Fn(&R) -> String,
) -> Layout {
    let columns = distinct(rows.clone().map(&column));
    let line = |of: [String; N]| {
        let cell = |name: &String| {
            let row = rows.clone().find(|row| column(row) == *name && names(row) == of);
            row.map_or_else(|| "-".to_owned(), &cell)
        };
        of.iter().cloned().chain(columns.iter().map(cell)).collect()
    };
    let lines = distinct(rows.clone().map(&names)).into_iter().map(line).collect();
    (self::head(head).into_iter().chain(columns.iter().cloned()).collect(), lines)
}

/// Returns this head of a table.
pub(crate) fn head<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}

/// Formats a table, whose cells become safe for a terminal before the widths are computed.
fn table(head: Vec<String>, lines: Vec<Vec<String>>) -> Vec<String> {
    let cells = |line: Vec<String>| -> Vec<String> {
        line.iter().map(|cell| printable::line(cell).into_owned()).collect()
    };
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(cells(head));
    for line in lines {
        table.add_row(cells(line));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt().lines().map(str::to_owned).collect()
}

fn without_asides(line: &str) -> String {
    let mut depth = 0_u32;
    let mut text = String::with_capacity(line.len());
    for letter in line.chars() {
        match letter {
            '(' => {
                depth += 1;
                // Also removes the space before the parenthesis.
                text.truncate(text.trim_end().len());
            }
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => text.push(letter),
            _ => {}
        }
    }
    text
}

/// Truncates a list of facts to the width of a terminal, at the end of a fact.
fn cut(line: &str) -> String {
    const MARK: &str = ", ...";
    if line.chars().count() <= WIDTH {
        return line.to_owned();
    }
    let fits: String = line.chars().take(WIDTH - MARK.len()).collect();
    let whole = fits.rfind([',', ';']).map_or(&*fits, |end| &fits[..end]);
    format!("{}{MARK}", whole.trim_end_matches([',', ';']))
}

/// Returns at most `max` of `all`, evenly spread, including the first and the last.
pub(crate) fn some_of<T: Copy>(all: &[T], max: usize) -> Vec<T> {
    if all.len() <= max {
        return all.to_vec();
    }
    let last = all.len() - 1;
    (0..max).map(|nth| all[nth * last / (max - 1).max(1)]).collect()
}

pub(crate) struct Files {
    json: Option<OutputFile>,
    csv: Option<OutputFile>,
    full: bool,
}

impl Files {
    /// Opens the files if this rank `writes` the results. Refuses one path for two formats: the second
    /// would overwrite the first.
    pub(crate) fn open(args: &OutputArgs, writes: bool) -> Result<Self> {
        check_distinct(&[], args.files())?;
        let open = |path: &Option<PathBuf>| {
            path.as_ref().map(|path| OutputFile::of(path, writes)).transpose()
        };
        Ok(Self { json: open(&args.json)?, csv: open(&args.csv)?, full: args.full })
    }

    pub(crate) fn write(self, report: &RunReport) -> Result<()> {
        if let Some(mut file) = self.json {
            file.write(&printable::json(&(serde_json::to_string_pretty(report)? + "\n")))?;
        }
        if let Some(mut file) = self.csv {
            file.write(&printable::lines(&results::csv(&report.rows)?))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selects_notes_of_printed_columns() {
        let notes = vec![
            Note::on(&["one", "two"], "both."),
            Note::on(&["three"], "the third."),
            "one: this text names no column.".into(),
        ];
        let texts: Vec<_> = notes.iter().map(Note::to_string).collect();
        let report = RunReport { notes, ..RunReport::new("test") };
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["notes"], serde_json::json!(texts));
        let of = |head: &[&str]| {
            let head: Vec<String> = head.iter().map(|&name| name.to_owned()).collect();
            report.notes_for(&head, false)
        };
        let printed = of(&["two"]);
        assert_eq!(printed[..2], ["one, two: both.", "one: this text names no column."]);
        assert!(printed[2].starts_with("more: docs/output.md, section test; --full"));
        assert_eq!(of(&["one", "two", "three"])[..3], texts);
        assert_eq!(of(&[])[..1], texts[2..]);
    }

    #[test]
    fn short_facts_omit_parentheses() {
        assert_eq!(
            without_asides("on 4 KiB pages (none (huge) is free), pinned"),
            "on 4 KiB pages, pinned"
        );
        assert_eq!(without_asides("é) (open"), "é");
    }

    #[test]
    fn truncates_after_whole_fact() {
        let short = "a ".repeat(WIDTH / 2);
        assert_eq!(cut(&short), short);
        let long = format!("{}é, and more", "é".repeat(WIDTH - 8));
        assert_eq!(cut(&long), format!("{}é, ...", "é".repeat(WIDTH - 8)));
        assert!(cut(&"word, ".repeat(WIDTH)).chars().count() <= WIDTH);
        assert_eq!(cut(&"é".repeat(WIDTH + 1)).chars().count(), WIDTH);
    }

    #[test]
    fn samples_evenly() {
        assert_eq!(some_of(&[1, 2, 3], 3), [1, 2, 3]);
        assert_eq!(some_of(&[1, 2, 3, 4, 5, 6, 7], 4), [1, 3, 5, 7]);
        assert_eq!(some_of(&[1, 2, 3], 1), [1]);
    }
}
