//! Every READ posted after a WRITE has completed sees it, whichever owner posts the READ. CPUs with
//! store buffers guarantee this order only with a fence.

use core::sync::atomic::Ordering::SeqCst;

use probeline_shm::Builder;
use probeline_transport::conformance::{local, on_threads, segment};
use probeline_transport::{Completion, Exchange, Sizes, Token, Transport};

/// The number of checks for the other side before a round yields. On a machine that runs both sides
/// at the same time, some hundred checks suffice.
const CHECKS: u32 = 10_000;
/// Without the fence in WRITE, one round in 20 failed, so this number of rounds detects its
/// absence.
const ROUNDS: u64 = 5_000;

/// Writes the round's number to the own word, then reads the other's word; returns the words read.
/// Each word lies in the other owner's window, far from both threads' caches.
fn one_side(mut member: probeline_exchange::Thread) -> Vec<u64> {
    let me = member.me().0;
    let mut engine =
        Builder::new(Sizes::new(64).with_slots(2, 8).with_depth(2)).open(&mut member).unwrap();
    let at = |owner| segment(owner, 8, 1);
    let local = |slot| local(slot, 0, 1);
    let mut completion = [Completion::default()];
    let mut seen = Vec::new();
    for round in 1..=ROUNDS {
        engine.staged(local(0)).unwrap()[0] = round;
        // Both sides continue as nearly at the same time as possible.
        let counter = &engine.direct(segment(0, 0, 1)).unwrap()[0];
        counter.fetch_add(1, SeqCst);
        // Does not yield while the other side runs: yielding would move both sides to one core,
        // on which no reordering is visible.
        let mut checks = 0;
        while counter.load(SeqCst) < 2 * round {
            core::hint::spin_loop();
            checks += 1;
            if checks > CHECKS {
                std::thread::yield_now();
            }
        }
        engine.write(Token(0), local(0), at(1 - me)).unwrap();
        assert_eq!(engine.poll(&mut completion), Ok(1));
        engine.read(Token(1), at(me), local(1)).unwrap();
        assert_eq!(engine.poll(&mut completion), Ok(1));
        seen.push(engine.landed(local(1)).unwrap()[0]);
    }
    member.barrier().unwrap();
    seen
}

#[test]
fn forbids_store_buffering() {
    let seen = on_threads(probeline_exchange::threads(2), one_side);
    let missed = (1..=ROUNDS)
        .zip(seen[0].iter().zip(&seen[1]))
        .filter(|&(round, (first, second))| *first < round && *second < round)
        .count();
    assert_eq!(missed, 0, "rounds in which neither saw the other's completed WRITE");
}
