//! A proof that a net has no bound on its tokens.
//!
//! If a sequence of transitions leads from a reachable marking to one that holds as many tokens in
//! every place, and more in some place, the sequence can fire again and again (Karp and Miller,
//! "Parallel program schemata", 1969). Random walks find such a sequence in most unbounded nets; no
//! result proves nothing.

use crate::petri::probe::{SEED, enabled, scan_work};
use crate::petri::{MAX_TOKENS, Net};

const WALKS: u32 = 64;
const STEPS: usize = 512;
/// Maximum work, counted in arcs examined and in token counts compared or copied: less than 0.1 s in
/// a release build.
const MAX_WORK: usize = 1 << 25;
/// Work of a token count that is copied. A walk keeps the copies, so this limits their memory to
/// 2 bytes per unit of work, 64 MiB.
const COPY_WORK: usize = 4;

/// A sequence of transitions that can fire again and again, each time adding tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth {
    /// The numbers of the transitions, in the order of firing.
    pub transitions: Vec<u32>,
    /// Index of a place in which the sequence adds tokens.
    pub place: usize,
}

impl Net {
    /// Searches for a proof that the net is unbounded. A bounded net has none; `None` does not prove
    /// that the net is bounded. The result is a function of the net alone.
    pub fn growth(&self) -> Option<Growth> {
        let mut random = fastrand::Rng::with_seed(SEED);
        let mut work = 0;
        (0..WALKS).find_map(|_| self.growth_of_walk(&mut random, &mut work))
    }

    fn growth_of_walk(&self, random: &mut fastrand::Rng, work: &mut usize) -> Option<Growth> {
        let mut markings = vec![self.initial()];
        let mut fired = Vec::new();
        let examined = scan_work(self);
        while fired.len() < STEPS {
            let last = markings.last()?;
            *work += examined + COPY_WORK * last.len();
            if *work > MAX_WORK {
                return None;
            }
            let enabled: Vec<_> = enabled(self, last).collect();
            let (number, transition) = random.choice(enabled)?;
            let mut next = last.clone();
            transition.fire(&mut next);
            fired.push(number);
            // Counts that saturate compare as equal.
            if next.iter().any(|&tokens| tokens > MAX_TOKENS) {
                return None;
            }
            // From the latest on, so that the sequence is short.
            for (at, before) in markings.iter().enumerate().rev() {
                let same = before.iter().zip(&next).take_while(|(before, next)| before <= next);
                let compared = same.count();
                *work += 1 + compared;
                if *work > MAX_WORK {
                    return None;
                }
                let grown = before.iter().zip(&next).position(|(before, next)| before < next);
                if let Some(place) = grown.filter(|_| compared == next.len()) {
                    return Some(Growth { transitions: fired.split_off(at), place });
                }
            }
            markings.push(next);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::petri::bounds::upper_bounds;
    use crate::petri::naive::{markings, net, nets};

    #[test]
    fn finds_cycle_that_adds_tokens() {
        // A producer that works, then delivers; no transition takes the tokens away.
        let net = net(&[1, 0, 0], &[(&[(0, 1)], &[(1, 1)]), (&[(1, 1)], &[(0, 1), (2, 1)])]);
        assert_eq!(net.growth(), Some(Growth { transitions: vec![0, 1], place: 2 }));
    }

    /// A token goes around in a net whose other places and transitions are idle.
    #[test]
    fn counts_work_of_idle_parts() {
        let mut tokens = vec![0; 1_000];
        tokens[0] = 1;
        let idle: (&[_], &[_]) = (&[(2, 1)], &[(3, 1)]);
        let mut transitions = vec![idle; 2_000];
        transitions.push((&[(0, 1)], &[(1, 1)]));
        transitions.push((&[(1, 1)], &[(0, 1)]));
        let (net, mut random, mut work) =
            (net(&tokens, &transitions), fastrand::Rng::with_seed(SEED), 0);
        assert_eq!(net.growth_of_walk(&mut random, &mut work), None);
        let step = 2 * transitions.len() + COPY_WORK * tokens.len();
        assert!(work >= STEPS * step, "{work}");
        for _ in 1..WALKS {
            assert_eq!(net.growth_of_walk(&mut random, &mut work), None);
        }
        assert!(work > MAX_WORK && work < MAX_WORK + WALKS as usize * step, "{work}");
    }

    #[test]
    fn bounded_models_have_no_proof() {
        for model in ["kanban:3", "fms:2", "philosophers:6", "peterson:2"] {
            assert_eq!(Net::load(model).unwrap().growth(), None, "{model}");
        }
    }

    proptest! {
        /// The sequence can fire from a reachable marking again and again, and adds tokens.
        #[test]
        fn replays_proof(net in nets()) {
            let Some(Growth { transitions, place }) = net.growth() else { return Ok(()) };
            prop_assert_eq!(upper_bounds(&net)[place], None);
            let markings = markings(&net, 20_000);
            let replayed = markings.iter().find_map(|marking| {
                let mut now = marking.clone();
                for _ in 0..3 {
                    let before = now.clone();
                    for &number in &transitions {
                        let transition = &net.transitions()[number as usize];
                        transition.is_enabled(&now).then_some(())?;
                        transition.fire(&mut now);
                    }
                    let grows = before.iter().zip(&now).all(|(before, now)| before <= now);
                    (grows && before[place] < now[place]).then_some(())?;
                }
                Some(())
            });
            // The walk may be longer than this search is deep.
            prop_assert!(replayed.is_some() || markings.len() > 20_000);
        }
    }
}
