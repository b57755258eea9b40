//! Each fault happens, is counted, and has the documented effect.

use core::sync::atomic::Ordering::{Acquire, Release};

use crate::common::{
    Replay, add, cluster, engines, finish, local, next, read, seeds, segment, word, write,
};
use probeline_sim::{Cluster, Config, DEATH_STATUS, Death, Engine, Faults, Model, POISON};
use probeline_transport::{Completion, Fault, OpError, Owner, PostError, Token, Transport};

const ALWAYS: u32 = 1_000_000;
const FAILED: Result<u64, OpError> = Err(OpError::RetryExceeded);

fn pair(config: Config) -> (Cluster, [Engine; 2]) {
    let cluster = cluster(Config { model: Model::simple(1_000), ..config });
    let engines = <[Engine; 2]>::try_from(engines(&cluster)).ok().unwrap();
    (cluster, engines)
}

fn with(faults: Faults) -> (Cluster, [Engine; 2]) {
    pair(Config { faults, ..Config::default() })
}

fn load(engine: &Engine, index: usize) -> u64 {
    engine.window()[index].load(Acquire)
}

#[test]
fn error_with_and_without_effect() {
    let done = Faults { error_done_ppm: ALWAYS, ..Faults::none() };
    let undone = Faults { error_undone_ppm: ALWAYS, ..Faults::none() };
    for (faults, words, errors) in [(done, (5, 7), (2, 0)), (undone, (0, 0), (0, 2))] {
        let (cluster, [mut engine, peer]) = with(faults);
        assert_eq!(add(&mut engine, word(1, 3), 5), FAILED);
        assert_eq!(write(&mut engine, &[7], word(1, 4)), FAILED);
        assert_eq!((load(&peer, 3), load(&peer, 4)), words);
        cluster.apply_outstanding();
        assert_eq!((load(&peer, 3), load(&peer, 4)), words);
        let counters = cluster.counters();
        assert_eq!((counters.errors_done, counters.errors_undone), errors);
    }
}

#[test]
fn effect_after_error() {
    let (cluster, [mut engine, peer]) =
        with(Faults { error_late_ppm: ALWAYS, late_ns: 50_000, ..Faults::none() });
    assert_eq!(write(&mut engine, &[7], word(1, 4)), FAILED);
    assert_eq!(load(&peer, 4), 0, "the effect is still to come");
    // The staging slot belongs to the caller again, so its new content must not be written.
    engine.staged(local(0, 0, 1)).unwrap().fill(9);
    let completed_ns = engine.now_ns();
    let landed_ns = cluster.apply_outstanding();
    assert_eq!(load(&peer, 4), 7);
    assert!((completed_ns + 1..=completed_ns + 50_000).contains(&landed_ns));
    let counters = cluster.counters();
    assert_eq!((counters.errors_late, counters.late_effects), (1, 1));
}

/// A post is refused at full depth and not before, however many effects are late.
#[test]
fn late_effects_occupy_no_depth() {
    let faults = Faults { error_late_ppm: ALWAYS, late_ns: 1 << 40, ..Faults::none() };
    let (cluster, [mut engine, peer]) = with(faults);
    for _ in 0..10 {
        for token in 0..16 {
            engine.fetch_add(Token(token), word(1, 0), 1).unwrap();
        }
        assert_eq!(engine.fetch_add(Token(99), word(1, 0), 1), Err(PostError::Full));
        (0..16).for_each(|_| assert_eq!(next(&mut engine).unwrap().result, FAILED));
    }
    let counters = cluster.counters();
    assert_eq!(counters.errors_late + counters.errors_undone, 160);
    assert!(counters.errors_late >= 16);
    cluster.apply_outstanding();
    assert_eq!(load(&peer, 0), counters.errors_late);
    assert_eq!(cluster.counters().late_effects, counters.errors_late);
    // No effect is late any more, so the next one can be.
    assert_eq!(add(&mut engine, word(1, 0), 1), FAILED);
    assert_eq!(cluster.counters().errors_late, counters.errors_late + 1);
}

#[test]
fn failed_read_leaves_poison() {
    for faults in [
        Faults { error_done_ppm: ALWAYS, ..Faults::none() },
        Faults { error_undone_ppm: ALWAYS, ..Faults::none() },
        Faults { error_late_ppm: ALWAYS, ..Faults::none() },
    ] {
        let (_cluster, [mut engine, _peer]) = with(faults);
        assert!(read(&mut engine, segment(1, 0, 8)).is_err());
        assert_eq!(engine.landed(local(0, 0, 8)), Ok(&[POISON; 8][..]));
        assert_eq!(engine.landed(local(0, 8, 1)), Ok(&[0][..]), "beside the landing range");
    }
}

/// Advances both engines to the later one's time, and `peer` by another `ahead_ns`.
fn meet(engine: &mut Engine, peer: &mut Engine, ahead_ns: u64) {
    let now_ns = engine.now_ns().max(peer.now_ns());
    engine.spend(now_ns - engine.now_ns());
    peer.spend(now_ns - peer.now_ns() + ahead_ns);
}

/// The READ samples its words at 500 ns and completes at 1000 ns; the peer adds at 800 ns. Only a
/// READ that is executed again can see the addition.
#[test]
fn repeated_read_returns_later_words() {
    let seen = |repeated_read_ppm| {
        let (cluster, [mut engine, mut peer]) =
            with(Faults { repeated_read_ppm, ..Faults::none() });
        let mut seen = 0;
        for round in 0..200 {
            meet(&mut engine, &mut peer, 750);
            engine.read(Token(0), segment(1, 0, 1), local(0, 0, 1)).unwrap();
            peer.fetch_add(Token(0), word(1, 0), 1).unwrap();
            finish(&mut engine).unwrap();
            finish(&mut peer).unwrap();
            seen += engine.landed(local(0, 0, 1)).unwrap()[0] - round;
        }
        (seen, cluster.counters().repeated_reads)
    };
    assert_eq!(seen(0), (0, 0));
    let (later, repeated) = seen(ALWAYS);
    assert_eq!(repeated, 200);
    assert!((20..180).contains(&later), "{later} of 200");
}

/// Reads eight words repeatedly while their owner changes them once during each READ. Returns how
/// many landed neither old nor new, and how many the cluster counts as torn.
fn torn(word_reads_whole: bool, scatter_reads: bool) -> (u64, u64) {
    const OLD: u64 = 0x1122_3344_5566_7788;
    const NEW: u64 = 0x99aa_bbcc_ddee_ff01;
    let faults = Faults { torn_read_ppm: ALWAYS, ..Faults::none() };
    let (cluster, [mut engine, mut peer]) =
        pair(Config { faults, word_reads_whole, scatter_reads, ..Config::default() });
    let at = local(0, 0, 8);
    let mut torn = 0;
    for _ in 0..300 {
        peer.window()[..8].iter().for_each(|word| word.store(OLD, Release));
        meet(&mut engine, &mut peer, 700);
        engine.read(Token(0), segment(1, 0, 8), at).unwrap();
        peer.staged(at).unwrap().fill(NEW);
        peer.write(Token(0), at, segment(1, 0, 8)).unwrap();
        finish(&mut engine).unwrap();
        finish(&mut peer).unwrap();
        for &word in engine.landed(at).unwrap() {
            let both = OLD.to_le_bytes().into_iter().zip(NEW.to_le_bytes());
            let mut bytes = word.to_le_bytes().into_iter().zip(both);
            assert!(bytes.all(|(byte, (old, new))| byte == old || byte == new), "{word:#x}");
            torn += u64::from(word != OLD && word != NEW);
        }
    }
    (torn, cluster.counters().torn_words)
}

#[test]
fn torn_words_mix_both_values() {
    for scatter_reads in [false, true] {
        let (seen, counted) = torn(false, scatter_reads);
        assert!(seen > 100, "{seen} of 2400");
        assert_eq!(seen, counted);
        assert_eq!(torn(true, scatter_reads), (0, 0), "where words are whole");
    }
}

#[test]
fn unchanged_words_never_tear() {
    let faults = Faults { torn_read_ppm: ALWAYS, ..Faults::none() };
    let (cluster, [mut engine, peer]) =
        pair(Config { faults, word_reads_whole: false, ..Config::default() });
    peer.window()[0].store(5, Release);
    assert_eq!(read(&mut engine, segment(1, 0, 1)), Ok(vec![5]));
    assert_eq!(cluster.counters().torn_words, 0);
}

#[test]
fn slow_factor_multiplies_time() {
    let (cluster, [mut engine, _peer]) =
        with(Faults { slow_ppm: ALWAYS, slow_factor: 40, ..Faults::none() });
    assert_eq!(add(&mut engine, word(1, 0), 1), Ok(0));
    assert_eq!((engine.now_ns(), cluster.counters().slow), (40_000, 1));
}

#[test]
fn dying_engine_flushes_then_reports() {
    let fault = Fault::Device { code: DEATH_STATUS };
    let (mut sums, mut late) = (Vec::new(), 0);
    for seed in seeds(40) {
        let _replay = Replay(seed);
        let death = Some(Death { owner: Owner(2), after_ops: 20 });
        let faults = Faults { death, ..Faults::none() };
        let (cluster, [mut engine, mut peer]) = pair(Config { seed, faults, ..Config::default() });
        (0..12).for_each(|_| assert!(add(&mut engine, word(1, 0), 1).is_ok()));
        for token in 0..8 {
            engine.fetch_add(Token(token), word(1, 0), 1).unwrap();
        }
        assert_eq!(engine.read(Token(9), segment(1, 0, 1), local(0, 0, 1)), Err(PostError::Closed));
        let mut completions = [Completion::default(); 16];
        assert_eq!(engine.poll(&mut completions), Ok(8));
        let tokens: Vec<u64> =
            completions[..8].iter().map(|completion| completion.token.0).collect();
        assert_eq!(tokens, (0..8).collect::<Vec<u64>>());
        assert!(
            completions[..8].iter().all(|completion| completion.result == Err(OpError::Flushed))
        );
        assert_eq!([engine.poll(&mut completions), engine.poll(&mut [])], [Err(fault), Err(fault)]);
        assert_eq!(engine.fetch_add(Token(1), word(1, 0), 1), Err(PostError::Closed));
        let counters = cluster.counters();
        assert_eq!((counters.flushed, counters.deaths, counters.lost_owners), (8, 1, 0));
        assert_eq!(load(&peer, 0), 12, "flushed at once, before any effect");
        assert!(add(&mut peer, word(0, 1), 1).is_ok(), "the others work on");
        cluster.apply_outstanding();
        sums.push(load(&peer, 0) - 12);
        late += cluster.counters().late_effects;
    }
    assert!(sums.iter().all(|&sum| sum <= 8));
    assert!(sums.len() == 1 || (sums.iter().any(|&s| s > 0) && sums.iter().any(|&s| s < 8)));
    assert_eq!(late, sums.iter().sum::<u64>());
}

#[test]
fn dropped_engine_loses_owner() {
    let (cluster, [mut engine, peer]) = with(Faults::none());
    engine.fetch_add(Token(1), word(1, 0), 1).unwrap();
    engine.read(Token(2), segment(1, 0, 8), local(0, 0, 8)).unwrap();
    drop(peer);
    assert_eq!(engine.fetch_add(Token(3), word(0, 0), 1), Err(PostError::Closed));
    // The operations in flight complete first.
    assert_eq!(next(&mut engine).unwrap(), Completion { token: Token(1), result: Ok(0) });
    assert_eq!(next(&mut engine).unwrap(), Completion { token: Token(2), result: Ok(0) });
    for _ in 0..2 {
        assert_eq!(next(&mut engine), Err(Fault::OwnerLost(Owner(1))));
    }
    assert_eq!(cluster.counters().lost_owners, 1);
}

#[test]
fn reports_first_lost_owner() {
    let cluster = cluster(Config { owners: 4, ..Config::default() });
    let mut engines = engines(&cluster);
    drop(engines.remove(2));
    drop(engines.remove(2));
    for engine in &mut engines {
        assert_eq!(next(engine), Err(Fault::OwnerLost(Owner(2))));
    }
}

#[test]
fn kill_stops_engine() {
    let (cluster, [mut engine, mut peer]) = with(Faults::none());
    peer.fetch_add(Token(1), word(0, 0), 1).unwrap();
    peer.spend(1_000);
    peer.fetch_add(Token(2), word(0, 0), 1).unwrap();
    cluster.kill(Owner(1));
    cluster.kill(Owner(1));
    cluster.kill(Owner(7));
    // The first operation was done by then but not polled.
    assert_eq!(next(&mut peer).unwrap(), Completion { token: Token(1), result: Ok(0) });
    let flushed = Completion { token: Token(2), result: Err(OpError::Flushed) };
    assert_eq!(next(&mut peer), Ok(flushed));
    let lost = Fault::OwnerLost(Owner(1));
    assert_eq!([next(&mut peer), next(&mut engine)], [Err(lost), Err(lost)]);
    drop(peer);
    assert_eq!((cluster.counters().lost_owners, cluster.counters().flushed), (1, 1));
}

/// After an engine is dropped with a full queue, any of its effects may happen, and no others.
#[test]
fn dropped_engine_may_apply_operations() {
    let (cluster, [mut engine, peer]) = with(Faults::none());
    (0..16).for_each(|token| engine.fetch_add(Token(token), word(1, 0), 1).unwrap());
    drop(engine);
    cluster.apply_outstanding();
    assert!((1..16).contains(&load(&peer, 0)), "{}", load(&peer, 0));
}
