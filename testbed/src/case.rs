//! One thing that is tried in the machines.

use core::error::Error as CoreError;
use core::fmt;

use crate::bed::Bed;
use crate::plan::{Cpu, Plan};
use crate::programs::Build;
use crate::verdict::Verdict;

/// One thing that is tried in the machines.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// What holds, in words with underscores.
    pub name: &'static str,
    /// The machines it runs in.
    pub layer: Layer,
    /// Whether it leaves the machines so that no other case can use them.
    pub spoils: bool,
    /// Whether it runs only where its full name is asked for.
    pub on_demand: bool,
    /// What has to be built for it.
    pub builds: &'static [Build],
    /// What it does, and what decides its outcome.
    pub run: Run,
}

/// What a case does, and what decides its outcome.
#[derive(Clone, Copy, Debug)]
pub enum Run {
    /// A test. How fast the host is must not decide its outcome.
    Test(fn(&Bed) -> Result<(), Failure>),
    /// A test of something that only chance brings about.
    Chance(fn(&Bed) -> Result<Outcome, Failure>),
    /// A benchmark: measures, and compares with what a quiet host reaches.
    Bench(fn(&Bed) -> Result<Vec<Verdict>, Failure>),
}

/// How a test of [`Run::Chance`] ended that did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What it waits for happened.
    Passed,
    /// It did not happen, which says nothing; the reason.
    Skipped(String),
}

/// The machines that a case runs in; cases of one layer share a boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// One machine with two CPUs.
    Loopback,
    /// Two machines on one wire.
    Two,
    /// One machine whose time is what it executes.
    Icount,
    /// One machine whose READs bring torn words.
    Tearing,
    /// One machine of two NUMA nodes.
    Numa,
}

impl Layer {
    /// All of them, in the order they run.
    pub const ALL: [Self; 5] = [Self::Loopback, Self::Two, Self::Icount, Self::Tearing, Self::Numa];

    /// As the command line and reports call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Two => "two",
            Self::Icount => "icount",
            Self::Tearing => "tearing",
            Self::Numa => "numa",
        }
    }

    /// Its machines.
    #[must_use]
    pub const fn plan(self) -> Plan {
        match self {
            Self::Loopback => Plan { vcpus: 2, ..Plan::ONE },
            Self::Two => Plan::TWO,
            Self::Icount => Plan { icount: true, ..Plan::ONE },
            Self::Tearing => Plan { cpu: Cpu::Tearing, vcpus: 2, ..Plan::ONE },
            Self::Numa => Plan { numa: true, vcpus: 2, memory_mib: 2048, ..Plan::ONE },
        }
    }
}

impl Case {
    /// A case that leaves the machines as they were and needs nothing built.
    #[must_use]
    pub const fn new(
        layer: Layer,
        name: &'static str,
        test: fn(&Bed) -> Result<(), Failure>,
    ) -> Self {
        Self::of(layer, name, Run::Test(test))
    }

    /// The same for something that only chance brings about.
    #[must_use]
    pub const fn chance(
        layer: Layer,
        name: &'static str,
        test: fn(&Bed) -> Result<Outcome, Failure>,
    ) -> Self {
        Self::of(layer, name, Run::Chance(test))
    }

    /// A benchmark, which runs only where benchmarks are asked for.
    #[must_use]
    pub const fn bench(
        layer: Layer,
        name: &'static str,
        bench: fn(&Bed) -> Result<Vec<Verdict>, Failure>,
    ) -> Self {
        Self::of(layer, name, Run::Bench(bench))
    }

    const fn of(layer: Layer, name: &'static str, run: Run) -> Self {
        Self { name, layer, spoils: false, on_demand: false, builds: &[], run }
    }

    /// Whether it is a benchmark.
    #[must_use]
    pub const fn is_bench(&self) -> bool {
        matches!(self.run, Run::Bench(_))
    }

    /// The same, with something built for it.
    #[must_use]
    pub const fn needs(self, builds: &'static [Build]) -> Self {
        Self { builds, ..self }
    }

    /// The same, in machines that no other case uses after it.
    #[must_use]
    pub const fn spoils(self) -> Self {
        Self { spoils: true, ..self }
    }

    /// The same, run only where its full name is asked for.
    #[must_use]
    pub const fn on_demand(self) -> Self {
        Self { on_demand: true, ..self }
    }

    /// The layer's and its own name.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}::{}", self.layer.name(), self.name)
    }
}

/// What did not hold, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: CoreError> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            text = format!("{text}: {error}");
            source = error.source();
        }
        Self(text)
    }
}

/// Fails unless `holds`.
///
/// # Errors
/// What did not hold.
pub fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(Failure(what())) }
}
