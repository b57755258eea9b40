//! Plots gets and puts of the map by mode: by workload, by load factor and by ranks.

use super::{Chapter, Names, Sample, series_of_runs};
use crate::number::ranks_name;
use crate::plot::{Guide, Kind, Plot, Series, Spec};
use crate::run::{Fields, Run};

const COMMANDS: [&str; 1] = ["bench-map"];

pub(super) fn chapter(runs: &[Run]) -> Chapter {
    let by = |field, id, x| along(runs, field, id, x);
    Chapter::new(
        [
            "map",
            "The map by mode",
            "Gets and puts per second of all ranks together, for each way to keep writers apart.",
        ],
        [
            by_workload(runs),
            by("load_factor", "map-load", ("load factor", Kind::Between)),
            by("ranks", "map-ranks", ("ranks", Kind::Counts)),
        ]
        .into_iter()
        .flatten(),
        "The map by mode: no run of bench-map was given. `probeline bench-map --json FILE` writes \
         one; with several --load-factor it shows their effect.",
    )
}

fn what(row: &Fields) -> Option<String> {
    let (workload, keys) = (row.text("workload")?, row.text("keys").unwrap_or_default());
    Some(format!("{workload} {keys}").trim_end().to_owned())
}

/// Returns the mode, and says so if the CPU runs the requests itself.
fn mode(row: &Fields) -> Option<String> {
    let direct = if row.text("path") == Some("direct") { ", direct" } else { "" };
    Some(format!("{}{direct}", row.text("mode")?))
}

fn rate(row: &Fields) -> Option<f64> {
    Some(row.number("median_ops_per_s").filter(|rate| *rate > 0.0)? / 1e6)
}

fn by_workload(runs: &[Run]) -> Option<Plot> {
    let mut names = Names::default();
    let series = series_of_runs(runs, &COMMANDS, |_, row| {
        let load =
            row.number("load_factor").map_or(String::new(), |load| format!(", load {load:.2}"));
        let ranks =
            row.count("ranks").map_or(String::new(), |ranks| format!(", {}", ranks_name(ranks)));
        let name = names.place(format!("{}{load}{ranks}", what(row)?));
        Some(Sample::new(mode(row)?, [rate(row)?, name]))
    });
    Spec {
        id: "map-workload".to_owned(),
        title: "Gets and puts per second by workload".to_owned(),
        caption:
            "Million operations per second by all ranks at once, keys of 80 and values of 104 \
                  bytes; the median of a run's repetitions."
                .to_owned(),
        x: ("million per second", Kind::Log),
        y: ("workload", Kind::Names(names.0)),
        guide: Guide::None,
    }
    .plot(series)
}

/// Plots the rates along a number of the rows, if it has several values.
fn along(runs: &[Run], field: &str, id: &str, x: (&'static str, Kind)) -> Option<Plot> {
    let series = series_of_runs(runs, &COMMANDS, |_, row| {
        let hue = format!("{}, {}", mode(row)?, what(row)?);
        Some(Sample::new(hue, [row.number(field)?, rate(row)?]))
    });
    let xs = || series.iter().flat_map(|Series { points, .. }| points.iter().map(|[x, _]| *x));
    let first = xs().next()?;
    if xs().all(|x| x.total_cmp(&first).is_eq()) {
        return None;
    }
    Spec {
        id: id.to_owned(),
        title: format!("Gets and puts per second by {}", x.0),
        caption: "Million operations per second by all ranks at once; the median of a run's \
                  repetitions."
            .to_owned(),
        x,
        y: ("million per second", Kind::Fitting),
        guide: Guide::None,
    }
    .plot(series)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(loads: &[f64]) -> Run {
        let row = |(nth, load): (usize, &f64)| {
            json!({
                "mode": "claims", "workload": "read", "keys": "uniform", "ranks": 2,
                "load_factor": load, "median_ops_per_s": 4e6 + nth as f64,
            })
        };
        let rows: Vec<_> = loads.iter().enumerate().map(row).collect();
        let json = json!({ "schema": 1, "command": "bench-map", "parameters": {}, "rows": rows });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn several_load_factors_have_a_plot() {
        let ids = |loads: &[f64]| -> Vec<String> {
            let chapter = chapter(&[run(loads)]);
            assert!(chapter.missing.is_empty());
            chapter.plots.into_iter().map(|plot| plot.id).collect()
        };
        assert_eq!(ids(&[0.5]), ["map-workload"]);
        assert_eq!(ids(&[0.5, 0.9]), ["map-workload", "map-load"]);
        assert_eq!(chapter(&[]).missing.len(), 1);
    }
}
