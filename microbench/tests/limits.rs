//! Tests of `limits`: its windows and its waits.

use core::time::Duration;

use crate::common::{rows, run};

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
