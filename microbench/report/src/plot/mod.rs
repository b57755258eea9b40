//! Plots as data: their values and axes. [`draw`] converts them to SVG.

mod axis;
mod dash;
mod draw;
mod legend;
mod look;
mod table;

pub(crate) use axis::{Axis, Scale};
pub(crate) use dash::Dashes;
pub(crate) use draw::{draw, standalone};
pub(crate) use look::{Look, style_sheet};
pub(crate) use table::Table;

/// The form in which a plot shows its points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Markers connected by lines.
    Lines,
    /// Steps of many points, few of which have markers.
    Curves,
    /// Markers only, for unordered items.
    Dots,
}

/// One plot.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    /// The `id` in the page and the name of its file: lower case letters, digits and dashes.
    pub(crate) id: String,
    pub(crate) title: String,
    /// Units, and what the values include.
    pub(crate) caption: String,
    pub(crate) form: Form,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
    /// A reference line.
    pub(crate) guide: Option<Guide>,
    pub(crate) table: Table,
}

/// A line that is not a measurement, with its name.
#[derive(Clone, Debug)]
pub(crate) struct Guide {
    pub(crate) from: [f64; 2],
    pub(crate) to: [f64; 2],
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
}

/// Returns the name of C for a series.
pub(crate) fn chunk_name(chunk_buckets: u32) -> String {
    format!("C = {chunk_buckets}")
}

impl Plot {
    /// Keeps the points that both axes include, and the series that have any.
    pub(crate) fn within_axes(mut self) -> Option<Self> {
        for series in &mut self.series {
            series.points.retain(|[x, y]| self.x.holds(*x) && self.y.holds(*y));
        }
        self.series.retain(|series| !series.points.is_empty());
        (!self.series.is_empty()).then_some(self)
    }

    /// Returns the look of each series, in their order.
    pub(crate) fn looks(&self, dashes: &Dashes) -> Vec<Look> {
        Look::of(&self.series, dashes)
    }
}

/// Sorts the points of each series by x.
pub(crate) fn sort_by_x(all: &mut [Series]) {
    for series in all {
        series.points.sort_by(|one, other| one[0].total_cmp(&other[0]));
    }
}

/// Returns the minimum and the maximum; for no values, the first is the larger one.
pub(crate) fn span(values: impl Iterator<Item = f64>) -> [f64; 2] {
    values.fold([f64::INFINITY, 0.0], |[least, most], value| [least.min(value), most.max(value)])
}

/// Returns the x or the y values of all series.
pub(crate) fn all(series: &[Series], at: usize) -> impl Iterator<Item = f64> + Clone {
    series.iter().flat_map(move |series| series.points.iter().map(move |point| point[at]))
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
    let axis = Axis::between("", [1.0].into_iter());
    Plot {
        id: String::new(),
        title: String::new(),
        caption: String::new(),
        form: Form::Lines,
        x: axis.clone(),
        y: axis,
        series: series.iter().map(one).collect(),
        guide: None,
        table: Table::default(),
    }
}
