//! Text from files and arguments: no control character in it reaches a terminal, and each output
//! format escapes it in its own way.

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use crate::common::pnml::{net, place};
use crate::common::{Scratch, run};
use serde_json::{Value, json};

/// Sets a terminal's title, clears the terminal (with 7-bit and 8-bit controls), reorders the
/// following text, and moves back over earlier output.
const EVIL: &str = "\u{1b}]0;t\u{7}\u{1b}[2J\u{9b}2J\u{202e}\u{2066}\r\u{8}\u{7f}x";

/// The escaped form of [`EVIL`].
const SHOWN: &str = r"\u{1b}]0;t\u{7}\u{1b}[2J\u{9b}2J\u{202e}\u{2066}\u{d}\u{8}\u{7f}x";

#[track_caller]
fn assert_safe(text: &str) {
    assert!(
        matches!(probeline_report::results::printable::lines(text), Cow::Borrowed(_)),
        "{text:?}"
    );
}

/// Checks that the text is safe and contains the escaped name.
#[track_caller]
fn assert_shown(said: &str) {
    assert_safe(said);
    assert!(said.contains(SHOWN), "{said}");
}

#[test]
fn errors_escape_files_and_arguments() {
    let scratch = Scratch::new();
    let page = scratch.path("page.html");

    let name = format!("{EVIL}\nprobeline: all is well");
    let run_of = json!({ "schema": 1, "command": name, "rows": [] }).to_string();
    let json = scratch.file("run.json", &run_of);
    let said = run(&["report", &json, "--html", &page]).failed_in_one_line();
    assert_shown(&said);
    assert!(said.contains(r"\u{a}probeline: all"), "{said}");

    let missing = scratch.path(&format!("{EVIL}.pnml"));
    assert_shown(&run(&["explore", &missing]).failed_in_one_line());
    assert_shown(&run(&["doctor", "--device", EVIL]).failed_in_one_line());
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
    assert_shown(&printed);
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

/// All output of the command goes through one file, which escapes it.
#[test]
fn only_terminal_module_prints() {
    let writers = ["print!(", "println!(", "io::stdout()", "io::stderr()", ".print()", "dbg!("];
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let allowed = src.join("terminal.rs");
    let mut folders = vec![src];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            // `Report::print` does not write to a stream directly.
            let text = fs::read_to_string(&path).unwrap().replace("self.print()", "");
            let found = writers.iter().find(|writer| text.contains(**writer));
            files += 1;
            assert!(found.is_none() || allowed == path, "{}: {found:?}", path.display());
        }
    }
    assert!(files > 40, "{files}");
}
