//! Plots the measurements of `tune`: the short runs of its candidates, and its recommendation.

use serde_json::Value;

use super::{Chapter, of};
use crate::origin::transport;
use crate::plot::{Guide, Kind, Plot, Series, Spec};
use crate::run::{Fields, Run};

const RECOMMENDED: &str = "recommended";

pub(super) fn chapter(runs: &[Run]) -> Chapter {
    Chapter::new(
        [
            "tune",
            "Recommended parameters and their measurements",
            "The runs of candidates for C, operations in flight and the other parameters that tune \
             chooses.",
        ],
        of(runs, &["tune"]).into_iter().filter_map(Tuned::of).flat_map(plots),
        "Recommended parameters: no run of tune was given. `probeline tune --json FILE` writes \
         one.",
    )
}

struct Tuned<'r> {
    run: &'r Run,
    recommended: &'r Fields,
    /// The short runs of all candidates.
    candidates: Vec<Fields>,
}

/// A value of a candidate that a plot shows.
#[derive(Clone, Copy)]
struct Measure {
    id: &'static str,
    name: &'static str,
    title: &'static str,
    field: &'static str,
    scale: f64,
}

const LATENCY: Measure = Measure {
    id: "latency",
    name: "time of an operation",
    title: "mean, ns",
    field: "latency_ns",
    scale: 1.0,
};
const RATE: Measure = Measure {
    id: "rate",
    name: "operations per second",
    title: "million per second",
    field: "ops_per_s",
    scale: 1e-6,
};

/// A dimension of candidates: its field, the title of its axis, and the name of a value.
#[derive(Clone, Copy)]
struct Choice {
    field: &'static str,
    title: &'static str,
    name: fn(u64) -> String,
}

const CHUNK: Choice = Choice { field: "chunk_buckets", title: "C", name: |c| format!("C = {c}") };
const IN_FLIGHT: Choice = Choice {
    field: "in_flight",
    title: "operations in flight",
    name: |n| format!("{n} in flight"),
};
const CACHE: Choice = Choice {
    field: "cache_entries",
    title: "cache",
    name: |entries| match entries {
        0 => "no cache".to_owned(),
        entries => format!("a cache of {entries}"),
    },
};

impl<'r> Tuned<'r> {
    fn of(run: &'r Run) -> Option<Self> {
        let recommended = run.rows.iter().find(|row| row.text("candidate") == Some(RECOMMENDED))?;
        let all = run.more.get("candidates").and_then(Value::as_array);
        let candidates = all.into_iter().flatten();
        let candidates = candidates.filter_map(|one| serde_json::from_value(one.clone()).ok());
        Some(Self { run, recommended, candidates: candidates.collect() })
    }

    fn is_direct(&self) -> bool {
        self.recommended.get("direct") == Some(&Value::Bool(true))
    }

    /// Returns whether a candidate differs from the recommendation only in `free`.
    fn is_alike(&self, row: &Fields, free: [Choice; 2]) -> bool {
        let kept = ["read_ahead", "one_roundtrip", "direct"].into_iter();
        let choices = [CHUNK, IN_FLIGHT, CACHE].map(|choice| choice.field);
        let choices = choices.into_iter().filter(|field| free.iter().all(|of| of.field != *field));
        kept.chain(choices).all(|name| row.get(name) == self.recommended.get(name))
    }

    /// Returns for each `hue` a line of measurements by `x`, and the recommendation as a separate
    /// point.
    fn series(&self, x: Choice, hue: Choice, measure: Measure) -> Vec<Series> {
        let mut all: Vec<Series> = Vec::new();
        // The last rounds, which are longer than the runs of all candidates, come first.
        let rows = self.run.rows.iter().chain(&self.candidates);
        for row in rows.filter(|row| self.is_alike(row, [x, hue])) {
            let (Some(point), Some(value)) = (point(row, x, measure), row.count(hue.field)) else {
                continue;
            };
            let chunk_buckets = row.chunk_buckets().filter(|_| hue.field == CHUNK.field);
            self.one(&(hue.name)(value), chunk_buckets, vec![point]).join(&mut all);
        }
        for series in &mut all {
            series.points.sort_by(|one, other| one[0].total_cmp(&other[0]));
            series.points.dedup_by(|one, other| one[0].total_cmp(&other[0]).is_eq());
        }
        let point = point(self.recommended, x, measure);
        let chunk_buckets = self.recommended.chunk_buckets();
        all.extend(point.map(|point| self.one(RECOMMENDED, chunk_buckets, vec![point])));
        all
    }

    fn one(&self, hue: &str, chunk_buckets: Option<u32>, points: Vec<[f64; 2]>) -> Series {
        let (hue, line, transport) = (hue.to_owned(), String::new(), transport(self.run));
        Series { hue, line, transport, chunk_buckets, points }
    }

    fn plot(&self, id: &str, title: &str, x: Choice, hue: Choice, of: Measure) -> Option<Plot> {
        Spec {
            id: format!("tune-{}-{id}", self.run.number),
            title: title.to_owned(),
            caption: format!(
                "Run {}: {}, as measured by all ranks at once. The other \
                 parameters are as recommended: {}.",
                self.run.number,
                of.name,
                self.others()
            ),
            x: (x.title, Kind::Counts),
            y: (of.title, Kind::Fitting),
            guide: Guide::None,
        }
        .plot(self.series(x, hue, of))
    }

    fn others(&self) -> String {
        let count = |name| self.recommended.count(name).unwrap_or(0);
        let text = |name| self.recommended.text(name).unwrap_or("unknown");
        let cache = (CACHE.name)(count("cache_entries"));
        let rest = format!("{} in flight, {cache}", count("in_flight"));
        if self.is_direct() {
            return format!("everything by the CPU itself, {rest}");
        }
        format!(
            "C = {}, M = {}, {rest}, read-ahead {}, one-roundtrip insert {}",
            count("chunk_buckets"),
            count("max_chunks"),
            text("read_ahead"),
            text("one_roundtrip")
        )
    }
}

/// Returns the value of a candidate by one of its dimensions.
fn point(row: &Fields, x: Choice, measure: Measure) -> Option<[f64; 2]> {
    let value = row.number(measure.field).filter(|value| *value > 0.0)?;
    Some([row.number(x.field)?, value * measure.scale])
}

/// Plots by C and by operations in flight.
fn plots(tuned: Tuned<'_>) -> Vec<Plot> {
    let goal = match tuned.run.parameters.text("goal") {
        Some("latency") => LATENCY,
        _ => RATE,
    };
    let mut plots = Vec::new();
    // C has no effect if the CPU accesses all buckets itself.
    let hue = if tuned.is_direct() { CACHE } else { CHUNK };
    if !tuned.is_direct() {
        let title = format!("Effect of C: {}", goal.name);
        plots.extend(tuned.plot("chunk", &title, CHUNK, IN_FLIGHT, goal));
    }
    for of in [RATE, LATENCY] {
        let title = format!("Effect of operations in flight: {}", of.name);
        plots.extend(tuned.plot(&format!("depth-{}", of.id), &title, IN_FLIGHT, hue, of));
    }
    plots
}
