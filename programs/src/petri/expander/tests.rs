use std::collections::BTreeSet;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;
use crate::petri::naive::{self, Ends, Levels, net};
use crate::petri::{MAX_TOKENS, STATE_BITS};

/// The levels that a search has expanded before it found more states than its limit, or an overflow.
#[derive(Debug, PartialEq)]
struct Found {
    levels: Levels,
    has_overflowed: bool,
}

/// Searches with all successors and with the needed ones. Returns the levels, which are the same, and
/// the numbers of nodes that were written in them. A packing has at most 6 words.
#[track_caller]
fn search(net: &Net, packing: &Packing, initial: &[u64], limit: usize) -> (Found, [usize; 2]) {
    let search_in = match packing.words() {
        1 => search_in::<1>,
        2 => search_in::<2>,
        3 => search_in::<3>,
        4 => search_in::<4>,
        5 => search_in::<5>,
        _ => search_in::<6>,
    };
    let [(all, all_written), (needed, needed_written)] = [Successors::All, Successors::Needed]
        .map(|written| search_in(net, packing, initial, written, limit));
    assert!(all == needed);
    (all, [all_written, needed_written])
}

/// Returns the levels, and the number of nodes that were written in them.
///
/// All successors of a node are those of the plain rule, in the same order. Expanding a node to all of them overflows
/// if and only if the plain rule exceeds a field. An overflow has the transition, a place and its count.
fn search_in<const W: usize>(
    net: &Net,
    packing: &Packing,
    initial: &[u64],
    successors: Successors,
    limit: usize,
) -> (Found, usize) {
    let expander = Expander::<W>::new(net, packing, successors);
    let initial: [u64; W] = packing.pack(initial).unwrap();
    let (mut visited, mut written) = (BTreeSet::from([initial]), 0);
    let (mut levels, mut current) = (Levels::new(), vec![initial]);
    // Old contents have no effect.
    let mut buffer = vec![[u64::MAX; W]; expander.max_successors()];
    while !current.is_empty() && visited.len() <= limit {
        let (mut next, mut arcs, mut markings) = (Vec::new(), 0, BTreeSet::new());
        let mut nodes = 0;
        for node in &current {
            let marking: Vec<u64> = packing.unpack(&expander.state(*node)).collect();
            let plain = naive::successors(net, &marking);
            let fits = |at: &[u64]| at.iter().zip(packing.fields()).all(|(&n, f)| n <= f.max());
            let too_many = plain.iter().find(|(_, after)| !fits(after));
            let expanded = match expander.expand(node, &mut buffer) {
                Ok(expanded) => expanded,
                Err(Overflow { place, tokens, transition }) => {
                    let after = too_many.map(|(by, after)| (Some(*by), after[place]));
                    assert_eq!(after, Some((transition, tokens)));
                    assert!(tokens > packing.fields()[place].max());
                    return (Found { levels, has_overflowed: true }, written);
                }
            };
            assert_eq!(expanded.enabled, plain.len());
            let found = &buffer[..expanded.nodes];
            if matches!(successors, Successors::All) {
                assert_eq!(too_many, None);
                let found = found.iter().map(|state| packing.unpack(state).collect::<Vec<_>>());
                assert!(found.eq(plain.into_iter().map(|(_, after)| after)));
            }
            nodes += expanded.nodes;
            arcs += expanded.enabled;
            let new = |node: &[u64; W]| visited.insert(expander.state(*node));
            next.extend(found.iter().copied().filter(new));
            markings.insert(marking);
        }
        levels.push((markings, arcs));
        written += nodes;
        current = next;
    }
    (Found { levels, has_overflowed: false }, written)
}

/// Published sizes, with more and with fewer transitions than a block has bits, and than the
/// spare bits of a node can number; in one word, and in several of few places each.
#[test]
fn omits_successors_of_concurrent_nets() {
    for (model, states, share, words) in [
        ("philosophers:9", 19_683, 0.25, 1),
        ("kanban:3", 58_400, 0.4, 1),
        ("fms:2", 3_444, 0.4, 1),
        ("philosophers:8", 6_561, 0.5, 6),
        ("fms:2", 3_444, 0.5, 4),
    ] {
        let net = Net::load(model).unwrap();
        let packing = match words {
            1 => Packing::new(&net).unwrap(),
            _ => Packing::from_wide_widths(&vec![9; net.places().len()], words),
        };
        assert_eq!(packing.words(), words as usize);
        let (found, [all, needed]) = search(&net, &packing, &net.initial(), usize::MAX);
        assert_eq!(found.levels.iter().map(|(level, _)| level.len()).sum::<usize>(), states);
        assert!((needed as f64) < share * all as f64, "{model}: {needed} {all}");
    }
}

/// Generates a packing of 1 to 6 words, and a net of as many places as it has, with weights that fit
/// the fields and some that do not, and a marking near the ends of the fields.
fn packed_nets() -> impl Strategy<Value = (Packing, Net, Vec<u64>)> {
    let width = prop_oneof![2 => 1_u32..=4, 2 => 20_u32..=40, 1 => 0..=STATE_BITS];
    let in_one_word = naive::widths().prop_map(|widths| Packing::from_widths(&widths));
    let in_words = vec(width, 1..=6).prop_map(|widths| Packing::from_wide_widths(&widths, 6));
    prop_oneof![in_one_word, in_words].prop_flat_map(|packing| {
        let places = packing.fields().len();
        let weight = prop_oneof![4 => 1_u64..=2, 2 => 1_u64..=20, 1 => 1..=MAX_TOKENS];
        let ends = btree_map(0..places, weight, 0..4);
        let ends = ends.prop_map(|ends| ends.into_iter().collect::<Vec<_>>());
        let transitions = vec((ends.clone(), ends), 1..6);
        let marking = vec(any::<u64>(), places);
        (transitions, marking).prop_map(move |(transitions, words)| {
            let ends: Vec<Ends<'_>> =
                transitions.iter().map(|(from, to)| (&from[..], &to[..])).collect();
            let max = packing.fields().iter().map(|field| field.max());
            let near_end = |(max, word): (u64, &u64)| match word % 4 {
                0 => (word >> 2) & max,
                1 => max - (word >> 2) % 4.min(max.saturating_add(1)),
                _ => ((word >> 2) % 6).min(max),
            };
            let marking = max.zip(&words).map(near_end).collect();
            (packing.clone(), net(&vec![0; places], &ends), marking)
        })
    })
}

/// Generates nets whose packings leave each number of spare bits to nodes, and packings of 6 words.
fn spare_nets() -> impl Strategy<Value = (Packing, Net, Vec<u64>)> {
    let bits = prop_oneof![2_u32..=10, Just(40)];
    (naive::nets(), bits, 0_u32..=5).prop_map(|(net, bits, spare)| {
        let mut widths = vec![bits; net.places().len()];
        // The last field fills its word up to the spare bits.
        let words = if bits == 40 { 6 } else { 1 };
        let others = if words == 1 { widths.iter().skip(1).sum() } else { 0 };
        *widths.last_mut().unwrap() = (64 - spare - others).min(STATE_BITS);
        (Packing::from_wide_widths(&widths, words), net.clone(), net.initial())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12_000))]

    /// All arcs lead to the successors of the plain rule, and the needed ones to the same levels, however many
    /// transitions the spare bits of a node can number.
    #[test]
    fn searches_match_plain_rule(
        (packing, net, initial) in prop_oneof![2 => packed_nets(), 1 => spare_nets()],
    ) {
        if packing.pack::<6>(&initial).is_ok() {
            let (_, [all, needed]) = search(&net, &packing, &initial, 200);
            prop_assert!(needed <= all);
        }
    }
}
