//! Draws a plot as SVG. The library draws every layer on the same coordinates, so that a page can
//! style and hide each layer separately.

use core::fmt::Write;
use core::ops::Range;

use maud::{PreEscaped, html};
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::legend::{EDGE, STROKE, marker_class};
use super::{Axis, Dashes, Form, Look, Plot, Scale};
use crate::error::Error;

/// Tenths of a pixel per pixel. The library's coordinates are whole numbers.
const TENTHS: u32 = 10;
const WIDTH: u32 = 440 * TENTHS;
const HEIGHT: u32 = 290 * TENTHS;
/// The height above the plot area, for the title of the y axis.
const TOP: u32 = 26 * TENTHS;
const RIGHT: u32 = 26 * TENTHS;
const BOTTOM: u32 = 42 * TENTHS;
const LEFT: u32 = 46 * TENTHS;
/// The height of a line of names.
const LINE: u32 = 19 * TENTHS;
/// The text size as the library defines it: the line height, 1.24 times the size of letters.
const TEXT: u32 = 12 * TENTHS * 124 / 100;
const THIN: u32 = 10;

/// Colours on white; a page has its own colours.
const INK: RGBColor = RGBColor(0x1b, 0x1f, 0x24);
const FAINT: RGBColor = RGBColor(0x57, 0x5e, 0x68);
const GRID: RGBColor = RGBColor(0xe3, 0xe6, 0xea);

/// The width of a letter at the largest size of a page.
const LETTER: u32 = 80;
/// Maximum letters of a name along an axis; the table of the plot has the whole name.
const LONGEST_NAME: u32 = 30;
/// The size of a title, and the maximum width of a letter in tenths of it.
const TITLE_TEXT: usize = 140;
const TITLE_TENTHS: usize = 7;
/// The width of the symbol before a name of a legend, and the width of a letter of the name.
const KEY: usize = 430;
const LEGEND_LETTER: usize = 62;
/// Minimum distance of the markers of a line, as a share of the x axis.
const APART: f64 = 0.035;
const FAR_APART: f64 = 0.25;

type Drawn<T> = Result<T, Box<dyn core::error::Error>>;

/// Positions in tenths of pixels.
struct Sheet {
    width: u32,
    height: u32,
    left: u32,
}

impl Sheet {
    fn of(plot: &Plot) -> Self {
        if plot.y.scale != Scale::Names {
            return Self { width: WIDTH, height: HEIGHT, left: LEFT };
        }
        let longest = plot.y.ticks.iter().map(|(_, name)| name.chars().count()).max();
        let lines = u32::try_from(plot.y.ticks.len()).unwrap_or(u32::MAX).min(200);
        let letters = u32::try_from(longest.unwrap_or(0)).unwrap_or(u32::MAX);
        let names = letters.min(LONGEST_NAME) * LETTER;
        Self { width: WIDTH, height: TOP + BOTTOM + (lines + 1) * LINE, left: names + 160 }
    }
}

/// Draws a plot for a page, which has its own `id`s and colours.
pub(crate) fn draw(plot: &Plot, dashes: &Dashes) -> Result<String, Error> {
    let failed = |error: Box<dyn core::error::Error>| Error::Draw {
        plot: plot.id.clone(),
        reason: error.to_string(),
    };
    let sheet = Sheet::of(plot);
    let layers = layers(plot, &sheet, dashes).map_err(failed)?;
    let area = [sheet.left, TOP, sheet.width - RIGHT, sheet.height - BOTTOM];
    let area = area.map(|edge| edge.to_string()).join(" ");
    let range = |axis: &Axis| format!("{} {}", axis.range[0], axis.range[1]);
    Ok(html! {
        svg viewBox=(format!("0 0 {} {}", sheet.width, sheet.height)) role="img"
            aria-label=(plot.title) data-area=(area)
            data-x-scale=(plot.x.scale.name()) data-x-range=(range(&plot.x))
            data-y-scale=(plot.y.scale.name()) data-y-range=(range(&plot.y)) {
            (PreEscaped(layers))
        }
    }
    .into_string())
}

/// Draws a plot as a separate file, with its title, a legend and a white background.
pub(crate) fn standalone(plot: &Plot, dashes: &Dashes) -> Result<String, Error> {
    let failed = |error: Box<dyn core::error::Error>| Error::Draw {
        plot: plot.id.clone(),
        reason: error.to_string(),
    };
    let sheet = Sheet::of(plot);
    let layers = layers(plot, &sheet, dashes).map_err(failed)?;
    let legend = plot.legend(dashes);
    let widest = legend.iter().map(|entry| entry.name.chars().count()).max().unwrap_or(0);
    let columns = sheet.width as usize / (KEY + widest * LEGEND_LETTER);
    let columns = columns.clamp(1, legend.len().clamp(1, 4));
    let column = sheet.width as usize / columns;
    let (head, line) = (30 * TENTHS as usize, 18 * TENTHS as usize);
    let bottom = head + sheet.height as usize;
    let height = bottom + legend.len().div_ceil(columns) * line + 100;
    let place = |at: usize| {
        format!("translate({} {})", at % columns * column + 100, bottom + at / columns * line)
    };
    Ok(html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(sheet.width / TENTHS) height=(height / TENTHS as usize)
            viewBox=(format!("0 0 {} {height}", sheet.width)) font-family="sans-serif" {
            title { (plot.title) }
            desc { (plot.caption) }
            rect width=(sheet.width) height=(height) fill="#ffffff" {}
            text x="100" y="200" font-size=(title_text(&plot.title)) font-weight="bold" fill="#1b1f24" { (plot.title) }
            g transform=(format!("translate(0 {head})")) { (PreEscaped(layers)) }
            @for (at, entry) in legend.iter().enumerate() {
                g transform=(place(at)) {
                    (PreEscaped(entry.shapes(plot.form)))
                    text x="330" y="95" font-size="110" fill="#1b1f24" { (entry.name) }
                }
            }
        }
    }
    .into_string())
}

/// Returns the text size at which a title fits the width of the picture, at most the normal one.
fn title_text(title: &str) -> usize {
    let letters = title.chars().count().max(1);
    let fits = (WIDTH as usize - 200) * 10 / (letters * TITLE_TENTHS);
    fits.min(TITLE_TEXT)
}

/// Draws grid, axes, guide and series, each as a group.
fn layers(plot: &Plot, sheet: &Sheet, dashes: &Dashes) -> Drawn<String> {
    let mut out = String::new();
    write!(out, "<g class=\"grid\">{}</g>", layer(plot, sheet, Layer::Grid)?)?;
    write!(out, "<g class=\"axes\">{}</g>", layer(plot, sheet, Layer::Axes)?)?;
    if plot.guide.is_some() {
        let guide = layer(plot, sheet, Layer::Guide)?;
        write!(out, "<g class=\"guide\" stroke-dasharray=\"20 25\">{guide}</g>")?;
    }
    for (at, (series, look)) in plot.series.iter().zip(plot.looks(dashes)).enumerate() {
        let line = match plot.form {
            Form::Dots => String::new(),
            _ => layer(plot, sheet, Layer::Line(at, look))?,
        };
        let markers = layer(plot, sheet, Layer::Markers(at, look))?;
        let chunk_buckets = series.chunk_buckets.map(|c| c.to_string()).unwrap_or_default();
        let group = html! {
            g class=(format!("series k{at} s{}", look.colour)) data-transport=(series.transport)
                data-c=(chunk_buckets) {
                title { (series.name(&plot.series)) }
                @if !line.is_empty() {
                    g class="line" stroke-linejoin="round"
                        stroke-dasharray=[(!look.dash.is_empty()).then_some(look.dash)] {
                        (PreEscaped(line))
                    }
                }
                @if !markers.is_empty() {
                    g class=(marker_class(look.hollow)) { (PreEscaped(markers)) }
                }
            }
        };
        out.push_str(&group.into_string());
    }
    Ok(out)
}

/// A layer that is drawn separately; series by their index.
#[derive(Clone, Copy)]
enum Layer {
    Grid,
    Axes,
    Guide,
    Line(usize, Look),
    Markers(usize, Look),
}

/// Draws the shapes of one layer.
fn layer(plot: &Plot, sheet: &Sheet, layer: Layer) -> Drawn<String> {
    let mut svg = String::new();
    {
        let root =
            SVGBackend::with_string(&mut svg, (sheet.width, sheet.height)).into_drawing_area();
        let mut chart = ChartBuilder::on(&root);
        chart.margin_top(TOP).margin_right(RIGHT);
        chart.x_label_area_size(BOTTOM).y_label_area_size(sheet.left);
        let mut chart = chart.build_cartesian_2d(Places(&plot.x), Places(&plot.y))?;
        let place = |[x, y]: [f64; 2]| (plot.x.scale.place(x), plot.y.scale.place(y));
        let ([x0, x1], [y0, y1]) = (plot.x.range, plot.y.range);
        match layer {
            Layer::Grid => {
                let thin = GRID.stroke_width(THIN);
                let across = plot.y.ticks.iter().map(|tick| [(x0, tick.0), (x1, tick.0)]);
                let up = plot.x.ticks.iter().map(|tick| [(tick.0, y0), (tick.0, y1)]);
                chart.draw_series(across.chain(up).map(|line| PathElement::new(line, thin)))?;
            }
            Layer::Axes => {
                let text = ("sans-serif", TEXT).into_font().color(&FAINT);
                chart
                    .configure_mesh()
                    .disable_mesh()
                    .axis_style(FAINT.stroke_width(THIN))
                    .label_style(text.clone())
                    .axis_desc_style(("sans-serif", TEXT).into_font().color(&INK))
                    .set_all_tick_mark_size(4 * TENTHS)
                    .x_desc(plot.x.title.clone())
                    .draw()?;
                let style = ("sans-serif", TEXT)
                    .into_font()
                    .color(&INK)
                    .pos(Pos::new(HPos::Left, VPos::Top));
                let at = (6 * i32::try_from(TENTHS)?, 5 * i32::try_from(TENTHS)?);
                root.draw(&Text::new(plot.y.title.clone(), at, style))?;
            }
            Layer::Guide => {
                if let Some(guide) = &plot.guide {
                    let line = vec![place(guide.from), place(guide.to)];
                    chart.draw_series([PathElement::new(line, FAINT.stroke_width(THIN))])?;
                }
            }
            Layer::Line(at, look) => {
                let points = &plot.series[at].points;
                let points = match plot.form {
                    Form::Curves => steps(points),
                    _ => points.clone(),
                };
                let points: Vec<(f64, f64)> = points.into_iter().map(place).collect();
                let style = colour(look).stroke_width(STROKE);
                chart.draw_series([PathElement::new(points, style)])?;
            }
            Layer::Markers(at, look) => {
                let marked = sparse(&plot.series[at].points, plot, look);
                let points = || marked.iter().map(|point| place(*point));
                let filling = if look.hollow { WHITE } else { colour(look) }.filled();
                let corners = look.marker.to_vec();
                let filled =
                    |point| EmptyElement::at(point) + Polygon::new(corners.clone(), filling);
                chart.draw_series(points().map(filled))?;
                if look.hollow {
                    let style = colour(look).stroke_width(EDGE);
                    let edge = outline(look);
                    let edged =
                        |point| EmptyElement::at(point) + PathElement::new(edge.clone(), style);
                    chart.draw_series(points().map(edged))?;
                }
            }
        }
        root.present()?;
    }
    Ok(inside(&svg))
}

/// An axis as the library requires it: places, and ticks with labels of this crate.
struct Places<'a>(&'a Axis);

impl Ranged for Places<'_> {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (first, last): (i32, i32)) -> i32 {
        let [from, to] = self.0.range;
        // Values are within the axis. NaN maps to the first place.
        let share = ((place - from) / (to - from)).clamp(0.0, 1.0);
        #[allow(clippy::cast_possible_truncation)]
        let along = (share * f64::from(last - first)).round() as i32;
        first + along
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.0.ticks.iter().map(|(place, _)| *place).collect()
    }

    fn range(&self) -> Range<f64> {
        self.0.range[0]..self.0.range[1]
    }
}

impl ValueFormatter<f64> for Places<'_> {
    fn format(at: &f64) -> String {
        at.to_string()
    }

    fn format_ext(&self, at: &f64) -> String {
        let tick = self.0.ticks.iter().find(|(place, _)| place.total_cmp(at).is_eq());
        tick.map_or_else(String::new, |(_, label)| cut(label))
    }
}

/// Truncates a name to the available width.
fn cut(name: &str) -> String {
    match name.char_indices().nth(LONGEST_NAME as usize - 1) {
        Some((end, last)) if end + last.len_utf8() < name.len() => {
            format!("{}\u{2026}", &name[..end])
        }
        _ => name.to_owned(),
    }
}

fn colour(look: Look) -> RGBColor {
    let (red, green, blue) = look.rgb();
    RGBColor(red, green, blue)
}

/// Converts points to steps: each value holds until the next one, since there is no measurement
/// between.
fn steps(points: &[[f64; 2]]) -> Vec<[f64; 2]> {
    let corners = points.windows(2).flat_map(|pair| [pair[0], [pair[1][0], pair[0][1]]]);
    corners.chain(points.last().copied()).collect()
}

/// Returns the points of a line whose markers do not touch, including both ends. A curve has few
/// markers, at different places for each colour, because curves overlap.
fn sparse(points: &[[f64; 2]], plot: &Plot, look: Look) -> Vec<[f64; 2]> {
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

/// Returns the corners of the marker, with the first one repeated at the end.
fn outline(look: Look) -> Vec<(i32, i32)> {
    look.marker.iter().chain(look.marker.first()).copied().collect()
}

/// Returns the content of the outermost SVG element.
fn inside(svg: &str) -> String {
    let begin = svg.find('>').map_or(0, |at| at + 1);
    let end = svg.rfind("</svg>").unwrap_or(svg.len());
    svg[begin..end].trim().to_owned()
}
