//! Submitted operations, calls, batches and futures of one structure, mixed at random: each has one result.

#![allow(clippy::cast_possible_truncation, reason = "numbers below a small limit")]

use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::Ordering::SeqCst;
use core::task::{Context, Waker};
use std::collections::BTreeSet;

use probeline_containers::array::{Action, Config, Elements};
use probeline_containers::{Each, OperationError, Tag};
use probeline_exchange::testing::{Replay, seeds};
use probeline_pipeline::{Finished, Operation, OperationFuture, OperationOf, Structure};
use probeline_sim::{Cluster, Death, Engine, Faults, Model, Order, Rng};
use probeline_transport::{Owner, Transport};

type Kind = Each<Elements<u64>>;
type Adds = Structure<Engine, Vec<OperationOf<Kind>>, Kind>;
type Client = RefCell<Adds>;

const ELEMENTS: u64 = 8;
const ADD: Action<u64> = Action::Add(1);

/// Adds by what is known of them.
#[derive(Debug, Default)]
struct Sums {
    done: u64,
    /// They may have taken effect.
    failed: u64,
    /// Their futures were dropped.
    dropped: u64,
}

impl Sums {
    fn note(&mut self, result: Result<u64, OperationError>) {
        match result {
            Ok(_) => self.done += 1,
            // Refused for lack of storage.
            Err(OperationError::Busy) => {}
            Err(_) => self.failed += 1,
        }
    }
}

/// One client with what it waits for.
struct Driver<'c> {
    client: &'c Client,
    tags: BTreeSet<u64>,
    next: u64,
    futures: Vec<OperationFuture<'c, Adds>>,
}

impl Driver<'_> {
    fn step(&mut self, rng: &mut Rng, sums: &mut Sums) {
        let key = rng.below(ELEMENTS);
        match rng.below(8) {
            0 | 1 => match self.client.borrow_mut().submit(Tag(self.next), &key, ADD) {
                Ok(()) => {
                    self.tags.insert(self.next);
                    self.next += 1;
                }
                Err(OperationError::Busy | OperationError::Fault(_)) => {}
                Err(error) => panic!("{error}"),
            },
            2 => self.poll(rng.below(4) as usize, sums),
            3 => {
                let result = self.client.borrow_mut().call(&key, ADD);
                sums.note(result);
            }
            4 => {
                let count = rng.below(7);
                let mut seen = BTreeSet::new();
                let request = |place: usize| {
                    ((place as u64) < count).then_some(((key + place as u64) % ELEMENTS, ADD))
                };
                let store = |place, result| {
                    assert!(seen.insert(place), "twice");
                    sums.note(result);
                };
                self.client.borrow_mut().call_each(request, store).unwrap();
                assert_eq!(seen.len() as u64, count);
            }
            5 => self.futures.push(OperationFuture::new(self.client, &key, ADD)),
            6 if !self.futures.is_empty() => {
                let nth = rng.below(self.futures.len() as u64) as usize;
                drop(self.futures.swap_remove(nth));
                sums.dropped += 1;
            }
            _ => self.poll_futures(sums),
        }
    }

    fn poll(&mut self, room: usize, sums: &mut Sums) {
        let mut out = [Finished::default(); 4];
        let mut client = self.client.borrow_mut();
        match client.poll_into(&mut out[..room]) {
            Ok(ended) => {
                for Finished { tag: Tag(tag), result } in ended {
                    assert!(self.tags.remove(tag), "{tag} twice");
                    sums.note(*result);
                }
            }
            Err(OperationError::Fault(_)) => assert!(self.tags.is_empty(), "lost {:?}", self.tags),
            Err(error) => panic!("{error}"),
        }
    }

    fn poll_futures(&mut self, sums: &mut Sums) {
        let mut context = Context::from_waker(Waker::noop());
        self.futures.retain_mut(|future| match Pin::new(future).poll(&mut context) {
            core::task::Poll::Ready(result) => {
                sums.note(result);
                false
            }
            core::task::Poll::Pending => true,
        });
    }
}

#[test]
fn each_operation_has_one_result() {
    for seed in seeds(2_000) {
        let _replay = Replay(seed);
        let mut rng = Rng::new(seed, 77);
        let rng = &mut rng;
        let operations = 1 + rng.below(4) as u32;
        let config = Config { direct: false, ..Config::new(ELEMENTS) };
        let death = Death { owner: Owner(rng.below(2) as u32), after_ops: 1 + rng.below(60) };
        let with = probeline_sim::Config {
            depth: 1 + rng.below(4) as u32,
            seed,
            model: Model::simple(1_000),
            order: if rng.below(2) == 0 { Order::Shuffled } else { Order::ByTime },
            faults: Faults {
                death: (rng.below(3) == 0).then_some(death),
                error_undone_ppm: if rng.below(3) == 0 { 50_000 } else { 0 },
                ..Faults::none()
            },
            ..probeline_sim::Config::new(2, config.sizes::<u64>(2, operations))
        };
        let cluster = Cluster::new(with).unwrap();
        let clients: [Client; 2] = [0, 1].map(|owner| {
            let engine = cluster.engine(Owner(owner)).unwrap();
            let storage = vec![Operation::EMPTY; operations as usize];
            RefCell::new(Structure::new(engine, config, storage).unwrap())
        });
        let mut sums = Sums::default();
        let mut drivers = clients.each_ref().map(|client| Driver {
            client,
            tags: BTreeSet::new(),
            next: 0,
            futures: Vec::new(),
        });
        for _ in 0..150 {
            drivers[rng.below(2) as usize].step(rng, &mut sums);
        }
        for driver in &mut drivers {
            for _ in 0..2_000 {
                driver.poll_futures(&mut sums);
                driver.poll(4, &mut sums);
                if driver.tags.is_empty() && driver.futures.is_empty() {
                    break;
                }
            }
            assert!(driver.tags.is_empty() && driver.futures.is_empty(), "stuck");
            let mut client = driver.client.borrow_mut();
            client.pipeline().quiesce().ok();
            assert_eq!((client.in_flight(), client.transport().in_flight()), (0, 0));
        }
        cluster.apply_outstanding();
        let sum = |client: &Client| -> u64 {
            client.borrow().transport().window().iter().map(|word| word.load(SeqCst)).sum()
        };
        let all: u64 = clients.iter().map(sum).sum();
        let Sums { done, failed, dropped } = sums;
        assert!((done..=done + failed + dropped).contains(&all), "{all}: {sums:?}");
    }
}
