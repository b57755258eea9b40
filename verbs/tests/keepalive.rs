//! Tests that an engine sends keepalives to idle owners, and to no others.

use core::time::Duration;
use std::collections::BTreeSet;
use std::time::Instant;

use crate::job;
use crate::stand_in::Fabric;
use probeline_transport::conformance::{local, segment};
use probeline_transport::{Completion, Token, Transport};
use probeline_verbs::Engine;

/// The work request ID of keepalives.
const KEEPALIVE_WR_ID: u64 = 1 << 32;
/// The time for which a test polls: idle owners would get a keepalive every few milliseconds.
const LONG: Duration = Duration::from_millis(100);
/// The number of polls after which an engine reads the clock.
const POLLS_PER_CLOCK: u32 = 256;
/// The maximum time for an idle engine to send a keepalive to every owner.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the queue pairs to which keepalives were posted since the last call.
fn kept_alive(fabric: &Fabric) -> BTreeSet<u32> {
    let seen = fabric.seen();
    seen.iter().filter(|seen| seen.id == KEEPALIVE_WR_ID).map(|seen| seen.queue_pair).collect()
}

fn read(engine: &mut Engine, owner: u32) {
    engine.read(Token(0), segment(owner, 0, 1), local(0, 0, 1)).unwrap();
}

/// Polls `polls` times, and returns the number of completions.
fn poll(engine: &mut Engine, polls: u32) -> usize {
    let mut out = [Completion::default(); 4];
    (0..polls).map(|_| engine.poll(&mut out).unwrap()).sum()
}

/// Reads from each of `owners` once, within the polls between two readings of the clock.
fn read_from(engine: &mut Engine, owners: &[u32]) {
    for &owner in owners {
        read(engine, owner);
        assert_eq!(poll(engine, POLLS_PER_CLOCK / 4), 1);
    }
}

#[test]
fn busy_owner_gets_no_keepalive() {
    let fabric = Fabric::new();
    let mut engines = job::engines(&job::machines(&fabric, 3));
    fabric.watch();
    let begin = Instant::now();
    while begin.elapsed() < LONG {
        read_from(&mut engines[0], &[1, 2]);
    }
    assert_eq!(kept_alive(&fabric), BTreeSet::new());
    let (begin, mut all) = (Instant::now(), BTreeSet::new());
    while begin.elapsed() < LONG || all.is_empty() {
        assert!(begin.elapsed() < PATIENCE, "owner 2 gets no keepalive");
        read_from(&mut engines[0], &[1]);
        all.append(&mut kept_alive(&fabric));
    }
    assert_eq!(all.len(), 1, "only owner 2 gets keepalives");
    drop(engines);
    fabric.judge_empty();
}
