//! Draws a plot as SVG, in tenths of pixels. Each layer is a group that a page styles.
//!
//! Colour and marker of a series stand for what was measured, its dash pattern for its origin.

use maud::{Markup, html};

use crate::axis::Scale;
use crate::number::significant;
use crate::plot::{Form, Plot, Series};

type Colour = (&'static str, &'static str);

/// The colours of series, from Okabe and Ito's palette for all kinds of colour vision, made darker
/// and lighter until each has enough contrast.
const COLOURS: [Colour; 7] = [
    ("#005fa8", "#62b4f2"),
    ("#be4800", "#ff9255"),
    ("#007a5c", "#3fcb9f"),
    ("#a6477f", "#ea9cc6"),
    ("#8a6600", "#e8bd42"),
    ("#2e7d9c", "#8fd9f0"),
    ("#5b4bb5", "#b7adff"),
];
/// The background of the page.
const GROUND: Colour = ("#ffffff", "#121519");
const INK: Colour = ("#1b1f24", "#e6e9ed");
const FAINT: Colour = ("#575e68", "#a3abb6");
const GRID: Colour = ("#e3e6ea", "#2b3139");
const RAISED: Colour = ("#f5f6f8", "#1b2026");

/// Thickness of lines and of the edges of markers, in tenths of pixels.
const STROKE: i32 = 18;
const EDGE: i32 = 14;
/// Corners of the markers, in tenths of pixels from the centre.
const MARKERS: [&str; 8] = [
    "34,0 31,13 24,24 13,31 0,34 -13,31 -24,24 -31,13 -34,0 -31,-13 -24,-24 -13,-31 \
     0,-34 13,-31 24,-24 31,-13",
    "-30,-30 30,-30 30,30 -30,30",
    "0,-42 37,27 -37,27",
    "0,-44 44,0 0,44 -44,0",
    "0,42 37,-27 -37,-27",
    "-12,-38 12,-38 12,-12 38,-12 38,12 12,12 12,38 -12,38 -12,12 -38,12 -38,-12 -12,-12",
    "0,-17 25,-42 42,-25 17,0 42,25 25,42 0,17 -25,42 -42,25 -17,0 -42,-25 -25,-42",
    "-36,-36 36,-36 -36,36 36,36",
];

/// Lengths of strokes and gaps, in tenths of pixels; empty for a solid line.
const DASHES: [&str; 5] = ["", "60 40", "100 30 20 30", "30 20", "15 30"];

/// The colour, marker and dash of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Style {
    colour: usize,
    /// The corners of its markers.
    marker: &'static str,
    dash: &'static str,
    /// Whether markers are hollow, for measurements of others.
    hollow: bool,
}

impl Style {
    fn of(series: &Series) -> Self {
        Self {
            colour: series.hue_at % COLOURS.len(),
            marker: MARKERS[series.hue_at % MARKERS.len()],
            dash: DASHES[series.line_at % DASHES.len()],
            hollow: series.line.starts_with("paper"),
        }
    }

    fn rgb(&self) -> &'static str {
        COLOURS[self.colour].0
    }
}

fn polyline(points: impl IntoIterator<Item = (i32, i32)>, colour: &str, thickness: i32) -> Markup {
    let points: Vec<String> = points.into_iter().map(|(x, y)| format!("{x},{y}")).collect();
    html! {
        polyline fill="none" stroke=(colour) stroke-width=(thickness) points=(points.join(" ")) {}
    }
}

/// Draws the line of a series with its dash pattern.
fn line(style: &Style, points: impl IntoIterator<Item = (i32, i32)>) -> Markup {
    html! {
        g class="line" stroke-linejoin="round"
            stroke-dasharray=[(!style.dash.is_empty()).then_some(style.dash)] {
            (polyline(points, style.rgb(), STROKE))
        }
    }
}

fn markers(style: &Style, markers: Markup) -> Markup {
    html! { g class=(if style.hollow { "markers hollow" } else { "markers" }) { (markers) } }
}

fn marker(style: &Style, (x, y): (i32, i32)) -> Markup {
    let (fill, edge) =
        if style.hollow { ("#ffffff", Some(style.rgb())) } else { (style.rgb(), None) };
    html! {
        polygon transform=(format!("translate({x} {y})")) points=(style.marker) fill=(fill)
            stroke=[edge] stroke-width=[edge.map(|_| EDGE)] {}
    }
}

/// Draws a bar with its value, from the y axis to a point.
fn bar(style: &Style, sheet: &Sheet<'_>, point: [f64; 2]) -> Markup {
    let (x, y) = sheet.point(point);
    let (left, top, bottom) = (sheet.left, y - BAR / 2, y + BAR / 2);
    html! {
        polygon points=(format!("{left},{top} {x},{top} {x},{bottom} {left},{bottom}"))
            fill=(style.rgb()) {}
        text x=(x + TICK) y=(y) dy="0.35em" font-size=(TEXT) fill=(INK.0) {
            (significant(point[0]))
        }
    }
}

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
const BAR: i32 = 12 * TENTHS;
const MAX_LINES: usize = 200;
const TEXT: i32 = 12 * TENTHS;
const TICK: i32 = 4 * TENTHS;

const THIN: i32 = 10;

/// The width of a letter at the largest size of a page.
const LETTER: i32 = 80;
/// Maximum letters of a name along an axis; the rows of the run have the whole name.
const MAX_NAME_LETTERS: usize = 30;
/// Maximum letters of a name in the legend, and the width of the symbol before it.
const MAX_LABEL_LETTERS: usize = 48;
const KEY: i32 = 430;

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
        let letters = small(longest.unwrap_or(0).min(MAX_NAME_LETTERS));
        let lines = small(plot.y.ticks.len().min(MAX_LINES)) + 1;
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

/// Draws a plot with its legend. A page has colours of its own.
pub(crate) fn draw(plot: &Plot) -> Markup {
    let sheet = Sheet::of(plot);
    let widest =
        plot.series.iter().map(|series| cut(&series.label, MAX_LABEL_LETTERS).chars().count());
    let columns = WIDTH / (KEY + small(widest.max().unwrap_or(0)) * LETTER);
    let lines = small(plot.series.len().div_ceil(columns as usize));
    let height = sheet.height() + lines * LINE + 120;
    html! {
        svg width=(WIDTH / TENTHS) height=(height / TENTHS)
            viewBox=(format!("0 0 {WIDTH} {height}")) font-family="sans-serif" role="img"
            aria-label=(plot.title)
            data-area=(format!("{} {TOP} {RIGHT} {}", sheet.left, sheet.bottom))
            data-x-scale=[(plot.x.scale == Scale::Linear).then_some("linear")] {
            desc { (plot.title) ". " (plot.caption) }
            rect width=(WIDTH) height=(height) fill="#ffffff" {}
            (layers(&sheet))
            g class="legend" {
                @for (series, at) in plot.series.iter().zip(0..) {
                    (entry(series, plot.form, (at % columns * (WIDTH / columns) + 100, sheet.height() + 60 + at / columns * LINE)))
                }
            }
        }
    }
}

/// Draws a short line with a marker, and the name of a series.
fn entry(series: &Series, form: Form, (x, y): (i32, i32)) -> Markup {
    let style = &Style::of(series);
    html! {
        g class=(format!("s{}", style.colour)) transform=(format!("translate({x} {y})")) {
            @if form == Form::Lines { (line(style, [(0, 60), (280, 60)])) }
            (markers(style, html! { (marker(style, (140, 60))) }))
            text x="330" y="100" font-size=(TEXT) fill=(INK.0) { (cut(&series.label, MAX_LABEL_LETTERS)) }
        }
    }
}

/// Draws grid, axes and series, each as a group.
fn layers(sheet: &Sheet<'_>) -> Markup {
    let plot = sheet.plot;
    let grid = |points: [(i32, i32); 2]| polyline(points, GRID.0, THIN);
    html! {
        g class="grid" {
            @for (y, _) in sheet.y_ticks() { (grid([(sheet.left, y), (RIGHT, y)])) }
            @for (x, _) in sheet.x_ticks() { (grid([(x, sheet.bottom), (x, TOP)])) }
        }
        (axes(sheet))
        @for series in &plot.series {
            @let style = &Style::of(series);
            g class=(format!("series s{}", style.colour)) {
                title { (series.label) }
                @if plot.form == Form::Lines {
                    (line(style, series.points.iter().map(|point| sheet.point(*point))))
                }
                (markers(style, html! {
                    @for &point in &series.points {
                        @if plot.form == Form::Bars { (bar(style, sheet, point)) }
                        @else { (marker(style, sheet.point(point))) }
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
                (text((left - 2 * TICK, y), "0.5ex", "end", FAINT.0, &cut(label, MAX_NAME_LETTERS)))
                (axis([(left - TICK, y), (left, y)]))
            }
            (axis([(left, bottom), (RIGHT, bottom)]))
            @for (x, label) in sheet.x_ticks() {
                (text((x, bottom + 2 * TICK), "0.76em", "middle", FAINT.0, &cut(label, MAX_NAME_LETTERS)))
                (axis([(x, bottom), (x, bottom + TICK)]))
            }
            (text((60, 50), "0.76em", "start", INK.0, &sheet.plot.y.title))
        }
    }
}

/// Truncates a name to this number of letters.
fn cut(name: &str, letters: usize) -> String {
    match name.char_indices().nth(letters - 1) {
        Some((end, last)) if end + last.len_utf8() < name.len() => {
            format!("{}\u{2026}", &name[..end])
        }
        _ => name.to_owned(),
    }
}

/// Returns the style sheet of the page and of series, on white and on black.
pub(crate) fn style_sheet() -> String {
    let page =
        [("ground", GROUND), ("ink", INK), ("faint", FAINT), ("grid", GRID), ("raised", RAISED)];
    let rules = |of: fn(Colour) -> &'static str| -> String {
        let page = page.map(|(name, colour)| format!("--{name}:{};", of(colour)));
        let series = COLOURS.iter().enumerate();
        let series = series.map(|(at, &colour)| format!("--s{at}:{};", of(colour)));
        page.into_iter().chain(series).collect()
    };
    let series = (0..COLOURS.len()).map(|at| format!(".s{at}{{--series:var(--s{at})}}\n"));
    format!(
        ":root{{color-scheme:light dark;{}}}\n\
         @media (prefers-color-scheme:dark){{:root{{{}}}}}\n{}",
        rules(|colour| colour.0),
        rules(|colour| colour.1),
        series.collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the contrast from relative luminances (WCAG 2.2).
    fn contrast(one: &str, other: &str) -> f64 {
        let luminance = |colour: &str| {
            let [red, green, blue] = [1, 3, 5].map(|at| {
                let share = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
                if share <= 0.040_45 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
            });
            0.2126 * red + 0.7152 * green + 0.0722 * blue
        };
        let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
        one.max(other) / one.min(other)
    }

    #[test]
    fn colours_have_enough_contrast() {
        for (light, dark) in COLOURS {
            assert!(contrast(light, GROUND.0) >= 4.5, "{light:?}");
            assert!(contrast(dark, GROUND.1) >= 4.5, "{dark:?}");
        }
        for (text, least) in [(INK, 12.0), (FAINT, 5.0)] {
            for ground in [GROUND, RAISED] {
                assert!(contrast(text.0, ground.0) >= least, "{text:?}");
                assert!(contrast(text.1, ground.1) >= least, "{text:?}");
            }
        }
    }

    #[test]
    fn series_styles_differ() {
        let series = |hue_at, line_at| Series { hue_at, line_at, ..Series::default() };
        let all = (0..24).flat_map(|hue| (0..DASHES.len()).map(move |line| series(hue, line)));
        let styles: Vec<Style> = all.map(|series| Style::of(&series)).collect();
        let shapes: Vec<_> = styles.iter().map(|style| (style.marker, style.dash)).collect();
        for (at, shape) in shapes[..8 * DASHES.len()].iter().enumerate() {
            assert!(!shapes[..at].contains(shape), "{at} differs by colour alone");
        }
        for (at, style) in styles.iter().enumerate() {
            assert!(!styles[..at].contains(style), "{at}");
        }
    }
}
