//! The axis of a plot: its title, scale, range and ticks.

use crate::number::plain;

/// The scale of an axis: how values map to places on a straight line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    /// Equal ratios have equal distances.
    Log,
    /// Shares from 0 on, by their number of nines: 0.9, 0.99 and 0.999 have equal distances.
    Nines,
    /// Names in a column; 0 is the first.
    Names,
}

impl Scale {
    /// Maps a value to its place on a straight line.
    pub(crate) fn place(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log => value.max(f64::MIN_POSITIVE).log10(),
            Self::Nines => -(1.0 - value).max(1e-18).log10(),
            Self::Names => -value,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Log => "log",
            Self::Nines => "nines",
            Self::Names => "names",
        }
    }
}

/// An axis. Places are positions on a straight line; values are what they represent.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// The quantity, with its unit.
    pub(crate) title: String,
    pub(crate) scale: Scale,
    /// The first and the last place.
    pub(crate) range: [f64; 2],
    /// Places and their labels.
    pub(crate) ticks: Vec<(f64, String)>,
}

/// The share of the range that stays free beyond the outermost values.
const ROOM: f64 = 0.03;
/// The ratio of the largest value to the smallest from which an axis is logarithmic.
const WIDE: f64 = 12.0;
/// The approximate number of ticks of an axis.
const TICKS: f64 = 5.0;

impl Axis {
    /// Creates an axis from 0 to slightly beyond the largest value.
    pub(crate) fn from_zero(title: &str, values: impl Iterator<Item = f64>) -> Self {
        let most = values.fold(0.0, f64::max);
        let most = if most > 0.0 { most } else { 1.0 };
        let step = step(most / TICKS);
        let to = most * (1.0 + ROOM);
        let ticks = steps(0.0, to, step);
        Self::new(title, Scale::Linear, [0.0, to], ticks.map(|value| (value, short(value))))
    }

    /// Creates an axis from the smallest value to the largest, with a small margin.
    pub(crate) fn between(title: &str, values: impl Iterator<Item = f64> + Clone) -> Self {
        let (least, most) = bounds(values);
        let width = if most > least { most - least } else { least.abs().max(1.0) };
        let (from, to) = (least - ROOM * width, most + ROOM * width);
        let ticks = steps(from, to, step(width / TICKS));
        Self::new(title, Scale::Linear, [from, to], ticks.map(|value| (value, short(value))))
    }

    /// Creates a logarithmic axis for values above 0.
    pub(crate) fn log(title: &str, values: impl Iterator<Item = f64> + Clone) -> Self {
        let (least, most) = bounds(values.filter(|value| *value > 0.0));
        let (from, to) = (least.log10(), most.log10());
        let room = ROOM * (to - from).max(0.3);
        let range = [from - room, to + room];
        let ticks: Vec<f64> = log_ticks(range);
        let ticks = ticks.into_iter().map(|value| (value.log10(), short(value)));
        Self::new(title, Scale::Log, range, ticks)
    }

    /// Creates an axis from 0, or a logarithmic one if the ratio of the values is large.
    pub(crate) fn fitting(title: &str, values: impl Iterator<Item = f64> + Clone) -> Self {
        let (least, most) = bounds(values.clone().filter(|value| *value > 0.0));
        match most > WIDE * least {
            true => Self::log(title, values),
            false => Self::from_zero(title, values),
        }
    }

    /// Creates an axis of counts with a tick for each value.
    pub(crate) fn counts(title: &str, values: impl Iterator<Item = f64> + Clone) -> Self {
        let mut at: Vec<f64> = values.clone().collect();
        at.sort_by(f64::total_cmp);
        at.dedup();
        let (least, most) = bounds(values.clone());
        let mut axis = if most > 8.0 * least {
            Self::log(title, values)
        } else {
            Self::between(title, values)
        };
        if at.len() <= 9 {
            axis.ticks =
                apart(at.iter().map(|&value| (axis.scale.place(value), plain(value))), &axis.range);
        }
        axis
    }

    /// Creates an axis of shares from 0 to the largest, by their nines.
    pub(crate) fn nines(title: &str, values: impl Iterator<Item = f64>) -> Self {
        let most = values.map(|value| Scale::Nines.place(value)).fold(1.0, f64::max);
        let named = [
            (0.0, "0"),
            (0.5, "50%"),
            (0.9, "90%"),
            (0.99, "99%"),
            (0.999, "99.9%"),
            (0.9999, "99.99%"),
            (0.999_99, "99.999%"),
            (0.999_999, "99.9999%"),
            (0.999_999_9, "99.99999%"),
        ];
        let ticks = named.map(|(value, name)| (Scale::Nines.place(value), name.to_owned()));
        Self::new(title, Scale::Nines, [0.0, most * (1.0 + ROOM)], ticks.into_iter())
    }

    /// Creates an axis of names, the first at the top.
    pub(crate) fn names(names: &[String]) -> Self {
        let ticks = names.iter().zip(0_u32..).map(|(name, at)| (-f64::from(at), name.clone()));
        let last = u32::try_from(names.len().saturating_sub(1)).unwrap_or(u32::MAX);
        Self::new("", Scale::Names, [-f64::from(last) - 0.6, 0.6], ticks)
    }

    fn new(
        title: &str,
        scale: Scale,
        range: [f64; 2],
        ticks: impl Iterator<Item = (f64, String)>,
    ) -> Self {
        // Includes values that rounding puts beyond an end.
        let slack = 1e-9 * (range[1] - range[0]);
        let within = |place: f64| place >= range[0] - slack && place <= range[1] + slack;
        let ticks = ticks.filter(|(place, _)| within(*place)).collect();
        Self { title: title.to_owned(), scale, range, ticks }
    }

    /// Returns the position of a value, from 0 at the first place to 1 at the last.
    pub(crate) fn share(&self, value: f64) -> f64 {
        (self.scale.place(value) - self.range[0]) / (self.range[1] - self.range[0])
    }

    /// Returns whether a value can be shown.
    pub(crate) fn holds(&self, value: f64) -> bool {
        (0.0..=1.0).contains(&self.share(value))
    }
}

fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (least, most) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
        (least.min(value), most.max(value))
    });
    if least.is_finite() { (least, most) } else { (1.0, 1.0) }
}

/// Returns the smallest step of 1, 2 or 5 times a power of ten that is at least `least`.
fn step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let times = [1.0, 2.0, 5.0].into_iter().find(|times| times * power >= least * (1.0 - 1e-9));
    times.unwrap_or(10.0) * power
}

fn steps(from: f64, to: f64, step: f64) -> impl Iterator<Item = f64> {
    let first = (from / step).ceil();
    let count = ((to / step).floor() - first).clamp(0.0, 100.0);
    // The number of steps is a small whole number.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    (0..=count as u32).map(move |at| (first + f64::from(at)) * step)
}

/// Returns powers of ten; if there are few, also 2 and 5 times those.
fn log_ticks([from, to]: [f64; 2]) -> Vec<f64> {
    let powers = |times: &[f64]| -> Vec<f64> {
        let all = steps(from.floor(), to.ceil(), 1.0);
        let all = all.flat_map(|power| times.iter().map(move |times| times * 10_f64.powf(power)));
        all.filter(|value| (from..=to).contains(&value.log10())).collect()
    };
    let sets: [&[f64]; 3] = [&[1.0], &[1.0, 2.0, 5.0], &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0]];
    let ticks = sets.into_iter().map(powers).find(|ticks| ticks.len() >= 3);
    ticks.unwrap_or_else(|| steps_of_values(from, to))
}

/// Returns evenly spaced ticks, for ranges so small that a logarithmic axis is nearly linear.
fn steps_of_values(from: f64, to: f64) -> Vec<f64> {
    let (from, to) = (10_f64.powf(from), 10_f64.powf(to));
    steps(from, to, step((to - from) / TICKS)).collect()
}

/// Formats a number, with a unit prefix if it is long.
fn short(value: f64) -> String {
    match value {
        value if value >= 1e9 => format!("{}G", plain(value / 1e9)),
        value if value >= 1e6 => format!("{}M", plain(value / 1e6)),
        value if value >= 1e4 => format!("{}k", plain(value / 1e3)),
        value => plain(value),
    }
}

/// Keeps the labels that do not touch the previous one.
fn apart(ticks: impl Iterator<Item = (f64, String)>, range: &[f64; 2]) -> Vec<(f64, String)> {
    let least = 0.05 * (range[1] - range[0]);
    let mut kept: Vec<(f64, String)> = Vec::new();
    for tick in ticks {
        if kept.last().is_none_or(|last| tick.0 - last.0 >= least) {
            kept.push(tick);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_and_within_the_range() {
        let axis = Axis::from_zero("", [183.0, 97.0].into_iter());
        assert_eq!(labels(&axis), ["0", "50", "100", "150"]);
        assert!(axis.holds(0.0) && axis.holds(183.0) && !axis.holds(-1.0));
        let axis = Axis::between("", [0.1, 0.92].into_iter());
        assert_eq!(labels(&axis), ["0.2", "0.4", "0.6", "0.8"]);
        let axis = Axis::log("", [95.0, 41_000.0].into_iter());
        assert_eq!(labels(&axis), ["100", "1000", "10k"]);
        let axis = Axis::log("", [95.0, 410.0].into_iter());
        assert_eq!(labels(&axis), ["100", "150", "200", "300", "400"]);
    }

    #[test]
    fn one_value_has_an_axis() {
        for axis in [
            Axis::from_zero("", [0.0].into_iter()),
            Axis::between("", [3.0].into_iter()),
            Axis::log("", [7.0].into_iter()),
            Axis::counts("", [2.0].into_iter()),
            Axis::fitting("", core::iter::empty()),
            Axis::nines("", [0.0].into_iter()),
            Axis::names(&["one".to_owned()]),
        ] {
            assert!(axis.range[0] < axis.range[1] && !axis.ticks.is_empty(), "{axis:?}");
        }
    }

    #[test]
    fn counts_have_a_tick_each() {
        let axis = Axis::counts("", [1.0, 2.0, 4.0, 768.0].into_iter());
        assert_eq!((labels(&axis), axis.scale), (vec!["1", "2", "4", "768"], Scale::Log));
        assert_eq!(Axis::counts("", [1.0, 2.0, 4.0].into_iter()).scale, Scale::Linear);
    }

    #[test]
    fn nines_have_equal_distances() {
        let axis = Axis::nines("", [0.0, 0.999].into_iter());
        assert_eq!(labels(&axis), ["0", "50%", "90%", "99%", "99.9%"]);
        let at = |value| axis.share(value);
        assert!((at(0.99) - at(0.9) - (at(0.999) - at(0.99))).abs() < 1e-9);
    }
}
