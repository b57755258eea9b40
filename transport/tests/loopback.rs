//! The conformance suite on the transport of `embed`: one owner, whose operations are executed when
//! they are posted.

#[allow(clippy::cast_possible_truncation, reason = "its sizes are small constants")]
#[path = "../../embed/src/memory.rs"]
mod memory;

use memory::Memory;
use probeline_transport::Alone;
use probeline_transport::conformance::{
    Case, CountingAllocator, Failure, Report, Rig, Verdict, cases,
};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn run(case: &Case) -> Result<Verdict, Failure> {
    case.run(&mut Rig::new(&mut Memory::new(), &mut Alone))
}

#[test]
fn passes_suite() {
    let mut report = Report::new(1);
    for case in cases(1) {
        report.add(case, &[run(case)]);
    }
    report.judge(&[]).unwrap();
}

#[test]
fn refuses_incomplete_report() {
    let missing = Report::new(1).judge(&[]).unwrap_err();
    assert!(missing.0.contains("did not run: [\"windows_start_at_zero\""), "{missing}");
}

#[test]
fn refuses_other_skips() {
    let mut report = Report::new(1);
    for case in cases(1) {
        let passed = case.name != "atomic_with_the_cpu";
        let verdict = if passed { Verdict::Passed } else { Verdict::Skipped("atomics is Device") };
        report.add(case, &[Ok(verdict)]);
    }
    report.judge(&["atomic_with_the_cpu"]).unwrap();
    // A job of one owner does not run this case, so it cannot skip it either.
    report.judge(&["atomic_with_the_cpu", "a_lost_owner_is_named"]).unwrap();
    for wrong in [&[][..], &["faa_sums_exactly", "atomic_with_the_cpu"], &["atomic_with_the_cpus"]]
    {
        report.judge(wrong).unwrap_err();
    }
}

#[test]
fn refuses_too_small_job() {
    let case = cases(9).find(|case| case.name == "an_idle_owner_stalls_nobody").unwrap();
    let refused = run(case).unwrap_err();
    assert_eq!(refused.0, "the case needs 2 owners, the job has 1");
}
