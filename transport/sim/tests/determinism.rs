//! The same seed repeats a run step by step, another seed gives another run, and no run allocates,
//! under any faults.

use crate::common::{Replay, cluster, engines, local, pick, seeds, segment, word};
use probeline_sim::{Cluster, Config, Counters, Engine, Faults, Model, Order, Rng, stage};
use probeline_transport::conformance::allocations;
use probeline_transport::{Completion, Exchange, Token, Transport};

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
            jitter_mean_ns: 500,
            ..Model::simple(2_000)
        },
        faults: Faults::swarm(seed),
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

/// Polls once and appends the completions; an engine that died has none.
fn poll(engine: &mut Engine, completions: &mut Vec<Completion>) {
    let mut out = [Completion::default(); 4];
    let polled = engine.poll(&mut out).unwrap_or(0);
    completions.extend_from_slice(&out[..polled]);
}

fn driven(config: Config) -> Run<Vec<Completion>> {
    let cluster = cluster(config);
    let mut engines = engines(&cluster);
    let mut rng = Rng::new(7, 102);
    let mut completions = Vec::with_capacity(2_000);
    let before = allocations();
    for _ in 0..2_000 {
        let at = pick(&mut rng, OWNERS) as usize;
        post(&mut engines[at], &mut rng);
        if rng.chance(400_000) {
            poll(&mut engines[at], &mut completions);
        }
    }
    while let Some((owner, _)) = cluster.next_delivery() {
        poll(&mut engines[owner.0 as usize], &mut completions);
    }
    cluster.settle();
    assert_eq!(allocations() - before, 0);
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
                poll(&mut engine, &mut completions);
            }
            while engine.in_flight() > 0 {
                poll(&mut engine, &mut completions);
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
        for seed in seeds(12) {
            let _replay = Replay(seed);
            let config = config(seed, order);
            let first = run(config);
            assert_eq!(first, run(config));
            assert!(first.counters.completed > 100);
            let other = run(Config { seed: !seed, ..config });
            assert_ne!(first.trace_hash, other.trace_hash, "another seed, the same faults");
        }
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
