//! Blocking bodies: the order in which they run, the cost of barriers, and how bodies return.

use core::panic::AssertUnwindSafe;
use core::sync::atomic::Ordering::{Acquire, Release};
use std::collections::VecDeque;
use std::panic::catch_unwind;
use std::sync::Mutex;

use crate::common::{add, cluster, next, read, segment, word};
use probeline_sim::stage;
use probeline_sim::{Config, Model};
use probeline_transport::{
    Call, Exchange, ExchangeError, Fault, Owner, SetupError, Token, Transport,
};

fn of(owners: u32) -> Config {
    Config { owners, model: Model::simple(1_000), ..Config::default() }
}

const fn lost(owner: u32) -> ExchangeError {
    ExchangeError::OwnerLost(Owner(owner))
}

/// Checks that effects of all owners happen in the order of virtual time: adds to one word, half their
/// roundtrips after their posts.
#[test]
fn effects_follow_virtual_time() {
    let model = Model { post_ns: 70, completion_ns: 90, ..Model::simple(1_000) };
    let effects = stage::run(&cluster(Config { model, ..of(4) }), |mut engine, mut exchange| {
        let me = u64::from(exchange.me().0);
        let half_trip_ns = if me == 0 { 50 } else { 500 };
        let mut due_ns = VecDeque::new();
        let mut effects = Vec::new();
        for _ in 0..200 {
            engine.spend(me * 37);
            engine.fetch_add(Token(0), word(0, 0), 1).unwrap();
            due_ns.push_back(engine.now_ns() + half_trip_ns);
            while engine.in_flight() > 3 {
                let old = next(&mut engine).unwrap().result.unwrap();
                effects.push((old, due_ns.pop_front().unwrap()));
            }
        }
        exchange.barrier().unwrap();
        effects
    });
    let mut effects = effects.unwrap().concat();
    effects.sort_unstable();
    assert!(effects.len() == 4 * 197 && effects.is_sorted_by_key(|(_, at_ns)| at_ns));
}

#[test]
fn barrier_ends_at_last_arrival() {
    let model = Model { barrier_ns: 300, ..Model::simple(1_000) };
    let left = stage::run(&cluster(Config { model, ..of(3) }), |mut engine, mut exchange| {
        engine.spend(u64::from(exchange.me().0) * 5_000);
        exchange.barrier().unwrap();
        let first_ns = engine.now_ns();
        exchange.barrier().unwrap();
        (first_ns, engine.now_ns())
    });
    assert_eq!(left.unwrap(), [(10_300, 10_600); 3]);
}

#[test]
fn all_gather_distributes_all_parts() {
    let found = stage::run(&cluster(of(3)), |_engine, mut exchange| {
        let mut rounds = Vec::new();
        for round in 0..3 {
            let me = u8::try_from(exchange.me().0).unwrap();
            let mut all = [0; 6];
            exchange.all_gather(&[me, round], &mut all).unwrap();
            rounds.push(all);
        }
        rounds
    });
    let expected = [0, 1, 2].map(|round| [0, round, 1, round, 2, round]).to_vec();
    assert_eq!(found.unwrap(), vec![expected; 3]);
}

#[test]
fn different_lengths_fail_for_all() {
    let found = stage::run(&cluster(of(3)), |_engine, mut exchange| {
        let mine = vec![0; if exchange.me().0 == 1 { 5 } else { 4 }];
        let mut all = [0; 12];
        [exchange.all_gather(&mine, &mut all), exchange.barrier()]
    });
    let error = ExchangeError::LengthDiffers { owner: Owner(1), expected: 4, found: 5 };
    assert_eq!(found.unwrap(), [[Err(error); 2]; 3]);
}

#[test]
fn different_calls_fail_for_all() {
    let found = stage::run(&cluster(of(3)), |_engine, mut exchange| {
        if exchange.me().0 == 2 { exchange.all_gather(&[], &mut []) } else { exchange.barrier() }
    });
    let [expected, theirs] = ["barrier", "all_gather"].map(|name| Call::new(name).numbered(1));
    let error = ExchangeError::CallsDiffer { owner: Owner(2), expected, found: theirs };
    assert_eq!(found.unwrap(), [Err(error); 3]);
}

/// A body that returns is lost to owners in a barrier and to owners that poll. It is not lost to an
/// owner that has left the same barrier and makes no more calls.
#[test]
fn returning_body_loses_owner() {
    let found = stage::run(&cluster(of(4)), |mut engine, mut exchange| {
        exchange.barrier().unwrap();
        match exchange.me().0 {
            0 => (None, None),
            1 | 2 => (exchange.barrier().err(), Some(next(&mut engine))),
            _ => (None, Some(next(&mut engine))),
        }
    });
    let fault = Some(Err(Fault::OwnerLost(Owner(0))));
    let both = (Some(lost(0)), fault);
    assert_eq!(found.unwrap(), [(None, None), both, both, (None, fault)]);
}

#[test]
fn returning_after_barrier_loses_nobody() {
    for owners in [1, 2, 7] {
        let found = stage::run(&cluster(of(owners)), |mut engine, mut exchange| {
            add(&mut engine, word(0, 0), 1).unwrap();
            exchange.barrier()
        });
        assert_eq!(found.unwrap(), vec![Ok(()); owners as usize]);
    }
}

#[test]
fn panic_resumes_after_other_bodies() {
    let outcomes = Mutex::new(Vec::new());
    let panic = catch_unwind(AssertUnwindSafe(|| {
        stage::run(&cluster(of(3)), |mut engine, mut exchange| {
            let me = exchange.me().0;
            assert_ne!(me, 1, "a failure of owner 1");
            let outcome = if me == 0 {
                exchange.barrier().map_err(|error| error.to_string())
            } else {
                next(&mut engine).map(drop).map_err(|fault| fault.to_string())
            };
            outcomes.lock().unwrap().push(outcome);
        })
    }));
    let message = panic.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("a failure of owner 1"), "{message}");
    let outcomes = outcomes.into_inner().unwrap();
    assert_eq!(outcomes.len(), 2);
    assert!(outcomes.iter().all(|o| o.as_ref().is_err_and(|e| e.contains("owner 1"))));
}

/// No owner keeps the turn forever at one instant, whether it waits by READs, by idle polls, or by
/// loading from its own window between them.
#[test]
fn waiting_loop_lets_others_run() {
    for model in [Model::instant(), Model::simple(1_000)] {
        let found = stage::run(&cluster(Config { model, ..of(3) }), |mut engine, mut exchange| {
            match exchange.me().0 {
                0 => while read(&mut engine, segment(2, 0, 1)).unwrap()[0] != 50 {},
                1 => {
                    while engine.window()[0].load(Acquire) != 1 {
                        assert_eq!(engine.poll(&mut [Default::default()]), Ok(0));
                    }
                    engine.window()[1].store(1, Release);
                }
                _ => {
                    (0..50).for_each(|old| assert_eq!(add(&mut engine, word(2, 0), 1), Ok(old)));
                    add(&mut engine, word(1, 0), 1).unwrap();
                }
            }
            exchange.barrier()
        });
        assert_eq!(found.unwrap(), [Ok(()); 3]);
    }
}

#[test]
fn refuses_taken_engine() {
    let cluster = cluster(of(2));
    let taken = cluster.engine(Owner(1)).unwrap();
    let found = stage::run(&cluster, |_, _| ());
    assert_eq!(found, Err(SetupError::Taken(Owner(1))));
    drop(taken);
    assert_eq!(cluster.engine(Owner(2)).err(), Some(SetupError::NoOwner(Owner(2))));
}

/// An engine that outlives its body is dead, and reports that instead of waiting for a turn.
#[test]
fn engine_outliving_body_never_hangs() {
    let kept = stage::run(&cluster(of(2)), |engine, exchange| (engine, exchange)).unwrap();
    for (mut engine, mut exchange) in kept {
        let me = exchange.me();
        assert!(exchange.barrier().is_err());
        if me == Owner(0) {
            assert_eq!(add(&mut engine, word(1, 0), 1), Ok(0));
        } else {
            assert_eq!(next(&mut engine), Err(Fault::OwnerLost(Owner(0))));
        }
    }
}
