//! The benchmark `speed` with tiny tables: it measures all ratios. A key that is lost, or that a set
//! holds twice, ends it with an error.

#[allow(dead_code, reason = "the benchmark's own entry")]
#[path = "../benches/speed/main.rs"]
mod program;

use core::time::Duration;

use clap::Parser;
use program::bench::Args;
use program::keys::Keys;
use program::member::run_pinned;
use program::rank::Work;
use program::ratio::{Rates, Row, What};
use program::tables::VARIANTS;

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

/// Every ratio of wide keys is there for each width. The targets are those of two ranks.
#[test]
fn measures_wide_keys() {
    for words in ["2", "4", "16"] {
        let (about, rows) = run(&["--words", words, "--probing", "lines,double-hash"]);
        assert!(about.contains(&format!("table of 1 MiB, keys of {words} words")), "{about}");
        assert_eq!(rows.len(), 13 * 2 * 2);
        assert!(rows.iter().all(|row| row.ratio() > 0.0 && row.ratio().is_finite()));
        let judged: Vec<_> = rows.iter().filter(|row| row.is_met().is_some()).collect();
        assert!(judged.len() == 4 && judged.iter().all(|row| row.target == Some(1.5)));
        assert!(judged.iter().all(|row| row.case.starts_with("2 ranks")));
    }
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
    // A find of a wide key reads two lines. Ratios that were not measured have no row.
    let rows = rates.rows(4, &VARIANTS[..1]);
    assert_eq!((rows[0].measured, rows[0].baseline), (3.0, 15.0));
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
