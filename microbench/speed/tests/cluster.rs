//! The benchmark on the model of the paper's cluster, in short: all targets are met, and a second run
//! gives the same numbers.

#[allow(dead_code, reason = "the benchmark's own entry")]
#[path = "../benches/cluster/main.rs"]
mod cluster;

use std::process::ExitCode;

use clap::Parser;
use cluster::Args;

fn run() -> (String, ExitCode) {
    cluster::run(&Args::parse_from(["cluster", "--quick", "--check"])).unwrap()
}

#[test]
fn the_targets_are_met_by_numbers_that_repeat() {
    let (text, status) = run();
    assert_eq!(status, ExitCode::SUCCESS, "{text}");
    assert_eq!((text.matches("met").count(), text.matches("MISSED").count()), (5, 0), "{text}");
    // A claim that takes a READ's turn gains less.
    let ratio = |line: usize| -> f64 {
        text.lines().nth(line).unwrap().split_whitespace().next().unwrap().parse().unwrap()
    };
    assert!(ratio(3) > ratio(1) * 1.05, "{text}");
    assert_eq!(run().0, text);
}
