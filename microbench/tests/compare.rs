//! Tests of the comparison: its report, and columns that fail, hang or are absent.

use core::time::Duration;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::{AT_ONCE, Running, Scratch, probeline, read_rows, refuses, signal, wait_until};
use rustix::process::Signal;
use serde_json::Value;

/// Rows of each column: READs and WRITEs of ten lengths, three atomics, two find-or-puts, and three
/// workloads in two ways.
const ROWS: usize = 2 * 10 + 3 + 2 + 2 * 3;

/// Options for a short comparison.
const SHORT: [&str; 8] =
    ["--rounds", "2", "--ops", "200", "--seconds-per-measurement", "0.002", "--table-size", "1MiB"];

fn json(path: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn column<'a>(report: &'a Value, name: &str) -> &'a Value {
    let columns = report["columns"].as_array().unwrap();
    columns.iter().find(|column| column["column"] == name).unwrap()
}

fn rows<'a>(report: &'a Value, name: &str) -> Vec<&'a Value> {
    let rows = report["rows"].as_array().unwrap().iter();
    rows.filter(|row| row["column"] == name).collect()
}

/// Without mpirun in the PATH, a requested column of MPI fails, and it fails alone.
#[test]
fn one_column_fails_alone() {
    let scratch = Scratch::new();
    let files = ["json", "csv"].map(|name| scratch.path(name));
    let columns = ["compare", "--transports", "sim,shm,shm-posted,osc-sm"];
    let outputs = ["--json", &files[0], "--csv", &files[1]];
    let options = [&columns[..], &SHORT, &outputs].concat();
    let ended = Running::start(probeline(&options).env("PATH", "")).end();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let missing = "neither mpirun.openmpi nor mpirun is in PATH";
    let failed = format!("osc-sm: failed: in round 1, bench-latency: {missing}");
    assert!(ended.stderr.starts_with(&format!("probeline: {failed}")), "{ended:?}");
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    assert!(ended.stdout.contains(&format!("\n{failed}")), "{ended:?}");

    let report = json(&files[0]);
    assert_eq!(column(&report, "osc-sm")["state"], "failed");
    assert!(rows(&report, "osc-sm").is_empty());
    for name in ["sim", "shm", "shm-posted"] {
        assert_eq!(column(&report, name)["state"], "measured");
        let rows = rows(&report, name);
        assert_eq!(rows.len(), ROWS);
        for row in rows {
            assert!(row["median"].as_f64().unwrap() > 0.0, "{row}");
            assert_eq!(row["figures"].as_array().unwrap().len(), 2, "{row}");
            // Virtual time is not compared with real time.
            assert_eq!(row["times_fastest"].is_null(), name == "sim", "{row}");
        }
    }
    // In virtual time every roundtrip takes the model's time.
    let simulated = rows(&report, "sim");
    for row in simulated.iter().filter(|row| row["measured"].as_str().unwrap().contains("READ")) {
        assert_eq!((&row["median"], &row["unit"]), (&2_000.0.into(), &"ns".into()), "{row}");
    }
    assert_eq!(read_rows(&files[1]).len(), 3 * ROWS);
}

/// A launcher that starts nothing, and a child that would outlive it.
const HANGS: &str = "#!/bin/sh\n/bin/sleep 1000 & exec /bin/sleep 1000\n";

/// Starts a comparison whose column of MPICH hangs.
fn hanging(scratch: &Scratch, options: &[&str]) -> Running {
    let launcher = scratch.file("mpiexec.mpich", HANGS);
    fs::set_permissions(&launcher, PermissionsExt::from_mode(0o755)).unwrap();
    let worker = format!("mpich={}", env!("CARGO_BIN_EXE_probeline"));
    let columns = ["compare", "--transports", "sim,mpich", "--worker", &worker];
    let folder = launcher.trim_end_matches("/mpiexec.mpich");
    Running::start(probeline(&[&columns[..], &SHORT, options].concat()).env("PATH", folder))
}

#[test]
fn signal_reports_finished_measurements() {
    let scratch = Scratch::new();
    let file = scratch.path("report.json");
    let running = hanging(&scratch, &["--json", &file]);
    let hangs = || running.pid_with(&["1000"]).is_some();
    assert!(wait_until(Duration::from_secs(60), hangs));
    signal(running.pid(), Signal::TERM);
    let ended = running.end();
    assert_eq!((ended.code, ended.signal), (Some(143), None), "{ended:?}");
    assert!(ended.everything_gone - ended.took < AT_ONCE, "{ended:?}");
    assert!(ended.stdout.contains("interrupted: "), "{ended:?}");
    assert_eq!(rows(&json(&file), "sim").len(), 25);
}

#[test]
fn refuses_invalid_options() {
    let lines = [
        ("compare --transport shm", "choose the columns with --transports"),
        ("compare --transports shm,sim,shm", "--transports has shm twice"),
        ("compare --transports mpi", "invalid value 'mpi'"),
        ("compare --two-nodes", "start it without --two-nodes. On two machines run bench-latency"),
        ("compare --rendezvous 127.0.0.1:1 --rank 1", "start it without --rendezvous"),
        ("compare --transports shm --device a", "--device is for the column verbs: add it"),
        (
            "compare --transports shm --ucx-atomics device --ucx-device a",
            "--ucx-device is for the column ucx-shm, ucx-tcp or ucx-rc: add it to --transports",
        ),
        ("compare --transports ucx-shm --ucx-tls tcp", "--ucx-tls is for the other commands"),
        ("compare --ranks 1", "another rank's words need two ranks at least: --ranks 2"),
        ("compare --worker lam=a", "write openmpi=PATH or mpich=PATH"),
        ("compare --worker mpich=", "the path of a build with --features mpi is missing"),
        ("compare --step-timeout 0", "0 is not in 1..=86400"),
        ("compare --table-size 8B", "--table-size 8B is too small"),
    ];
    refuses(2, &lines);
    let lines = [("compare --json /nowhere/a", "/nowhere/a cannot be written")];
    refuses(1, &lines);
}
