//! Plots throughput and speedup against the number of ranks (paper Fig. 3).

use super::{Chapter, Sample, cluster, series};
use crate::origin::Origins;
use crate::plot::{Guide, Kind, Series, Spec};
use crate::run::Run;

/// Parameters of the ranks. Runs that differ only in these form one series.
pub(super) const AXES: [&str; 3] = ["ranks", "table_bytes", "buckets_per_rank"];

/// A command whose rates are plotted by ranks.
struct Rate {
    command: &'static str,
    /// The fields of the rate and of what was measured.
    fields: [&'static str; 2],
    id: &'static str,
    what: &'static str,
    caption: &'static str,
}

const RATES: [Rate; 2] = [
    Rate {
        command: "bench-throughput",
        fields: ["median_ops_per_s", "workload"],
        id: "throughput",
        what: "find-or-puts",
        caption: "Million find-or-puts per second by all ranks at once, in a table that is empty \
                  at first; the median of a run's repetitions, and of several runs of the same ranks.",
    },
    Rate {
        command: "explore",
        fields: ["states_per_s", "model"],
        id: "exploration",
        what: "states explored",
        caption: "Million new states per second by all ranks at once, from the initial state to \
                  the last, without the time to read the net.",
    },
];

pub(super) fn chapter(runs: &[Run]) -> Chapter {
    let (mut plots, mut missing) = (Vec::new(), Vec::new());
    for kind in RATES {
        let rates = rates(runs, &kind);
        let speedup = kind.spec(true).plot(rates.iter().filter_map(speedups).collect());
        let what = kind.what;
        let rates = kind.spec(false).plot(rates);
        if rates.is_some() && speedup.is_none() {
            missing.push(format!(
                "Speedup of {what}: all given runs of one kind have the same number of ranks. \
                 Runs that differ only in `--ranks` add it."
            ));
        }
        plots.extend(rates.into_iter().chain(speedup));
    }
    cluster::throughput(runs, &mut plots, &mut missing);
    let mut chapter = Chapter::new(
        [
            "throughput",
            "Throughput and speedup by ranks",
            "Operations per second of all ranks together, and as a multiple of the \
             throughput of the fewest ranks.",
        ],
        plots,
        "Throughput and speedup by ranks: no run of bench-throughput or explore was given. \
         `probeline bench-throughput --ranks N --json FILE` writes one; runs with several N show \
         the speedup.",
    );
    chapter.missing.extend(missing);
    chapter
}

/// Returns a series for each kind of run and of measurement. Several values of the same ranks
/// become their median.
fn rates(runs: &[Run], kind: &Rate) -> Vec<Series> {
    // The page filters by C, so runs of different C are never combined.
    let grouped = |used: &[&Run]| Origins::grouped(used, &AXES);
    let samples = series(runs, &[kind.command], grouped, |run, row| {
        let [rate, what] = kind.fields;
        let point = [row.number("ranks")?, row.number(rate)? / 1e6];
        let sample = Sample::new(row.text(what)?.to_owned(), point);
        Some(Sample { chunk_buckets: run.chunk_buckets(row), ..sample })
    });
    samples.into_iter().map(medians).collect()
}

/// Combines the values at each x into one point: their median.
fn medians(mut series: Series) -> Series {
    let points = &mut series.points;
    points.sort_by(|one, other| one[0].total_cmp(&other[0]).then(one[1].total_cmp(&other[1])));
    let at_once = points.chunk_by(|one, other| one[0].total_cmp(&other[0]).is_eq());
    let middle = |same: &[[f64; 2]]| {
        let [upper, lower] = [same.len() / 2, (same.len() - 1) / 2].map(|at| same[at][1]);
        [same[0][0], f64::midpoint(lower, upper)]
    };
    series.points = at_once.map(middle).collect();
    series
}

/// Returns the rates of several numbers of ranks, divided by that of the fewest.
fn speedups(rates: &Series) -> Option<Series> {
    let [[_, first], _, ..] = rates.points[..] else { return None };
    rates.map(|[_, rate]| Some(rate / first))
}

impl Rate {
    fn spec(&self, speedup: bool) -> Spec {
        let Self { id, what, caption, .. } = self;
        let (id, title, caption, y) = match speedup {
            false => {
                ((*id).to_owned(), format!("{what} per second"), *caption, "million per second")
            }
            true => (
                format!("{id}-speedup"),
                format!("speedup of {what}"),
                "Throughput divided by that of the fewest ranks of the same series. On the dotted \
                 line each further rank adds the same throughput.",
                "times",
            ),
        };
        Spec {
            id,
            title: capital(&title),
            caption: caption.to_owned(),
            x: ("ranks", Kind::Counts),
            y: (y, Kind::Fitting),
            guide: if speedup { Guide::Proportional } else { Guide::None },
        }
    }
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
    use crate::plot::Plot;
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
        assert_eq!(speedup.guide, Some([[1.0, 1.0], [4.0, 4.0]]));
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
