//! Nets for tests, and a reference implementation of the firing rule and of the search on plain
//! markings.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;

use crate::petri::{Arc, Net, Place, STATE_BITS, Transition};

/// Inputs and outputs of a transition, as pairs of place and weight.
pub(crate) type Ends<'a> = (&'a [(usize, u64)], &'a [(usize, u64)]);

/// Builds a net of places `p0..` and transitions `t0..`.
pub(crate) fn net(initial: &[u64], transitions: &[Ends<'_>]) -> Net {
    let arcs =
        |ends: &[(usize, u64)]| ends.iter().map(|&(place, weight)| Arc { place, weight }).collect();
    let places = initial.iter().enumerate().map(|(number, &initial)| {
        let id = format!("p{number}");
        Place { name: id.clone(), id, initial }
    });
    let transitions = transitions.iter().enumerate().map(|(number, &(inputs, outputs))| {
        Transition { id: format!("t{number}"), inputs: arcs(inputs), outputs: arcs(outputs) }
    });
    Net::new(places.collect(), transitions.collect()).unwrap()
}

/// Generates nets of up to 6 places and transitions, bounded and unbounded, some with large counts.
pub(crate) fn nets() -> impl Strategy<Value = Net> {
    (1_usize..=6).prop_flat_map(|places| {
        let count = prop_oneof![8 => 0_u64..4, 1 => 4_u64..300, 1 => 0_u64..=1 << 40];
        let weight = prop_oneof![6 => Just(1_u64), 3 => 1_u64..5, 1 => 5_u64..200];
        let ends = vec((0..places, weight), 0..=3);
        let transitions = vec((ends.clone(), ends), 0..=6);
        (vec(count, places), transitions).prop_map(|(initial, transitions)| {
            let ends: Vec<Ends<'_>> =
                transitions.iter().map(|(inputs, outputs)| (&inputs[..], &outputs[..])).collect();
            net(&initial, &ends)
        })
    })
}

/// Generates up to 7 field widths that fit a state: narrow ones, wide ones, some of 0 bits.
pub(crate) fn widths() -> impl Strategy<Value = Vec<u32>> {
    let bits = prop_oneof![3 => 0_u32..=4, 2 => 0_u32..=20, 1 => 0..=STATE_BITS];
    vec(bits, 1..8).prop_map(|mut widths| {
        let mut left = STATE_BITS;
        for bits in &mut widths {
            *bits = (*bits).min(left);
            left -= *bits;
        }
        widths
    })
}

/// Returns the successors of a marking with the numbers of the transitions that lead to them.
pub(crate) fn successors(net: &Net, marking: &[u64]) -> Vec<(u32, Vec<u64>)> {
    let enabled = (0..).zip(net.transitions()).filter(|(_, each)| each.is_enabled(marking));
    let fired = enabled.map(|(number, transition)| {
        let mut after = marking.to_vec();
        transition.fire(&mut after);
        (number, after)
    });
    fired.collect()
}

/// Returns the markings of [`levels`], and those of the level after them.
pub(crate) fn markings(net: &Net, limit: usize) -> Vec<Vec<u64>> {
    search(net, limit).0.into_keys().collect()
}

/// Returns the largest token count of each place in the [`markings`].
pub(crate) fn largest(net: &Net, limit: usize) -> Vec<u64> {
    let max = |mut max: Vec<u64>, marking: Vec<u64>| {
        max.iter_mut().zip(marking).for_each(|(max, tokens)| *max = tokens.max(*max));
        max
    };
    markings(net, limit).into_iter().fold(net.initial(), max)
}

/// The markings of each level, and the number of arcs that leave it.
pub(crate) type Levels = Vec<(BTreeSet<Vec<u64>>, usize)>;

/// Returns the levels of a breadth-first search, up to the one with which more than `limit` markings are found.
pub(crate) fn levels(net: &Net, limit: usize) -> Levels {
    search(net, limit).1
}

/// Returns the distances of the markings that were found, and the levels.
fn search(net: &Net, limit: usize) -> (BTreeMap<Vec<u64>, usize>, Levels) {
    let mut distances = BTreeMap::from([(net.initial(), 0)]);
    let (mut levels, mut current) = (Levels::new(), BTreeSet::from([net.initial()]));
    while !current.is_empty() && distances.len() <= limit {
        let (mut next, mut arcs) = (BTreeSet::new(), 0);
        for (_, after) in current.iter().flat_map(|at| successors(net, at)) {
            arcs += 1;
            if distances.insert(after.clone(), levels.len() + 1).is_none() {
                next.insert(after);
            }
        }
        levels.push((current, arcs));
        current = next;
    }
    (distances, levels)
}
