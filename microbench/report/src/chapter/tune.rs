//! Plots the predictions of `tune` for its candidates, its recommendation, and the measurements.

use serde_json::Value;

use super::{Chapter, of};
use crate::origin::transport;
use crate::plot::{Guide, Kind, Plot, Series, Spec, Table};
use crate::run::{Fields, Run};

const EXPECTED: &str = "expected";
const MEASURED: &str = "measured";
const RECOMMENDED: &str = "recommended";

pub(super) fn chapter(runs: &[Run]) -> Chapter {
    Chapter::new(
        [
            "tune",
            "Recommended parameters and their measurements",
            "The model's predictions for C, operations in flight and the other parameters that tune \
             chooses, beside the measurements.",
        ],
        of(runs, &["tune"]).into_iter().filter_map(Tuned::of).flat_map(plots),
        "Recommended parameters: no run of tune was given. `probeline tune --json FILE` writes \
         one, with --sweep of all candidates.",
    )
}

/// The names of rows in the legend.
const KINDS: [&str; 4] =
    ["beside it", "the best of the sweep, again", "the paper's algorithm", RECOMMENDED];

fn kind(candidate: &str) -> &'static str {
    match candidate {
        RECOMMENDED => RECOMMENDED,
        "paper" => KINDS[2],
        "sweep" => KINDS[1],
        _ => KINDS[0],
    }
}

struct Tuned<'r> {
    run: &'r Run,
    recommended: &'r Fields,
    /// All candidates: their predictions, and the measurements of a sweep.
    candidates: Vec<Fields>,
}

/// A value of a candidate that a plot shows.
#[derive(Clone, Copy)]
struct Measure {
    id: &'static str,
    name: &'static str,
    title: &'static str,
    /// The titles of the axes of predictions and of measurements.
    axes: [&'static str; 2],
    /// The fields of the prediction and of the measurement.
    fields: [&'static str; 2],
    scale: f64,
}

const LATENCY: Measure = Measure {
    id: "latency",
    name: "time of an operation",
    title: "mean, ns",
    axes: ["expected: mean, ns", "measured: mean, ns"],
    fields: ["expected_latency_ns", "latency_ns"],
    scale: 1.0,
};
const RATE: Measure = Measure {
    id: "rate",
    name: "operations per second",
    title: "million per second",
    axes: ["expected: million per second", "measured: million per second"],
    fields: ["expected_ops_per_s", "ops_per_s"],
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

    /// Returns for each `hue` a line of predictions by `x` and one of measurements, and the
    /// recommendation as a separate point.
    fn series(&self, x: Choice, hue: Choice, measure: Measure) -> Vec<Series> {
        let [expected, measured] = measure.fields;
        let swept = self.candidates.iter().filter(|row| self.is_alike(row, [x, hue]));
        // The neighbours of the recommendation. The finalists of a sweep are among its
        // measurements.
        let beside = self.run.rows.iter().filter(|row| row.text("candidate") != Some("sweep"));
        let beside = beside.filter(|row| self.is_alike(row, [x, hue]));
        let is_swept = swept.clone().any(|row| row.number(measured).is_some());
        let measurements: Vec<&Fields> =
            if is_swept { swept.clone().collect() } else { beside.collect() };
        let mut all: Vec<Series> = Vec::new();
        for (row, field, line) in swept
            .map(|row| (row, expected, EXPECTED))
            .chain(measurements.into_iter().map(|row| (row, measured, MEASURED)))
        {
            let (Some(point), Some(value)) =
                (point(row, x, (field, measure.scale)), row.count(hue.field))
            else {
                continue;
            };
            let chunk_buckets = row.chunk_buckets().filter(|_| hue.field == CHUNK.field);
            self.one(&(hue.name)(value), line, chunk_buckets, vec![point]).join(&mut all);
        }
        for series in &mut all {
            series.points.sort_by(|one, other| one[0].total_cmp(&other[0]));
            // The same candidate may be in several rows.
            series.points.dedup_by(|one, other| one[0].total_cmp(&other[0]).is_eq());
        }
        let point = point(self.recommended, x, (measured, measure.scale));
        let chunk_buckets = self.recommended.chunk_buckets();
        let one = |point| self.one(RECOMMENDED, MEASURED, chunk_buckets, vec![point]);
        all.extend(point.map(one));
        all
    }

    fn one(
        &self,
        hue: &str,
        line: &str,
        chunk_buckets: Option<u32>,
        points: Vec<[f64; 2]>,
    ) -> Series {
        let (hue, line, transport) = (hue.to_owned(), line.to_owned(), transport(self.run));
        Series { hue, line, transport, chunk_buckets, points }
    }

    fn plot(&self, id: &str, title: &str, x: Choice, hue: Choice, of: Measure) -> Option<Plot> {
        Spec {
            id: format!("tune-{}-{id}", self.run.number),
            title: title.to_owned(),
            caption: format!(
                "Run {}: {}, as predicted and as measured by all ranks at once. The other \
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

    /// Plots the measurement of each candidate against its prediction.
    fn met(&self, of: Measure) -> Option<Plot> {
        let point = |row: &Fields| {
            let [expected, measured] = of.fields.map(|field| row.number(field));
            let point = [expected? * of.scale, measured? * of.scale];
            point.iter().all(|value| *value > 0.0).then_some(point)
        };
        let swept = self.candidates.iter().filter_map(point).collect();
        let mut series = vec![self.one("swept", "", None, swept)];
        for hue in KINDS {
            let is = |row: &&Fields| row.text("candidate").map(kind) == Some(hue);
            let rows = self.run.rows.iter().filter(is);
            series.push(self.one(hue, "", None, rows.filter_map(point).collect()));
        }
        let spec = Spec {
            id: format!("tune-{}-met", self.run.number),
            title: "Accuracy of the predictions".to_owned(),
            caption: format!(
                "Run {}: {} as measured against the model's prediction; on the line both are \
                 equal. swept: all candidates, each measured a few times.",
                self.run.number, of.name
            ),
            x: (of.axes[0], Kind::Log),
            y: (of.axes[1], Kind::Log),
            guide: Guide::Diagonal,
        };
        Some(Plot { table: self.table(of), ..spec.plot(series)? })
    }

    /// Returns the table of the run's rows. The run's JSON has the measurements of a sweep.
    fn table(&self, of: Measure) -> Table {
        let rows = self.run.rows.iter().filter_map(|row| {
            let values = of.fields.map(|field| row.number(field));
            let name = format!(
                "{}: C = {}, {} in flight",
                row.text("candidate")?,
                row.count("chunk_buckets")?,
                row.count("in_flight")?
            );
            Some((name, [values[0]? * of.scale, values[1]? * of.scale]))
        });
        Table::pairs(["candidate", EXPECTED, MEASURED], rows)
    }
}

/// Returns the value of a candidate by one of its dimensions.
fn point(row: &Fields, x: Choice, (field, scale): (&str, f64)) -> Option<[f64; 2]> {
    let value = row.number(field).filter(|value| *value > 0.0)?;
    Some([row.number(x.field)?, value * scale])
}

/// Plots by C and by operations in flight, and measurements against predictions.
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
    plots.extend(tuned.met(goal));
    plots
}
