//! The model check of arrays: operations on elements of one word are linearizable.

use probeline_pipeline::model::{Network, Sequential, Stopped, check_linear};

use super::{Action, Config, Elements, Order};
use crate::element::Each;

/// The elements that a check uses.
#[derive(Clone, Default)]
struct Words([u64; 2]);

impl Sequential<Each<Elements<u64>>> for Words {
    fn run(&mut self, index: &u64, action: Action<u64>) -> u64 {
        let word = &mut self.0[usize::from(*index == 1)];
        let old = *word;
        match action {
            Action::Get => {}
            Action::Put(value) => *word = value,
            Action::Add(addend) => *word = old.wrapping_add(addend),
            Action::CompareAndSwap { expected, new } if expected == old => *word = new,
            Action::CompareAndSwap { .. } => {}
            Action::Min(..) | Action::Max(..) => *word = action.over(old).unwrap_or(old),
        }
        if let Action::Put(value) = action { value } else { old }
    }
}

type Script = &'static [(u64, Action<u64>)];

fn check(scripts: &'static [Script]) {
    for failures in 0..2 {
        let (config, network) = (Config::new(2), Network { owners: 2, failures, tears: &[] });
        let checked = check_linear::<Each<Elements<u64>>, Words, 2>(config, network, scripts);
        let (worlds, _) = checked.expect("every history has a sequential order");
        assert!(worlds > 50, "{worlds}");
    }
}

#[test]
fn puts_of_one_rank_are_linearizable() {
    check(&[
        &[(0, Action::Put(1)), (0, Action::Get), (1, Action::Add(4))],
        &[(1, Action::Add(2)), (1, Action::Get)],
    ]);
}

/// Why the module states the rule of puts beside gets.
#[test]
fn puts_beside_gets_are_not_linearizable() {
    const SCRIPTS: &[Script] = &[&[(0, Action::Put(1))], &[(0, Action::Get), (0, Action::Get)]];
    let checked = check_linear::<Each<Elements<u64>>, Words, 2>(
        Config::new(2),
        Network { owners: 2, ..Network::ONE },
        SCRIPTS,
    );
    let Err(Stopped::Violation(text)) = checked else { panic!("{checked:?}") };
    assert!(text.contains("no order explains"), "{text}");
}

#[test]
fn atomics_are_linearizable() {
    const MAX: Action<u64> = Action::Max(7, Order::Unsigned);
    const MIN: Action<u64> = Action::Min(3, Order::Unsigned);
    const SWAP: Action<u64> = Action::CompareAndSwap { expected: 5, new: 9 };
    check(&[&[(0, Action::Add(5)), (0, SWAP)], &[(0, MAX), (0, Action::Get)]]);
    check(&[&[(0, Action::Add(5)), (0, MAX)], &[(0, MIN), (0, MAX)]]);
    check(&[&[(0, MAX), (1, MAX)], &[(0, MIN), (1, Action::Get)], &[(0, Action::Add(2))]]);
}
