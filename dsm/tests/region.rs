//! Regions of several ranks: what is transferred and what is not, waits, barriers, and what is refused.

#![allow(clippy::cast_possible_truncation, reason = "numbers are small here")]
#![allow(clippy::single_range_in_vec_init, reason = "an access of one range")]

use bytemuck::Pod;
use probeline_dsm::{
    CollectiveError, Config, ConfigError, Distribution, Operation, OperationError, Region,
};
use probeline_exchange::testing::on_ranks;
use probeline_shm::{Builder, Engine};
use probeline_sim::stage::{self, StageExchange};
use probeline_sim::{Cluster, DirectAccess, Rng};
use probeline_transport::{Alone, AtomicScope, Exchange, Owner, Sizes, Transport};

type Opened<T, E> = Region<T, E, [Operation; 4], Vec<u64>>;

fn open<T: Pod>(config: Config, job: &mut (impl Exchange + ?Sized)) -> Opened<T, Engine> {
    let engine = Builder::new(config.sizes::<T>(job.owners(), 4)).open(job).unwrap();
    open_on(engine, config, job).unwrap()
}

fn open_on<T: Pod, E: Transport>(
    engine: E,
    config: Config,
    job: &mut (impl Exchange + ?Sized),
) -> Result<Opened<T, E>, CollectiveError> {
    let memory = vec![0; config.memory_words::<T>(job.owners())];
    Region::open(engine, config, [Operation::EMPTY; 4], memory, job)
}

/// Runs ranks on the simulator. Returns what they return, and the number of operations that they have posted.
fn simulate<T: Pod, R: Send>(
    config: Config,
    simulator: impl Fn(Sizes) -> probeline_sim::Config,
    body: impl Fn(&mut Opened<T, probeline_sim::Engine>, &mut StageExchange) -> R + Sync,
) -> (Vec<R>, u64) {
    let owners = simulator(Sizes::default()).owners;
    let cluster = Cluster::new(simulator(config.sizes::<T>(owners, 4))).unwrap();
    let results = stage::run(&cluster, |engine, mut job| {
        let mut region = open_on(engine, config, &mut job).unwrap();
        body(&mut region, &mut job)
    });
    (results.unwrap(), cluster.counters().posted)
}

/// A page is read once, and again only after another rank has changed it.
#[test]
fn transfers_only_changes() {
    let config = Config { distribution: Distribution::Cyclic, ..Config::new(4096) };
    on_ranks(2, |mut job| {
        let mut region = open::<u64>(config, &mut job);
        let me = job.me().0 as usize;
        region.prefetch(0..4096).unwrap();
        let all = region.view(0..4096).unwrap();
        assert_eq!(all.iter().sum::<u64>(), 0);
        assert_eq!(region.stats().fetches, 8);
        region.barrier(&mut job).unwrap();
        if me == 0 {
            let few = region.edit(10..14).unwrap();
            few.copy_from_slice(&[1, 2, 0, 4]);
        }
        region.barrier(&mut job).unwrap();
        let few = region.view(10..14).unwrap();
        assert_eq!(few, [1, 2, 0, 4]);
        let stats = region.stats();
        assert_eq!(stats.fetches, 8 + me as u64, "the editor keeps its copy");
        let sent = (stats.diffs, stats.writes, stats.written_words, stats.adds);
        // One WRITE for the range that was edited, its unchanged word included.
        assert_eq!(sent, if me == 0 { (1, 1, 4, 0) } else { (0, 0, 0, 0) });
        region.barrier(&mut job).unwrap();
        let _ = region.view(0..4096).unwrap();
        assert_eq!(region.stats().fetches, 8 + me as u64);
    });
}

/// A page that was overwritten in part is read when it is viewed, and one that was overwritten as a whole is not.
#[test]
fn overwrites_read_nothing() {
    on_ranks(2, |mut job| {
        let config = Config { page_words: 8, ..Config::new(32) };
        let mut region = open::<u64>(config, &mut job);
        if job.me().0 == 1 {
            region.edit(0..32).unwrap().fill(5);
        }
        region.barrier(&mut job).unwrap();
        if job.me().0 == 0 {
            region.overwrite(6..18).unwrap().fill(7);
            region.overwrite(18..20).unwrap().fill(7);
            assert_eq!(region.view(8..16).unwrap(), [7; 8]);
            assert_eq!([region.stats().fetches, region.stats().flushes], [0, 0]);
            assert_eq!(region.view(4..8).unwrap(), [5, 5, 7, 7]);
            assert_eq!([region.stats().fetches, region.stats().flushes], [1, 1]);
        }
        region.barrier(&mut job).unwrap();
        let right: Vec<u64> = (0..32).map(|at| if (6..20).contains(&at) { 7 } else { 5 }).collect();
        assert_eq!(region.view(0..32).unwrap(), right);
        region.barrier(&mut job).unwrap();
    });
}

/// Each rank writes a page of its own, and reads all: at an acquire it drops the page of the other one only.
#[test]
fn directory_keeps_unchanged_pages() {
    const ROUNDS: u64 = 10;
    let fetches = on_ranks(2, |mut job| {
        let config = Config { directory: true, page_words: 8, ..Config::new(32) };
        let mut region = open::<u64>(config, &mut job);
        let me = job.me().0 as usize;
        for round in 0..2 * ROUNDS {
            if round % 2 == me as u64 {
                region.acquire(0).unwrap();
                region.edit(8 * me..8 * me + 1).unwrap()[0] += 1;
                assert_eq!(region.view(0..32).unwrap().iter().sum::<u64>(), round + 1);
                region.release(0).unwrap();
            }
            job.barrier().unwrap();
        }
        region.stats().fetches
    });
    assert_eq!(fetches, [4 + ROUNDS - 1; 2]);
}

/// A notice that comes again by another lock does not drop the copy that was read after it.
#[test]
fn obeys_each_notice_once() {
    on_ranks(3, |mut job| {
        let mut region = open::<u64>(Config::new(100), &mut job);
        let me = job.me().0;
        // Rank 1 tells rank 2 by lock 1 what it knows by lock 0.
        for (rank, lock) in [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1)] {
            if me == rank {
                region.acquire(lock).unwrap();
                if me == 0 {
                    region.edit(0..1).unwrap()[0] = 7;
                }
                assert_eq!(region.view(0..1).unwrap(), [7]);
                region.release(lock).unwrap();
            }
            job.barrier().unwrap();
        }
        let stats = region.stats();
        let expected = [1, u64::from(me.min(1)), 1 + u64::from(me.min(1))];
        assert_eq!([stats.fetches, stats.notices, stats.acquires], expected);
    });
}

/// A rank that waits for a lock does other things between polls, and keeps its place when it gives up.
#[test]
fn waits_by_polls() {
    let config = Config { max_lock_reads: 100, ..Config::new(10) };
    on_ranks(2, |mut job| {
        let mut region = open::<u64>(config, &mut job);
        if job.me().0 == 0 {
            region.acquire(3).unwrap();
            assert_eq!(region.acquire(3), Err(OperationError::Lock { lock: 3, is_held: true }));
            job.barrier().unwrap();
            job.barrier().unwrap();
            region.edit(0..1).unwrap()[0] = 7;
            region.start_release(3).unwrap();
            while !region.poll().unwrap() {}
        } else {
            job.barrier().unwrap();
            assert_eq!(region.acquire(3), Err(OperationError::LockWait { lock_reads: 100 }));
            assert_eq!(region.release(3), Err(OperationError::Lock { lock: 3, is_held: false }));
            region.start_acquire(3).unwrap();
            assert_eq!(region.view(0..1).unwrap_err(), OperationError::InProgress);
            assert_eq!(region.start_acquire(4), Err(OperationError::InProgress));
            job.barrier().unwrap();
            loop {
                match region.poll() {
                    Ok(true) => break,
                    Ok(false) => {}
                    Err(OperationError::LockWait { .. }) => region.start_acquire(3).unwrap(),
                    Err(error) => panic!("{error}"),
                }
            }
            assert_eq!(region.view(0..1).unwrap(), [7]);
            region.release(3).unwrap();
        }
        job.barrier().unwrap();
    });
}

/// A barrier finishes what was started.
#[test]
fn barrier_finishes_started_calls() {
    on_ranks(2, |mut job| {
        let mut region = open::<u64>(Config::new(10_000), &mut job);
        let mine = job.me().0 as usize * 5_000..(job.me().0 as usize + 1) * 5_000;
        region.edit(mine).unwrap().fill(3);
        region.start_barrier().unwrap();
        region.poll().unwrap();
        region.barrier(&mut job).unwrap();
        region.start_acquire(job.me().0).unwrap();
        region.barrier(&mut job).unwrap();
        region.release(job.me().0).unwrap();
        assert_eq!(region.view(0..10_000).unwrap().iter().sum::<u64>(), 30_000);
        region.barrier(&mut job).unwrap();
    });
}

#[test]
#[allow(clippy::reversed_empty_ranges, reason = "refused")]
fn refuses_invalid_accesses() {
    let few = Config { page_words: 8, mirror_pages: 4, edited_pages: 2, ..Config::new(100) };
    let mut region = open::<u64>(few, &mut Alone);
    let pages = |needed, found| OperationError::Pages { needed, found };
    for (range, error) in [
        (99..101, OperationError::Index { index: 100 }),
        (5..3, OperationError::Range { start: 5 }),
        (24..40, pages(2, 1)),
    ] {
        assert_eq!(region.view(range.clone()).unwrap_err(), error);
        assert_eq!(region.edit(range.clone()).unwrap_err(), error);
        assert_eq!(region.access([range.clone()], []).unwrap_err(), error);
        assert!(range == (24..40) || region.prefetch(range) == Err(error));
    }
    assert_eq!(region.access([0..4], [3..5]).unwrap_err(), OperationError::Overlap);
    assert_eq!(region.access([], [0..4, 3..5]).unwrap_err(), OperationError::Overlap);
    assert_eq!(region.access([0..1, 32..33], []).unwrap_err(), pages(2, 4));
    // The same if all pages across a turn of the mirror are present.
    let _ = (region.view(24..32).unwrap().len(), region.view(32..40).unwrap().len());
    assert_eq!(region.view(24..40).unwrap_err(), pages(2, 1));
    assert_eq!(region.edit(24..40).unwrap_err(), pages(2, 1));
    assert_eq!(region.access([24..40], []).unwrap_err(), pages(2, 1));
    // An access that is refused edits nothing.
    region.barrier(&mut Alone).unwrap();
    let before = *region.stats();
    assert_eq!(region.edit(0..24).unwrap_err(), pages(3, 2));
    region.barrier(&mut Alone).unwrap();
    assert_eq!([region.stats().diffs, region.stats().flushes], [before.diffs, before.flushes]);
    assert_eq!(region.acquire(16), Err(OperationError::UnknownLock { lock: 16, locks: 16 }));
    // Nothing was lost.
    region.access([], [0..2, 8..9]).unwrap().1[0].fill(5);
    region.edit(16..17).unwrap().fill(6);
    assert_eq!(region.access([0..2, 16..17], []).unwrap().0, [&[5, 5][..], &[6]]);
    // An empty range lies in no other one, and has no page, even of another turn of the mirror.
    assert!(region.view(7..7).unwrap().is_empty());
    let (seen, []) = region.access([5..5, 0..10], []).unwrap();
    assert_eq!(seen.map(<[_]>::len), [0, 10]);
    assert!(region.access([5..5], [0..8]).is_ok());
    assert!(region.access([37..37], [0..8]).is_ok());
}

/// Prefetches more pages than the mirror holds, and expects no READ of a page that the prefetch displaces itself.
#[test]
fn prefetch_keeps_pages_it_read() {
    let few = Config { page_words: 8, mirror_pages: 4, ..Config::new(8 * 64) };
    let mut region = open::<u64>(few, &mut Alone);
    assert!(!region.has(0..8));
    region.prefetch(0..8 * 64).unwrap();
    assert_eq!(
        [0..8, 0..32, 24..40, 600..601].map(|range| region.has(range)),
        [true, true, false, false]
    );
    let fetches = region.stats().fetches;
    let _ = region.view(0..8).unwrap();
    assert!(fetches <= 4, "{fetches} pages were read for a mirror of 4");
    assert_eq!(region.stats().fetches, fetches, "the first page was displaced");
}

#[test]
fn refuses_invalid_configurations() {
    let config = Config::new(100);
    let open = |config: Config, words: usize| {
        // No size overflows.
        let (..) = (config.sizes::<u64>(1, 4), config.memory_words::<u64>(1));
        let engine = Builder::new(Config::new(100).sizes::<u64>(1, 4)).open(&mut Alone).unwrap();
        let (operations, memory) = ([Operation::EMPTY; 4], vec![0_u64; words]);
        Region::<u64, _, _, _>::open(engine, config, operations, memory, &mut Alone).err().unwrap()
    };
    let short = config.memory_words::<u64>(1) - 1;
    let error = open(config, short).to_string();
    let names = ["the words of the memory", &short.to_string()];
    assert!(names.iter().all(|name| error.contains(name)), "{error}");
    for config in [
        Config { page_words: 24, ..config },
        Config { page_words: u32::MAX, ..config },
        Config { elements: 0, ..config },
        Config { elements: 1 << 60, ..config },
        Config { notices: 0, ..config },
        Config { notices: 1 << 31, ..config },
        Config { notices: u32::MAX, ..config },
        Config { locks: 0, ..config },
        Config { first_word: 1 << 40, ..config },
    ] {
        let error = open(config, 0);
        assert!(matches!(error, CollectiveError::Config(_)), "{config:?}: {error}");
    }
    // The last element of the first page ends in the second one, of another turn of the mirror.
    let turned = Config { mirror_pages: 1, ..config };
    let engine = Builder::new(turned.sizes::<[u64; 9]>(1, 4)).open(&mut Alone).unwrap();
    let (operations, memory) = ([Operation::EMPTY; 4], vec![0; 9_000]);
    let opened = Region::<[u64; 9], _, _, _>::open(engine, turned, operations, memory, &mut Alone);
    assert!(opened.err().unwrap().to_string().contains("a whole number of elements"));
    let error = open(Config { notices: 300, ..config }, 0);
    assert!(matches!(error, CollectiveError::Config(ConfigError::Slot { .. })), "{error}");
}

#[test]
fn names_differing_parameters() {
    on_ranks(2, |mut job| {
        let config = Config { page_words: 64 << job.me().0, ..Config::new(100) };
        let engine = Builder::new(Config::new(100).sizes::<u64>(2, 4)).open(&mut job).unwrap();
        let error = open_on::<u64, _>(engine, config, &mut job).err().unwrap();
        assert!(matches!(error, CollectiveError::Differs { what: "page_words", .. }), "{error}");
        job.barrier().unwrap();
    });
}

/// A barrier whose notices do not fit names pages by bits, or drops all copies where these do not fit either.
#[test]
fn barrier_handles_notice_overflow() {
    for (pages, fetches) in [(40, 43), (128, 131), (129, 2 * 129)] {
        let stats: Vec<probeline_dsm::Stats> = on_ranks(2, |mut job| {
            let config = Config { page_words: 8, notices: 2, ..Config::new(8 * pages) };
            let all = 0..config.elements as usize;
            let mut region = open::<u64>(config, &mut job);
            let _ = region.view(all.clone()).unwrap();
            job.barrier().unwrap();
            for page in [0, 2, 39] {
                if job.me().0 == 0 {
                    region.edit(page * 8..page * 8 + 1).unwrap()[0] = 1;
                }
            }
            region.barrier(&mut job).unwrap();
            assert_eq!(region.view(all).unwrap().iter().sum::<u64>(), 3);
            region.barrier(&mut job).unwrap();
            *region.stats()
        });
        assert_eq!(stats[1].fetches, fetches);
        assert_eq!([stats[0].overflows, stats[1].overflows], [1, 0]);
    }
}

/// A barrier that comes while a rank waits for a lock, whose holder keeps it across the barrier.
#[test]
fn barrier_while_awaiting_lock() {
    let config = Config { max_lock_reads: 100, ..Config::new(10) };
    on_ranks(2, |mut job| {
        let mut region = open::<u64>(config, &mut job);
        let me = job.me().0;
        if me == 0 {
            region.acquire(0).unwrap();
        }
        job.barrier().unwrap();
        if me == 1 {
            region.start_acquire(0).unwrap();
        }
        let passed = region.barrier(&mut job);
        let waits = OperationError::LockWait { lock_reads: 100 };
        assert_eq!(passed, if me == 1 { Err(waits.into()) } else { Ok(()) });
        if me == 0 {
            region.edit(0..1).unwrap()[0] = 7;
            region.release(0).unwrap();
        } else {
            while let Err(error) = region.acquire(0) {
                assert_eq!(error, waits);
            }
            assert_eq!(region.view(0..1).unwrap(), [7]);
            region.release(0).unwrap();
        }
        region.barrier(&mut job).unwrap();
    });
}

/// Checks that the CPU accesses pages only where its accesses are coherent with the transport's atomics.
#[test]
fn posts_accesses_beside_device_atomics() {
    // A READ, a WRITE, and a fetch-and-add.
    for (atomics, posted) in [(AtomicScope::Cpu, 0), (AtomicScope::Device, 3)] {
        let simulator = |sizes| probeline_sim::Config {
            direct_access: DirectAccess::All,
            atomics,
            ..probeline_sim::Config::new(1, sizes)
        };
        let ran = simulate::<u32, _>(Config::new(100), simulator, |region, job| {
            region.edit(1..4).unwrap().fill(7);
            region.barrier(job).unwrap();
        });
        assert_eq!(ran.1, posted, "{atomics:?}");
    }
}

/// Acquires a lock at its own home again and again, and expects that another rank gets it too, even if the transport
/// progresses only in polls.
#[test]
fn repeated_sections_let_others_run() {
    let simulator = |sizes| probeline_sim::Config {
        direct_access: DirectAccess::Own,
        ..probeline_sim::Config::new(2, sizes)
    };
    let config = Config { locks: 1, ..Config::new(100) };
    let (seen, _) = simulate::<u64, _>(config, simulator, |region, job| {
        let is_waiter = job.me() == Owner(0);
        let seen = (0..if is_waiter { 10_000 } else { 1 }).any(|_| {
            region.acquire(0).unwrap();
            if !is_waiter {
                region.edit(0..1).unwrap()[0] = 1;
            }
            let seen = region.view(0..1).unwrap()[0] == 1;
            region.release(0).unwrap();
            seen
        });
        region.barrier(job).unwrap();
        seen
    });
    assert_eq!(seen, [true; 2], "rank 0 saw nothing in 10,000 sections");
}

/// Fails operations of one rank, and expects that the next barrier fails on all ranks.
#[test]
fn failed_rank_fails_next_barrier() {
    // Many operations fail, and one rank has any.
    let simulator =
        |sizes| probeline_sim::Config::new(4, sizes).faulty(1, 1_000_000 / 3, &mut Rng::new(1, 0));
    let config = Config { page_words: 8, ..Config::new(60) };
    let (passed, _) = simulate::<u16, _>(config, simulator, |region, job| {
        region.barrier(job).unwrap();
        if job.me() == Owner(1) {
            region.view(0..60).unwrap_err();
        }
        let passed = region.barrier(job);
        assert!(region.view(0..0).is_err(), "the region is closed");
        assert!(region.barrier(job).is_err(), "it stays closed");
        passed
    });
    for (rank, passed) in (0..).map(Owner).zip(passed) {
        match rank {
            Owner(1) => assert!(matches!(passed, Err(CollectiveError::Operation(_))), "{passed:?}"),
            _ => assert_eq!(passed, Err(CollectiveError::PartFailed { owner: Owner(1) })),
        }
    }
}

/// Lets the ranks pass the barriers of two regions in different orders.
#[test]
fn names_other_barrier() {
    let errors = on_ranks(2, |mut job| {
        let mut regions = [(), ()].map(|()| open::<u64>(Config::new(100), &mut job));
        let first = job.me().0 as usize;
        let error = regions[first].barrier(&mut job).unwrap_err();
        job.barrier().unwrap();
        error
    });
    for (other, error) in [Owner(1), Owner(0)].into_iter().zip(errors) {
        assert_eq!(error, CollectiveError::OtherBarrier { owner: other });
    }
}
