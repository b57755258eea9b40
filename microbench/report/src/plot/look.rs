//! The looks of series: colour and marker for what was measured, dash pattern for its origin. Up to
//! eight series differ by more than colour.

use maud::{Markup, html};

use super::{Form, Plot, Series};
use crate::distinct;

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
pub(super) const INK: Colour = ("#1b1f24", "#e6e9ed");
pub(super) const FAINT: Colour = ("#575e68", "#a3abb6");
pub(super) const GRID: Colour = ("#e3e6ea", "#2b3139");
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

/// Lengths of strokes and gaps, in tenths of pixels; empty for a solid line. Dots are last, because
/// the guide of a plot is dotted.
const DASHES: [&str; 5] = ["", "60 40", "100 30 20 30", "30 20", "15 30"];

/// The names of the lines of a page, each with its dash pattern in turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dashes(Vec<String>);

impl Dashes {
    /// Assigns patterns to the lines of all plots of a page. A plot of markers only has none.
    pub(crate) fn of<'p>(plots: impl Iterator<Item = &'p Plot>) -> Self {
        let plots = plots.filter(|plot| plot.form != Form::Dots);
        let names = distinct(plots.flat_map(|plot| lines(&plot.series)));
        Self(names.into_iter().map(str::to_owned).collect())
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|other| other == name).map(|at| at % DASHES.len())
    }

    /// Returns the pattern of each series of a plot: that of the page. Lines with the same pattern
    /// on the page get different ones here, as long as there are enough.
    fn within(&self, all: &[Series]) -> Vec<&'static str> {
        let mut here: Vec<(&str, usize)> = Vec::new();
        for name in lines(all) {
            let own = self.place(name).unwrap_or(0);
            let uses = |place: usize| here.iter().filter(|(_, other)| *other == place).count();
            let fewest = (0..DASHES.len()).min_by_key(|place| uses(*place)).unwrap_or(own);
            let place = if uses(own) == 0 { own } else { fewest };
            here.push((name, place));
        }
        let dash = |series: &Series| {
            let found = here.iter().find(|(name, _)| *name == series.line);
            DASHES[found.map_or(0, |(_, place)| *place)]
        };
        all.iter().map(dash).collect()
    }
}

fn lines(all: &[Series]) -> Vec<&str> {
    distinct(all.iter().map(|series| series.line.as_str()))
}

/// The look of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) colour: usize,
    /// The corners of its markers.
    pub(super) marker: &'static str,
    pub(crate) dash: &'static str,
    /// Whether markers are hollow, for measurements of others.
    pub(crate) hollow: bool,
}

impl Look {
    /// Returns the look of each series. Equal hues get equal colours and markers, and equal lines
    /// get equal dash patterns.
    pub(crate) fn of(all: &[Series], dashes: &Dashes) -> Vec<Self> {
        let hues = distinct(all.iter().map(|series| &series.hue));
        let look = |(series, dash): (&Series, &'static str)| {
            let hue = hues.iter().position(|hue| **hue == series.hue).unwrap_or(0);
            Self {
                colour: hue % COLOURS.len(),
                marker: MARKERS[hue % MARKERS.len()],
                dash,
                hollow: series.transport.starts_with("paper"),
            }
        };
        all.iter().zip(dashes.within(all)).map(look).collect()
    }

    /// Returns a number from 0 to 1, different for each colour.
    pub(crate) fn phase(&self) -> f64 {
        self.colour as f64 / COLOURS.len() as f64
    }

    pub(super) fn rgb(&self) -> &'static str {
        COLOURS[self.colour].0
    }
}

pub(super) fn polyline(
    points: impl IntoIterator<Item = (i32, i32)>,
    colour: &str,
    thickness: i32,
) -> Markup {
    let points: Vec<String> = points.into_iter().map(|(x, y)| format!("{x},{y}")).collect();
    html! {
        polyline fill="none" stroke=(colour) stroke-width=(thickness) points=(points.join(" ")) {}
    }
}

/// Draws the line of a series with its dash pattern.
pub(super) fn line(
    look: &Look,
    colour: &str,
    points: impl IntoIterator<Item = (i32, i32)>,
) -> Markup {
    html! {
        g class="line" stroke-linejoin="round"
            stroke-dasharray=[(!look.dash.is_empty()).then_some(look.dash)] {
            (polyline(points, colour, STROKE))
        }
    }
}

pub(super) fn markers(hollow: bool, markers: Markup) -> Markup {
    html! { g class=(if hollow { "markers hollow" } else { "markers" }) { (markers) } }
}

pub(super) fn marker(look: &Look, hollow: bool, (x, y): (i32, i32)) -> Markup {
    let (fill, edge) = if hollow { ("#ffffff", Some(look.rgb())) } else { (look.rgb(), None) };
    html! {
        polygon transform=(format!("translate({x} {y})")) points=(look.marker) fill=(fill)
            stroke=[edge] stroke-width=[edge.map(|_| EDGE)] {}
    }
}

/// Draws the hollow marker that stands for those of all colours.
pub(super) fn hollow_circle((x, y): (i32, i32)) -> Markup {
    html! { circle cx=(x) cy=(y) r="34" fill="#ffffff" stroke=(FAINT.0) stroke-width=(EDGE) {} }
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
    use crate::plot::made_up;

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
    fn no_two_series_look_alike() {
        let series = |hue: usize, line: usize| Series {
            hue: hue.to_string(),
            line: line.to_string(),
            transport: String::new(),
            chunk_buckets: None,
            points: Vec::new(),
        };
        let all: Vec<Series> =
            (0..24).flat_map(|hue| (0..DASHES.len()).map(move |line| series(hue, line))).collect();
        let looks = Look::of(&all, &Dashes::default());
        let shapes: Vec<_> = looks.iter().map(|look| (look.marker, look.dash)).collect();
        for (at, shape) in shapes[..8 * DASHES.len()].iter().enumerate() {
            assert!(!shapes[..at].contains(shape), "{at} differs by colour alone");
        }
        for (at, look) in looks.iter().enumerate() {
            assert!(!looks[..at].contains(look), "{at}");
        }
    }

    fn plot(lines: &[&str]) -> Plot {
        let series: Vec<_> = lines.iter().map(|line| ("C = 8", *line)).collect();
        made_up(&series)
    }

    #[test]
    fn a_line_is_the_same_in_all_plots() {
        let plots = [plot(&["shm", "sim"]), plot(&["ucx", "sim", "paper"]), plot(&["shm"])];
        let dashes = Dashes::of(plots.iter());
        let [both, three, one] = plots.each_ref().map(|plot| dashes.within(&plot.series));
        assert_eq!((both[0], both[1]), (one[0], three[1]));
    }

    #[test]
    fn lines_of_a_plot_differ_while_patterns_suffice() {
        // All share one plot, so there is no pattern left for the last two.
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let mut plots: Vec<Plot> =
            names.iter().flat_map(|a| names.map(|b| plot(&[a, b]))).collect();
        plots.push(plot(&["c", "d", "e", "f", "g"]));
        let dashes = Dashes::of(plots.iter());
        for plot in plots.iter().filter(|plot| plot.series[0].line != plot.series[1].line) {
            let here = dashes.within(&plot.series);
            for (at, dash) in here.iter().enumerate() {
                assert!(!here[..at].contains(dash), "{:?}: {here:?}", lines(&plot.series));
            }
        }
        assert_eq!(dashes.within(&plot(&names).series).len(), names.len());
    }
}
