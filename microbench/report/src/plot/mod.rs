//! Plots as data: their values and axes. [`draw()`] converts them to SVG.

mod axis;
mod draw;
mod legend;
mod look;
mod table;

pub(crate) use axis::{Axis, Kind, Scale};
pub(crate) use draw::{draw, standalone};
pub(crate) use look::{Dashes, style_sheet};
pub(crate) use table::Table;

/// The form in which a plot shows its points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Lines,
    /// Steps of many points, few of which have markers.
    Curves,
    /// Markers only, for unordered items.
    Dots,
}

/// What a plot shows, without its values.
pub(crate) struct Spec {
    /// The `id` in the page and the name of its file.
    pub(crate) id: String,
    pub(crate) title: String,
    /// Units, and what the values include.
    pub(crate) caption: String,
    /// The titles and kinds of both axes, which determine the form. Names have their title in the
    /// table alone.
    pub(crate) x: (&'static str, Kind),
    pub(crate) y: (&'static str, Kind),
    pub(crate) guide: Guide,
}

/// A dotted line that is not a measurement. The axes include it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guide {
    None,
    /// y = 1.
    Level,
    /// x = 1, beside names.
    Upright,
    /// From 1 at the smallest x in proportion to x.
    Proportional,
}

/// One plot.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) caption: String,
    pub(crate) form: Form,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
    /// The ends of the guide.
    pub(crate) guide: Option<[[f64; 2]; 2]>,
    pub(crate) table: Table,
}

impl Spec {
    /// Returns the plot of the series. It has the points that both axes include, and the series
    /// that have any. Returns `None` if there are none.
    pub(crate) fn plot(self, mut series: Vec<Series>) -> Option<Plot> {
        let Self { id, title, caption, x: (x_title, x_kind), y: (y_title, y_kind), guide } = self;
        let form = match (&x_kind, &y_kind) {
            (_, Kind::Names(_)) | (Kind::Log, Kind::Log) => Form::Dots,
            (Kind::Nines, _) => Form::Curves,
            _ => Form::Lines,
        };
        let (mut xs, mut ys) = (values(&series, 0), values(&series, 1));
        let guide = guide.ends(&mut xs, &mut ys);
        let x = Axis::new(x_title, &x_kind, &xs);
        let y = Axis::new(y_title, &y_kind, &ys);
        for series in &mut series {
            series.points.retain(|point| x.holds(point[0]) && y.holds(point[1]));
        }
        series.retain(|series| !series.points.is_empty());
        let table = match &y_kind {
            Kind::Names(names) => Table::by_name(y_title, names, &series),
            _ => Table::by_x(x_title, values(&series, 0), &series),
        };
        let plot = Plot { id, title, caption, form, x, y, series, guide, table };
        (!plot.series.is_empty()).then_some(plot)
    }
}

impl Guide {
    /// Returns the ends of the guide, and adds to both axes the values that it needs.
    fn ends(self, xs: &mut Vec<f64>, ys: &mut Vec<f64>) -> Option<[[f64; 2]; 2]> {
        let [first, last] = span(xs);
        let ends = match self {
            Self::None => return None,
            Self::Level => [[first, 1.0], [last, 1.0]],
            // Half a line of names beyond the first and the last.
            Self::Upright => [[1.0, -0.5], [1.0, span(ys)[1] + 0.5]],
            Self::Proportional => [[first, 1.0], [last, last / first]],
        };
        match self {
            Self::Upright => xs.push(1.0),
            _ => ys.extend(ends.map(|end| end[1])),
        }
        (self == Self::Upright || first < last).then_some(ends)
    }
}

/// A sequence of points.
#[derive(Clone, Debug)]
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
}

impl Series {
    /// Appends its points to the series of `all` with the same names and C, or appends itself.
    pub(crate) fn join(self, all: &mut Vec<Self>) {
        let alike = |other: &&mut Self| {
            (&other.hue, &other.line, other.chunk_buckets)
                == (&self.hue, &self.line, self.chunk_buckets)
        };
        match all.iter_mut().find(alike) {
            Some(same) => same.points.extend(self.points),
            None => all.push(self),
        }
    }

    /// Returns the name for the legend of a plot with the series `all`.
    pub(crate) fn name(&self, all: &[Self]) -> String {
        let differs = |of: fn(&Self) -> &str| all.iter().any(|other| of(other) != of(self));
        let (hue, line) = (differs(|series| &series.hue), differs(|series| &series.line));
        match (hue, line) {
            _ if self.line.is_empty() => self.hue.clone(),
            _ if self.hue.is_empty() => self.line.clone(),
            (true, false) => self.hue.clone(),
            (false, true) => self.line.clone(),
            _ => format!("{}, {}", self.hue, self.line),
        }
    }

    /// Returns the y of the point with this x, or with `along` = 1 the x of the point with this y.
    fn beside(&self, along: usize, at: f64) -> Option<f64> {
        let point = self.points.iter().find(|point| point[along].total_cmp(&at).is_eq());
        point.map(|point| point[1 - along])
    }

    /// Replaces each value by `value` of the point, and drops points without one. Returns `None`
    /// if no point has one.
    pub(crate) fn map(&self, value: impl Fn([f64; 2]) -> Option<f64>) -> Option<Self> {
        let points = self.points.iter().filter_map(|&point| Some([point[0], value(point)?]));
        let points: Vec<[f64; 2]> = points.collect();
        (!points.is_empty()).then(|| Self { points, ..self.clone() })
    }
}

pub(crate) fn chunk_name(chunk_buckets: u32) -> String {
    format!("C = {chunk_buckets}")
}

/// Returns the minimum and the maximum; for no values, the first is the larger one.
fn span(values: &[f64]) -> [f64; 2] {
    let (least, most) = (f64::INFINITY, 0.0);
    values.iter().fold([least, most], |[least, most], value| [least.min(*value), most.max(*value)])
}

pub(crate) fn values(series: &[Series], at: usize) -> Vec<f64> {
    series.iter().flat_map(|series| series.points.iter().map(|point| point[at])).collect()
}

/// Creates a plot of series with these hues and lines, of one point each.
#[cfg(test)]
fn made_up(series: &[(&str, &str)]) -> Plot {
    let one = |(hue, line): &(&str, &str)| Series {
        hue: (*hue).to_owned(),
        line: (*line).to_owned(),
        transport: String::new(),
        chunk_buckets: None,
        points: vec![[1.0, 1.0]],
    };
    let (id, title, caption) = (String::new(), String::new(), String::new());
    let (x, y) = (("", Kind::Between), ("", Kind::Between));
    let spec = Spec { id, title, caption, x, y, guide: Guide::None };
    spec.plot(series.iter().map(one).collect()).unwrap()
}
