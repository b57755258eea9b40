//! The library does what its contract says, on one device and between two machines.

use super::trial::{TRIAL, alone, by_chance, together};
use crate::case::{Case, Failure, Layer, ensure};

pub(super) const CASES: &[Case] = &[
    Case::new(Layer::Loopback, "the_suite_passes_among_threads", |bed| {
        suite(&alone(bed, "conformance --threads")?, 29, 2)
    })
    .needs(TRIAL),
    Case::new(Layer::Loopback, "the_suite_passes_between_processes", |bed| {
        suite(&alone(bed, "conformance --ranks 2")?, 29, 2)?;
        suite(&alone(bed, "conformance --ranks 3")?, 29, 2)
    })
    .needs(TRIAL),
    Case::new(Layer::Two, "the_suite_passes_between_machines", |bed| {
        suite(&together(bed, 2, "conformance")?, 29, 2)?;
        suite(&together(bed, 3, "conformance")?, 29, 2)
    })
    .needs(TRIAL),
    Case::new(Layer::Loopback, "what_must_be_refused_is_refused", |bed| {
        let output = alone(bed, "refusals")?;
        let refused = output.lines().filter(|line| line.contains("not open to this access"));
        ensure(refused.count() == 8, || output.clone())
    })
    .needs(TRIAL),
    Case::new(Layer::Loopback, "sums_are_exact_by_many_queue_pairs", |bed| {
        exact(&alone(bed, "contention --ranks 4")?)
    })
    .needs(TRIAL),
    Case::new(Layer::Two, "sums_are_exact_from_both_machines", |bed| {
        exact(&together(bed, 4, "contention")?)
    })
    .needs(TRIAL),
    // Most rounds lose some.
    Case::chance(Layer::Loopback, "against_the_cpu_additions_are_lost", |bed| {
        let contention = "contention --against-cpu --adds 50000";
        by_chance(bed, contention, "additions were lost")
    })
    .needs(TRIAL),
    Case::new(Layer::Loopback, "find_or_put_is_exact_by_many_ranks", |bed| {
        none_wrong(&alone(bed, "soak --ranks 3")?)
    })
    .needs(TRIAL),
    Case::new(Layer::Two, "find_or_put_is_exact_between_machines", |bed| {
        none_wrong(&together(bed, 2, "soak")?)?;
        none_wrong(&together(bed, 2, "soak --in-step --data 2000")?)
    })
    .needs(TRIAL),
];

/// So many cases passed, and so many were skipped, for the capabilities that Soft-RoCE lacks.
fn suite(output: &str, passed: u32, skipped: u32) -> Result<(), Failure> {
    let sum = format!("{passed} passed, 0 failed, {skipped} skipped");
    ensure(output.contains(&sum), || output.to_owned())
}

pub(super) fn exact(output: &str) -> Result<(), Failure> {
    ensure(output.trim_end().ends_with(": exact"), || output.to_owned())
}

pub(super) fn none_wrong(output: &str) -> Result<(), Failure> {
    ensure(output.contains(" data, 0 wrong"), || output.to_owned())
}
