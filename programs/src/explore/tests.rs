//! Explorations in threads, and a plain search to compare them with.

use fastrand::Rng;
use probeline::exchange::threads;
use probeline::shm::{self, Builder};
use probeline::transport::conformance::on_threads;

use super::*;
use crate::petri::Invariant;
use crate::petri::naive::{Ends, levels, net};

struct Engines(shm::Engine);

impl Engine for Engines {
    fn current(&mut self) -> &mut dyn Timed {
        &mut self.0
    }

    fn grow(
        &mut self,
        sizes: Sizes,
        exchange: &mut dyn Exchange,
        move_content: &mut MoveContent<'_>,
    ) -> Result<Moved, Error> {
        let mut next = Builder::new(sizes).open(exchange)?;
        let moved = move_content(&mut self.0, &mut next, exchange)?;
        if moved.is_ok() {
            self.0 = next;
        }
        Ok(moved)
    }
}

/// A rank that stops after some levels.
struct Rank(u64);

impl Host for Rank {
    fn stop(&self) -> u64 {
        if self.0 == 0 { 15 } else { 0 }
    }

    fn show(&mut self, progress: Progress) {
        self.0 -= u64::from(matches!(progress, Progress::Level { .. }) && self.0 > 0);
    }

    fn configure(
        &mut self,
        _: &mut dyn Timed,
        config: Config,
        _: &mut dyn Exchange,
    ) -> Result<Config, Error> {
        Ok(config)
    }
}

fn exploration_of(net: Net, states: StatesChoice, ranks: u32) -> Exploration {
    Exploration {
        packing: Packing::wide(&net, &states.widths()).unwrap(),
        net,
        properties: Vec::new(),
        states,
        config: Config::new(0),
        in_flight: 32,
        cache_entries: 0,
        batch: 64,
        recent_states: 1 << 10,
        all_successors: false,
        ranks,
        ranks_here: ranks,
        table_bytes: 1 << 18,
        max_table_bytes: Some(1 << 26),
        grows: true,
    }
}

fn of(model: &str, states: StatesChoice, ranks: u32) -> Exploration {
    exploration_of(Net::load(model).unwrap(), states, ranks)
}

/// Explores up to this number of levels. Returns the result of rank 0.
fn explored_up_to(exploration: &Exploration, max: u64) -> Result<Explored, Error> {
    let all = on_threads(threads(exploration.ranks), |mut job| {
        let mut engines = Engines(Builder::new(exploration.sizes()).open(&mut job).unwrap());
        run(exploration, &mut engines, &mut Rank(max), &mut job)
    });
    all.into_iter().next().unwrap()
}

fn explored(exploration: &Exploration) -> Explored {
    explored_up_to(exploration, u64::MAX).unwrap()
}

/// Returns states, arcs and deadlocks.
fn counts(explored: &Explored) -> [u64; 3] {
    let Counts { states, arcs, deadlocks, .. } = explored.ended.counts;
    [states, arcs, deadlocks]
}

/// As published for `FMS-PT-00002` and `Philosophers-PT-000005` of the Model Checking Contest.
#[test]
fn reproduces_published_counts() {
    for (model, size) in [("fms:2", [3_444, 16_311, 0]), ("philosophers:5", [243, 945, 2])] {
        for states in [StatesChoice::Auto, StatesChoice::Flat, StatesChoice::Tree] {
            for ranks in 1..=3 {
                let all = explored(&of(model, states, ranks));
                assert_eq!(
                    (counts(&all), all.ended.ending),
                    (size, Ending::Complete),
                    "{model} {ranks}"
                );
            }
        }
    }
}

#[test]
fn tables_grow_or_name_limit() {
    for states in [StatesChoice::Auto, StatesChoice::Flat, StatesChoice::Tree] {
        let small = Exploration { table_bytes: 1 << 12, ..of("fms:2", states, 2) };
        let grown = explored(&small);
        assert!(grown.growths > 0 && grown.table_bytes > 1 << 12);
        assert_eq!(counts(&grown), [3_444, 16_311, 0]);
        let bounded = Exploration { max_table_bytes: Some(1 << 12), ..small };
        let Err(Error::OutOfRoom(full)) = explored_up_to(&bounded, u64::MAX) else { panic!() };
        let is_asked = matches!(full.reason, Reason::Table { limit: Limit::Asked(bytes), .. } if bytes == 1 << 12);
        assert!(is_asked, "{full:?}");
    }
}

#[test]
fn stops_with_rank_number() {
    let stopped = explored_up_to(&of("philosophers:9", StatesChoice::Auto, 2), 4).unwrap();
    assert_eq!(stopped.ended.ending, Ending::Stopped(15));
    assert!(stopped.ended.open > 0 && stopped.ended.counts.states < 19_683);
}

/// Returns a net of `places` places and as many tokens, which `transitions` random transitions move.
fn random_net(seed: u64, places: usize, transitions: usize) -> Net {
    let mut random = Rng::with_seed(seed);
    let mut tokens = vec![0; places];
    (0..places).for_each(|_| tokens[random.usize(..places)] += 1);
    let mut end =
        |count: usize| (0..count).map(|_| (random.usize(..places), 1)).collect::<Vec<_>>();
    let ends: Vec<_> = (0..transitions).map(|at| (end(1 + at % 3), end(1 + at % 3))).collect();
    let ends: Vec<Ends<'_>> = ends.iter().map(|(from, to)| (&from[..], &to[..])).collect();
    net(&tokens, &ends)
}

/// Checks the verdict on a property whose nearest violation has this distance, if there is one: its path
/// leads from the initial marking to a violation.
#[track_caller]
fn check(net: &Net, verdict: &Verdict, distance: Option<usize>, violates: impl Fn(&[u64]) -> bool) {
    let Some(distance) = distance else {
        assert_eq!((verdict.holds, &verdict.path, &verdict.marking), (Some(true), &None, &None));
        return;
    };
    let (path, marked) = (verdict.path.as_ref().unwrap(), verdict.marking.as_ref().unwrap());
    assert_eq!((verdict.holds, path.len()), (Some(false), distance), "{verdict:?}");
    let mut marking = net.initial();
    for id in path {
        let transition = net.transitions().iter().find(|of| of.id == *id).unwrap();
        assert!(transition.is_enabled(&marking), "{id} in {verdict:?}");
        transition.fire(&mut marking);
    }
    let tokens = net.places().iter().map(|place| marked.get(&place.id).copied().unwrap_or(0));
    assert!(tokens.eq(marking.iter().copied()) && violates(&marking), "{verdict:?}");
}

/// With and without successors that are left out, with one and with several ranks.
#[test]
fn matches_plain_search() {
    let (mut deadlocks, mut violations) = (0, 0);
    for seed in 0..48 {
        let shape = usize::try_from(seed).unwrap();
        let net = random_net(seed, 4 + shape % 4, 5 + shape % 5);
        let plain = levels(&net, usize::MAX);
        let is_dead = |at: &[u64]| !net.transitions().iter().any(|of| of.is_enabled(at));
        let markings = || plain.iter().flat_map(|(markings, _)| markings);
        let dead = markings().filter(|at| is_dead(at)).count() as u64;
        let arcs = plain.iter().map(|(_, arcs)| *arcs as u64).sum();
        let size = [markings().count() as u64, arcs, dead];
        let ranks = [1, 3][usize::from(seed % 4 == 3)];
        let mut exploration = exploration_of(net.clone(), StatesChoice::Auto, ranks);
        exploration.all_successors = seed % 5 == 4;
        exploration.recent_states = if exploration.all_successors { 0 } else { 1 << 14 };
        let all = explored(&exploration);
        assert_eq!((counts(&all), all.ended.counts.levels), (size, plain.len() as u64), "{net:?}");

        let bound = 1 + markings().map(|at| at[1]).max().unwrap() / 2;
        let violates = |at: &[u64]| at[0] + 2 * at[1] > bound + at[2];
        let texts = [&format!("p0 + 2*p1 <= {bound} + p2"), "p0 >= 0"];
        let invariants =
            texts.map(|text| Property::Invariant(Invariant::parse(text, &net).unwrap()));
        exploration.properties = [Property::NoDeadlock].into_iter().chain(invariants).collect();
        let all = explored(&exploration);
        assert_eq!(all.ended.ending, Ending::Complete, "one property is not violated");
        let distance = |violates: &dyn Fn(&[u64]) -> bool| {
            plain.iter().position(|(markings, _)| markings.iter().any(|at| violates(at)))
        };
        let distances = [distance(&is_dead), distance(&violates)];
        check(&net, &all.ended.verdicts[0], distances[0], is_dead);
        check(&net, &all.ended.verdicts[1], distances[1], violates);
        check(&net, &all.ended.verdicts[2], None, |_| false);
        deadlocks += usize::from(distances[0].is_some_and(|distance| distance > 1));
        violations += usize::from(distances[1].is_some_and(|distance| distance > 1));
    }
    assert!(deadlocks >= 4 && violations >= 3, "{deadlocks} {violations}");
}
