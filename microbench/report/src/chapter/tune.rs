//! Plots the predictions of `tune` for its candidates, its recommendation, and the measurements.

use serde_json::Value;

use super::{Chapter, of};
use crate::origin::transport;
use crate::plot::{Form, Guide, Kind, Plot, Series, Spec, Table, chunk_name};
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
        "What a network and a workload want: no run of tune is here. `probeline tune --json FILE` \
         makes one, with --sweep also of what all candidates do.",
    )
}

/// One run of `tune`.
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
    name: "operations a second",
    title: "million a second",
    axes: ["expected: million a second", "measured: million a second"],
    fields: ["expected_ops_per_s", "ops_per_s"],
    scale: 1e-6,
};

/// A dimension of candidates.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    ChunkBuckets,
    InFlight,
    Cache,
}

impl Choice {
    fn field(self) -> &'static str {
        match self {
            Self::ChunkBuckets => "chunk_buckets",
            Self::InFlight => "in_flight",
            Self::Cache => "cache_entries",
        }
    }

    fn name(self, row: &Fields) -> Option<String> {
        let count = row.count(self.field())?;
        Some(match (self, count) {
            (Self::ChunkBuckets, _) => chunk_name(u32::try_from(count).ok()?),
            (Self::InFlight, _) => format!("{count} in flight"),
            (Self::Cache, 0) => "no cache".to_owned(),
            (Self::Cache, _) => format!("a cache of {count}"),
        })
    }
}

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

    /// Returns the candidates that differ from the recommendation only in `free`.
    fn alike<'a>(
        &self,
        rows: impl Iterator<Item = &'a Fields>,
        free: [Choice; 2],
    ) -> Vec<&'a Fields> {
        let kept = ["read_ahead", "one_roundtrip", "direct"];
        let choices = [Choice::ChunkBuckets, Choice::InFlight, Choice::Cache];
        let choices = choices.into_iter().filter(|choice| !free.contains(choice));
        let kept: Vec<&str> = kept.into_iter().chain(choices.map(Choice::field)).collect();
        let same =
            |row: &&Fields| kept.iter().all(|name| row.get(name) == self.recommended.get(name));
        rows.filter(same).collect()
    }

    /// Returns for each `hue` a line of predictions by `x` and one of measurements, and the
    /// recommendation as a separate point.
    fn series(&self, x: Choice, hue: Choice, measure: Measure) -> Vec<Series> {
        let expected = self.alike(self.candidates.iter(), [x, hue]);
        // The neighbours of the recommendation. The finalists of a sweep are among its
        // measurements.
        let beside = self.run.rows.iter().filter(|row| row.text("candidate") != Some("sweep"));
        let beside = self.alike(beside, [x, hue]);
        let swept = expected.iter().copied().filter(|row| row.number(measure.fields[1]).is_some());
        let measured: Vec<&Fields> = match swept.clone().next() {
            Some(_) => swept.collect(),
            None => beside,
        };
        let mut all = Vec::new();
        let [of_expected, of_measured] = measure.fields;
        for (rows, field, line) in
            [(&expected, of_expected, EXPECTED), (&measured, of_measured, MEASURED)]
        {
            for &row in rows {
                self.add(&mut all, row, [x, hue], (field, measure.scale), line);
            }
        }
        for series in &mut all {
            series.points.sort_by(|one, other| one[0].total_cmp(&other[0]));
        }
        let point = self.point(self.recommended, x, (of_measured, measure.scale));
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

    fn add(
        &self,
        all: &mut Vec<Series>,
        row: &Fields,
        [x, hue]: [Choice; 2],
        value: (&str, f64),
        line: &str,
    ) {
        let (Some(point), Some(name)) = (self.point(row, x, value), hue.name(row)) else { return };
        match all.iter_mut().find(|series| series.hue == name && series.line == line) {
            // The same candidate may be in several rows.
            Some(same) if same.points.iter().any(|other| other[0].total_cmp(&point[0]).is_eq()) => {
            }
            Some(same) => same.points.push(point),
            None => {
                let chunk_buckets = row.chunk_buckets().filter(|_| hue == Choice::ChunkBuckets);
                all.push(self.one(&name, line, chunk_buckets, vec![point]));
            }
        }
    }

    fn point(&self, row: &Fields, x: Choice, (field, scale): (&str, f64)) -> Option<[f64; 2]> {
        let value = row.number(field).filter(|value| *value > 0.0)?;
        Some([row.number(x.field())?, value * scale])
    }

    fn plot(
        &self,
        id: &str,
        title: &str,
        x: (Choice, &'static str),
        hue: Choice,
        of: Measure,
    ) -> Option<Plot> {
        Spec {
            id: format!("tune-{}-{id}", self.run.number),
            title: title.to_owned(),
            caption: format!(
                "Run {}: {}, as predicted and as measured by all ranks at once; all else is as \
                 recommended: {}.",
                self.run.number,
                of.name,
                self.others()
            ),
            form: Form::Lines,
            x: (x.1, Kind::Counts),
            y: (of.title, Kind::Fitting),
            guide: Guide::None,
        }
        .plot(self.series(x.0, hue, of))
    }

    /// Describes the recommendation.
    fn others(&self) -> String {
        let count = |name| self.recommended.count(name).unwrap_or(0);
        let text = |name| self.recommended.text(name).unwrap_or("unknown");
        let cache = Choice::Cache.name(self.recommended).unwrap_or_default();
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
        // The name of each row's candidate in the legend.
        let kind = |name: &str| match name {
            RECOMMENDED => RECOMMENDED,
            "paper" => "the paper's algorithm",
            "sweep" => "the best of the sweep, again",
            _ => "beside it",
        };
        let kinds =
            ["beside it", "the best of the sweep, again", "the paper's algorithm", RECOMMENDED];
        let point = |row: &Fields| {
            let [expected, measured] = of.fields.map(|field| row.number(field));
            let point = [expected? * of.scale, measured? * of.scale];
            point.iter().all(|value| *value > 0.0).then_some(point)
        };
        let swept = self.candidates.iter().filter_map(point).collect();
        let mut series = vec![self.one("swept", "", None, swept)];
        for hue in kinds {
            let is = |row: &&Fields| row.text("candidate").map(kind) == Some(hue);
            let rows = self.run.rows.iter().filter(is);
            series.push(self.one(hue, "", None, rows.filter_map(point).collect()));
        }
        let spec = Spec {
            id: format!("tune-{}-met", self.run.number),
            title: "How near the predictions were".to_owned(),
            caption: format!(
                "Run {}: {} as measured against the model's prediction; on the line both are the \
                 same. swept: all candidates, each measured a few times.",
                self.run.number, of.name
            ),
            form: Form::Dots,
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

/// Plots by C and by operations in flight, and measurements against predictions.
fn plots(tuned: Tuned<'_>) -> Vec<Plot> {
    let goal = match tuned.run.parameters.text("goal") {
        Some("latency") => LATENCY,
        _ => RATE,
    };
    let mut plots = Vec::new();
    // C has no effect if the CPU accesses all buckets itself.
    let hue = if tuned.is_direct() { Choice::Cache } else { Choice::ChunkBuckets };
    if !tuned.is_direct() {
        let title = format!("What C does: {}", goal.name);
        let x = (Choice::ChunkBuckets, "C");
        plots.extend(tuned.plot("chunk", &title, x, Choice::InFlight, goal));
    }
    for of in [RATE, LATENCY] {
        let title = format!("What more in flight does: {}", of.name);
        let x = (Choice::InFlight, "operations in flight");
        plots.extend(tuned.plot(&format!("depth-{}", of.id), &title, x, hue, of));
    }
    plots.extend(tuned.met(goal));
    plots
}
