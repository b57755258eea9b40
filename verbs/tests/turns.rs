//! Whom an engine asks after, and whom not.

#[allow(dead_code, reason = "shared with the other tests")]
mod job;
#[allow(dead_code, reason = "shared with the other tests")]
mod stand_in;

use core::time::Duration;
use std::collections::BTreeSet;
use std::time::Instant;

use probeline_transport::{Completion, Local, Owner, RemoteWord, Segment, Slot, Token, Transport};
use probeline_verbs::Engine;
use stand_in::Fabric;

/// What an engine calls the READ by which it asks.
const ASKING: u64 = 1 << 32;
/// Far longer than many turns take, which are due every few milliseconds here.
const LONG: Duration = Duration::from_millis(100);
/// Polls between two looks at the clock, and hence between two turns at least.
const LOOK: u32 = 256;
/// The longest until an engine with nothing to do has asked after all.
const PATIENCE: Duration = Duration::from_secs(120);

/// The queue pairs by which somebody was asked after since the last call.
fn asked(fabric: &Fabric) -> BTreeSet<u32> {
    let seen = fabric.seen();
    seen.iter().filter(|seen| seen.id == ASKING).map(|seen| seen.queue_pair).collect()
}

fn read(engine: &mut Engine, owner: u32) {
    let start = RemoteWord { owner: Owner(owner), index: 0 };
    let into = Local { slot: Slot(0), start: 0, words: 1 };
    engine.read(Token(0), Segment { start, words: 1 }, into).unwrap();
}

/// Polls so often; how many operations ended.
fn poll(engine: &mut Engine, polls: u32) -> usize {
    let mut out = [Completion::default(); 4];
    (0..polls).map(|_| engine.poll(&mut out).unwrap()).sum()
}

/// Works with these owners, with each between any two looks at the clock.
fn work_with(engine: &mut Engine, owners: &[u32]) {
    for &owner in owners {
        read(engine, owner);
        assert_eq!(poll(engine, LOOK / 4), 1);
    }
}

#[test]
fn who_is_worked_with_is_not_asked() {
    let fabric = Fabric::new();
    let mut engines = job::engines(&job::machines(&fabric, 3));
    fabric.watch();
    let begin = Instant::now();
    while begin.elapsed() < LONG {
        work_with(&mut engines[0], &[1, 2]);
    }
    assert_eq!(asked(&fabric), BTreeSet::new());
    let (begin, mut all) = (Instant::now(), BTreeSet::new());
    while begin.elapsed() < LONG || all.is_empty() {
        assert!(begin.elapsed() < PATIENCE, "it does not ask after owner 2");
        work_with(&mut engines[0], &[1]);
        all.append(&mut asked(&fabric));
    }
    assert_eq!(all.len(), 1, "it asks after owner 2 alone");
    drop(engines);
    fabric.judge_empty();
}

#[test]
fn who_is_left_alone_is_asked_in_turn() {
    let fabric = Fabric::new();
    let mut engines = job::engines(&job::machines(&fabric, 4));
    fabric.watch();
    let begin = Instant::now();
    let mut all = BTreeSet::new();
    while all.len() < 3 {
        assert!(begin.elapsed() < PATIENCE, "it has asked {} of 3", all.len());
        assert_eq!(poll(&mut engines[3], LOOK), 0);
        all.append(&mut asked(&fabric));
    }
    drop(engines);
    fabric.judge_empty();
}
