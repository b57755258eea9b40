//! The conformance suite has teeth: with one rule of the contract broken, the case that is to
//! notice fails; with none broken, all of those cases pass.

mod counting;

use core::time::Duration;
use std::thread;

use probeline_shm::Builder;
use probeline_transport::conformance::{Case, Failure, Rig, Rule, Sabotage, Verdict, cases};

/// The time limit for a lost completion where a rule is broken; the other cases take milliseconds.
const PATIENCE: Duration = Duration::from_millis(500);

/// The verdicts of all owners on a case, run over engines with `rule` broken.
fn run(case: &Case, rule: Rule) -> Vec<Result<Verdict, Failure>> {
    let owner = |mut member: probeline_exchange::Thread| {
        let shape = case.shape;
        let engine = Builder::new(shape.window_words)
            .slots(shape.slots, shape.slot_words)
            .depth(shape.depth)
            .open(&mut member)
            .map_err(|error| Failure(error.to_string()))?;
        let mut engine = Sabotage::new(engine, rule);
        let mut rig = Rig::new(&mut engine, &mut member);
        if rule != Rule::Nothing {
            rig.patience = PATIENCE;
        }
        rig.allocations = Some(counting::allocations);
        case.run(&mut rig)
    };
    thread::scope(|scope| {
        let members = probeline_exchange::threads(case.shape.owners).into_iter();
        let owners: Vec<_> = members.map(|member| scope.spawn(move || owner(member))).collect();
        owners.into_iter().map(|owner| owner.join().unwrap()).collect()
    })
}

fn case(name: &str) -> &'static Case {
    cases().find(|case| case.name == name).unwrap_or_else(|| panic!("no case {name}"))
}

#[test]
fn every_broken_rule_is_noticed() {
    for &(rule, name) in Rule::ALL {
        let verdicts = run(case(name), rule);
        assert!(verdicts.iter().any(Result::is_err), "{rule:?} passed {name}");
    }
}

#[test]
fn the_wrapper_alone_breaks_nothing() {
    for case in cases() {
        for verdict in run(case, Rule::Nothing) {
            assert_eq!(verdict, Ok(Verdict::Passed), "{}", case.name);
        }
    }
}
