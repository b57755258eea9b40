//! Plots as data: their series, axes and numbers. [`draw`](crate::draw) converts them to SVG.

use crate::axis::{Axis, Kind};
use crate::distinct;

/// The form in which a plot shows its points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Lines,
    /// Markers only, for unordered items.
    Dots,
    /// A bar from 0 for each of unordered items.
    Bars,
}

/// A sequence of points.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    /// The name that its colour and its marker represent.
    pub(crate) hue: String,
    /// The name that its dash pattern represents.
    pub(crate) line: String,
    /// C, if it has one: series are in its order.
    pub(crate) chunk_buckets: Option<u32>,
    /// The points, in ascending order of x.
    pub(crate) points: Vec<[f64; 2]>,
    /// The name along the y axis of the only point; names are in the order of their first use.
    pub(crate) name: Option<String>,
    /// The number of the hue in its plot, and that of the line in the page.
    pub(crate) hue_at: usize,
    pub(crate) line_at: usize,
    /// The name for the legend of its plot.
    pub(crate) label: String,
}

impl Series {
    pub(crate) fn of(hue: impl Into<String>, point: [f64; 2]) -> Self {
        Self { hue: hue.into(), points: vec![point], ..Self::default() }
    }

    /// Creates a series of one value beside a name.
    pub(crate) fn named(name: impl Into<String>, hue: impl Into<String>, x: f64) -> Self {
        Self { name: Some(name.into()), ..Self::of(hue, [x, 0.0]) }
    }

    pub(crate) fn with_chunk(chunk_buckets: u32, points: Vec<[f64; 2]>) -> Self {
        let hue = format!("C = {chunk_buckets}");
        Self { hue, chunk_buckets: Some(chunk_buckets), points, ..Self::default() }
    }

    /// Returns the name for the legend of a plot with the series `all`.
    fn label_among(&self, all: &[Self]) -> String {
        let differs = |of: fn(&Self) -> &str| all.iter().any(|other| of(other) != of(self));
        let (hue, line) = (differs(|series| &series.hue), differs(|series| &series.line));
        match (hue, line) {
            _ if self.line.is_empty() => self.hue.clone(),
            (true, false) => self.hue.clone(),
            (false, true) => self.line.clone(),
            _ => format!("{}, {}", self.hue, self.line),
        }
    }
}

/// One plot.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    /// The `id` in the page and the name of its file.
    pub(crate) id: String,
    pub(crate) title: String,
    /// Units, and what the values include.
    pub(crate) caption: String,
    pub(crate) form: Form,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
}

impl Plot {
    /// Returns the plot of the series. It has the points that both axes include, and the series
    /// that have any. Returns `None` if there are none.
    pub(crate) fn new(
        [id, title, caption]: [String; 3],
        (x_title, x_kind): &(&str, Kind),
        (y_title, y_kind): &(&str, Kind),
        mut series: Vec<Series>,
    ) -> Option<Self> {
        let form = match (x_kind, y_kind) {
            (Kind::FromZero, Kind::Names(_)) => Form::Bars,
            (_, Kind::Names(_)) => Form::Dots,
            _ => Form::Lines,
        };
        // Bars have their values after them.
        let room = if form == Form::Bars { 1.15 } else { 1.0 };
        let xs: Vec<f64> = values(&series, 0).into_iter().map(|x| x * room).collect();
        let x = Axis::new(x_title, x_kind, &xs);
        let y = Axis::new(y_title, y_kind, &values(&series, 1));
        for series in &mut series {
            series.points.retain(|point| x.holds(point[0]) && y.holds(point[1]));
        }
        series.retain(|series| !series.points.is_empty());
        let labels: Vec<String> = series.iter().map(|of| of.label_among(&series)).collect();
        let hues = distinct(series.iter().map(|series| series.hue.clone()));
        for (series, label) in series.iter_mut().zip(labels) {
            series.hue_at = hues.iter().position(|hue| *hue == series.hue).unwrap_or(0);
            series.label = label;
        }
        let plot = Self { id, title, caption, form, x, y, series };
        (!plot.series.is_empty()).then_some(plot)
    }
}

fn values(series: &[Series], at: usize) -> Vec<f64> {
    series.iter().flat_map(|series| series.points.iter().map(|point| point[at])).collect()
}
