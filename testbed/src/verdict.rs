//! What a benchmark has measured, beside what a quiet host reaches.

use core::fmt;

/// A measured figure, and the bound that a quiet host meets.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The figure, and its unit unless it is a ratio.
    pub what: String,
    /// Its value.
    pub value: f64,
    /// The bound.
    pub bound: Bound,
}

/// What a figure is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// The figure is this or less.
    AtMost(f64),
    /// The figure is this or more.
    AtLeast(f64),
    /// Nothing: the figure is a record.
    Unbounded,
}

impl Verdict {
    /// Whether the figure is a number within its bound.
    #[must_use]
    pub fn is_met(&self) -> bool {
        match self.bound {
            Bound::AtMost(bound) => self.value <= bound,
            Bound::AtLeast(bound) => self.value >= bound,
            Bound::Unbounded => self.value.is_finite(),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, value, bound } = self;
        let word = match bound {
            Bound::Unbounded if self.is_met() => "record",
            _ if self.is_met() => "met",
            _ => "missed",
        };
        write!(f, "{word:<8}{what}: {value:.3}")?;
        match bound {
            Bound::AtMost(bound) => write!(f, ", at most {bound}"),
            Bound::AtLeast(bound) => write!(f, ", at least {bound}"),
            Bound::Unbounded => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(value: f64, bound: Bound) -> Verdict {
        Verdict { what: "READ 8 B, ratio".into(), value, bound }
    }

    #[test]
    fn a_bound_is_met_up_to_its_value() {
        for (value, bound, met) in [
            (1.15, Bound::AtMost(1.15), true),
            (1.151, Bound::AtMost(1.15), false),
            (0.95, Bound::AtLeast(0.95), true),
            (0.94, Bound::AtLeast(0.95), false),
            (7.0, Bound::Unbounded, true),
        ] {
            assert_eq!(verdict(value, bound).is_met(), met, "{value} {bound:?}");
        }
    }

    #[test]
    fn what_is_no_number_meets_no_bound() {
        for bound in [Bound::AtMost(1.0), Bound::AtLeast(1.0), Bound::Unbounded] {
            assert!(!verdict(f64::NAN, bound).is_met(), "{bound:?}");
        }
    }

    #[test]
    fn a_line_says_what_was_measured_and_what_was_wanted() {
        let line = |value, bound| verdict(value, bound).to_string();
        assert_eq!(line(1.1, Bound::AtMost(1.15)), "met     READ 8 B, ratio: 1.100, at most 1.15");
        assert_eq!(
            line(1.192, Bound::AtMost(1.15)),
            "missed  READ 8 B, ratio: 1.192, at most 1.15"
        );
        assert_eq!(line(2.0, Bound::Unbounded), "record  READ 8 B, ratio: 2.000");
    }
}
