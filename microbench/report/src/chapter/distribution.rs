//! Plots latency distributions as percentile curves, from the histograms of the runs.

use super::{Chapter, Sample, series_of_runs};
use crate::distinct;
use crate::plot::{Axis, Guide, Kind, Plot, Series, Spec, Table, chunk_name};
use crate::run::{Fields, Run};

/// Operations without a table that the plots show, if they were measured.
const ALONE: [&str; 6] =
    ["READ 8 B", "READ 64 B", "READ 4096 B", "WRITE 8 B", "CAS random word", "FAA random word"];
/// The load factor that the plots show in addition to the highest.
const MIDDLE: f64 = 0.5;
/// Points of a curve that are closer than this share of both axes are merged.
const NEAR: f64 = 1.0 / 300.0;
const PERCENTILES: [(f64, &str); 7] = [
    (0.0, "min"),
    (0.5, "50%"),
    (0.9, "90%"),
    (0.99, "99%"),
    (0.999, "99.9%"),
    (0.9999, "99.99%"),
    (1.0, "max"),
];

pub(super) fn chapter(runs: &[Run]) -> Chapter {
    let loads = loads(runs);
    let operations = [("inserted", "an insert"), ("found", "a find-or-put that finds its key")];
    let of_table = operations.into_iter().flat_map(|(operation, what)| {
        loads.iter().filter_map(move |&load| of_table(runs, operation, what, load))
    });
    Chapter::new(
        [
            "distribution",
            "Latency distributions",
            "Percentile curves: the further right, the rarer and the slower. Each further nine of \
             the share (0.9, 0.99, ...) takes the same width. A flat curve means that nearly all \
             operations take the same time. The load factor nearest to 0.5 and the highest one are \
             shown; the JSON files have all.",
        ],
        alone(runs).into_iter().chain(of_table),
        "Latency distributions: no given run has histograms. `probeline bench-latency --json \
         FILE` writes one that has.",
    )
}

fn loads(runs: &[Run]) -> Vec<f64> {
    let rows = runs.iter().flat_map(|run| &run.rows).filter(|row| curve(row).is_some());
    let of_table = rows.filter(|row| row.text("operation").is_some());
    let mut all = distinct(of_table.filter_map(|row| row.number("load_factor")));
    all.sort_by(f64::total_cmp);
    let off = |load: &f64| (load - MIDDLE).abs();
    let middle = all.iter().copied().min_by(|one, other| off(one).total_cmp(&off(other)));
    distinct(middle.into_iter().chain(all.last().copied()))
}

fn alone(runs: &[Run]) -> Option<Plot> {
    let series = curves(runs, |row| {
        let name = row.text("operation").filter(|name| ALONE.contains(name))?;
        Some((name.to_owned(), None))
    });
    plot(
        "distribution-one-sided".to_owned(),
        "One-sided operations without a table".to_owned(),
        "READ, WRITE, CAS and FAA of random words of the peer that the run's notes name, one at a \
         time, each timed individually",
        series,
    )
}

fn of_table(runs: &[Run], operation: &str, what: &str, load: f64) -> Option<Plot> {
    let series = curves(runs, |row| {
        let this = row.text("operation")? == operation && row.number("load_factor")? == load;
        let chunk_buckets = row.chunk_buckets()?;
        this.then(|| (chunk_name(chunk_buckets), Some(chunk_buckets)))
    });
    plot(
        format!("distribution-{operation}-{:02.0}", load * 100.0),
        format!("Latency of {what} at load factor {load}"),
        "One find-or-put at a time by rank 0, each timed individually",
        series,
    )
}

/// Returns a series for each row that `pick` names, with its C.
fn curves(runs: &[Run], pick: impl Fn(&Fields) -> Option<(String, Option<u32>)>) -> Vec<Series> {
    let commands = distinct(runs.iter().map(|run| run.command.as_str()));
    series_of_runs(runs, &commands, |_, row| {
        let (hue, chunk_buckets) = pick(row)?;
        Some(Sample { hue, of_line: String::new(), chunk_buckets, points: curve(row)? })
    })
}

/// Returns for each latency of a histogram the share of operations that were faster, and the
/// latency.
fn curve(row: &Fields) -> Option<Vec<[f64; 2]>> {
    let pairs = row.get("histogram")?.as_array()?;
    let pair = |pair: &serde_json::Value| Some([pair.get(0)?.as_f64()?, pair.get(1)?.as_f64()?]);
    let pairs: Vec<[f64; 2]> = pairs.iter().filter_map(pair).filter(|[_, n]| *n > 0.0).collect();
    let total: f64 = pairs.iter().map(|[_, count]| count).sum();
    let mut before = 0.0;
    let points = pairs.into_iter().map(|[ns, count]| {
        let share = before / total;
        before += count;
        // The latency may be below the resolution of the clock. A logarithmic axis has no 0.
        [share, ns.max(1.0)]
    });
    let mut points: Vec<[f64; 2]> = points.collect();
    // All operations except the slowest one took at most this time.
    let last = [1.0 - 1.0 / total.max(1.0), points.last()?[1]];
    points.extend((last[0] > points.last()?[0]).then_some(last));
    Some(points)
}

fn plot(id: String, title: String, what: &str, series: Vec<Series>) -> Option<Plot> {
    let spec = Spec {
        id,
        title,
        caption: format!(
            "Nanoseconds. {what}. A curve begins at the fastest operation and ends at the slowest; \
             latencies below the clock's resolution are shown as 1 ns."
        ),
        x: ("share of operations that were faster", Kind::Nines),
        y: ("ns", Kind::Log),
        guide: Guide::None,
    };
    let mut plot = spec.plot(series)?;
    let percentiles = PERCENTILES.into_iter().map(|(share, name)| (share, name.to_owned()));
    plot.table = Table::at("percentile", percentiles, &plot.series, |series, share| {
        value_at(&series.points, share)
    });
    for series in &mut plot.series {
        series.points = thinned(&series.points, &plot.x, &plot.y);
    }
    Some(plot)
}

/// Returns the latency that this share of operations did not exceed.
fn value_at(points: &[[f64; 2]], share: f64) -> Option<f64> {
    let slower = points.iter().rev().find(|point| point[0] < share);
    slower.or(points.first()).map(|point| point[1])
}

/// Removes points that are too close to the previous one to be visible; keeps both ends.
fn thinned(points: &[[f64; 2]], x: &Axis, y: &Axis) -> Vec<[f64; 2]> {
    let mut kept: Vec<[f64; 2]> = Vec::new();
    for (at, point) in points.iter().enumerate() {
        let far = kept.last().is_none_or(|last| {
            (x.share(point[0]) - x.share(last[0])).abs() >= NEAR
                || (y.share(point[1]) - y.share(last[1])).abs() >= NEAR
        });
        if far || at + 1 == points.len() {
            kept.push(*point);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::run::made_up;

    fn run() -> Run {
        let row = |load: f64| {
            let histogram = json!([[0, 0], [100, 6_000], [200, 3_990], [9_000, 9], [9_999, 1]]);
            json!({
                "operation": "inserted", "chunk_buckets": 8, "load_factor": load,
                "histogram": histogram,
            })
        };
        let rows: Vec<_> = [0.1, 0.4, 0.7, 0.9].into_iter().map(row).collect();
        let parameters = json!({ "transport": "shm" });
        made_up(
            &json!({ "schema": 1, "command": "bench-latency", "parameters": parameters, "rows": rows }),
            1,
        )
    }

    #[test]
    fn a_curve_goes_from_the_fastest_to_the_slowest() {
        let points = curve(&run().rows[0]).unwrap();
        // The slowest operation is alone in its step, so the step is the end of the curve.
        let steps = [[0.0, 100.0], [0.6, 200.0], [0.999, 9_000.0], [0.9999, 9_999.0]];
        assert_eq!(points, steps);
        let same = made_up(
            &json!({ "schema": 1, "command": "x", "rows": [{ "histogram": [[7, 1_000]] }] }),
            1,
        );
        assert_eq!(curve(&same.rows[0]).unwrap(), [[0.0, 7.0], [0.999, 7.0]]);
    }

    #[test]
    fn percentiles_are_those_of_the_histogram() {
        let points = curve(&run().rows[0]).unwrap();
        for (share, ns) in [
            (0.0, 100.0),
            (0.5, 100.0),
            (0.6, 100.0),
            (0.61, 200.0),
            (0.999, 200.0),
            (0.9995, 9_000.0),
            (1.0, 9_999.0),
        ] {
            assert_eq!(value_at(&points, share), Some(ns), "{share}");
        }
    }

    #[test]
    fn the_middle_and_the_highest_load_are_shown() {
        let chapter = chapter(&[run()]);
        let ids: Vec<&str> = chapter.plots.iter().map(|plot| plot.id.as_str()).collect();
        assert_eq!(ids, ["distribution-inserted-40", "distribution-inserted-90"]);
    }

    #[test]
    fn thinning_keeps_the_ends_and_the_shape() {
        let points: Vec<[f64; 2]> =
            (0..10_000).map(|at| f64::from(at) / 10_000.0).map(|x| [x, 100.0 + x]).collect();
        let x = Axis::new("", &Kind::Nines, &[0.9999]);
        let y = Axis::new("", &Kind::Log, &[1e2, 1e6]);
        let kept = thinned(&points, &x, &y);
        assert!((50..=400).contains(&kept.len()), "{}", kept.len());
        assert_eq!((kept.first(), kept.last()), (points.first(), points.last()));
        assert!(kept.windows(2).all(|pair| x.share(pair[1][0]) - x.share(pair[0][0]) < 0.1));
    }
}
