//! A completed WRITE is seen by every READ posted later, by whomever: the order that CPUs with
//! store buffers do not give for nothing.

use core::sync::atomic::Ordering::SeqCst;
use std::thread;

use probeline_shm::Builder;
use probeline_transport::{
    Completion, Exchange, Local, Owner, RemoteWord, Segment, Slot, Token, Transport,
};

/// How often a round checks for the other side before it yields. A machine that runs both sides at
/// the same time needs some hundred checks.
const LOOKS: u32 = 10_000;
/// Enough by far: without the fence in WRITE, one round in 20 failed where it was tried.
const ROUNDS: u64 = 5_000;

/// Writes the round's number to the own word, then reads the other's; gives what was read. The
/// words lie in the other's window each, far from both threads' caches.
fn one_side(mut member: probeline_exchange::Thread) -> Vec<u64> {
    let me = member.me().0;
    let mut engine = Builder::new(64).slots(2, 8).depth(2).open(&mut member).unwrap();
    let word = |owner| RemoteWord { owner: Owner(owner), index: 8 };
    let at = |owner| Segment { start: word(owner), words: 1 };
    let arrived = Segment { start: RemoteWord { owner: Owner(0), index: 0 }, words: 1 };
    let local = |slot| Local { slot: Slot(slot), start: 0, words: 1 };
    let mut end = [Completion::default()];
    let mut seen = Vec::new();
    for round in 1..=ROUNDS {
        engine.staged(local(0)).unwrap()[0] = round;
        // Both go on at the same time, as near as can be.
        let counter = &engine.direct(arrived).unwrap()[0];
        counter.fetch_add(1, SeqCst);
        // Does not yield while the other side runs: yielding would move both sides to one core,
        // where no reordering is visible.
        let mut looks = 0;
        while counter.load(SeqCst) < 2 * round {
            core::hint::spin_loop();
            looks += 1;
            if looks > LOOKS {
                thread::yield_now();
            }
        }
        engine.write(Token(0), local(0), at(1 - me)).unwrap();
        assert_eq!(engine.poll(&mut end), Ok(1));
        engine.read(Token(1), at(me), local(1)).unwrap();
        assert_eq!(engine.poll(&mut end), Ok(1));
        seen.push(engine.landed(local(1)).unwrap()[0]);
    }
    member.barrier().unwrap();
    seen
}

#[test]
fn of_two_that_write_and_then_read_one_at_least_sees_the_other() {
    let seen: Vec<_> = thread::scope(|scope| {
        let sides: Vec<_> = probeline_exchange::threads(2)
            .into_iter()
            .map(|member| scope.spawn(move || one_side(member)))
            .collect();
        sides.into_iter().map(|side| side.join().unwrap()).collect()
    });
    let missed = (1..=ROUNDS)
        .zip(seen[0].iter().zip(&seen[1]))
        .filter(|&(round, (first, second))| *first < round && *second < round)
        .count();
    assert_eq!(missed, 0, "rounds in which neither saw the other's completed WRITE");
}
