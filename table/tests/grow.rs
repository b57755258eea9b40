//! The growth of narrow and wide tables into larger ones, over shared memory and the simulator.

use core::sync::atomic::Ordering::Acquire;
use std::collections::BTreeSet;

use crate::common::job::{SLOT_WORDS, on_shm, sizes};
use crate::common::kinds::{
    NarrowKeys, Numbered, Numbers, TreeKeys, WideKeys, find, new, open, part, put,
};
use crate::common::storage;
use probeline_exchange::testing::{AnyEngine, Replay, replayed_seed, seeds};
use probeline_sim::{Cluster, Death, Faults, Model, Order, stage};
use probeline_table::{CollectiveError, Config, Outcome, Probing, Table};
use probeline_transport::{
    Alone, Exchange, Owner, Pending, Sizes, Splitter, StableMemory, Transport,
};
use proptest::prelude::*;

const OPERATIONS: u32 = 4;
const WORDS: usize = 3;

/// The shape of a table: its buckets per owner, their probe order, and who looks at them.
#[derive(Clone, Copy, Debug)]
struct Shape {
    lines: u64,
    probing: Probing,
    direct: bool,
}

impl Shape {
    const fn new(lines: u64) -> Self {
        Self { lines, probing: Probing::Linear, direct: false }
    }

    /// Returns the parameters of a table of any kind: an entry for each wide key, and those that clients
    /// hold or lose to operations that fail, or room for the inner nodes of trees, of which each key
    /// may have two of its own.
    fn of<K: Numbers>(self) -> K::Config {
        let Self { lines, probing, direct } = self;
        let buckets = if K::NAME == "TreeTable" { 32 * lines } else { 8 * lines };
        // Every key fits until all buckets are occupied.
        let (chunk_buckets, max_chunks) = (8, 512);
        let paper = Config::paper(buckets);
        K::config(Config { chunk_buckets, max_chunks, probing, direct, ..paper }, 8 * lines + 4_000)
    }
}

/// The kinds of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Narrow,
    Wide,
    Tree,
}

/// Tables of two shapes, and what they hold at first.
#[derive(Clone, Copy, Debug)]
struct Case {
    kind: Kind,
    owners: u32,
    shapes: [Shape; 2],
    /// The first table holds the numbers below.
    numbers: u64,
    /// The target holds these numbers at first.
    in_target: Option<u64>,
}

/// Part of a growth that an owner sees.
#[derive(Clone, Debug)]
struct Seen {
    result: Result<u64, CollectiveError>,
    /// Its parts of the table before and after, and of the target; none if they cannot be read.
    parts: [Option<Vec<u64>>; 3],
    /// The words of the table's window before and after.
    words: [Vec<u64>; 2],
    /// Whether the exchange still works, and all owners call it for the same reason.
    is_in_step: bool,
}

impl Case {
    fn sizes(&self) -> [Sizes; 2] {
        self.shapes.map(|shape| {
            let wide = WideKeys::<WORDS>::sizes(&shape.of::<WideKeys<WORDS>>(), OPERATIONS);
            let tree = TreeKeys::<WORDS>::sizes(&shape.of::<TreeKeys<WORDS>>(), OPERATIONS);
            let window_words = wide.window_words.max(tree.window_words);
            Sizes { slot_words: SLOT_WORDS, window_words, ..wide }
        })
    }

    fn on_shm(&self) -> Vec<Seen> {
        let [first, second] = self.sizes();
        let body = |mut engine, mut exchange| self.split(&mut engine, true, &mut exchange);
        let seen = on_shm(self.owners, first.plus(second), body);
        seen.into_iter().map(|seen| seen.expect("no faults")).collect()
    }

    fn on_sim(&self, seed: u64, faults: Faults) -> Vec<Option<Seen>> {
        let [first, second] = self.sizes();
        let sizes = first.plus(second);
        let config = probeline_sim::Config {
            seed,
            order: Order::Shuffled,
            model: Model { jitter_mean_ns: 1_000, ..Model::simple(1_000) },
            faults,
            word_reads_whole: faults.torn_read_ppm == 0,
            ..probeline_sim::Config::new(self.owners, sizes)
        };
        let cluster = Cluster::new(config).unwrap();
        let agrees = faults == Faults::none();
        let body = |mut engine, mut exchange| self.split(&mut engine, agrees, &mut exchange);
        stage::run(&cluster, body).unwrap()
    }

    /// Grows tables on two channels of an engine. They were not opened together if operations fail.
    fn split(
        &self,
        engine: &mut impl StableMemory,
        agrees: bool,
        exchange: &mut dyn Exchange,
    ) -> Option<Seen> {
        let plan = self.sizes();
        let mut pending = vec![Pending::EMPTY; plan[0].plus(plan[1]).depth as usize];
        let splitter = Splitter::new(engine, plan, &mut pending).unwrap();
        let channels = splitter.channels().unwrap().map(AnyEngine::new);
        match self.kind {
            Kind::Narrow => self.run::<NarrowKeys>(channels, agrees, exchange),
            Kind::Wide => self.run::<WideKeys<WORDS>>(channels, agrees, exchange),
            Kind::Tree => self.run::<TreeKeys<WORDS>>(channels, agrees, exchange),
        }
    }

    /// Returns nothing if the engine dies before the growth.
    fn run<K: Numbers>(
        &self,
        [first, second]: [AnyEngine<'_>; 2],
        agrees: bool,
        exchange: &mut dyn Exchange,
    ) -> Option<Seen> {
        let [from, to] = self.shapes.map(Shape::of::<K>);
        let mut table = new::<_, K>(first, from, OPERATIONS, 0);
        let mut target = new::<_, K>(second, to, OPERATIONS, 0);
        exchange.barrier().ok()?;
        if agrees {
            table.agree(exchange).and_then(|()| target.agree(exchange)).unwrap();
        }
        let (me, owners) = (u64::from(exchange.me().0), exchange.owners() as usize);
        for number in (me..self.numbers).step_by(owners) {
            put(&mut table, number)?;
        }
        if let Some(number) = self.in_target {
            put(&mut target, number)?;
        }
        exchange.barrier().ok()?;
        let before = part(&mut table);
        exchange.barrier().ok()?;
        let before_call = words(&table);
        let result = table.grow_into(&mut target, exchange);
        let words = [before_call, words(&table)];
        let mut all = vec![0; self.owners as usize];
        let mine = [exchange.me().0.to_le_bytes()[0]];
        let is_in_step =
            exchange.all_gather(&mine, &mut all).is_ok() && all.is_sorted() && all[0] == 0;
        let parts = [before, part(&mut table), part(&mut target)];
        if result.is_ok() && is_in_step {
            for number in 0..self.numbers {
                assert_ne!(find(&mut target, number), Some(false), "{self:?}, {number}");
            }
            assert_ne!(find(&mut target, self.numbers + 1), Some(true), "{self:?}");
        }
        exchange.barrier().ok();
        Some(Seen { result, parts, words, is_in_step })
    }
}

/// Returns the words of this owner's window.
fn words<K: Numbers>(table: &Numbered<AnyEngine<'_>, K>) -> Vec<u64> {
    table.transport().window().iter().map(|word| word.load(Acquire)).collect()
}

/// Returns the numbers in the parts of all owners, each once.
fn union(seen: &[Seen], nth: usize) -> BTreeSet<u64> {
    let parts = seen.iter().flat_map(|of| of.parts[nth].clone().expect("the part can be read"));
    let (mut all, mut count) = (BTreeSet::new(), 0);
    all.extend(parts.inspect(|_| count += 1));
    assert_eq!(all.len(), count, "a number is there twice");
    all
}

fn shapes() -> impl Strategy<Value = [Shape; 2]> {
    let probing =
        || prop_oneof![Just(Probing::Linear), Just(Probing::Lines), Just(Probing::DoubleHash)];
    let shape = move |lines: u64, direct| {
        probing().prop_map(move |probing| Shape { lines, probing, direct })
    };
    (1_u64..12, 1_u64..40, any::<bool>(), any::<bool>()).prop_flat_map(
        move |(lines, more, direct, target)| {
            (shape(lines, direct), shape(lines + more, target)).prop_map(|(from, to)| [from, to])
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() })]

    #[test]
    fn target_holds_same_keys(
        kind in prop_oneof![Just(Kind::Narrow), Just(Kind::Wide), Just(Kind::Tree)],
        owners in 1_u32..5,
        shapes in shapes(),
        load in prop_oneof![Just(1000), 0_u64..1000],
        seed in proptest::option::of(any::<u64>()),
    ) {
        let numbers = 8 * shapes[0].lines * u64::from(owners) * load / 1000;
        let case = Case { kind, owners, shapes, numbers, in_target: None };
        let seen = match seed {
            None => case.on_shm(),
            Some(seed) => case.on_sim(seed, Faults::none()).into_iter().flatten().collect(),
        };
        prop_assert_eq!(seen.len(), owners as usize);
        let all: BTreeSet<u64> = (0..numbers).collect();
        for of in &seen {
            prop_assert_eq!(of.result, Ok(numbers));
            prop_assert!(of.is_in_step);
            // Nothing has moved within the table that the keys come from.
            prop_assert_eq!(&of.parts[0], &of.parts[1]);
        }
        prop_assert_eq!(union(&seen, 1), all.clone());
        prop_assert_eq!(union(&seen, 2), all);
    }
}

const CASE: Case = Case {
    kind: Kind::Narrow,
    owners: 3,
    shapes: [Shape::new(40), Shape::new(100)],
    numbers: 900,
    in_target: None,
};

#[test]
fn full_target_fails_all_owners() {
    for (kind, lines) in [(Kind::Narrow, 30), (Kind::Wide, 30), (Kind::Tree, 12)] {
        let case = Case { kind, shapes: [Shape::new(40), Shape::new(lines)], ..CASE };
        let sim = || case.on_sim(1, Faults::none()).into_iter().flatten().collect();
        for seen in [case.on_shm(), sim()] {
            assert_eq!(seen.len(), 3);
            for of in &seen {
                let Err(error @ CollectiveError::Full { left }) = of.result else {
                    panic!("{seen:?}")
                };
                assert_eq!(of.result, seen[0].result, "{seen:?}");
                assert!((1..900).contains(&left), "{left}");
                assert!(error.to_string().contains("open a larger one"), "{error}");
                assert!(of.is_in_step);
                assert_eq!(of.parts[0], of.parts[1]);
            }
            assert_eq!(union(&seen, 1), (0..900).collect());
        }
    }
}

#[test]
fn foreign_keys_fail_all_owners() {
    for kind in [Kind::Narrow, Kind::Wide, Kind::Tree] {
        let seen = Case { kind, in_target: Some(5_000), ..CASE }.on_shm();
        let differs = Err(CollectiveError::NotMoved { keys: 900, held: 901 });
        assert!(seen.iter().all(|of| of.result == differs && of.is_in_step), "{seen:?}");
        // A repeated call finds the keys that an earlier one has moved.
        let seen = Case { kind, in_target: Some(7), ..CASE }.on_shm();
        assert!(seen.iter().all(|of| of.result == Ok(900)), "{seen:?}");
    }
}

/// Operations fail, are torn, repeated and late. Either all keys have moved, or owners get an error.
/// The table that the keys come from keeps all of them.
#[test]
fn failing_operations_lose_no_key() {
    let (mut grown, mut failed) = (0, 0);
    for seed in seeds(60) {
        let _replay = Replay(seed);
        // Few keys with the worst faults: the test itself reads all entries of a part at once. Many
        // with others, so that eight attempts do not always succeed.
        let undone = |ppm| Faults { error_undone_ppm: ppm, ..Faults::none() };
        let kind = [Kind::Narrow, Kind::Wide, Kind::Tree][usize::try_from(seed % 3).unwrap()];
        let (faults, numbers) = match (kind, seed % 2) {
            // Three READs a key.
            (Kind::Tree, _) => (undone(30_000), 80),
            (_, 0) => (undone(150_000), 80),
            _ => (Faults { death: None, ..Faults::swarm(seed) }, 24),
        };
        let shapes = [Shape::new(4), Shape::new(9)];
        let case = Case { kind, shapes, numbers, ..CASE };
        let seen: Vec<Seen> = case.on_sim(seed, faults).into_iter().flatten().collect();
        if seen.len() < 3 {
            continue;
        }
        assert_eq!(union(&seen, 0), (0..numbers).collect(), "seed {seed}");
        assert_eq!(union(&seen, 1), (0..numbers).collect(), "seed {seed}");
        let is_ok = |of: &Seen| of.result.is_ok();
        if seen.iter().any(is_ok) {
            assert_eq!(union(&seen, 2), (0..numbers).collect(), "seed {seed}");
        }
        assert!(seen.iter().all(|of| of.is_in_step), "seed {seed}: {seen:?}");
        grown += u32::from(seen.iter().all(is_ok));
        failed += u32::from(!seen.iter().any(is_ok));
    }
    println!("{grown} grown, {failed} failed");
    if replayed_seed().is_none() {
        assert!(grown > 5 && failed > 5, "{grown} grown, {failed} failed: nothing was tried");
    }
}

/// The engine of an owner dies during the growth. The growth fails with an error that says so, and the table that
/// the keys come from keeps every word.
#[test]
fn lost_owner_leaves_table_whole() {
    let mut failed = [0; 3];
    for seed in seeds(90) {
        let _replay = Replay(seed);
        let nth = usize::try_from(seed % 3).unwrap();
        let kind = [Kind::Narrow, Kind::Wide, Kind::Tree][nth];
        let case = Case { kind, shapes: [Shape::new(4), Shape::new(9)], numbers: 80, ..CASE };
        let death = Some(Death { owner: Owner(1), after_ops: 60 + 8 * (seed % 40) });
        for seen in case.on_sim(seed, Faults { death, ..Faults::none() }).into_iter().flatten() {
            assert!(seen.words[0] == seen.words[1], "seed {seed}: the table has changed");
            match seen.result {
                // The engine has died after the growth.
                Ok(keys) => assert_eq!(keys, case.numbers, "seed {seed}"),
                Err(CollectiveError::Exchange(_) | CollectiveError::Operation(_)) => {
                    failed[nth] += 1
                }
                Err(CollectiveError::PartFailed { .. }) => failed[nth] += 1,
                Err(error) => panic!("seed {seed}: {error}"),
            }
        }
    }
    println!("{failed:?} failed");
    assert!(replayed_seed().is_some() || failed.iter().all(|count| *count > 5), "{failed:?}");
}

/// Each owner opens the target alone: it is another table on each of them.
#[test]
fn refuses_tables_of_different_jobs() {
    let config = Config::paper(64);
    let errors = on_shm(2, sizes(&config), |engine, mut exchange| {
        let mut table = Table::open(engine, config, storage(2), &mut exchange).unwrap();
        let engine = probeline_shm::Builder::new(config.sizes(2)).open(&mut Alone).unwrap();
        let mut target = Table::open(engine, config, storage(2), &mut Alone).unwrap();
        let refused = table.grow_into(&mut target, &mut exchange).unwrap_err();
        (exchange.me(), refused)
    });
    for (me, error) in errors {
        let expected =
            CollectiveError::Job { me, owners: 2, target_me: Owner(0), target_owners: 1 };
        assert_eq!(error, expected);
        assert!(error.to_string().contains("with the same exchange"), "{error}");
    }
}

/// Opens a table on an engine of its own.
fn open_shape<K: Numbers>(
    shape: Shape,
    exchange: &mut probeline_exchange::Thread,
) -> Numbered<probeline_shm::Engine, K> {
    let sizes = K::sizes(&shape.of::<K>(), OPERATIONS);
    let engine = probeline_shm::Builder::new(sizes).open(exchange).unwrap();
    open(engine, shape.of::<K>(), OPERATIONS, exchange)
}

/// The keys that remain take a smaller table, without the inner nodes that only others had.
#[test]
fn retains_keys_of_tree_table() {
    const OWNERS: u32 = 3;
    on_shm(OWNERS, sizes(&Config::paper(8)), |_, mut exchange| {
        let [mut table, mut target] =
            [40, 5].map(|lines| open_shape::<TreeKeys<WORDS>>(Shape::new(lines), &mut exchange));
        let me = u64::from(exchange.me().0);
        for number in (me..900).step_by(OWNERS as usize) {
            put(&mut table, number);
        }
        let config = *table.config();
        let keep = |key: &[u64; WORDS]| TreeKeys::number(&config, key) % 10 == 3;
        assert_eq!(table.retain_into(&mut target, &mut exchange, keep), Ok(90));
        assert_eq!(target.len(&mut exchange), Ok(90));
        assert_eq!(table.len(&mut exchange), Ok(900));
        for number in 0..900 {
            assert_eq!(find(&mut target, number), Some(number % 10 == 3), "{number}");
        }
        let (all, kept) = (table.occupied(&mut exchange), target.occupied(&mut exchange));
        assert!(kept.unwrap() < all.unwrap() / 5, "{kept:?} of {all:?} nodes");
        exchange.barrier().unwrap();
    });
}

/// Owners agree after each piece. One that asks to stop ends the call on all of them.
#[test]
fn stops_between_pieces() {
    const OWNERS: u32 = 2;
    const NUMBERS: u64 = 280_000;
    on_shm(OWNERS, sizes(&Config::paper(8)), |_, mut exchange| {
        let shape = |lines| Shape { direct: true, ..Shape::new(lines) };
        let mut table = open_shape::<NarrowKeys>(shape(25_000), &mut exchange);
        let me = u64::from(exchange.me().0);
        let numbers: Vec<u64> = (me..NUMBERS).step_by(OWNERS as usize).collect();
        let mut outcomes = vec![Outcome::Full; numbers.len()];
        table.find_or_put_batch(&numbers, &mut outcomes).unwrap();
        exchange.barrier().unwrap();
        // Owner 1 stops after its second piece; then no owner stops.
        for stops_after in [Some(2), None] {
            let mut target = open_shape::<NarrowKeys>(shape(50_000), &mut exchange);
            let mut pieces = 0;
            let go_on = || {
                pieces += 1;
                me == 0 || stops_after.is_none_or(|last| pieces < last)
            };
            let result = table.grow_into_while(&mut target, &mut exchange, go_on);
            match stops_after {
                Some(_) => assert_eq!((result, pieces), (Err(CollectiveError::Stopped), 2)),
                None => assert_eq!((result, pieces), (Ok(NUMBERS), 3)),
            }
            assert_eq!(table.len(&mut exchange), Ok(NUMBERS));
        }
    });
}
