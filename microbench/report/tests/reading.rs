//! Tests of the files that the report accepts, and of the errors for others.

use core::time::Duration;
use std::borrow::Cow;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;

use crate::runs::{Scratch, all, by_ranks, latency, run, throughput};
use probeline_report::results::SCHEMA;
use probeline_report::results::printable::{line, lines};
use probeline_report::{Error, Report, TITLE};
use serde_json::{Value, json};

/// Longer than reading any file takes.
const LIMIT: Duration = Duration::from_secs(20);

fn read(files: &[PathBuf]) -> Result<Report, Error> {
    Report::read(files)
}

/// Returns the error for a file with this content.
#[track_caller]
fn refused(content: &str) -> String {
    let scratch = Scratch::new();
    let file = scratch.file("wrong.json", content);
    let good = scratch.file("good.json", latency("shm", 1.0).to_string());
    let said = read(&[good, file.clone()]).err().expect("it is refused").to_string();
    assert!(said.contains(&file.display().to_string()), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

#[test]
fn refuses_other_files_with_advice() {
    let mut other = latency("shm", 1.0);
    other["schema"] = json!(SCHEMA + 1);
    let empty = run("bench-latency", "shm", json!({}), json!([]));
    for (content, said) in [
        ("", "is empty"),
        (" \n", "is empty"),
        ("C,load\n8,0.1\n", "not the JSON of a run (expected value"),
        ("{\"schema\": 3, \"command\": \"bench-", "not the JSON of a run (EOF"),
        ("[1, 2]", "not the JSON of a run (invalid type"),
        ("7", "not the JSON of a run (invalid type"),
        ("{}", "missing field `schema`"),
        ("{\"command\": \"bench-latency\"}", "missing field `schema`"),
        ("{\"schema\": 1}", "missing field `command`"),
        (&other.to_string(), "has schema 2, and this build reads schema 1"),
        (&empty.to_string(), "bench-latency without results"),
        ("{\"schema\":1,\"command\":\"simulate\"}", "simulate without results"),
        ("{\"schema\":1,\"command\":\"simulate\",\"rows\":7}", "expected a sequence"),
        ("{\"schema\":1,\"command\":\"another\",\"rows\":[7]}", "expected a map"),
        ("{\"schema\":1,\"command\":\"doctor\",\"rows\":[]}", "doctor without results"),
    ] {
        let text = refused(content);
        assert!(text.contains(said), "{text}");
        let next_steps = ["--json", "make the report with", "run it again"];
        assert!(next_steps.iter().any(|step| text.contains(step)), "{text}");
    }
}

/// Opening a FIFO without a writer, or reading a device to its end, would never return.
#[test]
fn reads_only_bounded_regular_files() {
    let scratch = Scratch::new();
    let pipe = scratch.path("a-pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for other in [pipe, PathBuf::from("/dev/zero"), scratch.path("")] {
        let (send, said) = channel();
        let asked = other.clone();
        thread::spawn(move || send.send(read(&[asked]).err().unwrap().to_string()));
        let said = said.recv_timeout(LIMIT).expect("an answer at once");
        assert!(said.contains(&other.display().to_string()) && said.contains("is not a file"));
    }
    let large = scratch.path("large.json");
    fs::File::create(&large).unwrap().set_len((64 << 20) + 1).unwrap();
    let said = read(&[large]).err().unwrap().to_string();
    assert!(said.contains("large.json has more than 64 MiB"), "{said}");
}

#[test]
fn names_missing_and_unwritable_files() {
    let scratch = Scratch::new();
    let said = read(&[scratch.path("nowhere.json")]).err().unwrap().to_string();
    assert!(said.contains("nowhere.json") && said.contains("cannot be read"), "{said}");
    let report = read(&scratch.runs(&[latency("shm", 1.0)])).unwrap();
    let file = scratch.file("a-file", "");
    let said = report.write_svgs(&file.join("folder")).unwrap_err().to_string();
    assert!(said.contains("a-file") && said.contains("cannot be written"), "{said}");
}

#[test]
fn deduplicates_runs() {
    let scratch = Scratch::new();
    let one = latency("shm", 1.0);
    let files = scratch.runs(&[one.clone(), latency("shm", 2.0), one]);
    let page = read(&files).unwrap().html(TITLE);
    assert!(page.contains("id=\"run-2\"") && !page.contains("id=\"run-3\""));
    for file in files {
        assert!(page.contains(&file.display().to_string()), "{}", file.display());
    }
    // Two runs that differ only in their results have different names.
    assert!(page.contains("shm, run 1") && page.contains("shm, run 2"));
}

/// Plots without data are left out, and runs of other ranks share series.
#[test]
fn plots_what_runs_have() {
    let mut old = latency("shm", 1.0);
    for row in old["rows"].as_array_mut().unwrap() {
        row.as_object_mut().unwrap().remove("histogram");
    }
    for (runs, expected) in [
        (vec![throughput("shm", 2, 1e6)], "throughput 3"),
        ([1, 4].map(by_ranks).concat(), "queue-pushes 2, queue-pops 2, isx 1, dsm 1"),
        // Beside three series of the paper each.
        (vec![old], "latency-inserted 6, latency-found 3, roundtrips-effective 6"),
    ] {
        let scratch = Scratch::new();
        let report = read(&scratch.runs(&runs)).unwrap();
        let plot = |(name, svg): &(String, String)| {
            format!("{name} {}", svg.matches("class=\"series").count())
        };
        let plots: Vec<String> = report.svgs().iter().map(plot).collect();
        assert_eq!(plots.join(", "), expected);
        assert!(report.html(TITLE).contains("no findings of the doctor"));
    }
}

#[test]
fn shows_unknown_commands() {
    let scratch = Scratch::new();
    let bench = json!({
        "schema": SCHEMA, "command": "bench-speed", "version": "9", "cpu": "A CPU", "seconds": 12.5,
        "targets": [{ "name": "batched finds", "needed": 0.75, "met": true }],
    });
    let report = read(&scratch.runs(&[all().pop().unwrap(), bench])).unwrap();
    assert!(report.svgs().is_empty());
    let page = report.html(TITLE);
    for text in [
        "from-the-future",
        "a row",
        "a window cannot be registered",
        "ulimit -l unlimited",
        "bench-speed",
        "batched finds",
        "12.5",
    ] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn shows_findings() {
    let scratch = Scratch::new();
    let page = |doctor: Value| {
        let mut one = latency("shm", 1.0);
        one["doctor"] = doctor;
        read(&scratch.runs(&[one])).unwrap().html(TITLE)
    };
    for verdict in ["broken", "fine", "of a later version"] {
        let finding = json!({ "check": "mtu", "verdict": verdict, "seen": "first" });
        assert!(page(json!([finding])).contains("mtu: first"), "{verdict}");
    }
    assert!(page(json!([])).contains("findings</h4><p>None.</p>"));
}

/// The summaries precede all plots, and their columns stay aligned.
#[test]
fn summaries_precede_plots() {
    let scratch = Scratch::new();
    let mut one = latency("shm", 1.0);
    let page = |run: &Value| read(&scratch.runs(core::slice::from_ref(run))).unwrap().html(TITLE);
    let before = page(&one);
    one["summary"] = json!(["operation    p50", "READ 64 B  98 ns"]);
    let after = page(&one);
    let answer = "<p><code>operation    p50\nREAD 64 B  98 ns</code></p>";
    let (head, rest) = after.split_once(answer).unwrap_or_else(|| panic!("{after}"));
    assert!(head.contains("bench-latency over shm, 2 ranks") && rest.contains("<nav"));
    assert_eq!(format!("{head}{rest}"), before, "nothing else changes");
}

/// Entities do not help against control characters: XML has none for them.
#[test]
fn escapes_html_and_control_characters() {
    let scratch = Scratch::new();
    let html = "</title><script>alert(1)</script><img src=x onerror='a' \"b\">&amp;";
    for evil in [html, "a\u{1b}]0;b\u{7}c\u{9b}2J\u{202e}d\u{8}\r\u{7f}\0"] {
        let mut one = latency(evil, 1.0);
        one["machine"]["cpu"] = json!(evil);
        one["notes"] = json!([evil]);
        one["summary"] = json!([evil]);
        one["rows"][0]["operation"] = json!(evil);
        one[evil] = json!(evil);
        one["doctor"] = json!([{ "verdict": evil, "seen": evil, evil: evil }]);
        let report = read(&[scratch.file("<b>.json", one.to_string())]).unwrap();
        let page = report.html(evil);
        let shown = evil.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let shown = shown.replace('"', "&quot;");
        assert!(page.contains(&*line(&shown)), "{shown}");
        for (name, text) in report.svgs().into_iter().chain([("page".to_owned(), page)]) {
            assert!(matches!(lines(&text), Cow::Borrowed(_)), "{name}: {text:?}");
            for tag in ["<script>alert", "<img", "<b>"] {
                assert!(!text.contains(tag), "{name}: {tag}");
            }
        }
    }
}

#[test]
fn page_is_reproducible() {
    let scratch = Scratch::new();
    let files = scratch.runs(&all());
    let page = || read(&files).unwrap().html(TITLE);
    assert_eq!(page(), page());
}

/// Each field of each row has every form of a JSON number, and other values in place of a number.
#[test]
fn accepts_any_number() {
    let map = json!([{ "mode": "claims", "workload": "read", "keys": "zipf", "ranks": 2,
        "load_factor": 0.5, "median_ops_per_s": 4e6 }]);
    let peers = json!([{ "measured": "sort", "system": "other", "times_probeline": 2.5 }]);
    let more = [("bench-map", map), ("bench-peers", peers)]
        .map(|(command, rows)| run(command, "shm", json!({}), rows));
    let mut runs = [all(), more.into()].concat();
    runs.sort_by_key(|run| run["command"].to_string());
    runs.dedup_by_key(|run| run["command"].to_string());
    let odd = json!([f64::MAX, 1e-300, -0.5, u64::MAX, 0, -1, null, true, "text", [[1, 2], [3]]]);
    for (one, odd) in
        runs.iter().flat_map(|run| odd.as_array().unwrap().iter().map(move |odd| (run, odd)))
    {
        let scratch = Scratch::new();
        let mut one = one.clone();
        let rows = one["rows"].as_array_mut().unwrap();
        for row in rows.clone() {
            for name in row.as_object().unwrap().keys() {
                let mut row = row.clone();
                row[name] = odd.clone();
                rows.push(row);
            }
        }
        one["candidates"] = one["rows"].clone();
        let report = read(&scratch.runs(&[one])).unwrap();
        let page = report.html(TITLE);
        assert!(page.ends_with("</html>"), "{odd}");
        assert!(!page.contains("NaN") && !page.contains("inf "), "{odd}");
        report.svgs();
    }
}
