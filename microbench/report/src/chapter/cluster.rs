//! Simulated clusters: throughput, speedup and the limit they meet, by machines (paper Fig. 3).

use super::{distinct, of, rows};
use crate::fields::Fields;
use crate::origin::{Origins, transport};
use crate::plot::{Axis, Form, Guide, Plot, Series, Table, all};
use crate::run::Run;

const MACHINES: &str = "machines";

/// Of runs of `simulate`: what `value` takes from the rows of a workload, a series for each number
/// of ranks on a machine.
pub(super) fn by_machines(
    runs: &[Run],
    workload: &str,
    value: impl Fn(&Run, &Fields) -> Option<f64>,
) -> Vec<Series> {
    let used: Vec<&Run> = of(runs, &["simulate"]);
    let of_workload = |row: &Fields| row.text("workload") == Some(workload);
    let used: Vec<&Run> = used.into_iter().filter(|run| run.rows.iter().any(of_workload)).collect();
    let origins = Origins::unique(&used);
    let mut series: Vec<Series> = Vec::new();
    for (run, row) in rows(&used).filter(|(_, row)| of_workload(row)) {
        let point = (|| Some([row.number("machines")?, value(run, row)?]))();
        let (Some(point), Some(ranks)) = (point, row.count("ranks_per_machine")) else { continue };
        let (hue, line) = (ranks_name(ranks), origins.name(run));
        match series.iter_mut().find(|series| series.hue == hue && series.line == line) {
            Some(same) => same.points.push(point),
            None => series.push(Series {
                hue,
                line,
                transport: transport(run),
                chunk_buckets: run.chunk_buckets(row),
                points: vec![point],
            }),
        }
    }
    for series in &mut series {
        series.points.sort_by(|one, other| one[0].total_cmp(&other[0]));
    }
    series
}

/// What a series of so many ranks on each machine is called.
pub(super) fn ranks_name(ranks: u64) -> String {
    if ranks == 1 { "1 rank a machine".to_owned() } else { format!("{ranks} ranks a machine") }
}

/// The workloads that clusters were simulated with.
pub(super) fn workloads(runs: &[Run]) -> Vec<&str> {
    let used = of(runs, &["simulate"]);
    distinct(rows(&used).filter_map(|(_, row)| row.text("workload")))
}

fn millions(_: &Run, row: &Fields) -> Option<f64> {
    row.number("ops_per_s").filter(|rate| *rate > 0.0).map(|rate| rate / 1e6)
}

/// Throughput and speedup, a plot of each for each workload.
pub(super) fn throughput(runs: &[Run]) -> Vec<Plot> {
    let mut plots = Vec::new();
    for workload in workloads(runs) {
        let series = by_machines(runs, workload, millions);
        plots.extend(rate_plot(workload, series.clone()));
        plots.extend(speedup_plot(workload, &series));
    }
    plots
}

fn rate_plot(workload: &str, series: Vec<Series>) -> Option<Plot> {
    Plot {
        id: format!("simulated-{workload}"),
        title: format!("Throughput of simulated clusters, {workload}"),
        caption:
            "Million find-or-puts a second of all ranks of all machines, in virtual time, with \
                  no truncation."
                .to_owned(),
        form: Form::Lines,
        x: Axis::counts(MACHINES, all(&series, 0)),
        y: Axis::fitting("million a second", all(&series, 1)),
        table: Table::by_x(MACHINES, &series),
        guide: None,
        series,
    }
    .within_axes()
}

/// Beside the cluster with the fewest ranks that the same run has, as the paper has it.
fn speedup_plot(workload: &str, rates: &[Series]) -> Option<Plot> {
    let ranks = |series: &Series| -> Option<f64> { series.hue.split(' ').next()?.parse().ok() };
    let fewest = |line: &str| {
        let of_line = rates.iter().filter(|series| series.line == line);
        let clusters = of_line.filter_map(|series| {
            let [machines, rate] = *series.points.first()?;
            Some((machines * ranks(series)?, machines, rate))
        });
        clusters.min_by(|one, other| one.0.total_cmp(&other.0))
    };
    let scaled = rates.iter().filter_map(|series| {
        let (_, _, least) = fewest(&series.line)?;
        let points = series.points.iter().map(|[machines, rate]| [*machines, rate / least]);
        Some(Series { points: points.collect(), ..series.clone() })
    });
    let series: Vec<Series> = scaled.collect();
    let (ranks, machines, _) = fewest(&rates.first()?.line)?;
    if series.iter().map(|series| series.points.len()).sum::<usize>() < 2 {
        return None;
    }
    Plot {
        id: format!("simulated-{workload}-speedup"),
        title: format!("Speedup of simulated clusters, {workload}"),
        caption: format!(
            "Times the throughput of the cluster with the fewest ranks of the same run, here {ranks} \
             on {machines} machines."
        ),
        form: Form::Lines,
        x: Axis::counts(MACHINES, all(&series, 0)),
        y: Axis::fitting("times", all(&series, 1)),
        table: Table::by_x(MACHINES, &series),
        guide: None,
        series,
    }
    .within_axes()
}

/// How much of the limit that is used most is used.
pub(super) fn limits(runs: &[Run]) -> Vec<Plot> {
    let used = of(runs, &["simulate"]);
    let plot = |workload: &str| {
        let series = by_machines(runs, workload, |_, row| row.number("limit_used"));
        let of_workload = rows(&used).filter(|(_, row)| row.text("workload") == Some(workload));
        let of_workload: Vec<&Fields> = of_workload.map(|(_, row)| row).collect();
        let span = all(&series, 0)
            .fold((f64::INFINITY, 0.0_f64), |(least, most), x| (least.min(x), most.max(x)));
        Plot {
            id: format!("limit-simulated-{workload}"),
            title: format!("Simulated clusters as a share of their limit, {workload}"),
            caption: format!(
                "How much of the limit that is used most each machine uses; at 1 nothing more can be \
                 had from it. {}.",
                met_or_nearest(&of_workload)
            ),
            form: Form::Lines,
            x: Axis::counts(MACHINES, all(&series, 0)),
            y: Axis::from_zero("of the limit", all(&series, 1).chain([1.0])),
            table: Table::by_x(MACHINES, &series),
            guide: (span.0 < span.1)
                .then_some(Guide { from: [span.0, 1.0], to: [span.1, 1.0] }),
            series,
        }
        .within_axes()
    };
    workloads(runs).into_iter().filter_map(plot).collect()
}

/// Which limits are met, or that none is and which ones are nearest.
fn met_or_nearest(rows: &[&Fields]) -> String {
    let met = distinct(rows.iter().filter_map(|row| row.limit_met()));
    if !met.is_empty() {
        return format!("Met, being used to 0.9 or more: {}", met.join(", "));
    }
    let nearest = distinct(rows.iter().filter_map(|row| row.text("nearest_limit")));
    match nearest.is_empty() {
        true => "Nothing is at its limit".to_owned(),
        false => format!("Nothing is at its limit; nearest: {}", nearest.join(", ")),
    }
}
