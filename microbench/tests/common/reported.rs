//! A report in all formats, and checks that apply to all commands.

use std::collections::HashSet;
use std::fs;

use serde_json::Value;

use super::{Scratch, run};

/// The documentation of the JSON, which names its fields, parameters and columns.
const DOCUMENTATION: &str = include_str!("../../../docs/output.md");

/// Columns of a terminal.
pub(crate) const COLUMNS: usize = 100;

/// A report in all formats.
pub(crate) struct Reported {
    pub(crate) json: Value,
    csv: Vec<Vec<String>>,
    pub(crate) printed: String,
}

/// Runs the command with a file for each format.
#[track_caller]
pub(crate) fn reported(arguments: &[&str]) -> Reported {
    let scratch = Scratch::new();
    let (json, csv) = (scratch.path("report.json"), scratch.path("rows.csv"));
    let printed = run(&[arguments, &["--json", &json, "--csv", &csv]].concat()).printed();
    let json = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_path(csv).unwrap();
    let line = |record: Result<csv::StringRecord, _>| {
        record.unwrap().iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let csv = reader.records().map(line).collect();
    let reported = Reported { json, csv, printed };
    reported.check_summary();
    reported
}

impl Reported {
    /// Checks that the summary is printed before everything else.
    #[track_caller]
    pub(crate) fn check_summary(&self) {
        let summary = names(&self.json["summary"]);
        assert!(!summary.is_empty(), "{}", self.printed);
        let rest = self.printed.strip_prefix(&*summary.join("\n"));
        assert!(rest.is_some_and(|rest| rest.starts_with("\n\n")), "{summary:#?} {}", self.printed);
    }
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

fn keys(object: &Value) -> HashSet<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

/// Runs a command on both transports and checks everything that is independent of the transport.
/// Returns the rows.
#[track_caller]
pub(crate) fn command(command: &str, options: &[&str], rows: usize) -> Vec<Value> {
    let [shm, sim] = ["shm", "sim"].map(|transport| vec!["--transport", transport]);
    let transports = match command {
        "topology" => vec![vec![]],
        "contigs" => vec![shm],
        _ => vec![shm, sim],
    };
    transports.iter().flat_map(|over| rows_over(command, options, over, rows)).collect()
}

/// Runs as [`command`], over one transport.
#[track_caller]
pub(crate) fn rows_over(
    command: &str,
    options: &[&str],
    transport: &[&str],
    rows: usize,
) -> Vec<Value> {
    let report = reported(&[&[command], options, transport].concat());
    check_form(command, &report);
    let found = report.json["rows"].as_array().unwrap();
    assert_eq!(found.len(), rows, "{}", report.printed);
    found.clone()
}

/// Returns the names in the section of the documentation with this title: those in the rows of its
/// table, and those of the paragraph that starts with `label`.
fn documented(title: &str, label: &str) -> (Vec<&'static str>, Vec<&'static str>) {
    let section = DOCUMENTATION.split("\n## ").find_map(|section| {
        let (first, rest) = section.split_once('\n')?;
        (first == title).then_some(rest)
    });
    let section = section.unwrap_or_else(|| panic!("docs/output.md has no section {title}"));
    let quoted = |text: &'static str| text.split('`').skip(1).step_by(2);
    let lines = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let fields = lines.filter_map(|line| Some(line.split_once('`')?.0));
    let paragraph =
        section.split("\n\n").find(|paragraph| paragraph.trim_start().starts_with(label));
    (fields.collect(), paragraph.into_iter().flat_map(quoted).collect())
}

#[track_caller]
fn check_form(command: &str, report: &Reported) {
    let Reported { json, csv, printed } = report;
    let (fields, machine) = documented("Every command", "Machine:");
    assert_eq!(keys(json), HashSet::from_iter(fields));
    assert_eq!(keys(&json["machine"]), HashSet::from_iter(machine));
    assert_eq!((&json["schema"], &json["command"]), (&Value::from(1), &Value::from(command)));
    let (columns, parameters) = documented(command, "Parameters:");
    assert_eq!(keys(&json["parameters"]), HashSet::from_iter(parameters));
    let doctor = json["doctor"].as_array().unwrap();
    assert!(doctor.len() > 5 && doctor.iter().all(|finding| finding["verdict"].is_string()));
    assert!(!names(&json["transport"]).is_empty() && !names(&json["notes"]).is_empty());

    let rows = json["rows"].as_array().unwrap();
    // Lists are in the JSON only.
    let in_csv = columns.iter().filter(|name| !rows[0][**name].is_array());
    assert_eq!(csv[0], in_csv.clone().copied().collect::<Vec<_>>());
    assert_eq!(csv.len(), 1 + rows.len());
    for (row, record) in rows.iter().zip(&csv[1..]) {
        assert_eq!(keys(row), HashSet::from_iter(columns.iter().copied()));
        for (column, cell) in in_csv.clone().zip(record) {
            check_cell(&row[column], cell, column);
        }
    }
    // Each note is a line with a label.
    for note in names(&json["notes"]) {
        assert!(note.chars().count() <= COLUMNS && note.contains(": "), "{note}");
    }
    // Plain text: no escape sequences.
    assert!(printed.chars().all(|c| c == '\n' || !c.is_control()), "{printed:?}");
}

/// Checks that CSV and JSON have the same value, and that numbers are finite and not negative.
#[track_caller]
fn check_cell(value: &Value, cell: &str, column: &str) {
    match value {
        Value::String(text) => assert_eq!(text, cell),
        Value::Bool(value) => assert_eq!(value.to_string(), cell),
        // JSON also has null for an infinite or undefined number.
        Value::Null => assert!(cell.is_empty() && may_be_empty(column), "{column}"),
        number => {
            let number = number.as_f64().unwrap_or_else(|| panic!("{column}: {number}"));
            assert!(number.is_finite() && number >= 0.0, "{column}: {number}");
            // The last bit may be lost in the conversion to JSON.
            let off = (cell.parse::<f64>().unwrap() - number).abs();
            assert!(off <= number * 1e-15, "{column}: {cell} {number}");
        }
    }
}

/// Columns that READ, WRITE, CAS and FAA without a table do not have, or puts, or states
/// that are not kept as trees, or a simulation without a cache.
const MAY_BE_EMPTY: &str = "triangles seconds_at_206_us times_faster_at_206_us chunk_buckets \
    load_factor effective_roundtrips outgoing_roundtrips floor_ns times_floor cache_hit_share in_flight \
    digits hit_share node_hit_share held_lock times_faster lookup_ns";

fn may_be_empty(column: &str) -> bool {
    MAY_BE_EMPTY.split(' ').any(|name| name == column) || column.ends_with("_error")
}

/// Returns a number of a row.
#[track_caller]
pub(crate) fn number(row: &Value, column: &str) -> f64 {
    row[column].as_f64().unwrap_or_else(|| panic!("{column} of {row}"))
}

/// Checks that the numbers of these columns are in ascending order.
#[track_caller]
pub(crate) fn rise(row: &Value, columns: &[&str]) {
    let numbers: Vec<f64> = columns.iter().map(|column| number(row, column)).collect();
    assert!(numbers.is_sorted(), "{columns:?} of {row}");
}
