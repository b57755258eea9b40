//! Runs commands briefly on both transports, and checks their output.

use core::time::Duration;

use probeline_profile::paper;
use serde_json::Value;

use crate::common::reported::{command, number, reported, rise, rows_over};
use crate::common::run;

#[test]
fn bench_throughput_reports_all_workloads() {
    let workloads = ["mixed", "read-intensive", "write-intensive", "uniform", "zipf"];
    // The expected shares of finds of the workloads, and their tolerances.
    let shares = [(0.50, 0.03), (0.80, 0.03), (0.19, 0.03), (0.0, 0.001), (0.68, 0.05)];
    let options = ["--ops", "5000", "--table-size", "1MiB", "--rounds", "3", "--ranks", "3"];
    let list = workloads.join(",");
    let rows = command("bench-throughput", &[&options[..], &["--workload", &list]].concat(), 5);
    for (row, (workload, (share, off))) in rows.iter().zip(workloads.iter().zip(shares).cycle()) {
        assert_eq!(row["workload"], **workload);
        assert_eq!((number(row, "ranks"), number(row, "operations")), (3.0, 15_000.0));
        let (found, inserted) = (number(row, "found_share"), number(row, "inserted_share"));
        assert!((found - share).abs() <= off, "{row}");
        assert!((found + inserted - 1.0).abs() < 1e-9 && number(row, "full") == 0.0, "{row}");
        assert!(number(row, "min_ops_per_s") > 0.0 && number(row, "mean_latency_ns") > 0.0);
        rise(row, &["min_ops_per_s", "median_ops_per_s", "max_ops_per_s"]);
    }
}

/// READs of 10 sizes and 4 atomics at 3 depths; over shm a limit of memory.
#[test]
fn limits_reports() {
    let options = ["--table-size", "1MiB", "--seconds-per-measurement", "0.001"];
    let more = ["--rounds", "3", "--in-flight", "4"];
    let options = [&options[..], &more].concat();
    let over = |transport, memory: usize| {
        rows_over("limits", &options, &["--transport", transport], memory + (10 + 4) * 3)
    };
    for row in [over("shm", 1), over("sim", 0)].concat() {
        assert!(number(&row, "min_ops_per_s") > 0.0 && number(&row, "mean_ns") > 0.0, "{row}");
        rise(&row, &["min_ops_per_s", "median_ops_per_s", "max_ops_per_s"]);
        assert_eq!(row["in_flight"].is_null(), row["limit"] == "random reads", "{row}");
    }
}

#[test]
fn roundtrips_reports() {
    let rows = command("roundtrips", &["--table-size", "128KiB", "-C", "16,128"], 2 * 46);
    for row in rows {
        assert!(number(&row, "inserts") > 0.0 && number(&row, "load_factor") < 0.93, "{row}");
        rise(&row, &["effective_roundtrips", "outgoing_roundtrips"]);
    }
}

#[test]
fn topology_reports() {
    let rows = command("topology", &["--ranks", "3"], 3);
    for (rank, row) in rows.iter().enumerate() {
        assert_eq!(row["rank"], rank);
    }
}

#[test]
fn trace_depends_on_seed() {
    let trace = |seed| {
        let options = ["--transport", "sim", "--ops", "500", "--table-size", "64KiB"];
        let printed =
            run(&[&["bench-throughput", "--seed", seed], &options[..]].concat()).printed();
        let (_, trace) = printed.split_once("trace ").unwrap_or_else(|| panic!("{printed}"));
        trace.lines().next().unwrap().to_owned()
    };
    assert_eq!(trace("1"), trace("1"));
    assert_ne!(trace("1"), trace("2"));
}

/// Runs take longer than a rank waits for another in a collective call, but ranks meet between
/// measurements. READ, WRITE, CAS and FAA of rank 0 together take longer than that. A busy machine may
/// delay them by as much again.
#[test]
fn measurements_outlast_collective_timeout() {
    for (run_of, took_s, note) in [
        ("limits --collective-timeout 2 --seconds-per-measurement 0.1 --in-flight 4", 4, ""),
        (
            "bench-latency --collective-timeout 5 --seconds-per-measurement 0.25 --ops 100000000 \
             -C 8 --load-factor 0.5",
            5,
            " rows stopped after 0.25 s (--seconds-per-measurement), one after ",
        ),
    ] {
        let small = ["--transport", "shm", "--rounds", "1", "--table-size", "64KiB"];
        let ended = run(&run_of.split_whitespace().chain(small).collect::<Vec<_>>());
        assert!(ended.took > Duration::from_secs(took_s), "{:?}", ended.took);
        assert!(ended.printed().contains(note));
    }
}

/// By default windows are large, except in the simulator.
#[test]
fn windows_have_requested_size() {
    let part = |options: &[&str]| {
        let moment = ["--rounds", "1", "--seconds-per-measurement", "0.001", "--in-flight", "1"];
        let said = run(&[&["limits"], options, &moment].concat()).printed();
        let (_, part) = said.split_once("by rank 0, on the ").unwrap_or_else(|| panic!("{said}"));
        part.split_once(" of owner 1").unwrap().0.to_owned()
    };
    assert_eq!(part(&["--transport", "shm", "--table-size", "64MiB"]), "32MiB");
    assert_eq!(part(&["--transport", "sim"]), "16MiB");
    // Or less, if a quarter of the available memory is less.
    let size = part(&["--transport", "shm"]);
    let mib: f64 = size.strip_suffix("MiB").map_or(0.0, |mib| mib.parse().unwrap());
    assert!((32.0..=256.0).contains(&mib), "{size}");
}

/// The table is 64 times smaller than the authors', which only increases the noise. M is that of
/// their program, since their files are consistent with no other.
#[test]
fn roundtrips_match_paper() {
    let run = "roundtrips --ranks 2 --transport shm -M 64 --table-size 32MiB -C 8,16,32,64,128";
    let json = reported(&run.split(' ').collect::<Vec<_>>()).json;
    let measured = json["rows"].as_array().unwrap();
    let published = paper::latencies();
    assert_eq!((published.len(), measured.len()), (230, 230));
    for theirs in published {
        let is_there = |ours: &&Value| {
            let off = number(ours, "load_factor") - theirs.load_factor();
            ours["chunk_buckets"] == theirs.chunk_buckets && off.abs() < 1e-3
        };
        let ours = measured.iter().find(is_there).unwrap();
        for (column, theirs) in [
            ("outgoing_roundtrips", theirs.outgoing_roundtrips),
            ("effective_roundtrips", theirs.effective_roundtrips),
        ] {
            let off = number(ours, column) / theirs - 1.0;
            // The minimum is one roundtrip, of which this is 0.02.
            assert!(off.abs() <= 0.02, "{column}: {off} in {ours:?}");
        }
    }
}
