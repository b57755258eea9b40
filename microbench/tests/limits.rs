//! Tests of `limits`: its windows and its waits. Also tests `bench-throughput` with its limit.

use core::time::Duration;

use crate::common::{number_in, rows, run};

/// Options of the shortest run with a transport.
const MOMENT: [&str; 4] = ["--rounds", "1", "--seconds-per-measurement", "0.001"];

/// Runs take longer than a rank waits for another in a collective call, but ranks meet between
/// measurements. READ, WRITE, CAS and FAA of rank 0 together take longer than that. A busy machine may
/// delay them by as much again.
#[test]
fn measurements_outlast_collective_timeout() {
    for (run_of, took_s) in [
        ("limits --collective-timeout 2 --seconds-per-measurement 0.1 --in-flight 4", 4),
        (
            "bench-latency --collective-timeout 5 --seconds-per-measurement 0.25 --ops 100000000 \
             -C 8 --load-factor 0.5",
            5,
        ),
    ] {
        let small = ["--transport", "shm", "--rounds", "1", "--table-size", "64KiB"];
        let ended = run(&run_of.split_whitespace().chain(small).collect::<Vec<_>>());
        assert!(ended.took > Duration::from_secs(took_s), "{:?}", ended.took);
        ended.printed();
    }
}

/// By default windows are large, except in the simulator.
#[test]
fn windows_have_requested_size() {
    let part = |options: &[&str]| {
        let options = [&["limits"], options, &MOMENT];
        let (_, said) = rows(&[&options.concat()[..], &["--in-flight", "1"]].concat());
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

/// With one operation at a time, an insert takes a READ and then a CAS. The limit has as many of
/// them in flight as the engine permits.
#[test]
fn compares_throughput_with_transport_limit() {
    let options = ["bench-throughput", "--transport", "sim", "--ranks", "1", "--ops", "2000"];
    let more = ["--workload", "uniform", "--rounds", "1", "--sim-roundtrip-ns", "20000"];
    let paper = ["--paper", "--in-flight", "4"];
    let (rows, said) = rows(&[&options[..], &more, &paper].concat());
    // A roundtrip to the rank's own window takes a tenth.
    let one_at_a_time = 1e9 / (2.0 * 2000.0);
    let times = number_in(&rows[0], "limit_ops_per_s") / one_at_a_time;
    assert!((1.0..=16.0).contains(&times), "{times}");
    let share = number_in(&rows[0], "limit_share");
    assert!(share > 0.5 / times && share < 1.5 / times, "{share}, {times}");
    assert!(said.contains("of limit: by READs of C buckets"), "{said}");
}

#[test]
fn notes_table_too_small() {
    let options = ["bench-throughput", "--transport", "shm", "--ops", "100", "--rounds", "1"];
    let more = ["--workload", "read-intensive", "--table-size", "64KiB"];
    let (rows, said) = rows(&[&options[..], &more].concat());
    assert_eq!((&*rows[0]["limit_share"], &*rows[0]["limit_ops_per_s"]), ("", ""));
    assert!(said.contains("too small to measure the limit of its memory"), "{said}");
}
