//! Channels of one simulated engine in the conformance suite, and live reads of the own window.

use crate::common::{cluster, engines, local, next, word, write};
use probeline_sim::{Config, DirectAccess, Model, Order, stage};
use probeline_transport::conformance::{Report, cases};
use probeline_transport::{AtomicScope, OwnRead, PostError, Token, Transport, read_own_window};

#[test]
fn nested_channel_passes_suite() {
    let model = Model { jitter_mean_ns: 1_000, ..Model::simple(2_000) };
    for (owners, order) in
        [(1, Order::Shuffled), (2, Order::ByTime), (2, Order::Shuffled), (3, Order::Shuffled)]
    {
        let mut report = Report::new(owners);
        for case in cases(owners) {
            let sizes = case.sizes_with_channels();
            let config = Config {
                seed: 7,
                order,
                model,
                scatter_reads: true,
                write_then_atomic: true,
                ..Config::new(owners, sizes)
            };
            let verdicts = stage::run(&cluster(config), |mut engine, mut exchange| {
                case.run_on_channel(&mut engine, &mut exchange, |rig| rig)
            });
            report.add(case, &verdicts.unwrap());
        }
        report.judge(&[]).unwrap();
    }
}

/// Returns the words of owner 0 after owner 1 wrote them, and whether owner 0 posted a READ.
fn read_live(atomics: AtomicScope, direct_access: DirectAccess) -> (Vec<u64>, bool) {
    let config =
        Config { atomics, direct_access, model: Model::simple(1_000), ..Config::default() };
    let mut engines = engines(&cluster(config));
    write(&mut engines[1], &[5, 6, 7], word(0, 9)).unwrap();
    let (engine, into) = (&mut engines[0], local(2, 8, 3));
    let beyond = read_own_window(engine, Token(3), 1_022, into).map(|_| ());
    assert_eq!(beyond, Err(PostError::OutOfRange));
    match read_own_window(engine, Token(4), 9, into).unwrap() {
        OwnRead::Words(words) => {
            let load = |word: &core::sync::atomic::AtomicU64| {
                word.load(core::sync::atomic::Ordering::Acquire)
            };
            (words.iter().map(load).collect(), false)
        }
        OwnRead::Posted => {
            assert_eq!(next(engine).unwrap().token, Token(4));
            (engine.landed(into).unwrap().to_vec(), true)
        }
    }
}

#[test]
fn loads_own_window_if_coherent() {
    let words = vec![5, 6, 7];
    assert_eq!(read_live(AtomicScope::Cpu, DirectAccess::Own), (words.clone(), false));
    assert_eq!(read_live(AtomicScope::Cpu, DirectAccess::None), (words.clone(), true));
    assert_eq!(read_live(AtomicScope::Device, DirectAccess::Own), (words, true));
}
