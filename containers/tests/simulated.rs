//! Containers on simulated owners whose READs are torn, scattered and executed again, and which fail.

use core::cell::RefCell;
use core::sync::atomic::Ordering::SeqCst;
use std::collections::{BTreeMap, BTreeSet};

use probeline_containers::array;
use probeline_containers::counters::{self, Counts};
use probeline_containers::put_once::{self, Entries};
use probeline_containers::queue::{self, Ring};
use probeline_containers::small_map::{self, SmallMap};
use probeline_containers::{Each, OperationError};
use probeline_exchange::testing::{Replay, seeds};
use probeline_pipeline::model::{Below, Count, MAX_STEPS, Past, Work, soak};
use probeline_pipeline::{Open, Operation, OperationOf, OutcomeOf, Structure};
use probeline_sim::{Cluster, Death, Engine, Faults, Model, Order, Rng};
use probeline_transport::{Alone, Owner, Sizes, Transport};

const OWNERS: u32 = 3;
const OPERATIONS: usize = 4;
/// Operations of a run.
const COUNT: u64 = 300;

type Client<K> = Structure<Engine, Vec<OperationOf<K>>, K>;

/// Opens a structure of all owners of a cluster.
fn open<K: Open>(
    cluster: &Cluster,
    config: K::Config,
    operations: usize,
) -> Vec<RefCell<Client<K>>> {
    let client = |owner| {
        let engine = cluster.engine(Owner(owner)).unwrap();
        RefCell::new(Structure::new(engine, config, vec![Operation::EMPTY; operations]).unwrap())
    };
    (0..cluster.config().owners).map(client).collect()
}

/// Runs operations that `draw` returns on random clients, several in flight on each, and returns how each
/// ended.
fn run<K: Open>(
    seed: u64,
    sizes: Sizes,
    config: K::Config,
    errors_ppm: u32,
    draw: impl Fn(u64, Below<'_>) -> (K::Key, K::Action),
) -> (Vec<Past<OutcomeOf<K>>>, Vec<Client<K>>) {
    let mut rng = Rng::new(seed, 2_800);
    let sim = probeline_sim::Config::new(OWNERS, sizes).faulty(seed, errors_ppm, &mut rng);
    let clients = open(&Cluster::new(sim).unwrap(), config, OPERATIONS);
    let draw = |number, _: &mut Client<K>, below: Below<'_>| draw(number, below);
    let mut work = Count { count: COUNT, blocks: true, draw };
    let history = soak(&clients, &mut work, &mut |bound| rng.below(bound)).unwrap();
    (history, clients.into_iter().map(RefCell::into_inner).collect())
}

/// Adds of 1 by what is known of them: whether they have ended well, or may have taken effect.
#[derive(Debug, Default)]
struct Adds {
    done: u64,
    unknown: u64,
}

const ELEMENTS: u64 = 8;
type Elements = Each<array::Elements<u64>>;

impl Work<Client<Elements>> for Adds {
    fn draw(
        &mut self,
        number: u64,
        _: &mut Client<Elements>,
        below: Below<'_>,
    ) -> Option<(u64, array::Action<u64>)> {
        (number < 150).then(|| (below(ELEMENTS), array::Action::Add(1)))
    }

    fn check(&mut self, _: usize, past: &Past<u64>) -> Result<(), String> {
        *if past.result.is_ok() { &mut self.done } else { &mut self.unknown } += 1;
        Ok(())
    }

    fn drops(&mut self, _: u64, below: Below<'_>) -> bool {
        let drops = below(20) == 0;
        self.unknown += u64::from(drops);
        drops
    }
}

/// Operations fail, futures are dropped, and engines die.
#[test]
fn each_operation_has_one_result() {
    for seed in seeds(2_000) {
        let _replay = Replay(seed);
        let mut rng = Rng::new(seed, 77);
        let operations = 1 + u32::try_from(rng.below(4)).unwrap();
        let config = array::Config { direct: false, ..array::Config::new(ELEMENTS) };
        let victim = Owner(u32::try_from(rng.below(2)).unwrap());
        let death = Death { owner: victim, after_ops: 1 + rng.below(60) };
        let cluster = Cluster::new(probeline_sim::Config {
            depth: 1 + u32::try_from(rng.below(4)).unwrap(),
            seed,
            model: Model::simple(1_000),
            order: if rng.below(2) == 0 { Order::Shuffled } else { Order::ByTime },
            faults: Faults {
                death: (rng.below(3) == 0).then_some(death),
                error_undone_ppm: if rng.below(3) == 0 { 50_000 } else { 0 },
                ..Faults::none()
            },
            ..probeline_sim::Config::new(2, config.sizes::<u64>(2, operations))
        })
        .unwrap();
        let clients = open::<Elements>(&cluster, config, operations as usize);
        let mut adds = Adds::default();
        soak(&clients, &mut adds, &mut |bound| rng.below(bound)).unwrap();
        cluster.apply_outstanding();
        let sum = |client: &RefCell<Client<Elements>>| -> u64 {
            client.borrow().transport().window().iter().map(|word| word.load(SeqCst)).sum()
        };
        let (all, Adds { done, unknown }) = (clients.iter().map(sum).sum::<u64>(), &adds);
        assert!((*done..=done + unknown).contains(&all), "{all}: {adds:?}");
    }
}

/// Each add counts once, and a get never returns more than was added.
#[test]
fn counts_each_add_once() {
    const KEYS: u64 = 20;
    for seed in seeds(300) {
        let _replay = Replay(seed);
        let config = counters::Config { lines: 4, key_bits: 40, first_word: 0, direct: false };
        let key = |number: u64| number % KEYS * 0x0101_0101;
        // A third of the operations are gets.
        let is_get = |number: u64| number.is_multiple_of(3);
        let draw = |number: u64, _: Below<'_>| {
            let action =
                if is_get(number) { counters::Action::Get } else { counters::Action::Add(1) };
            (key(number), action)
        };
        let sizes = config.sizes(OWNERS, 4);
        let (ended, mut clients) = run::<Each<Counts>>(seed, sizes, config, 0, draw);
        let added = |key_number: u64| {
            (0..COUNT).filter(|&n| n % KEYS == key_number && !is_get(n)).count() as u64
        };
        for Past { number, result, .. } in &ended {
            let count = result.unwrap().count();
            assert!(count <= added(number % KEYS), "operation {number}: {count}");
        }
        let client = &mut clients[0];
        for number in 0..KEYS {
            let count = client.call(&key(number), counters::Action::Get).unwrap().count();
            assert_eq!(count, added(number), "key {number}");
        }
    }
}

/// Of the inserts of a key, one wins, and all others and all finds return its value.
#[test]
fn keys_keep_their_first_value() {
    const KEYS: u64 = 40;
    type Map = Each<Entries<[u8; 9], u64>>;
    for seed in seeds(300) {
        let _replay = Replay(seed);
        let config = put_once::Config { direct: false, ..put_once::Config::for_keys(KEYS) };
        // Keys that begin alike; the value tells the operation.
        let key = |number: u64| [7, 7, 7, 7, 7, 7, 7, 0, (number * 7 % KEYS).to_le_bytes()[0]];
        let is_find = |number: u64| number.is_multiple_of(3);
        let draw = |number: u64, _: Below<'_>| {
            let insert = put_once::Action::Insert(number << 20);
            (key(number), if is_find(number) { put_once::Action::Find } else { insert })
        };
        let sizes = config.sizes::<[u8; 9], u64>(OWNERS, 4);
        let (ended, mut clients) = run::<Map>(seed, sizes, config, 0, draw);
        let client = &mut clients[0];
        let values: Vec<_> = (0..KEYS)
            .map(|number| client.call(&key(number), put_once::Action::Find).unwrap().found())
            .collect();
        let mut inserted = 0;
        for Past { number, result, .. } in ended {
            let value = values[usize::try_from(number % KEYS).unwrap()];
            match result.unwrap() {
                put_once::Outcome::Inserted => {
                    inserted += 1;
                    assert_eq!(value, Some(number << 20), "operation {number}");
                }
                put_once::Outcome::Found(found) => assert_eq!(value, Some(found), "{number}"),
                put_once::Outcome::Absent => assert!(is_find(number)),
                put_once::Outcome::Unfinished => {}
                put_once::Outcome::Full => panic!("operation {number} finds no room"),
            }
        }
        assert_eq!(inserted, values.iter().flatten().count());
    }
}

/// A value of a queue: when its push and its pop began and ended.
#[derive(Clone, Copy)]
struct Life {
    pushed: [u64; 2],
    /// After the run, or [`NEVER`].
    popped: [u64; 2],
}

const NEVER: [u64; 2] = [u64::MAX; 2];
const AFTERWARDS: [u64; 2] = [MAX_STEPS; 2];
const CAPACITY: u64 = 6;

impl Life {
    /// Returns whether the value is in the ring from `from` to `to`, whatever order explains the history.
    fn covers(&self, [from, to]: [u64; 2]) -> bool {
        self.pushed[1] < from && to < self.popped[0]
    }
}

/// Checks that some order explains the history of a queue without failed operations, as Henzinger, Sezgin and
/// Vafeiadis (CONCUR 2013) reduce it: no value before its push, values in the order of their pushes, and a
/// moment without values for each pop that found none.
fn check_history(lives: &[Life], empty: &[[u64; 2]], full: &[[u64; 2]]) {
    for (nth, one) in lives.iter().enumerate() {
        assert!(one.pushed[0] <= one.popped[1], "a value is popped before its push");
        for other in &lives[nth + 1..] {
            let (first, second) =
                if one.pushed[1] < other.pushed[0] { (one, other) } else { (other, one) };
            let are_in_order = first.pushed[1] < second.pushed[0];
            assert!(!are_in_order || second.popped[1] >= first.popped[0], "values change places");
        }
    }
    for [from, to] in empty {
        let is_empty = (*from..=*to).any(|at| !lives.iter().any(|life| life.covers([at, at])));
        assert!(is_empty, "a pop from {from} to {to} finds no value");
    }
    for [from, to] in full {
        let inside = |at| {
            lives.iter().filter(|life| life.pushed[0] <= at && at <= life.popped[1]).count() as u64
        };
        assert!((*from..=*to).any(|at| inside(at) >= CAPACITY), "a push finds no room");
    }
}

#[test]
fn finds_nonlinearizable_histories() {
    let life = |pushed, popped| Life { pushed, popped };
    let (one, other) = (life([1, 2], [5, 6]), life([3, 4], [7, 8]));
    check_history(&[one, other], &[[0, 1], [8, 9]], &[]);
    let is_refused = |lives: &[Life], empty: &[[u64; 2]], full: &[[u64; 2]]| {
        std::panic::catch_unwind(|| check_history(lives, empty, full)).is_err()
    };
    assert!(is_refused(&[life([5, 6], [1, 2])], &[], &[]));
    assert!(is_refused(&[life([1, 2], [7, 8]), life([3, 4], [5, 6])], &[], &[]));
    assert!(is_refused(&[one, other], &[[3, 6]], &[]));
    assert!(is_refused(&[one, other], &[], &[[3, 6]]));
}

/// Histories of a queue are linearizable. With operations that fail, each value is popped once at most, all but
/// those of failed pops are popped, and tickets of failed pushes are skipped.
#[test]
fn pops_once_in_order() {
    for seed in seeds(1_000) {
        let _replay = Replay(seed);
        let errors_ppm = if seed % 3 == 0 { 5_000 } else { 0 };
        let config = queue::Config { in_flight: 4, ..queue::Config::new(CAPACITY) };
        let host = Owner(1);
        let value = |number: u64| [number << 8, !number];
        let draw = |number: u64, below: Below<'_>| match below(2) {
            0 => (host, queue::Action::Pop),
            // Words with bytes of zero, which tears keep.
            _ => (host, queue::Action::Push(value(number))),
        };
        let sizes = config.sizes::<[u64; 2]>(OWNERS, 4);
        let (history, mut clients) =
            run::<Each<Ring<[u64; 2]>>>(seed, sizes, config, errors_ppm, draw);
        let (mut lives, mut pops) = (BTreeMap::new(), BTreeMap::new());
        let (mut empty, mut full) = (Vec::new(), Vec::new());
        let (mut failed, mut unknown) = (0, BTreeSet::new());
        for Past { number, begun, ended, result } in history {
            let span = [begun, ended];
            match result {
                Ok(queue::Outcome::Pushed(_)) => {
                    lives.insert(value(number), Life { pushed: span, popped: NEVER });
                }
                Ok(queue::Outcome::Popped(value)) => {
                    assert_eq!(pops.insert(value, span), None, "popped twice");
                }
                Ok(queue::Outcome::Empty) => empty.push(span),
                Ok(queue::Outcome::Full) => full.push(span),
                // The push of the oldest ticket was slow.
                Err(OperationError::Unfinished { .. } | OperationError::Contended { .. }) => {}
                Err(OperationError::Failed(_)) => {
                    failed += 1;
                    unknown.insert(value(number));
                }
                Err(error) => panic!("{error}"),
            }
        }
        let client = &mut clients[0];
        loop {
            let action = match client.call(&host, queue::Action::Pop) {
                Ok(queue::Outcome::Popped(value)) => {
                    assert_eq!(pops.insert(value, AFTERWARDS), None, "popped twice");
                    continue;
                }
                Ok(_) => break,
                Err(OperationError::Unfinished { ticket }) => queue::Action::Advance(ticket, 1),
                Err(OperationError::Failed(_)) => {
                    failed += 1;
                    continue;
                }
                Err(error) => panic!("{error}"),
            };
            assert!(failed > 0, "a ticket without a value");
            failed += u64::from(client.call(&host, action).is_err());
        }
        for (value, span) in pops {
            match lives.get_mut(&value) {
                Some(life) => life.popped = span,
                None => assert!(unknown.contains(&value), "{value:?} was not pushed"),
            }
        }
        let lost = lives.values().filter(|life| life.popped == NEVER).count() as u64;
        assert!(lost <= failed, "{lost} values are lost by {failed} failed operations");
        if failed == 0 {
            check_history(&lives.into_values().collect::<Vec<_>>(), &empty, &full);
        }
    }
}

/// A put that has failed may take effect in a find phase. Finds then return the value before it or its own,
/// never a mixture.
#[test]
fn find_phase_returns_put_values() {
    const VALUES: [u64; 2] = [0x0101, 0x0202];
    let (mut changed, seeds) = (0, seeds(1_500));
    for &seed in &seeds {
        let _replay = Replay(seed);
        let config = small_map::Config { direct: false, ..small_map::Config::for_keys(8, 30) };
        let model = Model { jitter_mean_ns: 300, ..Model::simple(1_000) };
        let faults = Faults {
            torn_read_ppm: 1_000_000,
            error_late_ppm: 300_000,
            late_ns: 8_000,
            ..Faults::none()
        };
        let cluster = Cluster::new(probeline_sim::Config {
            seed,
            model,
            faults,
            scatter_reads: true,
            word_reads_whole: false,
            ..probeline_sim::Config::new(1, config.sizes(1, 4))
        });
        let engine = cluster.unwrap().engine(Owner(0)).unwrap();
        let operations = vec![small_map::Operation::EMPTY; 4];
        let mut map = SmallMap::open(engine, config, operations, &mut Alone).unwrap();
        if map.put(1, VALUES[0]).is_err() || map.put(1, VALUES[1]).is_ok() {
            continue;
        }
        let found = map.find_phase(&mut Alone, |finder| {
            (0..8).filter_map(|_| finder.find(&1).ok()?.number()).collect::<BTreeSet<_>>()
        });
        let found = found.unwrap();
        assert!(found.iter().all(|value| VALUES.contains(value)), "{found:x?}");
        changed += usize::from(found.len() == 2);
    }
    assert!(changed > 0 || seeds.len() == 1, "no put took effect in a phase");
}
