//! Regions of several ranks against plain memory: random edits between barriers, counters under locks, and
//! what is refused.

#![allow(clippy::cast_possible_truncation, reason = "numbers are small here")]
#![allow(clippy::single_range_in_vec_init, reason = "an access of one range")]

use core::fmt::Debug;

use probeline_dsm::{
    CollectiveError, Config, ConfigError, Distribution, Operation, OperationError, Region,
};
use probeline_exchange::testing::on_ranks;
use probeline_shm::{Builder, Engine};
use probeline_transport::{Alone, Exchange};
use proptest::prelude::*;

type Opened<T> = Region<T, Engine, [Operation; 4], Vec<u64>>;

fn open<T: bytemuck::Pod>(config: Config, job: &mut (impl Exchange + ?Sized)) -> Opened<T> {
    let engine = Builder::new(config.sizes::<T>(job.owners(), 4)).open(job).unwrap();
    let memory = vec![0; config.memory_words::<T>(job.owners())];
    Region::open(engine, config, [Operation::EMPTY; 4], memory, job).unwrap()
}

/// Work of ranks between two barriers: the rank that edits each element, if any.
type Phase = Vec<u32>;

/// Each rank edits its elements of each phase in random ranges, and sees all edits of all after the barrier.
fn meets_plain_memory<T>(config: Config, phases: &[Phase], value: impl Fn(usize) -> T + Sync)
where
    T: bytemuck::Pod + PartialEq + Debug,
{
    const RANKS: u32 = 3;
    on_ranks(RANKS, |mut job| {
        let me = job.me().0;
        let mut region = open::<T>(config, &mut job);
        let len = config.elements as usize;
        let mut expected = vec![T::zeroed(); len];
        for (nth, phase) in phases.iter().enumerate() {
            let mut at = 0;
            while at < len {
                let same = phase[at..].iter().take_while(|who| **who == phase[at]).count();
                // Not across a multiple of the mirror's pages.
                let end = (at + same).min(next_turn::<T>(&config, at)).max(at + 1);
                if phase[at] == me {
                    let elements = region.edit(at..end).unwrap();
                    (at..).zip(elements).for_each(|(at, to)| *to = value(nth * len + at));
                }
                at = end;
            }
            region.barrier(&mut job).unwrap();
            for (at, _) in phase.iter().enumerate().filter(|(_, who)| **who < RANKS) {
                expected[at] = value(nth * len + at);
            }
            for (at, expected) in expected.iter().enumerate() {
                let found = region.view(at..at + 1).unwrap();
                assert_eq!(found, [*expected], "element {at} in phase {nth} on rank {me}");
            }
            // The next edits come after all views.
            region.barrier(&mut job).unwrap();
        }
    });
}

/// Returns the first element behind the turn of the mirror that has this one.
fn next_turn<T>(config: &Config, at: usize) -> usize {
    let turn = (config.mirror_pages as usize).saturating_mul(config.page_words as usize * 8);
    (at * size_of::<T>() / turn + 1).saturating_mul(turn) / size_of::<T>()
}

fn configs(len: usize) -> impl Strategy<Value = Config> {
    let sizes = (0..3_u32, 1..5_u32, prop_oneof![Just(u32::MAX), 2..6_u32], 1..5_u32);
    (sizes, any::<bool>(), 0..20_u64).prop_map(
        move |((page, notices, mirror_pages, edited_pages), cyclic, first_word)| Config {
            page_words: 8 << page,
            notices,
            mirror_pages,
            edited_pages,
            first_word,
            distribution: if cyclic { Distribution::Cyclic } else { Distribution::Block },
            ..Config::new(len as u64)
        },
    )
}

/// Phases in which owners change every few elements.
fn phases(len: usize) -> impl Strategy<Value = Vec<Phase>> {
    let run = (0..4_u32, 1..20_usize);
    let phase = prop::collection::vec(run, len).prop_map(move |runs| {
        runs.into_iter().flat_map(|(who, count)| vec![who; count]).take(len).collect()
    });
    prop::collection::vec(phase, 1..5)
}

const LEN: usize = 150;

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn byte_edits_match_model(config in configs(LEN), phases in phases(LEN)) {
        // One byte at a time within a page: no range is longer than the pages that can be edited.
        meets_plain_memory::<u8>(Config { edited_pages: 40, ..config }, &phases, |nth| nth as u8);
    }

    #[test]
    fn half_word_edits_match_model(config in configs(LEN), phases in phases(LEN)) {
        meets_plain_memory::<u32>(Config { edited_pages: 40, ..config }, &phases, |nth| nth as u32 * 3);
    }

    #[test]
    fn odd_element_edits_match_model(config in configs(LEN), phases in phases(LEN)) {
        let config = Config { mirror_pages: u32::MAX, edited_pages: 40, ..config };
        meets_plain_memory::<[u16; 7]>(config, &phases, |nth| [nth as u16; 7]);
    }

    #[test]
    fn word_edits_match_model(config in configs(LEN), phases in phases(LEN)) {
        let config = Config { edited_pages: config.edited_pages.max(4), page_words: 64, ..config };
        meets_plain_memory::<u64>(config, &phases, |nth| nth as u64);
    }
}

/// Each lock has a counter; ranks add to random ones, with two locks at a time in their order.
#[test]
fn counters_under_locks_count_all() {
    const RANKS: u32 = 4;
    const ROUNDS: u64 = 300;
    let config = Config { page_words: 8, locks: 3, notices: 2, ..Config::new(3) };
    let stats = on_ranks(RANKS, |mut job| {
        let mut region = open::<u32>(config, &mut job);
        for round in 0..ROUNDS {
            let pick = (u64::from(job.me().0) * 31 + round * 7) % 3;
            let (first, second) = match pick {
                0 => (0, 1),
                1 => (0, 2),
                _ => (1, 2),
            };
            region.acquire(first).unwrap();
            region.acquire(second).unwrap();
            for lock in [first, second] {
                region.edit(lock as usize..lock as usize + 1).unwrap()[0] += 1;
            }
            region.release(second).unwrap();
            region.release(first).unwrap();
        }
        region.barrier(&mut job).unwrap();
        let counts = region.view(0..3).unwrap();
        assert_eq!(u64::from(counts.iter().sum::<u32>()), 2 * ROUNDS * u64::from(RANKS));
        *region.stats()
    });
    let stats = stats.iter().fold(Default::default(), |sum: probeline_dsm::Stats, s| sum.plus(s));
    assert_eq!(stats.acquires, 2 * ROUNDS * u64::from(RANKS));
    assert!(stats.adds > 0 && stats.notices > 0, "{stats:?}");
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

/// A list that has lost the notice of a page: its reader drops its copies, and passes that on with another lock.
#[test]
fn drops_copies_after_lost_notices() {
    const RANKS: u32 = 5;
    const FIRST: usize = 0;
    const THIRD: usize = 16;
    let config = Config { page_words: 8, notices: 2, locks: 3, ..Config::new(100) };
    on_ranks(RANKS, |mut job| {
        let mut region = open::<u64>(config, &mut job);
        let me = job.me().0;
        let _ = region.view(0..100).unwrap();
        job.barrier().unwrap();
        // Rank 2 knows the third page by lock 1, and tells lock 0 of it again: a notice of lock 0 too many.
        let steps =
            [(1, 1, Some(THIRD)), (2, 1, None), (0, 0, Some(FIRST)), (1, 0, None), (2, 0, None)];
        for (rank, lock, edited) in steps {
            if me == rank {
                region.acquire(lock).unwrap();
                if let Some(at) = edited {
                    region.edit(at..at + 1).unwrap()[0] = 7;
                }
                region.release(lock).unwrap();
            }
            job.barrier().unwrap();
        }
        // Rank 3 has it from lock 0, and rank 4 from rank 3.
        for (rank, locks) in [(3, [0, 2]), (4, [2, 2])] {
            if me == rank {
                for lock in locks {
                    region.acquire(lock).unwrap();
                    let (seen, []) =
                        region.access([FIRST..FIRST + 1, THIRD..THIRD + 1], []).unwrap();
                    assert_eq!(seen, [&[7], &[7]], "rank {rank}");
                    region.release(lock).unwrap();
                }
                assert_eq!(region.stats().overflows > 0, rank == 3);
            }
            job.barrier().unwrap();
        }
    });
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
        assert_eq!([stats.fetches, stats.notices], [1, u64::from(me.min(1))]);
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
#[allow(clippy::reversed_empty_ranges, clippy::single_range_in_vec_init, reason = "refused")]
fn refuses_invalid_accesses() {
    let few = Config { page_words: 8, mirror_pages: 4, edited_pages: 2, ..Config::new(100) };
    let mut region = open::<u64>(few, &mut Alone);
    let beyond = OperationError::Index { index: 100 };
    assert_eq!(region.view(99..101).unwrap_err(), beyond);
    assert_eq!(region.prefetch(99..101).unwrap_err(), beyond);
    let reversed = OperationError::Range { start: 5 };
    assert_eq!(region.view(5..3).unwrap_err(), reversed);
    assert_eq!(region.prefetch(5..3).unwrap_err(), reversed);
    assert_eq!(region.access([0..4], [3..5]).unwrap_err(), OperationError::Overlap);
    assert_eq!(region.access([], [0..4, 3..5]).unwrap_err(), OperationError::Overlap);
    let pages = |needed, found| OperationError::Pages { needed, found };
    assert_eq!(region.view(24..40).unwrap_err(), pages(2, 1));
    assert_eq!(region.access([0..1, 32..33], []).unwrap_err(), pages(2, 4));
    assert_eq!(region.edit(0..24).unwrap_err(), pages(3, 2));
    assert_eq!(region.acquire(16), Err(OperationError::Index { index: 16 }));
    // Nothing was lost.
    region.access([], [0..2, 8..9]).unwrap().1[0].fill(5);
    region.edit(16..17).unwrap().fill(6);
    assert_eq!(region.access([0..2, 16..17], []).unwrap().0, [&[5, 5][..], &[6]]);
    assert!(region.view(7..7).unwrap().is_empty());
}

#[test]
fn refuses_invalid_configurations() {
    let open = |config: Config, words: usize| {
        let sizes = Config::new(100).sizes::<u64>(1, 4);
        let engine = Builder::new(sizes).open(&mut Alone).unwrap();
        let operations = [Operation::EMPTY; 4];
        let opened = Region::<u64, _, _, _>::open(
            engine,
            config,
            operations,
            vec![0_u64; words],
            &mut Alone,
        );
        opened.map(|_| ()).unwrap_err()
    };
    let config = Config::new(100);
    let short = config.memory_words::<u64>(1) - 1;
    let error = open(config, short).to_string();
    assert!(
        error.contains("the words of the memory") && error.contains(&short.to_string()),
        "{error}"
    );
    for config in [
        Config { page_words: 24, ..config },
        Config { elements: 0, ..config },
        Config { notices: 0, ..config },
        Config { elements: 1 << 60, ..config },
        Config { locks: 0, ..config },
        Config { first_word: 1 << 40, ..config },
    ] {
        let error = open(config, 0);
        assert!(matches!(error, CollectiveError::Config(_)), "{config:?}: {error}");
    }
    let error = open(Config { notices: 300, ..config }, 0);
    assert!(matches!(error, CollectiveError::Config(ConfigError::Slot { .. })), "{error}");
}

#[test]
fn names_differing_parameters() {
    on_ranks(2, |mut job| {
        let page_words = 64 << job.me().0;
        let config = Config { page_words, ..Config::new(100) };
        let engine = Builder::new(Config::new(100).sizes::<u64>(2, 4)).open(&mut job).unwrap();
        let memory = vec![0; config.memory_words::<u64>(2)];
        let operations = [Operation::EMPTY; 4];
        let opened = Region::<u64, _, _, _>::open(engine, config, operations, memory, &mut job);
        let error = opened.map(|_| ()).unwrap_err();
        assert!(matches!(error, CollectiveError::Differs { what: "page_words", .. }), "{error}");
        job.barrier().unwrap();
    });
}

/// Sums that overflow in a debug build.
#[test]
fn extreme_sizes_do_not_overflow() {
    let config = Config::new(100);
    for config in [
        Config { notices: u32::MAX, ..config },
        Config { notices: 1 << 31, ..config },
        Config { page_words: u32::MAX, ..config },
    ] {
        let sizes = std::panic::catch_unwind(|| config.sizes::<u64>(1, 4));
        assert!(sizes.is_ok(), "{config:?}");
    }
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

/// Ranks that call the barriers of two regions in different orders are told so.
#[test]
fn distinguishes_regions_in_barriers() {
    let passed = on_ranks(2, |mut job| {
        let [mut first, mut second] = [(); 2].map(|()| open::<u64>(Config::new(100), &mut job));
        let me = job.me().0;
        let seen: Vec<u64> = first.view(0..1).unwrap().to_vec();
        job.barrier().unwrap();
        if me == 0 {
            first.edit(0..1).unwrap()[0] = 7;
        }
        let (one, other) =
            if me == 0 { (&mut first, &mut second) } else { (&mut second, &mut first) };
        let passed = [one.barrier(&mut job), other.barrier(&mut job)];
        let found = first.view(0..1).map(|found| found[0]);
        job.barrier().unwrap();
        (seen, passed, found)
    });
    assert!(passed.iter().any(|(_, passed, _)| passed[0].is_err()), "{passed:?}");
}

/// An empty range lies in no other one, and has no page, wherever it begins.
#[test]
fn empty_ranges_overlap_nothing() {
    let mut region = open::<u64>(Config::new(100), &mut Alone);
    region.edit(0..10).unwrap().fill(1);
    let (seen, []) = region.access([5..5, 0..10], []).expect("nothing is in both");
    assert_eq!(seen.map(<[_]>::len), [0, 10]);
    assert!(region.access([5..5], [0..10]).is_ok());
    // Of another turn of the mirror.
    let few = Config { page_words: 8, mirror_pages: 4, ..Config::new(100) };
    let mut region = open::<u64>(few, &mut Alone);
    assert!(region.access([37..37], [0..8]).is_ok());
}

/// The error for a range across turns of the mirror, whether its pages are present or not.
#[test]
fn refuses_ranges_across_turns() {
    let few = Config { page_words: 8, mirror_pages: 4, ..Config::new(100) };
    let mut region = open::<u64>(few, &mut Alone);
    let absent = region.view(24..40).unwrap_err();
    let _ = region.view(24..32).unwrap();
    let _ = region.view(32..40).unwrap();
    assert_eq!(region.view(24..40).unwrap_err(), absent);
    assert_eq!(region.edit(24..40).unwrap_err(), absent);
    assert_eq!(region.access([24..40], []).unwrap_err(), absent);
}

/// A prefetch of more pages than the mirror holds reads none that it displaces itself.
#[test]
fn prefetch_keeps_pages_it_read() {
    let few = Config { page_words: 8, mirror_pages: 4, ..Config::new(8 * 64) };
    let mut region = open::<u64>(few, &mut Alone);
    region.prefetch(0..8 * 64).unwrap();
    let fetches = region.stats().fetches;
    let _ = region.view(0..8).unwrap();
    assert!(fetches <= 4, "{fetches} pages were read for a mirror of 4");
    assert_eq!(region.stats().fetches, fetches, "the first page was displaced");
}

/// An access that is refused for its number of pages edits nothing.
#[test]
fn counts_no_refused_edits() {
    let few = Config { page_words: 8, edited_pages: 2, ..Config::new(100) };
    let mut region = open::<u64>(few, &mut Alone);
    region.edit(0..24).unwrap_err();
    region.barrier(&mut Alone).unwrap();
    assert_eq!([region.stats().diffs, region.stats().flushes], [0, 0]);
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
