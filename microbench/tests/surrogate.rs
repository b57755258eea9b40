//! `surrogate`: results are the same for any number of ranks; a cache changes them by rounding only.

use crate::common::refuses;
use crate::common::reported::{command, number, reported};
use serde_json::Value;

const SMALL: [&str; 8] =
    ["--columns", "12", "--rows", "6", "--steps", "20", "--table-size", "1MiB"];

fn rows(options: &[&str]) -> Vec<Value> {
    let line = [&["surrogate"][..], &SMALL, options].concat();
    reported(&line).json["rows"].as_array().unwrap().clone()
}

/// The results of the chemistry are a function of the rounded inputs, so runs with a cache have the same
/// cells for any number of ranks too.
#[test]
fn results_ignore_rank_count() {
    let digests = |ranks: &str, transport: &str| {
        let rows = rows(&["--ranks", ranks, "--transport", transport, "--digits", "3"]);
        if ranks == "1" {
            check_gain(&rows);
        }
        rows.iter().map(|row| row["digest"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let one = digests("1", "shm");
    assert_eq!(one.len(), 2);
    assert_ne!(one[0], one[1]);
    for (ranks, transport) in [("2", "shm"), ("5", "shm"), ("3", "sim")] {
        assert_eq!(digests(ranks, transport), one, "{ranks} {transport}");
    }
}

/// Without further work, a result is as cheap as a lookup. The gain of the paper's chemistry follows
/// from the hits, and stands beside the measured one.
fn check_gain(rows: &[Value]) {
    let [without, with] = rows else { panic!("{rows:?}") };
    let at_206_us = |row| number(row, "seconds") + number(row, "computed") * 206e-6;
    for row in rows {
        assert!((number(row, "seconds_at_206_us") / at_206_us(row) - 1.0).abs() < 1e-9, "{row}");
    }
    let gain = at_206_us(without) / at_206_us(with);
    assert!((number(with, "times_faster_at_206_us") / gain - 1.0).abs() < 1e-9, "{with}");
    assert!(without["times_faster_at_206_us"].is_null(), "{without}");
}

#[test]
fn cache_errs_only_by_rounding() {
    let rows = command("surrogate", &[&SMALL[..], &["--digits", "2,4,8"]].concat(), 4);
    rows.chunks(4).for_each(check_errors);
}

fn check_errors(rows: &[Value]) {
    let [without, coarse, middle, fine] = rows else { panic!("{rows:?}") };
    let results = 12.0 * 6.0 * 20.0;
    assert_eq!((number(without, "results"), number(without, "computed")), (results, results));
    assert!(without["digits"].is_null() && without["rms_error"].is_null(), "{without}");
    for (row, limit) in [(coarse, 0.3), (middle, 3e-3), (fine, 3e-7)] {
        let (rms, max) = (number(row, "rms_error"), number(row, "max_error"));
        assert!(rms > 0.0 && rms < limit && max >= rms, "{row}");
        assert!(number(row, "charge") < 1e-15, "{row}");
        // Rounded results create and destroy nothing.
        assert!(number(row, "drift") < 1e-12, "{row}");
        let share = 1.0 - number(row, "computed") / results;
        assert!((number(row, "hit_share") - share).abs() < 1e-12 && share > 0.1, "{row}");
        assert!(number(row, "hits") <= results - number(row, "computed"), "{row}");
    }
    assert!(number(coarse, "rms_error") > number(middle, "rms_error"));
    assert!(number(middle, "rms_error") > number(fine, "rms_error"));
}

/// A rank that computes spends the time of an expensive chemistry.
#[test]
fn extra_work_takes_time() {
    let rows = rows(&["--transport", "shm", "--work-us", "206", "--digits", "3"]);
    let [without, with] = rows.as_slice() else { panic!("{rows:?}") };
    // Two ranks share the work.
    let least = 12.0 * 6.0 * 20.0 * 206e-6 / 2.0;
    assert!(number(without, "seconds") >= least, "{without}");
    assert!(number(with, "compute_ns") >= 206e3, "{with}");
    assert!(with["times_faster_at_206_us"].is_null(), "{with}");
}

/// On the paper's cluster, with its 206 us for each result and its hit rate of 91.8 %, the paper's cache
/// saves 42 % of the time at 128 ranks.
#[test]
fn cache_pays_at_any_scale() {
    let grid = ["--columns", "24", "--rows", "128", "--steps", "18", "--digits", "3"];
    // A result takes 206 us on the simulator unless another time is given.
    let cluster = ["--transport", "sim", "--sim-profile", "pik-ndr"];
    for (ranks, each) in [("2", "1"), ("16", "8"), ("128", "64")] {
        let ranks = ["--ranks", ranks, "--sim-ranks-per-machine", each];
        let report = reported(&[&["surrogate"][..], &grid, &cluster, &ranks].concat());
        let row = &report.json["rows"][1];
        let (hits, saved) = (number(row, "hit_share"), 1.0 - 1.0 / number(row, "times_faster"));
        assert!(saved >= 0.42 && number(row, "compute_ns") == 206e3, "{row}");
        assert!(hits < if ranks[1] == "128" { 0.92 } else { 1.0 }, "{row}");
    }
}

#[test]
fn refuses_invalid_sizes() {
    let lines = [
        ("surrogate --rows 2 --ranks 3", "--rows 2 are too few for 3 ranks"),
        ("surrogate --ranks 2 --table-size 128B", "too small"),
        ("surrogate --digits 3,4,3", "--digits has a number twice"),
        ("surrogate --columns 65536 --rows 65536", "the cells take 1.5TiB"),
        ("surrogate --tuning nosuch.toml", "surrogate uses none"),
    ];
    refuses(2, &lines);
}
