//! Tests of `simulate` from the command line: rows with the paper's figures, bounds, and missing
//! quantities.

use crate::common::reported::{number, reported};
use crate::common::{Scratch, refuses, run};
use probeline::table::ReadAhead;
use serde_json::Value;

fn rows(arguments: &[&str]) -> (Vec<Value>, String) {
    let report = reported(&[&["simulate"], arguments].concat());
    assert_eq!(report.json["command"], "simulate");
    (report.json["rows"].as_array().unwrap().clone(), report.printed)
}

#[test]
fn compares_latencies_with_paper() {
    let options = ["--experiment", "latency", "-C", "16,64", "--load-factor", "0.5,0.8"];
    let cluster = ["--machines", "1", "--ranks-per-machine", "2", "--full"];
    let (rows, printed) = rows(&[&options[..], &cluster].concat());
    assert_eq!(rows.len(), 4);
    for row in rows {
        assert_eq!((&row["experiment"], &row["workload"]), (&"latency".into(), &Value::Null));
        assert!((number(&row, "by_paper") - 1.0).abs() < 0.05, "{row}");
        assert!((number(&row, "roundtrips_by_paper") - 1.0).abs() < 0.02, "{row}");
    }
    assert!(printed.contains("mean latency, one machine: model by paper"), "{printed}");
    assert!(printed.contains("4 of 4 figures within 5 %"), "{printed}");
    assert!(printed.contains("remote.read_base_ns = "), "each number with its source: {printed}");
}

/// The deviation from the paper's figures is printed only for the paper's cluster and parameters.
#[test]
fn states_deviation_for_paper_only() {
    let two = ["--machines", "2", "--ranks-per-machine", "1", "--workload", "mixed"];
    let few = ["--ops", "50", "-C", "32", "--load-factor", "0.5"];
    for (more, said) in [
        (&[][..], true),
        (&["--profile", "soft-roce"], false),
        (&["--set", "remote.read_word_ps=2000"], false),
        (&["--throughput-chunk-buckets", "8"], false),
        (&["--throughput-load-factor", "0.5"], false),
        (&["-M", "32"], false),
        (&["--in-flight", "2"], false),
    ] {
        let report = reported(&[&["simulate"], &two[..], &few, more].concat());
        let printed = report.printed;
        assert_eq!(printed.contains(": model by paper"), said, "{more:?}: {printed}");
        assert_eq!(report.json["parameters"]["of_the_papers"], said, "{more:?}");
    }
}

/// The summary has latencies at other load factors than the paper's too.
#[test]
fn summary_quotes_any_load_factor() {
    let experiment = ["simulate", "--experiment", "latency", "-C", "16"];
    let options = [&experiment[..], &["--machines", "2", "--ranks-per-machine", "1"]].concat();
    for (given, quoted) in [("0.3", "0.30"), ("0.3,0.5", "0.50")] {
        let report = reported(&[&options[..], &["--load-factor", given]].concat());
        let inserts = |line: &&str| line.starts_with("insert on 2 x 1, C = 16 at ");
        let lines: Vec<_> = report.printed.lines().filter(inserts).collect();
        assert!(lines.len() == 1 && lines[0].contains(&format!(" at {quoted}: ")), "{lines:?}");
    }
}

/// With many operations in flight the paper's figure is exceeded, and the bound is stated.
#[test]
fn states_ratio_and_bound() {
    let options = ["--experiment", "throughput", "--machines", "4", "--workload", "mixed"];
    let more = ["--in-flight", "16", "--cache", "4096", "--read-ahead", "never", "--ops", "100"];
    let (rows, printed) = rows(&[&options[..], &more].concat());
    assert_eq!((rows.len(), &rows[0]["bound"]), (1, &"NIC atomics rate".into()));
    assert!(number(&rows[0], "by_paper") > 1.0);
    let [rate, bound, share] =
        ["ops_per_s", "bound_ops_per_s", "bound_share"].map(|name| number(&rows[0], name));
    assert!((share - rate / bound).abs() < 1e-9 && (0.9..1.05).contains(&share), "{}", rows[0]);
    let said = format!(" x the paper's 15.0 M/s; {share:.2} of the bound ");
    assert!(
        printed.contains(&said) && printed.contains("\nbound by: NIC atomics rate\n"),
        "{printed}"
    );
}

/// The simulated table has the file's parameters, not only the printed ones. C is two options:
/// throughputs use the file's C if only that of latencies is given.
#[test]
fn uses_tuned_table() {
    let scratch = Scratch::new();
    let tuning = probeline::tuning::Tuning {
        in_flight: 8,
        read_ahead: ReadAhead::Always,
        cache_entries: 16,
        ..read_tuning()
    };
    let file = scratch.file("tuning.toml", &tuning.to_toml());
    let simulated = |more: &[&str]| {
        let shape = ["--machines", "2", "--ranks-per-machine", "3", "--workload", "mixed"];
        let few = ["--ops", "200", "--load-factor", "0.5", "-C", "16", "--tuning", &file];
        let report = reported(&[&["simulate"], &shape[..], &few, more].concat()).json;
        let [latency, throughput] = &report["rows"].as_array().unwrap()[..] else {
            panic!("{report}")
        };
        assert_eq!((&latency["experiment"], &latency["full"]), (&"latency".into(), &0.into()));
        assert_eq!(number(latency, "chunk_buckets"), 16.0);
        assert_eq!(throughput["chunk_buckets"], 64);
        // The paper has no figures of three ranks on a machine.
        assert!(throughput["paper_ops_per_s"].is_null(), "{throughput}");
        (number(throughput, "outgoing_roundtrips"), report["parameters"].clone())
    };
    // The next chunk is always read ahead.
    let (roundtrips, parameters) = simulated(&[]);
    for (name, value) in [
        ("throughput_chunk_buckets", 64),
        ("max_chunks", 5),
        ("in_flight", 8),
        ("cache_entries", 16),
    ] {
        assert_eq!(parameters[name], value, "{name}");
    }
    assert_eq!(parameters["given_besides_tuning"], "chunk_buckets");
    assert!(roundtrips > 1.9, "{roundtrips}");
    let (roundtrips, parameters) = simulated(&["--read-ahead", "never", "--one-roundtrip", "off"]);
    let given = "chunk_buckets, read_ahead, one_roundtrip";
    assert_eq!(parameters["given_besides_tuning"], given);
    assert!(roundtrips < 1.1, "{roundtrips}");
}

/// If M chunks have no room, a latency row counts the failed inserts.
#[test]
fn reports_full_probe_sequences() {
    let shape = ["--machines", "2", "--ranks-per-machine", "1", "-M", "1"];
    let latency = ["--experiment", "latency", "-C", "16", "--load-factor", "0.9"];
    let (rows, printed) = rows(&[&latency[..], &shape].concat());
    assert!(number(&rows[0], "full") > 0.0, "{}", rows[0]);
    assert!(printed.contains("no room: within M = 1, counted in the means: C = 16 at 0.90"));
}

#[test]
fn refuses_tuning_beyond_memory() {
    let scratch = Scratch::new();
    let tuning = probeline::tuning::Tuning { cache_entries: 1 << 30, ..read_tuning() };
    let file = scratch.file("cached.toml", &tuning.to_toml());
    let shape = ["--machines", "4096", "--ranks-per-machine", "1", "--tuning", &file];
    let refused = run(&[&["simulate", "--experiment", "throughput"], &shape[..]].concat()).failed();
    assert!(
        refused.contains("cached.toml)") && refused.contains("of memory available"),
        "{refused}"
    );
}

/// Returns a tuning whose C and M were chosen from measurements of READs.
fn read_tuning() -> probeline::tuning::Tuning {
    probeline::tuning::Tuning {
        chunk_buckets: 64,
        max_chunks: 5,
        direct: false,
        ..probeline::tuning::Tuning::default()
    }
}

#[test]
fn refuses_invalid_simulations() {
    let lines = [
        (
            "simulate --profile das6",
            "give das5-fdr, connectx6-200g, pik-ndr, soft-roce, shm or a file",
        ),
        ("simulate --profile shm --machines 1 --in-flight 2", "not how many a CPU does at once"),
        ("simulate --set nic.colour=3", "there is no quantity"),
        ("simulate --set nic.reads_per_s", "QUANTITY=VALUE"),
        ("simulate --set nic.reads_per_s=0", "nic.reads_per_s is 0: give an integer from 1 to"),
        ("simulate --set remote.atomic_ns=18446744073709551615", "from 1 to 281474976710656"),
        ("simulate --machines 0", "0 is not in 1..=4096"),
        ("simulate --load-factor 0.5,0.4", "load factors must rise"),
        ("simulate --load-factor 0.955", "hundredths from 0.02 to 0.92"),
        ("simulate --paper-figures --machines 4", "cannot be used with"),
        ("simulate --paper-figures --load-factor 0.5", "cannot be used with"),
        ("simulate --paper-figures --throughput-chunk-buckets 8", "cannot be used with"),
        ("simulate --paper-figures --throughput-load-factor 0.5", "cannot be used with"),
        ("simulate --paper-figures -M 8", "cannot be used with"),
        ("simulate --truncate-us --in-flight 4", "or give --in-flight 1"),
        ("simulate --experiment throughput --load-factor 0.9", "--load-factor is for latencies"),
        ("simulate --experiment latency --in-flight 2", "--in-flight is for throughputs"),
        (
            "simulate --experiment latency --throughput-load-factor 0.5",
            "--throughput-load-factor is for throughputs, not for --experiment latency: leave it out",
        ),
        ("simulate --throughput-chunk-buckets 12", "C is a multiple of 8"),
        ("simulate -C 12", "C is a multiple of 8 from 8 to 4096"),
        ("simulate -C 8192", "C is a multiple of 8 from 8 to 4096"),
    ];
    refuses(2, &lines);
    let lines = [
        ("simulate --profile shm", "remote.read_base_ns (fixed cost of a READ's roundtrip"),
        ("simulate --profile shm --machines 1,2", "or take one machine, --machines 1"),
        ("simulate --profile connectx6-200g", "remote.atomic_ns (a compare-and-swap's roundtrip)"),
        (
            "simulate --machines 4096 --ranks-per-machine 4096",
            "owners is 16777216: choose 1 to 4096",
        ),
    ];
    refuses(1, &lines);
    let refused = run(&["simulate", "--paper-figures", "--profile", "shm"]).failed();
    assert!(refused.contains("--set QUANTITY") && !refused.contains("--machines"), "{refused}");
}
