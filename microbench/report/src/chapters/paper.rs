//! The figures of the paper, beside those of runs.

pub(super) use probeline_profile::paper::SOURCE;
use probeline_profile::paper::{self, Latency as Figure, WORKLOADS};

use super::{MILLIONS, cluster};
use crate::axis::Kind;
use crate::chart::Chart;
use crate::distinct;
use crate::number::ranks_name;
use crate::plot::Series;
use crate::run::{Fields, Run};

/// The lines of the paper's figures.
const LOCAL: &str = "paper, 1 machine";
const REMOTE: &str = "paper, 2 machines";
const CLUSTER: &str = "paper, clusters";

/// Returns the paper's latencies on as many machines as the runs have.
pub(super) fn latencies(runs: &[Run]) -> impl Fn(&[Series]) -> Vec<Series> + use<> {
    let of_run = |run: &Run| run.rows.iter().filter_map(|row| on_one_machine(run, row)).collect();
    let local: Vec<bool> = distinct(runs.iter().flat_map(|run| -> Vec<bool> { of_run(run) }));
    move |here| {
        let of_machines = |&is_local: &bool| match is_local {
            true => at_each_chunk(here, LOCAL, |figure| figure.local_ns),
            false => at_each_chunk(here, REMOTE, |figure| figure.remote_ns),
        };
        local.iter().flat_map(of_machines).collect()
    }
}

/// Returns the paper's roundtrips, the same on one machine and on two.
pub(super) fn roundtrips(here: &[Series]) -> Vec<Series> {
    at_each_chunk(here, REMOTE, |figure| figure.effective_roundtrips)
}

/// Returns whether an insert by load factor is of one machine, or `None` for clusters that the paper's
/// latencies are not of.
fn on_one_machine(run: &Run, row: &Fields) -> Option<bool> {
    super::mean_ns(run, row, "inserted")?;
    match cluster(row) {
        Some([1, 2]) => Some(true),
        Some([2, 1]) => Some(false),
        Some(_) => None,
        None => Some(run.origin() == "shm"),
    }
}

/// Returns the paper's values at each C of the runs.
fn at_each_chunk(here: &[Series], line: &str, value: fn(&Figure) -> f64) -> Vec<Series> {
    let chunks = distinct(here.iter().filter_map(|series| series.chunk_buckets));
    let of_chunk = |chunk_buckets: u32| {
        let figures = paper::latencies();
        let same = figures.iter().filter(|figure| figure.chunk_buckets == chunk_buckets);
        let points = same.map(|figure| [figure.load_factor(), value(figure)]).collect();
        paper_series(line, Series::with_chunk(chunk_buckets, points))
    };
    chunks.into_iter().map(of_chunk).collect()
}

/// Returns the diffs of each node for the programs of the runs (Noronha and Panda 2004, Table 2).
pub(super) fn diffs(here: &[Series]) -> Vec<Series> {
    const DIFFS: [(&str, f64); 4] =
        [("lu", 15_114.0), ("ocean", 14_327.56), ("is", 7_680.0), ("barnes", 6_060.0)];
    let has = |program: &str| here.iter().any(|series| series.hue.starts_with(program));
    let shown = DIFFS.into_iter().filter(|(program, _)| has(program));
    let series = shown.map(|(program, diffs)| {
        let hue = format!("{program}, orig and pipe");
        paper_series("paper, 16 nodes", Series::of(hue, [16.0, diffs]))
    });
    series.collect()
}

fn paper_series(line: &str, figures: Series) -> Series {
    Series { line: line.to_owned(), ..figures }
}

/// Plots simulated clusters and the paper's, by machines (paper Fig. 3).
pub(super) fn throughputs() -> [Chart; WORKLOADS.len()] {
    WORKLOADS.map(throughput)
}

fn throughput(workload: paper::Workload) -> Chart {
    let (id, title) = (
        format!("paper-throughput-{}", workload.name()),
        format!("Throughput by machines, {}, here and in the paper", workload.name()),
    );
    let texts = [
        &*id,
        &title,
        "Million find-or-puts per second of all ranks of all machines. The paper's program \
         truncated each operation's time to whole microseconds, which makes its figures larger \
         than the true rate; a simulated run has the same truncation with --truncate-us or --paper-figures.",
    ];
    let name = |ranks: u64| format!("{} a machine", ranks_name(ranks));
    let x = ("machines", Kind::Counts);
    let chart = Chart::new(texts, x, MILLIONS, &["simulate"], move |run, row| {
        row.text("workload").filter(|of| *of == workload.name())?;
        let is_cut = run.parameters.get("truncate_us").is_some_and(|cut| cut == true);
        let cut = is_cut.then(|| row.number("truncated_ops_per_s")).flatten();
        let rate = cut.or_else(|| row.number("ops_per_s")).filter(|rate| *rate > 0.0)?;
        let hue = name(row.count("ranks_per_machine")?);
        Some(Series::of(hue, [row.number("machines")?, rate / 1e6]))
    });
    chart.with_paper_series(move |here| {
        let figures = paper::throughputs();
        let of_hue = |hue: &String| {
            let same = figures.iter().filter(|figure| {
                figure.workload == workload && name(figure.ranks_per_machine.into()) == *hue
            });
            let points = same.map(|figure| [f64::from(figure.machines), figure.ops_per_s / 1e6]);
            let (hue, points) = (hue.clone(), points.collect());
            paper_series(CLUSTER, Series { hue, points, ..Series::default() })
        };
        distinct(here.iter().map(|series| &series.hue)).into_iter().map(of_hue).collect()
    })
}
