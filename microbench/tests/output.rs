//! What becomes of the files for a command's results.

mod common;

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use common::{AT_ONCE, Scratch, read_rows, run};
use serde_json::Value;

/// Takes minutes; the tests end it once they have seen enough.
const LONG: [&str; 7] =
    ["bench-throughput", "--repeat", "999", "--ops", "100000", "--table-size", "8MiB"];

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
