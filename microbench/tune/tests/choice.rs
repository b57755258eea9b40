//! Choices on synthetic networks.

use probeline_table::{OneRoundtrip, ReadAhead};
use probeline_tune::{Candidate, Goal, Lengths, Model, Rates, Space, Workload, probe_limit};

const BUCKETS: u64 = 1 << 24;
const ANY: Goal = Goal::Throughput { most_latency_ns: f64::INFINITY };

/// Returns the rates of a network: READs of `base + words * word` nanoseconds and swaps of `swap`
/// nanoseconds, `lanes` of them in parallel.
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
        probe_limit: probe_limit(BUCKETS, load_factor),
        depths: vec![1, 2, 4, 8, 16, 32, 64],
        cache_entries: 1 << 10,
        direct: false,
    }
}

fn best(model: &Model, goal: Goal) -> Candidate {
    let space = space(model.workload.load_factor);
    goal.best(&model.times(&space.candidates())).unwrap()
}

#[test]
fn c_is_large_if_size_costs_nothing() {
    let flat = model(network(2000.0, 0.0, 2000.0, 64), 0.9, 0.5);
    assert!(best(&flat, Goal::Latency).chunk_buckets >= 64);
    let steep = model(network(10.0, 50.0, 10.0, 64), 0.5, 0.5);
    assert_eq!(best(&steep, Goal::Latency).chunk_buckets, 8);
}

#[test]
fn expensive_claims_are_not_posted_with_finds() {
    let dear = model(network(1000.0, 1.0, 9000.0, 64), 0.5, 0.05);
    assert_eq!(best(&dear, ANY).one_roundtrip, OneRoundtrip::Off);
    assert_eq!(best(&dear, Goal::Latency).one_roundtrip, OneRoundtrip::Off);
    // Claims cost as much as a READ, and most inserts find their home bucket empty.
    let cheap = model(network(2000.0, 1.0, 2000.0, 64), 0.1, 1.0);
    assert_eq!(best(&cheap, Goal::Latency).one_roundtrip, OneRoundtrip::On);
}

#[test]
fn depth_grows_while_it_pays_within_the_bound() {
    let eight = model(network(2000.0, 1.0, 2000.0, 8), 0.5, 0.5);
    let chosen = best(&eight, ANY);
    assert!((4..=8).contains(&chosen.depth), "{chosen:?}");
    assert_eq!(best(&eight, Goal::Latency).depth, 1);
    let most_latency_ns = 3.0 * eight.latency_ns(&best(&eight, Goal::Latency));
    let deep = model(network(2000.0, 1.0, 2000.0, 1), 0.5, 0.5);
    let bounded = best(&deep, Goal::Throughput { most_latency_ns });
    assert!(deep.latency_ns(&bounded) <= most_latency_ns);
    let none = Goal::Throughput { most_latency_ns: 1.0 };
    assert_eq!(none.best(&deep.times(&space(0.5).candidates())), None);
}

/// All READs of a network count as random ones.
#[test]
fn no_candidate_is_faster_than_its_reads_and_claims() {
    for (load_factor, insert_share) in [(0.1, 0.0), (0.5, 0.5), (0.9, 1.0)] {
        let plain = model(network(2000.0, 2.0, 2500.0, 16), load_factor, insert_share);
        let mut fast = plain.clone();
        // The calibration suggests that the table is faster than the transport.
        fast.by_reads
            .insert(1, probeline_tune::Own { call_ns: -1e6, ..probeline_tune::Own::default() });
        for candidate in space(load_factor).candidates() {
            let uncached = Candidate { cache_entries: 0, ..candidate };
            let least = plain.rates.read_least_ns(candidate.chunk_buckets);
            assert!(fast.time_ns(&uncached) >= least * 0.999, "{candidate:?}");
            let inserts = insert_share * plain.rates.swap_least_ns();
            assert!(plain.time_ns(&uncached) >= inserts * 0.999, "{candidate:?}");
        }
    }
}

/// A device executes READs and claims in parallel, a CPU one after the other. The model determines
/// which from runs that took as long as either, and applies it to other C.
#[test]
fn claims_are_serialized_if_runs_show_it() {
    for one_by_one in [0.0, 0.5, 1.0] {
        let mut made = model(network(2000.0, 2.0, 2000.0, 8), 0.5, 0.5);
        let truth = probeline_tune::Own { one_by_one, ..probeline_tune::Own::default() };
        made.by_reads.insert(32, truth);
        let of = |chunk_buckets, one_roundtrip| Candidate {
            chunk_buckets,
            max_chunks: 64,
            read_ahead: ReadAhead::Never,
            one_roundtrip,
            depth: 32,
            cache_entries: 0,
            direct: false,
        };
        let runs = [(8, OneRoundtrip::Off), (8, OneRoundtrip::Off), (128, OneRoundtrip::Off)];
        let runs = runs.into_iter().chain([(8, OneRoundtrip::On)]);
        let runs: Vec<Candidate> = runs.map(|(c, claim)| of(c, claim)).collect();
        let ns: Vec<f64> = runs.iter().map(|run| made.time_ns(run)).collect();
        let own = made.calibrated(&runs, &ns);
        assert!((own.one_by_one - one_by_one).abs() < 0.01, "{own:?}");
        let other = of(64, OneRoundtrip::On);
        let took = made.time_ns(&other);
        made.by_reads.insert(32, own.clone());
        assert!((made.time_ns(&other) / took - 1.0).abs() < 0.01, "{own:?}");
    }
}

/// On a CPU, READs after the first hit prefetched words; on a network they take as long as any
/// READ. Runs with three values of C show which applies, and predict other C, including larger
/// ones.
#[test]
fn later_reads_have_their_own_factor() {
    for (call_ns, next_factor) in [(150.0, 0.3), (0.0, 1.0), (60.0, 1.5)] {
        let mut made = model(network(150.0, 1.5, 180.0, 2), 0.9, 0.5);
        let of = |chunk_buckets| Candidate {
            chunk_buckets,
            max_chunks: 1 << 10,
            read_ahead: ReadAhead::Never,
            one_roundtrip: OneRoundtrip::Off,
            depth: 8,
            cache_entries: 0,
            direct: false,
        };
        let truth = probeline_tune::Own { call_ns, next_factor, ..probeline_tune::Own::default() };
        made.by_reads.insert(8, truth);
        let runs = [8, 32, 128].map(of);
        let own = made.calibrated(&runs, &runs.map(|run| made.time_ns(&run)));
        assert!(!own.pinned && (own.next_factor - next_factor).abs() < 0.03, "{own:?}");
        let others = [16, 64, 256, 512].map(of);
        let took = others.map(|other| made.time_ns(&other));
        made.by_reads.insert(8, own.clone());
        for (other, took) in others.iter().zip(took) {
            assert!((made.time_ns(other) / took - 1.0).abs() < 0.02, "{other:?}: {own:?}");
        }
    }
}

/// The model cannot explain a run with read-ahead that took far longer than twice its READs.
#[test]
fn values_out_of_range_are_pinned() {
    let mut model = model(network(150.0, 1.5, 180.0, 1), 0.9, 0.5);
    let of = |chunk_buckets, read_ahead| Candidate {
        chunk_buckets,
        max_chunks: 1 << 10,
        read_ahead,
        one_roundtrip: OneRoundtrip::Off,
        depth: 1,
        cache_entries: 0,
        direct: false,
    };
    let plain = [8, 32, 128].map(|chunk_buckets| of(chunk_buckets, ReadAhead::Never));
    let took = plain.map(|run| model.time_ns(&run));
    let ahead = of(32, ReadAhead::Always);
    let runs = [&plain[..], &[ahead]].concat();
    for (times, pinned) in [(1.5, false), (20.0, true)] {
        let took = [&took[..], &[times * model.time_ns(&ahead)]].concat();
        let own = model.calibrated(&runs, &took);
        assert_eq!(own.pinned, pinned, "{times}: {own:?}");
    }
    // READs that take longer than the whole run.
    for chunk_buckets in [8, 16, 32, 64, 128] {
        model.rates.read(chunk_buckets, 1, 2e4);
    }
    assert!(model.calibrated(&plain, &took).pinned);
}

/// Contenders have each value of C, of depth and so on: if the prediction is wrong for one value,
/// the best candidate with another value is still among them.
#[test]
fn contenders_cover_each_value() {
    let model = model(network(2000.0, 1.0, 2000.0, 8), 0.5, 0.5);
    let space = space(0.5);
    let times = model.times(&space.candidates());
    for goal in [Goal::Latency, ANY] {
        let contenders = goal.contenders(&times);
        assert!(contenders.contains(&goal.best(&times).unwrap()));
        assert!(contenders.len() < 22, "{}", contenders.len());
        for c in &space.chunk_buckets {
            assert!(contenders.iter().any(|contender| contender.chunk_buckets == *c), "{c}");
        }
        for depth in &space.depths {
            assert!(contenders.iter().any(|contender| contender.depth == *depth), "{depth}");
        }
        let doubled = times.iter().map(|&(candidate, ns)| {
            (candidate, if candidate.chunk_buckets == 8 { ns / 2.0 } else { ns })
        });
        let wrong: Vec<_> = doubled.collect();
        assert_eq!(goal.best(&wrong).unwrap().chunk_buckets, 8);
        let again = model.times(&goal.contenders(&wrong));
        assert_eq!(goal.best(&again), goal.best(&times));
    }
    let none = Goal::Throughput { most_latency_ns: 1.0 };
    assert!(none.contenders(&times).is_empty());
}

/// If the caches of a CPU make first READs faster than random ones too, the model reproduces each
/// run that calibrated it, and the prediction for other C is close.
#[test]
fn the_model_reproduces_calibrated_runs() {
    for (read_factor, next_factor) in [(0.2, 0.3), (0.7, 0.5), (1.0, 1.0), (1.4, 0.9)] {
        // The measurement comes from a faster transport, not from factors.
        let (base, word) = (150.0 * read_factor, 1.5 * read_factor);
        let mut made = model(network(base, word, 180.0, 2), 0.9, 0.5);
        let next_factor = next_factor / read_factor;
        made.by_reads.insert(
            1,
            probeline_tune::Own { call_ns: 60.0, next_factor, ..probeline_tune::Own::default() },
        );
        let of = |chunk_buckets| Candidate {
            chunk_buckets,
            max_chunks: 1 << 10,
            read_ahead: ReadAhead::Never,
            one_roundtrip: OneRoundtrip::Off,
            depth: 1,
            cache_entries: 0,
            direct: false,
        };
        let runs = [8, 32, 128].map(of);
        let mut found = model(network(150.0, 1.5, 180.0, 2), 0.9, 0.5);
        let own = found.calibrated(&runs, &runs.map(|run| made.time_ns(&run)));
        found.by_reads.insert(1, own.clone());
        for (chunk_buckets, within) in
            [(8, 0.02), (16, 0.06), (32, 0.02), (64, 0.06), (128, 0.02), (256, 0.06), (512, 0.06)]
        {
            let off = found.time_ns(&of(chunk_buckets)) / made.time_ns(&of(chunk_buckets));
            assert!((off - 1.0).abs() < within, "{chunk_buckets}: {off}, {own:?}");
        }
    }
}

/// Other work on the machine makes one calibrating run longer. The model still reproduces plain
/// runs with other C, and predicts no time of 0.
#[test]
fn a_disturbed_run_affects_only_its_own_c() {
    let made = model(network(150.0, 1.5, 180.0, 2), 0.9, 0.5);
    let plain = |candidate: &Candidate| {
        let ahead = candidate.read_ahead != ReadAhead::Never;
        let claims = candidate.one_roundtrip != OneRoundtrip::Off;
        !ahead && !claims && candidate.cache_entries == 0
    };
    let all: Vec<_> = space(0.9).candidates().into_iter().filter(|one| one.depth == 1).collect();
    let runs: Vec<_> = all.iter().copied().filter(plain).collect();
    let ns: Vec<f64> = runs.iter().map(|run| made.time_ns(run)).collect();
    for disturbed in 0..runs.len() {
        for times in [1.3, 3.0, 20.0] {
            let mut ns = ns.clone();
            ns[disturbed] *= times;
            let mut found = made.clone();
            found.by_reads.insert(1, found.calibrated(&runs, &ns));
            for (run, ns) in runs.iter().zip(&ns) {
                let off = found.time_ns(run) / ns;
                assert!((off - 1.0).abs() < 1e-6, "{disturbed}, {times}: {run:?}, {off}");
            }
            assert!(all.iter().all(|one| found.time_ns(one) > 1.0), "{disturbed}, {times}");
        }
    }
}

/// Without a run of its own, the prediction for a C comes from the runs of the others.
#[test]
fn a_c_without_a_run_is_interpolated() {
    let mut made = model(network(150.0, 1.5, 180.0, 2), 0.9, 0.5);
    made.by_reads
        .insert(1, probeline_tune::Own { next_factor: 0.5, ..probeline_tune::Own::default() });
    let all = space(0.9).candidates().into_iter().filter(|one| {
        let plain = (one.read_ahead, one.one_roundtrip) == (ReadAhead::Never, OneRoundtrip::Off);
        one.depth == 1 && plain && one.cache_entries == 0
    });
    let mut runs: Vec<_> = all.map(|run| (run, made.time_ns(&run))).collect();
    // The run with C = 32 was disturbed.
    runs[2].1 *= 3.0;
    let (disturbed, ns) = runs[2];
    let (candidates, all_ns): (Vec<_>, Vec<_>) = runs.iter().copied().unzip();
    let mut found = made.clone();
    found.by_reads.insert(1, found.calibrated(&candidates, &all_ns));
    assert!((found.time_ns(&disturbed) / ns - 1.0).abs() < 1e-6);
    let without = found.without(&disturbed, &runs).time_ns(&disturbed);
    assert!((without / made.time_ns(&disturbed) - 1.0).abs() < 0.02, "{without}");
}

#[test]
fn a_cache_pays_if_it_hits_at_no_cost() {
    let mut model = model(network(2000.0, 1.0, 2000.0, 64), 0.5, 0.0);
    assert_eq!(best(&model, Goal::Latency).cache_entries, 0, "one in ten thousand");
    model.workload.held = 1 << 9;
    assert_eq!(best(&model, Goal::Latency).cache_entries, 1 << 10);
}

#[test]
fn read_ahead_pays_if_it_is_likely_needed() {
    let long = model(network(2000.0, 50.0, 2000.0, 64), 0.9, 1.0);
    assert_ne!(best(&long, Goal::Latency).read_ahead, ReadAhead::Never);
    let busy = model(network(2000.0, 1.0, 2000.0, 1), 0.1, 0.5);
    assert_ne!(best(&busy, ANY).read_ahead, ReadAhead::Always);
}

#[test]
fn neighbours_are_one_step_away_with_the_same_probe_limit() {
    let space = space(0.5);
    for from in space.candidates() {
        for (name, to) in space.neighbours(&from) {
            assert_ne!(from, to, "{name}");
            let buckets = u64::from(to.chunk_buckets) * u64::from(to.max_chunks);
            assert!(buckets >= space.probe_limit, "{name}: {to:?}");
        }
    }
}
