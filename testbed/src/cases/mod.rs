//! All cases, by subject. Each file has a list `CASES`.

mod conformance;
mod doctor;
mod losses;
mod mpi;
mod numa;
mod perftest;
mod probeline;
mod ranks;
mod selftest;
mod ucx;

use anyhow::{Context, Result};

use crate::case::{Case, Layer};
use crate::programs::Build;
use crate::testbed::Testbed;

/// The command that users run.
const PROBELINE: &[Build] = &[Build::Probeline];
/// The program that runs the library for tests.
const TRIAL: &[Build] = &[Build::Trial];

pub(crate) fn all() -> Vec<Case> {
    [
        selftest::CASES,
        conformance::CASES,
        ucx::CASES,
        mpi::CASES,
        losses::CASES,
        perftest::CASES,
        probeline::CASES,
        doctor::CASES,
        numa::CASES,
    ]
    .concat()
}

/// Returns a case that runs `trial`.
const fn trial(layer: Layer, name: &'static str, test: fn(&Testbed) -> Result<()>) -> Case {
    Case::test(layer, name, test).needs(TRIAL)
}

/// Finds the number behind `name` at the start of a line.
fn number(output: &str, name: &str) -> Result<f64> {
    let value = output.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value.with_context(|| format!("no {name} in: {output}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn case_names_differ() {
        let names: BTreeSet<String> = all().iter().map(Case::full_name).collect();
        assert_eq!(names.len(), all().len());
    }
}
