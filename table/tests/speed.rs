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

/// Every ratio is there for each width and probe order, and none is zero; only the first order has
/// targets: narrow keys, and two ranks of wide keys.
#[test]
fn measures_every_ratio() {
    let args = ["speed", "--table-mib", "1", "--milliseconds", "1", "--rounds", "2"];
    let args = args.iter().chain(&["--words", "1,2,4,16", "--probing", "lines,double-hash"]);
    let args = Args::try_parse_from(args).unwrap();
    for (width, targets) in args.words.iter().zip([24, 4, 4, 4]) {
        let (about, rows) = (width.run)(&args).unwrap();
        assert!(about.contains("table of 1 MiB, keys of "), "{about}");
        assert_eq!(rows.len(), 15 * 2 * 2);
        for row in &rows {
            let values = [row.measured, row.baseline, row.ratio()];
            assert!(values.iter().all(|value| *value > 0.0 && value.is_finite()), "{row}");
        }
        assert_eq!(rows.iter().filter(|row| row.is_met().is_some()).count(), targets);
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
