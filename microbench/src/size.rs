//! A size of memory on the command line: a number with a unit, such as `128MiB`.

use core::fmt;
use core::str::FromStr;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

impl Size {
    pub(crate) const fn mib(mib: u64) -> Self {
        Self(mib << 20)
    }

    /// Returns the size rounded down to at most three digits before the unit, for measured sizes: a
    /// limit of 3,917 MiB is printed as `3.8GiB`.
    pub(crate) fn rounded(self) -> String {
        let unit = UNITS.iter().find(|(_, shift)| self.0 >> shift > 0);
        let Some((name, shift)) = unit else { return format!("{}B", self.0) };
        let (whole, tenth) = (self.0 >> shift, ((self.0 & ((1 << shift) - 1)) * 10) >> shift);
        match (whole, tenth) {
            (0..100, 1..) => format!("{whole}.{tenth}{name}"),
            _ => format!("{whole}{name}"),
        }
    }
}

const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let unit = &text[digits.len()..];
        let shift = match unit {
            "" | "B" => 0,
            _ => UNITS.iter().find(|(name, _)| *name == unit).map(|unit| unit.1).ok_or_else(
                || format!("unknown unit {unit:?}: write bytes, or add KiB, MiB, GiB or TiB"),
            )?,
        };
        let number: u64 = digits
            .parse()
            .map_err(|_| format!("{text:?} is not a size: write for example 128MiB"))?;
        let bytes = number.checked_mul(1 << shift).ok_or("more bytes than there are")?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|(_, shift)| self.0 != 0 && self.0.trailing_zeros() >= *shift);
        match unit {
            Some((name, shift)) => write!(f, "{}{name}", self.0 >> shift),
            None => write!(f, "{}B", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_formats_sizes() {
        for (text, bytes) in [("4096", 4096), ("128MiB", 128 << 20), ("1GiB", 1 << 30), ("8B", 8)] {
            let size: Size = text.parse().unwrap();
            assert_eq!(size.0, bytes);
            assert_eq!(size.to_string().parse(), Ok(size));
        }
        for (bytes, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (36_608 << 10, "35.7MiB"),
            (3917 << 20, "3.8GiB"),
            (16 << 30, "16GiB"),
            ((125 << 30) + (700 << 20), "125GiB"),
        ] {
            assert_eq!(Size(bytes).rounded(), text);
        }
        for text in ["", "MiB", "12MB", "-1", "1.5GiB", "99999999999TiB"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }
}
