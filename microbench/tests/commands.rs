//! Runs every command briefly on both transports, and checks its output.

use crate::common::reported::{command, number, rise, rows_over};
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
fn explore_reports() {
    let rows = command("explore", &["philosophers:5", "--table-size", "64KiB"], 1);
    for row in rows {
        assert_eq!((number(&row, "states"), number(&row, "arcs")), (243.0, 945.0));
        assert!(number(&row, "seconds") > 0.0 && number(&row, "states_per_s") > 0.0, "{row}");
        assert!((1.0..=2.0).contains(&number(&row, "imbalance")), "{row}");
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
