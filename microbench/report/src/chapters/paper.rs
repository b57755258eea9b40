//! The chapter that compares runs with the figures of the paper.

use probeline_profile::paper::{self, Latency as Figure, SOURCE, WORKLOADS};

use super::{COUNTED, LOAD_FACTOR, MEAN, MILLIONS, by_chunk, cluster, mean_ns, roundtrips};
use crate::axis::Kind;
use crate::chart::{Chapter, Chart, Sample, chunk_name};
use crate::distinct;
use crate::number::ranks_name;
use crate::plot::Series;
use crate::run::{Fields, Run};

/// The transports by which the page filters the paper's figures.
const PAPER_LOCAL: &str = "paper, 1 machine";
const PAPER_REMOTE: &str = "paper, 2 machines";
const PAPER_CLUSTER: &str = "paper, clusters";

/// Plots the runs beside the paper's figures.
pub(super) fn chapter(runs: &[Run]) -> Chapter {
    const LATENCY: &str = "Nanoseconds of one insert at a time; the paper's are means of three runs on 1 GB of each \
         process.";
    let latency = |id, title, is_local, line, value: fn(&Figure) -> f64| {
        let y = ("mean, ns", Kind::Fitting);
        let chart = Chart::new([id, title, LATENCY], LOAD_FACTOR, y, &MEAN, move |run, row| {
            let value = mean_ns(run, row, "inserted")?;
            (on_one_machine(run, row)? == is_local).then(|| by_chunk(run, row, value)).flatten()
        });
        chart.beside(move |here| papers_latencies(here, line, value))
    };
    let local = latency(
        "paper-latency-local",
        "Mean latency of an insert, on one machine",
        true,
        PAPER_LOCAL,
        |figure| figure.local_ns,
    );
    let remote = latency(
        "paper-latency",
        "Mean latency of an insert, on two machines or as if",
        false,
        PAPER_REMOTE,
        |figure| figure.remote_ns,
    );
    let texts = [
        "paper-roundtrips",
        "Roundtrips of an insert, here and in the paper",
        "Chunk READs that an insert waits for; the same on one machine and on two.",
    ];
    let y = ("READs waited for", Kind::Fitting);
    let trips = Chart::new(texts, LOAD_FACTOR, y, &COUNTED, |run, row| {
        on_one_machine(run, row)?;
        by_chunk(run, row, roundtrips(row, "effective_roundtrips")?)
    });
    let trips = trips
        .beside(|here| papers_latencies(here, PAPER_REMOTE, |figure| figure.effective_roundtrips));
    let local = local.or(
        "Latency beside the paper's on one machine: no given run has inserts by load factor over \
         shared memory. `probeline bench-latency --json FILE` writes one.",
    );
    let remote = remote.or(
        "Latency beside the paper's on two machines: no given run has inserts by load factor \
         between machines. `probeline bench-latency --transport sim --paper --json FILE` simulates \
         one.",
    );
    let mut charts = vec![local, remote, trips];
    charts.extend(WORKLOADS.map(papers_throughput));
    let mut chapter = Chapter::new(["paper", "Beside the paper's figures", ""], runs, charts);
    chapter.lead = format!(
        "Hollow markers are the paper's: {SOURCE}. A latency over shared memory, or simulated on one \
         machine, is compared with the paper's on one machine, all others with those on two."
    );
    chapter
}

/// Returns whether a row is of one machine, or `None` for clusters that the paper's latencies are
/// not of.
fn on_one_machine(run: &Run, row: &Fields) -> Option<bool> {
    match cluster(row) {
        Some([1, 2]) => Some(true),
        Some([2, 1]) => Some(false),
        Some(_) => None,
        None => Some(run.origin() == "shm"),
    }
}

/// Returns the paper's values at each C of the runs.
fn papers_latencies(here: &[Series], line: &str, value: fn(&Figure) -> f64) -> Vec<Series> {
    let chunks = distinct(here.iter().filter_map(|series| series.chunk_buckets));
    let of_chunk = |chunk_buckets: u32| {
        let figures = paper::latencies();
        let same = figures.iter().filter(|figure| figure.chunk_buckets == chunk_buckets);
        let points = same.map(|figure| [figure.load_factor(), value(figure)]).collect();
        papers(chunk_name(chunk_buckets), line, chunk_buckets, points)
    };
    chunks.into_iter().map(of_chunk).collect()
}

fn papers(hue: String, line: &str, chunk_buckets: u32, points: Vec<[f64; 2]>) -> Series {
    let (line, transport) = (line.to_owned(), line.to_owned());
    Series { hue, line, transport, chunk_buckets: Some(chunk_buckets), points }
}

/// Plots simulated clusters and the paper's, by machines (paper Fig. 3).
fn papers_throughput(workload: paper::Workload) -> Chart {
    const CHUNK_BUCKETS: u32 = 32;
    let (id, title) = (
        format!("paper-throughput-{}", workload.name()),
        format!("Throughput by machines, {}, here and in the paper", workload.name()),
    );
    let texts = [
        &*id,
        &title,
        "Million find-or-puts per second of all ranks of all machines. The paper's program \
         truncated each operation's time to whole microseconds, which makes its figures larger \
         than the true rate; a simulated run has the same truncation with --truncate-us or --paper.",
    ];
    let name = |ranks: u64| format!("{} a machine", ranks_name(ranks));
    let x = ("machines", Kind::Counts);
    let chart = Chart::new(texts, x, MILLIONS, &["simulate"], move |run, row| {
        row.text("workload").filter(|of| *of == workload.name())?;
        let is_cut = run.parameters.get("truncate_us").is_some_and(|cut| cut == true);
        let cut = is_cut.then(|| row.number("truncated_ops_per_s")).flatten();
        let rate = cut.or_else(|| row.number("ops_per_s")).filter(|rate| *rate > 0.0)?;
        let point = [row.number("machines")?, rate / 1e6];
        let sample = Sample::new(name(row.count("ranks_per_machine")?), point);
        Some(Sample { chunk_buckets: run.chunk_buckets(row), ..sample })
    });
    let chart = chart.beside(move |here| {
        let figures = paper::throughputs();
        let of_hue = |hue: &String| {
            let same = figures.iter().filter(|figure| {
                figure.workload == workload && name(figure.ranks_per_machine.into()) == *hue
            });
            let points = same.map(|figure| [f64::from(figure.machines), figure.ops_per_s / 1e6]);
            papers(hue.clone(), PAPER_CLUSTER, CHUNK_BUCKETS, points.collect())
        };
        distinct(here.iter().map(|series| &series.hue)).into_iter().map(of_hue).collect()
    });
    match workload {
        paper::Workload::Mixed => chart.or(
            "Throughput beside the paper's: its figures are of 2 machines and more, and no given \
             run has as many. `probeline simulate --json FILE` writes one in virtual time.",
        ),
        _ => chart,
    }
}
