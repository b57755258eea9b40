//! `probeline tune` and `--tuning`, from the command line.

mod common;

use std::fs;

use common::{Scratch, read_rows, run};
use serde_json::Value;

/// A table of a megabyte, in virtual time.
const SIM: [&str; 5] = ["tune", "--transport", "sim", "--table-size", "4MiB"];

fn number(row: &std::collections::HashMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap()
}

#[test]
fn expects_what_it_then_measures_in_virtual_time() {
    let scratch = Scratch::new();
    let (out, csv) = (scratch.path("tuning.toml"), scratch.path("rows.csv"));
    for (goal, load_factor) in [("throughput", "0.5"), ("latency", "0.9")] {
        let options = ["--goal", goal, "--load-factor", load_factor, "--rounds", "3"];
        let files = ["--out", &out, "--csv", &csv];
        run(&[&SIM[..], &options, &files].concat()).printed();
        let rows = read_rows(&csv);
        for name in ["recommended", "paper"] {
            let row = rows.iter().find(|row| row["candidate"] == name).unwrap();
            let off = number(row, "times_expected");
            assert!((0.85..1.18).contains(&off), "{goal}, {load_factor}, {name}: {off}");
        }
        assert!(fs::read_to_string(&out).unwrap().contains("version = 1"));
    }
}

#[test]
fn virtual_time_repeats_itself() {
    let scratch = Scratch::new();
    let files = ["one.toml", "other.toml"].map(|name| scratch.path(name));
    let texts = files.map(|out| {
        run(&[&SIM[..], &["--rounds", "1", "--seed", "7", "--out", &out]].concat()).printed();
        fs::read_to_string(out).unwrap()
    });
    assert_eq!(texts[0], texts[1]);
}

#[test]
fn a_sweep_over_shared_memory_says_how_far_it_is_from_the_best() {
    let scratch = Scratch::new();
    let (out, profile) = (scratch.path("tuning.toml"), scratch.path("shm.toml"));
    let few = ["tune", "--table-size", "8MiB", "--rounds", "1", "--ops", "200"];
    let more = ["--seconds-per-measurement", "0.001", "--sweep", "--out", &out];
    let printed = run(&[&few[..], &more, &["--profile-out", &profile]].concat()).printed();
    assert!(printed.contains("Sweep: of all 4 candidates"), "{printed}");
    assert!(profile::Profile::load(profile.as_ref()).unwrap().get("local.atomic_ns").is_some());
}

fn parameters(arguments: &[&str]) -> Value {
    let scratch = Scratch::new();
    let json = scratch.path("rows.json");
    run(&[arguments, &["--json", &json]].concat()).printed();
    let report: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    report["parameters"].clone()
}

fn tuning(scratch: &Scratch, in_flight: u32) -> String {
    let tuning = tuning::Tuning {
        chunk_buckets: 64,
        max_chunks: 77,
        read_ahead: table::ReadAhead::Always,
        first_claim: table::FirstClaim::On,
        direct: false,
        in_flight,
        cache_entries: 16,
        ..tuning::Tuning::default()
    };
    scratch.file("tuning.toml", &tuning.to_toml())
}

#[test]
fn other_commands_run_with_what_the_file_says() {
    let scratch = Scratch::new();
    let file = tuning(&scratch, 5);
    let sim = ["--transport", "sim", "--table-size", "64KiB", "--tuning", &file];
    let throughput = ["bench-throughput", "--workload", "mixed", "--ops", "200", "--repeat", "1"];
    let with = parameters(&[&throughput[..], &sim].concat());
    assert_eq!(with["chunk_buckets"], 64);
    assert_eq!(with["max_chunks"], 77);
    assert_eq!(with["read_ahead"], "always");
    assert_eq!(with["one_roundtrip"], "on");
    assert_eq!(with["direct"], "false");
    assert_eq!(with["in_flight"], "5");
    assert_eq!(with["cache_entries"], "16");
    assert_eq!(with["batch"], 1024);
    assert_eq!(with["tuning"], file.as_str());
    assert_eq!(with["given_besides_tuning"], Value::Null);

    let given = parameters(&[&throughput[..], &sim, &["-C", "8", "--in-flight", "9"]].concat());
    assert_eq!((&given["chunk_buckets"], &given["in_flight"]), (&8.into(), &"9".into()));
    assert_eq!(given["max_chunks"], 77);
    assert_eq!(given["given_besides_tuning"], "chunk_buckets, in_flight");

    let explored = parameters(&[&["explore", "kanban:1"][..], &sim].concat());
    assert_eq!((&explored["chunk_buckets"], &explored["in_flight"]), (&64.into(), &"5".into()));

    let latency = ["bench-latency", "--load-factors", "0.5", "--ops", "10", "--rounds", "1"];
    let latency = parameters(&[&latency[..], &sim].concat());
    assert_eq!((&latency["max_chunks"], &latency["read_ahead"]), (&77.into(), &"always".into()));
}

#[test]
fn one_operation_at_a_time_is_blocking_calls() {
    let scratch = Scratch::new();
    let file = tuning(&scratch, 1);
    let with = parameters(&[
        "bench-throughput",
        "--workload",
        "mixed",
        "--ops",
        "100",
        "--repeat",
        "1",
        "--transport",
        "sim",
        "--table-size",
        "64KiB",
        "--tuning",
        &file,
    ]);
    assert_eq!((&with["in_flight"], &with["batch"]), (&"2".into(), &1.into()));
}

#[test]
fn what_has_no_meaning_is_refused() {
    let scratch = Scratch::new();
    let file = tuning(&scratch, 5);
    let broken = scratch.file("broken.toml", "version = 1\nC = 3\n");
    let absent = scratch.path("absent.toml");
    let cases = [
        (&["limits", "--tuning", &file][..], "limits measures what none is given"),
        (&["tune", "--tuning", &file], "leave it out"),
        (&["bench-throughput", "--paper", "--tuning", &file], "leave out one of the two"),
        (&["bench-throughput", "--tuning", &broken], "broken.toml, line 2: no tuning has the key"),
        (&["explore", "kanban:1", "--tuning", &absent], "absent.toml cannot be read"),
        (&["tune", "--goal", "latency", "--max-latency-us", "3"], "is for --goal throughput"),
        (&["tune", "--transport", "sim", "--direct", "on"], "--direct on is for shm"),
        (&["tune", "--table-size", "64KiB"], "too few to be tuned for"),
    ];
    for (arguments, expected) in cases {
        let said = run(arguments).failed_in_one_line();
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    assert!(run(&["topology", "--tuning", &file]).failed().contains("--tuning"));
}
