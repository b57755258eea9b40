//! Scenarios drawn at random, of narrow keys, wide keys and trees.

use probeline_pipeline::model::{
    self, Draw, Explored, MAX_CLIENTS, RandomCheck, Stopped, check_random, is_found, shorter,
};

use super::subject::{Case, Narrow, Subject};
use super::tree::TreeKeys;
use super::wide::WideKeys;
use super::{KEYS, MAX_REQUESTS, Mutant, PAPER, Request, Scenario, find, put};
use crate::direct::Direct;
use crate::layout::Probing;
use crate::tree::TreeMutant;
use crate::wide::WideMutant;

const CHECK: RandomCheck<'_> = RandomCheck { name: "table", scenarios: 200, max_moves: 20_000 };
/// The most scenarios in which a defect must show.
const MAX_TO_FIND: u64 = 1_000;

/// Scenarios of one kind of keys, drawn from those of any keys.
#[derive(Clone, Copy)]
struct Random<S> {
    draw: fn(&mut Draw, Scenario) -> (S, Scenario),
    mutate: fn(&mut S, &mut Scenario),
}

impl<S: Subject> model::Subject for Random<S> {
    type Scenario = Case<S>;

    fn draw(&self, draw: &mut Draw) -> Case<S> {
        let any = draw_any(draw);
        let (mut subject, mut scenario) = (self.draw)(draw, any);
        (self.mutate)(&mut subject, &mut scenario);
        Case { scenario, subject }
    }

    fn check(&self, case: &Case<S>, max_moves: usize) -> Result<Explored, Stopped> {
        model::check_within(case, max_moves)
    }

    fn smaller(&self, &Case { ref scenario, subject }: &Case<S>) -> Vec<Case<S>> {
        let shorter = shorter(scenario.scripts, scenario.starts);
        let shorter =
            shorter.into_iter().map(|(scripts, starts)| Scenario { scripts, starts, ..*scenario });
        let calmer = [
            Scenario { failures: scenario.failures.saturating_sub(1), ..*scenario },
            Scenario { words_tear: false, ..*scenario },
            Scenario { clears: false, ..*scenario },
            Scenario { storage: 1, ..*scenario },
            Scenario { batch: false, ..*scenario },
            Scenario { cache_entries: 0, ..*scenario },
            Scenario { one_roundtrip: PAPER.one_roundtrip, ..*scenario },
            Scenario { direct: PAPER.direct, ..*scenario },
            Scenario { ahead_from: u32::MAX, ..*scenario },
        ];
        shorter.chain(calmer).map(|scenario| Case { scenario, subject }).collect()
    }
}

/// Draws requests, homes and a network, and a table of up to four buckets.
fn draw_any(draw: &mut Draw) -> Scenario {
    let clients = 2 + draw.below(MAX_CLIENTS - 1);
    let more = MAX_REQUESTS - clients + 1;
    let requests = clients + draw.below(more).min(draw.below(more));
    let scripts = draw.scripts(clients, requests, |draw| {
        let request: fn(usize) -> Request = draw.one_of(&[put as fn(usize) -> Request, put, find]);
        request(draw.below(KEYS.len()))
    });
    let buckets = 2 + draw.below(3);
    let chunk = 1 + draw.below(buckets);
    Scenario {
        buckets,
        chunk,
        max_chunks: 1 + draw.below(buckets.div_ceil(chunk)) as u32,
        homes: core::array::from_fn(|_| draw.below(buckets)),
        scripts,
        starts: draw.starts(scripts),
        one_roundtrip: core::array::from_fn(|_| draw.once_in(3)),
        ahead_from: draw.one_of(&[0, u32::MAX]),
        clears: draw.once_in(4),
        words_tear: draw.once_in(2),
        failures: draw.one_of(&[0, 0, 1, 2]),
        ..PAPER
    }
}

/// Draws narrow keys, some in lines that the CPUs reach, and some in a batch of the first client, which
/// repeats no request that has failed.
fn draw_narrow(draw: &mut Draw, any: Scenario) -> (Narrow, Scenario) {
    let cache_entries = draw.one_of(&[0, 0, 1, 8]);
    let mut scenario = Scenario { cache_entries, batch: draw.once_in(3), ..any };
    if scenario.batch {
        scenario = Scenario { failures: 0, clears: false, ..scenario };
    }
    if draw.once_in(4) {
        return (Narrow, draw_lines(draw, scenario));
    }
    let storage = 1 + usize::from(draw.once_in(3));
    if scenario.buckets == 4 && scenario.chunk <= 2 && draw.once_in(2) {
        return (Narrow, Scenario { owners: 2, storage, ..scenario });
    }
    (Narrow, Scenario { storage, ..scenario })
}

/// Draws one line, probed with wrap-around, or two, of which the CPUs reach the first one.
fn draw_lines(draw: &mut Draw, any: Scenario) -> Scenario {
    let lines = 1 + draw.below(2);
    let mut free: Vec<usize> = (0..8 * lines).collect();
    let filled = draw.items(8 * lines - 3, |draw| free.remove(draw.below(free.len())));
    Scenario {
        owners: lines as u32,
        buckets: 8 * lines,
        chunk: 8,
        max_chunks: lines as u32,
        probing: if lines == 1 { Probing::Lines } else { Probing::Linear },
        filled,
        homes: core::array::from_fn(|_| draw.below(8 * lines)),
        direct: core::array::from_fn(|_| {
            draw.one_of(&[Direct::Off, Direct::Loads, Direct::Claims])
        }),
        ..any
    }
}

fn draw_wide(draw: &mut Draw, any: Scenario) -> (WideKeys, Scenario) {
    (WideKeys::draw(draw), Scenario { one_roundtrip: PAPER.one_roundtrip, ..any })
}

fn draw_tree(draw: &mut Draw, any: Scenario) -> (TreeKeys, Scenario) {
    let cache_entries = draw.below(2);
    (TreeKeys::draw(draw), Scenario { cache_entries, words_tear: false, ..any })
}

const NARROW: Random<Narrow> = Random { draw: draw_narrow, mutate: |_, _| {} };
const WIDE: Random<WideKeys> = Random { draw: draw_wide, mutate: |_, _| {} };
const TREE: Random<TreeKeys> = Random { draw: draw_tree, mutate: |_, _| {} };

#[test]
fn random_scenarios() {
    check_random(RandomCheck { name: "narrow keys", ..CHECK }, &NARROW);
}

#[test]
fn random_scenarios_of_wide_keys() {
    check_random(RandomCheck { name: "wide keys", ..CHECK }, &WIDE);
}

#[test]
fn random_scenarios_of_trees() {
    check_random(RandomCheck { name: "trees", ..CHECK }, &TREE);
}

/// Checks that each defect shows in one of the scenarios drawn.
fn finds<S: Subject>(name: &str, random: Random<S>, mutate: fn(&mut S, &mut Scenario)) {
    is_found(RandomCheck { name, ..CHECK }, &Random { mutate, ..random }, 0..MAX_TO_FIND);
}

#[test]
fn random_scenarios_find_every_mutant() {
    finds("torn words", NARROW, |_, scenario| scenario.mutant = Mutant::TrustsTornWords);
    finds("reads", NARROW, |_, scenario| scenario.mutant = Mutant::BelievesRead);
    finds("a cache of torn words", NARROW, |_, scenario| scenario.mutant = Mutant::LearnsTornWords);
    finds("a cache", NARROW, |_, scenario| scenario.mutant = Mutant::KeepsCache);
    finds("claims", NARROW, |_, scenario| scenario.mutant = Mutant::MisreportsClaims);
    finds("claims of a batch", NARROW, |_, scenario| {
        scenario.mutant = Mutant::MisreportsClaims;
        (scenario.batch, scenario.failures, scenario.clears) = (true, 0, false);
    });
}

#[test]
fn random_scenarios_find_wide_mutants() {
    finds("claims", WIDE, |keys, _| keys.mutant = WideMutant::ClaimsEarly);
    finds("tags", WIDE, |keys, _| keys.mutant = WideMutant::TrustsTags);
    finds("failed writes", WIDE, |keys, _| keys.mutant = WideMutant::KeepsEarly);
    finds("failed claims", WIDE, |keys, _| keys.mutant = WideMutant::KeepsClaimed);
}

#[test]
fn random_scenarios_find_tree_mutants() {
    finds("references", TREE, |keys, _| keys.mutant = TreeMutant::Misplaces);
    finds("roots", TREE, |keys, _| keys.mutant = TreeMutant::Unmarked);
    finds("posts", TREE, |keys, _| keys.mutant = TreeMutant::KeepsPosts);
    finds("a cache", TREE, |_, scenario| scenario.mutant = Mutant::KeepsCache);
}
