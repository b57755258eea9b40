//! A plot with its caption, its legend and the table of its numbers.

use maud::{Markup, PreEscaped, html};

use crate::error::Error;
use crate::plot::{Dashes, Plot, Table, draw};

pub(super) fn figure(plot: &Plot, dashes: &Dashes) -> Result<Markup, Error> {
    let svg = draw(plot, dashes)?;
    Ok(html! {
        figure id=(plot.id) {
            h3 { (plot.title) }
            div.plot { (PreEscaped(svg)) p.empty hidden { "Nothing is chosen." } }
            (legend(plot, dashes))
            figcaption { (plot.caption) }
            details {
                summary { "The numbers" }
                (table(&plot.table))
            }
        }
    })
}

fn legend(plot: &Plot, dashes: &Dashes) -> Markup {
    let places =
        |series: &[usize]| series.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    html! {
        ul.legend {
            @for entry in plot.legend(dashes) {
                li data-series=(places(&entry.series)) {
                    (PreEscaped(entry.key(plot.form)))
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
