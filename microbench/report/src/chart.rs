//! Charts as data: what each takes from the rows of runs. A chapter of the page declares its charts.

use crate::axis::Kind;
use crate::distinct;
use crate::origin::names;
use crate::plot::{Plot, Series};
use crate::run::{Fields, Run};

pub(crate) struct Chapter {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) lead: String,
    pub(crate) plots: Vec<Plot>,
    /// Plots that no run has data for, and the command that makes such a run.
    pub(crate) missing: Vec<String>,
    /// The commands whose rows have plots.
    pub(crate) commands: Vec<&'static str>,
}

impl Chapter {
    pub(crate) fn new(
        [id, title, lead]: [&'static str; 3],
        runs: &[Run],
        charts: impl IntoIterator<Item = Chart>,
    ) -> Self {
        let (mut plots, mut missing, mut commands) = (Vec::new(), Vec::new(), Vec::new());
        for chart in charts {
            commands.extend(chart.commands);
            chart.draw(runs, &mut plots, &mut missing);
        }
        Self { id, title, lead: lead.to_owned(), plots, missing, commands }
    }
}

/// The contribution of a row to a chart.
#[derive(Default)]
pub(crate) struct Sample {
    /// Name of the measured quantity, which colour and marker represent.
    pub(crate) hue: String,
    /// The text after the name of the run, which the dash pattern represents.
    pub(crate) of_line: String,
    pub(crate) chunk_buckets: Option<u32>,
    pub(crate) points: Vec<[f64; 2]>,
    /// The name along the y axis of the only point; names are in the order of their first use.
    pub(crate) name: Option<String>,
}

impl Sample {
    pub(crate) fn new(hue: impl Into<String>, point: [f64; 2]) -> Self {
        Self { hue: hue.into(), points: vec![point], ..Self::default() }
    }

    /// Returns a value of the C of the row.
    pub(crate) fn from_chunk(run: &Run, row: &Fields, points: Vec<[f64; 2]>) -> Option<Self> {
        let chunk_buckets = run.chunk_buckets(row)?;
        let hue = chunk_name(chunk_buckets);
        Some(Self { hue, chunk_buckets: Some(chunk_buckets), points, ..Self::default() })
    }
}

pub(crate) fn chunk_name(chunk_buckets: u32) -> String {
    format!("C = {chunk_buckets}")
}

pub(crate) type Take = Box<dyn Fn(&Run, &Fields) -> Option<Sample>>;
type Others = Box<dyn Fn(&[Series]) -> Vec<Series>>;

/// A chart of the rows of some commands.
pub(crate) struct Chart {
    /// The `id`, the title and the caption.
    texts: [String; 3],
    x: (&'static str, Kind),
    y: (&'static str, Kind),
    commands: &'static [&'static str],
    take: Take,
    /// Parameters in which the runs of one series differ. Without any, each run has its own series.
    axes: &'static [&'static str],
    others: Option<Others>,
    /// The title of a second chart: each value divided by the first of its series.
    speedup: Option<&'static str>,
    missing: &'static str,
}

impl Chart {
    pub(crate) fn new(
        texts: [&str; 3],
        x: (&'static str, Kind),
        y: (&'static str, Kind),
        commands: &'static [&'static str],
        take: impl Fn(&Run, &Fields) -> Option<Sample> + 'static,
    ) -> Self {
        let (texts, take) = (texts.map(str::to_owned), Box::new(take));
        Self { texts, x, y, commands, take, axes: &[], others: None, speedup: None, missing: "" }
    }

    /// Adds the paper's figures for the series of the runs.
    pub(crate) fn beside(self, others: impl Fn(&[Series]) -> Vec<Series> + 'static) -> Self {
        Self { others: Some(Box::new(others)), ..self }
    }

    /// Joins runs that differ only in `axes`.
    pub(crate) fn joining(self, axes: &'static [&'static str]) -> Self {
        Self { axes, ..self }
    }

    /// Joins runs that differ only in `axes`, and adds a chart of the speedup.
    pub(crate) fn with_speedup(self, title: &'static str, axes: &'static [&'static str]) -> Self {
        Self { speedup: Some(title), ..self.joining(axes) }
    }

    /// Sets what the page says if no run has data for the chart.
    pub(crate) fn or(self, missing: &'static str) -> Self {
        Self { missing, ..self }
    }

    fn draw(self, runs: &[Run], plots: &mut Vec<Plot>, missing: &mut Vec<String>) {
        let (mut series, places) = self.series(runs);
        if series.is_empty() {
            missing.extend((!self.missing.is_empty()).then(|| self.missing.to_owned()));
            return;
        }
        let (x, mut y) = (self.x, self.y);
        if let Kind::Names(names) = &mut y.1 {
            *names = places;
        }
        let speedups: Vec<Series> = match self.speedup {
            Some(_) => series.iter().filter_map(speedup).collect(),
            None => Vec::new(),
        };
        if let Some(others) = self.others {
            let others = others(&series);
            series.extend(others);
            series.sort_by_key(|series| series.chunk_buckets);
        }
        let id = format!("{}-speedup", self.texts[0]);
        plots.extend(Plot::new(self.texts, (x.0, &x.1), (y.0, &y.1), false, series));
        let Some(title) = self.speedup else { return };
        let caption = "Throughput divided by that of the fewest ranks of the same series. On the \
                       dotted line each further rank adds the same throughput.";
        let texts = [id, title.to_owned(), caption.to_owned()];
        let plot = Plot::new(texts, (x.0, &x.1), ("times", &Kind::Fitting), true, speedups);
        if plot.is_none() {
            missing.push(format!(
                "{title}: all given runs of one kind have the same number of ranks. Runs that \
                 differ only in `--ranks` add it."
            ));
        }
        plots.extend(plot);
    }

    /// Returns the series of the rows that have a sample, sorted by C, so that a colour means the
    /// same in every chart; and the names along the y axis.
    fn series(&self, runs: &[Run]) -> (Vec<Series>, Vec<String>) {
        let of_command = |run: &&Run| self.commands.contains(&run.command.as_str());
        let rows = runs.iter().filter(of_command).flat_map(|run| {
            run.rows.iter().filter_map(move |row| Some((run, (self.take)(run, row)?)))
        });
        let samples: Vec<(&Run, Sample)> = rows.collect();
        let used = distinct(samples.iter().map(|(run, _)| *run));
        let origins = names(&used, self.axes);
        let (mut all, mut places): (Vec<Series>, Vec<String>) = (Vec::new(), Vec::new());
        for (run, mut sample) in samples {
            if let (Some(name), Some(point)) = (sample.name, sample.points.first_mut()) {
                let place = places.iter().position(|other| *other == name);
                point[1] = place.unwrap_or(places.len()) as f64;
                places.extend(place.is_none().then_some(name));
            }
            let origin = used.iter().position(|other| other.number == run.number).unwrap_or(0);
            let line = origins[origin].clone() + &sample.of_line;
            let (hue, chunk_buckets) = (sample.hue, sample.chunk_buckets);
            let same = all
                .iter_mut()
                .find(|of| (&of.hue, &of.line, of.chunk_buckets) == (&hue, &line, chunk_buckets));
            match same {
                Some(same) => same.points.extend(sample.points),
                None => {
                    let (transport, points) = (run.origin(), sample.points);
                    all.push(Series { hue, line, transport, chunk_buckets, points });
                }
            }
        }
        for series in &mut all {
            series.points.sort_by(|one, other| one[0].total_cmp(&other[0]));
            if !self.axes.is_empty() {
                series.points = medians(&series.points);
            }
        }
        all.sort_by_key(|series| series.chunk_buckets);
        (all, places)
    }
}

/// Combines the values at each x into one point: their median.
fn medians(points: &[[f64; 2]]) -> Vec<[f64; 2]> {
    let same_x = points.chunk_by(|one, other| one[0].total_cmp(&other[0]).is_eq());
    let median = |same: &[[f64; 2]]| {
        let mut values: Vec<f64> = same.iter().map(|point| point[1]).collect();
        values.sort_by(f64::total_cmp);
        let [upper, lower] = [values.len() / 2, (values.len() - 1) / 2].map(|at| values[at]);
        [same[0][0], f64::midpoint(lower, upper)]
    };
    same_x.map(median).collect()
}

/// Returns the rates of several numbers of ranks, divided by that of the fewest.
fn speedup(rates: &Series) -> Option<Series> {
    let [[_, first], _, ..] = rates.points[..] else { return None };
    let points = rates.points.iter().map(|[ranks, rate]| [*ranks, rate / first]).collect();
    Some(Series { points, ..rates.clone() })
}
