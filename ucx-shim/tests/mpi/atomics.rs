//! Atomics of both kinds on one word.

use probeline_transport::{Completion, Exchange, Owner, RemoteWord, Sizes, Token, Transport};
use probeline_ucx_shim::mpi::{Builder, Engine, Members, World};

use crate::settings::Setting;

/// The number of additions of each rank.
const ADDS: u64 = 300;

/// Lets all ranks add to one word, by fetch-and-add and by compare-and-swap in turn.
pub(crate) fn mix(_: &World, members: &mut Members, setting: &Setting) {
    let mut engine = Builder::new(Sizes::new(64)).open(members).unwrap();
    if members.me() == Owner(0) {
        println!("{}", engine.info());
    }
    assert_eq!(engine.info().component.to_string(), setting.component);
    let at = RemoteWord { owner: Owner(0), index: 5 };
    let mut seen = 0;
    for round in 0..ADDS {
        if round % 2 == 0 {
            engine.fetch_add(Token(0), at, 1).unwrap();
            seen = finish(&mut engine) + 1;
            continue;
        }
        loop {
            engine.compare_and_swap(Token(0), at, seen, seen + 1).unwrap();
            let old = finish(&mut engine);
            if old == seen {
                break;
            }
            assert!(old > seen, "{old} after {seen}");
            seen = old;
        }
    }
    members.barrier().unwrap();
    engine.fetch_add(Token(0), at, 0).unwrap();
    assert_eq!(finish(&mut engine), ADDS * u64::from(members.owners()));
    members.barrier().unwrap();
}

/// Polls until the operation in flight has completed.
fn finish(engine: &mut Engine) -> u64 {
    let mut end = [Completion::default()];
    while engine.poll(&mut end).unwrap() == 0 {}
    end[0].result.unwrap()
}
