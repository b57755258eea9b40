//! Aggregated messages: all arrive once and in the order of their sender, over shared memory and over
//! simulated owners whose CPUs do not see what peers write.

#![allow(clippy::cast_possible_truncation, reason = "numbers are small here")]

use core::time::Duration;

use probeline_containers::aggregator::{Aggregator, Config, Operation};
use probeline_containers::array::{self, Array};
use probeline_containers::{CollectiveError, OperationError};
use probeline_exchange::testing::{Replay, on_ranks, seeds};
use probeline_shm::Builder;
use probeline_sim::{Cluster, Faults, Model, Rng, stage};
use probeline_transport::{Alone, AtomicScope, Exchange, Owner, PostError, Sizes, Transport};

const OPERATIONS: usize = 8;

type Opened<T> = Aggregator<T, Vec<Operation>, [u64; 2]>;

fn open<T: Transport>(engine: T, config: Config, job: &mut impl Exchange) -> Opened<T> {
    open_with(OPERATIONS, engine, config, job)
}

fn open_with<T: Transport>(
    operations: usize,
    engine: T,
    config: Config,
    job: &mut impl Exchange,
) -> Opened<T> {
    Aggregator::open(engine, config, vec![Operation::EMPTY; operations], job).unwrap()
}

fn sizes(config: &Config, owners: u32) -> Sizes {
    config.sizes::<[u64; 2]>(owners, 8)
}

/// Sends numbered messages to random ranks in several rounds, and checks those that arrive.
fn exchange_messages<T: Transport>(
    messages: &mut Opened<T>,
    job: &mut impl Exchange,
    seed: u64,
    count: u64,
) {
    let (me, ranks) = (u64::from(job.me().0), u64::from(job.owners()));
    let mut rng = Rng::new(seed, me);
    let mut sent = vec![0; ranks as usize];
    let mut received = vec![0; ranks as usize];
    for _ in 0..3 {
        let mut deliver = |from: Owner, [number, rank]: [u64; 2]| {
            let next = &mut received[from.0 as usize];
            assert_eq!(
                [number, rank],
                [*next << 8, u64::from(from.0)],
                "lost, twice, or out of order"
            );
            *next += 1;
        };
        for _ in 0..count {
            let to = rng.below(ranks);
            let message = [sent[to as usize] << 8, me];
            sent[to as usize] += 1;
            while !messages.send(Owner(to as u32), &message).unwrap() {
                messages.progress(&mut deliver).unwrap();
                std::thread::yield_now();
            }
        }
        messages.flush(job, &mut deliver).unwrap();
        let all = [&sent[..], &received[..]].map(|counts| job.sum(counts.iter().sum()).unwrap());
        assert_eq!(all[0], all[1]);
        assert_eq!(messages.len(job).unwrap(), 0);
    }
}

#[test]
fn delivers_over_shared_memory() {
    let configs = [
        Config { block: 1, blocks: 1, ..Config::default() },
        Config { block: 5, blocks: 2, first_word: 3, ..Config::default() },
        Config { block: 5, blocks: 1, first_word: 3, one_hop: 2, ..Config::default() },
        Config::default(),
    ];
    for config in configs {
        on_ranks(3, |mut job| {
            let engine = Builder::new(sizes(&config, 3)).open(&mut job).unwrap();
            let mut messages = open(engine, config, &mut job);
            exchange_messages(&mut messages, &mut job, 1, 1_000 * u64::from(config.block));
            job.barrier().unwrap();
        });
    }
}

fn sim(config: &Config, owners: u32) -> probeline_sim::Config {
    probeline_sim::Config::new(owners, sizes(config, owners))
}

#[test]
fn delivers_despite_torn_reads() {
    for seed in seeds(100) {
        let _replay = Replay(seed);
        let mut rng = Rng::new(seed, 7);
        let block = 1 + rng.below(4) as u32;
        let (blocks, one_hop) = (1 + rng.below(3) as u32, 1 + rng.below(4) as u32);
        let (owners, is_coherent) = (3 + rng.below(4) as u32, rng.below(4) == 0);
        let config = Config { block, blocks, one_hop, ..Config::default() };
        let with = probeline_sim::Config {
            atomics: if is_coherent { AtomicScope::Cpu } else { AtomicScope::Device },
            ..sim(&config, owners).faulty(seed, 0, &mut rng)
        };
        let operations = 1 + rng.below(8) as usize;
        stage::run(&Cluster::new(with).unwrap(), |engine, mut job| {
            let mut messages = open_with(operations, engine, config, &mut job);
            exchange_messages(&mut messages, &mut job, seed, 60);
            // Clear while messages are on the way, and while operations look for them.
            for to in 0..20 {
                messages.send(Owner(to % owners), &[7, 7]).unwrap();
                messages.progress(|_, _| ()).unwrap();
            }
            messages.clear(&mut job).unwrap();
            exchange_messages(&mut messages, &mut job, seed, 30);
        })
        .unwrap();
    }
}

/// Beyond 64 ranks, messages take two hops, and a window has lanes from the ranks of a row and a column only.
#[test]
fn delivers_by_two_hops() {
    let config = Config { block: 8, blocks: 2, ..Config::default() };
    // Where nothing takes time, a rank that waits for room would never let the others run.
    let model = Model::simple(1_000);
    let with = probeline_sim::Config { model, ..sim(&config, 100) };
    stage::run(&Cluster::new(with).unwrap(), |engine, mut job| {
        let mut messages = open(engine, config, &mut job);
        exchange_messages(&mut messages, &mut job, 1, 150);
    })
    .unwrap();
    let [of_64, of_100, of_400] =
        [64, 100, 400].map(|ranks| sizes(&config, ranks).window_words as f64);
    assert!(of_100 < of_64 / 2.0 && of_400 < 2.2 * of_100, "{of_64}, {of_100}, {of_400} words");
}

#[test]
fn full_lane_refuses_messages() {
    let config = Config { block: 4, blocks: 2, ..Config::default() };
    let engine = Builder::new(sizes(&config, 1)).open(&mut Alone).unwrap();
    let mut messages = open(engine, config, &mut Alone);
    let host = Owner(0);
    assert_eq!(messages.send(Owner(1), &[0; 2]), Err(PostError::UnknownOwner.into()));
    let mut sent = 0;
    for _ in 0..100 {
        sent += u64::from(messages.send(host, &[sent << 8, 0]).unwrap());
    }
    // Two blocks in the lane, and one that waits.
    assert_eq!(sent, 4 * 3);
    let mut received = 0;
    messages
        .flush(&mut Alone, |_, [number, _]| {
            assert_eq!(number, received << 8);
            received += 1;
        })
        .unwrap();
    assert_eq!(received, sent);
}

#[test]
fn failed_write_ends_aggregator() {
    let config = Config { block: 4, blocks: 2, ..Config::default() };
    let with = probeline_sim::Config {
        faults: Faults { error_undone_ppm: 1_000_000, ..Faults::none() },
        ..sim(&config, 2)
    };
    let errors = stage::run(&Cluster::new(with).unwrap(), |engine, mut job| {
        let mut messages = open(engine, config, &mut job);
        if job.me() == Owner(0) {
            messages.send(Owner(1), &[0; 2]).unwrap();
        }
        let error = messages.flush(&mut job, |_, _| panic!("delivered")).unwrap_err();
        (error, messages.send(Owner(1), &[0; 2]).err())
    })
    .unwrap();
    let [(first, after), (second, _)] = errors[..] else { panic!("two ranks") };
    assert!(matches!(first, CollectiveError::Operation(OperationError::Failed(_))), "{first}");
    assert!(matches!(after, Some(OperationError::Failed(_))), "{after:?}");
    assert!(matches!(second, CollectiveError::Operation(OperationError::Failed(_))), "{second}");
}

/// A WRITE that failed before `clear` may take effect after it: the flush says so.
#[test]
fn flush_reports_failure_before_clear() {
    for seed in seeds(200) {
        let _replay = Replay(seed);
        let config = Config { block: 1, blocks: 2, max_idle: 20_000, ..Config::default() };
        let with = probeline_sim::Config {
            seed,
            model: Model::simple(2_000),
            faults: Faults { error_late_ppm: 200_000, late_ns: 30_000, ..Faults::none() },
            atomics: if seed % 2 == 0 { AtomicScope::Cpu } else { AtomicScope::Device },
            ..sim(&config, 2)
        };
        stage::run(&Cluster::new(with).unwrap(), |engine, mut job| {
            let mut messages = open(engine, config, &mut job);
            let is_sender = job.me() == Owner(0);
            if is_sender {
                messages.send(Owner(1), &[7, 7]).unwrap();
            }
            messages.clear(&mut job).unwrap();
            let mut is_old = false;
            let mut deliver = |_, message| is_old |= message == [7, 7];
            let _ = (0..300_u64).try_for_each(|number| {
                // Late WRITEs take effect in the first steps.
                if is_sender && number == 200 {
                    messages.send(Owner(1), &[100 + number, 0])?;
                }
                messages.progress(&mut deliver)
            });
            let flushed = messages.flush(&mut job, &mut deliver);
            assert!(!is_old || flushed.is_err(), "a message of before clear, and no error");
        })
        .unwrap();
    }
}

#[test]
fn flush_ends_without_peers() {
    let config = Config { block: 4, blocks: 2, max_idle: 10_000, ..Config::default() };
    on_ranks(2, |mut job| {
        let engine = Builder::new(sizes(&config, 2)).open(&mut job).unwrap();
        let mut messages = open(engine, config, &mut job);
        let me = job.me();
        if me == Owner(1) {
            std::thread::sleep(Duration::from_millis(300));
        }
        let error = messages.flush(&mut job, |_, _| ()).unwrap_err();
        let expected = match me {
            Owner(0) => OperationError::Undelivered.into(),
            _ => CollectiveError::PartFailed { owner: Owner(0) },
        };
        assert_eq!(error, expected);
        job.barrier().unwrap();
    });
}

/// On the paper's two machines, aggregated adds take less than a tenth of the time of adds by atomics.
#[test]
fn aggregated_adds_beat_atomics() {
    const ADDS: u64 = 20_000;
    let config = Config::default();
    let model = Model::oortwijn2015();
    let with = probeline_sim::Config { model, ..sim(&config, 2) };
    let aggregated = stage::run(&Cluster::new(with).unwrap(), |engine, mut job| {
        let mut messages = open(engine, config, &mut job);
        let peer = Owner(1 - job.me().0);
        let begun = messages.transport().now_ns();
        let mut sum = 0;
        for number in 0..ADDS {
            while !messages.send(peer, &[number, 1]).unwrap() {
                messages.progress(|_, [_, addend]| sum += addend).unwrap();
            }
        }
        messages.flush(&mut job, |_, [_, addend]| sum += addend).unwrap();
        assert_eq!(sum, ADDS);
        messages.transport().now_ns() - begun
    })
    .unwrap();
    let config = array::Config { direct: false, ..array::Config::new(1_000) };
    let sizes = config.sizes::<u64>(2, 32);
    let with = probeline_sim::Config { model, ..probeline_sim::Config::new(2, sizes) };
    let atomics = stage::run(&Cluster::new(with).unwrap(), |engine, mut job| {
        let operations = vec![array::Operation::EMPTY; 32];
        let mut array = Array::open(engine, config, operations, &mut job).unwrap();
        let first = 500 * u64::from(1 - job.me().0);
        let indices: Vec<u64> = (0..ADDS).map(|number| first + number % 500).collect();
        let begun = array.transport().now_ns();
        array.add_batch(&indices, &vec![1_u64; indices.len()]).unwrap();
        job.barrier().unwrap();
        array.transport().now_ns() - begun
    })
    .unwrap();
    let [aggregated, atomics] = [aggregated, atomics].map(|times| times.into_iter().max().unwrap());
    println!("{ADDS} adds: {aggregated} ns aggregated, {atomics} ns by atomics");
    assert!(atomics >= 10 * aggregated, "{atomics} ns, {aggregated} ns");
}
