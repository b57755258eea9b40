//! The legend of a plot: its colours, markers and dash patterns.

use maud::{Markup, html};

use super::look::{FAINT, Look, hollow_circle, line, marker, markers};
use super::{Dashes, Form, Plot, Series};

/// An entry of a legend.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// The indices of the series that it describes.
    pub(crate) series: Vec<usize>,
    look: Look,
    about: About,
}

/// The width of the symbol before a name, in letters.
const KEY: usize = 7;

/// Returns the width of the entries in one row, in letters.
fn room(entries: &[Entry]) -> usize {
    entries.iter().map(|entry| KEY + entry.name.chars().count()).sum()
}

/// The aspect of a series' look that an entry explains.
#[derive(Clone, Copy, PartialEq, Eq)]
enum About {
    Everything,
    /// Colour and marker.
    Hue,
    /// The dash pattern, and whether markers are filled.
    Line,
}

impl Plot {
    /// Returns an entry for each series or, if that is shorter, one for each hue and one for each
    /// line.
    pub(crate) fn legend(&self, dashes: &Dashes) -> Vec<Entry> {
        let looks = Look::of(&self.series, dashes);
        let hues = self.grouped(&looks, |series| &series.hue, About::Hue);
        let lines = self.grouped(&looks, |series| &series.line, About::Line);
        let (several, split) = (hues.len() > 1 && lines.len() > 1, [hues, lines].concat());
        let entry = |(at, (series, &look)): (usize, (&Series, &Look))| Entry {
            name: series.name(&self.series),
            series: vec![at],
            look,
            about: About::Everything,
        };
        let whole: Vec<Entry> = self.series.iter().zip(&looks).enumerate().map(entry).collect();
        if several && room(&split) < room(&whole) { split } else { whole }
    }

    fn grouped(&self, looks: &[Look], name: fn(&Series) -> &String, about: About) -> Vec<Entry> {
        let mut entries: Vec<Entry> = Vec::new();
        for (at, (series, &look)) in self.series.iter().zip(looks).enumerate() {
            let name = name(series);
            match entries.iter_mut().find(|entry| entry.name == *name) {
                Some(same) => same.series.push(at),
                None => entries.push(Entry { name: name.clone(), series: vec![at], look, about }),
            }
        }
        entries
    }
}

impl Entry {
    /// Returns the symbol before the name, for a page.
    pub(crate) fn key(&self, form: Form) -> Markup {
        let class = match self.about {
            About::Line => "key".to_owned(),
            _ => format!("key s{}", self.look.colour),
        };
        // A marker alone needs less space.
        let short = self.about == About::Hue && form != Form::Curves;
        let view = if short { "80 0 120 120" } else { "0 0 280 120" };
        html! { svg class=(class) viewBox=(view) aria-hidden="true" { (self.shapes(form)) } }
    }

    /// Draws a short line with a marker, 280 wide and 120 high, in tenths of pixels.
    pub(super) fn shapes(&self, form: Form) -> Markup {
        let look = &self.look;
        let middle = (140, 60);
        let (solid, ends) = (Look { dash: "", ..*look }, [(0, 60), (280, 60)]);
        html! {
            @match self.about {
                About::Everything => {
                    @if form != Form::Dots { (line(look, look.rgb(), ends)) }
                    (markers(look.hollow, marker(look, look.hollow, middle)))
                }
                About::Hue => {
                    @if form == Form::Curves { (line(&solid, look.rgb(), ends)) }
                    (markers(false, marker(look, false, middle)))
                }
                About::Line => {
                    @if form != Form::Dots { (line(look, FAINT.0, ends)) }
                    @if look.hollow { (markers(true, hollow_circle(middle))) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::made_up;

    fn names(series: &[(&str, &str)]) -> Vec<String> {
        let plot = made_up(series);
        plot.legend(&Dashes::default()).into_iter().map(|entry| entry.name).collect()
    }

    const PAPERS: &str = "model das5-fdr";
    const BEYOND: &str = "model das5-fdr, beyond the paper";

    /// The series are as many as the names of hues and lines. Entries for each series took two
    /// lines on a phone.
    #[test]
    fn the_name_of_a_run_is_shown_once() {
        let split = [("C = 8", PAPERS), ("C = 8", BEYOND), ("C = 32", PAPERS), ("C = 32", BEYOND)];
        assert_eq!(names(&split), ["C = 8", "C = 32", PAPERS, BEYOND]);
        let few = ["C = 8, shm", "C = 32, ucx"];
        assert_eq!(names(&[("C = 8", "shm"), ("C = 32", "ucx")]), few);
    }

    #[test]
    fn every_series_has_one_entry_or_two_partial_ones() {
        let split = made_up(&[("C = 8", PAPERS), ("C = 8", BEYOND), ("C = 32", BEYOND)]);
        let whole = made_up(&[("C = 8", PAPERS), ("C = 8", BEYOND)]);
        for (plot, times) in [(split, 2), (whole, 1)] {
            let legend = plot.legend(&Dashes::default());
            for at in 0..plot.series.len() {
                let about = legend.iter().filter(|entry| entry.series.contains(&at)).count();
                assert_eq!(about, times, "{at}");
            }
        }
    }
}
