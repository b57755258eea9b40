//! `bench-map`: its counters, and the order of the modes on a simulated cluster.

use crate::common::reported::{command, number, reported, rise};
use serde_json::Value;

const MODES: [&str; 4] = ["claims", "part-locks", "bucket-locks", "unlocked"];

/// Hits and misses are the gets; inserts, updates, evictions and drops are the puts.
#[test]
fn bench_map_counts_every_operation() {
    let options = ["--ops", "400", "--rounds", "3", "--table-size", "1MiB", "--ranks", "3"];
    let more = ["--load-factor", "0.2,0.95", "--batch", "64", "--in-flight", "4"];
    let posted = ["--direct", "off"];
    let rows = command("bench-map", &[&options[..], &more, &posted].concat(), 4 * 2 * 7);
    for row in &rows {
        let of = |name| number(row, name);
        let (gets, operations) = (of("hits") + of("misses"), of("operations"));
        let puts = of("inserts") + of("updates") + of("evictions") + of("drops");
        assert_eq!(gets + puts, operations, "{row}");
        let share = match row["workload"].as_str().unwrap() {
            "read" => 1.0,
            "mixed" => 0.95,
            _ => 0.0,
        };
        assert!((gets / operations - share).abs() < 0.02, "{row}");
        assert!(row["workload"] == "fill" || operations == 1200.0, "{row}");
        // A map that is almost full evicts the oldest keys, which are those that zipf draws most.
        let least = match (of("load_factor") < 0.5, row["keys"] == "zipf") {
            (true, _) => 0.99,
            (false, false) => 0.8,
            (false, true) => 0.5,
        };
        assert!(gets == 0.0 || of("hit_share") >= least, "{row}");
        assert!(of("load_factor") > 0.5 || of("evictions") <= 3.0, "{row}");
        // A put of a key that was lost evicts another, so that later gets miss some.
        if of("load_factor") > 0.5 && row["keys"] == "uniform" && row["workload"] != "fill" {
            assert!(puts < 100.0 || of("evictions") > 0.0, "{row}");
            assert!(gets == 0.0 || of("hit_share") < 1.0, "{row}");
        }
        assert!(row["held_lock"].is_null() && of("bucket_reads_per_operation") >= 1.0, "{row}");
        rise(row, &["min_ops_per_s", "median_ops_per_s", "max_ops_per_s"]);
    }
}

/// Where the CPU runs requests, the table says so, and has the same mode posted beside it.
#[test]
fn measures_all_modes_posted() {
    let options = ["bench-map", "--ops", "100", "--rounds", "1", "--table-size", "1MiB"];
    let more =
        ["--workload", "read", "--key-distribution", "uniform", "--transport", "shm", "--full"];
    let report = reported(&[&options[..], &more].concat());
    assert!(report.printed.contains("compare modes posted"), "{}", report.printed);
    let text = |row: &Value, name| row[name].as_str().unwrap().to_owned();
    let rows = report.json["rows"].as_array().unwrap();
    let paths: Vec<_> = rows.iter().map(|row| [text(row, "mode"), text(row, "path")]).collect();
    assert_eq!(paths[0], ["claims", "direct"]);
    assert_eq!(paths[1..], MODES.map(|mode| [mode.to_owned(), "posted".to_owned()]));
}

/// The paper's order of the modes under contention, on a small copy of its cluster.
#[test]
fn modes_keep_paper_order() {
    let cluster =
        ["--transport", "sim", "--sim-profile", "pik-ndr", "--sim-ranks-per-machine", "12"];
    let map = ["--ranks", "24", "--table-size", "16MiB", "--load-factor", "0.09", "--batch", "1"];
    let more = ["--ops", "200", "--rounds", "1"];
    let report = reported(&[&["bench-map"][..], &cluster, &map, &more].concat());
    let rows = report.json["rows"].as_array().unwrap();
    let row = |mode: &str, workload: &str, keys: &str| -> &Value {
        let is = |row: &&Value| {
            row["mode"] == mode && row["workload"] == workload && row["keys"] == keys
        };
        rows.iter().find(is).unwrap()
    };
    let rate = |mode, workload, keys| number(row(mode, workload, keys), "median_ops_per_s");
    for (workload, order) in [
        ("fill", ["unlocked", "bucket-locks", "part-locks"]),
        ("read", ["unlocked", "part-locks", "bucket-locks"]),
    ] {
        let rates = order.map(|mode| rate(mode, workload, "uniform"));
        assert!(rates.is_sorted_by(|faster, slower| faster > slower), "{workload}: {rates:?}");
    }
    // Locks of a few keys are what slows Zipf-distributed puts down.
    let loss = |mode| rate(mode, "write", "zipf") / rate(mode, "write", "uniform");
    let losses = MODES.map(loss);
    println!("puts of Zipf-distributed keys, of uniform ones: {losses:.2?}");
    assert!(losses[3] > 0.97 && losses[1] < 0.7 && losses[2] < 0.7, "{losses:?}");
    let mixed = rate("unlocked", "mixed", "uniform") / rate("unlocked", "read", "uniform");
    println!("gets beside 5 % puts, of gets alone: {mixed:.3}");
    assert!((0.97..1.03).contains(&mixed), "{mixed}");
    for mode in MODES {
        for workload in ["fill", "read", "write", "mixed"] {
            let failed = number(row(mode, workload, "uniform"), "failed_checks");
            assert!(failed == 0.0 || workload == "write", "{mode}, {workload}: {failed}");
        }
    }
}
