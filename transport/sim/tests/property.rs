//! Random operations: checks whole clusters against the rules of the contract that hold under every
//! fault.

use core::sync::atomic::Ordering::Acquire;
use std::collections::HashSet;

use crate::common::{Replay, cluster, engines, local, pick, seeds, segment, word};
use probeline_sim::{Config, Engine, Faults, Model, Order, Rng};
use probeline_transport::{Completion, Fault, OpError, Owner, PostError, Token, Transport};

const OWNERS: u32 = 3;
const WINDOW: u64 = 40;
const DEPTH: u32 = 8;
const SLOT_WORDS: u32 = 16;

fn random_config(seed: u64, rng: &mut Rng) -> Config {
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
        model: Model { jitter_mean_ns: [0, 800, 3_000][pick(rng, 3) as usize], ..base },
        scatter_reads: rng.chance(500_000),
        word_reads_whole: rng.chance(500_000),
        ..Config::default()
    }
}

/// The posts of one engine of a swarm, and what the engine reported.
#[derive(Default)]
struct Reported {
    posted: u64,
    open: HashSet<u64>,
    olds: Vec<u64>,
    unknown: u64,
    fault: Option<Fault>,
}

/// All engines add 1 to one word and read it, under any faults, while an owner may be lost.
#[test]
fn operations_complete_once_under_faults() {
    for seed in seeds(200) {
        let _replay = Replay(seed);
        let mut rng = Rng::new(seed, 101);
        let config = random_config(seed, &mut rng);
        let cluster = cluster(Config { faults: Faults::swarm(seed), ..config });
        let mut engines = engines(&cluster);
        let mut reported: Vec<Reported> = engines.iter().map(|_| Reported::default()).collect();
        let kill_at = rng.below(6_000);
        for step in 0..4_000 {
            if step == kill_at {
                cluster.kill(Owner(1));
            }
            let who = pick(&mut rng, OWNERS) as usize;
            turn(&mut engines[who], &mut reported[who], &mut rng);
        }
        for (engine, reported) in engines.iter_mut().zip(&mut reported) {
            while engine.in_flight() > 0 {
                poll(engine, reported);
            }
            assert!(reported.open.is_empty(), "accepted and not reported: {:?}", reported.open);
        }
        cluster.settle();
        let sum = engines[0].window()[0].load(Acquire);
        let mut olds: Vec<u64> =
            reported.iter().flat_map(|reported| reported.olds.clone()).collect();
        let unknown: u64 = reported.iter().map(|reported| reported.unknown).sum();
        let known = olds.len() as u64;
        assert!((known..=known + unknown).contains(&sum), "{sum}: {known} and {unknown} unknown");
        olds.sort_unstable();
        olds.dedup();
        assert_eq!(olds.len() as u64, known, "each successful add has an old value of its own");
    }
}

fn turn(engine: &mut Engine, reported: &mut Reported, rng: &mut Rng) {
    if rng.chance(400_000) {
        poll(engine, reported);
        return;
    }
    let token = reported.posted;
    let full = engine.in_flight() == DEPTH;
    let read = rng.chance(300_000);
    let result = if read {
        engine.read(Token(token << 1), segment(0, 0, 4), local(0, 0, 4))
    } else {
        engine.fetch_add(Token(token << 1 | 1), word(0, 0), 1)
    };
    match result {
        Ok(()) => {
            assert!(!full && reported.fault.is_none());
            reported.posted += 1;
            reported.open.insert(token << 1 | u64::from(!read));
        }
        Err(PostError::Full) => assert!(full),
        Err(PostError::Closed) => {}
        Err(refused) => panic!("{refused}"),
    }
}

fn poll(engine: &mut Engine, reported: &mut Reported) {
    let mut completions = [Completion::default(); 3];
    let before = engine.in_flight();
    match engine.poll(&mut completions) {
        Ok(count) => {
            assert!(reported.fault.is_none(), "alive after {:?}", reported.fault);
            assert_eq!(engine.in_flight(), before - u32::try_from(count).unwrap());
            for completion in &completions[..count] {
                assert!(
                    reported.open.remove(&completion.token.0),
                    "{completion:?} is not in flight"
                );
                match completion.result {
                    Ok(old) if completion.token.0 & 1 == 1 => reported.olds.push(old),
                    Ok(zero) => assert_eq!(zero, 0),
                    Err(OpError::RetryExceeded | OpError::Flushed) => {
                        reported.unknown += completion.token.0 & 1;
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        }
        Err(fault) => {
            assert_eq!(before, 0, "{fault} before everything was reported");
            assert_eq!(*reported.fault.get_or_insert(fault), fault);
        }
    }
}
