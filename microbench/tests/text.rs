//! Text of files and arguments: no control character of it gets to a terminal, and every format
//! that is written escapes it its own way.

mod common;

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use common::{Scratch, run};
use serde_json::{Value, json};

/// Sets a terminal's title, clears it (in seven and in eight bits), reorders what follows, and goes
/// back to what was printed before.
const EVIL: &str = "\u{1b}]0;t\u{7}\u{1b}[2J\u{9b}2J\u{202e}\u{2066}\r\u{8}\u{7f}x";

/// How that is shown.
const SHOWN: &str = r"\u{1b}]0;t\u{7}\u{1b}[2J\u{9b}2J\u{202e}\u{2066}\u{d}\u{8}\u{7f}x";

#[track_caller]
fn assert_safe(text: &str) {
    assert!(matches!(printable::lines(text), Cow::Borrowed(_)), "{text:?}");
}

/// Checks what was said, and that it shows the name.
#[track_caller]
fn assert_shown(said: &str) {
    assert_safe(said);
    assert!(said.contains(SHOWN), "{said}");
}

#[test]
fn errors_show_what_files_and_arguments_are_called() {
    let scratch = Scratch::new();
    let page = scratch.path("page.html");

    let name = format!("{EVIL}\nprobeline: all is well");
    let run_of = json!({ "schema": 5, "command": name, "rows": [] }).to_string();
    let json = scratch.file("run.json", &run_of);
    let said = run(&["report", &json, "--html", &page]).failed_in_one_line();
    assert_shown(&said);
    assert!(said.contains(r"\u{a}probeline: all"), "{said}");

    let missing = scratch.path(&format!("{EVIL}.pnml"));
    assert_shown(&run(&["explore", &missing]).failed_in_one_line());
    assert_shown(&run(&["doctor", "--device", EVIL]).failed_in_one_line());

    // By clap: an option, a command, a value.
    assert_shown(&run(&["explore", "fms:2", &format!("--{EVIL}")]).failed());
    assert_shown(&run(&[EVIL]).failed());
    assert_shown(&run(&["explore", "fms:2", "--transport", EVIL]).failed());
}

/// XML has no C0 characters but newlines and tabs; it has C1 and text directions.
#[test]
fn errors_show_the_names_of_a_net() {
    let scratch = Scratch::new();
    let id = "\u{9b}2J\u{85}\u{9f}\u{202e}\u{2069}p";
    let net = net(&format!("<place id=\"{id}\"/><place id=\"{id}\"/>"));
    let file = scratch.file("net.pnml", &net);
    let said = run(&["explore", &file]).failed_in_one_line();
    assert_safe(&said);
    assert!(said.contains(r"\u{9b}2J\u{85}\u{9f}\u{202e}\u{2069}p"), "{said}");
}

fn net(places: &str) -> String {
    format!(
        "<pnml xmlns=\"http://www.pnml.org/version-2009/grammar/pnml\">
         <net id=\"n\" type=\"http://www.pnml.org/version-2009/grammar/ptnet\"><page id=\"g\">
         {places}</page></net></pnml>"
    )
}

/// The name of a model is in its row, and so in every form of the results.
#[test]
fn each_form_of_the_results_escapes_a_name_its_own_way() {
    let scratch = Scratch::new();
    let name = format!("a|b\n<img src=x>&amp;\"{EVIL}.pnml");
    let model = scratch.file(&name, &net("<place id=\"p\"/>"));
    let [json, csv, markdown] = ["json", "csv", "md"].map(|form| scratch.path(form));
    let files = ["--json", &json, "--csv", &csv, "--markdown", &markdown];
    let explore = ["explore", &model, "--transport", "sim", "--table-size", "64KiB"];
    let printed = run(&[&explore[..], &files].concat()).printed();
    assert_shown(&printed);
    let in_one_line = printable::line(&model);
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
    assert_eq!(&rows[0][0], printable::lines(&model));

    let text = fs::read_to_string(markdown).unwrap();
    assert_safe(&text);
    let cells = |line: &str| line.replace(r"\|", "").matches('|').count();
    let table: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(table.len(), 3, "head, ruler and a row: {text}");
    assert!(table.iter().all(|line| cells(line) == cells(table[0])), "{text}");
    assert!(text.contains(r"\<img src=x>\&amp;") && !text.contains(" <img"), "{text}");
}

/// What a profile says of itself is in the header of its runs, and so in their page.
#[test]
fn reports_show_what_a_profile_is_called() {
    let scratch = Scratch::new();
    let value = "{ value = 1000000, kind = \"measured\", source = \"a test\" }";
    let quoted = Value::from(EVIL).to_string().replace('\u{7f}', "\\u007f");
    let profile = format!(
        "name = {quoted}\nabout = {quoted}\n[remote]\nread_base_ns = {value}\n\
         read_word_ps = {value}\natomic_ns = {value}\n[nic]\nreads_per_s = {value}\n\
         bytes_per_s = {value}\natomics_per_s = {value}\n"
    );
    let profile = scratch.file("own.toml", &profile);
    let [json, markdown, page] = ["json", "md", "page.html"].map(|form| scratch.path(form));
    let simulate = ["simulate", "--experiment", "throughput", "--workload", "mixed", "--ops", "20"];
    let shape = ["--machines", "2", "--ranks-per-machine", "1", "--profile", &profile];
    let files = ["--json", &json, "--markdown", &markdown];
    assert_shown(&run(&[&simulate[..], &shape, &files].concat()).printed());
    let text = fs::read_to_string(&json).unwrap();
    assert_safe(&text);
    let results: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(results["parameters"]["profile"], *EVIL);
    assert_safe(&fs::read_to_string(markdown).unwrap());

    let svg = scratch.path(&format!("pictures {EVIL}"));
    let printed = run(&["report", &json, "--html", &page, "--svg", &svg]).printed();
    assert_shown(&printed);
    let page = fs::read_to_string(page).unwrap();
    assert_safe(&page);
    assert!(page.contains(SHOWN));
    for picture in fs::read_dir(svg).unwrap() {
        assert_safe(&fs::read_to_string(picture.unwrap().path()).unwrap());
    }
}

/// Plots of a run that somebody else has made are files in the folder that was named.
#[test]
fn a_workload_names_no_file_outside_the_folder() {
    let scratch = Scratch::new();
    let rows: Vec<Value> = ["x/../../escaped", "x-escaped", ""]
        .iter()
        .map(|workload| {
            json!({
                "experiment": "throughput", "machines": 2, "ranks_per_machine": 1,
                "workload": workload, "ops_per_s": 1e6, "mean_latency_ns": 1e3,
            })
        })
        .collect();
    let run_of = json!({ "schema": 5, "command": "simulate", "parameters": {}, "rows": rows });
    let json = scratch.file("run.json", &run_of.to_string());
    let svg = scratch.path("svg");
    // There, so that the path through it would lead on.
    fs::create_dir_all(scratch.path("svg/simulated-x")).unwrap();
    let printed = run(&["report", &json, "--svg", &svg]).printed();
    assert!(printed.contains("plots: 3 files in "), "{printed}");
    let names = |folder: &str| {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let pictures = ["simulated-x-escaped-2.svg", "simulated-x-escaped.svg", "simulated.svg"];
    let inside = [&["simulated-x"][..], &pictures].concat();
    assert_eq!(names(&svg), inside);
    assert_eq!(names(&scratch.path("")), ["run.json", "svg"]);
}

/// All that the command prints goes through one file, which makes it safe.
#[test]
fn nothing_else_writes_to_the_terminal() {
    let writers = ["print!(", "println!(", "io::stdout()", "io::stderr()", ".print()", "dbg!("];
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let allowed = [
        src.join("terminal.rs"),
        // Answers of a rank to the command that has started it, through a pipe, in JSON.
        src.join("scenario/compare/order.rs"),
    ];
    let mut folders = vec![src];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            // That is of a report, not of a stream.
            let text = fs::read_to_string(&path).unwrap().replace("self.print()", "");
            let found = writers.iter().find(|writer| text.contains(**writer));
            files += 1;
            assert!(found.is_none() || allowed.contains(&path), "{}: {found:?}", path.display());
        }
    }
    assert!(files > 40, "{files}");
}
