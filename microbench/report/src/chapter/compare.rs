//! Plots every transport of a comparison relative to the fastest one.

use super::{Chapter, Names, Sample, of, series_of_runs};
use crate::plot::{Guide, Kind, Plot, Spec};
use crate::run::Run;

/// The units of the two plots of a run, with their names, titles and what their values are.
const PLOTS: [[&str; 4]; 2] = [
    ["ns", "latency", "Time of an operation", "one operation at a time, median of the rounds' p50"],
    [
        "ops/s",
        "rate",
        "Time of a find-or-put of all ranks at once",
        "from the rate, median of the rounds",
    ],
];

pub(super) fn chapter(runs: &[Run]) -> Chapter {
    let used = of(runs, &["compare"]);
    Chapter::new(
        [
            "compare",
            "Transports side by side",
            "bench-latency and bench-throughput over every transport, by turns over rounds.",
        ],
        used.iter().flat_map(|run| PLOTS.into_iter().filter_map(|kind| plot(run, kind))),
        "Transports side by side: no run of compare was given. `probeline compare --json FILE` \
         writes one.",
    )
}

fn plot(run: &Run, [unit, id, title, what]: [&str; 4]) -> Option<Plot> {
    let mut names = Names::default();
    let runs = core::slice::from_ref(run);
    let mut series = series_of_runs(runs, &["compare"], |_, row| {
        row.text("unit").filter(|of| *of == unit)?;
        let name = row.text("measured")?.to_owned();
        let times = row.number("times_fastest").filter(|times| *times > 0.0)?;
        Some(Sample::new(row.text("column")?.to_owned(), [times, names.place(name)]))
    });
    for series in &mut series {
        series.line.clear();
        series.transport.clone_from(&series.hue);
        series.chunk_buckets = run.parameters.chunk_buckets();
    }
    Spec {
        id: format!("compare-{}-{id}", run.number),
        title: format!("{title}, relative to the fastest transport"),
        caption: format!(
            "Run {}: time divided by that of the row's fastest transport ({what}); 1 is the \
             fastest. Simulated transports have virtual time and are left out.",
            run.number
        ),
        x: ("times the fastest", Kind::Ratios),
        y: ("operation", Kind::Names(names.0)),
        guide: Guide::Upright,
    }
    .plot(series)
}
