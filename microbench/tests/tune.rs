//! Tests of `probeline tune` and `--tuning` from the command line.

use std::fs;

use crate::common::reported::{number as number_of, reported};
use crate::common::{Scratch, read_rows, run};
use serde_json::Value;

/// Options of a table of 4 MiB in virtual time.
const SIM: [&str; 5] = ["tune", "--transport", "sim", "--table-size", "4MiB"];

fn number(row: &std::collections::HashMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap()
}

#[test]
fn shm_summary_compares_runner_up() {
    let scratch = Scratch::new();
    let (out, json) = (scratch.path("tuning.toml"), scratch.path("report.json"));
    let few = ["tune", "--table-size", "8MiB", "--rounds", "1", "--ops", "200", "--direct", "off"];
    let printed = run(&[&few[..], &["--out", &out, "--json", &json]].concat()).printed();
    let [tune, measured, second, paper, ..] = printed.lines().collect::<Vec<_>>()[..] else {
        panic!("{printed}")
    };
    assert!(tune.starts_with("tune: C ") && tune.ends_with("tuning.toml, for --tuning"), "{tune}");
    assert!(measured.starts_with("measured: ") && measured.contains(" by 2 ranks"), "{measured}");
    assert!(second.starts_with("second: ") && second.contains(" time: C "), "{second}");
    assert!(paper.starts_with("paper: "), "{paper}");
    let report: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    // Seven C, seven depths, three kinds of read-ahead, two of claims.
    assert_eq!(report["candidates"].as_array().unwrap().len(), 7 * 7 * 3 * 2);
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2 * 8 + 1);
    let tuning = probeline::tuning::Tuning::load(out.as_ref()).unwrap();
    assert_eq!(rows[0]["chunk_buckets"], tuning.chunk_buckets);
    // A JSON parser may round the last digit.
    let off = number_of(&rows[0], "ops_per_s") / tuning.expected.unwrap().ops_per_s;
    assert!((off - 1.0).abs() < 1e-12, "{off}");
    assert_eq!(rows[0]["times_recommended"], 1.0);
}

/// Writes the profile of a network whose NICs execute `atomics_per_s` atomics and 40 million READs
/// per second.
fn network(scratch: &Scratch, atomics_per_s: u64) -> String {
    let given = |name: &str, value: u64| {
        format!("{name} = {{ value = {value}, kind = \"assumed\", source = \"a test\" }}\n")
    };
    let remote = [("read_base_ns", 2_000), ("read_word_ps", 1_000), ("atomic_ns", 2_200)];
    let nic = [
        ("reads_per_s", 40_000_000),
        ("atomics_per_s", atomics_per_s),
        ("bytes_per_s", 12_000_000_000),
    ];
    let of = |all: [(&str, u64); 3]| all.map(|(name, value)| given(name, value)).concat();
    let text =
        format!("name = \"nic\"\nabout = \"made up\"\n[remote]\n{}[nic]\n{}", of(remote), of(nic));
    scratch.file("nic.toml", &text)
}

/// A claim along with each first READ is an additional atomic. It pays if NICs execute as many
/// atomics as READs, and not if atomics are the bottleneck.
#[test]
fn one_roundtrip_follows_atomics_rate() {
    let scratch = Scratch::new();
    let (out, json) = (scratch.path("tuning.toml"), scratch.path("report.json"));
    for (atomics_per_s, pays) in [(2_000_000, "off"), (40_000_000, "on")] {
        let nic = network(&scratch, atomics_per_s);
        let sim = ["tune", "--transport", "sim", "--sim-profile", &nic, "--table-size", "2MiB"];
        let work = ["--load-factor", "0.2", "--insert-share", "0.8", "--in-flight", "16"];
        let effort = ["--rounds", "1", "--ops", "300", "--out", &out, "--json", &json];
        run(&[&sim[..], &work, &effort].concat()).printed();
        let report: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
        let best = &report["rows"][0];
        assert_eq!((&best["one_roundtrip"], &best["in_flight"]), (&pays.into(), &16.into()));
        let is_other = |row: &&Value| {
            let same = ["chunk_buckets", "read_ahead", "in_flight"];
            same.iter().all(|field| row[field] == best[field]) && row["one_roundtrip"] != *pays
        };
        let other = report["candidates"].as_array().unwrap().iter().find(is_other).unwrap();
        let [best_rate, other_rate] = [best, other].map(|row| number_of(row, "ops_per_s"));
        assert!(best_rate > 1.05 * other_rate, "{best} {other}");
        let tuning = probeline::tuning::Tuning::load(out.as_ref()).unwrap();
        assert_eq!(tuning.one_roundtrip_name(), pays);
    }
}

/// The measured share of inserts is the requested one. If the inserts are too many for the table,
/// there are fewer operations.
#[test]
fn small_table_keeps_insert_share() {
    let scratch = Scratch::new();
    let (out, json) = (scratch.path("tuning.toml"), scratch.path("rows.json"));
    let small = ["tune", "--transport", "sim", "--ranks", "8", "--table-size", "1MiB"];
    let mut paper_ns = Vec::new();
    // 2 % of 2^17 buckets are 327 inserts of each rank.
    for (share, operations) in [("0.5", 500), ("0.66", 495), ("1", 327)] {
        let work = ["--insert-share", share, "--in-flight", "2", "--rounds", "1"];
        run(&[&small[..], &work, &["--out", &out, "--json", &json]].concat()).printed();
        let report: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
        assert_eq!(report["parameters"]["ops_per_rank"], operations);
        let fewer = report["notes"].as_array().unwrap().iter().filter(|note| {
            note.as_str().unwrap().starts_with(&format!("ops: {operations} of each rank in a run"))
        });
        assert_eq!(fewer.count(), usize::from(operations < 500));
        let rows = report["rows"].as_array().unwrap();
        let paper = rows.iter().find(|row| row["candidate"] == "paper").unwrap();
        paper_ns.push(paper["latency_ns"].as_f64().unwrap());
        let said =
            probeline::tuning::Tuning::load(out.as_ref()).unwrap().expected.unwrap().insert_share;
        assert_eq!(Ok(said), share.parse());
    }
    // A find takes one roundtrip and an insert two, so more inserts take longer.
    assert!(paper_ns.is_sorted_by(|one, other| one * 1.05 < *other), "{paper_ns:?}");
}

/// A latency above the bound is reported after it was measured, and candidates within the bound
/// keep it.
#[test]
fn latency_bound_applies_to_measurements() {
    let scratch = Scratch::new();
    let (out, json) = (scratch.path("tuning.toml"), scratch.path("rows.json"));
    let few = ["--rounds", "1", "--ops", "100", "--in-flight", "8", "--out", &out, "--json", &json];
    let bounded = |us: &str| run(&[&SIM[..], &few, &["--max-latency-us", us]].concat());
    let said = bounded("0.5").failed_in_one_line();
    assert!(said.contains("beyond --max-latency-us: give more"), "{said}");
    assert!(!std::path::Path::new(&out).exists());
    bounded("9").printed();
    let report: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert!(report["rows"][0]["latency_ns"].as_f64().unwrap() <= 9_000.0, "{report}");
}

#[test]
fn simulated_tuning_is_reproducible() {
    let scratch = Scratch::new();
    let files = ["one.toml", "other.toml"].map(|name| scratch.path(name));
    let texts = files.map(|out| {
        run(&[&SIM[..], &["--rounds", "1", "--seed", "7", "--out", &out]].concat()).printed();
        fs::read_to_string(out).unwrap()
    });
    assert_eq!(texts[0], texts[1]);
}

fn parameters(arguments: &[&str]) -> Value {
    let scratch = Scratch::new();
    let json = scratch.path("rows.json");
    run(&[arguments, &["--json", &json]].concat()).printed();
    let report: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    report["parameters"].clone()
}

fn tuning(scratch: &Scratch, in_flight: u32) -> String {
    let tuning = probeline::tuning::Tuning {
        chunk_buckets: 64,
        max_chunks: 77,
        read_ahead: probeline::table::ReadAhead::Always,
        one_roundtrip: probeline::table::OneRoundtrip::On,
        direct: false,
        in_flight,
        cache_entries: 16,
        ..probeline::tuning::Tuning::default()
    };
    scratch.file("tuning.toml", &tuning.to_toml())
}

#[test]
fn other_commands_use_tuning() {
    let scratch = Scratch::new();
    let file = tuning(&scratch, 5);
    let sim = ["--transport", "sim", "--table-size", "64KiB", "--tuning", &file];
    let throughput = ["bench-throughput", "--workload", "mixed", "--ops", "200", "--rounds", "1"];
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

    let latency = ["bench-latency", "--load-factor", "0.5", "--ops", "10", "--rounds", "1"];
    let latency = parameters(&[&latency[..], &sim].concat());
    assert_eq!((&latency["max_chunks"], &latency["read_ahead"]), (&77.into(), &"always".into()));
}

/// The counted roundtrips are those of the file's table, not only the printed parameters.
#[test]
fn roundtrips_use_tuned_table() {
    let scratch = Scratch::new();
    let csv = scratch.path("rows.csv");
    let roundtrips = ["roundtrips", "--transport", "sim", "--table-size", "64KiB", "--csv", &csv];
    let counted = |more: &[&str]| {
        run(&[&roundtrips[..], more].concat()).printed();
        read_rows(&csv)
    };
    let tuning = probeline::tuning::Tuning {
        chunk_buckets: 16,
        max_chunks: 2,
        ..probeline::tuning::Tuning::default()
    };
    let file = scratch.file("tuning.toml", &tuning.to_toml());
    let tuned = counted(&["--tuning", &file]);
    assert!(tuned.iter().all(|row| row["chunk_buckets"] == "16"), "one C, that of the file");
    // In an almost full table, two chunks have no room for many keys.
    assert!(number(tuned.last().unwrap(), "full") > 0.0, "{:?}", tuned.last());
    assert_eq!(tuned, counted(&["-C", "16", "-M", "2"]), "to the last digit");
    let given = counted(&["--tuning", &file, "-C", "64"]);
    assert!(given.iter().all(|row| row["chunk_buckets"] == "64"));
}

/// The simulated table has the file's parameters and its operations in flight, not only the printed
/// ones.
#[test]
fn simulate_uses_tuned_table() {
    let scratch = Scratch::new();
    let cluster = ["--machines", "2", "--ranks-per-machine", "2", "--workload", "mixed"];
    // High enough not to limit operations in flight.
    let fast = ["--set", "rank.reads_per_s=100000000", "--set", "nic.atomics_per_s=100000000"];
    let simulated = |in_flight: u32, more: &[&str]| {
        let file = tuning(&scratch, in_flight);
        let few = ["--ops", "200", "--load-factor", "0.5", "--tuning", &file];
        let report = reported(&[&["simulate"], &cluster[..], &fast, &few, more].concat()).json;
        assert_eq!(report["parameters"]["tuning"], file.as_str());
        report
    };
    let [one, eight] = [1, 8].map(|in_flight| simulated(in_flight, &[]));
    let parameters = &eight["parameters"];
    for (name, value) in [("max_chunks", 77), ("in_flight", 8), ("cache_entries", 16)] {
        assert_eq!(parameters[name], value, "{name}");
    }
    assert_eq!(
        (&parameters["read_ahead"], &parameters["one_roundtrip"]),
        (&"always".into(), &"on".into())
    );
    assert_eq!(parameters["given_besides_tuning"], Value::Null);
    let rows = |report: &Value| report["rows"].as_array().unwrap().clone();
    let of = |report: &Value, column: &str| number_of(&rows(report)[1], column);
    for row in rows(&eight) {
        assert_eq!(row["chunk_buckets"], 64, "{row}");
        // The next chunk is always read ahead.
        assert!(number_of(&row, "outgoing_roundtrips") > 1.9, "{row}");
    }
    assert!(of(&eight, "ops_per_s") > 2.0 * of(&one, "ops_per_s"));
    let never = simulated(8, &["--read-ahead", "never", "--one-roundtrip", "off", "-C", "16"]);
    assert!(of(&never, "outgoing_roundtrips") < 1.1);
    assert_eq!(rows(&never)[0]["chunk_buckets"], 16.0);
    assert_eq!(
        never["parameters"]["given_besides_tuning"],
        "chunk_buckets, read_ahead, one_roundtrip"
    );
}

#[test]
fn in_flight_1_means_blocking() {
    let scratch = Scratch::new();
    let file = tuning(&scratch, 1);
    let throughput = ["bench-throughput", "--workload", "mixed", "--ops", "100", "--rounds", "1"];
    let sim = ["--transport", "sim", "--table-size", "64KiB", "--tuning", &file];
    let with = parameters(&[&throughput[..], &sim].concat());
    assert_eq!((&with["in_flight"], &with["batch"]), (&"2".into(), &1.into()));
}

#[test]
fn refuses_meaningless_options() {
    let scratch = Scratch::new();
    let file = tuning(&scratch, 5);
    let broken = scratch.file("broken.toml", "version = 1\nC = 3\n");
    let absent = scratch.path("absent.toml");
    let cases = [
        (&["limits", "--tuning", &file][..], "and limits uses none"),
        (&["tune", "--tuning", &file], "leave it out"),
        (&["bench-throughput", "--paper", "--tuning", &file], "leave out one of the two"),
        (&["simulate", "--paper", "--tuning", &file], "leave out one of the two"),
        (
            &["simulate", "--profile", "shm", "--machines", "1", "--tuning", &file],
            "not how many a CPU does at once: give --in-flight 1",
        ),
        (&["bench-throughput", "--tuning", &broken], "broken.toml, line 2: unknown field `C`"),
        (&["explore", "kanban:1", "--tuning", &absent], "absent.toml: "),
        (&["tune", "--goal", "latency", "--max-latency-us", "3"], "is for --goal throughput"),
        (&["tune", "--transport", "sim", "--direct", "on"], "--direct on is for shm"),
        (&["tune", "--table-size", "64KiB"], "too few to be tuned for"),
        (&["tune", "--transport", "sim", "--sim-profile", "shm"], "remote.read_base_ns"),
        (&["tune", "--transport", "sim", "--sim-profile", "das6"], "give das5-fdr"),
        (&["tune", "--sim-profile", "das5-fdr"], "--sim-profile is for --transport sim"),
    ];
    for (arguments, expected) in cases {
        let said = run(arguments).failed_in_one_line();
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    assert!(run(&["topology", "--tuning", &file]).failed().contains("--tuning"));
}
