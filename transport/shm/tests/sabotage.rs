//! The conformance suite detects each broken rule of the contract, and passes if none is broken.

use core::time::Duration;

use probeline_exchange::{Thread, threads};
use probeline_shm::Builder;
use probeline_transport::conformance::{
    Case, Failure, Rig, Rule, Sabotage, Verdict, cases, on_threads,
};

const OWNERS: u32 = 3;
/// The longest wait for a completion that a broken rule loses; the other cases take milliseconds.
const PATIENCE: Duration = Duration::from_millis(500);

/// Returns the verdicts of all owners on a case, run over engines that break `rule`.
fn run(case: &Case, rule: Rule) -> Vec<Result<Verdict, Failure>> {
    on_threads(threads(OWNERS), |mut member: Thread| {
        let sizes = case.sizes;
        let engine =
            Builder::new(sizes).open(&mut member).map_err(|error| Failure(error.to_string()))?;
        let mut engine = Sabotage::new(engine, rule);
        let rig = Rig::new(&mut engine, &mut member);
        case.run(&mut if rule == Rule::Nothing { rig } else { rig.patience(PATIENCE) })
    })
}

#[test]
fn detects_every_broken_rule() {
    for &(rule, name) in Rule::ALL {
        let case = cases(OWNERS).find(|case| case.name == name).unwrap();
        assert!(run(case, rule).iter().any(Result::is_err), "{rule:?} passed {name}");
    }
}

#[test]
fn wrapper_alone_breaks_nothing() {
    for case in cases(OWNERS) {
        for verdict in run(case, Rule::Nothing) {
            assert_eq!(verdict, Ok(Verdict::Passed), "{}", case.name);
        }
    }
}
