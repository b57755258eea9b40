//! The library over verbs: the conformance suite, and structures that many ranks change at once, also
//! where READs return torn words.

use anyhow::{Result, ensure};

use super::ranks::{repeat_until_success, run_on_all, run_on_one};
use super::{TRIAL, trial};
use crate::case::{Case, Layer, Outcome, Procedure};
use crate::testbed::Testbed;

pub(super) const CASES: &[Case] = &[
    trial(Layer::Loopback, "conformance_of_processes", |testbed| {
        suite_passes(&run_on_one(testbed, "conformance --ranks 2")?)?;
        suite_passes(&run_on_one(testbed, "conformance --ranks 3")?)
    }),
    trial(Layer::Two, "conformance_of_machines", |testbed| {
        suite_passes(&run_on_all(testbed, 2, "conformance")?)?;
        suite_passes(&run_on_all(testbed, 3, "conformance")?)
    }),
    // Additions are lost in most rounds.
    rare_event(Layer::Loopback, "additions_against_the_cpu_are_lost", |testbed| {
        repeat_until_success(testbed, "contention", "lost ")
    }),
    trial(Layer::Loopback, "find_or_put_of_many_ranks_is_exact", |testbed| {
        none_wrong(&run_on_one(testbed, "soak --ranks 3")?)
    }),
    trial(Layer::Two, "find_or_put_between_machines_is_exact", |testbed| {
        none_wrong(&run_on_all(testbed, 2, "soak")?)?;
        none_wrong(&run_on_all(testbed, 2, "soak --in-step --keys 2000")?)
    }),
    trial(Layer::Two, "a_map_between_machines_has_no_wrong_value", |testbed| {
        none_wrong(&run_on_all(testbed, 3, "map")?)
    }),
    trial(Layer::Two, "containers_between_machines_have_no_wrong_result", |testbed| {
        none_wrong(&run_on_all(testbed, 2, "containers")?)
    }),
    trial(Layer::Tearing, "containers_with_torn_words_have_no_wrong_result", |testbed| {
        none_wrong(&run_on_one(testbed, "containers --ranks 3")?)
    }),
    trial(Layer::Tearing, "a_map_with_torn_words_has_no_wrong_value", |testbed| {
        none_wrong(&run_on_one(testbed, "map --ranks 3 --batches 2000")?)
    }),
    trial(Layer::Tearing, "find_or_put_with_torn_words_is_exact", |testbed| {
        let output = run_on_one(testbed, "soak --in-step --keys 60000")?;
        none_wrong(&output)?;
        ensure!(!output.contains("confirmed 0 words"), "no word needed the protection: {output}");
        Ok(())
    }),
    // Keys are wrong in every second round on a quiet host.
    rare_event(Layer::Tearing, "find_or_put_without_protection_is_wrong", |testbed| {
        let soak = "soak --in-step --keys 20000 --trust-words";
        repeat_until_success(testbed, soak, " wrong; ")
    }),
];

/// Returns a case of `trial` that waits for an event which only chance causes.
const fn rare_event(
    layer: Layer,
    name: &'static str,
    test: fn(&Testbed) -> Result<Outcome>,
) -> Case {
    Case::new(layer, name, Procedure::RareEvent(test)).needs(TRIAL)
}

/// Checks the suite's summary. The suite itself checks that every case ran, and which it skipped.
pub(super) fn suite_passes(output: &str) -> Result<()> {
    ensure!(output.contains(" passed, 0 failed, "), "{output}");
    Ok(())
}

pub(super) fn none_wrong(output: &str) -> Result<()> {
    ensure!(output.contains(" keys, 0 wrong;"), "{output}");
    Ok(())
}
