//! The benchmark with tiny tables: it measures all ratios, and the simulated ones meet their targets.

#[allow(dead_code, reason = "the benchmark's own entry")]
#[path = "../benches/speed/main.rs"]
mod speed;

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::Arc;

use clap::Parser;
use speed::sets::KINDS;
use speed::team::{BLOCK, Keys, Member, Team, key, number};
use speed::{Args, Row, Target, cluster, memory};

/// Runs it with a table of 1 MiB.
fn run(options: &[&str]) -> (String, Vec<Row>) {
    let small = ["speed", "--table-size", "1MiB", "--seconds", "0.001", "--rounds", "2"];
    memory::run(&Args::try_parse_from(small.iter().chain(options)).unwrap()).unwrap()
}

/// Every ratio is there for each probe order, and none is zero.
#[test]
fn everything_is_measured() {
    let (about, rows) = run(&[]);
    assert!(about.contains("table of 1 MiB, 2 rounds of 0.001 s"), "{about}");
    // Two load factors, three probe orders; the first one has targets.
    assert_eq!(rows.len(), 15 * 2 * 3);
    for row in &rows {
        let values = [row.measured, row.baseline, row.ratio()];
        assert!(values.iter().all(|value| *value > 0.0 && value.is_finite()), "{row}");
    }
    assert_eq!(rows.iter().filter(|row| row.is_met().is_some()).count(), 22);
    for shown in ["finds of the best concurrent set", "inserts of hashbrown", "those of one rank"] {
        assert!(rows.iter().any(|row| row.name.ends_with(shown)), "{shown}");
    }
}

/// Ratios that were not measured have no row and no target.
#[test]
fn the_table_alone_is_measured() {
    let (_, rows) = run(&["--without-peers", "--probing", "lines"]);
    assert_eq!(rows.len(), (15 - 6) * 2);
    assert_eq!(rows.iter().filter(|row| row.is_met().is_some()).count(), 12);
}

#[test]
fn simulated_targets_are_met_by_numbers_that_repeat() {
    let scale = cluster::Scale { buckets_per_owner: 1 << 17, step: 10 };
    let rows = cluster::run(scale).unwrap();
    assert_eq!(rows.iter().filter(|row| row.is_met() == Some(true)).count(), 5, "{rows:?}");
    assert!(rows.iter().all(|row| row.is_met() != Some(false)), "{rows:?}");
    // A claim that takes a READ's turn gains less.
    assert!(rows[2].ratio() > rows[0].ratio() * 1.05, "{rows:?}");
    assert_eq!(cluster::run(scale).unwrap(), rows);
}

#[test]
fn a_target_is_met_on_its_own_side_only() {
    let row = |ratio, target| {
        let (name, case) = (String::new(), String::new());
        Row { name, case, unit: "", measured: ratio, baseline: 1.0, target: Some(target) }
    };
    let met = |ratio, target| row(ratio, target).is_met().unwrap();
    assert!(met(0.75, Target::AtLeast(0.75)) && !met(0.7, Target::AtLeast(0.75)));
    assert!(met(1.2, Target::AtMost(1.3)) && !met(1.31, Target::AtMost(1.3)));
    assert!(row(0.7, Target::AtLeast(0.75)).to_string().ends_with(">= 0.75 MISSED"));
}

#[test]
fn all_kinds_are_sets() {
    let keys: Vec<u64> = (0..1000).map(key).collect();
    for kind in KINDS {
        let set = (kind.create)(1000);
        assert_eq!(set.insert(&keys[..600]), 600, "{}", kind.name);
        assert_eq!(set.insert(&keys), 400);
        assert_eq!(set.find(&keys), 1000);
        assert_eq!(set.find(&[key(1000), key(0)]), 1);
    }
}

#[test]
fn numbers_come_back_from_keys_of_63_bits() {
    for n in (0..10_000).chain((0..10_000).map(|n| (u64::MAX >> 1) - n)) {
        assert!(key(n) <= u64::MAX >> 1);
        assert_eq!(number(key(n)), n);
    }
}

#[test]
fn the_parts_of_a_run_are_disjoint_and_complete() {
    let parts = (0..3).flat_map(|part| Keys::Run(10..1000).draw(part, 3, Duration::ZERO, 0));
    let all: Vec<u64> = parts.collect();
    assert_eq!(all, (10..1000).map(key).collect::<Vec<_>>());
}

#[test]
fn random_keys_are_present_and_differ() {
    let mut seen = Vec::new();
    for seed in 0..3 {
        let keys = Keys::Random(1000).draw(0, 1, Duration::ZERO, seed);
        assert!(keys.len() == BLOCK && keys.iter().all(|&key| number(key) < 1000));
        let different: BTreeSet<u64> = keys.iter().copied().collect();
        // 1000 (1 - e^-2.048) expected, which is 871; 6 standard deviations are below 90.
        assert!((781..961).contains(&different.len()), "{}", different.len());
        assert!(!seen.contains(&keys));
        seen.push(keys);
    }
}

#[test]
fn an_unexpected_outcome_is_an_error() {
    let mut team = Team::new(Duration::from_secs(1)).unwrap();
    let right = |_: &mut Member, keys: &[u64]| keys.len();
    let wrong = |_: &mut Member, keys: &[u64]| keys.len() - 1;
    assert!(team.measure(1, Keys::Run(0..3), wrong).is_err());
    assert!(team.fill(1, 0..3, wrong).is_err());
    assert!(team.measure(1, Keys::Run(0..3), right).unwrap() > 0.0);
    team.fill(1, 0..3, right).unwrap();
}

#[test]
fn a_measurement_ends_with_its_time_or_its_keys() {
    let counted = Arc::new(AtomicUsize::new(0));
    let count = |pause: Duration| {
        let counted = Arc::clone(&counted);
        move |_: &mut Member, keys: &[u64]| {
            counted.fetch_add(keys.len(), Relaxed);
            std::thread::sleep(pause);
            keys.len()
        }
    };
    let mut team = Team::new(Duration::from_millis(3)).unwrap();
    let keys = Keys::Run(0..10 * BLOCK as u64);
    team.measure(1, keys, count(Duration::from_millis(2))).unwrap();
    // One block if another process had the CPU meanwhile.
    let blocks = counted.swap(0, Relaxed) / BLOCK;
    assert!([1, 2].contains(&blocks), "{blocks}");
    let mut team = Team::new(Duration::from_secs(9)).unwrap();
    team.measure(1, Keys::Run(0..BLOCK as u64 + 1), count(Duration::ZERO)).unwrap();
    assert_eq!(counted.load(Relaxed), BLOCK + 1);
}

#[test]
fn invalid_options_are_refused() {
    let is_read = |options: &[&str]| Args::try_parse_from(["speed"].iter().chain(options)).is_ok();
    assert!(is_read(&["--table-size", "4GiB", "--rounds", "9", "--probing", "jump,linear"]));
    for invalid in [
        ["--table-size", "0MiB"],
        ["--table-size", "1GB"],
        ["--table-size", "99999999999GiB"],
        ["--peer-size", "many"],
        ["--seconds", "0"],
        ["--rounds", "0"],
        ["--probing", "square"],
    ] {
        assert!(!is_read(&invalid), "{invalid:?}");
    }
}
