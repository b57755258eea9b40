//! The output of a command, and the files for its results. No control character from files or arguments reaches a
//! terminal, and each format escapes it in its own way.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

use crate::common::pnml::{net, place};
use crate::common::{LONG, Running, Scratch, probeline, read_rows, run};
use serde_json::Value;

/// `--quiet` prints the summary; errors are still printed.
#[test]
fn quiet_prints_only_summary() {
    let explore = ["explore", "fms:2", "--table-size", "1MiB"];
    let all = run(&explore).printed();
    assert!(all.contains("probeline ") && all.contains("deadlocks: "), "{all}");
    // The option before and after the command's name.
    for line in [[&["--quiet"][..], &explore].concat(), [&explore[..], &["-q"]].concat()] {
        let quiet = run(&line).printed();
        assert_eq!(quiet.lines().count(), 1, "{quiet}");
        assert!(quiet.contains("3,444 states"), "{quiet}");
    }
    let said = run(&["-q", "explore", "nosuch.pnml"]).failed_in_one_line();
    assert!(said.contains("there is no such file"), "{said}");

    // Options of a tuning are inserted after the command's name, at any position of the name.
    let scratch = Scratch::new();
    let tuning = scratch.path("tuning.toml");
    let tune = ["tune", "-q", "--transport", "sim", "--table-size", "1MiB", "--rounds", "1"];
    run(&[&tune[..], &["--ops", "20", "--out", &tuning]].concat()).printed();
    let tuned = [&["-q"][..], &explore, &["--transport", "sim", "--tuning", &tuning]].concat();
    assert!(run(&tuned).printed().contains("3,444 states"));

    // `report` only writes files and prints nothing.
    let [json, page] = ["run.json", "page.html"].map(|name| scratch.path(name));
    run(&["topology", "-q", "--json", &json]).printed();
    assert_eq!(run(&["report", "-q", &json, "--html", &page]).printed(), "");
    assert!(Path::new(&page).exists());
}

#[test]
fn writes_results_to_standard_output() {
    let ended = run(&["topology", "--json", "-"]);
    let results: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert!(results["rows"].is_array() && ended.stderr.contains("CPUs"), "{ended:?}");
    assert!(!fs::exists("-").unwrap());
}

/// A reader may close the pipe early, like `head`.
#[test]
fn tolerates_closed_pipe() {
    let scratch = Scratch::new();
    let json = scratch.path("run.json");
    run(&["topology", "--json", &json]).printed();
    let commands: [&[&str]; 7] = [
        &["topology"],
        &["topology", "--json", "-"],
        &["explore", "fms:2", "--table-size", "1MiB"],
        &["doctor"],
        &["report", &json, "--html", "-"],
        &["completions", "bash"],
        &["--help"],
    ];
    for arguments in commands {
        let said = scratch.path("said");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = probeline(arguments);
        command.stdout(writer).stderr(File::create(&said).unwrap());
        let running = Running::start_with(&mut command);
        drop(command);
        let ended = running.end();
        let broken = arguments == ["doctor"] && ended.code == Some(3);
        assert!(ended.code == Some(0) || broken, "{arguments:?}: {ended:?}");
        let said = fs::read_to_string(said).unwrap();
        assert!(!said.contains("robeline: ") && !said.contains("panic"), "{arguments:?}: {said}");
    }
}

#[test]
fn checks_results_before_run() {
    let scratch = Scratch::new();
    let nowhere = scratch.path("no/such/directory/results");
    let directory = scratch.path("");
    let doctor = ["doctor", "--device", "nosuch0"];
    for (command, option) in [(&LONG[..], "--json"), (&LONG, "--csv"), (&doctor, "--json")] {
        for (path, why) in [(&nowhere, ErrorKind::NotFound), (&directory, ErrorKind::IsADirectory)]
        {
            // If the file were opened after the run, this would take minutes, above the limit of a
            // command here.
            let said = run(&[command, &[option, path]].concat()).failed_in_one_line();
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
fn refuses_shared_result_file() {
    let scratch = Scratch::new();
    let (file, link) = (scratch.path("results"), scratch.path("link"));
    let of = |csv: &str| run(&[&LONG[..], &["--json", &file, "--csv", csv]].concat());
    let said = of(&file).failed_in_one_line();
    assert!(said.contains("is also another output"), "{said}");
    assert!(!Path::new(&file).exists(), "nothing was there before");
    fs::write(&file, "of before").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    assert!(of(&link).failed_in_one_line().contains("give another file"));
    assert_eq!(fs::read(&file).unwrap(), b"of before");
}

#[test]
fn keeps_old_results_on_failure() {
    let scratch = Scratch::new();
    let before = "x".repeat(100_000);
    let [json, csv] = ["report.json", "rows.csv"].map(|name| scratch.file(name, &before));
    let run = |size| {
        let sizes = ["--table-size", size, "--max-table-size", size];
        run(&[&["explore", "fms:2", "--json", &json, "--csv", &csv], &sizes[..]].concat())
    };
    assert!(run("4KiB").failed_in_one_line().contains("the table is full"));
    for path in [&json, &csv] {
        assert_eq!(fs::read_to_string(path).unwrap(), before);
    }
    run("1MiB").printed();
    assert!(serde_json::from_slice::<Value>(&fs::read(json).unwrap()).is_ok());
    assert_eq!(read_rows(&csv).len(), 1);
}

/// Sets a terminal's title, clears the terminal (with 7-bit and 8-bit controls), reorders the
/// following text, and moves back over earlier output.
const EVIL: &str = "\u{1b}]0;t\u{7}\u{1b}[2J\u{9b}2J\u{202e}\u{2066}\r\u{8}\u{7f}x";

#[track_caller]
fn assert_safe(text: &str) {
    assert!(
        matches!(probeline_report::results::printable::lines(text), Cow::Borrowed(_)),
        "{text:?}"
    );
}

/// The name of a model is in its row, and therefore in every format of the results.
#[test]
fn each_format_escapes_names() {
    let scratch = Scratch::new();
    let name = format!("a|b\n<img src=x>&amp;\"{EVIL}.pnml");
    let model = scratch.file(&name, &net(&[place("p", 0)]));
    let [json, csv] = ["json", "csv"].map(|form| scratch.path(form));
    let files = ["--json", &json, "--csv", &csv];
    let explore = ["explore", &model, "--transport", "sim", "--table-size", "64KiB"];
    let printed = run(&[&explore[..], &files].concat()).printed();
    assert_safe(&printed);
    let in_one_line = probeline_report::results::printable::line(&model);
    let row = printed.lines().find(|line| line.contains(&*in_one_line));
    assert!(row.is_some(), "{printed}");

    let text = fs::read_to_string(json).unwrap();
    assert_safe(&text);
    let results: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(results["rows"][0]["model"], *model, "nothing is lost");

    let text = fs::read_to_string(csv).unwrap();
    assert_safe(&text);
    let mut rows = csv::Reader::from_reader(text.as_bytes());
    let rows: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 1, "{text}");
    assert_eq!(&rows[0][0], probeline_report::results::printable::lines(&model));
}
