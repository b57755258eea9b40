//! Explorations in threads, and a plain search to compare them with.

use fastrand::Rng;
use probeline::exchange::threads;
use probeline::shm;
use probeline::sim::{self, Cluster, Model, stage};
use probeline::table::{ChunkChoice, OneRoundtrip, Probing, ReadAhead, ReadCost};
use probeline::transport::conformance::on_threads;

use super::*;
use crate::petri::Invariant;
use crate::petri::naive::{Ends, levels, net};

type Open<T> = fn(Sizes, &mut dyn Exchange) -> Result<T, Error>;

/// An engine, and what opens the next one; the simulator has one in a job.
struct Engines<T>(T, Option<Open<T>>);

impl<T: Timed> Engine for Engines<T> {
    fn current(&mut self) -> &mut dyn Timed {
        &mut self.0
    }

    fn grow(
        &mut self,
        sizes: Sizes,
        exchange: &mut dyn Exchange,
        move_content: &mut MoveContent<'_>,
    ) -> Result<Moved, Error> {
        let mut next = self.1.unwrap()(sizes, exchange)?;
        let moved = move_content(&mut self.0, &mut next, exchange)?;
        if moved.is_ok() {
            self.0 = next;
        }
        Ok(moved)
    }
}

fn open(sizes: Sizes, exchange: &mut dyn Exchange) -> Result<shm::Engine, Error> {
    Ok(shm::Builder::new(sizes).open(exchange)?)
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

pub(super) fn exploration_of(net: Net, states: StatesChoice, ranks: u32) -> Exploration {
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
        let mut engines = Engines(open(exploration.sizes(), &mut job).unwrap(), Some(open));
        run(exploration, &mut engines, &mut Rank(max), &mut job)
    });
    all.into_iter().next().unwrap()
}

fn explored(exploration: &Exploration) -> Explored {
    explored_up_to(exploration, u64::MAX).unwrap()
}

/// Returns states, arcs and deadlocks.
fn counts(explored: &Explored) -> [u64; 3] {
    let Counts { states, arcs, deadlocks, .. } = explored.counts;
    [states, arcs, deadlocks]
}

/// Explores over the simulator, with the costs of a model, up to this number of rounds. Returns the result of
/// rank 0 and the trace.
fn explored_over_sim(exploration: &Exploration, model: Model, max: u64) -> (Explored, u64) {
    let sizes = exploration.sizes();
    let config = sim::Config { model, ..sim::Config::new(exploration.ranks, sizes) };
    let cluster = Cluster::new(config).unwrap();
    let all = stage::run(&cluster, |engine, mut exchange| {
        let mut engines = Engines(engine, None);
        let explored = run(exploration, &mut engines, &mut Rank(max), &mut exchange).unwrap();
        exchange.barrier().unwrap();
        explored
    });
    (all.unwrap().remove(0), cluster.trace_hash())
}

const ALL_CHOICES: [StatesChoice; 3] = [StatesChoice::Auto, StatesChoice::Flat, StatesChoice::Tree];

/// As published for `FMS-PT-00002`, `Philosophers-PT-000005` and `Peterson-PT-2` of the Model Checking
/// Contest, which has larger instances of `kanban` only, and for that by Ciardo and Tilgner.
const PUBLISHED: [(&str, [u64; 3]); 4] = [
    ("fms:2", [3_444, 16_311, 0]),
    ("philosophers:5", [243, 945, 2]),
    ("peterson:2", [20_754, 62_262, 0]),
    ("kanban:2", [4_600, 28_120, 0]),
];

/// Batches of one and of several, split at any place; states that are remembered, forgotten at once, and
/// not remembered; and the options of the table.
const OPTIONS: [fn(&mut Exploration); 11] = [
    |_| (),
    |it| (it.batch, it.recent_states, it.all_successors) = (1, 0, true),
    |it| it.batch = 1,
    |it| (it.batch, it.recent_states) = (7, 2),
    |it| (it.batch, it.recent_states, it.all_successors) = (1_000_000, 0, true),
    |it| it.in_flight = 2,
    |it| (it.config, it.batch) = (Config::paper(0), 1),
    |it| (it.cache_entries, it.recent_states, it.all_successors) = (1 << 10, 0, true),
    |it| {
        it.config = Config { probing: Probing::DoubleHash, chunk_buckets: 8, ..it.config };
        it.config.max_chunks = 128;
    },
    |it| {
        (it.config.direct, it.config.one_roundtrip) = (false, OneRoundtrip::On);
        it.cache_entries = 256;
    },
    |it| {
        it.config = Config { read_ahead: ReadAhead::Never, direct: false, ..it.config };
        it.config.chunk_choice =
            ChunkChoice::Adaptive(ReadCost { base_ps: 1_000_000, bucket_ps: 1_000 });
    },
];

#[test]
fn counts_ignore_search_options() {
    for (model, size) in PUBLISHED {
        for (at, states) in ALL_CHOICES.into_iter().enumerate() {
            for (number, options) in OPTIONS.iter().enumerate() {
                let ranks = 1 + u32::try_from((at + number) % 3).unwrap();
                let mut exploration = of(model, states, ranks);
                options(&mut exploration);
                let all = explored(&exploration);
                let found = (counts(&all), all.ending);
                assert_eq!(found, (size, Ending::Complete), "{model} {states:?} {number}");
            }
        }
    }
}

/// If a roundtrip takes a millisecond, a level takes many rounds. A rank may stop within it.
#[test]
fn levels_take_many_rounds() {
    for states in ALL_CHOICES {
        let fast = Exploration { grows: false, ..of("philosophers:5", states, 2) };
        let (all, _) = explored_over_sim(&fast, Model::instant(), u64::MAX);
        assert_eq!(counts(&all), [243, 945, 2]);
    }
    let mut slow = of("philosophers:9", StatesChoice::Auto, 2);
    (slow.recent_states, slow.all_successors, slow.grows) = (0, true, false);
    let cost = Model::simple(1_000_000);
    let [(all, trace), (_, again)] = [(); 2].map(|()| explored_over_sim(&slow, cost, u64::MAX));
    assert_eq!(trace, again);
    assert_eq!((counts(&all), all.counts.levels), ([19_683, 137_781, 2], 10));
    let (stopped, _) = explored_over_sim(&slow, cost, 12);
    assert_eq!(stopped.ending, Ending::Stopped(15));
    assert!(stopped.open > 0 && stopped.counts.levels < 9, "{stopped:?}");
}

/// Known states and hits of the cache are counted separately, and neither is looked up in the table. The
/// cache has no part in lines that the CPU examines.
#[test]
fn counts_hits_separately() {
    let puts =
        [(0, 0), (16, 0), (1 << 16, 0), (0, 1 << 16), (2, 1 << 16)].map(|(recent, cache)| {
            let mut exploration = of("fms:2", StatesChoice::Auto, 1);
            exploration.config.direct = false;
            exploration.all_successors = recent == 0;
            (exploration.recent_states, exploration.cache_entries) = (recent, cache);
            let Explored { counts, stats, .. } = explored(&exploration);
            // No arc leads to the initial state.
            assert_eq!(counts.known + counts.find_or_puts, counts.arcs + 1);
            let hits = stats.buckets.total().cache_hits;
            assert!(
                hits <= counts.find_or_puts - counts.states,
                "no cache has new states: {counts:?}"
            );
            assert_eq!(
                (counts.known > 0, hits > counts.find_or_puts / 20),
                (recent > 0, cache > 0)
            );
            counts.find_or_puts
        });
    assert!(puts[2] < puts[1] && puts[1] < puts[0] && puts[2] < 3_444 * 3 / 2, "{puts:?}");
}

#[test]
fn tables_grow_or_name_limit() {
    for states in ALL_CHOICES {
        for (ranks, options) in
            [(1, OPTIONS[0]), (1, OPTIONS[2]), (2, OPTIONS[10]), (3, |it| it.config.max_chunks = 2)]
        {
            let mut small =
                Exploration { table_bytes: 1 << 12, ..of("philosophers:9", states, ranks) };
            options(&mut small);
            let grown = explored(&small);
            assert!((1..4).contains(&grown.growths) && grown.table_bytes > 1 << 12, "{grown:?}");
            assert_eq!(counts(&grown), [19_683, 137_781, 2]);
            let bounded = Exploration { max_table_bytes: Some(1 << 15), ..small };
            let Err(Error::OutOfRoom(full)) = explored_up_to(&bounded, u64::MAX) else { panic!() };
            let is_asked = matches!(full.reason, Reason::Table { limit: Limit::Asked(bytes), .. } if bytes == 1 << 15);
            assert!(is_asked && (1..19_683).contains(&full.states) && full.levels > 0, "{full:?}");
        }
    }
}

/// Returns a net with as many tokens as rings of places, each of which moves in its ring.
fn rings(lengths: [usize; 3]) -> Net {
    let (mut tokens, mut ends) = (Vec::new(), Vec::new());
    for length in lengths {
        let first = tokens.len();
        tokens.extend((0..length).map(|at| u64::from(at == 0)));
        ends.extend((0..length).map(|at| ([(first + at, 1)], [(first + (at + 1) % length, 1)])));
    }
    let ends: Vec<Ends<'_>> = ends.iter().map(|(from, to)| (&from[..], &to[..])).collect();
    net(&tokens, &ends)
}

/// Trees of long states, of which some have more nodes than the first table has buckets, or than a short
/// probe limit finds room for.
#[test]
fn long_states_fit_trees() {
    for lengths in [[20, 20, 30], [100, 20, 7], [300, 7, 7]] {
        let states = lengths.iter().product::<usize>() as u64;
        for (choice, ranks) in
            [(StatesChoice::Flat, 2), (StatesChoice::Tree, 1), (StatesChoice::Tree, 3)]
        {
            let mut exploration = exploration_of(rings(lengths), choice, ranks);
            if choice == StatesChoice::Tree {
                exploration.table_bytes = 192;
                (exploration.config.chunk_buckets, exploration.config.max_chunks) = (8, 1);
            }
            let all = explored(&exploration);
            let levels = lengths.iter().map(|length| length - 1).sum::<usize>() as u64 + 1;
            assert_eq!((counts(&all), all.counts.levels), ([states, 3 * states, 0], levels));
            // A bucket, and at most one inner node a state in nets as small as these.
            let bytes = 8 * all.occupied / states + all.entry_bytes;
            assert_eq!((8..20).contains(&bytes), choice == StatesChoice::Tree, "{bytes}");
            assert!(all.growths > 0);
        }
    }
}

/// Returns a net with these tokens and transitions, 60 tokens that move at any time, and places that take the
/// other bits.
fn with_movers(tokens: [u64; 3], ends: &[Ends<'_>], full: usize) -> Net {
    let movers: Ends<'_> = (&[(3, 1)], &[(4, 1)]);
    net(&[&tokens[..], &[60, 0], &vec![1; full]].concat(), &[ends, &[movers]].concat())
}

/// Returns a net of 1,500 tokens that move to a place, which holds more than expected.
///
/// It is bounded, but a place that stays empty keeps invariants from showing it. 1,024 tokens need one bit more
/// than expected: neither a search of 20,000 states nor a walk of 1,024 steps reaches them.
fn too_long_to_foresee(full: usize) -> Net {
    let feed: Ends<'_> = (&[(2, 1)], &[(2, 1), (1, 1), (0, 1)]);
    with_movers([1500, 0, 0], &[(&[(0, 1)], &[(1, 1)]), feed], full)
}

/// The packing grows within one word, or from 63 bits to a second word; in the first table, and in one
/// that has grown.
#[test]
fn restarts_with_wider_states() {
    for (full, words) in [(29, 1), (30, 2)] {
        for (ranks, table_bytes) in [(1, 8 << 20), (2, 1 << 12)] {
            let exploration = exploration_of(too_long_to_foresee(full), StatesChoice::Auto, ranks);
            let all = explored(&Exploration { table_bytes, ..exploration });
            assert_eq!(counts(&all), [1501 * 61, 1500 * 61 + 1501 * 60, 1]);
            assert_eq!((all.bits > 63, all.words), (words == 2, words));
            assert_eq!(all.growths > 0, table_bytes == 1 << 12);
        }
    }
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

/// With and without successors that are left out. The verdicts are the same for any kind of states and any ranks.
#[test]
fn matches_plain_search() {
    let (mut deadlocks, mut violations) = (0, 0);
    let random = (0..48).map(|seed| {
        let shape = usize::try_from(seed).unwrap();
        random_net(seed, 4 + shape % 4, 5 + shape % 5)
    });
    for (seed, net) in (0..).zip(random.chain([Net::load("philosophers:6").unwrap()])) {
        let plain = levels(&net, usize::MAX);
        let is_dead = |at: &[u64]| !net.transitions().iter().any(|of| of.is_enabled(at));
        let markings = || plain.iter().flat_map(|(markings, _)| markings);
        let dead = markings().filter(|at| is_dead(at)).count() as u64;
        let arcs = plain.iter().map(|(_, arcs)| *arcs as u64).sum();
        let size = [markings().count() as u64, arcs, dead];
        let [first, second, third] = [0, 1, 2].map(|at| &*net.places()[at].id);
        let bound = 1 + markings().map(|at| at[1]).max().unwrap() / 2;
        let violates = |at: &[u64]| at[0] + 2 * at[1] > bound + at[2];
        let texts =
            [&*format!("{first} + 2*{second} <= {bound} + {third}"), &format!("{first} >= 0")];
        let distance = |violates: &dyn Fn(&[u64]) -> bool| {
            plain.iter().position(|(markings, _)| markings.iter().any(|at| violates(at)))
        };
        let distances = [distance(&is_dead), distance(&violates)];
        let mut verdicts = Vec::new();
        for (states, ranks) in ALL_CHOICES.into_iter().zip([1, 2, 3]) {
            let mut exploration = exploration_of(net.clone(), states, ranks);
            exploration.all_successors = seed % 5 == 4;
            exploration.recent_states = if exploration.all_successors { 0 } else { 1 << 14 };
            exploration.batch = if seed % 2 == 0 { 64 } else { ranks };
            let all = explored(&exploration);
            assert_eq!((counts(&all), all.counts.levels), (size, plain.len() as u64), "{net:?}");
            let all = explored(&with_properties(exploration, &texts));
            assert_eq!(all.ending, Ending::Complete, "one property is not violated");
            check(&net, &all.verdicts[0], distances[0], is_dead);
            check(&net, &all.verdicts[1], distances[1], violates);
            check(&net, &all.verdicts[2], None, |_| false);
            verdicts.push(all.verdicts);
        }
        assert!(verdicts[0] == verdicts[1] && verdicts[0] == verdicts[2], "{net:?}");
        deadlocks += usize::from(distances[0].is_some_and(|distance| distance > 1));
        violations += usize::from(distances[1].is_some_and(|distance| distance > 1));
    }
    assert!(deadlocks >= 4 && violations >= 3, "{deadlocks} {violations}");
}

fn with_properties(exploration: Exploration, invariants: &[&str]) -> Exploration {
    let parse =
        |text: &&str| Property::Invariant(Invariant::parse(text, &exploration.net).unwrap());
    let invariants = invariants.iter().map(parse);
    let properties = [Property::NoDeadlock].into_iter().chain(invariants).collect();
    Exploration { properties, ..exploration }
}

#[test]
fn ends_once_all_properties_fail() {
    let invariants = ["work_1 < 1", "ticket_1 + work_1 + rework_1 + done_1 == 3"];
    let mut asked = with_properties(of("kanban:3", StatesChoice::Auto, 2), &invariants);
    asked.properties.remove(0);
    let Explored { counts, ending, verdicts, .. } = explored(&asked);
    assert_eq!((counts.states, ending), (58_400, Ending::Complete));
    assert_eq!([verdicts[0].holds, verdicts[1].holds], [Some(false), Some(true)]);
    asked.properties.truncate(1);
    let Explored { counts, ending, open, .. } = explored(&asked);
    assert_eq!((counts.levels, ending), (2, Ending::Answered));
    assert!(open > 0);
}

/// Returns a producer that fills a buffer, which no transition empties.
fn producer(full: usize) -> Net {
    let deliver: Ends<'_> = (&[(1, 1)], &[(0, 1), (2, 1)]);
    with_movers([1, 0, 0], &[(&[(0, 1)], &[(1, 1)]), deliver], full)
}

/// Neither a table nor a state has room for all states. With a violation, that is a result.
#[test]
fn reports_violation_when_room_ends() {
    for (full, table_bytes, levels) in [(0, 1 << 14, None), (1000, 64 << 20, Some(2047))] {
        for ranks in [1, 2] {
            let all = Exploration {
                table_bytes,
                max_table_bytes: Some(table_bytes),
                ..exploration_of(producer(full), StatesChoice::Auto, ranks)
            };
            let is_full = |room: &OutOfRoom| match room.reason {
                Reason::Table { bytes, .. } => levels.is_none() && bytes == table_bytes,
                Reason::State { overflow, .. } => {
                    assert_eq!((overflow.place, overflow.tokens), (2, 1024));
                    levels == Some(room.levels)
                }
                Reason::Memory { .. } => false,
            };
            let Err(Error::OutOfRoom(room)) = explored_up_to(&all, u64::MAX) else { panic!() };
            assert!(is_full(&room), "{room:?}");
            let asked = with_properties(all, &["p2 <= 5"]);
            let Explored { ending, verdicts, .. } = explored(&asked);
            assert!(matches!(&ending, Ending::OutOfRoom(room) if is_full(room)), "{ending:?}");
            assert_eq!(verdicts[0].holds, None);
            check(&asked.net, &verdicts[1], Some(12), |at| at[2] == 6);
        }
    }
}
