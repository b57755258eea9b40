//! Plots the maximum rates of a transport by operations in flight.

use super::{Chapter, Sample, series_of_runs};
use crate::plot::{Guide, Kind, Plot, Spec};
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

pub(super) fn chapter(runs: &[Run]) -> Chapter {
    Chapter::new(
        [
            "depth",
            "Limits of the transport",
            "One-sided operations without a table: the rates that the measurements above are \
             compared with.",
        ],
        of_transport(runs),
        "Limits of the transport: no run of limits was given. `probeline limits --json \
         FILE` writes one.",
    )
}

fn of_transport(runs: &[Run]) -> Option<Plot> {
    let series = series_of_runs(runs, &["limits"], |_, row| {
        let limit = row.text("limit").filter(|limit| SHOWN.contains(limit))?;
        let point = [row.number("in_flight")?, row.number("median_ops_per_s")? / 1e6];
        Some(Sample::new(limit.to_owned(), point))
    });
    Spec {
        id: "depth-transport".to_owned(),
        title: "One-sided operations per second by number in flight".to_owned(),
        caption: "Million operations per second by rank 0 on random words of its peer's window, \
                  or on one word. With one in flight the result of each operation determines the \
                  address of the next. Medians of rounds. The run's rows have more sizes."
            .to_owned(),
        x: ("operations in flight", Kind::Counts),
        y: ("million per second", Kind::Fitting),
        guide: Guide::None,
    }
    .plot(series)
}
