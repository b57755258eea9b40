//! The benchmark `speed` with tiny tables: it measures all ratios.

#[allow(dead_code, reason = "the benchmark's own entry")]
#[path = "../benches/speed/main.rs"]
mod speed;

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use core::time::Duration;
use std::collections::BTreeSet;

use clap::Parser;
use speed::bench::Args;
use speed::keys::{BLOCK, Key, Keys, key, number};
use speed::member::{Member, run_pinned};
use speed::rank::Work;
use speed::ratio::{Rates, Row, What};
use speed::sets::{Do, Kind};
use speed::tables::VARIANTS;

/// Runs it with a table of 1 MiB.
fn run(options: &[&str]) -> (String, Vec<Row>) {
    let small = ["speed", "--table-mib", "1", "--milliseconds", "1", "--rounds", "2"];
    let args = Args::try_parse_from(small.iter().chain(options)).unwrap();
    (args.words[0].run)(&args, args.table_mib[0] << 20).unwrap()
}

/// Every ratio is there for each probe order, and none is zero.
#[test]
fn measures_every_ratio() {
    let (about, rows) = run(&[]);
    assert!(about.contains("table of 1 MiB, keys of 63 bits, 2 rounds of 1 ms"), "{about}");
    // Two load factors, three probe orders; the first one has targets.
    assert_eq!(rows.len(), 19 * 2 * 3);
    for row in &rows {
        let values = [row.measured, row.baseline, row.ratio()];
        assert!(values.iter().all(|value| *value > 0.0 && value.is_finite()), "{row}");
    }
    assert_eq!(rows.iter().filter(|row| row.is_met().is_some()).count(), 24);
    for shown in ["finds of the best concurrent set", "inserts of hashbrown", "those of one rank"] {
        assert!(rows.iter().any(|row| row.name.ends_with(shown)), "{shown}");
    }
}

/// Ratios that were not measured have no row and no target.
#[test]
fn measures_table_without_peers() {
    let (_, rows) = run(&["--without-peers", "--probing", "lines"]);
    assert_eq!(rows.len(), (19 - 6) * 2);
    assert_eq!(rows.iter().filter(|row| row.is_met().is_some()).count(), 12);
}

/// Every ratio of wide keys is there for each width. The targets are those of two ranks.
#[test]
fn measures_wide_keys() {
    for words in ["2", "4", "16"] {
        let (about, rows) = run(&["--words", words, "--probing", "lines,jump"]);
        assert!(about.contains(&format!("table of 1 MiB, keys of {words} words")), "{about}");
        assert_eq!(rows.len(), 13 * 2 * 2);
        assert!(rows.iter().all(|row| row.ratio() > 0.0 && row.ratio().is_finite()));
        let judged: Vec<_> = rows.iter().filter(|row| row.is_met().is_some()).collect();
        assert!(judged.len() == 4 && judged.iter().all(|row| row.target == Some(1.5)));
        assert!(judged.iter().all(|row| row.case.starts_with("2 ranks")));
    }
}

/// A find of a wide key reads two lines.
#[test]
fn halves_limit_of_wide_finds() {
    let (system, work) = ("lines", Work::FindBatch);
    let what = What { system, beside: None, threads: 1, load: 500, work };
    let mut rates = Rates::default();
    rates.add(what, 30e6);
    rates.add(What { work: Work::PrefetchedReads, ..what }, 100e6);
    let rows = rates.rows(4, &VARIANTS[1..2]);
    let values: Vec<_> = rows.iter().map(|row| (row.measured, row.baseline)).collect();
    assert_eq!(values, [(30.0, 50.0)]);
}

#[test]
fn wide_keys_differ() {
    let keys: BTreeSet<[u64; 4]> = (0..10_000).map(Key::nth).collect();
    assert_eq!(keys.len(), 10_000);
    assert!(keys.iter().all(|words| number(words[0]) < 10_000));
}

#[test]
fn meets_target_on_one_side() {
    let row = |measured, is_time, target| {
        let (case, target) = (String::new(), Some(target));
        Row { name: "", case, is_time, measured, baseline: 1.0, target, holds: false }
    };
    let met = |ratio, is_time, target| row(ratio, is_time, target).is_met().unwrap();
    assert!(met(0.75, false, 0.75) && !met(0.7, false, 0.75));
    assert!(met(1.2, true, 1.3) && !met(1.31, true, 1.3));
    assert!(row(0.7, false, 0.75).to_string().ends_with(">= 0.75 MISSED"));
    assert!(row(1.2, true, 1.3).to_string().ends_with("<= 1.30 met"));
}

#[test]
fn finds_median_rates_by_subject() {
    let (system, work) = ("linear", Work::FindBatch);
    let what = What { system, beside: None, threads: 1, load: 500, work };
    let other = What { system: "dashmap", work: Work::Find, ..what };
    let mut rates = Rates::default();
    for rate in [9.0, 1.0, 2.0, 4.0] {
        rates.add(What { work: Work::PrefetchedReads, ..what }, rate * 10e6);
        rates.add(other, rate * 1e6);
        rates.add(What { beside: Some("dashmap"), ..what }, rate * 2e6);
        rates.add(What { load: 900, ..what }, rate * 3e6);
    }
    for rate in [1.0, 5.0, 3.0] {
        rates.add(what, rate * 1e6);
    }
    assert_eq!(rates.median(what), Some(3e6));
    assert_eq!(rates.median(What { load: 900, ..what }), Some(9e6));
    assert_eq!(rates.median(What { threads: 2, ..what }), None);
    // The table's rate in the rounds of the other set is compared with that set.
    let rows = rates.rows(1, &VARIANTS[..1]);
    let values: Vec<_> = rows.iter().map(|row| (row.measured, row.baseline)).collect();
    assert_eq!(values, [(3.0, 30.0), (6.0, 3.0)]);
}

fn all_kinds_are_sets_of<K: Key>() {
    let keys: Vec<K> = (0..1000).map(K::nth).collect();
    for kind in Kind::ALL {
        let set = kind.create(1000);
        assert_eq!(set(Do::Insert, &keys[..600]), 600, "{}", kind.name());
        assert_eq!(set(Do::Insert, &keys), 400);
        assert_eq!(set(Do::Find, &keys), 1000);
        assert_eq!(set(Do::Find, &[K::nth(1000), keys[0]]), 1);
    }
}

#[test]
fn all_kinds_behave_as_sets() {
    all_kinds_are_sets_of::<u64>();
    all_kinds_are_sets_of::<[u64; 4]>();
}

#[test]
fn keys_round_trip() {
    for n in (0..10_000).chain((0..10_000).map(|n| (u64::MAX >> 1) - n)) {
        assert!(key(n) <= u64::MAX >> 1);
        assert_eq!(number(key(n)), n);
    }
}

#[test]
fn parts_partition_run() {
    let parts = (0..3).flat_map(|part| Keys::Run(10..1000).draw::<u64>(part, 3, Duration::ZERO, 0));
    let all: Vec<u64> = parts.collect();
    assert_eq!(all, (10..1000).map(key).collect::<Vec<_>>());
}

#[test]
fn draws_different_present_keys() {
    let mut seen = Vec::new();
    for seed in 0..3 {
        let keys: Vec<u64> = Keys::Random(1000).draw(0, 1, Duration::ZERO, seed);
        assert!(keys.len() == BLOCK && keys.iter().all(|&key| number(key) < 1000));
        let different: BTreeSet<u64> = keys.iter().copied().collect();
        // 1000 (1 - e^-2.048) expected, which is 871; 6 standard deviations are below 90.
        assert!((781..961).contains(&different.len()), "{}", different.len());
        assert!(!seen.contains(&keys));
        seen.push(keys);
    }
}

#[test]
fn reports_unexpected_outcome() {
    let right = |keys: &[u64]| keys.len();
    let wrong = |keys: &[u64]| keys.len() - 1;
    let measure = |work: fn(&[u64]) -> usize| {
        run_pinned(Duration::from_secs(1), |member| member.measure(1, &Keys::Run(0..3), work))
    };
    let fill = |work: fn(&[u64]) -> usize| {
        run_pinned(Duration::from_secs(1), |member| member.fill(1, 0..3, work))
    };
    assert!(measure(wrong).is_err() && fill(wrong).is_err());
    assert!(measure(right).unwrap().iter().all(|rate| *rate > 0.0) && fill(right).is_ok());
}

#[test]
fn ends_with_time_or_keys() {
    let counted = AtomicUsize::new(0);
    let measure = |time, count, pause| {
        let work = |keys: &[u64]| {
            counted.fetch_add(keys.len(), Relaxed);
            std::thread::sleep(pause);
            keys.len()
        };
        let run = |member: &mut Member| member.measure(1, &Keys::Run(0..count as u64), work);
        run_pinned(time, run).unwrap();
        counted.swap(0, Relaxed)
    };
    let blocks = measure(Duration::from_millis(3), 10 * BLOCK, Duration::from_millis(2)) / BLOCK;
    // One block if another process had the CPU meanwhile.
    assert!([1, 2].contains(&blocks), "{blocks}");
    assert_eq!(measure(Duration::from_secs(9), BLOCK + 1, Duration::ZERO), BLOCK + 1);
}

/// The error of a thread that fails is reported, beside that of the thread that waits for it.
#[test]
fn reports_error_of_each_thread() {
    let run = |member: &mut Member| match member.me {
        0 => member.fill(2, 0..3, |keys: &[u64]| keys.len()),
        _ => Err("out of order".into()),
    };
    let said = run_pinned(Duration::ZERO, run).unwrap_err().to_string();
    assert!(said.ends_with("; out of order"), "{said}");
}

#[test]
fn refuses_invalid_options() {
    let is_read = |options: &[&str]| Args::try_parse_from(["speed"].iter().chain(options)).is_ok();
    assert!(is_read(&["--table-mib", "4096,1", "--rounds", "9", "--probing", "jump,linear"]));
    assert!(is_read(&["--words", "1,2,4,16"]));
    for invalid in [
        ["--table-mib", "0"],
        ["--table-mib", "99999999999"],
        ["--peer-mib", "many"],
        ["--milliseconds", "0"],
        ["--rounds", "0"],
        ["--probing", "square"],
        ["--words", "3"],
    ] {
        assert!(!is_read(&invalid), "{invalid:?}");
    }
}
