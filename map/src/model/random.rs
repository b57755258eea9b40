//! Scenarios drawn at random.

use probeline_pipeline::model::{
    Draw, Explored, MAX_CLIENTS, RandomCheck, Stopped, Subject, check_random, is_found, shorter,
};

use super::Act::{self, Get, Put, PutIfAbsent, Remove, Replace};
use super::rules;
use super::{BUCKETS, MAX_REQUESTS, Orders, PLAIN, Scenario, Scripts};
use crate::machine::Mutant;
use crate::mode::Mode;

/// Most scenarios are of the default mode.
const MODES: [Mode; 8] = [
    Mode::Claims,
    Mode::Claims,
    Mode::Claims,
    Mode::Claims,
    Mode::Claims,
    Mode::PartLocks,
    Mode::BucketLocks,
    Mode::Unlocked,
];

const CHECK: RandomCheck<'_> = RandomCheck { name: "map", scenarios: 300, max_moves: 20_000 };

/// The most scenarios in which a defect must show.
const MAX_TO_FIND: u64 = 300;

/// Scenarios of the map with a defect.
struct Random(Mutant);

impl Subject for Random {
    type Scenario = Scenario;

    fn draw(&self, draw: &mut Draw) -> Scenario {
        let (mode, keys) = (draw.one_of(&MODES), draw.one_of(&[1, 2, 3, 3]));
        let clients = 2 + draw.below(MAX_CLIENTS - 1);
        let more = MAX_REQUESTS - clients + 1;
        let requests = clients + draw.below(more).min(draw.below(more));
        let favourite = draw.below(keys);
        let scripts = draw.scripts(clients, requests, |draw| {
            let key = if draw.once_in(2) { favourite } else { draw.below(keys) };
            draw.one_of(&[Get, Get, Put, Put, Put, PutIfAbsent, Remove, Remove])(key)
        });
        let buckets = if draw.once_in(4) { BUCKETS } else { 2 };
        let orders = draw_orders(draw, keys, buckets);
        let tears: &[u64] = if draw.once_in(2) { draw.parts() } else { &[] };
        let claims = mode == Mode::Claims;
        let mut scenario = Scenario {
            buckets: buckets as u64,
            orders,
            scripts,
            starts: draw.starts(scripts),
            ages: core::array::from_fn(|_| draw.below(3) as u8),
            claims_with_read: draw.once_in(2),
            tears,
            ordered: draw.once_in(3),
            steals: core::array::from_fn(|_| claims && draw.once_in(6)),
            failures: draw.one_of(&[0, 0, 0, 0, 1, 1, 2]),
            mode,
            mutant: self.0,
            ..PLAIN
        };
        match draw.below(3) {
            0 => {}
            1 => scenario.scripts = with_replacements(draw, scripts),
            _ => scenario.blocks = core::array::from_fn(|_| draw.once_in(2)),
        }
        Scenario { keeps: keeps(&scenario), ..scenario }
    }

    fn check(&self, scenario: &Scenario, max_moves: usize) -> Result<Explored, Stopped> {
        rules::check_within(scenario, max_moves)
    }

    fn smaller(&self, scenario: &Scenario) -> Vec<Scenario> {
        let shorter = shorter(scenario.scripts, scenario.starts);
        let shorter =
            shorter.into_iter().map(|(scripts, starts)| Scenario { scripts, starts, ..*scenario });
        let calmer = [
            Scenario { failures: scenario.failures.saturating_sub(1), ..*scenario },
            Scenario { tears: &[], ..*scenario },
            Scenario { steals: PLAIN.steals, ..*scenario },
            Scenario { blocks: PLAIN.blocks, ..*scenario },
            Scenario { ages: PLAIN.ages, ..*scenario },
            Scenario { claims_with_read: false, ..*scenario },
            Scenario { ordered: false, ..*scenario },
        ];
        shorter.chain(calmer).collect()
    }
}

/// Draws the candidates of each key: mostly all buckets. A key may also have a bucket twice.
fn draw_orders(draw: &mut Draw, keys: usize, buckets: usize) -> Orders {
    if draw.once_in(4) {
        let candidates = 1 + draw.below(buckets);
        return draw.items(keys, |draw| draw.items(candidates, |draw| draw.below(buckets) as u64));
    }
    draw.items(keys, |draw| {
        let mut rest: Vec<u64> = (0..buckets as u64).collect();
        draw.items(buckets, |draw| rest.remove(draw.below(rest.len())))
    })
}

/// Turns some of the puts into replacements of what others put.
fn with_replacements(draw: &mut Draw, scripts: Scripts) -> Scripts {
    let all = scripts.concat();
    let puts = |key| {
        let is_put = |act: &Act| matches!(act, Put(of) | PutIfAbsent(of) if *of == key);
        (0..all.len()).filter(|number| is_put(&all[*number])).collect::<Vec<_>>()
    };
    let script = |script: &&[Act]| {
        let act = |act: &Act| match *act {
            Put(key) | PutIfAbsent(key) if draw.once_in(2) => Replace(key, draw.one_of(&puts(key))),
            other => other,
        };
        &*script.iter().map(act).collect::<Vec<_>>().leak()
    };
    scripts.iter().map(script).collect::<Vec<_>>().leak()
}

/// Returns whether no entry may be lost: every key has a bucket of its own.
fn keeps(scenario: &Scenario) -> bool {
    let all = scenario.scripts.concat();
    let has_all = |order: &&[u64]| (0..scenario.buckets).all(|bucket| order.contains(&bucket));
    scenario.mode == Mode::Claims
        && scenario.failures == 0
        && scenario.steals == PLAIN.steals
        && !all.iter().any(|act| matches!(act, Remove(_)))
        && scenario.orders.len() as u64 <= scenario.buckets
        && scenario.orders.iter().all(has_all)
}

#[test]
fn random_scenarios() {
    check_random(CHECK, &Random(Mutant::None));
}

/// Each defect shows in one of the scenarios drawn, rare ones from the given seed on.
#[test]
fn random_scenarios_find_every_mutant() {
    for (mutant, first) in [
        (Mutant::KeepsDroppedCheck, 400),
        (Mutant::TrustsKeys, 0),
        (Mutant::ComparesNothing, 200),
        (Mutant::PassesMixed, 0),
        (Mutant::TrustsTornClaims, 100),
        (Mutant::EntersWithoutLock, 0),
        (Mutant::PublishesEarly, 200),
        (Mutant::ReplacesAll, 0),
    ] {
        let name = format!("{mutant:?}");
        let seeds = first..first + MAX_TO_FIND;
        is_found(RandomCheck { name: &name, ..CHECK }, &Random(mutant), seeds);
    }
}
