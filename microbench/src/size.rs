//! A size of memory on the command line: a number with a unit, such as `128MiB`.

use core::fmt;
use core::str::FromStr;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

impl Size {
    pub(crate) const fn mib(mib: u64) -> Self {
        Self(mib << 20)
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
                || {
                    format!(
                        "unknown unit {unit:?}: write bytes, or a number with KiB, MiB, GiB or TiB"
                    )
                },
            )?,
        };
        let number: u64 =
            digits.parse().map_err(|_| format!("{text:?} is no size: write for example 128MiB"))?;
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
    fn sizes_are_parsed_and_formatted() {
        for (text, bytes) in [("4096", 4096), ("128MiB", 128 << 20), ("1GiB", 1 << 30), ("8B", 8)] {
            let size: Size = text.parse().unwrap();
            assert_eq!(size.0, bytes);
            assert_eq!(size.to_string().parse(), Ok(size));
        }
        for text in ["", "MiB", "12MB", "-1", "1.5GiB", "99999999999TiB"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }
}
