//! Runs the conformance suite on every kind of cluster that must pass it.

use crate::common;
use crate::common::{Replay, cluster, engines, local, seeds, segment, word};
use probeline_sim::{Config, DirectAccess, Faults, Model, Order, stage};
use probeline_transport::conformance::{Case, Failure, Report, Rig, Verdict, cases};
use probeline_transport::{AtomicScope, Sizes, Token, Transport};

const AFTER_WRITE: &str = "an_atomic_follows_the_write_before_it";

/// Runs one case on a new cluster.
fn verdicts(case: &Case, owners: u32, config: Config) -> Vec<Result<Verdict, Failure>> {
    let Sizes { window_words, slots, slot_words, depth } = case.sizes;
    let cluster = cluster(Config { owners, window_words, slots, slot_words, depth, ..config });
    stage::run(&cluster, |mut engine, mut exchange| {
        case.run(&mut Rig::new(&mut engine, &mut exchange))
    })
    .unwrap()
}

fn suite(config: Config, skips: &[&str]) {
    for (owners, seed) in
        (1..=3).flat_map(|owners| seeds(2).into_iter().map(move |seed| (owners, seed)))
    {
        let _replay = Replay(seed);
        let mut report = Report::new(owners);
        for case in cases(owners) {
            report.add(case, &verdicts(case, owners, Config { seed, ..config }));
        }
        if let Err(failure) = report.judge(skips) {
            panic!("{failure}");
        }
    }
}

#[test]
fn instant() {
    suite(Config { model: Model::instant(), ..Config::default() }, &[AFTER_WRITE]);
}

#[test]
fn simple_and_scattered() {
    let model = Model::simple(2_000);
    let config = Config { model, scatter_reads: true, ..Config::default() };
    suite(Config { write_then_atomic: true, ..config }, &[]);
}

fn jittered() -> Model {
    Model {
        post_ns: 30,
        completion_ns: 40,
        jitter_mean_ns: 1_000,
        atomic_word_ns: 50,
        ..Model::simple(2_000)
    }
}

#[test]
fn jittered_and_slow() {
    let faults =
        Faults { slow_ppm: 20_000, slow_factor: 50, repeated_read_ppm: 100_000, ..Faults::none() };
    let config = Config { model: jittered(), faults, scatter_reads: true, ..Config::default() };
    let config = Config { write_then_atomic: true, ..config };
    suite(config, &[]);
}

#[test]
fn shuffled() {
    let config = Config { order: Order::Shuffled, scatter_reads: true, ..Config::default() };
    let config = Config { write_then_atomic: true, ..config };
    suite(Config { model: jittered(), direct_access: DirectAccess::All, ..config }, &[]);
    suite(Config { model: Model::instant(), direct_access: DirectAccess::None, ..config }, &[]);
}

#[test]
fn torn_words_and_device_scope() {
    let faults = Faults { torn_read_ppm: 1_000_000, repeated_read_ppm: 100_000, ..Faults::none() };
    let config = Config {
        model: jittered(),
        faults,
        word_reads_whole: false,
        atomics: AtomicScope::Device,
        ..Config::default()
    };
    suite(config, &["words_are_whole_under_a_writer", "atomic_with_the_cpu", AFTER_WRITE]);
}

/// An atomic overtakes the WRITE before it, unless the capability is set.
#[test]
fn write_then_atomic_orders_atomics() {
    let overtakes = |seed, order, write_then_atomic| {
        let config =
            Config { seed, order, model: jittered(), write_then_atomic, ..Config::default() };
        let mut engines = engines(&cluster(config));
        let engine = &mut engines[0];
        engine.staged(local(0, 0, 8)).unwrap().fill(1);
        engine.write(Token(1), local(0, 0, 8), segment(1, 0, 8)).unwrap();
        engine.fetch_add(Token(2), word(1, 7), 0).unwrap();
        let completions = [(); 2].map(|()| common::next(engine).unwrap());
        let atomic = completions.iter().find(|completion| completion.token == Token(2)).unwrap();
        atomic.result == Ok(0)
    };
    for order in [Order::ByTime, Order::Shuffled] {
        assert!((0..100).any(|seed| overtakes(seed, order, false)), "{order:?}");
        assert!((0..100).all(|seed| !overtakes(seed, order, true)), "{order:?}");
    }
}
