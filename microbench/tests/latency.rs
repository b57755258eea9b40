//! Tests of `bench-latency`: distributions, floors and times, which are exact in virtual time.

use std::fs;

use crate::common::reported::{COLUMNS, command, number, reported, rise};
use crate::common::{Scratch, run};
use serde_json::Value;

/// Ten READs, ten WRITEs, a CAS and two FAAs.
const RAW_ROWS: usize = 23;

/// All values of C and load factors, with few operations.
const SMALL: [&str; 7] =
    ["bench-latency", "--ops", "500", "--rounds", "1", "--table-size", "256KiB"];

/// Returns the blocks of the output: summary, facts, table by `--full`, and notes.
#[track_caller]
fn blocks<const N: usize>(printed: &str) -> [Vec<&str>; N] {
    let blocks: Vec<Vec<&str>> =
        printed.split("\n\n").map(|block| block.lines().collect()).collect();
    blocks.try_into().unwrap_or_else(|blocks| panic!("{blocks:#?}"))
}

#[test]
fn short_output_fits_terminal() {
    let file =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../transport/sim/profile/profiles/das5-fdr.toml");
    let das5 = ["--transport", "sim", "--sim-profile", file];
    let slow = ["--transport", "sim", "--sim-roundtrip-ns", "123456789"];
    let many = ["--load-factor", "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9", "-C", "8,1024"];
    let some = ["--load-factor", "0.3", "-C", "64", "--adaptive-chunks"];
    for more in [&[][..], &["--paper"], &das5, &slow, &many, &some] {
        let report = reported(&[&SMALL, more].concat());
        let [summary, facts, notes] = blocks(&report.printed);
        assert!((5..=12).contains(&summary.len()), "{}", report.printed);
        let places = ["C 8    load 0.5", "C 8    load 0.9", "C 32   load 0.5", "C 32   load 0.9"];
        for place in places.iter().filter(|_| more.is_empty()) {
            assert_eq!(report.printed.matches(place).count(), 2, "{place}: {}", report.printed);
        }
        assert!(facts.len() <= 3, "{}", report.printed);
        assert!(report.printed.lines().count() <= 25, "{}", report.printed);
        for line in report.printed.lines() {
            assert!(line.chars().count() <= COLUMNS, "{line}");
        }
        assert!(notes.iter().all(|note| note.contains(": ")), "{notes:#?}");
        for column in ["p90", "p99.9", "min", "max", "eff", "out", "cached"] {
            let explains = |note: &&str| {
                note.split(": ").next().unwrap().split(", ").any(|label| label == column)
            };
            assert!(!notes.iter().any(explains), "{column} is not printed: {notes:#?}");
        }
    }
}

/// `--full` prints every row, every column and every fact of the machine.
#[test]
fn full_prints_everything() {
    let scratch = Scratch::new();
    let json = scratch.path("report.json");
    let files = ["--full", "--json", &json];
    let printed = run(&[&SMALL[..], &files].concat()).printed();
    let json: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), RAW_ROWS + 5 * (2 + 2 * 6));
    let [summary, facts, table, notes] = blocks(&printed);
    assert_eq!(summary.len(), 12);
    assert!(facts.iter().any(|line| line.contains("last-level cache ")), "{facts:#?}");
    assert_eq!(table.len(), 1 + rows.len());
    for (row, line) in rows.iter().zip(&table[1..]) {
        assert!(line.trim_start().starts_with(row["operation"].as_str().unwrap()), "{line}");
    }
    assert!(notes.iter().any(|note| note.starts_with("eff: ")), "{notes:#?}");
}

#[test]
fn bench_latency_reports() {
    let options = ["--ops", "1000", "--table-size", "256KiB", "-C", "8,64", "--paper"];
    let options = [&options[..], &["--load-factor", "0.1,0.5,0.9"]].concat();
    // Two floors for each C; inserts and finds for each C and load factor.
    let rows = command("bench-latency", &options, RAW_ROWS + 2 * 2 + 2 * 2 * 3);
    for row in &rows {
        assert!(number(row, "operations") > 0.0, "{row}");
        assert!(number(row, "mean_ns") > 0.0 && number(row, "max_ns") > 0.0, "{row}");
        rise(row, &["min_ns", "p50_ns", "p90_ns", "p99_ns", "p99_9_ns", "max_ns"]);
        assert_eq!(row["load_factor"].is_null(), row["times_floor"].is_null());
        if !row["load_factor"].is_null() {
            assert!(number(row, "effective_roundtrips") >= 1.0, "{row}");
            assert!(number(row, "floor_ns") > 0.0 && number(row, "times_floor") > 0.0, "{row}");
            rise(row, &["effective_roundtrips", "outgoing_roundtrips"]);
        }
    }
    let names: Vec<&str> = rows.iter().map(|row| row["operation"].as_str().unwrap()).collect();
    for bytes in (3..=12).map(|power| 1 << power) {
        for operation in ["READ", "WRITE"] {
            assert!(names.contains(&&*format!("{operation} {bytes} B")), "{operation} {bytes}");
        }
    }
}

/// In virtual time only roundtrips take time. A find-or-put of the paper's algorithm that needs one
/// chunk takes the time of its floor, for any owners.
#[test]
fn one_chunk_costs_its_floor() {
    for (ranks, seed) in [("1", "1"), ("2", "1"), ("3", "7")] {
        let options = ["--transport", "sim", "-C", "64", "--load-factor", "0.1,0.3", "--ops", "2"];
        let more = ["--table-size", "192KiB", "--ranks", ranks, "--seed", seed, "--paper"];
        let report = reported(&[&["bench-latency"], &options[..], &more].concat());
        let rows = report.json["rows"].as_array().unwrap();
        let beside: Vec<_> = rows.iter().filter(|row| !row["times_floor"].is_null()).collect();
        assert_eq!(beside.len(), 4);
        for row in beside {
            // A chunk of two owners needs two READs; the floor has one.
            let times = number(row, "times_floor");
            assert!((times - 1.0).abs() < 0.01, "{ranks} ranks: {row}");
        }
    }
}

/// In virtual time a hit of the cache takes no time.
#[test]
fn cached_finds_beat_floor() {
    let options = ["bench-latency", "--transport", "sim", "--ops", "10", "-C", "8"];
    let more = ["--cache", "8192", "--table-size", "256KiB", "--load-factor", "0.3,0.9"];
    let report = reported(&[&options[..], &more].concat());
    let rows = report.json["rows"].as_array().unwrap();
    let beside: Vec<_> = rows.iter().filter(|row| !row["times_floor"].is_null()).collect();
    assert_eq!(beside.len(), 4, "{}", report.printed);
    for row in beside {
        let cached = number(row, "cache_hit_share");
        assert_eq!(cached > 0.1, row["operation"] == "found", "{row}");
        assert!(cached <= 0.1 || number(row, "times_floor") < 1.0, "{row}");
    }
}
