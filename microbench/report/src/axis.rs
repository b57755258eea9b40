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
}

/// The rule by which an axis gets its scale and its range from the values of a plot.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// Linear, from 0 to slightly beyond the largest value.
    FromZero,
    /// Linear from 0, or logarithmic if the ratio of the values is large.
    Fitting,
    /// As `Fitting`, with a tick for each of a few values.
    Counts,
    /// Shares from 0 to the largest, by their nines.
    Nines,
    /// Names, the first at the top. Values are their indices.
    Names(Vec<String>),
}

/// An axis. Places are positions on a straight line; values are what they represent.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// The quantity, with its unit.
    pub(crate) title: String,
    pub(crate) scale: Scale,
    range: [f64; 2],
    pub(crate) ticks: Vec<(f64, String)>,
}

/// The share of the range that stays free beyond the outermost values.
const ROOM: f64 = 0.03;
/// The ratio of the largest value to the smallest from which an axis is logarithmic.
const WIDE: f64 = 12.0;
/// The maximum number of counts that all get a tick.
const MAX_COUNTS: usize = 9;
const TICKS: f64 = 5.0;
const NINES: [(f64, &str); 9] = [
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

impl Axis {
    pub(crate) fn new(title: &str, kind: &Kind, values: &[f64]) -> Self {
        let positive = bounds(values.iter().copied().filter(|value| *value > 0.0));
        let max = values.iter().copied().fold(0.0, f64::max);
        let (scale, range, ticks) = match kind {
            Kind::FromZero => from_zero(max),
            Kind::Fitting => fitting(positive),
            Kind::Counts => counts(values, fitting(positive)),
            Kind::Nines => {
                let last = Scale::Nines.place(max).max(1.0);
                let ticks = NINES.map(|(value, name)| (Scale::Nines.place(value), name.to_owned()));
                (Scale::Nines, [0.0, last * (1.0 + ROOM)], ticks.to_vec())
            }
            Kind::Names(names) => {
                let ticks = names.iter().zip(0_u32..);
                let ticks: Vec<_> =
                    ticks.map(|(name, at)| (-f64::from(at), name.clone())).collect();
                let last = ticks.last().map_or(0.0, |(place, _)| *place);
                (Scale::Names, [last - 0.6, 0.6], ticks)
            }
        };
        let title = if scale == Scale::Names { "" } else { title };
        let mut axis = Self { title: title.to_owned(), scale, range, ticks: Vec::new() };
        // Includes ticks that rounding puts beyond an end.
        let slack = 1e-9 * (range[1] - range[0]);
        let within = |place: f64| place >= range[0] - slack && place <= range[1] + slack;
        axis.ticks = ticks.into_iter().filter(|(place, _)| within(*place)).collect();
        axis
    }

    /// Returns the position of a value, from 0 at the first place to 1 at the last.
    pub(crate) fn share(&self, value: f64) -> f64 {
        self.share_of_place(self.scale.place(value))
    }

    /// Returns the position of a place, from 0 at the first one to 1 at the last.
    pub(crate) fn share_of_place(&self, place: f64) -> f64 {
        (place - self.range[0]) / (self.range[1] - self.range[0])
    }

    /// Returns whether a value can be shown.
    pub(crate) fn holds(&self, value: f64) -> bool {
        (0.0..=1.0).contains(&self.share(value))
    }
}

type Marked = (Scale, [f64; 2], Vec<(f64, String)>);

fn from_zero(max: f64) -> Marked {
    let max = if max > 0.0 { max } else { 1.0 };
    let to = max * (1.0 + ROOM);
    let ticks = steps(0.0, to, step(max / TICKS)).map(|value| (value, short(value)));
    (Scale::Linear, [0.0, to], ticks.collect())
}

fn fitting((min, max): (f64, f64)) -> Marked {
    if max > WIDE * min { log((min, max)) } else { from_zero(max) }
}

fn log((min, max): (f64, f64)) -> Marked {
    let (from, to) = (min.log10(), max.log10());
    let room = ROOM * (to - from).max(0.3);
    let range = [from - room, to + room];
    let ticks = log_ticks(range).into_iter().map(|value| (value.log10(), short(value)));
    (Scale::Log, range, ticks.collect())
}

/// Gives each of a few counts a tick.
fn counts(values: &[f64], (scale, range, ticks): Marked) -> Marked {
    let mut each = values.to_vec();
    each.sort_by(f64::total_cmp);
    each.dedup();
    if each.len() > MAX_COUNTS {
        return (scale, range, ticks);
    }
    // Labels that would touch the previous one are left out.
    let apart = 0.05 * (range[1] - range[0]);
    let mut ticks: Vec<(f64, String)> = Vec::new();
    for value in each {
        let place = scale.place(value);
        if ticks.last().is_none_or(|(last, _)| place - last >= apart) {
            ticks.push((place, plain(value)));
        }
    }
    (scale, range, ticks)
}

/// Returns the smallest and the largest value, or 1 and 1 for no values.
fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (min, max) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), value| {
        (min.min(value), max.max(value))
    });
    if min.is_finite() { (min, max) } else { (1.0, 1.0) }
}

/// Returns the smallest step of 1, 2 or 5 times a power of ten that is at least `min`.
fn step(min: f64) -> f64 {
    let power = 10_f64.powf(min.log10().floor());
    let times = [1.0, 2.0, 5.0].into_iter().find(|times| times * power >= min * (1.0 - 1e-9));
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
    let ticks = powers(&[1.0]);
    if ticks.len() >= 3 { ticks } else { powers(&[1.0, 2.0, 5.0]) }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: &Kind, values: &[f64]) -> Axis {
        Axis::new("", kind, values)
    }

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn round_ticks_stay_within_range() {
        let axis = of(&Kind::FromZero, &[183.0, 97.0]);
        assert_eq!(labels(&axis), ["0", "50", "100", "150"]);
        assert!(axis.holds(0.0) && axis.holds(183.0) && !axis.holds(-1.0));
        let axis = of(&Kind::Fitting, &[0.1, 0.92]);
        assert_eq!(labels(&axis), ["0", "0.2", "0.4", "0.6", "0.8"]);
        let axis = of(&Kind::Fitting, &[95.0, 41_000.0]);
        assert_eq!(labels(&axis), ["100", "1000", "10k"]);
        let axis = of(&Kind::Fitting, &[95.0, 1_410.0]);
        assert_eq!(labels(&axis), ["100", "200", "500", "1000"]);
    }

    #[test]
    fn single_value_has_axis() {
        for axis in [
            of(&Kind::FromZero, &[0.0]),
            of(&Kind::Counts, &[2.0]),
            of(&Kind::Fitting, &[]),
            of(&Kind::Nines, &[0.0]),
            of(&Kind::Names(vec!["one".to_owned()]), &[0.0]),
        ] {
            assert!(axis.range[0] < axis.range[1] && !axis.ticks.is_empty(), "{axis:?}");
        }
    }

    #[test]
    fn each_count_has_tick() {
        let axis = of(&Kind::Counts, &[1.0, 2.0, 4.0, 768.0]);
        assert_eq!((labels(&axis), axis.scale), (vec!["1", "2", "4", "768"], Scale::Log));
        assert_eq!(of(&Kind::Counts, &[1.0, 2.0, 4.0]).scale, Scale::Linear);
    }

    #[test]
    fn spaces_nines_equally() {
        let axis = of(&Kind::Nines, &[0.0, 0.999]);
        assert_eq!(labels(&axis), ["0", "50%", "90%", "99%", "99.9%"]);
        let at = |value| axis.share(value);
        assert!((at(0.99) - at(0.9) - (at(0.999) - at(0.99))).abs() < 1e-9);
    }
}
