//! Counters and queues on simulated owners whose READs are torn, scattered and executed again.

use std::collections::BTreeSet;

use probeline_containers::counters::{self, Counts};
use probeline_containers::put_once::{self, Entries};
use probeline_containers::queue::{self, Ring};
use probeline_containers::{Each, OperationError, Tag};
use probeline_pipeline::{Finished, Open, Operation, OperationOf, OutcomeOf, Structure};
use probeline_sim::{Cluster, Engine, Faults, Jitter, Model, Order, Rng};
use probeline_testing::{Replay, seeds};
use probeline_transport::{Owner, Sizes};

const OWNERS: u32 = 3;
const OPERATIONS: usize = 4;
/// Operations of a run.
const COUNT: u64 = 300;
/// Steps before a run counts as stuck.
const MAX_STEPS: u64 = 1_000_000;

type Client<K> = Structure<Engine, Vec<OperationOf<K>>, K>;
type Ended<K> = (u64, Result<OutcomeOf<K>, OperationError>);

/// Runs operations that `draw` returns on random clients, several in flight on each, and returns how each
/// ended, by its number.
fn run<K: Open>(
    seed: u64,
    sizes: Sizes,
    config: K::Config,
    mut draw: impl FnMut(u64, &mut Rng) -> (K::Key, K::Action),
) -> (Vec<Ended<K>>, Vec<Client<K>>) {
    let mut rng = Rng::new(seed, 2_800);
    let cluster = Cluster::new(probeline_sim::Config {
        owners: OWNERS,
        window_words: sizes.window_words,
        slots: sizes.slots,
        slot_words: sizes.slot_words,
        depth: sizes.depth,
        seed,
        order: if rng.below(4) > 0 { Order::Shuffled } else { Order::ByTime },
        model: Model {
            jitter: Jitter::Exponential { mean_ns: 100 + rng.below(2_000) },
            ..Model::simple(2_000)
        },
        faults: Faults { torn_read_ppm: 500_000, repeated_read_ppm: 200_000, ..Faults::none() },
        scatter_reads: true,
        word_reads_whole: false,
        ..probeline_sim::Config::default()
    })
    .unwrap();
    let client = |owner| {
        let engine = cluster.engine(Owner(owner)).unwrap();
        Client::<K>::new(engine, config, vec![Operation::EMPTY; OPERATIONS]).unwrap()
    };
    let mut clients: Vec<_> = (0..OWNERS).map(client).collect();
    let (mut started, mut ended) = (0, Vec::new());
    for _ in 0..MAX_STEPS {
        if ended.len() as u64 == COUNT {
            return (ended, clients);
        }
        let client = &mut clients[usize::try_from(rng.below(OWNERS.into())).unwrap()];
        if started < COUNT && client.has_room() && rng.below(2) == 0 {
            let (key, action) = draw(started, &mut rng);
            client.submit(Tag(started), &key, action).unwrap();
            started += 1;
        }
        let mut out = [Finished::default(); OPERATIONS];
        let finished = client.poll_into(&mut out).unwrap();
        ended.extend(finished.iter().map(|Finished { tag, result }| (tag.0, *result)));
    }
    panic!("stuck with {} of {COUNT}", ended.len());
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
        let draw = |number: u64, _: &mut Rng| {
            let action =
                if is_get(number) { counters::Action::Get } else { counters::Action::Add(1) };
            (key(number), action)
        };
        let sizes = config.sizes(OWNERS, 4);
        let (ended, mut clients) = run::<Each<Counts>>(seed, sizes, config, draw);
        let added = |key_number: u64| {
            (0..COUNT).filter(|&n| n % KEYS == key_number && !is_get(n)).count() as u64
        };
        for (number, result) in &ended {
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
        let draw = |number: u64, _: &mut Rng| {
            let insert = put_once::Action::Insert(number << 20);
            (key(number), if is_find(number) { put_once::Action::Find } else { insert })
        };
        let sizes = config.sizes::<[u8; 9], u64>(OWNERS, 4);
        let (ended, mut clients) = run::<Map>(seed, sizes, config, draw);
        let client = &mut clients[0];
        let values: Vec<_> = (0..KEYS)
            .map(|number| client.call(&key(number), put_once::Action::Find).unwrap().found())
            .collect();
        let mut inserted = 0;
        for (number, result) in ended {
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

/// Each value is popped once, and none that was not pushed.
#[test]
fn pops_each_value_once() {
    for seed in seeds(300) {
        let _replay = Replay(seed);
        let config = queue::Config { in_flight: 4, ..queue::Config::new(6) };
        let host = Owner(1);
        let draw = |number: u64, rng: &mut Rng| match rng.below(2) {
            0 => (host, queue::Action::Pop),
            // Words with bytes of zero, which tears keep.
            _ => (host, queue::Action::Push([number << 8, !number])),
        };
        let sizes = config.sizes::<[u64; 2]>(OWNERS, 4);
        let (ended, mut clients) = run::<Ring<[u64; 2]>>(seed, sizes, config, draw);
        let (mut pushed, mut popped) = (BTreeSet::new(), BTreeSet::new());
        for (number, result) in ended {
            match result {
                Ok(queue::Outcome::Pushed(_)) => assert!(pushed.insert([number << 8, !number])),
                Ok(queue::Outcome::Popped(value)) => assert!(popped.insert(value), "twice"),
                Ok(queue::Outcome::Full | queue::Outcome::Empty) => {}
                // The push of the oldest ticket was slow.
                Err(OperationError::Unfinished { .. } | OperationError::Contended { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        let client = &mut clients[0];
        while let queue::Outcome::Popped(value) = client.call(&host, queue::Action::Pop).unwrap() {
            assert!(popped.insert(value), "twice");
        }
        assert_eq!(popped, pushed);
    }
}
