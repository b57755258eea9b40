//! The looks of series: colour and marker for what was measured, dash pattern for its origin. Up to
//! eight series differ by more than colour.

use core::fmt::Write;

use super::{Dashes, Series};

/// Colours on white and on black, from Okabe and Ito's palette for all kinds of colour vision, made
/// darker and lighter until each has enough contrast.
const COLOURS: [([u8; 3], [u8; 3]); 7] = [
    ([0x00, 0x5f, 0xa8], [0x62, 0xb4, 0xf2]),
    ([0xbe, 0x48, 0x00], [0xff, 0x92, 0x55]),
    ([0x00, 0x7a, 0x5c], [0x3f, 0xcb, 0x9f]),
    ([0xa6, 0x47, 0x7f], [0xea, 0x9c, 0xc6]),
    ([0x8a, 0x66, 0x00], [0xe8, 0xbd, 0x42]),
    ([0x2e, 0x7d, 0x9c], [0x8f, 0xd9, 0xf0]),
    ([0x5b, 0x4b, 0xb5], [0xb7, 0xad, 0xff]),
];
/// The background of the page, in both variants.
const GROUND: ([u8; 3], [u8; 3]) = ([0xff, 0xff, 0xff], [0x12, 0x15, 0x19]);
const INK: ([u8; 3], [u8; 3]) = ([0x1b, 0x1f, 0x24], [0xe6, 0xe9, 0xed]);
const FAINT: ([u8; 3], [u8; 3]) = ([0x57, 0x5e, 0x68], [0xa3, 0xab, 0xb6]);
const GRID: ([u8; 3], [u8; 3]) = ([0xe3, 0xe6, 0xea], [0x2b, 0x31, 0x39]);
const RAISED: ([u8; 3], [u8; 3]) = ([0xf5, 0xf6, 0xf8], [0x1b, 0x20, 0x26]);

/// Corners of the markers, in tenths of pixels from the centre.
const MARKERS: [&[(i32, i32)]; 8] = [
    &[
        (34, 0),
        (31, 13),
        (24, 24),
        (13, 31),
        (0, 34),
        (-13, 31),
        (-24, 24),
        (-31, 13),
        (-34, 0),
        (-31, -13),
        (-24, -24),
        (-13, -31),
        (0, -34),
        (13, -31),
        (24, -24),
        (31, -13),
    ],
    &[(-30, -30), (30, -30), (30, 30), (-30, 30)],
    &[(0, -42), (37, 27), (-37, 27)],
    &[(0, -44), (44, 0), (0, 44), (-44, 0)],
    &[(0, 42), (37, -27), (-37, -27)],
    &[
        (-12, -38),
        (12, -38),
        (12, -12),
        (38, -12),
        (38, 12),
        (12, 12),
        (12, 38),
        (-12, 38),
        (-12, 12),
        (-38, 12),
        (-38, -12),
        (-12, -12),
    ],
    &[
        (0, -17),
        (25, -42),
        (42, -25),
        (17, 0),
        (42, 25),
        (25, 42),
        (0, 17),
        (-25, 42),
        (-42, 25),
        (-17, 0),
        (-42, -25),
        (-25, -42),
    ],
    &[(-36, -36), (36, -36), (-36, 36), (36, 36)],
];

/// The look of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) colour: usize,
    pub(crate) marker: &'static [(i32, i32)],
    pub(crate) dash: &'static str,
    /// Whether markers are hollow, for measurements of others.
    pub(crate) hollow: bool,
}

impl Look {
    /// Returns the look of each series. Equal hues get equal colours and markers, and equal lines
    /// get equal dash patterns.
    pub(crate) fn of(all: &[Series], dashes: &Dashes) -> Vec<Self> {
        let mut hues: Vec<&str> = Vec::new();
        let mut looks = Vec::new();
        for (series, dash) in all.iter().zip(dashes.within(all)) {
            let hue = position(&mut hues, &series.hue);
            looks.push(Self {
                colour: hue % COLOURS.len(),
                marker: MARKERS[hue % MARKERS.len()],
                dash,
                hollow: series.transport.starts_with("paper"),
            });
        }
        looks
    }

    /// Returns a number from 0 to 1, different for each colour.
    pub(crate) fn phase(&self) -> f64 {
        self.colour as f64 / COLOURS.len() as f64
    }

    /// Returns its colour on white.
    pub(crate) fn rgb(&self) -> (u8, u8, u8) {
        let [red, green, blue] = COLOURS[self.colour].0;
        (red, green, blue)
    }
}

fn position<'a>(names: &mut Vec<&'a str>, name: &'a str) -> usize {
    names.iter().position(|other| *other == name).unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    })
}

/// Returns the style sheet of the page and of series, on white and on black.
pub(crate) fn style_sheet() -> String {
    let colours = |dark: bool| {
        let pick = |pair: &([u8; 3], [u8; 3])| {
            let [red, green, blue] = if dark { pair.1 } else { pair.0 };
            format!("#{red:02x}{green:02x}{blue:02x}")
        };
        let named = [
            ("ground", &GROUND),
            ("ink", &INK),
            ("faint", &FAINT),
            ("grid", &GRID),
            ("raised", &RAISED),
        ];
        let mut rules = String::new();
        for (name, pair) in named {
            let _ = write!(rules, "--{name}:{};", pick(pair));
        }
        for (at, pair) in COLOURS.iter().enumerate() {
            let _ = write!(rules, "--s{at}:{};", pick(pair));
        }
        rules
    };
    let mut sheet = format!(
        ":root{{color-scheme:light dark;{}}}\n@media (prefers-color-scheme:dark){{:root{{{}}}}}\n",
        colours(false),
        colours(true)
    );
    for at in 0..COLOURS.len() {
        let _ = writeln!(sheet, ".s{at}{{--series:var(--s{at})}}");
    }
    sheet
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::dash::DASHES;

    /// Computes the contrast from relative luminances (WCAG 2.2).
    fn contrast(one: [u8; 3], other: [u8; 3]) -> f64 {
        let luminance = |colour: [u8; 3]| {
            let [red, green, blue] = colour.map(|byte| {
                let share = f64::from(byte) / 255.0;
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
}
