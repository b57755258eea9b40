use std::collections::BTreeSet;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;
use crate::petri::naive::{self, Ends, Levels, net};
use crate::petri::{MAX_TOKENS, STATE_BITS};

/// Calls a function of the words of a packing, at most 6.
macro_rules! in_words {
    ($packing:expr, $function:ident $arguments:tt) => {
        match $packing.words() {
            1 => $function::<1> $arguments,
            2 => $function::<2> $arguments,
            3 => $function::<3> $arguments,
            4 => $function::<4> $arguments,
            5 => $function::<5> $arguments,
            _ => $function::<6> $arguments,
        }
    };
}

/// Returns the successors of a marking, one for each arc, as markings.
fn fire(net: &Net, packing: &Packing, marking: &[u64]) -> Result<Vec<Vec<u64>>, Overflow> {
    in_words!(packing, fire_in(net, packing, marking))
}

fn fire_in<const W: usize>(
    net: &Net,
    packing: &Packing,
    marking: &[u64],
) -> Result<Vec<Vec<u64>>, Overflow> {
    let expander = Expander::<W>::new(net, packing, Successors::All);
    // Old contents have no effect.
    let mut buffer = vec![[u64::MAX; W]; expander.max_successors()];
    let Expanded { enabled, nodes } =
        expander.expand(&packing.pack(marking).unwrap(), &mut buffer)?;
    assert_eq!(enabled, nodes);
    Ok(buffer[..nodes].iter().map(|state| packing.unpack(state).collect()).collect())
}

/// The levels that a search has expanded before it found more states than its limit, or an overflow.
#[derive(Debug, PartialEq)]
struct Found {
    levels: Levels,
    has_overflowed: bool,
}

/// Searches with all successors and with the needed ones. Returns the levels, which are the same, and
/// the numbers of nodes that were written in them.
#[track_caller]
fn search(net: &Net, packing: &Packing, limit: usize) -> (Found, [usize; 2]) {
    let [(all, all_written), (needed, needed_written)] = [Successors::All, Successors::Needed]
        .map(|written| in_words!(packing, search_in(net, packing, written, limit)));
    assert!(all == needed);
    (all, [all_written, needed_written])
}

/// Returns the levels, and the number of nodes that were written in them.
fn search_in<const W: usize>(
    net: &Net,
    packing: &Packing,
    written: Successors,
    limit: usize,
) -> (Found, usize) {
    let expander = Expander::<W>::new(net, packing, written);
    let initial: [u64; W] = packing.pack(&net.initial()).unwrap();
    let (mut visited, mut written) = (BTreeSet::from([initial]), 0);
    let (mut levels, mut current) = (Levels::new(), vec![initial]);
    let mut buffer = vec![[u64::MAX; W]; expander.max_successors()];
    while !current.is_empty() && visited.len() <= limit {
        let (mut next, mut arcs, mut markings) = (Vec::new(), 0, BTreeSet::new());
        let mut nodes = 0;
        for node in &current {
            let Ok(expanded) = expander.expand(node, &mut buffer) else {
                return (Found { levels, has_overflowed: true }, written);
            };
            nodes += expanded.nodes;
            arcs += expanded.enabled;
            let new = |node: &[u64; W]| visited.insert(expander.state(*node));
            next.extend(buffer[..expanded.nodes].iter().copied().filter(new));
            markings.insert(packing.unpack(&expander.state(*node)).collect());
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
        let (found, [all, needed]) = search(&net, &packing, usize::MAX);
        assert_eq!(found.levels.iter().map(|(level, _)| level.len()).sum::<usize>(), states);
        assert!((needed as f64) < share * all as f64, "{model}: {needed} {all}");
        if words > 1 {
            assert!(found.levels == naive::levels(&net, usize::MAX), "{model}");
        }
    }
}

/// Generates a packing of 1 to 6 words, and a net of as many places as it has, with weights that fit
/// the fields and some that do not.
fn packed_nets() -> impl Strategy<Value = (Packing, Net)> {
    let width = prop_oneof![2 => 1_u32..=4, 2 => 20_u32..=40, 1 => 0..=STATE_BITS];
    let in_one_word = naive::widths().prop_map(|widths| Packing::from_widths(&widths));
    let in_words = vec(width, 1..=6).prop_map(|widths| Packing::from_wide_widths(&widths, 6));
    prop_oneof![in_one_word, in_words].prop_flat_map(|packing| {
        let places = packing.fields().len();
        let weight = prop_oneof![4 => 1_u64..=2, 2 => 1_u64..=20, 1 => 1..=MAX_TOKENS];
        let ends = btree_map(0..places, weight, 0..4);
        let ends = ends.prop_map(|ends| ends.into_iter().collect::<Vec<_>>());
        let transitions = vec((ends.clone(), ends), 1..6);
        transitions.prop_map(move |transitions| {
            let ends: Vec<Ends<'_>> =
                transitions.iter().map(|(from, to)| (&from[..], &to[..])).collect();
            (packing.clone(), net(&vec![0; places], &ends))
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// Both rules give the same successors in the same order. The packed one overflows if and
    /// only if the naive one exceeds a field, and then reports the transition, a place and its
    /// count.
    #[test]
    fn packed_matches_naive_rule(
        (packing, net) in packed_nets(),
        markings in vec(vec(any::<u64>(), 7), 4),
    ) {
        for words in markings {
            let max = packing.fields().iter().map(|field| field.max());
            // Most counts are near the ends of their fields.
            let marking: Vec<u64> = max
                .zip(&words)
                .map(|(max, word)| match word % 4 {
                    0 => (word >> 2) & max,
                    1 => max - (word >> 2) % 4.min(max.saturating_add(1)),
                    _ => ((word >> 2) % 6).min(max),
                })
                .collect();
            let naive = naive::successors(&net, &marking);
            let fits = |after: &[u64]| after.iter().zip(packing.fields()).all(|(&n, f)| n <= f.max());
            let too_many = naive.iter().find(|(_, after)| !fits(after));
            match fire(&net, &packing, &marking) {
                Ok(fired) => {
                    prop_assert!(too_many.is_none());
                    let naive: Vec<_> = naive.into_iter().map(|(_, after)| after).collect();
                    prop_assert_eq!(fired, naive);
                }
                Err(Overflow { place, tokens, transition }) => {
                    let after = too_many.map(|(by, after)| (Some(*by), after[place]));
                    prop_assert_eq!(after, Some((transition, tokens)));
                    prop_assert!(tokens > packing.fields()[place].max());
                }
            }
        }
    }

    /// Every level has the markings and arcs of a plain search, found by all arcs and by the needed
    /// ones, however many transitions the spare bits of a node can number.
    #[test]
    fn levels_match_plain_search(
        net in naive::nets(),
        bits in prop_oneof![2_u32..=10, Just(40)],
        spare in 0_u32..=5,
    ) {
        let mut widths = vec![bits; net.places().len()];
        // The last field fills its word up to the spare bits.
        let words = if bits == 40 { 6 } else { 1 };
        let others = if words == 1 { widths.iter().skip(1).sum() } else { 0 };
        *widths.last_mut().unwrap() = (64 - spare - others).min(STATE_BITS);
        let packing = Packing::from_wide_widths(&widths, words);
        if packing.pack::<6>(&net.initial()).is_ok() {
            let (Found { levels, has_overflowed }, [all, needed]) = search(&net, &packing, 200);
            prop_assert!(needed <= all);
            let naive = naive::levels(&net, 200);
            prop_assert!(naive.starts_with(&levels));
            prop_assert!(has_overflowed || levels.len() == naive.len());
        }
    }
}
