//! Compares the runs to the paper's figures.

use probeline_profile::paper::{self, Latency as Figure, SOURCE};

use super::latency::{Clusters, EFFECTIVE, LOAD_FACTOR, latency, roundtrips};
use super::{Chapter, cluster};
use crate::distinct;
use crate::plot::{Guide, Kind, Plot, Series, Spec, chunk_name};
use crate::run::Run;

/// The transports by which the page filters the paper's figures.
const LOCAL: &str = "paper, 1 machine";
const REMOTE: &str = "paper, 2 machines";
const CLUSTER: &str = "paper, clusters";
/// Load factors that differ by less than this are equal.
const SAME: f64 = 1e-6;
const THROUGHPUT_CHUNK_BUCKETS: u32 = 32;

/// A group of the paper's figures by C and load factor, and the runs' values.
struct Compared {
    /// Name and title of the plot of both.
    id: &'static str,
    title: &'static str,
    here: Vec<Series>,
    paper: &'static str,
    value: fn(&Figure) -> f64,
}

pub(super) fn chapter(runs: &[Run]) -> Chapter {
    let latencies = [
        Compared {
            id: "paper-latency-local",
            title: "Mean latency of an insert, on one machine",
            here: latency(runs, "inserted", Clusters::PapersOne),
            paper: LOCAL,
            value: |figure| figure.local_ns,
        },
        Compared {
            id: "paper-latency",
            title: "Mean latency of an insert, on two machines or as if",
            here: latency(runs, "inserted", Clusters::PapersTwo),
            paper: REMOTE,
            value: |figure| figure.remote_ns,
        },
    ];
    let trips = [Clusters::PapersOne, Clusters::PapersTwo]
        .map(|clusters| roundtrips(runs, &EFFECTIVE, clusters));
    let trips = [Compared {
        id: "paper-roundtrips",
        title: "Roundtrips of an insert, here and in the paper",
        here: trips.concat(),
        paper: REMOTE,
        value: |figure| figure.effective_roundtrips,
    }];
    let latencies = group(
        &latencies,
        "mean, ns",
        "Nanoseconds of one insert at a time; the paper's are means of three runs on 1 GB of each \
         process.",
        [
            "paper-latency-ratio",
            "Mean latency, here / in the paper",
            "The run's mean latency divided by the paper's at the same C and load factor; below 1 \
             is faster than the paper.",
        ],
    );
    let trips = group(
        &trips,
        "READs waited for",
        "Chunk READs that an insert waits for; the same on one machine and on two.",
        [
            "paper-roundtrips-ratio",
            "Roundtrips, here / in the paper",
            "The run's number of READs divided by the paper's at the same C and load factor; \
             below 1 means fewer READs.",
        ],
    );
    let mut chapter = Chapter::new(
        ["paper", "Beside the paper's figures", ""],
        latencies.into_iter().chain(trips),
        "Latency and roundtrips beside the paper's: they need inserts by load factor. `probeline \
         bench-latency --json FILE` writes a run that has them.",
    );
    chapter.lead = format!(
        "Hollow markers are the paper's: {SOURCE}. A latency over shared memory, or simulated on one \
         machine, is compared with the paper's on one machine, all others with those on two."
    );
    let throughputs = throughput(runs);
    if throughputs.is_empty() {
        chapter.missing.push(
            "Throughput beside the paper's: its figures are of 2 machines and more, and no \
             given run has as many. `probeline simulate --json FILE` writes one in virtual time."
                .to_owned(),
        );
    }
    chapter.plots.extend(throughputs);
    chapter
}

/// Plots values beside the paper's figures, and the run's value / the paper's in one more plot.
fn group(all: &[Compared], y: &'static str, caption: &str, ratio: [&str; 3]) -> Vec<Plot> {
    let figures = paper::latencies();
    let mut plots: Vec<Plot> =
        all.iter().filter_map(|compared| compared.plot(&figures, y, caption)).collect();
    let ratios = all.iter().flat_map(|compared| compared.ratios(&figures)).collect();
    let y = ("times the paper's", Kind::Between);
    plots.extend(by_load_factor(ratio, y, Guide::Level).plot(ratios));
    plots
}

fn by_load_factor(texts: [&str; 3], y: (&'static str, Kind), guide: Guide) -> Spec {
    let [id, title, caption] = texts.map(str::to_owned);
    Spec { id, title, caption, x: LOAD_FACTOR, y, guide }
}

impl Compared {
    /// Plots the runs' values and the paper's at the same C, if the paper has any.
    fn plot(&self, figures: &[Figure], y: &'static str, caption: &str) -> Option<Plot> {
        let papers = self.papers(figures);
        if papers.is_empty() {
            return None;
        }
        let mut series = [&self.here[..], &papers].concat();
        series.sort_by_key(|series| series.chunk_buckets);
        let texts = [self.id, self.title, caption];
        by_load_factor(texts, (y, Kind::Fitting), Guide::None).plot(series)
    }

    /// Returns the paper's values at each C of the runs.
    fn papers(&self, figures: &[Figure]) -> Vec<Series> {
        let chunks = distinct(self.here.iter().filter_map(|series| series.chunk_buckets));
        let of_chunk = |chunk_buckets: u32| Series {
            hue: chunk_name(chunk_buckets),
            line: self.paper.to_owned(),
            transport: self.paper.to_owned(),
            chunk_buckets: Some(chunk_buckets),
            points: figures
                .iter()
                .filter(|figure| figure.chunk_buckets == chunk_buckets)
                .map(|figure| [figure.load_factor(), (self.value)(figure)])
                .collect(),
        };
        let all = chunks.into_iter().map(of_chunk);
        all.filter(|series| !series.points.is_empty()).collect()
    }

    /// Returns the run's value / the paper's, at points that both have.
    fn ratios(&self, figures: &[Figure]) -> impl Iterator<Item = Series> {
        self.here.iter().filter_map(|series| {
            let of_chunk =
                figures.iter().filter(|of| Some(of.chunk_buckets) == series.chunk_buckets);
            series.map(|[load, value]| {
                let mut same = of_chunk.clone().filter(|of| (of.load_factor() - load).abs() < SAME);
                Some(value / (self.value)(same.next()?))
            })
        })
    }
}

/// Plots simulated clusters and the paper's: a plot for each workload that the paper has.
fn throughput(runs: &[Run]) -> Vec<Plot> {
    let figures = paper::throughputs();
    let plot = |workload: &str| {
        let figures = figures.iter().filter(|figure| figure.workload.name() == workload);
        figures.clone().next()?;
        let mut series = cluster::by_machines(runs, workload, &[], |run, row| {
            // The paper's values are truncated to whole microseconds; simulated ones are if that
            // was requested.
            let asked = run.parameters.get("truncate_us").is_some_and(|asked| asked == true);
            let cut = asked.then(|| row.number("truncated_ops_per_s")).flatten();
            let rate = cut.or_else(|| row.number("ops_per_s"))?;
            (rate > 0.0).then_some(rate / 1e6)
        });
        for hue in distinct(series.iter().map(|series| series.hue.clone())) {
            let same = figures.clone().filter(|figure| {
                cluster::ranks_per_machine_name(u64::from(figure.ranks_per_machine)) == hue
            });
            let points = same.map(|figure| [f64::from(figure.machines), figure.ops_per_s / 1e6]);
            let (line, transport) = (CLUSTER.to_owned(), CLUSTER.to_owned());
            let (chunk_buckets, points) = (Some(THROUGHPUT_CHUNK_BUCKETS), points.collect());
            series.push(Series { hue, line, transport, chunk_buckets, points });
        }
        let texts = [
            format!("paper-throughput-{workload}"),
            format!("Throughput by machines, {workload}, here and in the paper"),
            "Million find-or-puts per second of all ranks of all machines. The paper's program \
             truncated each operation's time to whole microseconds, which makes its figures larger \
             than the true rate; a simulated run has the same truncation with --truncate-us or \
             --paper."
                .to_owned(),
        ];
        cluster::spec(texts, ("million per second", Kind::Fitting)).plot(series)
    };
    cluster::workloads(runs).into_iter().filter_map(plot).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::plot::values;
    use crate::run::made_up;

    /// Creates a run whose inserts take `times` the paper's time.
    fn run(transport: &str, times: f64) -> Run {
        let row = |figure: &Figure| {
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
                assert_eq!(values(&ratios.series, 1).len(), 5 * 46);
                assert!(
                    values(&ratios.series, 1).iter().all(|ratio| (ratio - expected).abs() < 1e-9),
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
        let at = |figure: &&Figure| {
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
        let ratios = values(&plot("paper-latency-ratio").series, 1);
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
