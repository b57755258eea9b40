//! The conformance suite detects broken rules over UCX too: with one rule of the contract broken,
//! the case that checks the rule fails; with none broken, all cases pass.

use core::time::Duration;

use probeline_exchange::{Thread, threads};
use probeline_transport::conformance::{
    Case, CountingAllocator, Failure, Rig, Rule, Sabotage, Verdict, cases, on_threads,
};
use probeline_ucx_shim::ucx::Builder;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const OWNERS: u32 = 3;
/// UCX lacks the capabilities that these cases test.
const SKIPPED: [&str; 2] = ["an_atomic_follows_the_write_before_it", "a_lost_owner_is_named"];
/// The time limit for a lost completion where a rule is broken; the other cases take milliseconds.
const PATIENCE: Duration = Duration::from_millis(500);
/// Tries in which a race that a rule opens has to be lost once.
const TRIES: u32 = 20;

/// The verdicts of all owners, threads of this process, on a case run with `rule` broken.
fn run(case: &Case, rule: Rule) -> Vec<Result<Verdict, Failure>> {
    on_threads(threads(OWNERS), |mut member: Thread| {
        let sizes = case.sizes;
        let engine = Builder::new(sizes)
            .tls(Some("posix,sysv,cma,self"))
            // True of this C library's memcpy, and needed so that no case is skipped.
            .word_reads_whole(true)
            .open(&mut member)
            .map_err(|error| Failure(error.to_string()))?;
        let mut engine = Sabotage::new(engine, rule);
        let rig = Rig::new(&mut engine, &mut member);
        case.run(&mut if rule == Rule::Nothing { rig } else { rig.patience(PATIENCE) })
    })
}

#[test]
fn every_broken_rule_is_detected() {
    for &(rule, name) in Rule::ALL.iter().filter(|(_, name)| !SKIPPED.contains(name)) {
        let case = cases(OWNERS).find(|case| case.name == name).unwrap();
        let noticed = (0..TRIES).any(|_| run(case, rule).iter().any(Result::is_err));
        assert!(noticed, "{rule:?} passed {name}");
    }
}

#[test]
fn the_wrapper_alone_breaks_nothing() {
    for case in cases(OWNERS) {
        for verdict in run(case, Rule::Nothing) {
            let skipped = matches!(verdict, Ok(Verdict::Skipped(_)));
            assert!(verdict.is_ok() && skipped == SKIPPED.contains(&case.name), "{}", case.name);
        }
    }
}
