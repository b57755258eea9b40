//! Tests of the comparison: its report, and columns that fail, hang or are absent.

mod common;

use core::time::Duration;
use std::fs;
use std::process::Command;

use common::{Ended, Running, Scratch, kill, probeline, read_rows, run, stop, wait_until};
use serde_json::Value;

/// Steps of each column.
const STEPS: usize = 46;
/// The longest time for columns to open their engines, on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// A round of a column takes more than a second, a twentieth of it for each sleeping owner. On a
/// busy machine a working column does not count as hanging.
const SLOWLY: [&str; 10] = [
    "--rounds",
    "2",
    "--ops",
    "200",
    "--seconds-per-measurement",
    "0.002",
    "--sleep",
    "0.05",
    "--step-timeout",
    "10",
];

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

#[test]
fn columns_are_side_by_side() {
    let scratch = Scratch::new();
    let files = ["json", "csv", "md"].map(|name| scratch.path(name));
    let printed = run(&[
        "compare",
        "--quick",
        "--columns",
        "sim,shm,shm-posted",
        "--table-size",
        "1MiB",
        "--json",
        &files[0],
        "--csv",
        &files[1],
        "--markdown",
        &files[2],
    ])
    .printed();

    let report = json(&files[0]);
    for name in ["sim", "shm", "shm-posted"] {
        assert_eq!(column(&report, name)["state"], "measured");
        assert_eq!(column(&report, name)["atomics_wait_for_a_sleeping_owner"], false, "{name}");
        assert_eq!(column(&report, name)["engine"]["cpu_atomics"], true);
        let rows = rows(&report, name);
        assert_eq!(rows.len(), STEPS);
        for row in rows {
            assert!(row["median"].as_f64().unwrap() > 0.0, "{row}");
            assert_eq!(row["samples"].as_array().unwrap().len(), 2, "{row}");
            // Virtual time is not compared with real time.
            assert_eq!(row["times_fastest"].is_null(), name == "sim", "{row}");
        }
    }
    // In virtual time every roundtrip takes the model's time. The first half of the rows are
    // primitives.
    let simulated = rows(&report, "sim");
    for row in simulated.iter().filter(|row| row["unit"] == "ns") {
        assert_eq!(row["median"], 2_000.0, "{row}");
    }
    let shares = |name| -> Vec<f64> {
        let of_row = |row: &&Value| row["samples"][0]["inserted_share"].as_f64();
        rows(&report, name).iter().filter_map(of_row).collect()
    };
    // The keys are the same, so the columns insert the same keys, except where ranks race for them.
    let (shm, posted) = (shares("shm"), shares("shm-posted"));
    assert_eq!((shm.len(), &shm), (6, &posted));
    assert_eq!(shm, shares("sim"));
    assert!(shm[1] < 0.3 && shm[2] > 0.7, "{shm:?}");

    assert_eq!(read_rows(&files[1]).len(), 3 * STEPS);
    let page = fs::read_to_string(&files[2]).unwrap();
    let summary: Vec<&str> =
        report["summary"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let summary = summary.join("\n");
    assert!(summary.lines().count() <= 12 && summary.contains(" shm-posted "), "{summary}");
    assert!(printed.starts_with(&format!("{summary}\n\nprobeline ")), "{printed}");
    let head = format!("# `probeline compare`\n\n```text\n{summary}\n```\n\n- ");
    assert!(page.starts_with(&head), "{page}");
    assert_eq!(printed.lines().filter(|line| line.starts_with(" READ")).count(), 10, "{printed}");
    assert!(page.lines().any(|line| line.starts_with("| operation")), "{page}");
    assert_eq!(page.lines().filter(|line| line.starts_with("| READ")).count(), 20);
    assert!(page.contains("- shm-posted includes: "), "{page}");
    assert!(printed.contains("of 2 rounds") && printed.contains(" x1.00"), "{printed}");
}

#[test]
fn a_column_that_fails_does_so_alone() {
    let scratch = Scratch::new();
    let file = scratch.path("json");
    let options = ["compare", "--quick", "--columns", "shm,osc-sm", "--json", &file];
    let ended = Running::start(probeline(&options).env("PATH", "")).end();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let missing = "neither mpirun.openmpi nor mpirun is in PATH";
    assert!(
        ended.stderr.starts_with(&format!("probeline: osc-sm: failed: {missing}")),
        "{ended:?}"
    );
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    assert!(ended.stdout.contains("READ 8 B"), "{ended:?}");
    let report = json(&file);
    assert_eq!((rows(&report, "shm").len(), rows(&report, "osc-sm").len()), (STEPS, 0));
    assert_eq!(column(&report, "osc-sm")["state"], "failed");
}

#[test]
fn an_absent_column_that_was_not_requested_is_no_failure() {
    let scratch = Scratch::new();
    let file = scratch.path("json");
    let options = ["compare", "--quick", "--table-size", "1MiB", "--json", &file];
    let printed = Running::start(probeline(&options).env("PATH", "")).end().printed();
    let report = json(&file);
    let line = printed.lines().find(|line| line.starts_with("not measured: ")).unwrap();
    for name in ["osc-sm", "osc-ucx", "osc-ucx-intrinsic", "osc-rdma", "mpich"] {
        assert_eq!(column(&report, name)["state"], "absent");
        let reason = column(&report, name)["reason"].as_str().unwrap();
        assert!(reason.starts_with("neither mpi"), "{name}: {reason}");
        assert!(line.contains(&format!(" {name}")), "{printed}");
    }
    assert_eq!(column(&report, "shm")["state"], "measured");
    // Only measured if requested by name.
    assert!(rows(&report, "sim").is_empty());
}

#[test]
fn notes_are_only_about_measured_columns() {
    let options = ["compare", "--quick", "--columns", "osc-sm"];
    let ended = Running::start(probeline(&options).env("PATH", "")).end();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stdout.contains("osc-sm: failed: neither mpirun"), "{ended:?}");
    for note in ["x: ", "READ", "owner: ", "inserted", "includes"] {
        assert!(!ended.stdout.contains(note), "{note}: {ended:?}");
    }
}

#[test]
fn a_missing_build_is_an_error() {
    let scratch = Scratch::new();
    let launcher = scratch.file("mpiexec.mpich", "");
    let folder = launcher.trim_end_matches("/mpiexec.mpich");
    // `just compare` may have made a build in the folder next to the command itself.
    fs::create_dir(scratch.path("bin")).unwrap();
    let alone = scratch.path("bin/probeline");
    fs::copy(env!("CARGO_BIN_EXE_probeline"), &alone).unwrap();
    let said = |worker: &str| {
        let options = ["compare", "--quick", "--columns", "mpich", "--worker", worker];
        Running::start(Command::new(&alone).args(options).env("PATH", folder)).end().stderr
    };
    let missing = scratch.path("nothing");
    let told = said(&format!("mpich={missing}"));
    assert!(told.contains(&format!("--worker: there is no file {missing}")), "{told}");
    let told = said("openmpi=elsewhere");
    let build = "--config ucx-shim/mpich.toml --features mpi --target-dir target/mpich";
    assert!(told.contains(build), "{told}");
}

/// Runs `shm` and `sim`, and calls `harm` with the process of rank 1 of the first while it
/// measures.
fn harmed(harm: impl FnOnce(u32)) -> (Ended, Value) {
    let scratch = Scratch::new();
    let file = scratch.path("json");
    let options = ["compare", "--columns", "shm,sim", "--table-size", "1MiB", "--json", &file];
    let running = Running::start(&mut probeline(&[&options[..], &SLOWLY].concat()));
    // Columns start and take turns in this order, so this is the first step.
    let measuring = || running.pid_with(&["--transport", "sim"]).is_some_and(has_measured);
    assert!(wait_until(START_TIMEOUT, measuring), "nothing was measured within {START_TIMEOUT:?}");
    harm(running.pid_of_rank(1).unwrap());
    let ended = running.end();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let report = json(&file);
    assert_eq!(column(&report, "shm")["state"], "failed");
    assert_eq!(column(&report, "sim")["state"], "measured", "{ended:?}");
    assert_eq!(rows(&report, "sim").len(), STEPS);
    (ended, report)
}

/// Returns whether rank 0 of a column has responded twice: it is ready, and has measured the first
/// step.
fn has_measured(rank_0: u32) -> bool {
    let io = fs::read_to_string(format!("/proc/{rank_0}/io")).unwrap_or_default();
    let writes = io.lines().find_map(|line| line.strip_prefix("syscw: ")?.parse::<u32>().ok());
    writes.is_some_and(|writes| writes >= 2)
}

/// Rank 0 of the column, which has started this rank.
fn rank_0(rank_1: u32) -> u32 {
    let environ = fs::read_to_string(format!("/proc/{rank_1}/environ")).unwrap();
    let parent = environ.split('\0').find_map(|var| var.strip_prefix("PROBELINE_PARENT="));
    parent.unwrap().parse().unwrap()
}

#[test]
fn a_rank_that_hangs_fails_its_column_within_the_bound() {
    let (ended, _) = harmed(stop);
    assert!(ended.stderr.contains("shm: failed: in round "), "{ended:?}");
    // Either a rank waits in its engine for this time, or rank 0 waits in the collective call.
    let bound = ["within --step-timeout", "no answer within 15s: it hangs"];
    assert!(bound.iter().any(|bound| ended.stderr.contains(bound)), "{ended:?}");
}

#[test]
fn a_column_that_does_not_respond_is_killed() {
    let (ended, _) = harmed(|rank_1| stop(rank_0(rank_1)));
    assert!(ended.stderr.contains("no answer within 15s: it hangs"), "{ended:?}");
}

#[test]
fn a_rank_that_dies_fails_its_column() {
    let (ended, report) = harmed(|rank_1| kill(rank_0(rank_1)));
    assert!(ended.stderr.contains("its first process ended (signal: 9"), "{ended:?}");
    // What was measured until then stays.
    assert!(!rows(&report, "shm").is_empty());
}

#[test]
fn a_launcher_that_starts_nothing_is_killed() {
    let scratch = Scratch::new();
    let launcher = scratch.file("mpiexec.mpich", "#!/bin/sh\nexec /bin/sleep 100\n");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&launcher, executable).unwrap();
    let worker = format!("mpich={}", env!("CARGO_BIN_EXE_probeline"));
    let columns = ["compare", "--quick", "--columns", "mpich,sim", "--table-size", "1MiB"];
    let options =
        [&columns[..], &["--worker", &worker, "--rendezvous-timeout", "10", "--full"]].concat();
    let folder = launcher.trim_end_matches("/mpiexec.mpich");
    let ended = Running::start(probeline(&options).env("PATH", folder)).end();
    assert!(ended.stderr.contains("mpich: failed: no answer within 10s: it hangs"), "{ended:?}");
    assert!(ended.stdout.contains("sim: sim, 2 owners"), "{ended:?}");
}

#[test]
fn help_lists_all_options() {
    let help = run(&["compare", "-h"]).printed();
    assert!(!help.contains("--transport") && !help.contains("--ucx-tls"), "{help}");
    assert!(help.contains("--ucx-device") && help.contains("[default: 64MiB, or 1MiB"), "{help}");
    assert!(!help.contains("bench-latency and"), "{help}");
}

#[test]
fn invalid_options_are_rejected() {
    let refused = [
        (&["--transport", "shm"][..], "say what is to stand side by side with --columns"),
        (&["--columns", "shm,sim,shm"], "--columns has shm twice"),
        (&["--columns", "mpi"], "invalid value 'mpi'"),
        (&["--two-nodes"], "choose them with --columns"),
        (&["--two-nodes", "--columns", "verbs,shm"], "shm does not reach another machine"),
        (&["--two-nodes", "--columns", "ucx-shm"], "ucx-shm does not reach another machine"),
        (&["--two-nodes=a", "--columns", "osc-sm"], "osc-sm does not reach another machine"),
        (&["--two-nodes", "--columns", "sim"], "sim cannot share a job"),
        (
            &["--rendezvous", "127.0.0.1:1", "--rank", "1", "--columns", "shm-posted,ucx-shm"],
            "shm-posted cannot share a job",
        ),
        (&["--columns", "shm", "--device", "a"], "--device is for the column verbs: add it"),
        (
            &["--columns", "shm", "--ucx-atomics", "device", "--ucx-device", "a"],
            "--ucx-device is for the column ucx-shm, ucx-tcp or ucx-rc: add it to --columns",
        ),
        (&["--columns", "ucx-shm", "--ucx-tls", "tcp"], "choose among ucx-shm, ucx-tcp and ucx-rc"),
        (&["--ranks", "1"], "another rank's words need two ranks at least: --ranks 2"),
        (&["--worker", "lam=a"], "write openmpi=PATH or mpich=PATH"),
        (&["--worker", "mpich="], "the path of a build with --features mpi is missing"),
        (&["--quick", "--rounds", "3"], "cannot be used with"),
        (&["--sleep", "0"], "seconds from 0.001 to 3600"),
        (&["--step-timeout", "0"], "0 is not in 1..=86400"),
        (&["--table-size", "8B"], "--table-size 8B is too small"),
        (&["--json", "/nowhere/a"], "/nowhere/a cannot be written"),
    ];
    for (options, told) in refused {
        let ended = run(&[&["compare"], options].concat());
        let said = ended.failed();
        assert!(said.contains(told), "{said}");
    }
}
