//! Plots as data: their series, axes and numbers. [`draw`](crate::draw) converts them to SVG.

use crate::axis::{Axis, Kind};
use crate::distinct;
use crate::number::{plain, significant};

/// The form in which a plot shows its points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Lines,
    /// Steps of many points, few of which have markers.
    Curves,
    /// Markers only, for unordered items.
    Dots,
    /// A bar from 0 for each of unordered items.
    Bars,
}

impl Form {
    /// Returns whether lines join the points of a series.
    pub(crate) fn has_lines(self) -> bool {
        matches!(self, Self::Lines | Self::Curves)
    }
}

/// A sequence of points.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    /// The name that its colour and its marker represent.
    pub(crate) hue: String,
    /// The name that its dash pattern represents.
    pub(crate) line: String,
    /// The transport by which the page filters it.
    pub(crate) transport: String,
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

    pub(crate) fn of_chunk(chunk_buckets: u32, points: Vec<[f64; 2]>) -> Self {
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
    /// The head and the rows of its table: a label, then a cell for each series.
    pub(crate) table: Vec<(String, Vec<String>)>,
}

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
            (Kind::Nines, _) => Form::Curves,
            _ => Form::Lines,
        };
        let x = Axis::new(x_title, x_kind, &values(&series, 0));
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
        let table = match (form, y_kind) {
            (Form::Curves, _) => {
                let shares = PERCENTILES.map(|(share, name)| (share, name.to_owned()));
                table("percentile", shares.to_vec(), &series, value_at)
            }
            (_, Kind::Names(names)) => {
                let places = (0..).map(f64::from).zip(names.iter().cloned()).collect();
                table(y_title, places, &series, |points, y| beside(points, 1, y))
            }
            _ => {
                let mut places = values(&series, 0);
                places.sort_by(f64::total_cmp);
                places.dedup();
                let places = places.into_iter().map(|x| (x, plain(x))).collect();
                table(x_title, places, &series, |points, x| beside(points, 0, x))
            }
        };
        if form == Form::Curves {
            for series in &mut series {
                series.points = thinned(&series.points, &x, &y);
            }
        }
        let plot = Self { id, title, caption, form, x, y, series, table };
        (!plot.series.is_empty()).then_some(plot)
    }
}

/// Returns a head and a row for each of these places, with a cell for each series.
fn table(
    title: &str,
    places: Vec<(f64, String)>,
    series: &[Series],
    value: impl Fn(&[[f64; 2]], f64) -> Option<f64>,
) -> Vec<(String, Vec<String>)> {
    let head = (title.to_owned(), series.iter().map(|of| of.label.clone()).collect());
    let rows = places.into_iter().map(|(place, name)| {
        let cell = |of: &Series| value(&of.points, place).map_or_else(String::new, significant);
        (name, series.iter().map(cell).collect())
    });
    core::iter::once(head).chain(rows).collect()
}

/// Returns the y of the point with this x, or with `along` = 1 the x of the point with this y.
fn beside(points: &[[f64; 2]], along: usize, at: f64) -> Option<f64> {
    let point = points.iter().find(|point| point[along].total_cmp(&at).is_eq());
    point.map(|point| point[1 - along])
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

fn values(series: &[Series], at: usize) -> Vec<f64> {
    series.iter().flat_map(|series| series.points.iter().map(|point| point[at])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_percentiles_from_histogram() {
        let points = [[0.0, 100.0], [0.6, 200.0], [0.999, 9_000.0], [0.9999, 9_999.0]];
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
    fn thinning_keeps_ends_and_shape() {
        let points: Vec<[f64; 2]> =
            (0..10_000).map(|at| f64::from(at) / 10_000.0).map(|x| [x, 100.0 + x]).collect();
        let x = Axis::new("", &Kind::Nines, &[0.9999]);
        let y = Axis::new("", &Kind::Fitting, &[1e2, 1e6]);
        let kept = thinned(&points, &x, &y);
        assert!((50..=400).contains(&kept.len()), "{}", kept.len());
        assert_eq!((kept.first(), kept.last()), (points.first(), points.last()));
        assert!(kept.windows(2).all(|pair| x.share(pair[1][0]) - x.share(pair[0][0]) < 0.1));
    }
}
