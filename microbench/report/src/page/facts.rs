//! The section of a run: machine, findings, parameters, notes and rows.

use maud::{Markup, html};
use serde_json::Value;

use crate::distinct;
use crate::origin::{cell, parameter};
use crate::run::{Fields, Run};

/// Maximum rows, or elements of a list, that the page shows; the file has all.
const MOST_ROWS: usize = 400;
/// Columns that another place of the page shows, or that have one value for each round.
const NOT_SHOWN: [&str; 2] = ["histogram", "samples"];
/// Commands whose rows have plots.
const PLOTTED: [&str; 8] = [
    "bench-latency",
    "bench-throughput",
    "bench-map",
    "roundtrips",
    "explore",
    "compare",
    "simulate",
    // The page shows its findings in a separate section.
    "doctor",
];

/// Returns the section of one of all `runs`. It omits what an earlier section contains.
pub(super) fn run(run: &Run, runs: &[Run]) -> Markup {
    let earlier = || runs.iter().take_while(|other| other.number < run.number);
    let same_machine = earlier().find(|other| is_same_machine(run, other));
    let same_doctor = earlier().find(|other| run.doctor.is_some() && run.doctor == other.doctor);
    html! {
        article id=(format!("run-{}", run.number)) {
            h3 { "Run " (run.number) }
            p { (run.subject()) }
            p.files {
                @for (at, file) in run.files.iter().enumerate() {
                    @if at > 0 { ", the same in " }
                    code { (file) }
                }
                @if let Some(version) = &run.version { ", version " (version) }
                @if let Some(commit) = &run.commit { ", commit " (commit) }
            }
            @if !PLOTTED.contains(&run.command.as_str()) {
                p.aside {
                    "No plot is made of " code { (run.command) } ": its numbers are shown as they \
                     are in the file."
                }
            }
            div.facts {
                @if !run.machine.is_empty() || !run.transport_lines.is_empty() {
                    section { h4 { "Machine" } (machine(run, same_machine)) }
                }
                @if run.parameters.iter().any(|(_, value)| !value.is_null()) {
                    section { h4 { "Given" } (parameters(&run.parameters)) }
                }
            }
            @if let Some(other) = same_doctor {
                p.aside { "The doctor found the same as in " (link(other)) "." }
            } @else {
                (doctor(run))
            }
            (more(&run.more))
            @if !run.rows.is_empty() {
                details {
                    summary { "Rows (" (run.rows.len()) ")" }
                    (rows(&run.rows))
                }
            }
            @if !run.notes.is_empty() {
                details {
                    summary { "Notes" }
                    ul { @for note in &run.notes { li { (note) } } }
                }
            }
        }
    }
}

/// Facts that vary between runs on the same machine.
const CHANGES: [&str; 1] = ["load_average"];

fn is_same_machine(run: &Run, other: &Run) -> bool {
    let lasting = |run: &Run| {
        let facts = run.machine.iter().filter(|(name, _)| !CHANGES.contains(name));
        facts.map(|(name, value)| (name.to_owned(), value.clone())).collect::<Vec<_>>()
    };
    !run.machine.is_empty() && lasting(run) == lasting(other)
}

fn link(run: &Run) -> Markup {
    html! { a href=(format!("#run-{}", run.number)) { "run " (run.number) } }
}

fn machine(run: &Run, same: Option<&Run>) -> Markup {
    let facts = run.machine.iter().filter(|(name, _)| same.is_none() || CHANGES.contains(name));
    html! {
        dl {
            @if let Some(other) = same { dt { "as in" } dd { (link(other)) } }
            @for (name, value) in facts {
                dt { (label(name)) }
                dd { @if value.is_null() { span.unknown { "unknown" } } @else { (cell(value)) } }
            }
            @if !run.transport_lines.is_empty() {
                dt { "set up" }
                @for line in &run.transport_lines { dd { (line) } }
            }
        }
    }
}

fn parameters(parameters: &Fields) -> Markup {
    let given = parameters.iter().filter(|(_, value)| !value.is_null());
    html! { ul.given { @for (name, value) in given { li { (parameter(name, value)) } } } }
}

/// Returns the findings, the worst first.
fn doctor(run: &Run) -> Markup {
    let Some(findings) = &run.doctor else {
        return html! {
            p.aside { "The file has no findings of the doctor: probeline doctor examines a machine." }
        };
    };
    let verdict = |finding: &Fields| finding.text("verdict").unwrap_or("not seen").to_owned();
    let order = ["broken", "look at this", "not seen", "fine"];
    let mut sorted: Vec<&Fields> = findings.iter().collect();
    sorted.sort_by_key(|finding| order.iter().position(|name| *name == verdict(finding)));
    let (fine, others): (Vec<&Fields>, Vec<&Fields>) =
        sorted.into_iter().partition(|finding| verdict(finding) == "fine");
    html! {
        h4 { "The doctor's findings" }
        @if findings.is_empty() { p { "None." } }
        ul.findings { @for finding in &others { (self::finding(finding, &verdict(finding))) } }
        @if !fine.is_empty() {
            details {
                summary { (fine.len()) " fine" }
                ul.findings { @for finding in &fine { (self::finding(finding, "fine")) } }
            }
        }
    }
}

fn finding(finding: &Fields, verdict: &str) -> Markup {
    let text = |name: &str| finding.get(name).filter(|value| !value.is_null()).map(cell);
    html! {
        li class=(verdict.replace(' ', "-")) {
            strong { (verdict) } " "
            @if let Some(subject) = text("subject") { (subject) ", " }
            @if let Some(check) = text("check") { (check) ": " }
            @if let Some(seen) = text("seen") { (seen) }
            @if let Some(consequence) = text("consequence") { "; " (consequence) }
            @if let Some(command) = text("command") { br; code { (command) } }
            @if let Some(note) = text("note") { " (" (note) ")" }
        }
    }
}

/// Returns the remaining fields: lists of objects as tables, the others in a line each.
fn more(fields: &Fields) -> Markup {
    let is_table = |value: &Value| {
        value.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(Value::is_object))
    };
    let (tables, facts): (Vec<_>, Vec<_>) = fields.iter().partition(|(_, value)| is_table(value));
    html! {
        @if !facts.is_empty() {
            dl {
                @for (name, value) in facts { dt { (label(name)) } dd { (brief(value)) } }
            }
        }
        @for (name, list) in tables {
            @let rows: Vec<Fields> = serde_json::from_value(list.clone()).unwrap_or_default();
            details { summary { (label(name)) " (" (rows.len()) ")" } (self::rows(&rows)) }
        }
    }
}

/// Returns the value if it fits in a line.
fn brief(value: &Value) -> String {
    let text = cell(value);
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}\u{2026}", &text[..end]),
        None => text,
    }
}

fn rows(rows: &[Fields]) -> Markup {
    let names = rows.iter().flat_map(Fields::iter).map(|(name, _)| name);
    let columns = distinct(names.filter(|name| !NOT_SHOWN.contains(name)));
    let number = |row: &Fields, name: &str| row.get(name).is_some_and(Value::is_number);
    html! {
        div.table {
            table {
                thead { tr { @for name in &columns { th scope="col" { (label(name)) } } } }
                tbody {
                    @for row in rows.iter().take(MOST_ROWS) {
                        tr {
                            @for name in &columns {
                                td class=[(!number(row, name)).then_some("text")] {
                                    (row.get(name).map(brief).unwrap_or_default())
                                }
                            }
                        }
                    }
                }
            }
        }
        @if rows.len() > MOST_ROWS {
            p.aside { "The first " (MOST_ROWS) " of " (rows.len()) ": the file has all." }
        }
    }
}

fn label(name: &str) -> String {
    name.replace('_', " ")
}
