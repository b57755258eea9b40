//! The page: one file that needs no other file.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;

use crate::chart::Chapter;
use crate::distinct;
use crate::draw::{draw, style_sheet};
use crate::origin::cell;
use crate::plot::Plot;
use crate::run::{Fields, Run};

const STYLE: &str = include_str!("assets/page.css");

pub(crate) fn page(title: &str, runs: &[Run], chapters: &[Chapter]) -> String {
    let shown: Vec<&Chapter> =
        chapters.iter().filter(|chapter| !chapter.plots.is_empty()).collect();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                // Without this, a browser requests an icon from the server.
                link rel="icon" href="data:,";
                style { (PreEscaped(style_sheet())) (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { (title) }
                    (summary(runs))
                }
                (contents(&shown))
                main {
                    @for chapter in &shown { (section(chapter)) }
                    section id="runs" {
                        h2 { "The runs" }
                        p.lead {
                            "Parameters, machine, findings and rows of each run."
                        }
                        @for run in runs { (facts(run)) }
                    }
                }
            }
        }
    };
    page.into_string()
}

/// Returns what each run measured, and its own summary.
fn summary(runs: &[Run]) -> Markup {
    html! {
        ol.headlines {
            @for run in runs {
                li value=(run.number) {
                    a href=(format!("#run-{}", run.number)) { (run.subject()) }
                    @if !run.summary.is_empty() {
                        p { code { (run.summary.join("\n")) } }
                    }
                }
            }
        }
    }
}

fn contents(chapters: &[&Chapter]) -> Markup {
    html! {
        nav aria-label="Contents" {
            @for chapter in chapters {
                a href=(format!("#about-{}", chapter.texts[0])) { (chapter.texts[1]) }
            }
            a href="#runs" { "The runs" }
        }
    }
}

fn section(chapter: &Chapter) -> Markup {
    let [id, title, lead] = &chapter.texts;
    html! {
        section id=(format!("about-{id}")) {
            h2 { (title) }
            p.lead { (lead) }
            div.figures {
                @for plot in &chapter.plots { (figure(plot)) }
            }
        }
    }
}

fn figure(plot: &Plot) -> Markup {
    html! {
        figure id=(plot.id) {
            h3 { (plot.title) }
            div.plot { (draw(plot)) }
            figcaption { (plot.caption) }
        }
    }
}

/// Returns a table of these names and rows.
fn table(names: &[String], rows: &[Vec<String>]) -> Markup {
    let number = |cell: &str| cell.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    html! {
        div.table {
            table {
                thead {
                    tr { @for name in names { th scope="col" { (name) } } }
                }
                tbody {
                    @for cells in rows {
                        tr {
                            @for cell in cells { td class=[(!number(cell)).then_some("text")] { (cell) } }
                        }
                    }
                }
            }
        }
    }
}

/// Maximum rows, or elements of a list, that the page shows; the file has all.
const MAX_ROWS: usize = 400;
/// Columns that another place of the page shows, or that have one value for each round.
const NOT_SHOWN: [&str; 2] = ["histogram", "samples"];
/// Returns the section of a run: machine, findings, parameters, notes and rows.
fn facts(run: &Run) -> Markup {
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
            div.facts {
                (fields("Machine", run.machine.iter(), &run.transport_lines))
                (fields("Given", run.parameters.iter().filter(|(_, value)| !value.is_null()), &[]))
            }
            (doctor(run))
            (more(&run.more))
            @if !run.rows.is_empty() { (rows("Rows", &run.rows)) }
            @if !run.notes.is_empty() {
                details {
                    summary { "Notes" }
                    ul { @for note in &run.notes { li { (note) } } }
                }
            }
        }
    }
}

/// Returns names and values, and lines about how the transport was set up.
fn fields<'f>(
    title: &str,
    fields: impl Iterator<Item = (&'f str, &'f Value)>,
    set_up: &[String],
) -> Markup {
    let mut fields = fields.peekable();
    html! {
        @if fields.peek().is_some() || !set_up.is_empty() {
            section {
                h4 { (title) }
                dl {
                    @for (name, value) in fields {
                        dt { (label(name)) }
                        dd { @if value.is_null() { span.unknown { "unknown" } } @else { (brief(value)) } }
                    }
                    @if !set_up.is_empty() { dt { "set up" } }
                    @for line in set_up { dd { (line) } }
                }
            }
        }
    }
}

/// Returns the findings, the worst first.
fn doctor(run: &Run) -> Markup {
    let Some(findings) = &run.doctor else {
        return html! {
            p.aside { "The file has no findings of the doctor: probeline doctor examines a machine." }
        };
    };
    let of = |verdict: &str| -> Vec<Markup> {
        let known = |its: &&str| ["broken", "warning", "fine"].contains(its);
        let its = |finding: &&Fields| {
            finding.text("verdict").filter(known).unwrap_or("unknown") == verdict
        };
        findings.iter().filter(its).map(|finding| self::finding(finding, verdict)).collect()
    };
    let fine = of("fine");
    html! {
        h4 { "The doctor's findings" }
        @if findings.is_empty() { p { "None." } }
        ul.findings { @for verdict in ["broken", "warning", "unknown"] { @for li in of(verdict) { (li) } } }
        @if !fine.is_empty() {
            details {
                summary { (fine.len()) " fine" }
                ul.findings { @for li in &fine { (li) } }
            }
        }
    }
}

fn finding(finding: &Fields, verdict: &str) -> Markup {
    let text = |name: &str| finding.get(name).filter(|value| !value.is_null()).map(cell);
    html! {
        li class=(verdict) {
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
fn more(more: &Fields) -> Markup {
    let is_table = |value: &Value| {
        value.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(Value::is_object))
    };
    let (tables, facts): (Vec<_>, Vec<_>) = more.iter().partition(|(_, value)| is_table(value));
    html! {
        (fields("Other", facts.into_iter(), &[]))
        @for (name, list) in tables {
            @let rows: Vec<Fields> = serde_json::from_value(list.clone()).unwrap_or_default();
            (self::rows(&label(name), &rows))
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

fn rows(title: &str, rows: &[Fields]) -> Markup {
    let names = rows.iter().flat_map(Fields::iter).map(|(name, _)| name);
    let columns = distinct(names.filter(|name| !NOT_SHOWN.contains(name)));
    let head: Vec<String> = columns.iter().map(|name| label(name)).collect();
    let cells = |row: &Fields| {
        columns.iter().map(|name| row.get(name).map(brief).unwrap_or_default()).collect()
    };
    let lines: Vec<Vec<String>> = rows.iter().take(MAX_ROWS).map(cells).collect();
    html! {
        details {
            summary { (title) " (" (rows.len()) ")" }
            (table(&head, &lines))
            @if rows.len() > MAX_ROWS {
                p.aside { "The first " (MAX_ROWS) " of " (rows.len()) ": the file has all." }
            }
        }
    }
}

fn label(name: &str) -> String {
    name.replace('_', " ")
}
