//! The benchmark with a tiny table: it runs to its end and writes all rates.

#[allow(dead_code, reason = "the benchmark's own entry")]
#[path = "../benches/speed/main.rs"]
mod speed;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use serde_json::Value;
use speed::Args;

/// Runs it with a table of 1 MiB; returns its JSON, its text and its status.
fn run(name: &str, options: &[&str]) -> (Value, String, ExitCode) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let small = ["speed", "--table-size", "1MiB", "--seconds", "0.001", "--rounds", "2"];
    let json = ["--json", path.to_str().unwrap()];
    let all = small.iter().chain(options).chain(&json);
    let (text, ended) = speed::run(&Args::try_parse_from(all).unwrap()).unwrap();
    let json = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    (json, text, ended)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().unwrap_or_else(|| panic!("no list {name}: {value}"))
}

/// Every rate is there, each with as many rounds as asked for, and none is zero.
#[test]
fn everything_is_measured() {
    let (json, text, ended) = run("all.json", &[]);
    assert_eq!(ended, ExitCode::SUCCESS);
    assert_eq!(json["command"], "bench-speed");
    assert_eq!(json["table_bytes"], 1 << 20);
    let rates = list(&json, "rates");
    for rate in rates.iter().chain(list(&json, "limits")) {
        let rounds = list(rate, "ops_per_s");
        assert_eq!(rounds.len(), 2, "{rate}");
        assert!(rounds.iter().all(|round| round.as_f64().unwrap() > 0.0), "{rate}");
    }
    let of = |system: &str| rates.iter().filter(|rate| rate["system"] == system).count();
    // Two load factors, two numbers of ranks, five forms; beside each of five sets two more.
    assert_eq!(["linear", "lines", "jump"].map(of), [20 + 2 * 2 * 2 * 5, 20, 20]);
    // Finds and inserts at two load factors, by one thread and by two where it is shared.
    let peers = ["hashbrown", "dashmap", "papaya", "scc HashSet", "scc HashIndex"];
    assert_eq!(peers.map(of), [4, 8, 8, 8, 8]);
    assert_eq!(list(&json, "limits").len(), 3 * 2 * 2 * 3);
    assert_eq!(list(&json, "peers").len(), 5 * 2);
    let figures = list(&json, "figures");
    assert_eq!(figures.len(), 15 * 2);
    for figure in figures {
        assert!(text.contains(figure["name"].as_str().unwrap()), "{figure}");
        let ratios = list(figure, "ratios");
        assert_eq!(ratios.len(), 3, "{figure}");
        let is_positive = |ratio: &Value| ratio.as_f64().is_some_and(|ratio| ratio > 0.0);
        assert!(ratios.iter().all(is_positive), "{figure}");
    }
    assert_eq!(figures.iter().filter(|figure| !figure["met"].is_null()).count(), 22);
}

/// Ratios that were not measured have no target; the status shows a missed one.
#[test]
fn the_table_alone_is_checked() {
    let (json, _, ended) = run("alone.json", &["--without-peers", "--check", "--probing", "lines"]);
    let figures = list(&json, "figures");
    assert!(list(&json, "peers").is_empty());
    assert_eq!(figures.iter().filter(|figure| !figure["met"].is_null()).count(), 12);
    let missed = figures.iter().any(|figure| figure["met"] == false);
    assert_eq!(ended == ExitCode::FAILURE, missed);
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_before_the_run() {
    let args = Args::parse_from(["speed", "--json", "/nowhere/at/all.json"]);
    let error = speed::run(&args).unwrap_err().to_string();
    assert!(error.contains("cannot write /nowhere/at/all.json"), "{error}");
}
