//! Calls that every structure has from its front: opening together, collective calls that name who is out
//! of step, futures, and results that no call loses. The structure is an array of counters.

use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::task::Wake;

use probeline_exchange::testing::{OtherBuild, Watched};
use probeline_pipeline::{
    Atomic, BatchError, Collective, CollectiveError, ConfigError, Error, FINGERPRINT, Finished,
    Kind, Open, Operation, OperationFuture, Parameter, Started, Structure, Tag, words,
};
use probeline_sim::{Cluster, Config, DirectAccess, Engine, Faults, Model, stage};
use probeline_transport::{
    Alone, Exchange, ExchangeError, Fault, Owner, Pending, RemoteWord, Request, Segment, Sizes,
    Splitter, Transport,
};

const OPERATIONS: usize = 4;
const OWNERS: u32 = 3;
const COUNTERS: u64 = 8;
/// Calls by the CPU within which the transport is polled.
const CALLS: u64 = 6_400;

/// Counters 0, 1, 2, ..., distributed over the owners round-robin.
struct Counters;

/// The number of counters of each owner, and whether the CPU may run blocking calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    counters: u64,
    direct: bool,
}

struct State {
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

type Array<T> = Structure<T, Vec<Operation<Atomic>>, Counters>;

const SHAPE: Shape = Shape { counters: COUNTERS, direct: false };

fn cluster(owners: u32) -> Cluster {
    let config = Config {
        owners,
        window_words: 2 * COUNTERS,
        direct_access: DirectAccess::All,
        model: Model::simple(1_000),
        ..Config::default()
    };
    Cluster::new(config).unwrap()
}

fn open<T: Transport>(
    engine: T,
    shape: Shape,
    operations: usize,
    exchange: &mut (impl Exchange + ?Sized),
) -> Result<Array<T>, CollectiveError> {
    Structure::open(engine, shape, vec![Operation::EMPTY; operations], exchange)
}

/// Opens the structure on all owners and runs `body` there.
fn on_owners<R: Send>(
    owners: u32,
    body: impl Fn(Array<Engine>, &mut dyn Exchange) -> R + Sync,
) -> Vec<R> {
    stage::run(&cluster(owners), |engine, mut exchange| {
        body(open(engine, SHAPE, OPERATIONS, &mut exchange).unwrap(), &mut exchange)
    })
    .unwrap()
}

fn alone() -> Array<Engine> {
    let engine = cluster(1).engine(Owner(0)).unwrap();
    open(engine, SHAPE, OPERATIONS, &mut Alone).unwrap()
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn names_differing_owner() {
    for odd in (0..OWNERS).map(Owner) {
        let errors = stage::run(&cluster(OWNERS), |engine, mut exchange| {
            let counters = if exchange.me() == odd { 7 } else { COUNTERS };
            open(engine, Shape { counters, ..SHAPE }, OPERATIONS, &mut exchange).map(drop)
        });
        for (me, error) in (0..).map(Owner).zip(errors.unwrap()) {
            let different = if me != odd { odd } else { Owner(u32::from(odd == Owner(0))) };
            let Err(CollectiveError::Differs { owner, what, .. }) = error else {
                panic!("{error:?}")
            };
            assert_eq!((owner, what), (different, "counters of each owner"), "{me}, odd {odd}");
        }
    }
}

#[test]
fn refuses_another_build() {
    let engine = cluster(2).engine(Owner(0)).unwrap();
    let mut array: Array<_> =
        Structure::new(engine, SHAPE, vec![Operation::EMPTY; OPERATIONS]).unwrap();
    let agreed = array.agree(&mut OtherBuild::default());
    let Err(CollectiveError::Differs { owner, what, .. }) = agreed else { panic!("{agreed:?}") };
    assert_eq!(owner, Owner(1));
    assert!(what.contains("of the build"), "{what}");
}

/// An owner that cannot open it does not block the others, neither in a first structure nor in a
/// second one on the same engine.
#[test]
fn reports_failed_open_to_all() {
    let empty = Shape { counters: 0, ..SHAPE };
    for (odd, shape, operations) in [(0, empty, 4), (1, SHAPE, 0), (2, empty, 4)] {
        let results = stage::run(&cluster(OWNERS), |mut engine, mut exchange| {
            let is_odd = exchange.me() == Owner(odd);
            let (shape, operations) = if is_odd { (shape, operations) } else { (SHAPE, 4) };
            let first = open(&mut engine, shape, operations, &mut exchange).map(drop);
            open(&mut engine, SHAPE, 4, &mut exchange).unwrap();
            let again = open(&mut engine, shape, operations, &mut exchange).map(drop);
            exchange.barrier().unwrap();
            [first, again]
        });
        for (me, results) in (0..).zip(results.unwrap()) {
            let not_opened = CollectiveError::NotOpened { owner: Owner(odd) };
            for error in results.map(Result::unwrap_err) {
                assert_eq!(matches!(error, CollectiveError::Config(_)), me == odd, "{error:?}");
                assert!(me == odd || error == not_opened, "{error:?}");
            }
        }
    }
}

/// Owner 1 makes another call than the others, who count. Without the names of calls both succeed,
/// with a wrong number, and half of the structure is cleared.
#[test]
fn names_differing_calls() {
    type Odd = fn(&mut Array<Engine>, &mut dyn Exchange) -> Result<(), CollectiveError>;
    let others: [(&str, Odd); 2] = [
        ("Counters::clear (call", |array, exchange| array.clear(exchange)),
        ("barrier (call", |_, exchange| exchange.barrier().map_err(CollectiveError::Exchange)),
    ];
    for (what, odd) in others {
        let errors = on_owners(OWNERS, |mut array, exchange| match exchange.me() {
            Owner(1) => odd(&mut array, exchange),
            _ => array.len(exchange).map(drop),
        });
        for error in errors {
            let Err(CollectiveError::Exchange(error)) = error else { panic!("{error:?}") };
            let text = error.to_string();
            assert!(text.contains(&format!("owner 1 called {what}")), "{text}");
            assert!(text.contains("owner 0 called Counters::len (call"), "{text}");
        }
    }
}

/// The same call of the same name, on another structure of the same sizes.
#[test]
fn names_differing_structures() {
    let part = Sizes::new(COUNTERS).with_slots(0, 1).with_depth(4);
    let texts = stage::run(&cluster(2), |mut engine, mut exchange| {
        let mut pending = vec![Pending::EMPTY; 8];
        let splitter = Splitter::new(&mut engine, [part; 2], &mut pending).unwrap();
        let mut arrays = splitter
            .channels()
            .unwrap()
            .map(|channel| open(channel, SHAPE, OPERATIONS, &mut exchange).unwrap());
        arrays[exchange.me().0 as usize].len(&mut exchange).unwrap_err().to_string()
    });
    for text in texts.unwrap() {
        let count = |what| text.matches(what).count();
        assert_eq!(count("Counters::len"), 2, "{text}");
        assert_eq!(count("of the structure opened by call"), 2, "{text}");
    }
}

#[test]
fn names_lost_owner() {
    let results = on_owners(OWNERS, |mut array, exchange| {
        array.call(&exchange.me().0.into(), 1).unwrap();
        assert_eq!(array.len(exchange), Ok(3));
        (exchange.me() != Owner(2)).then(|| array.len(exchange))
    });
    let lost = Owner(2);
    for result in results.into_iter().flatten() {
        let is_named = match result {
            Err(CollectiveError::Exchange(error)) => error == ExchangeError::OwnerLost(lost),
            Err(CollectiveError::Operation(error)) => error == Fault::OwnerLost(lost).into(),
            _ => false,
        };
        assert!(is_named, "{result:?}");
    }
}

/// Operations in flight at the start of a call complete before its first effect, and are reported
/// after it.
#[test]
fn completes_in_flight_before_call() {
    type Call = fn(&mut Array<Engine>, &mut dyn Exchange);
    let calls: [(Call, u64); 3] = [
        (|array, exchange| array.agree(exchange).unwrap(), 12),
        (|array, exchange| assert_eq!(array.len(exchange), Ok(12)), 12),
        (|array, exchange| array.clear(exchange).unwrap(), 0),
    ];
    for (call, left) in calls {
        on_owners(OWNERS, |mut array, exchange| {
            let me = u64::from(exchange.me().0);
            for tag in 0..4 {
                array.submit(Tag(tag), &(4 * me + tag), 1).unwrap();
            }
            call(&mut array, exchange);
            assert_eq!(array.transport().in_flight(), 0);
            let mut out = [Finished::default(); 8];
            let ended = array.poll_into(&mut out).unwrap();
            let mut tags: Vec<u64> = ended.iter().map(|end| end.tag.0).collect();
            tags.sort_unstable();
            assert_eq!(tags, [0, 1, 2, 3]);
            assert!(ended.iter().all(|end| end.result == Ok(0)), "{ended:?}");
            assert_eq!(array.len(exchange), Ok(left));
        });
    }
}

/// A second structure on an engine must not receive completions of the first one.
#[test]
fn returns_idle_engine() {
    let mut engine = cluster(1).engine(Owner(0)).unwrap();
    for _ in 0..20 {
        let mut array = open(&mut engine, SHAPE, OPERATIONS, &mut Alone).unwrap();
        (0..4).for_each(|tag| array.submit(Tag(tag), &tag, 1).unwrap());
        assert_eq!(array.into_transport().in_flight(), 0);
    }
}

#[test]
fn refuses_calls_without_free_storage() {
    for ended in [false, true] {
        let mut array = alone();
        (0..4).for_each(|tag| {
            assert!(array.has_room());
            array.submit(Tag(tag), &tag, 1).unwrap();
        });
        assert!(!array.has_room());
        if ended {
            array.transport_mut().unwrap();
        }
        let mut results = [Ok(9); 2];
        array.call_all(&[(5, 1), (6, 1)], &mut results).unwrap();
        assert_eq!(results, [Err(Error::Busy); 2]);
        assert_eq!(array.call(&7, 1), Err(Error::Busy));
        let shared = RefCell::new(array);
        {
            let mut future = OperationFuture::new(&shared, &7, 1);
            assert!((0..100).any(|_| poll(&mut future) == Poll::Ready(Err(Error::Busy))));
        }
        let mut array = shared.into_inner();
        let mut ends = 0;
        while ends < 4 {
            ends += array.poll_into(&mut [Finished::default(); 4]).unwrap().len();
        }
        assert_eq!(array.call(&7, 1), Ok(0));
    }
}

#[test]
fn stores_each_batch_result() {
    let mut array = alone();
    let requests: Vec<_> = (0..40).map(|nth| (nth % 8, 1)).collect();
    let mut results = vec![Err(Error::Window); 40];
    array.call_all(&requests, &mut results).unwrap();
    let sum: u64 = results.into_iter().map(Result::unwrap).sum();
    assert_eq!(sum, 8 * (1 + 2 + 3 + 4));
    let mut results = [Ok(9); 3];
    array.call_all(&[(1, 1), (u64::MAX, 1), (2, 1)], &mut results).unwrap();
    assert_eq!(results, [Ok(5), Err(Error::Window), Ok(5)]);
    let refused = array.call_all(&[(1, 1)], &mut results).unwrap_err();
    assert!(matches!(refused, BatchError::Lengths { keys: 1, found: 3, .. }), "{refused:?}");
    assert_eq!(array.call(&1, 0), Ok(6));
}

/// Only a poll detects lost owners, so calls, batches and futures that the CPU runs poll now and then.
#[test]
fn polls_among_cpu_calls() {
    type Direct = Array<Watched<Engine>>;
    let forms: [fn(&RefCell<Direct>); 3] = [
        |array| (0..CALLS).for_each(|nth| assert_eq!(array.borrow_mut().call(&3, 1), Ok(nth))),
        |array| {
            let mut results = [Ok(0); 64];
            let batches = CALLS / results.len() as u64;
            (0..batches)
                .for_each(|_| array.borrow_mut().call_all(&[(3, 1); 64], &mut results).unwrap());
        },
        |array| {
            for _ in 0..CALLS {
                let mut future = OperationFuture::new(array, &3, 1);
                while poll(&mut future).is_pending() {}
            }
        },
    ];
    // Operations of a batch that the pipeline runs, and each poll of a future, poll more often.
    for (form, most) in forms.into_iter().zip([200, 2_000, 4 * CALLS]) {
        let engine = Watched::new(cluster(1).engine(Owner(0)).unwrap());
        let shape = Shape { direct: true, ..SHAPE };
        let array = RefCell::new(open(engine, shape, OPERATIONS, &mut Alone).unwrap());
        let before = array.borrow().transport().polls;
        form(&array);
        let mut array = array.into_inner();
        let polls = array.transport().polls - before;
        assert!((100..most).contains(&polls), "{polls} polls, at most {most}");
        assert_eq!(array.call(&3, 0), Ok(CALLS));
    }
}

/// A lost owner ends operations in flight with its fault, and every later call.
#[test]
fn reports_results_before_fault() {
    let cluster = cluster(2);
    let engine = cluster.engine(Owner(0)).unwrap();
    let mut array: Array<_> =
        Structure::new(engine, SHAPE, vec![Operation::EMPTY; OPERATIONS]).unwrap();
    (0..4).for_each(|tag| array.submit(Tag(tag), &tag, 1).unwrap());
    cluster.kill(Owner(1));
    let (mut tags, mut out) = (Vec::new(), [Finished::default()]);
    let fault = loop {
        match array.poll_into(&mut out) {
            Ok(ended) => tags.extend(ended.iter().map(|end| end.tag.0)),
            Err(error) => break error,
        }
    };
    tags.sort_unstable();
    assert_eq!((tags, fault), (vec![0, 1, 2, 3], Fault::OwnerLost(Owner(1)).into()));
    assert_eq!(array.call(&0, 1), Err(fault));
    assert_eq!(array.submit(Tag(9), &0, 1), Err(fault));
    let mut results = [Ok(0)];
    array.call_all(&[(0, 1)], &mut results).unwrap();
    assert_eq!(results, [Err(fault)]);
    assert_eq!(array.len(&mut Alone), Err(CollectiveError::Operation(fault)));
}

/// An operation of a dropped future continues, and frees its storage.
#[test]
fn frees_storage_of_dropped_futures() {
    let shared = RefCell::new(alone());
    for nth in 0..20 {
        let mut futures: Vec<_> = (0..4).map(|_| OperationFuture::new(&shared, &5, 1)).collect();
        assert!(futures.iter_mut().all(|future| poll(future).is_pending()), "{nth}");
        futures.clear();
        let mut last = OperationFuture::new(&shared, &5, 0);
        assert!((0..100).any(|_| poll(&mut last) == Poll::Ready(Ok(4 * (nth + 1)))), "{nth}");
    }
    drop(OperationFuture::new(&shared, &5, 1));
    assert_eq!(shared.into_inner().call(&5, 0), Ok(80), "one that was not polled does nothing");
}

/// All storage holds results that their tasks have not taken: a further future waits for them.
#[test]
fn waits_for_untaken_results() {
    let shared = RefCell::new(alone());
    let mut running: Vec<_> = (0..4).map(|_| OperationFuture::new(&shared, &5, 1)).collect();
    assert!(running.iter_mut().all(|future| poll(future).is_pending()));
    let mut last = OperationFuture::new(&shared, &5, 1);
    assert!((0..200).all(|_| poll(&mut last).is_pending()));
    for future in &mut running {
        assert!((0..100).any(|_| poll(future).is_ready()));
    }
    assert!((0..100).any(|_| poll(&mut last) == Poll::Ready(Ok(4))));
}

/// An executor that polls only woken tasks ends all of them, whose operations overlap: in as many
/// tasks, they take little more time than one.
#[test]
fn wakes_overlapping_tasks() {
    #[derive(Default)]
    struct Woken(AtomicU64);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Release);
        }
    }

    let run_ns = |tasks: usize| {
        let shared = &RefCell::new(alone());
        let start_ns = shared.borrow().transport().now_ns();
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let task = |_| {
            Box::pin(async move {
                for _ in 0..16 / tasks {
                    OperationFuture::new(shared, &5, 1).await.unwrap();
                }
            })
        };
        let mut running: Vec<_> = (0..tasks).map(task).collect();
        while !running.is_empty() {
            let before = woken.0.load(Acquire);
            let mut context = Context::from_waker(&waker);
            running.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
            let wakes = woken.0.load(Acquire) - before;
            assert!(wakes >= running.len() as u64, "{wakes} wakes of {} tasks", running.len());
        }
        shared.borrow().transport().now_ns() - start_ns
    };
    let (alone_ns, together_ns) = (run_ns(1), run_ns(4));
    assert!(together_ns * 3 < alone_ns, "{together_ns} ns in 4 tasks, {alone_ns} ns in one");
}

/// Operations that fail keep a count in step.
#[test]
fn counts_without_one_sided_operations() {
    let mut tried = 0;
    for seed in 0..20 {
        let faults = Faults { error_undone_ppm: 50_000, ..Faults::none() };
        let config = Config { seed, faults, ..*cluster(OWNERS).config() };
        let counts = stage::run(&Cluster::new(config).unwrap(), |engine, mut exchange| {
            let mut array = open(engine, SHAPE, OPERATIONS, &mut exchange).unwrap();
            let (me, mut counts) = (u64::from(exchange.me().0), Vec::new());
            for round in 0..COUNTERS {
                while array.call(&(3 * round + me), 1).is_err() {}
                counts.push(array.len(&mut exchange).unwrap());
            }
            counts
        });
        for counts in counts.unwrap() {
            assert!(
                counts.iter().enumerate().all(|(round, count)| *count == 3 * (round as u64 + 1))
            );
            tried += counts.len();
        }
    }
    assert!(tried > 400, "{tried}");
}
