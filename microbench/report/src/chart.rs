//! Charts as data: what each takes from the rows of runs. A chapter of the page declares its charts.

use crate::axis::Kind;
use crate::distinct;
use crate::origin::names;
use crate::plot::{Plot, Series};
use crate::run::{Fields, Run};

pub(crate) struct Chapter {
    /// The `id`, the title and the first paragraph.
    pub(crate) texts: [String; 3],
    pub(crate) plots: Vec<Plot>,
}

impl Chapter {
    pub(crate) fn new(
        texts: [&str; 3],
        runs: &[Run],
        charts: impl IntoIterator<Item = Chart>,
    ) -> Self {
        let plots = charts.into_iter().filter_map(|chart| chart.plot(runs)).collect();
        Self { texts: texts.map(str::to_owned), plots }
    }
}

/// Returns what a row adds to a chart: a part of a series. Its line is the text after the name of the
/// run.
type Take = Box<dyn Fn(&Run, &Fields) -> Option<Series>>;
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
}

impl Chart {
    pub(crate) fn new(
        texts: [&str; 3],
        x: (&'static str, Kind),
        y: (&'static str, Kind),
        commands: &'static [&'static str],
        take: impl Fn(&Run, &Fields) -> Option<Series> + 'static,
    ) -> Self {
        let (texts, take) = (texts.map(str::to_owned), Box::new(take));
        Self { texts, x, y, commands, take, axes: &[], others: None }
    }

    /// Adds the paper's figures for the series of the runs.
    pub(crate) fn with_paper_series(
        self,
        others: impl Fn(&[Series]) -> Vec<Series> + 'static,
    ) -> Self {
        Self { others: Some(Box::new(others)), ..self }
    }

    /// Joins runs that differ only in `axes`.
    pub(crate) fn joining(self, axes: &'static [&'static str]) -> Self {
        Self { axes, ..self }
    }

    /// Returns the plot, unless no run has data for it.
    fn plot(mut self, runs: &[Run]) -> Option<Plot> {
        let (mut series, places) = self.series(runs);
        if let Kind::Names(names) = &mut self.y.1 {
            *names = places;
        }
        if let Some(others) = self.others {
            series.extend(others(&series));
        }
        // A colour means the same C in every chart.
        series.sort_by_key(|series| series.chunk_buckets);
        if matches!(self.x.1, Kind::Counts) && series.iter().all(|of| of.points.len() == 1) {
            [self.x, self.y] = bars(&mut series, self.x.0, self.y.0);
        }
        Plot::new(self.texts, &self.x, &self.y, series)
    }

    /// Returns the series of the rows that have a sample, and the names along the y axis.
    fn series(&self, runs: &[Run]) -> (Vec<Series>, Vec<String>) {
        let of_command = |run: &&Run| self.commands.contains(&run.command.as_str());
        let rows = runs.iter().filter(of_command).flat_map(|run| {
            run.rows.iter().filter_map(move |row| Some((run, (self.take)(run, row)?)))
        });
        let samples: Vec<(&Run, Series)> = rows.collect();
        let used = distinct(samples.iter().map(|(run, _)| *run));
        let origins = names(&used, self.axes);
        let (mut all, mut places): (Vec<Series>, Vec<String>) = (Vec::new(), Vec::new());
        for (run, mut sample) in samples {
            let origin = used.iter().position(|other| other.number == run.number).unwrap_or(0);
            let origin = &origins[origin];
            if let (Some(mut name), Some(point)) = (sample.name.take(), sample.points.first_mut()) {
                if used.len() > 1 {
                    name += &format!(", {origin}");
                }
                let place = places.iter().position(|other| *other == name);
                point[1] = place.unwrap_or(places.len()) as f64;
                places.extend(place.is_none().then_some(name));
            } else {
                sample.line.insert_str(0, origin);
            }
            let key = |of: &Series| (of.hue.clone(), of.line.clone(), of.chunk_buckets);
            match all.iter_mut().find(|of| key(of) == key(&sample)) {
                Some(same) => same.points.extend(sample.points),
                None => all.push(sample),
            }
        }
        for series in &mut all {
            series.points.sort_by(|one, other| one[0].total_cmp(&other[0]));
            if !self.axes.is_empty() {
                series.points = medians(&series.points);
            }
        }
        (all, places)
    }
}

/// Makes bars of series of one point, which no line joins, and returns their axes.
fn bars(series: &mut [Series], x: &'static str, y: &'static str) -> [(&'static str, Kind); 2] {
    let mut names = Vec::new();
    for (at, series) in (0_u32..).zip(series) {
        let [count, value] = series.points[0];
        names.push(format!("{}, {}, {count} {x}", series.hue, series.line));
        series.points = vec![[value, at.into()]];
    }
    [(y, Kind::FromZero), (x, Kind::Names(names))]
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
