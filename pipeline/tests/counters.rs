//! A structure for the tests: an array of counters, distributed over the owners round-robin.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};

use probeline_pipeline::{
    Atomic, Collective, CollectiveError, ConfigError, Error, FINGERPRINT, Kind, Open, Operation,
    Parameter, Started, Structure, words,
};
use probeline_sim::{Cluster, Config, DirectAccess, Engine, Model};
use probeline_transport::{Alone, Exchange, Owner, RemoteWord, Request, Segment, Transport};

pub(crate) const OPERATIONS: usize = 4;
pub(crate) const COUNTERS: u64 = 8;

/// Counters 0, 1, 2, ..., distributed over the owners round-robin.
pub(crate) struct Counters;

/// The number of counters of each owner, and whether the CPU may run blocking calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) counters: u64,
    pub(crate) direct: bool,
}

pub(crate) struct State {
    owners: u64,
    is_direct: bool,
}

impl Counters {
    fn word(counter: u64, state: &State) -> RemoteWord {
        let owner = Owner(u32::try_from(counter % state.owners).unwrap());
        RemoteWord { owner, index: counter / state.owners }
    }
}

impl Kind for Counters {
    type Config = Shape;
    type Context = State;
    type Key = u64;
    type Action = u64;
    type Machine = Atomic;
    type Stats = ();
    const NAME: &'static str = "Counters";

    fn parameters(shape: &Shape, _: &State) -> impl Iterator<Item = Parameter> + Clone {
        [(FINGERPRINT, 1), ("counters of each owner", shape.counters)].into_iter()
    }

    fn machine(counter: &u64, addend: u64, state: &State) -> Result<Atomic, Error> {
        if *counter == u64::MAX {
            return Err(Error::Window);
        }
        Ok(Atomic(Request::FetchAdd { at: Self::word(*counter, state), addend }))
    }

    fn start(
        counter: &u64,
        addend: u64,
        transport: &impl Transport,
        state: &mut State,
    ) -> Result<Started<Atomic>, Error> {
        if !state.is_direct {
            return Self::machine(counter, addend, state).map(Started::Pending);
        }
        let start = Self::word(*counter, state);
        let word = transport.direct(Segment { start, words: 1 }).ok_or(Error::Window)?;
        Ok(Started::Done(word[0].fetch_add(addend, Release)))
    }

    fn can_be_direct(shape: &Shape, _: &State, _: &impl Transport) -> bool {
        shape.direct
    }

    fn on_opened(
        state: &mut State,
        is_direct: bool,
        _: &mut Collective<'_, impl Exchange + ?Sized>,
    ) -> Result<(), CollectiveError> {
        state.is_direct = is_direct;
        Ok(())
    }

    fn stats(_: &State) -> &() {
        &()
    }

    fn reset_stats(_: &mut State) {}

    fn count(shape: &Shape, _: &State, window: &[AtomicU64]) -> Result<u64, Error> {
        let mine = words(window, 0, shape.counters)?.iter();
        Ok(mine.filter(|counter| counter.load(Acquire) > 0).count() as u64)
    }

    fn empty(shape: &Shape, _: &State, window: &[AtomicU64]) -> Result<(), Error> {
        words(window, 0, shape.counters)?.iter().for_each(|counter| counter.store(0, Release));
        Ok(())
    }
}

impl Open for Counters {
    fn check(shape: &Shape, _: &impl Transport, _: usize) -> Result<(), ConfigError> {
        ConfigError::check_range("counters", shape.counters, 1, u64::MAX)
    }

    fn context(_: &Shape, transport: &impl Transport) -> State {
        State { owners: transport.geometry().owners.into(), is_direct: false }
    }
}

pub(crate) type Array<T> = Structure<T, Vec<Operation<Atomic>>, Counters>;

pub(crate) const SHAPE: Shape = Shape { counters: COUNTERS, direct: false };

pub(crate) fn cluster(owners: u32) -> Cluster {
    let config = Config {
        owners,
        window_words: 2 * COUNTERS,
        direct_access: DirectAccess::All,
        model: Model::simple(1_000),
        ..Config::default()
    };
    Cluster::new(config).unwrap()
}

pub(crate) fn open<T: Transport>(
    engine: T,
    shape: Shape,
    operations: usize,
    exchange: &mut (impl Exchange + ?Sized),
) -> Result<Array<T>, CollectiveError> {
    Structure::open(engine, shape, vec![Operation::EMPTY; operations], exchange)
}

pub(crate) fn alone() -> Array<Engine> {
    let engine = cluster(1).engine(Owner(0)).unwrap();
    open(engine, SHAPE, OPERATIONS, &mut Alone).unwrap()
}
