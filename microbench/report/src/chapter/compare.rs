//! Plots every transport of a comparison relative to the fastest one.

use super::{Chapter, distinct, of};
use crate::fields::Fields;
use crate::plot::{Axis, Form, Guide, Plot, Series, Table, all};
use crate::run::Run;

pub(super) fn chapter(runs: &[Run]) -> Chapter {
    let used = of(runs, &["compare"]);
    let plots: Vec<Plot> = used.iter().flat_map(|run| plots(run)).collect();
    let mut missing = Vec::new();
    if plots.is_empty() {
        missing.push(
            "Transports side by side: no run of compare is here. `probeline compare --json FILE` \
             makes one."
                .to_owned(),
        );
    }
    Chapter {
        id: "compare",
        title: "Transports side by side",
        lead: "The same operations over every transport, by turns in one run.".to_owned(),
        plots,
        missing,
    }
}

/// Plots latencies and rates of one run.
fn plots(run: &Run) -> Vec<Plot> {
    let kinds = [
        (
            "ns",
            "latency",
            "Time of an operation",
            "one operation at a time, median of the rounds' p50",
        ),
        (
            "ops/s",
            "rate",
            "Time of an operation where many are in flight",
            "from the rate, median of the rounds",
        ),
    ];
    let plot = |(unit, id, title, what)| plot(run, unit, id, title, what);
    kinds.into_iter().filter_map(plot).collect()
}

fn plot(run: &Run, unit: &str, id: &str, title: &str, what: &str) -> Option<Plot> {
    let mine = || run.rows.iter().filter(|row| row.text("unit") == Some(unit));
    let name = |row: &Fields| {
        let measured = row.text("measured")?.to_owned();
        Some(match row.text("owner").unwrap_or_default() {
            // In a workload all ranks work.
            "" | "works" => measured,
            owner => format!("{measured}, {owner}"),
        })
    };
    let names = distinct(mine().filter_map(name));
    let mut series: Vec<Series> = Vec::new();
    for row in mine() {
        let place = name(row).and_then(|name| names.iter().position(|other| *other == name));
        let place = place.and_then(|place| u32::try_from(place).ok());
        let times = row.number("times_fastest").filter(|times| *times > 0.0);
        let (Some(place), Some(times), Some(column)) = (place, times, row.text("column")) else {
            continue;
        };
        let point = [times, f64::from(place)];
        let one = Series {
            hue: column.to_owned(),
            line: String::new(),
            transport: column.to_owned(),
            chunk_buckets: run.parameters.chunk_buckets(),
            points: vec![point],
        };
        one.join(&mut series);
    }
    let last = f64::from(u32::try_from(names.len()).unwrap_or(u32::MAX)) - 0.5;
    Plot {
        id: format!("compare-{}-{id}", run.number),
        title: format!("{title}, by that of the fastest transport"),
        caption: format!(
            "Run {}: times the time of the line's fastest transport ({what}); 1 is the fastest. \
             polls, sleeps: what the owner does meanwhile. Simulated transports have virtual time and are left out.",
            run.number
        ),
        form: Form::Dots,
        x: Axis::log("times the fastest", all(&series, 0).chain([1.0, 2.0])),
        y: Axis::names(&names),
        table: Table::by_name("operation", &names, &series),
        guide: Some(Guide { from: [1.0, -0.5], to: [1.0, last] }),
        series,
    }
    .within_axes()
}
