//! What is chosen on made-up networks.

use table::{FirstClaim, ReadAhead};
use tune::{Candidate, Goal, Lengths, Model, Rates, Space, Workload, reach};

const BUCKETS: u64 = 1 << 24;
const ANY: Goal = Goal::Throughput { most_latency_ns: f64::INFINITY };

/// READs of `base + words * word` nanoseconds and swaps of `swap`, of which `lanes` go at once.
fn network(base: f64, word: f64, swap: f64, lanes: u32) -> Rates {
    let mut rates = Rates::new();
    for depth in [1, 2, 4, 8, 16, 32, 64] {
        let at_once = f64::from(depth.min(lanes));
        for words in [8, 16, 32, 64, 128, 256, 512] {
            rates.read(words, depth, (base + word * f64::from(words)) / at_once);
        }
        rates.swap(depth, swap / at_once);
    }
    rates
}

fn model(rates: Rates, load_factor: f64, insert_share: f64) -> Model {
    let workload = Workload { load_factor, insert_share, held: BUCKETS / 2 };
    Model { rates, lengths: Lengths::at(load_factor), workload, ..Model::default() }
}

fn space(load_factor: f64) -> Space {
    Space {
        chunk_buckets: vec![8, 16, 32, 64, 128, 256, 512],
        reach: reach(BUCKETS, load_factor),
        depths: vec![1, 2, 4, 8, 16, 32, 64],
        cache_entries: 1 << 10,
        direct: false,
    }
}

fn best(model: &Model, goal: Goal) -> Candidate {
    let space = space(model.workload.load_factor);
    model.best(&space.candidates(), goal).unwrap()
}

#[test]
fn where_size_costs_nothing_c_is_large() {
    let flat = model(network(2000.0, 0.0, 2000.0, 64), 0.9, 0.5);
    assert!(best(&flat, Goal::Latency).chunk_buckets >= 64);
    let steep = model(network(10.0, 50.0, 10.0, 64), 0.5, 0.5);
    assert_eq!(best(&steep, Goal::Latency).chunk_buckets, 8);
}

#[test]
fn dear_claims_do_not_go_along_with_finds() {
    let dear = model(network(1000.0, 1.0, 9000.0, 64), 0.5, 0.05);
    assert_eq!(best(&dear, ANY).first_claim, FirstClaim::Off);
    assert_eq!(best(&dear, Goal::Latency).first_claim, FirstClaim::Off);
    // As dear as a READ, and most inserts find their home empty.
    let cheap = model(network(2000.0, 1.0, 2000.0, 64), 0.1, 1.0);
    assert_eq!(best(&cheap, Goal::Latency).first_claim, FirstClaim::On);
}

#[test]
fn depth_goes_as_far_as_it_pays_and_may() {
    let eight = model(network(2000.0, 1.0, 2000.0, 8), 0.5, 0.5);
    let chosen = best(&eight, ANY);
    assert!((4..=8).contains(&chosen.depth), "{chosen:?}");
    assert_eq!(best(&eight, Goal::Latency).depth, 1);
    let most_latency_ns = 3.0 * eight.latency_ns(&best(&eight, Goal::Latency));
    let deep = model(network(2000.0, 1.0, 2000.0, 1), 0.5, 0.5);
    let bounded = best(&deep, Goal::Throughput { most_latency_ns });
    assert!(deep.latency_ns(&bounded) <= most_latency_ns);
    let none = Goal::Throughput { most_latency_ns: 1.0 };
    assert_eq!(deep.best(&space(0.5).candidates(), none), None);
}

#[test]
fn nothing_is_faster_than_its_reads_and_claims() {
    for (load_factor, insert_share) in [(0.1, 0.0), (0.5, 0.5), (0.9, 1.0)] {
        let mut model = model(network(2000.0, 2.0, 2500.0, 16), load_factor, insert_share);
        // As if the table were faster than what it rests on.
        let own = tune::Own { call_ns: -1e6, read_factor: 0.1, ..tune::Own::default() };
        model.by_reads.insert(1, own);
        for candidate in space(load_factor).candidates() {
            let uncached = Candidate { cache_entries: 0, ..candidate };
            let least = model.rates.read_least_ns(candidate.chunk_buckets);
            let inserts = insert_share * model.rates.swap_least_ns();
            assert!(model.time_ns(&uncached) >= least.max(inserts) * 0.999, "{candidate:?}");
        }
    }
}

/// A device does READs and claims side by side, a CPU one after the other: of runs that took as
/// long as the one or the other, the model takes which it is, and expects that of other C.
#[test]
fn claims_take_time_of_their_own_where_they_do() {
    for one_by_one in [0.0, 0.5, 1.0] {
        let mut made = model(network(2000.0, 2.0, 2000.0, 8), 0.5, 0.5);
        let truth = tune::Own { one_by_one, ..tune::Own::default() };
        made.by_reads.insert(32, truth);
        let of = |chunk_buckets, first_claim| Candidate {
            chunk_buckets,
            max_chunks: 64,
            read_ahead: ReadAhead::Never,
            first_claim,
            depth: 32,
            cache_entries: 0,
            direct: false,
        };
        let runs = [(8, FirstClaim::Off), (8, FirstClaim::Off), (128, FirstClaim::Off)];
        let runs = runs.into_iter().chain([(8, FirstClaim::On)]);
        let runs: Vec<Candidate> = runs.map(|(c, claim)| of(c, claim)).collect();
        let ns: Vec<f64> = runs.iter().map(|run| made.time_ns(run)).collect();
        let own = made.calibrated(&runs, &ns);
        assert!((own.one_by_one - one_by_one).abs() < 0.01, "{own:?}");
        let other = of(64, FirstClaim::On);
        let took = made.time_ns(&other);
        made.by_reads.insert(32, own);
        assert!((made.time_ns(&other) / took - 1.0).abs() < 0.01, "{own:?}");
    }
}

/// On a CPU, READs behind the first find what it has fetched ahead; on a network they take what any
/// READ takes. Runs of three C say which it is, and what others take, those beyond them too.
#[test]
fn reads_behind_the_first_take_what_they_do() {
    for (call_ns, next_factor) in [(150.0, 0.3), (0.0, 1.0), (60.0, 1.5)] {
        let mut made = model(network(150.0, 1.5, 180.0, 2), 0.9, 0.5);
        let of = |chunk_buckets| Candidate {
            chunk_buckets,
            max_chunks: 1 << 10,
            read_ahead: ReadAhead::Never,
            first_claim: FirstClaim::Off,
            depth: 8,
            cache_entries: 0,
            direct: false,
        };
        let truth = tune::Own { call_ns, next_factor, ..tune::Own::default() };
        made.by_reads.insert(8, truth);
        let runs = [8, 32, 128].map(of);
        let own = made.calibrated(&runs, &runs.map(|run| made.time_ns(&run)));
        assert!(!own.pinned && (own.next_factor - next_factor).abs() < 0.03, "{own:?}");
        let others = [16, 64, 256, 512].map(of);
        let took = others.map(|other| made.time_ns(&other));
        made.by_reads.insert(8, own);
        for (other, took) in others.iter().zip(took) {
            assert!((made.time_ns(other) / took - 1.0).abs() < 0.02, "{other:?}: {own:?}");
        }
    }
}

#[test]
fn a_cache_pays_where_it_answers_and_costs_nothing() {
    let mut model = model(network(2000.0, 1.0, 2000.0, 64), 0.5, 0.0);
    assert_eq!(best(&model, Goal::Latency).cache_entries, 0, "one in ten thousand");
    model.workload.held = 1 << 9;
    assert_eq!(best(&model, Goal::Latency).cache_entries, 1 << 10);
}

#[test]
fn read_ahead_pays_where_it_is_likely_to_be_needed() {
    let long = model(network(2000.0, 50.0, 2000.0, 64), 0.9, 1.0);
    assert_ne!(best(&long, Goal::Latency).read_ahead, ReadAhead::Never);
    let busy = model(network(2000.0, 1.0, 2000.0, 1), 0.1, 0.5);
    assert_ne!(best(&busy, ANY).read_ahead, ReadAhead::Always);
}

#[test]
fn neighbours_are_one_step_away_and_reach_as_far() {
    let space = space(0.5);
    for from in space.candidates() {
        for (name, to) in space.neighbours(&from) {
            assert_ne!(from, to, "{name}");
            let reach = u64::from(to.chunk_buckets) * u64::from(to.max_chunks);
            assert!(reach >= space.reach, "{name}: {to:?}");
        }
    }
}
