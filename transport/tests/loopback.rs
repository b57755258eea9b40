//! The conformance suite on the transport of `embed`: one owner, whose operations are executed when
//! they are posted.

#[allow(clippy::cast_possible_truncation, reason = "its sizes are small constants")]
#[path = "../../embed/src/memory.rs"]
mod memory;

use memory::Memory;
use probeline_transport::Alone;
use probeline_transport::conformance::{
    Case, CountingAllocator, Failure, Report, Rig, Rule, Sabotage, Verdict, cases,
};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn run(case: &Case, rule: Rule) -> Result<Verdict, Failure> {
    let mut engine = Sabotage::new(Memory::new(), rule);
    let patience = core::time::Duration::from_millis(100);
    case.run(&mut Rig::new(&mut engine, &mut Alone).patience(patience))
}

#[test]
fn the_engine_passes_the_suite() {
    let mut report = Report::new(1);
    for case in cases(1) {
        let mut engine = Memory::new();
        report.add(case, &[case.run(&mut Rig::new(&mut engine, &mut Alone))]);
    }
    report.judge(&[]).unwrap();
}

#[test]
fn broken_rules_are_detected() {
    let mut unnoticed = Vec::new();
    for (rule, name) in Rule::ALL {
        let Some(case) = cases(1).find(|case| case.name == *name) else { continue };
        if run(case, *rule).is_ok() {
            unnoticed.push((*rule, *name));
        }
    }
    // These cases need another owner's atomics on the same word.
    let contended = [
        (Rule::CasReportsExpected, "cas_chain_has_one_winner"),
        (Rule::FaaIsSplit, "faa_sums_exactly"),
    ];
    assert_eq!(unnoticed, contended);
}

#[test]
fn a_report_without_all_cases_fails() {
    let missing = Report::new(1).judge(&[]).unwrap_err();
    assert!(missing.0.contains("did not run: [\"windows_start_at_zero\""), "{missing}");
}

#[test]
fn skips_must_be_those_expected() {
    let mut report = Report::new(1);
    for case in cases(1) {
        let passed = case.name != "atomic_with_the_cpu";
        let verdict = if passed { Verdict::Passed } else { Verdict::Skipped("atomics is Device") };
        report.add(case, &[Ok(verdict)]);
    }
    report.judge(&["atomic_with_the_cpu"]).unwrap();
    // A job of one owner does not run this case, so it cannot skip it either.
    report.judge(&["atomic_with_the_cpu", "a_lost_owner_is_named"]).unwrap();
    for wrong in [&[][..], &["faa_wraps", "atomic_with_the_cpu"], &["atomic_with_the_cpus"]] {
        report.judge(wrong).unwrap_err();
    }
}

#[test]
fn a_job_that_does_not_fit_the_case_is_refused() {
    let case = cases(9).find(|case| case.name == "an_idle_owner_stalls_nobody").unwrap();
    let refused = run(case, Rule::Nothing).unwrap_err();
    assert_eq!(refused.0, "the case needs 2 owners, the job has 1");
}
