//! Queues: order, wrap-around, batches, and ranks that push and pop at the same time.

#![allow(clippy::cast_possible_truncation, reason = "numbers are small here")]

use std::collections::BTreeSet;

use probeline_containers::queue::{Action, Config, Finished, Operation, Outcome, Queue};
use probeline_containers::{BatchError, CollectiveError, ConfigError, OperationError, Plain, Tag};
use probeline_shm::Builder;
use probeline_transport::{Alone, Exchange, Owner};

type Opened<V> = Queue<probeline_shm::Engine, Vec<Operation<V>>, V>;

const HOST: Owner = Owner(0);

fn open<V: Plain>(config: Config, job: &mut (impl Exchange + ?Sized)) -> Opened<V> {
    let engine = Builder::new(config.sizes::<V>(job.owners(), 8)).open(job).unwrap();
    Queue::open(engine, config, vec![Operation::EMPTY; 8], job).unwrap()
}

#[test]
fn keeps_the_order_around_the_ring() {
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

#[test]
fn submits_pushes_and_pops() {
    let mut queue = open::<u64>(Config { in_flight: 8, ..Config::new(100) }, &mut Alone);
    for value in 0..6 {
        queue.submit(Tag(value), &HOST, Action::Push(value * 3)).unwrap();
    }
    let mut out = [Finished::default(); 8];
    let mut tickets = BTreeSet::new();
    while tickets.len() < 6 {
        for Finished { result, .. } in queue.poll_into(&mut out).unwrap() {
            let Ok(Outcome::Pushed(ticket)) = *result else { panic!("{result:?}") };
            tickets.insert(ticket);
        }
    }
    assert_eq!(tickets, (0..6).collect());
    let popped: BTreeSet<u64> = (0..6).map(|_| queue.pop(HOST).unwrap().unwrap()).collect();
    assert_eq!(popped, (0..6).map(|value| value * 3).collect());
}

/// Each value is popped once, and those of one rank in their order.
#[test]
fn each_value_of_four_ranks_is_popped_once() {
    const EACH: u64 = 3000;
    let config = Config { in_flight: 8, ..Config::new(20) };
    let rank = |mut job: probeline_exchange::Thread| {
        let mut queue = open::<[u64; 2]>(config, &mut job);
        let me = u64::from(job.me().0);
        let host = Owner(1);
        let (mut next, mut popped) = (0, Vec::new());
        // Ends when all ranks together have popped all values, which the last barrier shows.
        while next < EACH {
            let values: Vec<[u64; 2]> =
                (next..EACH.min(next + 1 + next % 13)).map(|n| [me, n]).collect();
            next += match values.as_slice() {
                [value] => u64::from(queue.push(host, value).unwrap()),
                values => queue.push_batch(host, values).unwrap() as u64,
            };
            let mut room = [[0; 2]; 11];
            // The rank of the oldest ticket may wait for a core.
            let count = match queue.pop_batch(host, &mut room[..1 + (next % 10) as usize]) {
                Err(BatchError::Operation(OperationError::Unfinished { .. })) => 0,
                popped => popped.unwrap(),
            };
            popped.extend_from_slice(&room[..count]);
        }
        job.barrier().unwrap();
        while let Some(value) = queue.pop(host).unwrap() {
            popped.push(value);
        }
        job.barrier().unwrap();
        popped
    };
    let all: Vec<Vec<[u64; 2]>> = std::thread::scope(|scope| {
        let ranks = probeline_exchange::threads(4).into_iter();
        let ranks: Vec<_> = ranks.map(|job| scope.spawn(move || rank(job))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    let mut seen = BTreeSet::new();
    for popped in &all {
        let mut last = [None; 4];
        for &[from, nth] in popped {
            assert!(seen.insert((from, nth)), "popped twice");
            let last = &mut last[from as usize];
            assert!(last.is_none_or(|last| last < nth), "rank {from}: {nth} after {last:?}");
            *last = Some(nth);
        }
    }
    assert_eq!(seen.len() as u64, 4 * EACH);
}

/// A push that took its ticket and never wrote: pops name the ticket, and go on when it is skipped.
#[test]
fn names_and_skips_a_ticket_without_a_value() {
    let mut queue = open::<u64>(Config { in_flight: 8, ..Config::new(9) }, &mut Alone);
    queue.push(HOST, &1).unwrap();
    assert_eq!(queue.call(&HOST, Action::Take(1)).unwrap(), Outcome::Pushed(1));
    queue.push(HOST, &3).unwrap();
    assert_eq!(queue.pop(HOST).unwrap(), Some(1));
    let unfinished = OperationError::Unfinished { ticket: 1 };
    assert_eq!(queue.pop(HOST), Err(unfinished));
    assert!(queue.pop_batch(HOST, &mut [0; 4]).is_err());
    assert!(!queue.skip(HOST, 0).unwrap());
    assert!(queue.skip(HOST, 1).unwrap());
    assert_eq!(queue.pop(HOST).unwrap(), Some(3));
    assert_eq!(queue.pop(HOST).unwrap(), None);
}

#[test]
fn refuses_configurations_and_hosts() {
    let config = Config { in_flight: 4, ..Config::new(10) };
    let opened = |config: Config| {
        let engine = Builder::new(Config::new(10).sizes::<u64>(1, 8)).open(&mut Alone).unwrap();
        Queue::<_, _, u64>::open(engine, config, [Operation::EMPTY; 8], &mut Alone).map(|_| ())
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
