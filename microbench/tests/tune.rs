//! Tests of `probeline tune` and `--tuning` from the command line.

use std::fs;

use crate::common::reported::{Reported, number, reported};
use crate::common::{Scratch, run};
use serde_json::Value;

/// Options of a table of 4 MiB in virtual time.
const SIM: [&str; 5] = ["tune", "--transport", "sim", "--table-size", "4MiB"];

#[test]
fn shm_summary_compares_runner_up() {
    let scratch = Scratch::new();
    let out = scratch.path("tuning.toml");
    let few = ["tune", "--table-size", "8MiB", "--rounds", "1", "--ops", "200", "--direct", "off"];
    let Reported { json, printed, .. } = reported(&[&few[..], &["--out", &out]].concat());
    let [tune, measured, second, paper, ..] = printed.lines().collect::<Vec<_>>()[..] else {
        panic!("{printed}")
    };
    assert!(tune.starts_with("tune: C ") && tune.ends_with("tuning.toml, for --tuning"), "{tune}");
    assert!(measured.starts_with("measured: ") && measured.contains(" by 2 ranks"), "{measured}");
    assert!(second.starts_with("second: ") && second.contains(" time: C "), "{second}");
    assert!(paper.starts_with("paper: "), "{paper}");
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2 * 8 + 1);
    let tuning = probeline::tuning::Tuning::load(out.as_ref()).unwrap();
    assert_eq!(rows[0]["chunk_buckets"], tuning.chunk_buckets);
    // A JSON parser may round the last digit.
    let off = number(&rows[0], "ops_per_s") / tuning.expected.unwrap().ops_per_s;
    assert!((off - 1.0).abs() < 1e-12, "{off}");
    assert_eq!(rows[0]["times_recommended"], 1.0);
}

/// The measured share of inserts is the requested one. If the inserts are too many for the table,
/// there are fewer operations.
#[test]
fn small_table_keeps_insert_share() {
    let scratch = Scratch::new();
    let out = scratch.path("tuning.toml");
    let small = ["tune", "--transport", "sim", "--ranks", "8", "--table-size", "1MiB"];
    // 2 % of 2^17 buckets are 327 inserts of each rank.
    for (share, operations) in [("0.5", 500), ("0.66", 495), ("1", 327)] {
        let work = ["--insert-share", share, "--in-flight", "2", "--rounds", "1"];
        let report = reported(&[&small[..], &work, &["--out", &out]].concat()).json;
        assert_eq!(report["parameters"]["ops_per_rank"], operations);
        let fewer = report["notes"].as_array().unwrap().iter().filter(|note| {
            note.as_str().unwrap().starts_with(&format!("ops: {operations} of each rank in a run"))
        });
        assert_eq!(fewer.count(), usize::from(operations < 500));
        let said =
            probeline::tuning::Tuning::load(out.as_ref()).unwrap().expected.unwrap().insert_share;
        assert_eq!(Ok(said), share.parse());
    }
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
    reported(arguments).json["parameters"].clone()
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
    for (name, value) in [
        ("chunk_buckets", Value::from(64)),
        ("max_chunks", 77.into()),
        ("read_ahead", "always".into()),
        ("one_roundtrip", "on".into()),
        ("direct", "false".into()),
        ("in_flight", "5".into()),
        ("cache_entries", "16".into()),
        ("batch", 1024.into()),
        ("tuning", file.as_str().into()),
        ("given_besides_tuning", Value::Null),
    ] {
        assert_eq!(with[name], value, "{name}");
    }

    let given = parameters(&[&throughput[..], &sim, &["-C", "8", "--in-flight", "9"]].concat());
    assert_eq!((&given["chunk_buckets"], &given["in_flight"]), (&8.into(), &"9".into()));
    assert_eq!(given["max_chunks"], 77);
    assert_eq!(given["given_besides_tuning"], "chunk_buckets, in_flight");

    let explored = parameters(&[&["explore", "kanban:1"][..], &sim].concat());
    assert_eq!((&explored["chunk_buckets"], &explored["in_flight"]), (&64.into(), &"5".into()));

    let latency = ["bench-latency", "--load-factor", "0.5", "--ops", "10", "--rounds", "1"];
    let latency = parameters(&[&latency[..], &sim].concat());
    assert_eq!((&latency["max_chunks"], &latency["read_ahead"]), (&77.into(), &"always".into()));

    // One operation in flight means calls of one key.
    tuning(&scratch, 1);
    let blocking = parameters(&[&throughput[..], &sim].concat());
    assert_eq!((&blocking["in_flight"], &blocking["batch"]), (&"2".into(), &1.into()));
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
        (&["simulate", "--paper-figures", "--tuning", &file], "leave out one of the two"),
        (
            &["simulate", "--profile", "shm", "--machines", "1", "--tuning", &file],
            "not how many a CPU does at once: give --in-flight 1",
        ),
        (&["bench-throughput", "--tuning", &broken], "broken.toml, line 2: unknown field `C`"),
        (&["explore", "kanban:1", "--tuning", &absent], "absent.toml: "),
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
