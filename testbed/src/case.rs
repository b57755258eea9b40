//! A test or measurement, the machines it runs in, and what it returns.

use core::fmt;

use anyhow::Result;
use clap::ValueEnum;

use crate::programs::Build;
use crate::testbed::Testbed;

/// A test or measurement that runs in virtual machines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) layer: Layer,
    /// The statement that the case checks, in words with underscores.
    pub(crate) name: &'static str,
    pub(crate) procedure: Procedure,
    /// Programs to build before the boot.
    pub(crate) builds: &'static [Build],
    /// Whether other cases cannot use the machines afterwards.
    pub(crate) destructive: bool,
}

/// The function of a case, and how its outcome is judged.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Procedure {
    /// A test, whose outcome must not depend on the speed of the host.
    Test(fn(&Testbed) -> Result<()>),
    /// A test that waits for a rare event and is ignored if that does not happen.
    RareEvent(fn(&Testbed) -> Result<Outcome>),
    /// A measurement, whose figures have bounds that a quiet host meets. As a test it compares nothing.
    Figures(fn(&Testbed, Mode) -> Result<Vec<Figure>>),
}

/// The purpose of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Runs all cases; measurements are short.
    Test,
    /// Runs the measurements, and compares their figures with the bounds.
    Bench,
}

impl Mode {
    /// Returns the rounds in which compared programs take turns.
    pub(crate) const fn rounds(self) -> u32 {
        match self {
            Self::Test => 1,
            Self::Bench => 5,
        }
    }
}

/// The end of a case that did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// The rare event did not happen; with the reason to print.
    Ignored(String),
}

impl Case {
    pub(crate) const fn test(
        layer: Layer,
        name: &'static str,
        test: fn(&Testbed) -> Result<()>,
    ) -> Self {
        Self::new(layer, name, Procedure::Test(test))
    }

    pub(crate) const fn figures(
        layer: Layer,
        name: &'static str,
        measure: fn(&Testbed, Mode) -> Result<Vec<Figure>>,
    ) -> Self {
        Self::new(layer, name, Procedure::Figures(measure))
    }

    pub(crate) const fn new(layer: Layer, name: &'static str, procedure: Procedure) -> Self {
        Self { layer, name, procedure, builds: &[], destructive: false }
    }

    pub(crate) const fn is_part_of(&self, mode: Mode) -> bool {
        matches!(mode, Mode::Test) || matches!(self.procedure, Procedure::Figures(_))
    }

    pub(crate) const fn needs(self, builds: &'static [Build]) -> Self {
        Self { builds, ..self }
    }

    pub(crate) const fn destructive(self) -> Self {
        Self { destructive: true, ..self }
    }

    /// Returns `LAYER::NAME`.
    pub(crate) fn full_name(&self) -> String {
        format!("{}::{}", self.layer, self.name)
    }
}

/// The machines that a case runs in, in the order in which layers run. Cases of a layer share a
/// boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Layer {
    /// One machine with two CPUs
    Loopback,
    /// Two machines on one wire
    Two,
    /// One machine whose time is the number of executed instructions
    Icount,
    /// One machine whose READs return torn words
    Tearing,
    /// One machine with two NUMA nodes
    Numa,
}

impl Layer {
    /// Returns the number of machines: 1, with Soft-RoCE over a dummy interface, or 2 on one wire.
    pub(crate) const fn machines(self) -> u32 {
        if matches!(self, Self::Two) { 2 } else { 1 }
    }

    /// Returns the CPUs of each machine.
    pub(crate) const fn vcpus(self) -> u32 {
        if matches!(self, Self::Two | Self::Icount) { 1 } else { 2 }
    }

    /// Returns the memory of each machine.
    pub(crate) const fn memory_mib(self) -> u32 {
        if matches!(self, Self::Numa) { 2048 } else { 1024 }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

/// A figure that a benchmark measured, and its bound.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    /// The name, with the unit unless the figure is a ratio.
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) bound: Bound,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    AtMost(f64),
    Unbounded,
}

impl Figure {
    /// Returns whether the value is a number within the bound.
    pub(crate) fn is_met(&self) -> bool {
        match self.bound {
            Bound::AtMost(bound) => self.value <= bound,
            Bound::Unbounded => self.value.is_finite(),
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value, bound } = self;
        let verdict = match bound {
            Bound::Unbounded if self.is_met() => "record",
            _ if self.is_met() => "met",
            _ => "missed",
        };
        write!(f, "{verdict:<8}{name}: {value:.3}")?;
        match bound {
            Bound::AtMost(bound) => write!(f, ", at most {bound}"),
            Bound::Unbounded => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_verdict_and_bound() {
        for (value, bound, line) in [
            (1.15, Bound::AtMost(1.15), "met     READ 8 B, ratio: 1.150, at most 1.15"),
            (1.151, Bound::AtMost(1.15), "missed  READ 8 B, ratio: 1.151, at most 1.15"),
            (f64::NAN, Bound::AtMost(1.0), "missed  READ 8 B, ratio: NaN, at most 1"),
            (7.0, Bound::Unbounded, "record  READ 8 B, ratio: 7.000"),
            (f64::NAN, Bound::Unbounded, "missed  READ 8 B, ratio: NaN"),
        ] {
            let figure = Figure { name: "READ 8 B, ratio".into(), value, bound };
            assert_eq!(
                (figure.is_met(), figure.to_string()),
                (!line.starts_with("missed"), line.into())
            );
        }
    }
}
