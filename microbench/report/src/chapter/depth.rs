//! Plots the maximum rates of a transport by operations in flight, and those of memory.

use super::{Chapter, distinct, of, rows};
use crate::fields::Fields;
use crate::origin::{Origins, transport};
use crate::plot::{Axis, Form, Plot, Series, Table, all, sort_by_x};
use crate::run::Run;

/// The operations of a transport that the plots show.
const SHOWN: [&str; 7] = [
    "READ 8 B",
    "READ 64 B",
    "READ 4096 B",
    "CAS random word",
    "CAS one word",
    "FAA random word",
    "FAA one word",
];
const IN_FLIGHT: &str = "operations in flight";

pub(super) fn chapter(runs: &[Run]) -> Chapter {
    let used = of(runs, &["limits"]);
    let mut plots = Vec::new();
    plots.extend(of_transport(&used));
    plots.extend(of_memory(&used));
    let mut missing = Vec::new();
    if plots.is_empty() {
        missing.push(
            "What transport and memory do at best: no run of limits is here. `probeline limits \
             --json FILE` makes one."
                .to_owned(),
        );
    }
    Chapter {
        id: "depth",
        title: "What the transport and the memory do at best",
        lead: "The machine's own limits, with no table: what everything above stands beside."
            .to_owned(),
        plots,
        missing,
    }
}

fn of_transport(runs: &[&Run]) -> Option<Plot> {
    let origins = Origins::unique(runs, &[]);
    let mut series: Vec<Series> = Vec::new();
    for (run, row) in rows(runs) {
        let point = (|| Some([row.number("in_flight")?, row.number("median_ops_per_s")? / 1e6]))();
        let (Some(point), Some(limit)) = (point, row.text("limit")) else { continue };
        if !SHOWN.contains(&limit) {
            continue;
        }
        let (hue, line, transport) = (limit.to_owned(), origins.name(run), transport(run));
        let points = vec![point];
        Series { hue, line, transport, chunk_buckets: None, points }.join(&mut series);
    }
    sort_by_x(&mut series);
    Plot {
        id: "depth-transport".to_owned(),
        title: "One-sided operations a second by how many are in flight".to_owned(),
        caption:
            "Million operations a second by rank 0 on random places of its peer's window, or on \
                  one word. With one in flight the next goes where the result of the one before \
                  says. Medians of rounds. The run's rows have more sizes."
                .to_owned(),
        form: Form::Lines,
        x: Axis::counts(IN_FLIGHT, all(&series, 0)),
        y: Axis::fitting("million a second", all(&series, 1)),
        table: Table::by_x(IN_FLIGHT, &series),
        guide: None,
        series,
    }
    .within_axes()
}

fn of_memory(runs: &[&Run]) -> Option<Plot> {
    let origins = Origins::unique(runs, &[]);
    let kind = |row: &Fields| {
        let cores = row.count("cores")?;
        let cores = if cores == 1 { "1 core".to_owned() } else { format!("{cores} cores") };
        Some(format!("{}, {cores}", row.text("of")?))
    };
    let limit =
        |row: &Fields| row.text("limit").filter(|limit| *limit != "index").map(str::to_owned);
    let of_memory = || rows(runs).filter(|(_, row)| row.number("cores").is_some());
    let names = distinct(of_memory().filter_map(|(_, row)| limit(row)));
    let mut series: Vec<Series> = Vec::new();
    for (run, row) in of_memory() {
        let place = limit(row).and_then(|limit| names.iter().position(|name| *name == limit));
        let place = place.and_then(|place| u32::try_from(place).ok());
        let (Some(place), Some(hue)) = (place, kind(row)) else { continue };
        let Some(rate) = row.number("median_ops_per_s").filter(|rate| *rate > 0.0) else {
            continue;
        };
        // Memory belongs to the machine, whatever transport the run used.
        let hue = match runs.len() {
            1 => hue,
            _ => format!("{hue}, {}", origins.name(run)),
        };
        let point = [rate / 1e6, f64::from(place)];
        let (line, transport, points) = (String::new(), transport(run), vec![point]);
        Series { hue, line, transport, chunk_buckets: None, points }.join(&mut series);
    }
    Plot {
        id: "depth-memory".to_owned(),
        title: "Memory accesses a second".to_owned(),
        caption: "Million accesses a second, each to one random line of 64 bytes. dependent: each \
                  where the value of the one before says; independent: as many at once as the CPU \
                  finds by itself; prefetched: requested some operations before."
            .to_owned(),
        form: Form::Dots,
        x: Axis::log("million a second", all(&series, 0)),
        y: Axis::names(&names),
        table: Table::by_name("accesses", &names, &series),
        guide: None,
        series,
    }
    .within_axes()
}
