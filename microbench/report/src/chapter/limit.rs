//! Plots each measurement as a share of the limit of the transport or of memory.

use super::{Chapter, Names, Sample, cluster, series, series_of_runs, throughput};
use crate::number::ranks_name;
use crate::origin::Origins;
use crate::plot::{Guide, Kind, Plot, Spec};
use crate::run::Run;

pub(super) fn chapter(runs: &[Run]) -> Chapter {
    let floors = [
        ("inserted", "Inserts relative to their floor"),
        ("found", "Finds relative to their floor"),
    ]
    .into_iter()
    .filter_map(|(operation, title)| floors(runs, operation, title));
    Chapter::new(
        [
            "limit",
            "Fraction of the limit",
            "Each measurement divided by the limit of the transport or the memory that the same \
             run measured; 1 is the limit itself.",
        ],
        rates(runs).into_iter().chain(floors).chain(cluster::bounds(runs)),
        "Fraction of the limit: no given run has measured its limit. `probeline bench-throughput \
         --json FILE` writes one that has.",
    )
}

/// Plots workloads and explorations, a line for each.
fn rates(runs: &[Run]) -> Option<Plot> {
    let mut names = Names::default();
    let commands = ["bench-throughput", "explore"];
    let grouped = |used: &[&Run]| Origins::grouped(used, &throughput::AXES);
    let mut series = series(runs, &commands, grouped, |run, row| {
        let share = row.number("limit_share").filter(|share| *share > 0.0)?;
        let what = row.text("workload").or_else(|| row.text("model"))?;
        let name = format!("{what}, {}", ranks_name(row.count("ranks")?));
        let sample = Sample::new(String::new(), [share, names.place(name)]);
        Some(Sample { chunk_buckets: run.chunk_buckets(row), ..sample })
    });
    for series in &mut series {
        series.hue = core::mem::take(&mut series.line);
    }
    Spec {
        id: "limit-share".to_owned(),
        title: "Throughput as a share of its limit".to_owned(),
        caption: "Operations per second, divided by the limit: the highest rate of the reads and \
                  claims that the same operations need, over the transport, or in memory if the \
                  CPU accesses the table itself. The limit is measured at the start of each run, \
                  on the table's own windows, and includes no other work of an operation."
            .to_owned(),
        x: ("of the limit", Kind::FromZero),
        y: ("workload", Kind::Names(names.0)),
        guide: Guide::Upright,
    }
    .plot(series)
}

/// Plots the floor's time / the time of find-or-put, by load factor and C.
fn floors(runs: &[Run], operation: &str, title: &str) -> Option<Plot> {
    let series = series_of_runs(runs, &["bench-latency"], |run, row| {
        row.text("operation").filter(|of| *of == operation)?;
        let times = row.number("times_floor").filter(|times| *times > 0.0)?;
        Sample::of_chunk(run, row, [row.number("load_factor")?, 1.0 / times])
    });
    let floor = match operation {
        "inserted" => "one READ of C buckets and then one CAS",
        _ => "one READ of C buckets",
    };
    Spec {
        id: format!("floor-{operation}"),
        title: title.to_owned(),
        caption: format!(
            "The time of {floor}, to the same owners in the same order, divided by that of the \
             find-or-put: medians of rounds in which both are measured alternately. A value above \
             1 means that the find-or-put takes less time than its floor, for example because the \
             CPU loads only the bytes that it needs."
        ),
        x: ("load factor", Kind::Between),
        y: ("floor / find-or-put", Kind::FromZero),
        guide: Guide::Level,
    }
    .plot(series)
}
