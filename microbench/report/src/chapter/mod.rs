//! The chapters of the page; each uses the runs of some commands.

mod cluster;
mod compare;
mod distribution;
mod latency;
mod map;
mod paper;
mod surrogate;
mod throughput;

use crate::distinct;
use crate::origin::{Origins, transport};
use crate::plot::{Plot, Series, chunk_name};
use crate::run::{Fields, Run};

pub(crate) struct Chapter {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) lead: String,
    pub(crate) plots: Vec<Plot>,
    /// Plots that no run has data for, and the command that makes such a run.
    pub(crate) missing: Vec<String>,
}

/// Returns all chapters, including those without plots.
pub(crate) fn all(runs: &[Run]) -> Vec<Chapter> {
    vec![
        latency::chapter(runs),
        distribution::chapter(runs),
        throughput::chapter(runs),
        map::chapter(runs),
        paper::chapter(runs),
        compare::chapter(runs),
        surrogate::chapter(runs),
    ]
}

impl Chapter {
    /// Creates a chapter. If it has no plot, `missing` says which run adds one.
    fn new(
        [id, title, lead]: [&'static str; 3],
        plots: impl IntoIterator<Item = Plot>,
        missing: &str,
    ) -> Self {
        let plots: Vec<Plot> = plots.into_iter().collect();
        let missing = if plots.is_empty() { vec![missing.to_owned()] } else { Vec::new() };
        Self { id, title, lead: lead.to_owned(), plots, missing }
    }
}

/// What a row contributes to a plot.
struct Sample {
    /// What was measured: the name that colour and marker represent.
    hue: String,
    /// The text after the name of the run, which the dash pattern represents.
    of_line: String,
    chunk_buckets: Option<u32>,
    points: Vec<[f64; 2]>,
}

impl Sample {
    /// A value of the C of the row.
    fn of_chunk(run: &Run, row: &Fields, point: [f64; 2]) -> Option<Self> {
        let chunk_buckets = run.chunk_buckets(row)?;
        let hue = chunk_name(chunk_buckets);
        Some(Self { chunk_buckets: Some(chunk_buckets), ..Self::new(hue, point) })
    }

    fn new(hue: String, point: [f64; 2]) -> Self {
        Self { hue, of_line: String::new(), chunk_buckets: None, points: vec![point] }
    }
}

/// Returns the series of the rows that have a sample. `names` gets the runs with such rows.
/// Series are sorted by C, so that a colour means the same in every plot.
fn series(
    runs: &[Run],
    commands: &[&str],
    names: impl Fn(&[&Run]) -> Origins,
    mut sample: impl FnMut(&Run, &Fields) -> Option<Sample>,
) -> Vec<Series> {
    let samples = rows(runs, commands).filter_map(|(run, row)| Some((run, sample(run, row)?)));
    let samples: Vec<(&Run, Sample)> = samples.collect();
    let origins = names(&distinct(samples.iter().map(|(run, _)| *run)));
    let mut all: Vec<Series> = Vec::new();
    for (run, sample) in samples {
        let Sample { hue, of_line, chunk_buckets, points } = sample;
        let line = origins.name(run) + &of_line;
        Series { hue, line, transport: transport(run), chunk_buckets, points }.join(&mut all);
    }
    for series in &mut all {
        series.points.sort_by(|one, other| one[0].total_cmp(&other[0]));
    }
    all.sort_by_key(|series| series.chunk_buckets);
    all
}

/// As [`series`], with a name for each run.
fn series_of_runs(
    runs: &[Run],
    commands: &[&str],
    sample: impl FnMut(&Run, &Fields) -> Option<Sample>,
) -> Vec<Series> {
    series(runs, commands, |used| Origins::unique(used, &[]), sample)
}

/// Names along an axis, in the order of their first use.
#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    fn place(&mut self, name: String) -> f64 {
        let at = self.0.iter().position(|other| *other == name).unwrap_or_else(|| {
            self.0.push(name);
            self.0.len() - 1
        });
        at as f64
    }
}

fn rows<'r>(runs: &'r [Run], commands: &[&str]) -> impl Iterator<Item = (&'r Run, &'r Fields)> {
    of(runs, commands).into_iter().flat_map(|run| run.rows.iter().map(move |row| (run, row)))
}

fn of<'r>(runs: &'r [Run], commands: &[&str]) -> Vec<&'r Run> {
    runs.iter().filter(|run| commands.contains(&run.command.as_str())).collect()
}
