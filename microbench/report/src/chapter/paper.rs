//! Compares the runs to the paper's figures.

use super::latency::{Clusters, Roundtrips, latency, roundtrips};
use super::{Chapter, cluster, distinct};
use crate::plot::{Axis, Form, Guide, Plot, Series, Table, all, chunk_name, span};
use crate::run::Run;
use probeline_profile::paper::{self, Latency as LatencyFigure, SOURCE};

const LOAD_FACTOR: &str = "load factor";
/// The transport by which the page filters the paper's figures of one machine.
const LOCAL: &str = "paper, 1 machine";
const REMOTE: &str = "paper, 2 machines";
const CLUSTER: &str = "paper, clusters";
/// Load factors that differ by less than this are equal.
const SAME: f64 = 1e-6;

pub(super) fn chapter(runs: &[Run]) -> Chapter {
    let mut chapter = Chapter {
        id: "paper",
        title: "Beside the paper's figures",
        lead: format!(
            "Hollow markers are the paper's: {SOURCE}. A latency over shared memory, or simulated \
             on one machine, stands beside the paper's on one machine, all others beside those on two."
        ),
        plots: Vec::new(),
        missing: Vec::new(),
    };
    let figures = paper::latencies();
    let latencies = Clusters::PAPERS.map(|clusters| latency(runs, "inserted", clusters));
    for (here, local) in latencies.iter().zip([true, false]) {
        let (id, title) = match local {
            true => ("paper-latency-local", "Mean latency of an insert, on one machine"),
            false => ("paper-latency", "Mean latency of an insert, on two machines or as if"),
        };
        chapter.plots.extend(beside(
            id,
            title,
            "mean, ns",
            "Nanoseconds of one insert at a time; the paper's are means of three runs on 1 GB of \
             each process.",
            here,
            &latency_figures(&figures, here, local),
        ));
    }
    chapter.plots.extend(ratio(
        "paper-latency-ratio",
        "Mean latency by the paper's",
        "Of the run by the paper's at the same C and load factor; below 1 is faster than the paper.",
        &latencies.concat(),
        |series, load| {
            let figure = figure(&figures, series, load)?;
            let local = latencies[0].iter().any(|other| other.line == series.line);
            Some(if local { figure.local_ns } else { figure.remote_ns })
        },
    ));
    let trips = Clusters::PAPERS.map(|at| roundtrips(runs, Roundtrips::Effective, at)).concat();
    chapter.plots.extend(beside(
        "paper-roundtrips",
        "Roundtrips of an insert, here and in the paper",
        "READs waited for",
        "Chunk READs that an insert waits for; the same on one machine and on two.",
        &trips,
        &roundtrip_figures(&figures, &trips),
    ));
    chapter.plots.extend(ratio(
        "paper-roundtrips-ratio",
        "Roundtrips by the paper's",
        "Of the run by the paper's at the same C and load factor; below 1 are fewer READs.",
        &trips,
        |series, load| Some(figure(&figures, series, load)?.effective_roundtrips),
    ));
    if chapter.plots.is_empty() {
        chapter.missing.push(
            "Latency and roundtrips beside the paper's: they need inserts by load factor. \
             `probeline bench-latency --json FILE` makes a run that has them."
                .to_owned(),
        );
    }
    match throughput(runs) {
        plots if plots.is_empty() => chapter.missing.push(
            "Throughput beside the paper's: its figures are of 2 machines and more, and \
             no run here is of as many. `probeline simulate --json FILE` makes one in virtual time."
                .to_owned(),
        ),
        plots => chapter.plots.extend(plots),
    }
    chapter
}

/// Returns the figure at the C of a series and at this load factor.
fn figure(figures: &[LatencyFigure], series: &Series, load: f64) -> Option<LatencyFigure> {
    let same = |figure: &&LatencyFigure| {
        Some(figure.chunk_buckets) == series.chunk_buckets
            && (figure.load_factor() - load).abs() < SAME
    };
    figures.iter().find(same).copied()
}

/// Returns the paper's latencies at each C of the series `here`, on one machine or two.
fn latency_figures(figures: &[LatencyFigure], here: &[Series], local: bool) -> Vec<Series> {
    let ns = |figure: &LatencyFigure| if local { figure.local_ns } else { figure.remote_ns };
    let name = if local { LOCAL } else { REMOTE };
    let chunks = distinct(here.iter().filter_map(|series| series.chunk_buckets));
    chunks.into_iter().filter_map(|c| of_paper(figures, name, c, ns)).collect()
}

fn roundtrip_figures(figures: &[LatencyFigure], here: &[Series]) -> Vec<Series> {
    let chunks = distinct(here.iter().filter_map(|series| series.chunk_buckets));
    let of_chunk =
        |c| of_paper(figures, REMOTE, c, |figure: &LatencyFigure| figure.effective_roundtrips);
    chunks.into_iter().filter_map(of_chunk).collect()
}

fn of_paper(
    figures: &[LatencyFigure],
    name: &str,
    chunk_buckets: u32,
    value: impl Fn(&LatencyFigure) -> f64,
) -> Option<Series> {
    let figures = figures.iter().filter(|figure| figure.chunk_buckets == chunk_buckets);
    let points: Vec<[f64; 2]> =
        figures.map(|figure| [figure.load_factor(), value(figure)]).collect();
    (!points.is_empty()).then(|| Series {
        hue: chunk_name(chunk_buckets),
        line: name.to_owned(),
        transport: name.to_owned(),
        chunk_buckets: Some(chunk_buckets),
        points,
    })
}

/// Plots runs and the paper's figures in one plot, or returns `None` if the paper has none.
fn beside(
    id: &str,
    title: &str,
    y: &str,
    caption: &str,
    here: &[Series],
    papers: &[Series],
) -> Option<Plot> {
    if papers.is_empty() {
        return None;
    }
    let mut series = [here, papers].concat();
    series.sort_by_key(|series| series.chunk_buckets);
    Plot {
        id: id.to_owned(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        form: Form::Lines,
        x: Axis::between(LOAD_FACTOR, all(&series, 0)),
        y: Axis::fitting(y, all(&series, 1)),
        table: Table::by_x(LOAD_FACTOR, &series),
        guide: None,
        series,
    }
    .within_axes()
}

/// Returns the run's value / the paper's, at points that both have.
fn ratio(
    id: &str,
    title: &str,
    caption: &str,
    here: &[Series],
    paper: impl Fn(&Series, f64) -> Option<f64>,
) -> Option<Plot> {
    let by_paper = |series: &Series| {
        let points = series.points.iter();
        let points: Vec<[f64; 2]> = points
            .filter_map(|[load, value]| Some([*load, value / paper(series, *load)?]))
            .collect();
        (!points.is_empty()).then(|| Series { points, ..series.clone() })
    };
    let series: Vec<Series> = here.iter().filter_map(by_paper).collect();
    let loads = || all(&series, 0);
    let [first, last] = span(loads());
    Plot {
        id: id.to_owned(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        form: Form::Lines,
        x: Axis::between(LOAD_FACTOR, loads()),
        y: Axis::between("times the paper's", all(&series, 1).chain([1.0])),
        table: Table::by_x(LOAD_FACTOR, &series),
        guide: (first <= last).then_some(Guide { from: [first, 1.0], to: [last, 1.0] }),
        series,
    }
    .within_axes()
}

/// Plots simulated clusters and the paper's: a plot for each workload that the paper has.
fn throughput(runs: &[Run]) -> Vec<Plot> {
    let figures = paper::throughputs();
    let plot = |workload: &str| {
        let here = cluster::by_machines(runs, workload, &[], |run, row| {
            // The paper's values are truncated to whole microseconds; simulated ones are if that
            // was requested.
            let asked = run.parameters.get("truncate_us").is_some_and(|asked| asked == true);
            let cut = asked.then(|| row.number("truncated_ops_per_s")).flatten();
            let rate = cut.or_else(|| row.number("ops_per_s"))?;
            (rate > 0.0).then_some(rate / 1e6)
        });
        let mut series = here.clone();
        for hue in distinct(here.iter().map(|series| series.hue.as_str())) {
            let same = figures.iter().filter(|figure| {
                figure.workload.name() == workload
                    && cluster::ranks_name(u64::from(figure.ranks_per_machine)) == hue
            });
            let points = same.map(|figure| [f64::from(figure.machines), figure.ops_per_s / 1e6]);
            let (line, transport) = (CLUSTER.to_owned(), CLUSTER.to_owned());
            let (hue, points) = (hue.to_owned(), points.collect());
            series.push(Series { hue, line, transport, chunk_buckets: Some(32), points });
        }
        Plot {
            id: format!("paper-throughput-{workload}"),
            title: format!("Throughput by machines, {workload}, here and in the paper"),
            caption: "Million find-or-puts a second of all ranks of all machines. The paper's \
                      program cut each operation's time to whole microseconds, which makes its \
                      figures larger than what was done; a simulated run has the same cut if \
                      --truncate-us or --paper was asked for."
                .to_owned(),
            form: Form::Lines,
            x: Axis::counts("machines", all(&series, 0)),
            y: Axis::fitting("million a second", all(&series, 1)),
            table: Table::by_x("machines", &series),
            guide: None,
            series,
        }
        .within_axes()
    };
    let papers = |workload: &&str| figures.iter().any(|figure| figure.workload.name() == *workload);
    cluster::workloads(runs).into_iter().filter(papers).filter_map(plot).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::run::made_up;

    /// Creates a run whose inserts take `times` the paper's time.
    fn run(transport: &str, times: f64) -> Run {
        let row = |figure: &LatencyFigure| {
            let ns = if transport == "shm" { figure.local_ns } else { figure.remote_ns };
            json!({
                "operation": "inserted", "chunk_buckets": figure.chunk_buckets,
                "load_factor": figure.load_factor(), "mean_ns": times * ns,
                "effective_roundtrips": figure.effective_roundtrips,
            })
        };
        let rows: Vec<Value> = paper::latencies().iter().map(row).collect();
        of_rows(transport, Value::from(rows))
    }

    fn of_rows(transport: &str, rows: Value) -> Run {
        let parameters = json!({ "transport": transport });
        made_up(
            &json!({ "schema": 1, "command": "bench-latency", "parameters": parameters, "rows": rows }),
            1,
        )
    }

    #[test]
    fn each_point_is_compared_with_its_own_figure() {
        let (local, remote) = ("paper-latency-local", "paper-latency");
        for (transport, id, other, times) in
            [("shm", local, remote, 0.25), ("sim", remote, local, 2.0)]
        {
            let chapter = chapter(&[run(transport, times)]);
            let plot = |id: &str| chapter.plots.iter().find(|plot| plot.id == id);
            assert_eq!(plot(id).unwrap().series.len(), 2 * 5);
            assert!(plot(other).is_none());
            for (id, expected) in [("paper-latency-ratio", times), ("paper-roundtrips-ratio", 1.0)]
            {
                let ratios = plot(id).unwrap();
                assert_eq!(all(&ratios.series, 1).count(), 5 * 46);
                assert!(
                    all(&ratios.series, 1).all(|ratio| (ratio - expected).abs() < 1e-9),
                    "{id}"
                );
            }
        }
    }

    /// One simulation has the latencies of both clusters.
    #[test]
    fn simulated_machines_are_compared_with_as_many() {
        let row = |machines: u64, ns: f64| {
            json!({
                "experiment": "latency", "machines": machines, "ranks_per_machine": 2 / machines,
                "chunk_buckets": 32, "load_factor": 0.5, "mean_latency_ns": ns,
            })
        };
        let at = |figure: &&LatencyFigure| {
            figure.chunk_buckets == 32 && (figure.load_factor() - 0.5).abs() < SAME
        };
        let figure = paper::latencies().iter().find(at).copied().unwrap();
        let rows = json!([row(1, 3.0 * figure.local_ns), row(2, 2.0 * figure.remote_ns)]);
        let run = json!({
            "schema": 1, "command": "simulate", "parameters": { "profile": "das5-fdr" },
            "rows": rows,
        });
        let chapter = chapter(&[made_up(&run, 1)]);
        let plot = |id: &str| chapter.plots.iter().find(|plot| plot.id == id).unwrap();
        for id in ["paper-latency-local", "paper-latency"] {
            assert_eq!(plot(id).series.len(), 2, "{id}");
        }
        let ratios: Vec<f64> = all(&plot("paper-latency-ratio").series, 1).collect();
        assert!(ratios.iter().zip([3.0, 2.0]).all(|(ratio, is)| (ratio - is).abs() < 1e-9));
    }

    #[test]
    fn other_c_and_load_factors_have_no_figure() {
        let row = json!({
            "operation": "inserted", "chunk_buckets": 24, "load_factor": 0.555, "mean_ns": 1.0,
        });
        let chapter = chapter(&[of_rows("shm", json!([row]))]);
        assert!(chapter.plots.is_empty() && chapter.missing.len() == 2, "{:?}", chapter.missing);
    }

    #[test]
    fn simulated_clusters_are_truncated_on_request() {
        let rows = json!([{
            "experiment": "throughput", "machines": 2, "ranks_per_machine": 16, "workload": "mixed",
            "chunk_buckets": 32, "ops_per_s": 9e6, "truncated_ops_per_s": 10e6,
        }]);
        for (truncate, millions) in [(true, 10.0), (false, 9.0)] {
            let parameters =
                json!({ "profile": "das5-fdr", "way": "paper", "truncate_us": truncate });
            let run = made_up(
                &json!({ "schema": 1, "command": "simulate", "rows": rows, "parameters": parameters }),
                1,
            );
            let plots = throughput(&[run]);
            let [here, paper] = &plots[0].series[..] else { panic!("{:?}", plots[0].series) };
            assert_eq!((&here.points[..], here.chunk_buckets), (&[[2.0, millions]][..], Some(32)));
            assert!(paper.points.iter().any(|[x, y]| *x == 48.0 && (y - 114.85).abs() < 0.01));
        }
    }
}
