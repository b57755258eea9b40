//! Elements under locks, in pages that several locks share, over shared memory without any other order between ranks.

#![allow(clippy::cast_possible_truncation, reason = "numbers are small here")]

use core::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::thread::yield_now;
use std::time::Instant;

use probeline_dsm::{Config, Operation, OperationError, Region};
use probeline_exchange::testing::{
    AnyEngine, PATIENCE, Replay, Watched, on_ranks, replayed_seed, seeds,
};
use probeline_shm::Builder;
use probeline_sim::Rng;
use probeline_transport::{AtomicScope, Exchange};

const LOCKS: u32 = 4;
/// Element `n` is of lock `n % LOCKS`, so that locks share words.
const ELEMENTS: usize = 96;

/// Each rank looks at elements, and adds to them, in random sections of several locks, released in any order. It takes
/// locks by the CPU or, by the scope that its transport declares, by posted atomics, here of the CPU too.
/// Returns how often a rank found that a list had lost notices.
fn sections(seed: u64) -> u64 {
    let mut rng = Rng::new(seed, 5_000);
    let ranks = if rng.below(2) == 0 { 2 } else { 3 };
    let config = Config {
        page_words: 8,
        locks: LOCKS,
        notices: 1 + rng.below(6) as u32,
        max_lock_reads: 20,
        directory: rng.below(3) == 0,
        ..Config::new(ELEMENTS as u64)
    };
    // Relaxed: the locks of the region alone order the accesses to these too.
    let expected = [const { AtomicU16::new(0) }; ELEMENTS];
    let overflows = on_ranks(ranks, |mut job| {
        let mut rng = Rng::new(seed, 5_001 + u64::from(job.me().0));
        let engine = Builder::new(config.sizes::<u16>(ranks, 3)).open(&mut job).unwrap();
        let scope = if rng.below(3) == 0 { AtomicScope::Device } else { AtomicScope::Cpu };
        let engine = AnyEngine::new(Watched::declaring(engine, |caps| caps.atomics = scope));
        let memory = vec![0; config.memory_words::<u16>(ranks)];
        let storage = vec![Operation::EMPTY; 3];
        let region = Region::<u16, _, _, _>::open(engine, config, storage, memory, &mut job);
        let mut region = region.unwrap();
        for _ in 0..200 {
            let mut held: Vec<u32> = (0..LOCKS).filter(|_| rng.below(3) == 0).collect();
            for lock in &held {
                let start = Instant::now();
                while let Err(error) = region.acquire(*lock) {
                    assert!(matches!(error, OperationError::LockWait { .. }), "{error}");
                    assert!(start.elapsed() < PATIENCE, "lock {lock} was never passed on");
                    yield_now();
                }
            }
            while !held.is_empty() {
                let lock = held[rng.below(held.len() as u64) as usize];
                for _ in 0..rng.below(3) {
                    let at = (lock + LOCKS * rng.below(ELEMENTS as u64 / 4) as u32) as usize;
                    let value = expected[at].load(Relaxed);
                    if rng.below(3) == 0 {
                        assert_eq!(region.view(at..at + 1).unwrap()[0], value, "element {at}");
                    } else {
                        let to = &mut region.edit(at..at + 1).unwrap()[0];
                        assert_eq!(*to, value, "edit of {at}");
                        *to += 1;
                        expected[at].store(value + 1, Relaxed);
                    }
                }
                // Others run meanwhile, even on one CPU.
                (rng.below(4) == 0).then(yield_now);
                let lock = held.remove(rng.below(held.len() as u64) as usize);
                region.release(lock).unwrap();
            }
        }
        region.barrier(&mut job).unwrap();
        let expected = expected.each_ref().map(|value| value.load(Relaxed));
        assert_eq!(region.view(0..ELEMENTS).unwrap(), expected);
        region.stats().overflows
    });
    overflows.into_iter().sum()
}

#[test]
fn sections_see_earlier_holders() {
    let overflows = seeds(12).into_iter().map(|seed| (Replay(seed), sections(seed)).1);
    assert!(overflows.sum::<u64>() > 0 || replayed_seed().is_some(), "no list has lost a notice");
}
