//! `bench-latency`: distributions, floors and prices that virtual time makes exact.

mod common;

use common::reported::{command, number, reported, rise};
use serde_json::Value;

/// Ten READs, ten WRITEs, a CAS and two FAAs.
const RAW_ROWS: usize = 23;

#[test]
fn bench_latency_reports() {
    let options = ["--ops", "1000", "--table-size", "256KiB", "-C", "8,64", "--paper"];
    let options = [&options[..], &["--load-factors", "0.1,0.5,0.9"]].concat();
    // Two floors for each C; inserted and found for each C and load factor.
    let rows = command("bench-latency", &options, RAW_ROWS + 2 * 2 + 2 * 2 * 3);
    for row in &rows {
        assert!(number(row, "operations") > 0.0, "{row}");
        assert!(number(row, "mean_ns") > 0.0 && number(row, "max_ns") > 0.0, "{row}");
        rise(row, &["min_ns", "p50_ns", "p90_ns", "p99_ns", "p99_9_ns", "max_ns"]);
        check_histogram(row);
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

/// Pairs of a latency and a count, rising; about half of the operations, from the least to the
/// true maximum.
#[track_caller]
fn check_histogram(row: &Value) {
    let pairs = row["histogram"].as_array().unwrap();
    let number = |pair: &Value, at: usize| pair[at].as_u64().unwrap();
    assert!(pairs.iter().all(|pair| pair.as_array().unwrap().len() == 2 && number(pair, 1) > 0));
    assert!(pairs.is_sorted_by(|one, other| number(one, 0) < number(other, 0)), "{row}");
    let timed: u64 = pairs.iter().map(|pair| number(pair, 1)).sum();
    let operations = row["operations"].as_u64().unwrap();
    assert!(timed * 2 <= operations && timed * 4 >= operations, "{timed} of {operations}");
    assert_eq!(number(pairs.last().unwrap(), 0), row["max_ns"].as_u64().unwrap());
}

/// In virtual time every operation has its price, so a distribution that was not filled shows.
#[test]
fn bench_latency_of_few_operations_is_of_all_of_them() {
    let options = ["--transport", "sim", "--sim-roundtrip-ns", "3000", "--ops", "10", "-C", "8"];
    let options = [&options[..], &["--table-size", "64KiB", "--load-factors", "0.5"]].concat();
    let report = reported(&[&["bench-latency"], &options[..]].concat());
    let rows = report.json["rows"].as_array().unwrap();
    let raw = rows.iter().filter(|row| row["chunk_buckets"].is_null());
    assert_eq!(raw.clone().count(), RAW_ROWS);
    for row in raw {
        assert_eq!(number(row, "operations"), 10.0);
        for column in ["min_ns", "mean_ns", "p50_ns", "p99_ns", "max_ns"] {
            assert_eq!(number(row, column), 3000.0, "{column} of {row}");
        }
    }
    assert!(!report.printed.contains("cut short"), "{}", report.printed);
}

/// In virtual time nothing but roundtrips costs anything, so that a find-or-put of the paper that
/// takes one chunk costs its floor, whichever owners it goes to.
#[test]
fn in_virtual_time_one_chunk_costs_its_floor() {
    for (ranks, seed) in [("1", "1"), ("2", "1"), ("3", "7")] {
        let options = ["--transport", "sim", "-C", "64", "--load-factors", "0.1,0.3", "--ops", "2"];
        let more = ["--table-size", "192KiB", "--ranks", ranks, "--seed", seed, "--paper"];
        let report = reported(&[&["bench-latency"], &options[..], &more].concat());
        let rows = report.json["rows"].as_array().unwrap();
        let beside: Vec<_> = rows.iter().filter(|row| !row["times_floor"].is_null()).collect();
        assert_eq!(beside.len(), 4);
        for row in beside {
            // A chunk that straddles two owners is two READs, the floor is one.
            let times = number(row, "times_floor");
            assert!((times - 1.0).abs() < 0.01, "{ranks} ranks: {row}");
        }
    }
}

/// The price list is the model's: on the paper's cluster a claim costs more than a READ.
#[test]
fn bench_latency_of_the_papers_cluster_has_its_prices() {
    let options = ["--transport", "sim", "--sim-model", "oortwijn2015", "--ops", "10", "-C", "8"];
    let options = [&options[..], &["--table-size", "64KiB", "--load-factors", "0.5"]].concat();
    let report = reported(&[&["bench-latency"], &options[..]].concat());
    let rows = report.json["rows"].as_array().unwrap();
    for (operation, ns) in [("READ 64 B", 3310 + 95), ("CAS random word", 3745)] {
        let of = |row: &&Value| row["operation"] == operation;
        let row = rows.iter().find(of).unwrap_or_else(|| panic!("{operation} in {rows:?}"));
        assert_eq!(number(row, "p50_ns"), f64::from(ns), "{row}");
    }
    assert!(report.printed.contains("DAS-5"), "{}", report.printed);
}

/// A roundtrip takes 5 ms of virtual time, so that a second is over after 200.
#[test]
fn measurements_end_with_their_time() {
    let options = ["--transport", "sim", "--sim-roundtrip-ns", "5000000", "-C", "8"];
    let more = ["--table-size", "512KiB", "--load-factors", "0.1,0.7"];
    let limit = ["--seconds-per-measurement", "1", "--rounds", "5"];
    let report = reported(&[&["bench-latency"], &options[..], &more, &limit].concat());
    let rows = report.json["rows"].as_array().unwrap();
    let raw = rows.iter().filter(|row| row["chunk_buckets"].is_null());
    for row in raw {
        let operations = number(row, "operations");
        assert!((200.0..=260.0).contains(&operations), "{row}");
    }
    for row in rows.iter().filter(|row| !row["load_factor"].is_null()) {
        // To this rank's own part a roundtrip takes a tenth; an insert takes two or three.
        assert!((90.0..=460.0).contains(&number(row, "operations")), "{row}");
    }
    let said = &report.printed;
    let all = format!("{0} of {0} rows were cut short after 1 s", rows.len());
    assert!(said.contains(&all) && said.contains("--seconds-per-measurement"), "{said}");
}

/// With each of them, the report says so, and what it is for shows.
#[test]
fn means_of_the_table_are_measured_and_named() {
    let ways: [(&[&str], &str, &str); 4] = [
        (&["-C", "16", "--probing", "lines"], "probing", "lines"),
        (&["-C", "8", "--probing", "jump", "--direct", "off"], "probing", "jump"),
        (&["-C", "64", "--adaptive-chunks", "--direct", "off"], "adaptive_chunks", "true"),
        (&["-C", "8", "--cache", "8192", "--direct", "off"], "cache_entries", "8192"),
    ];
    for transport in ["shm", "sim"] {
        for (way, parameter, value) in ways {
            let options = ["bench-latency", "--transport", transport, "--ops", "10"];
            let table = ["--table-size", "256KiB", "--load-factors", "0.3,0.9"];
            let report = reported(&[&options[..], &table, way].concat());
            assert_eq!(report.json["parameters"][parameter], value, "{way:?}");
            let rows = report.json["rows"].as_array().unwrap();
            let beside: Vec<_> = rows.iter().filter(|row| !row["times_floor"].is_null()).collect();
            assert_eq!(beside.len(), 4, "{}", report.printed);
            for row in beside {
                let found = row["operation"] == "found";
                let cached = number(row, "cache_hit_share");
                assert_eq!(cached > 0.1, found && parameter == "cache_entries", "{row}");
                // In virtual time a hit takes none.
                if cached > 0.1 && transport == "sim" {
                    assert!(number(row, "times_floor") < 1.0, "{row}");
                }
            }
        }
    }
}

/// An adaptive C reads a line where that is enough, which is what it stands beside, and more where
/// the table is full.
#[test]
fn an_adaptive_chunk_stands_beside_a_line() {
    let options = ["bench-latency", "--transport", "sim", "--ops", "10", "-C", "128", "--paper"];
    let table = ["--table-size", "512KiB", "--load-factors", "0.1,0.9", "--adaptive-chunks"];
    let model = ["--sim-model", "oortwijn2015"];
    let report = reported(&[&options[..], &table, &model].concat());
    let rows = report.json["rows"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["operation"] == "floor READ 64 B"), "{}", report.printed);
    let of = |operation: &str, load: f64| {
        let mut all = rows.iter();
        let row = all.find(|row| row["operation"] == operation && row["load_factor"] == load);
        row.unwrap_or_else(|| panic!("no {operation} at {load}"))
    };
    for operation in ["inserted", "found"] {
        let times = number(of(operation, 0.1), "times_floor");
        assert!((times - 1.0).abs() < 0.05, "{operation}: {times}");
    }
    // With C = 8 it would be more than five.
    assert!(number(of("inserted", 0.9), "effective_roundtrips") < 3.0, "{}", report.printed);
}
