//! Pictures of fields on a grid: a colour for each cell.

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use crate::number::significant;
use crate::plot::Table;

/// The colours from the smallest value to the largest, between which others are mixed: ever lighter, so
/// that the order shows without colour vision.
const COLOURS: [[f64; 3]; 5] = [
    [16.0, 24.0, 82.0],
    [44.0, 88.0, 142.0],
    [66.0, 152.0, 148.0],
    [164.0, 206.0, 112.0],
    [255.0, 243.0, 176.0],
];
/// Different colours of a picture.
const LEVELS: usize = 48;
/// The most cells along a side; the command samples larger grids.
const MOST_CELLS: usize = 1_000;
/// The largest number that is shown; arithmetic on it stays finite.
const MAX_VALUE: f64 = 1e30;
/// Tenths of pixels.
const WIDTH: usize = 4_400;
const LINE: usize = 180;
const HEAD: usize = 300;

/// A picture as the JSON of a run has it.
#[derive(Deserialize)]
struct Given {
    run: String,
    field: String,
    unit: String,
    values: Vec<Vec<f64>>,
}

/// One picture.
#[derive(Clone, Debug)]
pub(crate) struct Picture {
    /// The `id` in the page and the name of its file.
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) caption: String,
    /// The transport by which the page filters it.
    pub(crate) transport: String,
    unit: String,
    values: Vec<Vec<f64>>,
    least: f64,
    most: f64,
}

impl Picture {
    /// Reads a picture. `None` if it is not a grid of numbers.
    pub(crate) fn read(given: &Value, transport: &str, number: usize) -> Option<Self> {
        let Given { run, field, unit, values } = Given::deserialize(given).ok()?;
        let columns = values.first()?.len();
        let is_grid = values.iter().all(|row| row.len() == columns);
        let sides = [columns, values.len()];
        let in_range = values.iter().flatten().all(|value| value.abs() <= MAX_VALUE);
        if !is_grid || !in_range || sides.iter().any(|side| !(1..=MOST_CELLS).contains(side)) {
            return None;
        }
        let fold =
            |of: fn(f64, f64) -> f64, first| values.iter().flatten().copied().fold(first, of);
        Some(Self {
            id: format!("surrogate-{number}-{field}-{run}"),
            title: format!("{}, {run}", capitalized(&field)),
            caption: format!(
                "Run {number}: {field}{} in the cells after the last time step. Water flows from left \
                 to right; magnesium chloride flows in through the middle third of the left side.",
                if unit.is_empty() { String::new() } else { format!(" in {unit} of water") },
            ),
            transport: transport.to_owned(),
            least: fold(f64::min, f64::INFINITY),
            most: fold(f64::max, f64::NEG_INFINITY),
            unit,
            values,
        })
    }

    fn height(&self) -> usize {
        WIDTH * self.values.len() / self.columns()
    }

    fn columns(&self) -> usize {
        self.values.first().map_or(1, Vec::len)
    }

    /// Returns the colour of a value, as a number from 0 to less than [`LEVELS`].
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn level(&self, value: f64) -> usize {
        let span = self.most - self.least;
        if span <= 0.0 {
            return 0;
        }
        let share = ((value - self.least) / span).clamp(0.0, 1.0);
        ((share * LEVELS as f64) as usize).min(LEVELS - 1)
    }

    /// Returns for each level the outline of its cells: a rectangle for neighbours in a row.
    fn outlines(&self) -> Vec<String> {
        let mut outlines = vec![String::new(); LEVELS];
        for (y, row) in self.values.iter().enumerate() {
            let mut x = 0;
            for cells in row.chunk_by(|&one, &next| self.level(one) == self.level(next)) {
                let (level, width) = (self.level(cells[0]), cells.len());
                outlines[level].push_str(&format!("M{x} {y}h{width}v1h-{width}z"));
                x += width;
            }
        }
        outlines
    }

    fn cells(&self) -> Markup {
        let scale = WIDTH as f64 / self.columns() as f64;
        let outlines = self.outlines();
        let outlines = outlines.iter().enumerate().filter(|(_, outline)| !outline.is_empty());
        html! {
            g class="series k0" data-transport=(self.transport) data-c="" shape-rendering="crispEdges"
                transform=(format!("scale({scale:.4})")) {
                title { (self.title) }
                @for (level, outline) in outlines { path d=(outline) fill=(colour(level)) {} }
            }
        }
    }

    /// Draws the picture for a page.
    pub(crate) fn draw(&self) -> Markup {
        html! {
            svg viewBox=(format!("0 0 {WIDTH} {}", self.height())) role="img" aria-label=(self.title)
                data-area=(format!("0 0 {WIDTH} {}", self.height())) {
                (self.cells())
            }
        }
    }

    /// Draws the picture as a separate file, with its title, a legend and a white background.
    pub(crate) fn standalone(&self) -> String {
        let (height, bottom) = (HEAD + self.height() + 2 * LINE, HEAD + self.height() + LINE);
        html! {
            svg xmlns="http://www.w3.org/2000/svg" width=(WIDTH / 10) height=(height / 10)
                viewBox=(format!("0 0 {WIDTH} {height}")) font-family="sans-serif" {
                title { (self.title) }
                desc { (self.caption) }
                rect width=(WIDTH) height=(height) fill="#ffffff" {}
                text x="100" y="200" font-size="130" font-weight="bold" { (self.title) }
                g transform=(format!("translate(0 {HEAD})")) { (self.cells()) }
                @for (at, (level, name)) in self.legend().into_iter().enumerate() {
                    g transform=(format!("translate({} {bottom})", 100 + at * WIDTH / 3)) {
                        rect width="120" height="120" fill=(colour(level)) {}
                        text x="180" y="110" font-size="110" { (name) }
                    }
                }
            }
        }
        .into_string()
    }

    /// Returns the levels that a legend explains, and their values.
    pub(crate) fn legend(&self) -> Vec<(usize, String)> {
        let values = [self.least, f64::midpoint(self.least, self.most), self.most];
        // What is far too little to see is 0.
        let seen = |value: f64| if value.abs() < 1e-4 * self.most.abs() { 0.0 } else { value };
        let name = |value: f64| {
            format!("{} {}", significant(seen(value)), self.unit).trim_end().to_owned()
        };
        let mut legend: Vec<_> = values.map(|value| (self.level(value), name(value))).to_vec();
        legend.dedup();
        legend
    }

    /// Draws the square of a legend.
    pub(crate) fn key(level: usize) -> Markup {
        html! {
            svg class="key swatch" viewBox="0 0 12 12" aria-hidden="true" {
                rect width="12" height="12" fill=(colour(level)) {}
            }
        }
    }

    /// Returns the range of each row.
    pub(crate) fn table(&self) -> Table {
        let range = |row: &[f64]| {
            let least = row.iter().copied().fold(f64::INFINITY, f64::min);
            [least, row.iter().copied().fold(f64::NEG_INFINITY, f64::max)]
        };
        let rows = (1..).zip(&self.values).map(|(at, row)| (format!("{at}"), range(row)));
        Table::pairs(["row from the top", "least", "most"], rows)
    }
}

fn capitalized(text: &str) -> String {
    // pH has a capital already.
    if text.chars().any(char::is_uppercase) {
        return text.to_owned();
    }
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Returns the colour of a level.
fn colour(level: usize) -> String {
    let place = level as f64 / (LEVELS - 1) as f64 * (COLOURS.len() - 1) as f64;
    let first = (0..COLOURS.len() - 1).rev().find(|&at| at as f64 <= place).unwrap_or(0);
    let share = place - first as f64;
    let mixed =
        |part: usize| COLOURS[first][part] * (1.0 - share) + COLOURS[first + 1][part] * share;
    format!("rgb({:.0},{:.0},{:.0})", mixed(0), mixed(1), mixed(2))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn picture(values: Value) -> Option<Picture> {
        let given =
            json!({ "run": "3 digits", "field": "calcite", "unit": "mmol/l", "values": values });
        Picture::read(&given, "shm", 2)
    }

    /// The rectangles of all colours cover each cell once.
    #[test]
    fn outlines_cover_the_grid() {
        let picture = picture(json!([[0.0, 0.0, 1.0], [2.0, 1.0, 1.0]])).unwrap();
        let outlines = picture.outlines();
        assert_eq!(outlines[0], "M0 0h2v1h-2z");
        assert_eq!(outlines[LEVELS / 2], "M2 0h1v1h-1zM1 1h2v1h-2z");
        assert_eq!(outlines[LEVELS - 1], "M0 1h1v1h-1z");
        assert_eq!(outlines.iter().filter(|outline| !outline.is_empty()).count(), 3);
        assert!(picture.standalone().contains("Calcite, 3 digits"));
        assert_eq!(picture.legend().len(), 3);
    }

    #[test]
    fn a_constant_field_has_one_colour() {
        let picture = picture(json!([[7.0, 7.0]])).unwrap();
        assert_eq!(picture.legend(), [(0, "7.00 mmol/l".to_owned())]);
        assert_eq!(picture.height(), WIDTH / 2);
    }

    #[test]
    fn what_is_no_grid_is_left_out() {
        for values in [json!([]), json!([[]]), json!([[1.0], [1.0, 2.0]]), json!([["a"]]), json!(3)]
        {
            assert!(picture(values.clone()).is_none(), "{values}");
        }
        assert!(picture(json!([[1e300]])).is_none());
    }

    #[test]
    fn colours_become_lighter() {
        let light = |level: usize| {
            let colour = colour(level);
            let parts = colour.trim_start_matches("rgb(").trim_end_matches(')').split(',');
            parts.map(|part| part.parse::<f64>().unwrap()).sum::<f64>()
        };
        assert!((1..LEVELS).all(|level| light(level) > light(level - 1)));
    }
}
