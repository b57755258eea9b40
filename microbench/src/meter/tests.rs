use core::sync::atomic::Ordering::SeqCst;

use probeline::sim::{Cluster, Config, Engine, Model};
use probeline::transport::Transport;

use super::*;

const ROUNDTRIP_NS: u64 = 2_000;
const WINDOW: u64 = 4_096;

/// Returns a cluster of two owners with a roundtrip of `ROUNDTRIP_NS`, and the engine of the first.
fn rig() -> (Cluster, Engine) {
    let config = Config {
        window_words: WINDOW,
        slots: 16,
        slot_words: 512,
        depth: 16,
        model: Model::simple(ROUNDTRIP_NS),
        ..Config::default()
    };
    let cluster = Cluster::new(config).unwrap();
    let engine = cluster.engine(Owner(0)).unwrap();
    (cluster, engine)
}

fn plan(owner: u32) -> Plan {
    Plan {
        owner: Owner(owner),
        words: 0..WINDOW,
        time: Duration::from_millis(1),
        operations: u64::MAX,
    }
}

fn meter(engine: &mut Engine, plan: Plan) -> Meter<'_, Engine> {
    Meter::new(engine, plan, 7).unwrap()
}

/// Measures all kinds of operations.
fn all(meter: &mut Meter<'_, Engine>) -> Vec<((Operation, u32), f64)> {
    let kinds = meter.kinds().into_iter();
    kinds.map(|kind| (kind, meter.rate(kind.0, kind.1).unwrap())).collect()
}

/// At depth 1 an operation takes a roundtrip; at depth n the rate is n times as high.
#[test]
fn measures_modelled_rates() {
    let (_cluster, mut engine) = rig();
    let rates = all(&mut meter(&mut engine, plan(1)));
    let reads = WORDS.map(|words| Operation::Read { words });
    let expected: Vec<_> = reads
        .into_iter()
        .chain([Operation::Swap, Operation::Add])
        .flat_map(|operation| [1, 2, 4, 8, 16].map(|depth| (operation, depth)))
        .collect();
    let found: Vec<_> = rates.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(found, expected);
    for ((operation, depth), rate) in rates {
        assert_eq!(rate, f64::from(depth) * 1e9 / ROUNDTRIP_NS as f64, "{operation:?}, {depth}");
    }
}

#[test]
fn reads_fit_given_words() {
    let (_cluster, mut engine) = rig();
    let few = meter(&mut engine, Plan { words: 3..7, ..plan(1) }).kinds();
    let most = few.iter().filter_map(|(operation, _)| match operation {
        Operation::Read { words } => Some(*words),
        _ => None,
    });
    assert_eq!(most.max(), Some(4), "{few:?}");
}

/// Words outside of the given range are not 0, so a swap of any of them would not return 0.
#[test]
fn accesses_only_given_words() {
    let (cluster, mut engine) = rig();
    let peer = cluster.engine(Owner(1)).unwrap();
    let holds = |at| u64::from(!(1_000..1_016).contains(&at));
    for (at, word) in peer.window().iter().enumerate() {
        word.store(holds(at), SeqCst);
    }
    let mut meter = meter(&mut engine, Plan { words: 1_000..1_016, ..plan(1) });
    let reads = [1, 16].map(|words| Operation::Read { words });
    for operation in [Operation::Swap, Operation::Add, reads[0], reads[1]] {
        for slot in 0..1_000 {
            let slot = slot % 16;
            meter.post(operation, slot, 0).unwrap();
            let mut ends = [Completion::default()];
            while meter.engine.poll(&mut ends).unwrap() == 0 {}
            assert_eq!(meter.value(operation, slot, ends[0].result.unwrap()).unwrap(), 0);
        }
    }
    for (at, word) in peer.window().iter().enumerate() {
        assert_eq!(word.load(SeqCst), holds(at));
    }
}

#[test]
fn trace_depends_only_on_seed() {
    let trace = |seed| {
        let (cluster, mut engine) = rig();
        let mut meter = Meter::new(&mut engine, plan(1), seed).unwrap();
        let rates = all(&mut meter);
        (rates, cluster.trace_hash())
    };
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1), trace(2));
}

#[test]
fn stops_after_operations_or_time() {
    let (cluster, mut engine) = rig();
    // 128 operations take 256 us; one more is posted before the clock is read.
    for (operations, time_us, expected) in [(40, 1_000, 40), (u64::MAX, 256, 129), (1, 1, 1)] {
        let before = cluster.counters().posted;
        let time = Duration::from_micros(time_us);
        let plan = Plan { operations, time, ..plan(1) };
        meter(&mut engine, plan).rate(Operation::Swap, 1).unwrap();
        assert_eq!(cluster.counters().posted - before, expected);
        assert_eq!(engine.in_flight(), 0);
    }
}

#[test]
fn lost_owner_stops_measurement() {
    let (cluster, mut engine) = rig();
    cluster.kill(Owner(1));
    assert!(meter(&mut engine, plan(1)).rate(Operation::Swap, 16).is_err());
}

#[test]
fn refuses_invalid_measurements() {
    let (_cluster, mut engine) = rig();
    let refused = |engine: &mut Engine, plan| Meter::new(engine, plan, 7).is_err();
    for words in [0..0, 0..WINDOW + 1] {
        assert!(refused(&mut engine, Plan { words, ..plan(1) }));
    }
    let mut meter = meter(&mut engine, plan(1));
    for (operation, depth) in
        [(Operation::Swap, 0), (Operation::Swap, 17), (Operation::Read { words: 520 }, 1)]
    {
        assert!(meter.rate(operation, depth).is_err(), "{operation:?}, {depth}");
    }
    let mut meter = Meter { plan: plan(2), ..meter };
    assert!(meter.rate(Operation::Swap, 1).is_err());
    engine.fetch_add(Token(0), RemoteWord { owner: Owner(1), index: 0 }, 0).unwrap();
    assert!(refused(&mut engine, plan(1)));
}
