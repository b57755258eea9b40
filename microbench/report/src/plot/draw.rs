//! Draws a plot as SVG, in tenths of pixels. Each layer is a group that a page styles and hides.

use maud::{Markup, html};

use super::look::{FAINT, GRID, INK, Look, line, marker, markers, polyline};
use super::{Dashes, Form, Plot, Scale};

const TENTHS: i32 = 10;
const WIDTH: i32 = 440 * TENTHS;
const HEIGHT: i32 = 290 * TENTHS;
/// The height above the plot area, for the title of the y axis.
const TOP: i32 = 26 * TENTHS;
const RIGHT: i32 = WIDTH - 26 * TENTHS;
/// The height below the plot area, for the labels and the title of the x axis.
const BELOW: i32 = 42 * TENTHS;
const LEFT: i32 = 46 * TENTHS;
/// The height of a line of names, and the maximum number of lines.
const LINE: i32 = 19 * TENTHS;
const MOST_LINES: usize = 200;
const TEXT: i32 = 12 * TENTHS;
const TICK: i32 = 4 * TENTHS;

const THIN: i32 = 10;

/// The width of a letter at the largest size of a page.
const LETTER: i32 = 80;
/// Maximum letters of a name along an axis; the table of the plot has the whole name.
const LONGEST_NAME: usize = 30;
/// The size of a title, and the maximum width of a letter in tenths of it.
const TITLE_TEXT: usize = 140;
const TITLE_TENTHS: usize = 7;
/// The width of the symbol before a name of a legend, and the width of a letter of the name.
const KEY: usize = 430;
const LEGEND_LETTER: usize = 62;
/// Minimum distance of the markers of a line, as a share of the x axis.
const APART: f64 = 0.035;
const FAR_APART: f64 = 0.25;

/// The place of the plot area in a picture of a plot.
struct Sheet<'p> {
    plot: &'p Plot,
    left: i32,
    bottom: i32,
}

impl<'p> Sheet<'p> {
    fn of(plot: &'p Plot) -> Self {
        if plot.y.scale != Scale::Names {
            return Self { plot, left: LEFT, bottom: HEIGHT - BELOW };
        }
        let longest = plot.y.ticks.iter().map(|(_, name)| name.chars().count()).max();
        let letters = small(longest.unwrap_or(0).min(LONGEST_NAME));
        let lines = small(plot.y.ticks.len().min(MOST_LINES)) + 1;
        Self { plot, left: letters * LETTER + 160, bottom: TOP + lines * LINE }
    }

    fn height(&self) -> i32 {
        self.bottom + BELOW
    }

    fn x(&self, share: f64) -> i32 {
        along(share, self.left, RIGHT)
    }

    fn y(&self, share: f64) -> i32 {
        along(share, self.bottom, TOP)
    }

    fn point(&self, [x, y]: [f64; 2]) -> (i32, i32) {
        (self.x(self.plot.x.share(x)), self.y(self.plot.y.share(y)))
    }

    fn x_ticks(&self) -> impl Iterator<Item = (i32, &str)> {
        let ticks = self.plot.x.ticks.iter();
        ticks.map(|(place, label)| (self.x(self.plot.x.share_of_place(*place)), label.as_str()))
    }

    fn y_ticks(&self) -> impl Iterator<Item = (i32, &str)> {
        let ticks = self.plot.y.ticks.iter();
        ticks.map(|(place, label)| (self.y(self.plot.y.share_of_place(*place)), label.as_str()))
    }
}

/// Converts a number that is limited above.
fn small(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Returns the position of a share between two positions, rounded. NaN is at the first.
#[allow(clippy::cast_possible_truncation)]
fn along(share: f64, first: i32, last: i32) -> i32 {
    first + (share.clamp(0.0, 1.0) * f64::from(last - first)).round() as i32
}

/// Draws a plot for a page, which has its own `id`s and colours.
pub(crate) fn draw(plot: &Plot, dashes: &Dashes) -> Markup {
    let sheet = Sheet::of(plot);
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {}", sheet.height())) role="img" aria-label=(plot.title)
            data-area=(format!("{} {TOP} {RIGHT} {}", sheet.left, sheet.bottom))
            data-x-scale=[(plot.x.scale == Scale::Linear).then_some("linear")] {
            (layers(&sheet, dashes))
        }
    }
}

/// Draws a plot as a separate file, with its title, a legend and a white background.
pub(crate) fn standalone(plot: &Plot, dashes: &Dashes) -> String {
    let sheet = Sheet::of(plot);
    let legend = plot.legend(dashes);
    let widest = legend.iter().map(|entry| entry.name.chars().count()).max().unwrap_or(0);
    let columns = WIDTH as usize / (KEY + widest * LEGEND_LETTER);
    let columns = columns.clamp(1, legend.len().clamp(1, 4));
    let column = WIDTH as usize / columns;
    let (head, line) = (30 * TENTHS, 18 * TENTHS as usize);
    let bottom = (head + sheet.height()) as usize;
    let height = bottom + legend.len().div_ceil(columns) * line + 100;
    let place = |at: usize| {
        format!("translate({} {})", at % columns * column + 100, bottom + at / columns * line)
    };
    html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(WIDTH / TENTHS)
            height=(height / TENTHS as usize) viewBox=(format!("0 0 {WIDTH} {height}"))
            font-family="sans-serif" {
            title { (plot.title) }
            desc { (plot.caption) }
            rect width=(WIDTH) height=(height) fill="#ffffff" {}
            text x="100" y="200" font-size=(title_text(&plot.title)) font-weight="bold"
                fill=(INK.0) { (plot.title) }
            g transform=(format!("translate(0 {head})")) { (layers(&sheet, dashes)) }
            @for (at, entry) in legend.iter().enumerate() {
                g transform=(place(at)) {
                    (entry.shapes(plot.form))
                    text x="330" y="95" font-size="110" fill=(INK.0) { (entry.name) }
                }
            }
        }
    }
    .into_string()
}

/// Returns the text size at which a title fits the width of the picture, at most the normal one.
fn title_text(title: &str) -> usize {
    let letters = title.chars().count().max(1);
    let fits = (WIDTH as usize - 200) * 10 / (letters * TITLE_TENTHS);
    fits.min(TITLE_TEXT)
}

/// Draws grid, axes, guide and series, each as a group.
fn layers(sheet: &Sheet<'_>, dashes: &Dashes) -> Markup {
    let plot = sheet.plot;
    let looks = Look::of(&plot.series, dashes);
    let grid = |points: [(i32, i32); 2]| polyline(points, GRID.0, THIN);
    let guide = plot.guide.map(|points| points.map(|point| sheet.point(point)));
    html! {
        g class="grid" {
            @for (y, _) in sheet.y_ticks() { (grid([(sheet.left, y), (RIGHT, y)])) }
            @for (x, _) in sheet.x_ticks() { (grid([(x, sheet.bottom), (x, TOP)])) }
        }
        (axes(sheet))
        @if let Some(points) = guide {
            g class="guide" stroke-dasharray="20 25" { (polyline(points, FAINT.0, THIN)) }
        }
        @for (at, (series, look)) in plot.series.iter().zip(&looks).enumerate() {
            g class=(format!("series k{at} s{}", look.colour)) data-transport=(series.transport)
                data-c=(series.chunk_buckets.map(|c| c.to_string()).unwrap_or_default()) {
                title { (series.name(&plot.series)) }
                @if plot.form != Form::Dots {
                    (line(look, look.rgb(), path(sheet, &series.points)))
                }
                (markers(look.hollow, html! {
                    @for point in sparse(&series.points, plot, look) {
                        (marker(look, look.hollow, sheet.point(point)))
                    }
                }))
            }
        }
    }
}

/// Draws both axes with their ticks, labels and titles. The page colours the last text as a title.
fn axes(sheet: &Sheet<'_>) -> Markup {
    let (left, bottom) = (sheet.left, sheet.bottom);
    let axis = |points: [(i32, i32); 2]| polyline(points, FAINT.0, THIN);
    let text = |(x, y), dy: &str, anchor: &str, colour: &str, text: &str| {
        html! {
            text x=(x) y=(y) dy=(dy) text-anchor=(anchor) font-size=(TEXT) fill=(colour) { (text) }
        }
    };
    let middle = i32::midpoint(left, RIGHT);
    html! {
        g class="axes" {
            (text((middle, sheet.height()), "-0.5ex", "middle", INK.0, &sheet.plot.x.title))
            (axis([(left, TOP), (left, bottom)]))
            @for (y, label) in sheet.y_ticks() {
                (text((left - 2 * TICK, y), "0.5ex", "end", FAINT.0, &cut(label)))
                (axis([(left - TICK, y), (left, y)]))
            }
            (axis([(left, bottom), (RIGHT, bottom)]))
            @for (x, label) in sheet.x_ticks() {
                (text((x, bottom + 2 * TICK), "0.76em", "middle", FAINT.0, &cut(label)))
                (axis([(x, bottom), (x, bottom + TICK)]))
            }
            (text((60, 50), "0.76em", "start", INK.0, &sheet.plot.y.title))
        }
    }
}

/// Truncates a name to the available width.
fn cut(name: &str) -> String {
    match name.char_indices().nth(LONGEST_NAME - 1) {
        Some((end, last)) if end + last.len_utf8() < name.len() => {
            format!("{}\u{2026}", &name[..end])
        }
        _ => name.to_owned(),
    }
}

/// Returns the corners of a line. A curve has steps: each value holds until the next one, since
/// there is no measurement between.
fn path(sheet: &Sheet<'_>, points: &[[f64; 2]]) -> Vec<(i32, i32)> {
    let mut path = Vec::new();
    for (at, &point) in points.iter().enumerate() {
        if let (Form::Curves, Some(before)) = (sheet.plot.form, at.checked_sub(1)) {
            path.push(sheet.point([point[0], points[before][1]]));
        }
        path.push(sheet.point(point));
    }
    path
}

/// Returns the points of a line whose markers do not touch, including both ends. A curve has few
/// markers, at different places for each colour, because curves overlap.
fn sparse(points: &[[f64; 2]], plot: &Plot, look: &Look) -> Vec<[f64; 2]> {
    let (apart, first) = match plot.form {
        Form::Dots => return points.to_vec(),
        Form::Lines => (APART, f64::NEG_INFINITY),
        Form::Curves => (FAR_APART, FAR_APART * look.phase()),
    };
    let mut kept: Vec<[f64; 2]> = Vec::new();
    for (at, point) in points.iter().enumerate() {
        let share = plot.x.share(point[0]);
        let far = kept.last().map_or(share >= first, |last| share - plot.x.share(last[0]) >= apart);
        if far || at + 1 == points.len() {
            kept.push(*point);
        }
    }
    kept
}
