//! What is tried, by subject. Each file has a list `CASES`, named below.

mod commands;
mod conformance;
mod doctor;
mod faults;
mod lost_devices;
mod lost_peers;
mod mpi;
mod numa;
mod performance;
mod perftest;
mod probeline;
mod processor;
mod tearing;
mod trial;
mod tune;
mod ucx;
mod ucx_latency;
mod verbs;

use crate::case::Case;

/// Every case there is.
#[must_use]
pub fn all() -> Vec<Case> {
    [
        commands::CASES,
        verbs::CASES,
        conformance::CASES,
        ucx::CASES,
        ucx_latency::CASES,
        mpi::CASES,
        lost_peers::CASES,
        lost_devices::CASES,
        performance::CASES,
        probeline::CASES,
        tune::CASES,
        doctor::CASES,
        tearing::CASES,
        faults::CASES,
        perftest::CASES,
        processor::CASES,
        numa::CASES,
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_told_apart() {
        let names: BTreeSet<String> = all().iter().map(Case::full_name).collect();
        assert_eq!(names.len(), all().len());
    }
}
