//! A short sample of a net's state space: the largest token count seen in each place.
//!
//! The sample is limited by work, not by time, and seeded, so that all processes get the same
//! result.

use std::collections::HashSet;
use std::rc::Rc;

use fastrand::Rng;

use crate::petri::{Net, Transition};

/// The seed of all walks: they are a function of the net.
pub(crate) const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Number of random walks from the initial marking, and the maximum number of steps of each.
const WALKS: u32 = 64;
const STEPS: u32 = 1_024;

/// The size of the sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Maximum number of states that the breadth-first search keeps.
    pub(crate) states: usize,
    /// Maximum work of the search, and that of all walks: arcs examined and tokens copied. It also limits
    /// the memory of the search to 8 bytes per unit of work.
    pub(crate) work: usize,
}

/// A budget of less than 0.3 s in a release build.
pub(crate) const BUDGET: Budget = Budget { states: 20_000, work: 8 << 20 };

/// The result of the sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The largest token count of each place.
    pub(crate) max: Vec<u64>,
    /// Whether the sample is the whole state space.
    pub(crate) complete: bool,
}

/// Searches breadth-first and, if that does not visit all states, also samples random walks.
pub(crate) fn probe(net: &Net, budget: Budget) -> Seen {
    let mut seen = Seen { max: net.initial(), complete: false };
    seen.complete = search(net, budget, &mut seen.max);
    if !seen.complete {
        walk(net, budget, &mut seen.max);
    }
    seen
}

/// Searches breadth-first, in the order of transitions. Returns whether it visited all states.
fn search(net: &Net, budget: Budget, max: &mut [u64]) -> bool {
    let initial: Rc<[u64]> = net.initial().into();
    let mut visited = HashSet::from([Rc::clone(&initial)]);
    let mut queue = vec![initial];
    let mut after = net.initial();
    let mut complete = true;
    let mut work = 0;
    let mut next = 0;
    while let Some(marking) = queue.get(next).cloned() {
        next += 1;
        for transition in net.transitions() {
            work += 1 + transition.inputs.len();
            if work > budget.work {
                return false;
            }
            if !transition.is_enabled(&marking) {
                continue;
            }
            work += marking.len();
            after.copy_from_slice(&marking);
            transition.fire(&mut after);
            raise(max, &after);
            if visited.contains(after.as_slice()) {
                continue;
            }
            if visited.len() == budget.states {
                complete = false;
                continue;
            }
            let state: Rc<[u64]> = after.as_slice().into();
            visited.insert(Rc::clone(&state));
            queue.push(state);
        }
    }
    complete
}

/// Samples states along random walks, which get further from the initial marking than the search.
fn walk(net: &Net, budget: Budget, max: &mut [u64]) {
    let mut random = Rng::with_seed(SEED);
    let examined = scan_work(net);
    let mut work = 0;
    for _ in 0..WALKS {
        let mut marking = net.initial();
        for _ in 0..STEPS {
            work += examined + marking.len();
            if work > budget.work {
                return;
            }
            let enabled: Vec<_> = enabled(net, &marking).collect();
            let Some((_, transition)) = random.choice(enabled) else { break };
            transition.fire(&mut marking);
            raise(max, &marking);
        }
    }
}

/// Returns the work of a scan for enabled transitions: their arcs, and themselves.
pub(crate) fn scan_work(net: &Net) -> usize {
    net.transitions().iter().map(|transition| 1 + transition.inputs.len()).sum()
}

/// Returns the transitions that `marking` enables, with their numbers.
pub(crate) fn enabled<'n>(
    net: &'n Net,
    marking: &[u64],
) -> impl Iterator<Item = (u32, &'n Transition)> {
    (0..).zip(net.transitions()).filter(|(_, transition)| transition.is_enabled(marking))
}

fn raise(max: &mut [u64], marking: &[u64]) {
    for (max, &tokens) in max.iter_mut().zip(marking) {
        *max = tokens.max(*max);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::petri::MAX_TOKENS;
    use crate::petri::naive::{largest, markings, net, nets};

    const SMALL: Budget = Budget { states: 40, work: 4_000 };

    #[test]
    fn stops_at_budget() {
        let net = Net::load("philosophers:5").unwrap();
        assert!(probe(&net, Budget { states: 243, ..BUDGET }).complete);
        assert!(!probe(&net, Budget { states: 242, ..BUDGET }).complete);
        assert!(!probe(&net, Budget { work: 10_000, ..BUDGET }).complete);
    }

    #[test]
    fn walks_reach_beyond_search() {
        // p1 is filled by 200 firings of t0; the others keep a search near the initial marking.
        let net = net(
            &[200, 0, 1, 0],
            &[
                (&[(0, 1)], &[(1, 1)]),
                (&[(2, 1)], &[(3, 1)]),
                (&[(3, 1)], &[(2, 1)]),
                (&[], &[(3, 1)]),
            ],
        );
        let (budget, mut max) = (Budget { states: 50, ..BUDGET }, net.initial());
        assert!(!search(&net, budget, &mut max) && max[1] < 50);
        assert_eq!(probe(&net, budget).max[1], 200);
    }

    #[test]
    fn counts_saturate() {
        let seen = probe(&net(&[MAX_TOKENS], &[(&[], &[(0, MAX_TOKENS)])]), SMALL);
        assert_eq!(seen.max, [u64::MAX]);
    }

    proptest! {
        #[test]
        fn repeats_and_sees_only_reachable(net in nets()) {
            let seen = probe(&net, SMALL);
            prop_assert_eq!(&probe(&net, SMALL), &seen);
            if seen.complete {
                prop_assert!(markings(&net, SMALL.states).len() <= SMALL.states);
                prop_assert_eq!(seen.max, largest(&net, SMALL.states));
            }
        }
    }
}
