//! Random operations: whole clusters obey the rules of the contract that hold under every fault; the
//! same seed repeats a run step by step, another seed gives another run, and no run allocates.

use core::sync::atomic::Ordering::Acquire;
use std::collections::HashSet;

use crate::common::{Replay, cluster, engines, local, pick, seeds, segment, word};
use probeline_sim::{Cluster, Config, Counters, Engine, Faults, Model, Order, Rng, stage};
use probeline_transport::conformance::allocations;
use probeline_transport::{
    Completion, Exchange, Fault, OpError, Owner, PostError, Token, Transport,
};

const OWNERS: u32 = 3;
const WINDOW: u64 = 40;
const DEPTH: u32 = 8;
const SLOT_WORDS: u32 = 16;
const STEPS: u64 = 4_000;

/// Returns a random cluster with any faults.
fn config(seed: u64) -> Config {
    let rng = &mut Rng::new(seed, 101);
    let base = if rng.chance(300_000) { Model::instant() } else { Model::simple(1_000) };
    let order = if rng.chance(500_000) { Order::Shuffled } else { Order::ByTime };
    Config {
        owners: OWNERS,
        window_words: WINDOW,
        slots: DEPTH,
        slot_words: SLOT_WORDS,
        depth: DEPTH,
        seed,
        order,
        model: Model {
            post_ns: rng.below(40),
            completion_ns: rng.below(40),
            jitter_mean_ns: [0, 800, 3_000][pick(rng, 3) as usize],
            ..base
        },
        faults: Faults::swarm(seed),
        scatter_reads: rng.chance(500_000),
        word_reads_whole: rng.chance(500_000),
        ..Config::default()
    }
}

/// Kinds of operations, in the lowest four bits of their tokens. Below `ADD` are READs and WRITEs, but for `SWAP`.
const SWAP: u64 = 1;
const ADD: u64 = 5;

/// The posts of one engine, and what the engine reported.
#[derive(Debug, PartialEq)]
struct Reported {
    posted: u64,
    open: HashSet<u64>,
    completions: Vec<Completion>,
    olds: Vec<u64>,
    unknown: u64,
    fault: Option<Fault>,
}

impl Reported {
    fn new() -> Self {
        let all = usize::try_from(STEPS).unwrap();
        let (open, completions) = (HashSet::with_capacity(64), Vec::with_capacity(all));
        let olds = Vec::with_capacity(all);
        Self { posted: 0, open, completions, olds, unknown: 0, fault: None }
    }

    /// Posts an operation, or polls.
    fn turn(&mut self, engine: &mut Engine, rng: &mut Rng) {
        if rng.chance(400_000) {
            self.poll(engine);
            return;
        }
        let token = self.posted;
        let full = engine.in_flight() == DEPTH;
        let kind = rng.below(10);
        let token = Token(token << 4 | kind);
        let other = pick(rng, OWNERS);
        let result = match kind {
            0 => engine.write(token, local(1, 0, 2), segment(other, 8, 2)),
            SWAP => engine.compare_and_swap(token, word(other, 10), rng.below(2), rng.bits()),
            2..ADD => engine.read(token, segment(0, 0, 4), local(0, 0, 4)),
            _ => engine.fetch_add(token, word(0, 0), 1),
        };
        match result {
            Ok(()) => {
                assert!(!full && self.fault.is_none());
                self.posted += 1;
                self.open.insert(token.0);
            }
            Err(PostError::Full) => assert!(full),
            Err(PostError::Closed) => {}
            Err(refused) => panic!("{refused}"),
        }
    }

    fn poll(&mut self, engine: &mut Engine) {
        let mut completions = [Completion::default(); 3];
        let before = engine.in_flight();
        match engine.poll(&mut completions) {
            Ok(count) => {
                assert!(self.fault.is_none(), "alive after {:?}", self.fault);
                assert_eq!(engine.in_flight(), before - u32::try_from(count).unwrap());
                for completion in &completions[..count] {
                    let kind = completion.token.0 & 0xf;
                    let adds = u64::from(kind >= ADD);
                    assert!(self.open.remove(&completion.token.0), "{completion:?} was not posted");
                    match completion.result {
                        Ok(old) if adds == 1 => self.olds.push(old),
                        Ok(old) => assert!(old == 0 || kind == SWAP, "{completion:?}"),
                        Err(OpError::RetryExceeded | OpError::Flushed) => self.unknown += adds,
                        Err(other) => panic!("{other}"),
                    }
                    self.completions.push(*completion);
                }
            }
            Err(fault) => {
                assert_eq!(before, 0, "{fault} before everything was reported");
                assert_eq!(*self.fault.get_or_insert(fault), fault);
            }
        }
    }

    fn poll_all(&mut self, engine: &mut Engine) {
        while engine.in_flight() > 0 {
            self.poll(engine);
        }
        assert!(self.open.is_empty(), "accepted and not reported: {:?}", self.open);
    }
}

/// Everything observable of a run: the hash of its events, its time, its counters, and the reports.
type Run = (u64, u64, Counters, Vec<Reported>);

fn observed(cluster: &Cluster, reported: Vec<Reported>) -> Run {
    (cluster.trace_hash(), cluster.now_ns(), cluster.counters(), reported)
}

/// Runs operations on random engines, both drawn by `script`, while an owner may be lost.
fn driven(config: Config, script: u64) -> Run {
    let mut rng = Rng::new(script, 102);
    let cluster = cluster(config);
    let mut engines = engines(&cluster);
    let mut reported: Vec<_> = engines.iter().map(|_| Reported::new()).collect();
    let kill_at = Rng::new(script, 104).below(3 * STEPS / 2);
    let before = allocations();
    for step in 0..STEPS {
        if step == kill_at {
            cluster.kill(Owner(1));
        }
        let who = pick(&mut rng, OWNERS) as usize;
        reported[who].turn(&mut engines[who], &mut rng);
    }
    engines.iter_mut().zip(&mut reported).for_each(|(engine, of)| of.poll_all(engine));
    cluster.apply_outstanding();
    assert_eq!(allocations() - before, 0);
    let sum = engines[0].window()[0].load(Acquire);
    let mut olds: Vec<u64> = reported.iter().flat_map(|of| of.olds.clone()).collect();
    let unknown: u64 = reported.iter().map(|of| of.unknown).sum();
    let known = olds.len() as u64;
    assert!((known..=known + unknown).contains(&sum), "{sum}: {known} and {unknown} unknown");
    olds.sort_unstable();
    olds.dedup();
    assert_eq!(olds.len() as u64, known, "each successful add has an old value of its own");
    observed(&cluster, reported)
}

/// Runs blocking bodies with operations drawn by `script`, which meet in barriers.
fn staged(config: Config, script: u64) -> Run {
    let cluster = cluster(config);
    let reported = stage::run(&cluster, |mut engine, mut exchange| {
        let mut rng = Rng::new(script ^ u64::from(exchange.me().0), 103);
        let mut reported = Reported::new();
        for _ in 0..4 {
            for _ in 0..100 {
                (0..rng.below(6)).for_each(|_| reported.turn(&mut engine, &mut rng));
                engine.spend(rng.below(300));
            }
            reported.poll_all(&mut engine);
            exchange.barrier().unwrap();
            let mut clocks = [0; 8 * OWNERS as usize];
            exchange.all_gather(&engine.now_ns().to_le_bytes(), &mut clocks).unwrap();
            assert!(clocks.chunks(8).all(|clock| clock == &clocks[..8]), "all left together");
        }
        reported
    });
    observed(&cluster, reported.unwrap())
}

fn check_repeats(run: impl Fn(Config, u64) -> Run) {
    for seed in seeds(24) {
        let _replay = Replay(seed);
        let config = config(seed);
        let first = run(config, seed);
        assert_eq!(first, run(config, seed));
        let other = run(Config { seed: !seed, ..config }, seed);
        assert_ne!(first.0, other.0, "another seed, the same faults");
    }
}

#[test]
fn operations_complete_once_under_faults() {
    for seed in seeds(200) {
        let _replay = Replay(seed);
        driven(config(seed), seed);
    }
}

#[test]
fn polled_engines_repeat() {
    check_repeats(driven);
}

#[test]
fn staged_bodies_repeat() {
    check_repeats(staged);
}
