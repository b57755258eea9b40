//! Assigns a dash pattern to each line, the same in all plots of a page.

use super::{Form, Plot, Series};
use crate::distinct;

/// Lengths of strokes and gaps, in tenths of pixels; empty for a solid line. Dots are last, because
/// the guide of a plot is dotted.
pub(super) const DASHES: [&str; 5] = ["", "60 40", "100 30 20 30", "30 20", "15 30"];

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
    pub(super) fn within(&self, all: &[Series]) -> Vec<&'static str> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::made_up;

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
