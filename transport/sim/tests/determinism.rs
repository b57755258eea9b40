//! The same seed repeats a run step by step; another seed gives another run.

use crate::common;
use crate::common::{Replay, cluster, engines, local, pick, seeds, segment, word};
use probeline_sim::{Cluster, Config, Counters, Engine, Faults, Jitter, Model, Order, Rng, stage};
use probeline_transport::{Completion, Exchange, Fault, Owner, Token, Transport};

const OWNERS: u32 = 4;

/// Everything observable of a run.
#[derive(Debug, PartialEq)]
struct Run<R> {
    trace_hash: u64,
    now_ns: u64,
    counters: Counters,
    results: R,
}

fn observed<R>(cluster: &Cluster, results: R) -> Run<R> {
    let (trace_hash, now_ns) = (cluster.trace_hash(), cluster.now_ns());
    Run { trace_hash, now_ns, counters: cluster.counters(), results }
}

fn config(seed: u64, order: Order) -> Config {
    Config {
        owners: OWNERS,
        seed,
        order,
        model: Model {
            post_ns: 20,
            completion_ns: 30,
            jitter: Jitter::Exponential { mean_ns: 500 },
            ..Model::simple(2_000)
        },
        faults: Faults { death: None, ..Faults::swarm(seed) },
        scatter_reads: true,
        word_reads_whole: false,
        ..Config::default()
    }
}

fn post(engine: &mut Engine, rng: &mut Rng) {
    let owner = pick(rng, OWNERS);
    let token = Token(rng.bits());
    let _full_or_closed = match rng.below(4) {
        0 => engine.read(token, segment(owner, rng.below(8), 8), local(0, 0, 8)),
        1 => engine.write(token, local(1, 0, 2), segment(owner, rng.below(16), 2)),
        2 => engine.compare_and_swap(token, word(owner, rng.below(8)), rng.below(2), rng.bits()),
        _ => engine.fetch_add(token, word(owner, rng.below(8)), 1),
    };
}

/// Polls once and appends the completions.
fn poll(engine: &mut Engine, completions: &mut Vec<Completion>) -> Result<(), Fault> {
    let mut out = [Completion::default(); 4];
    let polled = engine.poll(&mut out)?;
    completions.extend_from_slice(&out[..polled]);
    Ok(())
}

fn driven(config: Config) -> Run<Vec<Completion>> {
    let cluster = cluster(config);
    let mut engines = engines(&cluster);
    let mut rng = Rng::new(7, 102);
    let mut completions = Vec::new();
    for _ in 0..2_000 {
        let at = pick(&mut rng, OWNERS) as usize;
        post(&mut engines[at], &mut rng);
        if rng.chance(400_000) {
            poll(&mut engines[at], &mut completions).unwrap();
        }
    }
    while let Some((owner, _)) = cluster.next_delivery() {
        poll(&mut engines[owner.0 as usize], &mut completions).unwrap();
    }
    cluster.settle();
    observed(&cluster, completions)
}

fn staged(config: Config) -> Run<Vec<Vec<Completion>>> {
    let cluster = cluster(config);
    let results = stage::run(&cluster, |mut engine, mut exchange| {
        let mut rng = Rng::new(exchange.me().0.into(), 103);
        let mut completions = Vec::new();
        for _ in 0..4 {
            for _ in 0..100 {
                (0..rng.below(6)).for_each(|_| post(&mut engine, &mut rng));
                engine.spend(rng.below(300));
                poll(&mut engine, &mut completions).unwrap();
            }
            while engine.in_flight() > 0 {
                poll(&mut engine, &mut completions).unwrap();
            }
            exchange.barrier().unwrap();
            let mut clocks = [0; 8 * OWNERS as usize];
            exchange.all_gather(&engine.now_ns().to_le_bytes(), &mut clocks).unwrap();
            assert!(clocks.chunks(8).all(|clock| clock == &clocks[..8]), "all left together");
        }
        completions
    });
    observed(&cluster, results.unwrap())
}

fn check<R: PartialEq + core::fmt::Debug>(run: impl Fn(Config) -> Run<R>) {
    for order in [Order::ByTime, Order::Shuffled] {
        let mut hashes = Vec::new();
        for seed in seeds(6) {
            let _replay = Replay(seed);
            let first = run(config(seed, order));
            assert_eq!(first, run(config(seed, order)));
            assert!(first.counters.completed > 100);
            hashes.push(first.trace_hash);
        }
        let all = hashes.len();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), all, "no two seeds did the same");
    }
}

#[test]
fn polled_engines_repeat() {
    check(driven);
}

#[test]
fn staged_bodies_repeat() {
    check(staged);
}

/// Only the seed of the configuration differs; one draw more or less is visible.
#[test]
fn seed_alone_changes_run() {
    let faults = Faults::swarm(1);
    let base = Config { faults: Faults { death: None, ..faults }, ..config(1, Order::ByTime) };
    let other = Config { seed: 2, ..base };
    assert_ne!(driven(base).trace_hash, driven(other).trace_hash);
    assert_ne!(staged(base).trace_hash, staged(other).trace_hash);
}

#[test]
fn trace_keeps_last_events() {
    let cluster = cluster(Config { trace_events: 3, ..Config::default() });
    let mut engine = cluster.engine(Owner(0)).unwrap();
    common::add(&mut engine, word(1, 4), 1).unwrap();
    common::add(&mut engine, word(1, 4), 2).unwrap();
    let lines: Vec<String> = cluster.trace().iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "           0 ns  owner 0  posts      FAA    owner 1 word 4  0x0",
            "           0 ns  owner 0  applies    FAA    owner 1 word 4  0x1",
            "           0 ns  owner 0  completes  FAA    owner 1 word 4  0x1",
        ]
    );
}
