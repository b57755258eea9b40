//! Queues: order, wrap-around, batches, rates, and what is refused.

#![allow(clippy::cast_possible_truncation, reason = "numbers are small here")]

use probeline_containers::queue::{Action, Config, Operation, Outcome, Queue};
use probeline_containers::{BatchError, CollectiveError, ConfigError, OperationError, Plain};
use probeline_sim::{Cluster, Death, Faults, Model, Nic, Rates, stage};
use probeline_transport::{Alone, Exchange, Owner};

type Opened<V> = Queue<probeline_shm::Engine, Vec<Operation<V>>, V>;

const HOST: Owner = Owner(0);

fn open<V: Plain>(config: Config, job: &mut (impl Exchange + ?Sized)) -> Opened<V> {
    on_shm!(Queue::open, config, config.sizes::<V>(job.owners(), 8), 8, job).unwrap()
}

#[test]
fn keeps_order_around_ring() {
    let config = Config { in_flight: 8, first_word: 3, ..Config::new(5) };
    let mut queue = open::<[u8; 21]>(config, &mut Alone);
    for round in 0..50_u8 {
        for nth in 0..5 {
            assert!(queue.push(HOST, &[round ^ nth; 21]).unwrap());
        }
        assert!(!queue.push(HOST, &[0; 21]).unwrap());
        assert_eq!(queue.len(&mut Alone).unwrap(), 5);
        for nth in 0..5 {
            assert_eq!(queue.pop(HOST).unwrap(), Some([round ^ nth; 21]));
        }
        assert_eq!(queue.pop(HOST).unwrap(), None);
    }
    queue.push(HOST, &[1; 21]).unwrap();
    queue.clear(&mut Alone).unwrap();
    assert_eq!(queue.pop(HOST).unwrap(), None);
    assert!(queue.push(HOST, &[2; 21]).unwrap());
    assert_eq!(queue.pop(HOST).unwrap(), Some([2; 21]));
}

#[test]
fn pushes_and_pops_batches() {
    let mut queue = open::<u64>(Config { in_flight: 16, ..Config::new(100) }, &mut Alone);
    let values: Vec<u64> = (0..120).collect();
    let mut popped = [0; 120];
    for _ in 0..20 {
        assert_eq!(queue.push_batch(HOST, &values).unwrap(), 100);
        assert_eq!(queue.pop_batch(HOST, &mut popped[..70]).unwrap(), 70);
        assert_eq!(queue.pop_batch(HOST, &mut popped[70..]).unwrap(), 30);
        assert_eq!(popped[..100], values[..100]);
    }
    assert_eq!(queue.pop_batch(HOST, &mut popped).unwrap(), 0);
    assert_eq!(queue.push_batch(HOST, &[]).unwrap(), 0);
}

/// A push that took its ticket and never wrote: pops name the ticket, and go on when it is skipped.
#[test]
fn names_and_skips_unfinished_ticket() {
    let mut queue = open::<u64>(Config { in_flight: 8, ..Config::new(9) }, &mut Alone);
    queue.push(HOST, &1).unwrap();
    assert_eq!(queue.call(&HOST, Action::Take(1)).unwrap(), Outcome::Pushed(1));
    queue.push(HOST, &3).unwrap();
    // After a value, the error is that of the next call.
    let mut values = [0; 4];
    assert_eq!(queue.pop_batch(HOST, &mut values), Ok(1));
    assert_eq!(values[0], 1);
    let unfinished = OperationError::Unfinished { ticket: 1 };
    assert_eq!(queue.pop(HOST), Err(unfinished));
    let refused = queue.pop_batch(HOST, &mut [0; 4]);
    assert_eq!(refused, Err(BatchError::Operation(unfinished)));
    assert!(!queue.skip(HOST, 0).unwrap());
    assert!(queue.skip(HOST, 1).unwrap());
    assert_eq!(queue.pop(HOST).unwrap(), Some(3));
    assert_eq!(queue.pop(HOST).unwrap(), None);
}

/// The device of a rank fails in a batch of pops. The values before are there, and if the outcome of no pop is
/// unknown, the next call returns the error.
#[test]
fn returns_values_before_failed_pop() {
    let config = Config { in_flight: 2, ..Config::new(20) };
    let values: Vec<u64> = (1..=20).collect();
    let (mut found_again, mut unknown, mut most) = (0, 0, 0);
    for after_ops in 1.. {
        let sim = probeline_sim::Config {
            faults: Faults { death: Some(Death { owner: HOST, after_ops }), ..Faults::none() },
            ..probeline_sim::Config::new(1, config.sizes::<u64>(1, 2))
        };
        let engine = Cluster::new(sim).unwrap().engine(HOST).unwrap();
        let mut queue = Queue::open(engine, config, [Operation::EMPTY; 2], &mut Alone).unwrap();
        if queue.push_batch(HOST, &values).is_err() {
            continue;
        }
        let mut popped = [0; 20];
        let result = queue.pop_batch(HOST, &mut popped);
        let count = popped.iter().take_while(|value| **value > 0).count();
        assert!(popped.iter().zip(&values).all(|(found, value)| [0, *value].contains(found)));
        assert!(count >= most, "{count} values, {most} of an earlier failure");
        most = count;
        match result {
            Ok(20) => break,
            Ok(count) => {
                found_again += 1;
                assert!(count > 0 && popped[..count] == values[..count], "{count} of {popped:?}");
                let next = queue.pop_batch(HOST, &mut popped).unwrap_err();
                let (BatchError::Operation(error) | BatchError::Failed { error, .. }) = next else {
                    panic!("{next}");
                };
                assert!(matches!(error, OperationError::Fault(_)), "{error}");
            }
            Err(_) => unknown += 1,
        }
    }
    assert!(found_again > 0 && unknown > 0, "{found_again}, {unknown}");
}

/// Pushes and pops by costs, as the figures 10 and 11 of the paper on BCL: 8 ranks on the paper's simulated cluster,
/// whose NICs serve 1.8 million atomics a second, all on one ring or each on another one.
#[test]
fn batches_and_rings_raise_rates() {
    const RANKS: u32 = 8;
    const EACH: usize = 128;
    let config = Config::new(u64::from(RANKS) * EACH as u64);
    let target = Rates { atomics_per_s: 1_800_000, ..Rates::default() };
    let nic = Nic { target, ..Nic::default() };
    let model = Model { nic, ..Model::oortwijn2015() };
    let rates = |rings: u32, batch: usize| {
        let sizes = config.sizes::<u64>(RANKS, 64);
        let with = probeline_sim::Config { model, ..probeline_sim::Config::new(RANKS, sizes) };
        let times = stage::run(&Cluster::new(with).unwrap(), |engine, mut job| {
            let operations = vec![Operation::EMPTY; 64];
            let mut queue = Queue::open(engine, config, operations, &mut job).unwrap();
            let host = Owner((job.me().0 + 1) % RANKS % rings);
            let begun = queue.transport().now_ns();
            for _ in 0..EACH / batch {
                assert_eq!(queue.push_batch(host, &vec![7; batch]).unwrap(), batch);
            }
            let pushed = queue.transport().now_ns() - begun;
            job.barrier().unwrap();
            let (begun, mut left) = (queue.transport().now_ns(), EACH);
            while left > 0 {
                match queue.pop_batch(host, &mut vec![0; batch.min(left)]) {
                    Ok(count) => left -= count,
                    Err(BatchError::Operation(OperationError::Contended { .. })) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            let popped = queue.transport().now_ns() - begun;
            job.barrier().unwrap();
            [pushed, popped]
        });
        let values = f64::from(RANKS) * EACH as f64;
        let times = times.unwrap();
        let slowest = |nth: usize| times.iter().map(|of| of[nth]).max().unwrap();
        [0, 1].map(|nth| values * 1e3 / slowest(nth) as f64)
    };
    let [one, each, one_batched, each_batched] =
        [(1, 1), (RANKS, 1), (1, 32), (RANKS, 32)].map(|(rings, batch)| rates(rings, batch));
    let times = |fast: [f64; 2], slow: [f64; 2]| [0, 1].map(|nth| fast[nth] / slow[nth]);
    // Pops of one ring compete for its head.
    let [pushes, pops] = times(each, one);
    assert!(pushes >= 1.0 && pops > 4.0, "{pushes}, {pops}");
    let [pushes, pops] = times(each_batched, each);
    assert!(pushes > 4.0 && pops > 4.0 && one_batched[0] > 4.0 * one[0], "{pushes}, {pops}");
}

#[test]
fn refuses_configurations_and_hosts() {
    let config = Config { in_flight: 4, ..Config::new(10) };
    let opened = |config: Config| {
        let sizes = Config::new(10).sizes::<u64>(1, 8);
        on_shm!(Queue::<_, _, u64>::open, config, sizes, 8, &mut Alone).map(drop)
    };
    let range =
        |config| matches!(opened(config), Err(CollectiveError::Config(ConfigError::Range { .. })));
    assert!(range(config));
    assert!(range(Config::new(0)));
    let window = opened(Config::new(1 << 20));
    assert!(matches!(window, Err(CollectiveError::Config(ConfigError::Window { .. }))));
    let mut queue = open::<u64>(Config { in_flight: 8, ..config }, &mut Alone);
    assert!(queue.push(Owner(1), &1).is_err());
}
