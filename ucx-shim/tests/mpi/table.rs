//! find-or-put over MPI, and atomics of both kinds on one word.

use probeline_table::{Config, Operation, Outcome, Table};
use probeline_transport::{
    Completion, Exchange, Owner, RemoteWord, Segment, Sizes, Token, Transport,
};
use probeline_ucx_shim::mpi::{Builder, Engine, Members, World};

use crate::settings::Setting;

const KEYS: u64 = 2_000;
const TABLE: Config = Config::new(1 << 10);
/// The number of additions of each rank.
const ADDS: u64 = 300;

fn open(words: u64, members: &mut Members, setting: &Setting) -> Engine {
    let engine = Builder::new(Sizes::new(words).with_slots(16, 64)).open(members).unwrap();
    if members.me() == Owner(0) {
        println!("{}", engine.info());
    }
    assert_eq!(engine.info().component.to_string(), setting.component);
    engine
}

/// All ranks insert the same keys at the same time, each starting from another key.
pub(crate) fn find_or_put(_: &World, members: &mut Members, setting: &Setting) {
    let engine = open(TABLE.words(), members, setting);
    let storage = [const { Operation::EMPTY }; 8];
    let mut table = Table::open(engine, TABLE, storage, members).unwrap();
    let (me, owners) = (u64::from(members.me().0), u64::from(members.owners()));
    let keys = KEYS.min(u64::from(members.owners()) * 700);
    let mut inserted = vec![0_u8; usize::try_from(keys).unwrap()];
    for step in 0..keys {
        let key = (step + me * keys / owners) % keys;
        match table.find_or_put(key + 1).unwrap() {
            Outcome::Found => {}
            Outcome::Inserted => inserted[usize::try_from(key).unwrap()] = 1,
            other => panic!("{key}: {other:?}"),
        }
    }
    let mut all = vec![0; inserted.len() * members.owners() as usize];
    members.all_gather(&inserted, &mut all).unwrap();
    for key in 0..inserted.len() {
        let by = all.iter().skip(key).step_by(inserted.len()).filter(|by| **by == 1).count();
        assert_eq!(by, 1, "inserts of {key}");
    }
    for key in 1..=keys {
        assert_eq!(table.find_or_put(key).unwrap(), Outcome::Found);
    }
    members.barrier().unwrap();
}

/// All ranks add to one word, by fetch-and-add and by compare-and-swap in turn.
pub(crate) fn atomics_mix(_: &World, members: &mut Members, setting: &Setting) {
    let mut engine = open(64, members, setting);
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
    let slot =
        probeline_transport::Local { slot: probeline_transport::Slot(0), start: 0, words: 1 };
    engine.read(Token(0), Segment { start: at, words: 1 }, slot).unwrap();
    finish(&mut engine);
    assert_eq!(engine.landed(slot).unwrap(), [ADDS * u64::from(members.owners())]);
    members.barrier().unwrap();
}

/// Polls until the operation in flight has completed.
pub(crate) fn finish(engine: &mut Engine) -> u64 {
    let mut end = [Completion::default()];
    while engine.poll(&mut end).unwrap() == 0 {}
    end[0].result.unwrap()
}
