//! The conformance suite has teeth over UCX too: with one rule of the contract broken, the case
//! that is to notice fails; with none broken, all cases pass.

mod counting;

use core::time::Duration;
use std::thread;

use probeline_transport::conformance::{Case, Failure, Rig, Rule, Sabotage, Verdict, cases};
use probeline_ucx_shim::ucx::Builder;

/// The time limit for a lost completion where a rule is broken; the other cases take milliseconds.
const PATIENCE: Duration = Duration::from_millis(500);
/// Tries in which a race that a rule opens has to be lost once.
const TRIES: u32 = 20;

/// The verdicts of all owners, threads of this process, on a case run with `rule` broken.
fn run(case: &Case, rule: Rule) -> Vec<Result<Verdict, Failure>> {
    let owner = |mut member: probeline_exchange::Thread| {
        let shape = case.shape;
        let engine = Builder::new(shape.window_words)
            .slots(shape.slots, shape.slot_words)
            .depth(shape.depth)
            .tls(Some("posix,sysv,cma,self"))
            // True of this C library's memcpy, and needed so that no case is skipped.
            .word_reads_whole(true)
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
        let noticed = (0..TRIES).any(|_| run(case(name), rule).iter().any(Result::is_err));
        assert!(noticed, "{rule:?} passed {name}");
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
