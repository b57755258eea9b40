//! Assigns a dash pattern to each line, the same in all plots of a page.

use super::{Form, Plot, Series};
use crate::distinct;

/// Lengths of strokes and gaps, in tenths of pixels; empty for a solid line. Dots are last, because
/// the guide of a plot is dotted.
pub(super) const DASHES: [&str; 5] = ["", "60 40", "100 30 20 30", "30 20", "15 30"];

/// The names of lines, each with the index of its dash pattern.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dashes(Vec<(String, usize)>);

impl Dashes {
    /// Assigns patterns to the lines of all plots of a page. A new name gets the pattern that the
    /// fewest other names in its plots have. Of several such patterns, it takes the one of the most
    /// similar name, then the one with the fewest uses.
    pub(crate) fn of<'p>(plots: impl Iterator<Item = &'p Plot>) -> Self {
        // A plot of markers only has no lines.
        let plots: Vec<Vec<&str>> =
            plots.filter(|plot| plot.form != Form::Dots).map(|plot| lines(&plot.series)).collect();
        let mut dashes = Self::default();
        for name in plots.iter().flatten() {
            if dashes.place(name).is_some() {
                continue;
            }
            let beside = plots.iter().filter(|lines| lines.contains(name)).flatten();
            let beside: Vec<&str> = beside.copied().collect();
            let uses = |place: usize| {
                let all = dashes.0.iter().filter(|(_, at)| *at == place);
                let near = all.clone().filter(|(other, _)| beside.contains(&other.as_str()));
                let kin = all.clone().filter_map(|(other, _)| kinship(other, name)).min();
                (near.count(), kin.unwrap_or(usize::MAX), all.count())
            };
            let place = (0..DASHES.len()).min_by_key(|place| uses(*place)).unwrap_or(0);
            dashes.0.push(((*name).to_owned(), place));
        }
        dashes
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, place)| *place)
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

/// Returns the length by which one name extends the other, or `None` if neither is a prefix of the
/// other. The name of a run depends on the other runs in its plot.
fn kinship(one: &str, other: &str) -> Option<usize> {
    let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
    let more = long.strip_prefix(short)?;
    more.starts_with(", ").then_some(more.len())
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
        // Four names have four patterns, though two of them never share a plot.
        assert!(!three.contains(&both[0]), "{three:?}");
    }

    #[test]
    fn a_run_is_the_same_line_under_a_longer_name() {
        let plots = [
            plot(&["shm", "model a, 2 x 1", "model a, beyond the paper, 2 x 1"]),
            plot(&["model b", "model a, beyond the paper", "model a"]),
            plot(&["shm, run 3", "shm, run 4"]),
        ];
        let dashes = Dashes::of(plots.iter());
        let [one, other, shm] = plots.each_ref().map(|plot| dashes.within(&plot.series));
        assert_eq!((other[2], other[1]), (one[1], one[2]));
        // Of two names with the same similarity, the first one wins.
        assert!(shm[0] == one[0] && shm[1] != one[0], "{one:?} {shm:?}");
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
