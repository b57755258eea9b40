//! The chapters of the page; each uses the runs of some commands.

mod cluster;
mod compare;
mod depth;
mod distribution;
mod latency;
mod limit;
mod paper;
mod throughput;
mod tune;

use crate::fields::Fields;
use crate::plot::Plot;
use crate::run::Run;

/// A group of related plots.
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
        limit::chapter(runs),
        paper::chapter(runs),
        depth::chapter(runs),
        compare::chapter(runs),
        tune::chapter(runs),
    ]
}

/// Returns the runs of these commands.
fn of<'a>(runs: &'a [Run], commands: &[&str]) -> Vec<&'a Run> {
    runs.iter().filter(|run| commands.contains(&run.command.as_str())).collect()
}

/// Returns each row with its run.
fn rows<'a>(runs: &[&'a Run]) -> impl Iterator<Item = (&'a Run, &'a Fields)> {
    runs.iter().flat_map(|run| run.rows.iter().map(move |row| (*run, row)))
}

/// Returns the distinct values in the order of their first occurrence.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut all = Vec::new();
    for value in values {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

/// Returns the median, or `None` for no values.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let upper = values.get(values.len() / 2)?;
    let lower = values.get((values.len() - 1) / 2)?;
    Some(f64::midpoint(*lower, *upper))
}
