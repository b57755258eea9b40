//! What a terminal sees while a command runs, and what becomes of the files for its results.

mod common;

use core::time::Duration;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::thread;
use std::time::Instant;

use common::terminal::Terminal;
use common::{AT_ONCE, Running, Scratch, probeline, read_rows, run};
use serde_json::Value;

/// Takes minutes; the tests end it once they have seen enough.
const LONG: [&str; 7] =
    ["bench-throughput", "--repeat", "999", "--ops", "100000", "--table-size", "8MiB"];

#[test]
fn a_terminal_sees_a_bar_after_two_seconds() {
    shows_a_bar(&LONG, "mixed");
}

#[test]
fn tune_shows_what_it_measures() {
    let scratch = Scratch::new();
    let out = scratch.path("tuning.toml");
    let long = ["tune", "--direct", "off", "--seconds-per-measurement", "0.5", "--out", &out];
    shows_a_bar(&long, "READs and claims");
}

#[test]
fn simulate_shows_which_cluster_it_has_come_to() {
    let one = ["simulate", "--experiment", "throughput", "--workload", "mixed", "--ops", "200000"];
    let shape = ["--machines", "8", "--ranks-per-machine", "4"];
    shows_a_bar(&[&one[..], &shape].concat(), "mixed on 8 x 4");
}

/// Runs a command that takes minutes until a bar with what is `doing` is there.
#[track_caller]
fn shows_a_bar(long: &[&str], doing: &str) {
    let start = Instant::now();
    let (mut running, pieces) = Terminal::new().start(long);
    let mut seen = String::new();
    while !(seen.contains('%') && seen.contains(doing)) {
        let piece = pieces.recv_timeout(Duration::from_secs(20)).expect(&seen);
        assert!(start.elapsed() >= Duration::from_secs(2), "{:?}", String::from_utf8_lossy(&piece));
        seen.push_str(&String::from_utf8_lossy(&piece));
    }
    assert!(running.is_running(), "{seen}");
}

#[test]
fn a_terminal_sees_no_bar_before() {
    let (running, pieces) = Terminal::new().start(&["explore", "fms:2", "--table-size", "1MiB"]);
    assert_eq!(running.end().code, Some(0));
    let seen: Vec<u8> = pieces.iter().flatten().collect();
    let seen = String::from_utf8(seen).unwrap();
    assert!(seen.contains("3444") && !seen.contains('\x1b'), "{seen:?}");
}

/// Long enough for a bar to have been drawn.
#[test]
fn no_terminal_sees_no_bar() {
    let running = Running::start(&mut probeline(&LONG));
    thread::sleep(Duration::from_secs(3));
    assert_eq!(running.kill(), ["", ""]);
}

#[test]
fn results_that_cannot_be_written_are_known_before_the_run() {
    let scratch = Scratch::new();
    let nowhere = scratch.path("no/such/directory/results");
    let directory = scratch.path("");
    for option in ["--json", "--csv"] {
        for (path, why) in [(&nowhere, ErrorKind::NotFound), (&directory, ErrorKind::IsADirectory)]
        {
            let ended = run(&[&LONG[..], &[option, path]].concat());
            assert!(ended.took < AT_ONCE, "{:?}", ended.took);
            let said = ended.failed_in_one_line();
            let expected = format!("{path} cannot be written: ");
            assert!(said.contains(&expected), "{said}");
            let error = fs::File::create(path).unwrap_err();
            assert_eq!(error.kind(), why);
            assert!(said.contains(&error.to_string()), "{said}");
        }
    }
    assert!(!Path::new(&nowhere).exists());
}

#[test]
fn results_of_two_kinds_do_not_go_to_one_file() {
    let scratch = Scratch::new();
    let (file, link) = (scratch.path("results"), scratch.path("link"));
    let of = |csv: &str| run(&[&LONG[..], &["--json", &file, "--csv", csv]].concat());
    let said = of(&file).failed_in_one_line();
    assert!(said.contains("--json and --csv are both to be written to"), "{said}");
    assert!(!Path::new(&file).exists(), "nothing was there before");
    fs::write(&file, "of before").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    assert!(of(&link).failed_in_one_line().contains("give each its own file"));
    assert_eq!(fs::read(&file).unwrap(), b"of before");
}

#[test]
fn results_replace_those_of_before_only_where_there_are_any() {
    let scratch = Scratch::new();
    let before = "x".repeat(100_000);
    let [json, csv] = ["report.json", "rows.csv"].map(|name| scratch.file(name, &before));
    let run = |size| {
        let arguments = ["explore", "fms:2", "--table-size", size, "--json", &json, "--csv", &csv];
        run(&arguments)
    };
    assert!(run("4KiB").failed_in_one_line().contains("the table is full"));
    for path in [&json, &csv] {
        assert_eq!(fs::read_to_string(path).unwrap(), before);
    }
    run("1MiB").printed();
    assert!(serde_json::from_slice::<Value>(&fs::read(json).unwrap()).is_ok());
    assert_eq!(read_rows(&csv).len(), 1);
}
