//! Plots the maximum rates of a transport by operations in flight, and those of memory.

use super::{Chapter, Names, Sample, of, series_of_runs};
use crate::number::ranks_name;
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
            "Limits of the transport and of the memory",
            "The machine's own limits, without a table: the rates that the measurements above are \
             compared with.",
        ],
        of_transport(runs).into_iter().chain(of_memory(runs)),
        "Limits of transport and memory: no run of limits was given. `probeline limits --json \
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

fn of_memory(runs: &[Run]) -> Option<Plot> {
    let mut names = Names::default();
    let mut series = series_of_runs(runs, &["limits"], |_, row| {
        let hue = format!("{}, {}", row.text("of")?, cores_name(row.count("cores")?));
        let limit = row.text("limit").filter(|limit| *limit != "index")?;
        let rate = row.number("median_ops_per_s").filter(|rate| *rate > 0.0)?;
        Some(Sample::new(hue, [rate / 1e6, names.place(limit.to_owned())]))
    });
    let several = of(runs, &["limits"]).len() > 1;
    for series in &mut series {
        // Memory belongs to the machine, whatever transport the run used.
        let line = core::mem::take(&mut series.line);
        if several {
            series.hue = format!("{}, {line}", series.hue);
        }
    }
    Spec {
        id: "depth-memory".to_owned(),
        title: "Memory accesses per second".to_owned(),
        caption: "Million accesses per second, each to one random line of 64 bytes. dependent: \
                  each address is the value that the previous access read; independent: the CPU \
                  overlaps accesses by itself; prefetched: each line is prefetched some \
                  operations ahead."
            .to_owned(),
        x: ("million per second", Kind::Log),
        y: ("accesses", Kind::Names(names.0)),
        guide: Guide::None,
    }
    .plot(series)
}

fn cores_name(cores: u64) -> String {
    ranks_name(cores).replace("rank", "core")
}
