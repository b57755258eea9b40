//! The benchmark on the paper's cluster, in short: that the targets are met, by numbers that are
//! the paper's where it has some.

#[allow(dead_code, reason = "the benchmark's own entry")]
#[path = "../benches/cluster/main.rs"]
mod cluster;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use cluster::args::Args;
use serde_json::Value;

/// Runs it and checks the targets; what it wrote, what it told, and how it ended.
fn run(name: &str) -> (Value, String, ExitCode) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let options = ["cluster", "--quick", "--check", "--json", path.to_str().unwrap()];
    let (text, ended) = cluster::run(&Args::try_parse_from(options).unwrap()).unwrap();
    let json = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    (json, text, ended)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().unwrap_or_else(|| panic!("no list {name}: {value}"))
}

/// The row of a load factor with that of the paper's turns.
fn claim<'a>(json: &'a Value, turns: &str, claim: &str, percent: u64) -> &'a Value {
    let mut rows = list(json, "claims").iter();
    let wanted = |row: &&Value| {
        row["turns"] == turns && row["claim"] == claim && row["load_percent"] == percent
    };
    rows.find(wanted).unwrap_or_else(|| panic!("no row of {turns}, {claim}, {percent}"))
}

fn ns(mean: &Value) -> f64 {
    mean["ns"].as_f64().unwrap()
}

/// The targets, and that a second run gives the same numbers.
#[test]
fn the_targets_are_met_by_numbers_that_repeat() {
    let (json, text, ended) = run("cluster.json");
    let targets = list(&json, "targets");
    assert_eq!(targets.len(), 5);
    for target in targets {
        assert!(text.contains(target["name"].as_str().unwrap()), "{target}");
        assert_eq!(target["met"], true, "{target}");
    }
    assert_eq!(ended, ExitCode::SUCCESS);

    // Table 1 of the paper, C = 8.
    for (percent, paper_ns) in [(50, 3_690.0), (60, 3_740.0), (70, 3_900.0), (80, 4_500.0)] {
        let found = ns(&claim(&json, "reads", "off", percent)["insert"]);
        assert!((found / paper_ns - 1.0).abs() < 0.05, "{found} ns at {percent} %");
    }
    // Claims that wait for READs are worth less, and nobody is to be misled.
    let on = |turns| ns(&claim(&json, turns, "on", 50)["insert"]);
    assert!(on("reads_and_claims") > on("reads") * 1.05);
    // A READ and a claim are all that an insert takes where one chunk is enough; and in a batch a
    // READ ahead takes a turn of the NIC as the other does, which is its limit.
    let times = |mean: &Value| mean["times_limit"].as_f64().unwrap();
    let blocking = times(&claim(&json, "reads", "off", 10)["insert"]);
    assert!((blocking - 1.0).abs() < 0.03, "{blocking}");
    let batched: Vec<f64> =
        list(&json, "batches").iter().map(|row| times(&row["batched_insert"])).collect();
    assert!((batched[0] - 2.0).abs() < 0.1 && (batched[1] - 1.0).abs() < 0.1, "{batched:?}");
    // 10 load factors twice, and each cache beside none.
    assert_eq!(list(&json, "adaptive").len(), 2 * 10);
    let rates = list(&json, "caches").iter().map(|row| row["find"]["cache_hit_rate"].as_f64());
    let rates: Vec<f64> = rates.map(Option::unwrap).collect();
    assert!(rates[0] == 0.0 && rates[1] > rates[2] && rates[2] > rates[3] && rates[3] > 0.0);

    assert_eq!(run("cluster-again.json").0, json);
}
