//! Tests of collective calls with failing one-sided operations: an owner that fails keeps step with
//! the others. A later count is then correct or an error, and a lost owner is named.

use core::cell::Cell;
use core::sync::atomic::AtomicU64;

use probeline_pipeline::Error;
use probeline_sim::{Cluster, Faults, Model, stage};
use probeline_table::{
    CollectiveError, Config, ConfigError, OneRoundtrip, OpenError, Operation, OperationError,
    Outcome, Probing, Table, WideConfig, WideOperation, WideTable,
};
use probeline_transport::{
    Alone, AtomicScope, Exchange, ExchangeError, Fault, Local, Owner, SlotError, Transport,
    forward_transport,
};

const CONFIG: Config = Config { chunk_buckets: 8, max_chunks: 8, ..Config::paper(64) };
const ROUNDS: u64 = 24;
const WIDE: WideConfig<2> = WideConfig {
    buckets: Config { one_roundtrip: OneRoundtrip::Off, ..CONFIG },
    entries_per_owner: 64,
};

fn cluster(seed: u64, faults: Faults) -> Cluster {
    let config = probeline_sim::Config {
        owners: 3,
        window_words: WIDE.words(),
        seed,
        faults,
        model: Model::simple(1_000),
        ..probeline_sim::Config::default()
    };
    Cluster::new(config).unwrap()
}

fn storage() -> [Operation; 4] {
    [const { Operation::EMPTY }; 4]
}

/// Inserts a key, repeating failed operations, which had no effect. Returns `None` when the
/// transport is dead.
fn insert(table: &mut Table<probeline_sim::Engine, [Operation; 4]>, key: u64) -> Option<()> {
    inserted(|| table.find_or_put(key))
}

fn inserted(mut insert: impl FnMut() -> Result<Outcome, OperationError>) -> Option<()> {
    loop {
        match insert() {
            Ok(outcome) => return (outcome != Outcome::Full).then_some(()),
            Err(OperationError::Failed(_)) => {}
            Err(_) => return None,
        }
    }
}

#[test]
fn a_count_needs_no_one_sided_operation() {
    let mut right = 0;
    for seed in 0..100 {
        let faults = Faults { error_undone_ppm: 4_000, ..Faults::none() };
        let counts = stage::run(&cluster(seed, faults), |engine, mut exchange| {
            let mut table = Table::open(engine, CONFIG, storage(), &mut exchange).unwrap();
            let me = u64::from(exchange.me().0);
            let mut counts = Vec::new();
            for round in 0..ROUNDS {
                insert(&mut table, 3 * round + me)?;
                counts.push(table.len(&mut exchange).unwrap());
            }
            Some(counts)
        })
        .unwrap();
        for of_owner in counts.into_iter().flatten() {
            for (round, len) in (0..).zip(of_owner) {
                assert_eq!(len, 3 * (round + 1), "seed {seed}, round {round}");
                right += 1;
            }
        }
    }
    assert!(right > 1_000, "{right} right: nothing was tried");
}

#[test]
fn retain_fails_on_all_owners_if_it_fails_on_one() {
    for probing in [Probing::Linear, Probing::Lines, Probing::Jump] {
        let config = Config { probing, ..CONFIG };
        let wide = WideConfig { buckets: Config { probing, ..WIDE.buckets }, ..WIDE };
        let (mut failed, mut wide_failed) = (0, 0);
        for seed in 0..100 {
            failed += keeps_step(seed, |engine, exchange| retains(engine, exchange, config));
            wide_failed +=
                keeps_step(seed, |engine, exchange| wide_retains(engine, exchange, wide));
        }
        for failed in [failed, wide_failed] {
            assert!(failed > 10, "{failed} failed with {probing:?}: nothing was tried");
        }
    }
}

/// Keys of each owner: enough for clusters that extend into the next owner's part.
const KEYS: u64 = 48;

/// Inserts the keys and removes the odd ones. Returns `None` if the engine died before.
fn retains(
    engine: probeline_sim::Engine,
    exchange: &mut dyn Exchange,
    config: Config,
) -> Option<Result<u64, CollectiveError>> {
    let mut table = Table::open(engine, config, storage(), exchange).ok()?;
    let me = u64::from(exchange.me().0);
    for key in 0..KEYS {
        insert(&mut table, 3 * key + me)?;
    }
    exchange.barrier().ok()?;
    Some(table.retain(exchange, |key| key % 2 == 0))
}

fn wide_retains(
    engine: probeline_sim::Engine,
    exchange: &mut dyn Exchange,
    config: WideConfig<2>,
) -> Option<Result<u64, CollectiveError>> {
    let storage = [const { WideOperation::EMPTY }; 2];
    let mut table = WideTable::open(engine, config, storage, exchange).ok()?;
    let me = u64::from(exchange.me().0);
    for key in 0..KEYS {
        inserted(|| table.find_or_put(&[3 * key + me, 7]))?;
    }
    exchange.barrier().ok()?;
    Some(table.retain(exchange, |key| key[0] % 2 == 0))
}

/// Lets three owners remove keys while operations fail. Returns the number of owners that failed.
fn keeps_step(
    seed: u64,
    retains: impl Fn(probeline_sim::Engine, &mut dyn Exchange) -> Option<Result<u64, CollectiveError>>
    + Sync,
) -> usize {
    let faults = Faults { error_undone_ppm: 4_000, ..Faults::none() };
    let results = stage::run(&cluster(seed, faults), |engine, mut exchange| {
        let removed = retains(engine, &mut exchange)?;
        // The owners are still in step: this matches the same call of the others, not one of their
        // barriers.
        let mut all = [9; 3];
        let told = exchange.all_gather(&[exchange.me().0.to_le_bytes()[0]], &mut all);
        assert!(told.is_err() || all == [0, 1, 2], "seed {seed}, {all:?}");
        Some((removed, told.is_ok()))
    })
    .unwrap();
    let results: Vec<_> = results.into_iter().flatten().collect();
    // An owner may fail at its very last READ, after all parts are done; then it alone returns an
    // error.
    for removed in results.iter().filter_map(|(end, _)| end.as_ref().ok()) {
        assert_eq!(*removed, 72, "seed {seed}");
    }
    if results.iter().any(|(end, _)| matches!(end, Err(CollectiveError::PartFailed { .. }))) {
        assert!(results.iter().all(|(end, _)| end.is_err()), "seed {seed}: {results:?}");
    }
    if results.len() == 3 {
        assert!(results.iter().all(|(_, told)| *told), "seed {seed}: out of step: {results:?}");
    }
    results.iter().filter(|(end, _)| end.is_err()).count()
}

#[test]
fn a_lost_owner_is_named_by_the_call() {
    let named = stage::run(&cluster(1, Faults::none()), |engine, mut exchange| {
        let mut table = Table::open(engine, CONFIG, storage(), &mut exchange).unwrap();
        if exchange.me() == Owner(2) {
            return true;
        }
        let lost = Owner(2);
        match table.len(&mut exchange) {
            Err(CollectiveError::Exchange(error)) => error == ExchangeError::OwnerLost(lost),
            Err(CollectiveError::Operation(Error::Fault(fault))) => fault == Fault::OwnerLost(lost),
            other => panic!("{other:?}"),
        }
    })
    .unwrap();
    assert_eq!(named, [true; 3]);
}

/// An owner that cannot open its second table must not appear to have the first one still, and
/// keeps step with the others.
#[test]
fn an_earlier_table_does_not_count() {
    const ODD: Config = Config { chunk_buckets: 12, ..CONFIG };
    // The parameters of owner 1, its operations, and the words by which its window is too short.
    for refused in [(ODD, 4, 0), (CONFIG, 0, 0), (CONFIG, 4, 1)] {
        let errors = stage::run(&cluster(1, Faults::none()), |engine, mut exchange| {
            let engine = Refusing::new(engine);
            let table = Table::open(engine, CONFIG, storage(), &mut exchange).unwrap();
            let mut engine = table.into_transport();
            let is_refused = exchange.me() == Owner(1);
            let (config, count, hidden) = if is_refused { refused } else { (CONFIG, 4, 0) };
            engine.hidden_words = hidden;
            let storage = vec![Operation::EMPTY; count];
            let again = Table::open(engine, config, storage, &mut exchange);
            exchange.barrier().unwrap();
            again.err()
        })
        .unwrap();
        let [first, second, third] = errors[..] else { panic!("{errors:?}") };
        assert!(matches!(second, Some(OpenError::Config(_))), "{second:?}");
        let missing = OpenError::Collective(CollectiveError::NotOpened { owner: Owner(1) });
        assert_eq!([first, third], [Some(missing); 2]);
    }
}

/// An engine that refuses access to an idle slot once, which is a defect.
struct Refusing<T> {
    inner: T,
    /// The call to refuse, and the number of calls that succeed before it.
    refuse: Option<Call>,
    answered: Cell<u32>,
    refused: Cell<bool>,
    /// Number of words by which the window is too short.
    hidden_words: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Landed(u32),
    Staged(u32),
}

impl<T> Refusing<T> {
    fn new(inner: T) -> Self {
        Self {
            inner,
            refuse: None,
            answered: Cell::new(0),
            refused: Cell::new(false),
            hidden_words: 0,
        }
    }

    /// Counts a call of a slot range. Returns whether this call is refused.
    fn is_refused(&self, call: fn(u32) -> Call) -> bool {
        let Some(refuse) = self.refuse else { return false };
        let answered = self.answered.get();
        let kind = core::mem::discriminant(&refuse) == core::mem::discriminant(&call(0));
        self.answered.set(answered + u32::from(kind));
        let refused = refuse == call(answered);
        self.refused.set(self.refused.get() || refused);
        refused
    }
}

impl<T: Transport> Transport for Refusing<T> {
    forward_transport!(inner: caps, geometry, in_flight, post, kick, poll, direct);

    fn landed(&self, at: Local) -> Result<&[u64], SlotError> {
        if self.is_refused(Call::Landed) {
            return Err(SlotError::Busy);
        }
        self.inner.landed(at)
    }

    fn staged(&mut self, at: Local) -> Result<&mut [u64], SlotError> {
        if self.is_refused(Call::Staged) {
            return Err(SlotError::Busy);
        }
        self.inner.staged(at)
    }

    fn window(&self) -> &[AtomicU64] {
        let window = self.inner.window();
        &window[..window.len() - self.hidden_words]
    }
}

const REFUSED: OperationError = OperationError::Slot(SlotError::Busy);

/// A word that could not be read must not count as 0, which is an empty bucket: keys would be lost.
#[test]
fn a_refused_slot_in_a_collective_call_is_an_error() {
    // With `Lines` few keys leave their owner's part.
    for probing in [Probing::Linear, Probing::Jump] {
        let config = Config { probing, ..CONFIG };
        for call in [Call::Landed as fn(u32) -> Call, Call::Staged] {
            // Refuses each call of the collective operations in turn.
            let tried = (0..).take_while(|&nth| refuses(config, call(nth))).count();
            // Only linear probing stores to other owners' words with WRITE.
            let least = match (call(0), probing) {
                (Call::Landed(_), _) => 2,
                (Call::Staged(_), Probing::Linear) => 1,
                (Call::Staged(_), _) => 0,
            };
            assert!(tried >= least, "{config:?}, {:?}: {tried} refused", call(0));
        }
    }
}

/// Lets owner 1 collect garbage and count while one of its calls is refused. Returns whether a call
/// was refused.
fn refuses(config: Config, refuse: Call) -> bool {
    let results = stage::run(&cluster(1, Faults::none()), |engine, mut exchange| {
        let engine = Refusing::new(engine);
        let mut table = Table::open(engine, config, storage(), &mut exchange).unwrap();
        let me = u64::from(exchange.me().0);
        // Enough keys for probe orders that extend into another owner's part.
        for key in 0..52 {
            assert_eq!(table.find_or_put(3 * key + me), Ok(Outcome::Inserted));
        }
        exchange.barrier().unwrap();
        table.transport_mut().unwrap().refuse = (exchange.me() == Owner(1)).then_some(refuse);
        let removed = table.retain(&mut exchange, |key| key % 2 == 0);
        let left = removed.and_then(|_| table.len(&mut exchange));
        (removed, left, table.transport().refused.get())
    })
    .unwrap();
    for (owner, (removed, left, refused)) in results.iter().enumerate() {
        let what = format!("{config:?}, {refuse:?}, owner {owner}: {results:?}");
        if *refused {
            assert_eq!(*left, Err(CollectiveError::from(REFUSED)), "{what}");
        }
        // The refused call may be an owner's last READ: then the other owners have completed their
        // parts.
        assert!(removed.is_err() || *removed == Ok(78), "{what}");
        assert!(left.is_err() || *left == Ok(78), "{what}");
    }
    results[1].2
}

/// The same for single operations: `landed` after a READ, `staged` when the CPU copies a chunk.
#[test]
fn a_refused_slot_fails_the_operation() {
    for (call, direct) in [(Call::Landed(0), false), (Call::Staged(0), true)] {
        let sim = probeline_sim::Config {
            window_words: CONFIG.words(),
            model: Model::simple(1_000),
            atomics: AtomicScope::Device,
            direct_access: probeline_sim::DirectAccess::Own,
            owners: 1,
            ..probeline_sim::Config::default()
        };
        let engine = Cluster::new(sim).unwrap().engine(Owner(0)).unwrap();
        let config = Config { direct, ..CONFIG };
        let mut table = Table::new(Refusing::new(engine), config, storage()).unwrap();
        table.transport_mut().unwrap().refuse = Some(call);
        assert_eq!(table.find_or_put(5), Err(REFUSED), "{call:?}");
        assert!(table.transport().refused.get());
        assert_eq!(table.find_or_put(5), Ok(Outcome::Inserted));
        assert_eq!(table.find(5), Ok(true));
    }
}

/// Counting and clearing would skip the missing words.
#[test]
fn a_window_shorter_than_its_geometry_is_an_error() {
    let engine = || {
        let sim = probeline_sim::Config {
            owners: 1,
            window_words: CONFIG.words(),
            ..probeline_sim::Config::default()
        };
        Refusing::new(Cluster::new(sim).unwrap().engine(Owner(0)).unwrap())
    };
    let short = Refusing { hidden_words: 1, ..engine() };
    let expected = CONFIG.words();
    let refused = Table::new(short, CONFIG, storage()).err();
    assert_eq!(refused, Some(ConfigError::Window { found: expected - 1, expected }));

    let mut table = Table::open(engine(), CONFIG, storage(), &mut Alone).unwrap();
    table.transport_mut().unwrap().hidden_words = 1;
    let window = Err(CollectiveError::Operation(OperationError::Window));
    assert_eq!(table.len(&mut Alone), window);
    assert_eq!(table.retain(&mut Alone, |_| true), window);
    assert_eq!(table.clear(&mut Alone), window.map(drop));
}
