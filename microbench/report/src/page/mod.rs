//! The page: one file that needs no other file.

mod facts;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::chapter::Chapter;
use crate::distinct;
use crate::plot::{Dashes, Plot, Table, draw, style_sheet};
use crate::run::Run;

const STYLE: &str = include_str!("../assets/page.css");
const SCRIPT: &str = include_str!("../assets/page.js");

pub(crate) fn page(title: &str, runs: &[Run], chapters: &[Chapter], dashes: &Dashes) -> String {
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
                (filters(&shown))
                (contents(&shown))
                main {
                    @for chapter in &shown { (section(chapter, dashes)) }
                    (left_out(chapters))
                    section id="runs" {
                        h2 { "The runs" }
                        p.lead {
                            "Parameters, machine, findings and rows of each run."
                        }
                        @for run in runs { (facts::run(run, runs)) }
                    }
                }
                script { (PreEscaped(SCRIPT)) }
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

/// Returns check boxes for each transport and each C. Without a script there is no choice.
fn filters(chapters: &[&Chapter]) -> Markup {
    let series =
        || chapters.iter().flat_map(|chapter| &chapter.plots).flat_map(|plot| &plot.series);
    let mut transports = distinct(series().map(|series| series.transport.as_str()));
    // Transports measured here come before the paper's.
    transports.sort_by_key(|name| name.starts_with("paper"));
    let mut chunks: Vec<u32> = series().filter_map(|series| series.chunk_buckets).collect();
    chunks.sort_unstable();
    chunks.dedup();
    html! {
        @if !transports.is_empty() {
            form id="filters" hidden autocomplete="off" aria-label="Show" {
                fieldset data-filter="transport" {
                    legend { "Transport" }
                    @for name in &transports {
                        label { input type="checkbox" value=(name) checked; (name) }
                    }
                }
                @if !chunks.is_empty() {
                    fieldset data-filter="c" {
                        legend { "C" }
                        @for c in &chunks {
                            label { input type="checkbox" value=(c) checked; (c) }
                        }
                    }
                }
                button type="reset" { "Show all" }
            }
        }
    }
}

fn contents(chapters: &[&Chapter]) -> Markup {
    html! {
        nav aria-label="Contents" {
            @for chapter in chapters {
                a href=(format!("#about-{}", chapter.id)) { (chapter.title) }
            }
            a href="#runs" { "The runs" }
        }
    }
}

fn section(chapter: &Chapter, dashes: &Dashes) -> Markup {
    html! {
        section id=(format!("about-{}", chapter.id)) {
            h2 { (chapter.title) }
            p.lead { (chapter.lead) }
            div.figures {
                @for plot in &chapter.plots { (figure(plot, dashes)) }
            }
        }
    }
}

fn figure(plot: &Plot, dashes: &Dashes) -> Markup {
    html! {
        figure id=(plot.id) {
            h3 { (plot.title) }
            div.plot { (draw(plot, dashes)) p.empty hidden { "Nothing is chosen." } }
            (legend(plot, dashes))
            figcaption { (plot.caption) }
            details {
                summary { "The numbers" }
                (table(&plot.table))
            }
        }
    }
}

fn legend(plot: &Plot, dashes: &Dashes) -> Markup {
    let places =
        |series: &[usize]| series.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    html! {
        ul.legend {
            @for entry in plot.legend(dashes) {
                li data-series=(places(&entry.series)) {
                    (entry.key(plot.form))
                    (entry.name)
                }
            }
        }
    }
}

fn table(table: &Table) -> Markup {
    let class = |series: Option<usize>| series.map(|at| format!("k{at}"));
    html! {
        div.table {
            table {
                thead {
                    tr { @for cell in &table.head { th scope="col" class=[class(cell.series)] { (cell.text) } } }
                }
                tbody {
                    @for row in &table.rows {
                        tr {
                            @for (at, cell) in row.iter().enumerate() {
                                @if at == 0 {
                                    th scope="row" { (cell.text) }
                                } @else {
                                    td class=[class(cell.series)] { (cell.text) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Marks up text between backquotes as code.
fn with_code(text: &str) -> Markup {
    html! {
        @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

fn left_out(chapters: &[Chapter]) -> Markup {
    let missing: Vec<&String> = chapters.iter().flat_map(|chapter| &chapter.missing).collect();
    html! {
        @if !missing.is_empty() {
            section id="left-out" {
                h2 { "Left out" }
                p.lead { "Plots for which no given run has data." }
                ul { @for text in missing { li { (with_code(text)) } } }
            }
        }
    }
}
