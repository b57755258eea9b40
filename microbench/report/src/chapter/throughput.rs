//! Plots throughput and speedup against the number of ranks (paper Fig. 3).

use super::{Chapter, cluster, median, of, rows};
use crate::fields::Fields;
use crate::origin::{Origins, transport};
use crate::plot::{Axis, Form, Guide, Plot, Series, Table, all, sort_by_x};
use crate::run::Run;

/// Parameters of the ranks. Runs that differ only in these form one series.
pub(super) const AXES: [&str; 3] = ["ranks", "table_bytes", "buckets_per_rank"];
const RANKS: &str = "ranks";

pub(super) fn chapter(runs: &[Run]) -> Chapter {
    let mut chapter = Chapter {
        id: "throughput",
        title: "Throughput and speedup by ranks",
        lead: "Operations a second of all ranks together, and how many times that of the fewest ranks \
               it is."
            .to_owned(),
        plots: Vec::new(),
        missing: Vec::new(),
    };
    let puts = rates(runs, "bench-throughput", "median_ops_per_s", |row| {
        row.text("workload").map(str::to_owned)
    });
    let states = rates(runs, "explore", "states_per_s", |row| row.text("model").map(str::to_owned));
    let kinds = [
        ("throughput", "find-or-puts", WORKLOADS, puts),
        ("exploration", "states explored", STATES, states),
    ];
    for (id, what, caption, series) in kinds {
        if series.is_empty() {
            continue;
        }
        let speedup = speedup_plot(id, what, &series);
        chapter.plots.extend(rate_plot(id, what, caption, series));
        if speedup.is_none() {
            chapter.missing.push(format!(
                "Speedup of {what}: all runs of one kind here have the same number of ranks. Runs \
                 with other `--ranks`, and all else the same, add it."
            ));
        }
        chapter.plots.extend(speedup);
    }
    cluster::throughput(runs, &mut chapter);
    if chapter.plots.is_empty() {
        chapter.missing.push(
            "Throughput and speedup by ranks: no run of bench-throughput or explore is here. \
             `probeline bench-throughput --ranks N --json FILE` makes one; one for each N shows how \
             it scales."
                .to_owned(),
        );
    }
    chapter
}

const WORKLOADS: &str = "Million find-or-puts a second by all ranks at once, in a table that is \
     empty at first; the median of a run's repetitions, and of several runs of the same ranks.";
const STATES: &str = "Million new states a second by all ranks at once, from the initial state to \
     the last, reading the net not included.";

/// Returns a series for each kind of run and of measurement.
fn rates(
    runs: &[Run],
    command: &str,
    field: &str,
    hue: impl Fn(&Fields) -> Option<String>,
) -> Vec<Series> {
    let used = of(runs, &[command]);
    // The page filters by C, so runs of different C are never combined.
    let origins = Origins::grouped(&used, &AXES);
    let mut samples: Vec<Series> = Vec::new();
    for (run, row) in rows(&used) {
        let point = (|| Some([row.number("ranks")?, row.number(field)? / 1e6]))();
        let (Some(point), Some(hue)) = (point, hue(row)) else { continue };
        let (line, chunk_buckets) = (origins.name(run), run.chunk_buckets(row));
        let (transport, points) = (transport(run), vec![point]);
        Series { hue, line, transport, chunk_buckets, points }.join(&mut samples);
    }
    sort_by_x(&mut samples);
    samples.into_iter().map(medians).collect()
}

/// Combines the values at each x into one point: their median.
fn medians(series: Series) -> Series {
    let at_once = series.points.chunk_by(|one, other| one[0].total_cmp(&other[0]).is_eq());
    let middle = at_once.filter_map(|same| {
        Some([same.first()?[0], median(same.iter().map(|point| point[1]).collect())?])
    });
    Series { points: middle.collect(), ..series }
}

fn rate_plot(id: &str, what: &str, caption: &str, series: Vec<Series>) -> Option<Plot> {
    Plot {
        id: id.to_owned(),
        title: capital(&format!("{what} a second")),
        caption: caption.to_owned(),
        form: Form::Lines,
        x: Axis::counts(RANKS, all(&series, 0)),
        y: Axis::fitting("million a second", all(&series, 1)),
        table: Table::by_x(RANKS, &series),
        guide: None,
        series,
    }
    .within_axes()
}

fn speedup_plot(id: &str, what: &str, rates: &[Series]) -> Option<Plot> {
    let scaled = rates.iter().filter(|series| series.points.len() > 1).map(|series| {
        let first = series.points[0][1];
        let points = series.points.iter().map(|[ranks, rate]| [*ranks, rate / first]).collect();
        Series { points, ..series.clone() }
    });
    let series: Vec<Series> = scaled.collect();
    let fewest = all(&series, 0).fold(f64::INFINITY, f64::min);
    let most = all(&series, 0).fold(0.0, f64::max);
    if series.is_empty() {
        return None;
    }
    let ideal = most / fewest;
    Plot {
        id: format!("{id}-speedup"),
        title: capital(&format!("speedup of {what}")),
        caption: "Times the throughput of the fewest ranks of the same series. On the dotted line \
                  each rank adds as much as those before."
            .to_owned(),
        form: Form::Lines,
        x: Axis::counts(RANKS, all(&series, 0)),
        y: Axis::fitting("times", all(&series, 1).chain([1.0, ideal])),
        table: Table::by_x(RANKS, &series),
        guide: Some(Guide { from: [fewest, 1.0], to: [most, ideal] }),
        series,
    }
    .within_axes()
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}", letters.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::run::made_up;

    fn run(number: usize, transport: &str, ranks: u32, batch: u32, per_s: f64) -> Run {
        let row = json!({ "workload": "mixed", "ranks": ranks, "median_ops_per_s": per_s });
        let parameters = json!({
            "transport": transport, "ranks": ranks, "table_bytes": u64::from(ranks) << 20,
            "batch": batch, "chunk_buckets": 8,
        });
        made_up(
            &json!({
                "schema": 1, "command": "bench-throughput", "parameters": parameters, "rows": [row],
            }),
            number,
        )
    }

    fn plot<'a>(chapter: &'a Chapter, id: &str) -> &'a Plot {
        chapter.plots.iter().find(|plot| plot.id == id).unwrap()
    }

    #[test]
    fn runs_that_differ_in_ranks_alone_are_one_series() {
        let runs = [
            run(1, "shm", 4, 64, 30e6),
            run(2, "shm", 1, 64, 10e6),
            run(3, "shm", 4, 64, 34e6),
            run(4, "shm", 4, 64, 35e6),
            run(5, "verbs", 2, 64, 1e6),
            run(6, "shm", 2, 1, 5e6),
        ];
        let chapter = chapter(&runs);
        let [batched, verbs, blocking] = &plot(&chapter, "throughput").series[..] else {
            panic!("{:?}", chapter.plots)
        };
        assert_eq!((&*batched.line, &*blocking.line), ("shm, batch 64", "shm, batch 1"));
        // The median of three.
        assert_eq!(batched.points, [[1.0, 10.0], [4.0, 34.0]]);
        assert_eq!((&*verbs.line, &*verbs.transport), ("verbs", "verbs"));
        assert_eq!(verbs.chunk_buckets, Some(8));
        let speedup = plot(&chapter, "throughput-speedup");
        assert_eq!(speedup.series.len(), 1);
        assert_eq!(speedup.series[0].points, [[1.0, 1.0], [4.0, 3.4]]);
        let guide = speedup.guide.as_ref().unwrap();
        assert_eq!((guide.from, guide.to), ([1.0, 1.0], [4.0, 4.0]));
    }

    /// Creates a run of the same ranks with this number of operations in flight.
    fn of_depth(number: usize, transport: &str, depth: &str, seed: u32, per_s: f64) -> Run {
        let row = json!({ "workload": "mixed", "ranks": 2, "median_ops_per_s": per_s });
        let parameters = json!({
            "transport": transport, "ranks": 2, "batch": 64, "direct": "true", "in_flight": depth,
            "seed": seed, "runs": seed,
        });
        made_up(
            &json!({
                "schema": 1, "command": "bench-throughput", "parameters": parameters, "rows": [row],
            }),
            number,
        )
    }

    #[test]
    fn runs_that_differ_in_more_than_effort_are_separate_points() {
        for transport in ["verbs", "ucx", "mpi", "shm"] {
            let runs = [
                of_depth(1, transport, "1", 1, 62e6),
                of_depth(2, transport, "64", 1, 311e6),
                of_depth(3, transport, "64", 2, 313e6),
            ];
            let chapter = chapter(&runs);
            let series = &plot(&chapter, "throughput").series;
            let found: Vec<(&str, &[[f64; 2]])> =
                series.iter().map(|series| (&*series.line, &*series.points)).collect();
            let named = [1, 64].map(|depth| format!("{transport}, in flight {depth}"));
            assert_eq!(found, [(&*named[0], &[[2.0, 62.0]][..]), (&*named[1], &[[2.0, 312.0]])]);
        }
    }

    #[test]
    fn one_number_of_ranks_has_no_speedup() {
        let chapter = chapter(&[run(1, "shm", 2, 64, 1e6)]);
        assert_eq!(chapter.plots.len(), 1);
        assert!(chapter.missing[0].starts_with("Speedup of find-or-puts"), "{:?}", chapter.missing);
    }
}
