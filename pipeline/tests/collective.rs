//! Collective calls that every structure has from its front: opening together, and errors that name the
//! owner that made another call.

use probeline_exchange::testing::OtherBuild;
use probeline_pipeline::{CollectiveError, Finished, Operation, Structure, Tag};
use probeline_sim::{Cluster, Config, Engine, Faults, stage};
use probeline_transport::{
    Exchange, ExchangeError, Fault, Owner, Pending, Sizes, Splitter, Transport,
};

use crate::counters::{Array, COUNTERS, OPERATIONS, SHAPE, Shape, cluster, open};

const OWNERS: u32 = 3;

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

/// Checks that an owner that cannot open a structure does not block the others, neither in a first
/// structure nor in a second one on the same engine.
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

/// Lets owner 1 make another call than the others, which count. Without the names of calls both succeed,
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

/// Makes the call of the same name on another structure of the same sizes.
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
